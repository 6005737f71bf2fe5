package main

import (
	"context"
	"database/sql"
	"errors"
	"net/url"

	"github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"
)

// The ways in which programs lock by a database's own statements. Each task has a connection of its own: that is what holds the lock.
var databaseLocks = []contender{
	pgx.contender("pg_advisory_lock (pgx)", functions(
		"SELECT pg_advisory_lock(hashtextextended($1, 0))::text", "SELECT pg_advisory_unlock(hashtextextended($1, 0))")),
	pgx.contender("FOR UPDATE (pgx)", forUpdate(
		"INSERT INTO lockwright_locks VALUES ($1, 1, 'row', '', now()) ON CONFLICT DO NOTHING",
		"SELECT version FROM lockwright_locks WHERE key = $1 FOR UPDATE")),
	goMysql.contender("GET_LOCK (Go-MySQL-Driver)", functions("SELECT GET_LOCK(?, 60)", "SELECT RELEASE_LOCK(?)")),
	goMysql.contender("FOR UPDATE (Go-MySQL-Driver)", forUpdate(
		"INSERT IGNORE INTO lockwright_locks VALUES (?, 1, 'row', '', 0)",
		"SELECT version FROM lockwright_locks WHERE name = ? FOR UPDATE")),
	// One statement makes the row its own unless somebody has it, the other gives it back; each is a commit.
	goMysql.contender("Raw pair of statements, MariaDB", changes(
		"INSERT IGNORE INTO lockwright_locks VALUES (?, 1, 'row', 'free', 0)",
		"UPDATE lockwright_locks SET record = 'held', version = version + 1 WHERE name = ? AND record = 'free'",
		"UPDATE lockwright_locks SET record = 'free', version = version + 1 WHERE name = ? AND record = 'held'")).yardstick(),
}

// driver is one database's.
type driver struct {
	rows            []string
	library, module string
	open            func(address *url.URL) (*sql.DB, error)
}

var pgx = driver{[]string{"S10", "S10C"}, "pgx", "github.com/jackc/pgx/v5", func(address *url.URL) (*sql.DB, error) {
	return sql.Open("pgx", address.String())
}}

var goMysql = driver{[]string{"S10M", "S10MC"}, "Go-MySQL-Driver", "github.com/go-sql-driver/mysql", func(address *url.URL) (*sql.DB, error) {
	config := mysql.NewConfig()
	config.Net, config.Addr, config.DBName = "tcp", address.Host, address.Path[1:]
	config.User = address.User.Username()
	config.Passwd, _ = address.User.Password()
	return sql.Open("mysql", config.FormatDSN())
}}

type lockOn func(connection *sql.Conn, key string) (lock, error)

func (d driver) contender(name string, of lockOn) contender {
	connect := func(servers []*url.URL) (func(string) (lock, error), error) {
		pool, err := d.open(servers[0])
		return func(key string) (lock, error) {
			connection, err := pool.Conn(context.Background())
			if err != nil {
				return nil, err
			}
			// A row is of one kind, and all contenders share a table.
			return of(connection, name+" "+key)
		}, err
	}
	return contender{name: name, rows: d.rows, library: d.library, module: d.module, requests: []string{"all"}, connect: connect}
}

// prepared are two statements about one key.
type prepared struct {
	key             string
	acquires, frees *sql.Stmt
}

func prepare(connection *sql.Conn, key, acquires, frees string) (p prepared, err error) {
	p.key = key
	if p.acquires, err = connection.PrepareContext(context.Background(), acquires); err == nil {
		p.frees, err = connection.PrepareContext(context.Background(), frees)
	}
	return p, err
}

// answered are functions of the database that lock.
type answered struct{ prepared }

func functions(acquires, frees string) lockOn {
	return func(connection *sql.Conn, key string) (lock, error) {
		p, err := prepare(connection, key, acquires, frees)
		return answered{p}, err
	}
}

func (a answered) acquire() error { return asked(a.acquires, a.key) }
func (a answered) release() error { return asked(a.frees, a.key) }

func asked(statement *sql.Stmt, key string) error {
	var answer any
	return statement.QueryRow(key).Scan(&answer)
}

// changing are statements that change one row.
type changing struct{ prepared }

func changes(makes, acquires, frees string) lockOn {
	return func(connection *sql.Conn, key string) (lock, error) {
		if _, err := connection.ExecContext(context.Background(), makes, key); err != nil {
			return nil, err
		}
		p, err := prepare(connection, key, acquires, frees)
		return changing{p}, err
	}
}

func (c changing) acquire() error { return changed(c.acquires, c.key) }
func (c changing) release() error { return changed(c.frees, c.key) }

func changed(statement *sql.Stmt, key string) error {
	result, err := statement.Exec(key)
	if err != nil {
		return err
	}
	if rows, err := result.RowsAffected(); err != nil || rows != 1 {
		return errors.Join(err, errors.New("somebody else uses its row"))
	}
	return nil
}

// rowLock is a row's own lock, until its transaction ends.
type rowLock struct {
	connection  *sql.Conn
	key, locks  string
	transaction *sql.Tx
}

func forUpdate(makes, locks string) lockOn {
	return func(connection *sql.Conn, key string) (lock, error) {
		_, err := connection.ExecContext(context.Background(), makes, key)
		return &rowLock{connection: connection, key: key, locks: locks}, err
	}
}

func (r *rowLock) acquire() (err error) {
	if r.transaction, err = r.connection.BeginTx(context.Background(), nil); err != nil {
		return err
	}
	var version int64
	return r.transaction.QueryRow(r.locks, r.key).Scan(&version)
}

func (r *rowLock) release() error { return r.transaction.Commit() }
