//! A master that is new to those who lock on it: the option `failover_delay`.
//!
//! A replica that is promoted may not have heard of what the lost master granted last. For as long as such a lock may
//! be held, nothing that the new one grants is believed. Behind whatever may grant, on the same connection, goes a look
//! at the server's [marker](Marker): a text beside the locks that says of which run of a server it is, and since when.
//! It comes with the data and names another run then, so whoever is first to ask makes it anew, and from then on the
//! server is *young* for `failover_delay` and a little more: a client may go on with the lost master for as long as it
//! believes the sentinels' last word ([`NAMED`]).
//!
//! Nor is a grant believed later that was made while the lost master may still have made some, whose tokens would be
//! higher: whoever is told that the server is young asks again when it is not, and what it was granted has ended by
//! then, also where that began with a push (`CLAIM`); an ended lease is granted anew.
//!
//! A grant that is pushed has no look behind it, so it is a reason to ask, and no grant.

use std::sync::Arc;
use std::time::Duration;

use lockwright_machines::options::CLAIM;
use lockwright_machines::quorum::{Age, Marker};
use lockwright_machines::{OTHER_LEASES, young};

use super::exchange::may_grant;
use super::layouts::marker;
use super::slots;
use crate::error::{Error, Result};
use crate::options::MAX_TTL;
use crate::protocol::{Reply, Request, Requests, StoreEvent};
use crate::session::margin;
use crate::stores::address::invalid;
use crate::uri::{Uri, span};

/// How long a connection serves whose server was named as the master.
pub(super) const NAMED: Duration = Duration::from_secs(1);

/// The shortest that is of any use.
const SHORTEST: Duration = Duration::from_secs(1);

/// See the [module](self). No lease may be longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Delay(pub(super) Duration);

impl Delay {
    /// Takes the option out of an address.
    ///
    /// # Errors
    /// `invalid_config` where it does not fit.
    pub(super) fn read(uri: &mut Uri) -> Result<Option<Self>> {
        let Some(text) = uri.take_rest("failover_delay") else { return Ok(None) };
        let delay = span("failover_delay", &text)?;
        if delay.is_zero() {
            return Ok(None);
        }
        if !(SHORTEST..=MAX_TTL).contains(&delay) {
            return Err(invalid(format!("failover_delay is {delay:?}; it must be 0, or 1 s to 24 h")));
        }
        Ok(Some(Delay(delay)))
    }

    /// How long after it was first met a server does not count.
    fn young_for(self) -> Duration {
        self.0 + margin(self.0) + NAMED + CLAIM
    }

    /// Whether a lease may last for `ttl`.
    ///
    /// # Errors
    /// `invalid_config` where that is longer: a new master would grant a lock while somebody still holds it.
    pub(super) fn check(self, ttl: Duration) -> Result<()> {
        if ttl <= self.0 {
            return Ok(());
        }
        let message = format!(
            "ttl is {ttl:?}, and no lease may be longer than failover_delay, {:?}: so long a new master grants nothing",
            self.0
        );
        Err(Error::invalid("lock", message))
    }

    /// `requests`, with a look at the marker under `key` behind them.
    pub(super) fn with_look(self, requests: &[Request], key: &Arc<str>) -> Requests {
        let look = Marker { call: &marker::MARK, key: key.clone() }.look(self.young_for());
        requests.iter().cloned().chain([look]).collect()
    }

    /// Takes the answer to the look from behind `replies`, and whatever may be a grant that does not count.
    pub(super) fn judge(self, requests: &[Request], mut replies: Vec<Reply>) -> Vec<Reply> {
        let look = if replies.len() > requests.len() { replies.pop() } else { None };
        let Some((code, message)) = self.objection(look.unwrap_or(Reply::Nil)) else { return replies };
        for (request, reply) in requests.iter().zip(&mut replies) {
            if may_grant(request) && !matches!(reply, Reply::Error { .. }) {
                *reply = Reply::Error { code: code.clone(), message: message.clone() };
            }
        }
        replies
    }

    /// What is to be said in the place of a grant, where the look was answered so.
    fn objection(self, look: Reply) -> Option<(String, String)> {
        let (code, message) = match (Age::read(&look), look) {
            (Some(Age::Known), _) => return None,
            (Some(Age::Young(left)), _) => {
                let left = left.min(self.young_for()) + Duration::from_millis(1);
                let why = format!(
                    "the server is a new master, or was started or emptied, and grants in {} ms: until then it may \
                     not know of locks that are held (failover_delay); wait with a time limit, or try again then",
                    left.as_millis()
                );
                young(left, &why)
            }
            (Some(Age::OtherTtl(_)), _) => (
                OTHER_LEASES.to_owned(),
                format!(
                    "others use these locks with another failover_delay than {:?}; give all clients the same, or stop them and \
                     delete the keys that begin with lwf:",
                    self.0
                ),
            ),
            // Whoever lacks a right is not helped by waiting.
            (None, Reply::Error { code, message }) if code == "NOPERM" => (code, message),
            (None, Reply::Error { code, message }) => young(
                Duration::ZERO,
                &format!(
                    "the server did not say since when it has been the master ({code} {message}); it is asked again"
                ),
            ),
            (None, _) => young(Duration::ZERO, "the server did not say since when it has been the master"),
        };
        Some((code, message))
    }
}

/// The key of the marker on a server that is no part of a cluster.
pub(super) fn key(prefix: &str) -> String {
    format!("lwf:{{{prefix}}}")
}

/// The same in a cluster: in `slot`, so that whoever has that slot has it.
pub(super) fn key_of(slot: u16, prefix: &str) -> String {
    key_in("lwf:{", slot, &format!("}}{prefix}"))
}

/// A key that is in `slot`, between these two parts, which make braces round what is between them.
pub(super) fn key_in(before: &str, slot: u16, behind: &str) -> String {
    // Every slot is found: there are only so many.
    let mut keys = (0u32..).map(|number| format!("{before}{number}{behind}"));
    keys.find(|key| slots::of(key) == slot).unwrap_or_default()
}

/// A push as a reason to ask, for whom it is.
pub(super) fn as_hint(event: StoreEvent) -> StoreEvent {
    match event {
        StoreEvent::Granted { attempt, .. } => StoreEvent::Turn { attempt },
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use lockwright_machines::YOUNG;

    use super::*;
    use crate::error::Kind;
    use crate::options::ConnectOptions;
    use crate::protocol::{Arg, Call};

    static CALL: Call = Call { name: "ask", body: &[], batch: false };

    fn read(options: &str) -> Result<Option<Delay>> {
        Delay::read(&mut Uri::parse(&format!("redis://h?{options}"), ConnectOptions::default()).unwrap())
    }

    #[test]
    fn the_option_is_read_or_refused() {
        for (options, expected) in [
            ("", None),
            ("failover_delay=0", None),
            ("failover_delay=30s", Some(Duration::from_secs(30))),
            ("failover_delay=1s", Some(SHORTEST)),
            ("failover_delay=24h", Some(MAX_TTL)),
        ] {
            assert_eq!(read(options).unwrap(), expected.map(Delay), "{options}");
        }
        for options in ["failover_delay=soon", "failover_delay=999ms", "failover_delay=25h", "failover_delay=-1s"] {
            assert_eq!(read(options).unwrap_err().kind(), Kind::InvalidConfig, "{options}");
        }
    }

    #[test]
    fn what_may_grant_counts_only_on_a_server_that_is_old_enough() {
        let delay = Delay(Duration::from_secs(30));
        let grants = Request::new(&CALL, "x".into(), [Arg::NotAfter]);
        let renews = Request::new(&CALL, "x".into(), []);
        let requests = [renews, grants.clone(), grants];
        let sent = delay.with_look(&requests, &"lwf:{}".into());
        assert_eq!((sent.len(), &*sent[3].key), (4, "lwf:{}"));
        let refused = Reply::Error { code: "OOM".into(), message: "full".into() };
        let said = |look: Reply| delay.judge(&requests, vec![Reply::Int(1), Reply::Int(2), refused.clone(), look]);
        let code = |reply: &Reply| match reply {
            Reply::Error { code, .. } => code.clone(),
            other => format!("{other:?}"),
        };
        let error = |code: &str| Reply::Error { code: code.into(), message: String::new() };
        for (look, expected) in [
            (Reply::Text("run 1 2".into()), "Int(2)"),
            (Reply::Int(7), YOUNG),
            (Reply::List(vec![Reply::Int(1)]), OTHER_LEASES),
            (error("NOPERM"), "NOPERM"),
            (error("MOVED"), YOUNG),
            (Reply::Nil, YOUNG),
        ] {
            let replies = said(look.clone());
            assert_eq!(
                (&replies[0], &*code(&replies[1]), &replies[2]),
                (&Reply::Int(1), expected, &refused),
                "{look:?}"
            );
            assert_eq!(replies.len(), 3);
        }
    }

    #[test]
    fn there_is_a_marker_in_every_slot() {
        for slot in [0, 1, 5461, 16383] {
            assert_eq!(slots::of(&key_of(slot, "app:")), slot);
        }
    }
}
