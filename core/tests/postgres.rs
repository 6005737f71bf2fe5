//! The whole way down and back over a PostgreSQL.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use advisory::Advisory;
use lockwright::Kind;
use lockwright::finding::Severity;
use lockwright::lease::ReleaseOutcome;
use lockwright::options::Retry;
use one_server::tables::Tables;
use one_server::{client, is_anothers_after_all, is_taken_and_given_back, name, serves_a_thousand_tasks, until};

mod advisory;
mod gate;
mod one_server;
mod ports;

fn address() -> String {
    std::env::var("LOCKWRIGHT_TEST_POSTGRES").unwrap_or_else(|_| {
        panic!(
            "these tests need a PostgreSQL: run `conformance/services/postgres.sh start` and set \
             LOCKWRIGHT_TEST_POSTGRES to the address it prints"
        )
    })
}

/// What the operator's own program says.
fn psql(statement: &str) -> String {
    let uri = address();
    let (_, place) = uri.split_once('@').unwrap();
    let as_root = format!("postgres://root@{place}");
    let done =
        Command::new("psql").args(["-qAtX", "-v", "ON_ERROR_STOP=1", "-c", statement, &as_root]).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap().trim().to_owned()
}

#[test]
fn a_lock_is_taken_and_given_back_and_tokens_rise() {
    let (client, name) = (client(&address(), ""), name("x"));
    is_taken_and_given_back(&client, &name);
    assert_eq!(psql(&format!("SELECT record::json->>'hold' FROM lockwright_locks WHERE key = '{name}'")), "");
}

#[test]
fn a_certificate_is_looked_at_before_the_password_is_sent() {
    let (uri, folder, name) = (address(), psql("SHOW data_directory"), name("x"));
    let (_, place) = uri.split_once('@').unwrap();
    let role = name.replace(['-', '/'], "_");
    psql(&format!("CREATE ROLE {role} LOGIN PASSWORD 'x' IN ROLE locker, tls_only"));
    let (uri, ca) = (format!("postgres://{role}:x@{place}"), format!("ca={folder}/ca.crt"));
    is_taken_and_given_back(&client(&uri, &ca), &name);
    let refused = |uri: &str, options: &str| {
        client(uri, &format!("store_timeout=300ms{options}")).lock(&name).acquire().unwrap_err()
    };
    let untrusted = refused(&uri, "&sslmode=verify-full");
    assert_eq!(untrusted.kind(), Kind::Auth, "{untrusted}");
    let plain = refused(&uri, "");
    assert_eq!(plain.kind(), Kind::Auth, "{plain}");
    psql(&format!("DROP ROLE {role}"));
    // Whoever has a certificate needs no password.
    let known = format!("postgres://lockwright@{place}");
    let certificate = format!("{ca}&cert={folder}/client.crt&key={folder}/client.key");
    is_taken_and_given_back(&client(&known, &certificate), &name);
    let unknown = refused(&known, &format!("&{ca}"));
    assert_eq!(unknown.kind(), Kind::Auth, "{unknown}");
    // A server without TLS.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.read(&mut [0; 64]);
            let _ = stream.write_all(b"N");
        }
    });
    let none = refused(&format!("postgres://u:hunter2@{at}/x"), &format!("&{ca}"));
    assert!(none.kind() == Kind::Protocol && !none.to_string().contains("hunter2"), "{none}");
}

#[test]
fn whoever_waits_is_served_in_order_and_told_without_asking() {
    let uri = address();
    let (clients, name) = ([0, 1, 2].map(|_| client(&uri, "")), name("x"));
    let held = clients[0].lock(&name).acquire().unwrap();
    assert!(clients[1].lock(&name).try_acquire().unwrap().is_none());
    let order = Arc::new(AtomicU64::new(0));
    let waiters: Vec<_> = [1, 2]
        .map(|at| {
            let (lock, order) = (clients[at].lock(&name).build().unwrap(), order.clone());
            let waits = std::thread::spawn(move || {
                let guard = lock.acquire().unwrap();
                let came = order.fetch_add(1, Ordering::Relaxed) as usize;
                (came + 1 == at, guard.token().n, guard.release().unwrap())
            });
            until("it waits", || clients[0].inspect(&name).unwrap().waiters == at as u64);
            waits
        })
        .into();
    let seen = clients[2].inspect(&name).unwrap().holder.unwrap();
    assert_eq!((seen.first_token, seen.card.pid), (held.token().n, std::process::id()));
    assert!(seen.remaining > Duration::from_secs(20) && seen.remaining <= Duration::from_secs(30));
    let released = Instant::now();
    assert_eq!(held.release().unwrap(), ReleaseOutcome::Released);
    let served: Vec<_> = waiters.into_iter().map(|waits| waits.join().unwrap()).collect();
    assert!(
        served.iter().all(|(in_order, _, outcome)| *in_order && *outcome == ReleaseOutcome::Released),
        "{served:?}"
    );
    assert!(served[0].1 < served[1].1);
    // Whoever polls asks again after a claim, a second.
    assert!(released.elapsed() < Duration::from_millis(800), "{:?}", released.elapsed());
}

#[test]
fn a_lock_of_ones_own_so_far_may_be_anothers() {
    let uri = address();
    is_anothers_after_all(&client(&uri, ""), &client(&uri, ""), &name("x"));
}

#[test]
fn nobody_elses_lock_is_renewed_or_given_back_and_a_lease_ends() {
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
    let token = next.token();
    assert!(first.break_lock(&name, token).unwrap());
    assert!(first.lock(&name).try_acquire().unwrap().is_some());
    assert!(first.list().unwrap().iter().all(|listed| *listed != format!("{name}-other")));
}

#[test]
fn whoever_listens_is_told_at_once_that_its_lock_was_broken() {
    let uri = address();
    let (holder, other, name) = (client(&uri, ""), client(&uri, ""), name("x"));
    let gate = format!("{name}-gate");
    let shut = other.lock(&gate).acquire().unwrap();
    let held = holder.lock(&name).acquire().unwrap();
    let waits = holder.lock(&gate).build().unwrap();
    let waits = std::thread::spawn(move || waits.acquire().unwrap().release().unwrap());
    until("it waits", || other.inspect(&gate).unwrap().waiters == 1);
    let broken = Instant::now();
    assert!(other.break_lock(&name, held.token()).unwrap());
    until("it is told", || !held.is_held());
    // The next renewal is ten seconds off.
    assert!(broken.elapsed() < Duration::from_secs(5), "{:?}", broken.elapsed());
    assert_eq!(shut.release().unwrap(), ReleaseOutcome::Released);
    assert_eq!(waits.join().unwrap(), ReleaseOutcome::Released);
}

/// A connection that nobody waits for costs one statement, and whoever used the lock last asks nothing first.
#[test]
fn an_uncontended_pair_is_two_statements() {
    let (client, name) = (client(&address(), "prefix=counted-"), name("x"));
    let _ = client.lock(&name).acquire().unwrap().release().unwrap();
    let count = || {
        let calls = "SELECT coalesce(sum(calls), 0) FROM pg_stat_statements s JOIN pg_database d ON d.oid = dbid \
                     WHERE datname = current_database() AND query ~ 'WITH asked AS|UPDATE lockwright_locks SET'";
        psql(calls).parse::<u64>().unwrap()
    };
    // Other tests ask meanwhile: the least of some counts is ours.
    let pairs = (0..10).map(|_| {
        let before = count();
        let _ = client.lock(&name).acquire().unwrap().release().unwrap();
        count() - before
    });
    assert_eq!(pairs.min(), Some(2));
}

#[test]
fn what_is_wrong_is_said_with_what_to_do() {
    let uri = address();
    let says = |uri: &str, kind: Kind, part: &str| {
        let client = client(uri, "store_timeout=3s&connect_timeout=3s");
        let error = client.lock(&name("x")).acquire().unwrap_err();
        assert_eq!(error.kind(), kind, "{uri}: {error}");
        let shown = format!("{error} {error:?}");
        assert!(shown.contains(part) && !shown.contains("hunter2"), "{uri}: {shown}");
    };
    let (_, place) = uri.split_once('@').unwrap();
    let (server, _) = place.split_once('/').unwrap();
    says(&format!("postgres://locker:hunter2@{place}"), Kind::Auth, "refused the user or the password");
    says(&format!("postgres://root@{server}/hidden"), Kind::InvalidConfig, "there is no such database");
    says(&format!("postgres://root@{server}/template1"), Kind::InvalidConfig, "lockwright schema");
    says("postgres://root:hunter2@127.0.0.1:1/x", Kind::Unavailable, "nothing listens there");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        use std::io::{Read, Write};
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 64]);
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
        }
    });
    says(&format!("postgres://root:hunter2@127.0.0.1:{port}/x"), Kind::Protocol, "is not PostgreSQL");
}

#[test]
fn a_later_versions_row_is_refused_by_its_word() {
    let (client, name) = (client(&address(), ""), name("x"));
    psql(&format!("INSERT INTO lockwright_locks VALUES ('{name}', 1, 'carousel', '{{}}', now())"));
    let error = client.lock(&name).acquire().unwrap_err();
    assert_eq!(error.kind(), Kind::ForeignLayout);
    assert!(error.to_string().contains("this name is a carousel's"), "{error}");
    assert!(client.inspect(&name).is_err());
}

#[test]
fn connections_that_are_cut_are_made_again_and_nothing_held_is_lost() {
    let (client, name) = (client(&address(), "ttl=3s"), name("x"));
    let guard = client.lock(&name).acquire().unwrap();
    for _ in 0..3 {
        psql("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE usename = 'locker'");
        let other = client.lock(&format!("{name}-other")).acquire().unwrap();
        assert_eq!(other.release().unwrap(), ReleaseOutcome::Released);
    }
    assert!(guard.is_held());
    guard.extend(Duration::from_secs(5)).unwrap();
    assert_eq!(guard.release().unwrap(), ReleaseOutcome::Released);
}

/// A pooler that hands two connections of the server's out by transactions, to whoever comes; each of them is
/// SERIALIZABLE, so that whoever is at the same row as somebody else is refused.
struct Pooler {
    process: Child,
    uri: String,
    _folder: tempfile::TempDir,
}

impl Pooler {
    fn start() -> Self {
        Self::with("")
    }

    /// With these settings besides.
    fn with(settings: &str) -> Self {
        let uri = address();
        let (_, place) = uri.split_once('@').unwrap();
        let (server, database) = place.split_once('/').unwrap();
        let (host, port) = server.split_once(':').unwrap();
        let folder = tempfile::tempdir().unwrap();
        let own = ports::port();
        let settings = format!(
            "[databases]\n{database} = host={host} port={port} user=root \
             connect_query='SET default_transaction_isolation = serializable'\n\
             [pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {own}\nunix_socket_dir =\nauth_type = any\n\
             pool_mode = transaction\ndefault_pool_size = 2\nmax_client_conn = 100\n{settings}"
        );
        let file = folder.path().join("pgbouncer.ini");
        std::fs::write(&file, settings).unwrap();
        // It refuses to be root.
        let process = Command::new("pgbouncer").args(["-q", "-u", "postgres"]).arg(&file).spawn().unwrap();
        let pooler = Pooler { process, uri: format!("postgres://root@127.0.0.1:{own}/{database}"), _folder: folder };
        until("the pooler serves", || std::net::TcpStream::connect(("127.0.0.1", own)).is_ok());
        pooler
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_tasks_of_two_clients_are_served_behind_a_pooler_of_two_connections() {
    let (pooler, name) = (Pooler::start(), name("x"));
    serves_a_thousand_tasks(&format!("{}?ttl=5s", pooler.uri), &name).await;
}

/// What the database undoes in favour of others is not shown, however often that happens.
#[test]
fn many_at_one_row_under_serializable_see_no_failure() {
    let (pooler, name) = (Pooler::start(), name("x"));
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let (client, name) = (client(&pooler.uri, "retry=2ms"), name.clone());
            std::thread::spawn(move || {
                for _ in 0..20 {
                    let guard = client.semaphore(&name, 3).acquire().unwrap();
                    assert_eq!(guard.release().unwrap(), ReleaseOutcome::Released);
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn a_client_has_two_connections_at_most() {
    let uri = address();
    let (_, place) = uri.split_once('@').unwrap();
    psql("DROP ROLE IF EXISTS two");
    psql("CREATE ROLE two LOGIN PASSWORD 'two' CONNECTION LIMIT 2");
    psql("GRANT SELECT, INSERT, UPDATE, DELETE ON lockwright_locks TO two");
    let (client, other, name) = (client(&format!("postgres://two:two@{place}"), ""), client(&uri, ""), name("x"));
    let held: Vec<_> = (0..50).map(|at| client.lock(&format!("{name}-{at}")).acquire().unwrap()).collect();
    let taken = other.lock(&name).acquire().unwrap();
    let waits: Vec<_> = (0..20)
        .map(|_| {
            let lock = client.lock(&name).build().unwrap();
            std::thread::spawn(move || lock.acquire().unwrap().release().unwrap())
        })
        .collect();
    until("they wait", || other.inspect(&name).unwrap().waiters > 0);
    assert_eq!(taken.release().unwrap(), ReleaseOutcome::Released);
    for waits in waits {
        assert_eq!(waits.join().unwrap(), ReleaseOutcome::Released);
    }
    assert!(held.iter().all(|guard| guard.is_held()));
    drop(held);
    client.close();
    until("its connections go", || psql("SELECT count(*) FROM pg_stat_activity WHERE usename = 'two'") == "0");
    psql("REVOKE ALL ON lockwright_locks FROM two; DROP ROLE two");
}

/// What is found, and how much it matters.
fn examined(uri: &str) -> Vec<(&'static str, Severity)> {
    client(uri, "").examine().unwrap().iter().map(|one| (one.check, one.severity)).collect()
}

/// This server does not wait for its disk.
const FORGETS: (&str, Severity) = ("persistence", Severity::Note);

/// What else is to be known or mended.
fn told(uri: &str) -> Vec<(&'static str, Severity)> {
    examined(uri).into_iter().filter(|one| one.1 > Severity::Ok && *one != FORGETS).collect()
}

#[test]
fn a_server_that_is_fit_says_so_also_behind_a_pooler() {
    let fit = ["version", "replication", "isolation", "pooler", "collation", "rights", "clock"];
    let mut checks = fit.map(|check| (check, Severity::Ok)).to_vec();
    checks.insert(4, FORGETS);
    assert_eq!(examined(&address()), checks);
    let pooler = Pooler::start();
    assert_eq!(told(&pooler.uri), [("isolation", Severity::Note), ("pooler", Severity::Note)]);
}

#[test]
fn what_is_wrong_with_a_table_or_with_a_users_rights_is_found() {
    let uri = address();
    let (_, place) = uri.split_once('@').unwrap();
    let schema = name("s").replace(['-', '/'], "_");
    let user = format!("u_{schema}");
    psql(&format!(
        "CREATE SCHEMA {schema}; CREATE ROLE {user} LOGIN PASSWORD 'x'; GRANT USAGE ON SCHEMA {schema} TO {user}"
    ));
    psql(&format!("ALTER ROLE {user} SET search_path = {schema}"));
    let as_user = format!("postgres://{user}:x@{place}");
    assert_eq!(told(&as_user), [("table", Severity::Problem)]);
    let rest = "version bigint, kind text, record text, changed timestamptz";
    psql(&format!("CREATE UNLOGGED TABLE {schema}.lockwright_locks (key text, {rest})"));
    psql(&format!("GRANT SELECT, INSERT, UPDATE ON {schema}.lockwright_locks TO {user}"));
    let problems = ["index", "rights"].map(|check| (check, Severity::Problem));
    assert_eq!(told(&as_user), [problems[0], ("collation", Severity::Warning), problems[1]]);
    psql(&format!("DROP TABLE {schema}.lockwright_locks"));
    psql(&format!(
        "CREATE COLLATION {schema}.folding (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
         CREATE TABLE {schema}.lockwright_locks (key text COLLATE {schema}.folding PRIMARY KEY, {rest});
         GRANT SELECT, INSERT, UPDATE, DELETE ON {schema}.lockwright_locks TO {user};
         ALTER ROLE {user} SET default_transaction_read_only = on"
    ));
    assert_eq!(told(&as_user), ["replication", "collation"].map(|check| (check, Severity::Problem)));
    until("its connections go", || {
        psql(&format!("SELECT count(*) FROM pg_stat_activity WHERE usename = '{user}'")) == "0"
    });
    psql(&format!("DROP SCHEMA {schema} CASCADE; DROP ROLE {user}"));
}

/// Locks that a connection has, of a user of its own.
fn on_connections(user: &str, play: impl Fn(&Advisory<'_>)) {
    let user = format!("advisory_{user}");
    let uri = address().replacen("locker", &user, 1);
    let connections = format!("SELECT count(*) FROM pg_stat_activity WHERE usename = '{user}'");
    psql(&format!("DROP ROLE IF EXISTS {user}"));
    psql(&format!("CREATE ROLE {user} LOGIN PASSWORD 'pa:ss@word' IN ROLE locker"));
    play(&Advisory {
        uri: &uri,
        ask: &psql,
        ends: "SELECT pg_terminate_backend(ID)",
        ends_all: &format!("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE usename = '{user}'"),
        connections: &connections,
    });
    until("its connections go", || psql(&connections) == "0");
    psql(&format!("DROP ROLE {user}"));
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

#[test]
fn whoever_waits_for_what_a_connection_has_is_told_when_that_is_given_back() {
    for layout in ["advisory", "for_update"] {
        let user = format!("told_{layout}");
        on_connections(&user, |advisory| {
            let (first, second, name) = (client(advisory.uri, ""), client(advisory.uri, ""), name("x"));
            let marks = format!(
                "SELECT count(*) FROM pg_locks JOIN pg_stat_activity USING (pid) WHERE usename = 'advisory_{user}'
                 AND locktype = 'advisory' AND mode = 'ShareLock' AND granted"
            );
            let held = first.lock(&name).layout(layout).acquire().unwrap();
            // It would ask by itself when it is too late.
            let pause = Duration::from_secs(60);
            let lock = second
                .lock(&name)
                .layout(layout)
                .retry(Retry { min: pause, max: pause })
                .timeout(pause / 2)
                .build()
                .unwrap();
            let waits = std::thread::spawn(move || lock.acquire().unwrap());
            until("it listens", || psql(&marks) == "1");
            assert_eq!(held.release().unwrap(), ReleaseOutcome::Released);
            assert_eq!(waits.join().unwrap().release().unwrap(), ReleaseOutcome::Released);
            until("it listens no more", || psql(&marks) == "0");
            is_taken_and_given_back(&first, &name);
        });
    }
}

#[test]
fn a_pooler_is_refused_that_would_give_a_lock_to_others() {
    for settings in ["", "ignore_startup_parameters = options\n"] {
        let pooler = Pooler::with(settings);
        for layout in ["advisory", "for_update"] {
            let error = client(&pooler.uri, "").lock("x").layout(layout).acquire().unwrap_err();
            assert_eq!(error.kind(), Kind::InvalidConfig);
            assert!(error.to_string().contains("pooler"), "{error}");
        }
    }
}

/// The tables of other libraries.
fn with_tables(play: impl Fn(&Tables<'_>)) {
    play(&Tables {
        uri: &address(),
        ask: &psql,
        now: "timezone('utc', clock_timestamp())",
        keeps: "SELECT pg_advisory_xact_lock(hashtext('INT_LOCK'), hashtext('NAME')), 'NAME'; SELECT pg_sleep(1);
                SELECT (extract(epoch FROM clock_timestamp()) * 1e6)::bigint",
        keepers: "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%NAME%' AND wait_event = 'PgSleep'",
        sha256: "encode(sha256('NAME'), 'hex')",
        seconds: "CAST(extract(epoch FROM clock_timestamp()) AS INT)",
        lock: "lock",
        desc: "\"desc\"",
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
    let uri = address();
    let (_, place) = uri.split_once('@').unwrap();
    let (server, _) = place.split_once('/').unwrap();
    psql("DROP DATABASE IF EXISTS wrong");
    psql("CREATE DATABASE wrong");
    psql("DROP ROLE IF EXISTS nobody_at_all");
    psql("CREATE ROLE nobody_at_all LOGIN PASSWORD 'x'");
    let wrong = format!("postgres://root@{server}/wrong");
    let made = Command::new("psql").args(["-qX", "-v", "ON_ERROR_STOP=1", "-c", WRONG, &wrong]).status().unwrap();
    assert!(made.success());
    let (nobody, without) =
        (format!("postgres://nobody_at_all:x@{place}"), format!("postgres://root@{server}/template1"));
    with_tables(|tables| tables.what_is_wrong_with_a_table_is_said(&nobody, &without, &wrong));
    psql("DROP ROLE nobody_at_all");
}

const WRONG: &str = "
  CREATE TABLE shedlock (name varchar(64) PRIMARY KEY, lock_until timestamp(0), locked_at timestamp(0), locked_by varchar(255));
  CREATE TABLE INT_LOCK (LOCK_KEY char(36), REGION varchar(100), CLIENT_ID char(36), CREATED_DATE timestamp, PRIMARY KEY (LOCK_KEY, REGION))";
