//! The whole way down and back over a MariaDB.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use advisory::Advisory;
use lockwright::Kind;
use lockwright::finding::Severity;
use lockwright::lease::ReleaseOutcome;
use one_server::tables::Tables;
use one_server::{client, is_anothers_after_all, is_taken_and_given_back, name, serves_a_thousand_tasks, until};

mod advisory;
mod gate;
mod one_server;

fn address() -> String {
    std::env::var("LOCKWRIGHT_TEST_MARIADB").unwrap_or_else(|_| {
        panic!(
            "these tests need a MariaDB: run `conformance/services/mariadb.sh start` and set LOCKWRIGHT_TEST_MARIADB to the \
             address it prints"
        )
    })
}

/// Host, port and database.
fn place() -> (String, String, String) {
    let uri = address();
    let (_, place) = uri.split_once('@').unwrap();
    let (server, database) = place.split_once('/').unwrap();
    let (host, port) = server.split_once(':').unwrap();
    (host.into(), port.into(), database.into())
}

/// The operator's own program.
fn operator() -> Command {
    let (host, port, database) = place();
    let mut command = Command::new("mariadb");
    command.args(["--no-defaults", "-h", &host, "-P", &port, "-u", "root", "-BN", "--unbuffered", &database]);
    command
}

/// What it says.
fn sql(statement: &str) -> String {
    let done = operator().args(["-e", statement]).output().unwrap();
    assert!(done.status.success(), "{statement}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap().trim().to_owned()
}

#[test]
fn a_lock_is_taken_and_given_back_and_tokens_rise() {
    let (client, name) = (client(&address(), ""), name("x"));
    is_taken_and_given_back(&client, &name);
    let hold = format!("SELECT JSON_VALUE(record, '$.lock.hold') IS NULL FROM lockwright_locks WHERE name = '{name}'");
    assert_eq!(sql(&hold), "1");
}

/// Each of these is one name to some collation of text, `utf8mb4_bin` among them.
#[test]
fn names_that_a_collation_takes_for_one_are_not_one() {
    let (client, name) = (client(&address(), ""), name("x"));
    let alike = ["", " ", "  ", "A", "a", "ä", "a\u{308}", "ß", "ss", "'", "\\", "%", "\u{1F512}"];
    let held: Vec<_> =
        alike.iter().map(|end| client.lock(&format!("{name}{end}")).try_acquire().unwrap().unwrap()).collect();
    assert!(held.iter().all(|guard| guard.is_held()));
    let listed = client.list().unwrap();
    assert_eq!(listed.iter().filter(|listed| listed.starts_with(&name)).count(), alike.len());
}

#[test]
fn a_lock_of_ones_own_so_far_may_be_anothers() {
    let uri = address();
    is_anothers_after_all(&client(&uri, ""), &client(&uri, ""), &name("x"));
}

#[test]
fn a_verb_of_whoever_has_a_lock_for_itself_is_one_prepared_statement() {
    let _server = SERVER.lock().unwrap_or_else(PoisonError::into_inner);
    let user = user("");
    let (host, port, database) = place();
    let client = client(&format!("mariadb://{user}:x@{host}:{port}/{database}"), "");
    let name = name("x");
    is_taken_and_given_back(&client, &name);
    let count = || {
        let looks = "SELECT SELECT_COMMANDS, UPDATE_COMMANDS, ACCESS_DENIED + ROLLBACK_TRANSACTIONS";
        sql(&format!("{looks} FROM information_schema.USER_STATISTICS WHERE USER = '{user}'"))
    };
    let numbers = |text: &str| text.split('\t').map(|number| number.parse::<i64>().unwrap()).collect::<Vec<_>>();
    let executed =
        || sql("SHOW GLOBAL STATUS LIKE 'Com_stmt_execute'").split_once('\t').unwrap().1.parse::<i64>().unwrap();
    let (before, executed_before) = (numbers(&count()), executed());
    for _ in 0..10 {
        let _ = client.lock(&name).acquire().unwrap().release().unwrap();
    }
    let (after, executed_after) = (numbers(&count()), executed());
    assert_eq!([after[0] - before[0], after[1] - before[1]], [0, 20], "{before:?} {after:?}");
    assert!(executed_after - executed_before >= 20, "{executed_before} {executed_after}");
    sql(&format!("DROP USER {user}"));
}

#[test]
fn whoever_waits_is_served_and_nobody_elses_lock_is_given_back() {
    let uri = address();
    let (first, second, name) = (client(&uri, ""), client(&uri, ""), name("x"));
    let held = first.lock(&name).ttl(Duration::from_millis(300)).renew(false).acquire().unwrap();
    let next = second.lock(&name).acquire().unwrap();
    assert!(next.token() > held.token() && !held.is_held());
    assert!(held.extend(Duration::from_secs(9)).is_err());
    assert!(held.release().map_or(true, |outcome| outcome != ReleaseOutcome::Released));
    assert!(next.is_held() && first.lock(&name).try_acquire().unwrap().is_none());
    next.extend(Duration::from_secs(90)).unwrap();
    assert!(next.remaining() > Duration::from_secs(60));
    let seen = first.inspect(&name).unwrap().holder.unwrap();
    assert_eq!((seen.first_token, seen.card.pid), (next.token().n, std::process::id()));
    let token = next.token();
    assert!(first.break_lock(&name, token).unwrap());
    assert!(first.lock(&name).try_acquire().unwrap().is_some());
}

#[test]
fn what_is_wrong_is_said_with_what_to_do() {
    let (host, port, database) = place();
    let says = |uri: &str, kind: Kind, part: &str| {
        let client = client(uri, "store_timeout=1s&connect_timeout=300ms");
        let error = client.lock(&name("x")).acquire().unwrap_err();
        assert_eq!(error.kind(), kind, "{uri}: {error}");
        let shown = format!("{error} {error:?}");
        assert!(shown.contains(part) && !shown.contains("hunter2"), "{uri}: {shown}");
    };
    let server = format!("{host}:{port}");
    says(&format!("mysql://locker:hunter2@{server}/{database}"), Kind::Auth, "refused the user or the password");
    says(&format!("mysql://root@{server}/hidden"), Kind::InvalidConfig, "there is no such database");
    says(&format!("mysql://root@{server}/mysql"), Kind::InvalidConfig, "lockwright schema");
    says("mysql://root:hunter2@127.0.0.1:1/x", Kind::Unavailable, "nothing listens there");
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = other.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in other.incoming() {
            let _ = stream.unwrap().write_all(b"SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n");
        }
    });
    says(&format!("mysql://root:hunter2@{at}/x"), Kind::Protocol, "neither MySQL nor MariaDB");
    let nameless = lockwright::blocking::connect(&format!("mysql://root@{server}")).unwrap_err();
    assert!(nameless.to_string().contains("names no database"), "{nameless}");
}

#[test]
fn a_later_versions_row_is_refused_by_its_word() {
    let (client, name) = (client(&address(), ""), name("x"));
    sql(&format!("INSERT INTO lockwright_locks VALUES ('{name}', 1, 'carousel', '{{}}', 0)"));
    let error = client.lock(&name).acquire().unwrap_err();
    assert_eq!(error.kind(), Kind::ForeignLayout);
    assert!(error.to_string().contains("this name is a carousel's"), "{error}");
}

/// A user who may do what programs need, with `limits`.
fn user(limits: &str) -> String {
    let user = name("u").replace(['-', '/'], "");
    sql(&format!("CREATE USER {user} IDENTIFIED BY 'x' {limits}"));
    sql(&format!("GRANT SELECT, INSERT, UPDATE, DELETE ON lockwright_locks TO {user}"));
    sql(&format!("GRANT SELECT, INSERT, DELETE ON lockwright_told TO {user}"));
    user
}

/// A database of its own, of the operator's user.
struct Database(String);

impl Database {
    fn new() -> Self {
        let own = name("d").replace(['-', '/'], "_");
        sql(&format!("CREATE DATABASE {own}"));
        Database(own)
    }

    fn uri(&self) -> String {
        let (host, port, _) = place();
        format!("mysql://root@{host}:{port}/{}", self.0)
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let _ = operator().args(["-e", &format!("DROP DATABASE {}", self.0)]).output();
    }
}

#[test]
fn a_table_that_keeps_nothing_together_or_folds_names_is_refused() {
    for (columns, engine) in [("name varbinary(9)", "Aria"), ("name varchar(9)", "InnoDB")] {
        let own = Database::new();
        sql(&format!("CREATE TABLE {}.lockwright_locks ({columns}) ENGINE = {engine}", own.0));
        let error = client(&own.uri(), "").lock("x").acquire().unwrap_err();
        assert_eq!(error.kind(), Kind::InvalidConfig, "{error}");
        assert!(error.to_string().contains("not one of the engine InnoDB"), "{error}");
    }
}

#[test]
fn connections_that_end_are_made_again_and_nothing_held_is_lost() {
    let (client, name) = (client(&address(), "ttl=5s"), name("x"));
    let guard = client.lock(&name).acquire().unwrap();
    // By the operator, and by the server since nothing was asked for a second.
    for end in ["KILL USER locker", "SET GLOBAL wait_timeout = 1"] {
        sql(end);
        if end.starts_with("SET") {
            let _ = lockwright::blocking::connect(&address()).unwrap().lock(&format!("{name}-new")).acquire().unwrap();
            until("the server ends them", || {
                sql("SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE USER = 'locker' AND TIME > 1") == "0"
            });
            sql("SET GLOBAL wait_timeout = 28800");
        }
        let other = client.lock(&format!("{name}-other")).acquire().unwrap();
        assert_eq!(other.release().unwrap(), ReleaseOutcome::Released);
    }
    assert!(guard.is_held());
    guard.extend(Duration::from_secs(5)).unwrap();
    assert_eq!(guard.release().unwrap(), ReleaseOutcome::Released);
}

/// Somebody's transaction that stays open.
struct Open {
    process: Child,
    says: std::process::ChildStdin,
}

impl Open {
    fn on(statement: &str) -> Self {
        let mut process =
            operator().stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped()).spawn().unwrap();
        let mut says = process.stdin.take().unwrap();
        writeln!(says, "START TRANSACTION; {statement}; SELECT 'open';").unwrap();
        let mut answers = process.stdout.take().unwrap();
        let mut heard = String::new();
        while !heard.contains("open") {
            let mut some = [0; 256];
            let read = answers.read(&mut some).unwrap();
            assert!(read > 0, "{heard}");
            heard.push_str(&String::from_utf8_lossy(&some[..read]));
        }
        Open { process, says }
    }

    fn ends(mut self) {
        writeln!(self.says, "ROLLBACK;").unwrap();
        drop(self.says);
        assert!(self.process.wait().unwrap().success());
    }
}

/// The time limit is looked at behind the row: what comes late does nothing. Others of the client go on meanwhile.
#[test]
fn a_row_that_somebody_keeps_is_waited_for_in_vain_and_nothing_is_done_late() {
    let (client, name) = (client(&address(), "store_timeout=2s&response_timeout=500ms"), name("x"));
    let _ = client.lock(&name).acquire().unwrap().release().unwrap();
    let open = Open::on(&format!("SELECT * FROM lockwright_locks WHERE name = '{name}' FOR UPDATE"));
    let error = client.lock(&name).acquire().unwrap_err();
    assert_eq!(error.kind(), Kind::Unavailable, "{error}");
    let other = client.lock(&format!("{name}-other")).acquire().unwrap();
    assert_eq!(other.release().unwrap(), ReleaseOutcome::Released);
    open.ends();
    until("it is free", || client.inspect(&name).is_ok_and(|seen| seen.holder.is_none()));
    let guard = client.lock(&name).try_acquire().unwrap().unwrap();
    assert_eq!(guard.release().unwrap(), ReleaseOutcome::Released);
}

/// Held by whoever changes what the whole server is like, and by whoever looks at it.
static SERVER: Mutex<()> = Mutex::new(());

#[test]
fn a_server_that_only_reads_is_waited_for() {
    let _server = SERVER.lock().unwrap_or_else(PoisonError::into_inner);
    let (host, port, database) = place();
    let (client, name) = (client(&address(), "store_timeout=10s"), name("x"));
    let _ = client.lock(&name).acquire().unwrap().release().unwrap();
    let own = format!("mysql://locker:pa%3Ass%40word@{host}:{port}/{database}");
    sql("SET GLOBAL read_only = ON");
    let error = self::client(&own, "store_timeout=300ms").lock(&name).acquire();
    let lock = client.lock(&name).build().unwrap();
    let waits = std::thread::spawn(move || lock.acquire().unwrap().release().unwrap());
    sql("SET GLOBAL read_only = OFF");
    let error = error.unwrap_err();
    assert_eq!(error.kind(), Kind::Unavailable, "{error}");
    assert!(error.to_string().contains("only reads"), "{error}");
    assert_eq!(waits.join().unwrap(), ReleaseOutcome::Released);
}

/// A limit of the server's that other programs may have used up.
#[test]
fn a_server_that_prepares_no_statement_serves_as_well() {
    let _server = SERVER.lock().unwrap_or_else(PoisonError::into_inner);
    let (client, name) = (client(&address(), ""), name("x"));
    let limit = sql("SELECT @@GLOBAL.max_prepared_stmt_count");
    sql("SET GLOBAL max_prepared_stmt_count = 0");
    let pairs =
        || -> lockwright::Result<()> { (0..10).try_for_each(|_| client.lock(&name).acquire()?.release().map(drop)) };
    let served = pairs();
    sql(&format!("SET GLOBAL max_prepared_stmt_count = {limit}"));
    served.unwrap();
    let row = sql(&format!("SELECT COUNT(*) FROM lockwright_locks WHERE name = '{name}'"));
    assert_eq!(row, "1");
}

/// Two statements of several rows each, by names in either order, with rows that are new: the server finds some of them
/// waiting for each other, and nobody hears of it.
#[test]
fn many_at_the_same_rows_see_no_deadlock() {
    let (uri, name) = (address(), name("x"));
    let threads: Vec<_> = (0..6)
        .map(|at| {
            let (client, name) = (client(&uri, "retry=2ms"), name.clone());
            std::thread::spawn(move || {
                for turn in 0..15 {
                    let mut names = [0, 1, 2].map(|n| format!("{name}-{turn}-{n}"));
                    if at % 2 == 0 {
                        names.reverse();
                    }
                    let all = client.multi_lock(names).unwrap().acquire().unwrap();
                    assert!(all.is_held());
                    assert_eq!(all.release().unwrap(), ReleaseOutcome::Released);
                    let guard = client.semaphore(&format!("{name}-s"), 3).acquire().unwrap();
                    assert_eq!(guard.release().unwrap(), ReleaseOutcome::Released);
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_tasks_of_two_clients_are_served_over_few_connections() {
    let user = user("WITH MAX_USER_CONNECTIONS 8");
    let (host, port, database) = place();
    let (uri, name) = (format!("mysql://{user}:x@{host}:{port}/{database}?ttl=5s"), name("x"));
    serves_a_thousand_tasks(&uri, &name).await;
    sql(&format!("DROP USER {user}"));
}

#[test]
fn many_held_locks_are_renewed_together_and_by_few_statements() {
    // Nobody ends the connections of a user of its own.
    let user = user("");
    let (host, port, database) = place();
    let (client, name) = (client(&format!("mysql://{user}:x@{host}:{port}/{database}"), "ttl=2s"), name("x"));
    let held: Vec<_> = (0..600).map(|at| client.lock(&format!("{name}-{at}")).acquire().unwrap()).collect();
    // Past the first lease of all of them.
    std::thread::sleep(Duration::from_millis(2500));
    assert!(held.iter().all(|guard| guard.is_held()));
    for guard in held {
        assert_eq!(guard.release().unwrap(), ReleaseOutcome::Released);
    }
    sql(&format!("DROP USER {user}"));
}

#[test]
fn a_certificate_is_looked_at_before_the_password_is_sent() {
    let (host, port, database) = place();
    let ca = sql("SELECT @@ssl_ca");
    let user = user("REQUIRE SSL");
    let (uri, name) = (format!("mysql://{user}:x@{host}:{port}/{database}"), name("x"));
    let guard = client(&uri, &format!("ca={ca}")).lock(&name).acquire().unwrap();
    assert_eq!(guard.release().unwrap(), ReleaseOutcome::Released);
    let untrusted = client(&uri, "sslmode=verify-full&store_timeout=300ms").lock(&name).acquire().unwrap_err();
    assert_eq!(untrusted.kind(), Kind::Auth, "{untrusted}");
    let plain = client(&uri, "store_timeout=300ms").lock(&name).acquire().unwrap_err();
    assert_eq!(plain.kind(), Kind::Auth, "{plain}");
    sql(&format!("DROP USER {user}"));
    // A server without TLS.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream: TcpStream = stream.unwrap();
            let greeting = b"\x0a8.0.1\0\x07\0\0\0abcdefgh\0\xff\xf7\x2d\x02\0\xff\x81\x15\0\0\0\0\0\0\0\0\0\0ijklmnopqrst\0mysql_native_password\0";
            let head = [u8::try_from(greeting.len()).unwrap(), 0, 0, 0];
            let _ = stream.write_all(&[&head, greeting.as_slice()].concat());
            let _ = stream.read(&mut [0; 64]);
        }
    });
    let none = client(&format!("mysql://u:hunter2@{at}/x"), &format!("ca={ca}&store_timeout=300ms"));
    let error = none.lock("x").acquire().unwrap_err();
    assert_eq!(error.kind(), Kind::Protocol, "{error}");
}

/// What is found, and how much it matters.
fn examined(uri: &str) -> Vec<(&'static str, Severity)> {
    client(uri, "").examine().unwrap().iter().map(|one| (one.check, one.severity)).collect()
}

#[test]
fn a_server_that_is_fit_says_so_and_what_a_table_or_a_user_lacks_is_found() {
    let _server = SERVER.lock().unwrap_or_else(PoisonError::into_inner);
    let (host, port, database) = place();
    let user = user("");
    let as_user = format!("mysql://{user}:x@{host}:{port}/{database}");
    // This server does not wait for its disk.
    let forgets = ("persistence", Severity::Note);
    let fit = ["version", "replication", "isolation", "engine", "collation", "rights", "clock"];
    let mut checks = fit.map(|check| (check, Severity::Ok)).to_vec();
    checks.insert(3, forgets);
    assert_eq!(examined(&as_user), checks);
    let told = |uri: &str| -> Vec<_> {
        let found = examined(uri).into_iter();
        // Of a clock a busy machine knows little.
        found.filter(|one| one.1 > Severity::Ok && *one != forgets && one.0 != "clock").collect()
    };
    // Which nobody needs before somebody waits.
    sql(&format!("REVOKE DELETE ON lockwright_told FROM {user}"));
    assert_eq!(told(&as_user), [("rights", Severity::Problem)]);
    let lacks = client(&as_user, "").examine().unwrap().into_iter().find(|one| one.check == "rights").unwrap();
    assert!(lacks.found.contains("DELETE") && lacks.found.contains("lockwright_told"), "{lacks:?}");
    sql(&format!("DROP USER {user}"));
    let own = Database::new();
    assert_eq!(told(&own.uri()), [("table", Severity::Problem); 2]);
    sql(&format!("CREATE TABLE {}.lockwright_locks (name varchar(9)) ENGINE = Aria", own.0));
    sql(&format!("CREATE TABLE {}.lockwright_told (inbox bigint PRIMARY KEY)", own.0));
    let found = told(&own.uri());
    let problem = |check| (check, Severity::Problem);
    assert_eq!(found, ["index", "index", "engine", "collation", "table"].map(problem));
}

/// Locks that a connection has, of a user of its own.
fn on_connections(user: &str, play: impl Fn(&Advisory<'_>)) {
    let user = format!("advisory_{user}");
    let (uri, (.., database)) = (address().replacen("locker", &user, 1), place());
    let connections = format!("SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE USER = '{user}'");
    sql(&format!(
        "CREATE OR REPLACE USER {user} IDENTIFIED BY 'pa:ss@word'; GRANT SELECT ON {database}.lockwright_locks TO {user}"
    ));
    sql(&format!("GRANT SELECT, INSERT, UPDATE ON {database}.resource_lock TO {user}"));
    let ends_all = format!("KILL USER {user}");
    play(&Advisory { uri: &uri, ask: &sql, ends: "KILL ID", ends_all: &ends_all, connections: &connections });
    sql(&format!("DROP USER {user}"));
}

#[test]
fn locks_of_a_client_are_on_one_connection() {
    on_connections("one", |advisory| advisory.locks_of_a_client_are_on_one_connection());
}

#[test]
fn a_connection_that_ends_is_noticed_and_frees_its_locks() {
    on_connections("ended", |advisory| advisory.a_connection_that_ends_is_noticed_and_frees_its_locks());
}

#[test]
fn whoever_is_cut_off_knows_it_before_others_have_the_lock() {
    on_connections("cut", |advisory| advisory.whoever_is_cut_off_knows_it_before_others_have_the_lock());
}

#[test]
fn what_cannot_be_had_of_advisory_locks_is_said() {
    on_connections("said", |advisory| advisory.what_cannot_be_had_is_said());
}

#[test]
fn a_lock_is_a_row_that_a_transaction_has() {
    on_connections("row", |advisory| advisory.a_lock_is_a_row_that_a_transaction_has());
}

#[test]
fn a_transaction_that_ends_is_noticed_and_frees_its_row() {
    on_connections("gone", |advisory| advisory.a_transaction_that_ends_is_noticed_and_frees_its_row());
}

#[test]
fn whoever_is_cut_off_loses_its_row_in_time() {
    on_connections("shut", |advisory| advisory.whoever_is_cut_off_loses_its_row_in_time());
}

#[test]
fn a_server_that_is_slow_costs_nobody_a_lock() {
    on_connections("slow", |advisory| advisory.a_server_that_is_slow_costs_nobody_a_lock());
}

/// The server would give a connection what it has again, and MySQL also under a name that differs in case.
#[test]
fn a_connection_is_not_given_again_what_it_has() {
    let take = include_str!("../machines/src/stores/mysql/layouts/advisory/take.sql");
    let take: String = take.lines().filter(|line| !line.starts_with("--")).collect();
    let take = take.replace("?1", &format!("'{}'", name("x")));
    let said = sql(&format!("{take}; {take}"));
    let (since, again) = said.split_once('\n').unwrap();
    assert!(since.parse::<u64>().unwrap() > 0 && again == "0", "{said}");
}

/// The tables of other libraries.
fn with_tables(play: impl Fn(&Tables<'_>)) {
    // The operator's sessions have the server's time zone, as ShedLock's have.
    play(&Tables {
        uri: &address(),
        ask: &sql,
        now: "UTC_TIMESTAMP(6)",
        keeps: "START TRANSACTION; SELECT 1 FROM INT_LOCK WHERE LOCK_KEY = 'NAME' FOR UPDATE; SELECT SLEEP(1), 'NAME';
                SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)); COMMIT",
        keepers: "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE STATE = 'User sleep' AND INFO LIKE '%NAME%'",
        sha256: "SHA2('NAME', 256)",
        seconds: "UNIX_TIMESTAMP(SYSDATE())",
        lock: "`lock`",
        desc: "`desc`",
    });
}

#[test]
fn rows_of_shedlock_are_joined() {
    with_tables(|tables| tables.rows_of_shedlock_are_joined());
}

#[test]
fn rows_of_spring_are_joined() {
    with_tables(|tables| tables.rows_of_spring_are_joined());
}

#[test]
fn rows_of_symfony_are_joined() {
    with_tables(|tables| tables.rows_of_symfony_are_joined());
}

#[test]
fn rows_of_a_unique_index_are_joined() {
    with_tables(|tables| tables.rows_of_a_unique_index_are_joined());
}

#[test]
fn a_token_of_spring_s_table_is_read_in_ones_turn() {
    with_tables(|tables| tables.a_token_of_spring_s_table_is_read_in_ones_turn());
}

#[test]
fn nobody_elses_row_is_renewed_or_given_back() {
    with_tables(|tables| tables.nobody_elses_row_is_renewed_or_given_back());
}

#[test]
fn locks_of_all_layouts_are_renewed_and_given_back_together() {
    with_tables(|tables| tables.locks_of_all_layouts_are_renewed_and_given_back_together());
}

#[test]
fn what_is_wrong_with_a_table_of_another_library_is_said() {
    let (host, port, database) = place();
    let nobody = user("");
    for statement in WRONG {
        sql(statement);
    }
    let at = |user: &str, database: &str| format!("mysql://{user}@{host}:{port}/{database}");
    let (nobody_at, without, wrong) = (at(&format!("{nobody}:x"), &database), at("root", "empty"), at("root", "wrong"));
    with_tables(|tables| tables.what_is_wrong_with_a_table_is_said(&nobody_at, &without, &wrong));
    sql(&format!("DROP USER {nobody}"));
}

const WRONG: [&str; 4] = [
    "CREATE OR REPLACE DATABASE empty",
    "CREATE OR REPLACE DATABASE wrong",
    "CREATE TABLE wrong.shedlock (name varchar(64) PRIMARY KEY, lock_until datetime, locked_at datetime, locked_by varchar(255))",
    "CREATE TABLE wrong.INT_LOCK (LOCK_KEY char(36), REGION varchar(100), CLIENT_ID char(36), CREATED_DATE datetime(6), \
     PRIMARY KEY (LOCK_KEY, REGION))",
];
