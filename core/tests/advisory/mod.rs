//! What the databases' tests of locks that a connection has have in common.

#![allow(unreachable_pub, reason = "it is a part of the tests that use it")]

use std::time::Duration;

use lockwright::Kind;
use lockwright::blocking::Client;
use lockwright::lease::ReleaseOutcome;

use crate::gate::Gate;
use crate::one_server::{client, is_taken_and_given_back, name, until};

/// A database, and what its operator's own program says.
pub struct Advisory<'a> {
    /// Of a user of whom nobody else's connections are.
    pub uri: &'a str,
    pub ask: &'a (dyn Fn(&str) -> String + Sync),
    /// Ends the connection ID.
    pub ends: &'a str,
    /// Ends all there are.
    pub ends_all: &'a str,
    /// How many there are of that user's.
    pub connections: &'a str,
}

impl Advisory<'_> {
    fn client(&self, options: &str) -> Client {
        client(self.uri, &format!("layout=advisory&{options}"))
    }

    /// A way to the server that can be shut, and its address.
    fn behind_a_gate(&self) -> (Gate, String) {
        let (user, place) = self.uri.split_once('@').unwrap();
        let (server, database) = place.split_once('/').unwrap();
        let gate = Gate::before(server.split_once(':').unwrap().1.parse().unwrap());
        let beyond = format!("{user}@{}/{database}", gate.address());
        (gate, beyond)
    }

    /// Locks go from one client to the next, and all of a client's are on one connection.
    pub fn locks_of_a_client_are_on_one_connection(&self) {
        let (first, second, name) = (self.client(""), self.client(""), name("x"));
        is_taken_and_given_back(&first, &name);
        let held: Vec<_> = (0..50).map(|at| first.lock(&format!("{name}-{at}")).acquire().unwrap()).collect();
        assert_eq!((self.ask)(self.connections), "1");
        for (at, guard) in held.iter().enumerate() {
            assert!(second.lock(&format!("{name}-{at}")).try_acquire().unwrap().is_none());
            assert!(first.lock(&format!("{name}-{at}")).try_acquire().unwrap().is_none());
            assert!(guard.is_held());
        }
        let mut last = 0;
        for guard in held {
            last = last.max(guard.token().n);
            assert_eq!(guard.release().unwrap(), ReleaseOutcome::Released);
        }
        let next = second.lock(&format!("{name}-7")).acquire().unwrap();
        assert!(next.token().n > last);
        first.close();
        until("its connection goes", || (self.ask)(self.connections) == "1");
        assert!(next.is_held());
    }

    /// A lock is its holder's as long as the connection lasts, also where nobody says anything on it.
    pub fn a_connection_that_ends_is_noticed_and_frees_its_locks(&self) {
        let (first, second, name) = (self.client("ttl=60s"), self.client("ttl=2s"), name("x"));
        let held = [0, 1].map(|at| first.lock(&format!("{name}-{at}")).ttl(Duration::from_secs(60)).acquire().unwrap());
        let kept = second.lock(&name).acquire().unwrap();
        std::thread::sleep(Duration::from_secs(4));
        assert!(kept.is_held());
        assert_eq!(kept.release().unwrap(), ReleaseOutcome::Released);
        let seen = second.inspect(&format!("{name}-0")).unwrap().holder.unwrap();
        let connection = seen.card.label.split(' ').next().unwrap();
        assert_eq!((&*seen.card.language, connection.parse::<u64>().is_ok()), ("connection", true), "{seen:?}");
        let waits = std::thread::spawn({
            let lock = second.lock(&format!("{name}-0")).build().unwrap();
            move || lock.acquire().unwrap()
        });
        (self.ask)(&self.ends.replace("ID", connection));
        until("its holder hears of it", || held.iter().all(|guard| !guard.is_held()));
        let taken = waits.join().unwrap();
        assert!(taken.token().n > held[0].token().n);
        let [gone, again] = held;
        assert_eq!(gone.release().unwrap(), ReleaseOutcome::Expired);
        assert!(first.lock(&format!("{name}-0")).try_acquire().unwrap().is_none());
        drop(again);
        // It has another connection now.
        let again = first.lock(&format!("{name}-1")).acquire().unwrap();
        assert!(again.is_held());
        assert_eq!(taken.release().unwrap(), ReleaseOutcome::Released);
    }

    /// A holder whom nothing reaches knows that its time is over before the server gives its locks to others, also
    /// where it still waits for an answer.
    pub fn whoever_is_cut_off_knows_it_before_others_have_the_lock(&self) {
        let (gate, beyond) = self.behind_a_gate();
        let (first, second, name) =
            (client(&beyond, "layout=advisory&ttl=2s&response_timeout=30s"), self.client("ttl=2s"), name("x"));
        let held = first.lock(&name).acquire().unwrap();
        let lock = second.lock(&name).timeout(Duration::from_secs(20)).build().unwrap();
        gate.shut();
        let taken = lock.acquire().unwrap();
        assert!(!held.is_held());
        gate.open();
        assert_eq!(held.release().unwrap(), ReleaseOutcome::Expired);
        assert!(taken.is_held());
        assert!(first.lock(&name).try_acquire().unwrap().is_none());
        assert_eq!(taken.release().unwrap(), ReleaseOutcome::Released);
        assert_eq!(first.lock(&name).acquire().unwrap().release().unwrap(), ReleaseOutcome::Released);
    }

    /// A server that is silent for less than the ttl costs nobody a lock, though an answer takes longer than it may.
    pub fn a_server_that_is_slow_costs_nobody_a_lock(&self) {
        let ((gate, beyond), second, name) = (self.behind_a_gate(), self.client("ttl=6s"), name("x"));
        let layouts = ["advisory", "for_update"];
        let first = client(&beyond, "ttl=6s&response_timeout=500ms");
        let held = layouts.map(|layout| first.lock(&name).layout(layout).acquire().unwrap());
        gate.shut();
        std::thread::sleep(Duration::from_millis(2500));
        gate.open();
        std::thread::sleep(Duration::from_secs(1));
        assert!(held.iter().all(|guard| guard.is_held()));
        for (layout, guard) in layouts.iter().zip(held) {
            assert!(second.lock(&name).layout(layout).try_acquire().unwrap().is_none());
            assert_eq!(guard.release().unwrap(), ReleaseOutcome::Released);
        }
    }

    /// What cannot be had of such locks is said.
    pub fn what_cannot_be_had_is_said(&self) {
        let (client, name) = (self.client("ttl=2s"), name("x"));
        let error = client.lock(&name).ttl(Duration::from_secs(3)).acquire().unwrap_err();
        assert_eq!(error.kind(), Kind::Unsupported);
        assert!(error.to_string().contains("?ttl=3s"), "{error}");
        let guard = client.lock(&name).acquire().unwrap();
        let error = client.break_lock(&name, guard.token()).unwrap_err();
        assert_eq!(error.kind(), Kind::Unsupported, "{error}");
        assert_eq!(client.list().unwrap_err().kind(), Kind::Unsupported);
        assert!(guard.is_held());
    }

    fn on_rows(&self, options: &str) -> Client {
        client(self.uri, &format!("layout=for_update&{options}"))
    }

    /// Whether somebody's transaction has the row.
    fn has_row(&self, name: &str) -> bool {
        (self.ask)(&format!(
            "SELECT resource_name FROM resource_lock WHERE resource_name = '{name}' FOR UPDATE SKIP LOCKED"
        )) != name
    }

    /// Each lock is a row that a transaction has, on a connection for it, of which a client has few.
    pub fn a_lock_is_a_row_that_a_transaction_has(&self) {
        let (first, second, name) = (self.on_rows(""), self.on_rows(""), name("x"));
        is_taken_and_given_back(&first, &name);
        assert!(!self.has_row(&name));
        let of = |at: usize| format!("{name}-{at}");
        let held: Vec<_> = (0..16).map(|at| first.lock(&of(at)).acquire().unwrap()).collect();
        assert_eq!((self.ask)(self.connections), "16");
        let error = first.lock(&of(16)).timeout(Duration::from_millis(300)).acquire().unwrap_err();
        assert!(error.to_string().contains("has no more"), "{error}");
        for at in 0..16 {
            assert!(self.has_row(&of(at)));
            assert!(second.lock(&of(at)).try_acquire().unwrap().is_none());
        }
        let waits = std::thread::spawn({
            let lock = second.lock(&of(3)).build().unwrap();
            move || lock.acquire().unwrap()
        });
        let last = held.iter().map(|guard| guard.token().n).max().unwrap();
        for guard in held {
            assert_eq!(guard.release().unwrap(), ReleaseOutcome::Released);
        }
        let next = waits.join().unwrap();
        assert!(next.token().n > last && self.has_row(&of(3)));
        first.close();
        drop(next);
        until("nobody has the row", || !self.has_row(&of(3)));
    }

    /// A renewal finds that the connection ended, and the row is free at once.
    pub fn a_transaction_that_ends_is_noticed_and_frees_its_row(&self) {
        let (first, second, name) = (self.on_rows("ttl=3s"), self.on_rows("ttl=3s"), name("x"));
        let (held, kept) =
            (first.lock(&name).acquire().unwrap(), first.lock(&format!("{name}-kept")).acquire().unwrap());
        (self.ask)(self.ends_all);
        let taken = second.lock(&name).timeout(Duration::from_secs(20)).acquire().unwrap();
        until("its holder hears of it", || !held.is_held() && !kept.is_held());
        assert!(taken.is_held() && taken.token() > held.token());
        assert_eq!(held.release().unwrap(), ReleaseOutcome::Expired);
        assert!(first.lock(&name).try_acquire().unwrap().is_none());
        assert_eq!(taken.release().unwrap(), ReleaseOutcome::Released);
        assert_eq!(first.lock(&name).acquire().unwrap().release().unwrap(), ReleaseOutcome::Released);
    }

    /// Whoever is cut off believes in its row no longer than the server keeps it.
    pub fn whoever_is_cut_off_loses_its_row_in_time(&self) {
        let (gate, beyond) = self.behind_a_gate();
        let (first, second, name) = (client(&beyond, "layout=for_update&ttl=3s"), self.on_rows("ttl=3s"), name("x"));
        let held = first.lock(&name).acquire().unwrap();
        // It is renewed.
        std::thread::sleep(Duration::from_millis(2500));
        assert!(held.is_held() && self.has_row(&name));
        let fresh = format!("{name}-fresh");
        let locks = [&name, &fresh].map(|name| second.lock(name).timeout(Duration::from_secs(20)).build().unwrap());
        let never_renewed = first.lock(&fresh).acquire().unwrap();
        gate.shut();
        let taken = locks.map(|lock| lock.acquire().unwrap());
        assert!(!held.is_held() && !never_renewed.is_held());
        gate.open();
        for guard in taken {
            assert_eq!(guard.release().unwrap(), ReleaseOutcome::Released);
        }
    }
}
