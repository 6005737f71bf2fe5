//! What the databases' tests of other libraries' tables have in common.

use std::time::{Duration, Instant};

use lockwright::Kind;
use lockwright::blocking::Client;
use lockwright::lease::ReleaseOutcome;

use super::{client, name, until};

/// A database, and what its operator's own program says.
pub struct Tables<'a> {
    pub uri: &'a str,
    pub ask: &'a (dyn Fn(&str) -> String + Sync),
    /// Now in UTC, as the table of ShedLock has it.
    pub now: &'a str,
    /// Has whoever would take the lock NAME of Spring's wait for a second, and tells what time it is then.
    pub keeps: &'a str,
    /// How many do so.
    pub keepers: &'a str,
    /// The digest of NAME, and now in whole seconds, as Symfony has them.
    pub sha256: &'a str,
    pub seconds: &'a str,
    /// The table `lock` and its column `desc`.
    pub lock: &'a str,
    pub desc: &'a str,
}

/// A name that is a key as well.
fn of_spring(number: u32) -> String {
    format!("{number:08}-0000-4000-8000-{:012}", std::process::id())
}

impl Tables<'_> {
    fn ask(&self, statement: &str) -> String {
        (self.ask)(&statement.replace("NOW", self.now))
    }

    fn is(&self, lock: &str, what: &str) -> bool {
        self.ask(&format!("SELECT count(*) FROM shedlock WHERE name = '{lock}' AND {what}")) == "1"
    }

    /// A row of ShedLock's table says who holds, whoever wrote it, and stays.
    pub fn rows_of_shedlock_are_joined(&self) {
        let (first, second) = (client(self.uri, "layout=shedlock"), client(self.uri, "layout=shedlock"));
        let name = name("x");
        let held = first.lock(&name).label("50 % nightly, Zürich").acquire().unwrap();
        assert!(held.remaining() > Duration::from_secs(25));
        let at_least = "INTERVAL '20' SECOND";
        assert!(self.is(&name, &format!("lock_until > NOW + {at_least} AND locked_at <= NOW")));
        assert!(second.lock(&name).try_acquire().unwrap().is_none());
        let seen = second.inspect(&name).unwrap().holder.unwrap();
        assert_eq!((seen.card.pid, &*seen.card.label), (std::process::id(), "50 % nightly, Zürich"));
        assert_eq!((seen.first_token, second.list().unwrap().contains(&name)), (held.token().n, true));
        let mut last = held.token();
        assert_eq!(held.release().unwrap(), ReleaseOutcome::Released);
        assert!(self.is(&name, "lock_until <= NOW") && !second.list().unwrap().contains(&name));
        for _ in 0..20 {
            let guard = first.lock(&name).acquire().unwrap();
            assert!(guard.token() > last);
            last = guard.token();
            assert_eq!(guard.release().unwrap(), ReleaseOutcome::Released);
        }
        self.ask(&format!(
            "UPDATE shedlock SET locked_by = 'build-host', locked_at = NOW, lock_until = NOW + INTERVAL '1' HOUR WHERE name = '{name}'"
        ));
        assert!(first.lock(&name).try_acquire().unwrap().is_none());
        let theirs = first.inspect(&name).unwrap().holder.unwrap();
        assert_eq!((&*theirs.card.language, theirs.first_token), ("shedlock", 0));
        assert!(theirs.remaining > Duration::from_secs(3500));
        self.ask(&format!("UPDATE shedlock SET lock_until = NOW WHERE name = '{name}'"));
        let guard = second.lock(&name).try_acquire().unwrap().unwrap();
        assert!(guard.token() > last);
        assert_eq!(guard.release().unwrap(), ReleaseOutcome::Released);
    }

    /// A row of Spring's table is somebody's while it is there and not over.
    pub fn rows_of_spring_are_joined(&self) {
        let (first, second) = (client(self.uri, "layout=int_lock"), client(self.uri, "layout=int_lock"));
        let name = of_spring(1);
        let rows =
            || self.ask(&format!("SELECT count(*) FROM INT_LOCK WHERE REGION = 'DEFAULT' AND LOCK_KEY = '{name}'"));
        let mut last = None;
        for _ in 0..20 {
            let guard = first.lock(&name).acquire().unwrap();
            assert!(Some(guard.token()) > last && rows() == "1");
            last = Some(guard.token());
            assert_eq!(guard.release().unwrap(), ReleaseOutcome::Released);
        }
        assert_eq!(rows(), "0");
        self.ask(&format!(
            "INSERT INTO INT_LOCK (LOCK_KEY, REGION, CLIENT_ID, CREATED_DATE, EXPIRED_AFTER) VALUES ('{name}', 'DEFAULT', \
             '9b2e1c3a-0000-4000-8000-0123456789ab', NOW, NOW + INTERVAL '1' HOUR)"
        ));
        assert!(first.lock(&name).try_acquire().unwrap().is_none());
        let theirs = first.inspect(&name).unwrap().holder.unwrap();
        assert_eq!((&*theirs.card.language, theirs.first_token), ("spring", 0));
        self.ask(&format!("UPDATE INT_LOCK SET EXPIRED_AFTER = NOW - INTERVAL '1' SECOND WHERE LOCK_KEY = '{name}'"));
        let guard = second.lock(&name).try_acquire().unwrap().unwrap();
        assert!(Some(guard.token()) > last && rows() == "1");
        assert_eq!(guard.release().unwrap(), ReleaseOutcome::Released);
        assert_eq!(first.list().unwrap_err().kind(), Kind::Unsupported);
    }

    /// A row of Symfony's table is somebody's until whole seconds are over, for whoever cuts or rounds them.
    pub fn rows_of_symfony_are_joined(&self) {
        let (first, second) = (client(self.uri, "layout=symfony"), client(self.uri, "layout=symfony"));
        let name = name("x");
        let ask = |what: &str| {
            self.ask(&what.replace("ROW", &format!("lock_keys WHERE key_id = {}", self.sha256)).replace("NAME", &name))
        };
        let mut last = None;
        for _ in 0..20 {
            let guard = first.lock(&name).acquire().unwrap();
            assert!(Some(guard.token()) > last);
            last = Some(guard.token());
            assert!(second.lock(&name).try_acquire().unwrap().is_none());
            let seen = second.inspect(&name).unwrap().holder.unwrap();
            assert_eq!((&*seen.card.language, Some(seen.first_token)), ("lockwright", last.map(|token| token.n)));
            assert_eq!(guard.release().unwrap(), ReleaseOutcome::Released);
        }
        assert_eq!(ask("SELECT count(*) FROM ROW"), "0");
        // Nobody of Symfony's takes it while it is held.
        let held = first.lock(&name).ttl(Duration::from_millis(2300)).renew(false).acquire().unwrap();
        let is_over = format!("SELECT count(*) FROM ROW AND {} >= key_expiration", self.seconds);
        loop {
            let over = ask(&is_over);
            if !held.is_held() {
                break;
            }
            assert_eq!(over, "0");
        }
        let next = second.lock(&name).acquire().unwrap();
        assert!(Some(next.token()) > last && held.release().map_or(true, |ended| ended != ReleaseOutcome::Released));
        assert_eq!(next.release().unwrap(), ReleaseOutcome::Released);
        let theirs = "kYP2m8zJ0uF5cQ3rT7vX1bN4sD6gH9jL2pW8eA5iO0k=";
        let insert = |seconds: i32| {
            ask(&format!("INSERT INTO lock_keys VALUES ({}, '{theirs}', {} + {seconds})", self.sha256, self.seconds));
        };
        insert(300);
        assert!(first.lock(&name).try_acquire().unwrap().is_none());
        let holder = first.inspect(&name).unwrap().holder.unwrap();
        assert_eq!((&*holder.card.language, holder.first_token), ("symfony", 0));
        assert!(holder.remaining > Duration::from_secs(290));
        ask("DELETE FROM ROW");
        // Whoever holds it from now on may count a second more than the table says.
        let began = Instant::now();
        insert(2);
        let guard = second.lock(&name).acquire().unwrap();
        assert!(began.elapsed() >= Duration::from_secs(2), "{:?}", began.elapsed());
        assert_eq!(guard.release().unwrap(), ReleaseOutcome::Released);
        assert_eq!(first.list().unwrap_err().kind(), Kind::Unsupported);
    }

    /// A row of the table with a unique index is somebody's while it is there, unless it is ours and over.
    pub fn rows_of_a_unique_index_are_joined(&self) {
        let options = "layout=unique_index";
        let (first, second, name) = (client(self.uri, options), client(self.uri, options), name("x"));
        let ask = |what: &str| self.ask(&what.replace("LOCK", self.lock).replace("DESC", self.desc));
        let rows = || ask(&format!("SELECT count(*) FROM LOCK WHERE lock_name = '{name}'"));
        let mut last = None;
        for _ in 0..20 {
            let guard = first.lock(&name).label("50 % nightly, Zürich").acquire().unwrap();
            assert!(Some(guard.token()) > last && rows() == "1" && second.lock(&name).try_acquire().unwrap().is_none());
            last = Some(guard.token());
            let seen = second.inspect(&name).unwrap().holder.unwrap();
            assert_eq!((&*seen.card.label, seen.first_token), ("50 % nightly, Zürich", guard.token().n));
            assert_eq!(guard.release().unwrap(), ReleaseOutcome::Released);
        }
        assert_eq!(rows(), "0");
        // What was left behind is had by the next of ours, and what comes late leaves no row.
        let lost = first.lock(&name).ttl(Duration::from_millis(300)).renew(false).acquire().unwrap();
        let next = second.lock(&name).ttl(Duration::from_secs(2)).renew(false).acquire().unwrap();
        assert!(next.token() > lost.token() && rows() == "1");
        until("it is over", || !first.list().unwrap().contains(&name));
        assert!(next.release().map_or(true, |outcome| outcome != ReleaseOutcome::Released));
        until("the row is gone", || rows() == "0");
        // Texts that look like ours are others'.
        for theirs in ["order-service-7", "", "0000000000000001 0000000000000001 orders", &"9".repeat(80)] {
            ask(&format!("INSERT INTO LOCK (lock_name, DESC) VALUES ('{name}', '{theirs}')"));
            assert!(first.lock(&name).try_acquire().unwrap().is_none());
            let holder = first.inspect(&name).unwrap().holder.unwrap();
            assert_eq!((&*holder.card.language, holder.first_token, holder.remaining), ("sql", 0, Duration::MAX));
            assert!(first.list().unwrap().contains(&name) && !first.break_lock(&name, lost.token()).unwrap());
            ask(&format!("DELETE FROM LOCK WHERE lock_name = '{name}'"));
        }
        let guard = second.lock(&name).try_acquire().unwrap().unwrap();
        assert!(guard.token() > lost.token());
        ask(&format!("DELETE FROM LOCK WHERE lock_name = '{name}'"));
        assert!(guard.release().map_or(true, |outcome| outcome != ReleaseOutcome::Released));
        assert_eq!(first.lock(&"x".repeat(65)).acquire().unwrap_err().kind(), Kind::InvalidConfig);
    }

    /// A row that is deleted remembers no token: each is of a moment at which nobody else could take the lock.
    pub fn a_token_of_spring_s_table_is_read_in_ones_turn(&self) {
        let (client, name) = (client(self.uri, "layout=int_lock"), of_spring(2));
        let ask = |statement: &str| (self.ask)(&statement.replace("NAME", &name));
        // A row that is over, of a host whose clock is ahead.
        self.ask(&format!(
            "INSERT INTO INT_LOCK (LOCK_KEY, REGION, CLIENT_ID, CREATED_DATE, EXPIRED_AFTER) VALUES ('{name}', 'DEFAULT', \
             '9b2e1c3a-0000-4000-8000-0123456789ab', NOW + INTERVAL '1' HOUR, NOW - INTERVAL '1' SECOND)"
        ));
        std::thread::scope(|scope| {
            let kept = scope.spawn(|| ask(self.keeps).lines().last().unwrap().parse::<u64>().unwrap());
            until("it is kept", || ask(self.keepers) == "1");
            let guard = client.lock(&name).acquire().unwrap();
            let (token, kept) = (guard.token().n, kept.join().unwrap());
            assert!((kept..kept + 1_800_000_000).contains(&token), "{kept} {token}");
            assert_eq!(guard.release().unwrap(), ReleaseOutcome::Released);
        });
    }

    /// Whoever lost the lock touches nothing of the next holder's, and an operator takes it by its token.
    pub fn nobody_elses_row_is_renewed_or_given_back(&self) {
        for layout in ["layout=shedlock", "layout=int_lock", "layout=symfony", "layout=unique_index"] {
            let [first, second, third] = [(); 3].map(|()| client(self.uri, layout));
            let name = name("x");
            // Neither of them knows of it.
            let loses = |client: &Client| {
                let guard = client.lock(&name).acquire().unwrap();
                assert!(third.break_lock(&name, guard.token()).unwrap());
                guard
            };
            let (one, other) = (loses(&first), loses(&second));
            let next = third.lock(&name).acquire().unwrap();
            let token = next.token();
            assert!(other.token() > one.token() && token > other.token());
            assert!(one.extend(Duration::from_secs(9)).is_err());
            let past = other.token();
            assert!(other.release().map_or(true, |outcome| outcome != ReleaseOutcome::Released));
            assert!(next.is_held() && first.lock(&name).try_acquire().unwrap().is_none());
            next.extend(Duration::from_secs(90)).unwrap();
            assert!(next.remaining() > Duration::from_secs(60));
            assert!(!first.break_lock(&name, past).unwrap());
            assert!(first.break_lock(&name, token).unwrap());
            let last = second.lock(&name).try_acquire().unwrap().unwrap();
            assert!(last.token() > token);
            assert_eq!(last.release().unwrap(), ReleaseOutcome::Released);
        }
    }

    /// Locks of all layouts of a client are renewed together, and given back together when it is closed.
    pub fn locks_of_all_layouts_are_renewed_and_given_back_together(&self) {
        let (one, other, name) = (client(self.uri, "ttl=4s"), client(self.uri, ""), name("x"));
        let layouts = ["native", "shedlock", "int_lock", "symfony", "unique_index", "advisory", "for_update"];
        let of = |at: usize| (layouts[at % layouts.len()], format!("{name}-{at}"));
        let locks: Vec<_> = (0..60).map(of).collect();
        let held: Vec<_> =
            locks.iter().map(|(layout, name)| one.lock(name).layout(layout).acquire().unwrap()).collect();
        let tries = |(layout, name): &(&str, String)| other.lock(name).layout(layout).try_acquire().unwrap();
        // Longer than any of them lasts by itself.
        std::thread::sleep(Duration::from_secs(5));
        assert!(held.iter().all(|guard| guard.is_held()) && locks.iter().all(|lock| tries(lock).is_none()));
        one.close();
        until("all are free", || locks.iter().all(|lock| tries(lock).is_some()));
    }

    /// Tables that are not there, not to be used, or not as they have to be. `as_nobody` has no rights on them, the
    /// database `without` has none, and in `wrong` columns keep whole seconds or are those of Spring before version 7.
    pub fn what_is_wrong_with_a_table_is_said(&self, as_nobody: &str, without: &str, wrong: &str) {
        for (uri, layout, kind, part) in [
            (without, "shedlock", Kind::InvalidConfig, "the database has no table shedlock"),
            (without, "int_lock", Kind::InvalidConfig, "the database has no table INT_LOCK"),
            (without, "symfony", Kind::InvalidConfig, "the database has no table lock_keys"),
            (without, "unique_index", Kind::InvalidConfig, "the database has no table lock"),
            (as_nobody, "shedlock", Kind::Auth, "GRANT SELECT, INSERT, UPDATE ON shedlock"),
            (as_nobody, "int_lock", Kind::Auth, "GRANT SELECT, INSERT, UPDATE, DELETE ON INT_LOCK"),
            (as_nobody, "symfony", Kind::Auth, "GRANT SELECT, INSERT, UPDATE, DELETE ON lock_keys"),
            (as_nobody, "unique_index", Kind::Auth, "GRANT SELECT, INSERT, UPDATE, DELETE ON lock"),
            (wrong, "shedlock", Kind::ForeignLayout, "keep no milliseconds"),
            (wrong, "int_lock", Kind::ForeignLayout, "the table INT_LOCK is not as"),
        ] {
            let client = client(uri, &format!("layout={layout}&store_timeout=3s"));
            // In the half of a second in which a time is rounded up the lease is long enough.
            let limit = Instant::now() + Duration::from_secs(20);
            let mut tries = (0..).take_while(|_| Instant::now() < limit);
            let error = tries.find_map(|at| client.lock(&format!("{}{at}", name("x"))).acquire().err());
            let error = error.unwrap_or_else(|| panic!("{uri} {layout}"));
            assert_eq!(error.kind(), kind, "{uri} {layout}: {error}");
            assert!(error.to_string().contains(part), "{uri} {layout}: {error}");
        }
    }
}
