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
    /// How many there are of that user's.
    pub connections: &'a str,
}

impl Advisory<'_> {
    fn client(&self, options: &str) -> Client {
        client(self.uri, &format!("layout=advisory&{options}"))
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
        let (user, place) = self.uri.split_once('@').unwrap();
        let (server, database) = place.split_once('/').unwrap();
        let gate = Gate::before(server.split_once(':').unwrap().1.parse().unwrap());
        let beyond = format!("{user}@{}/{database}", gate.address());
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
}
