//! Replicas that have to hear of a grant: the options `wait_replicas`, `wait_policy` and `wait_timeout`.
//!
//! `WAIT` goes out behind whatever may grant, on the same connection, and is answered with the number of replicas
//! that have everything that this connection wrote. It does not make a fail-over safe, since a replica that has not
//! heard may be the one that is promoted; it makes rarer what the promoted one does not know.
//!
//! Source: [WAIT](https://redis.io/docs/latest/commands/wait/).

use std::time::Duration;

use redis::Value;

use super::exchange::Copies;
use crate::error::{Error, Kind, Result};
use crate::platform::fence;
use crate::stores::address::invalid;
use crate::uri::{Uri, span};

/// How many replicas there may be at most, which no server has.
const MOST: u32 = 100;

/// See the [module](self).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Replicas {
    pub(super) copies: Copies,
    policy: Policy,
}

/// What comes of it where too few have heard in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Policy {
    Ignore,
    Warn,
    Fail,
}

impl Replicas {
    /// Takes the options out of an address.
    ///
    /// # Errors
    /// `invalid_config` where they do not fit.
    pub(super) fn read(uri: &mut Uri) -> Result<Option<Self>> {
        let (count, policy, timeout) =
            (uri.take_rest("wait_replicas"), uri.take_rest("wait_policy"), uri.take_rest("wait_timeout"));
        let Some(count) = count else {
            return match policy.or(timeout) {
                Some(_) => Err(invalid("wait_policy and wait_timeout go with wait_replicas, the number of them")),
                None => Ok(None),
            };
        };
        let number = count.parse().ok().filter(|number| *number <= MOST);
        let count = number.ok_or_else(|| invalid(format!("wait_replicas is {count:?}; it must be 0 to {MOST}")))?;
        let policy = match policy.as_deref() {
            Some("ignore") => Policy::Ignore,
            None | Some("warn") => Policy::Warn,
            Some("fail") => Policy::Fail,
            Some(other) => return Err(invalid(format!("wait_policy is {other:?}; write ignore, warn or fail"))),
        };
        let longest = uri.connect.response_timeout;
        let timeout = timeout.map_or(Ok(longest / 4), |text| span("wait_timeout", &text))?;
        // Without a limit the server would wait for ever, and beyond that one nobody waits for it.
        if timeout < Duration::from_millis(1) || timeout >= longest {
            let message =
                format!("wait_timeout is {timeout:?}; it must be 1 ms or more and below response_timeout, {longest:?}");
            return Err(invalid(message));
        }
        Ok((count > 0).then_some(Replicas { copies: Copies { count, timeout }, policy }))
    }

    /// Whether nobody may believe in a lock before they have heard of it.
    pub(super) fn must_have_heard(self) -> bool {
        self.policy == Policy::Fail
    }

    /// Whether this answer will do.
    ///
    /// # Errors
    /// `unavailable` where too few have heard, and that is no grant.
    pub(super) fn check(self, answer: Option<&Value>) -> Result<()> {
        let Replicas { copies: Copies { count: wanted, timeout }, policy } = self;
        let heard = match answer {
            Some(Value::Int(heard)) if *heard >= i64::from(wanted) => return Ok(()),
            Some(Value::Int(heard)) => format!("{heard} of {wanted} replicas have heard of it within {timeout:?}"),
            Some(Value::ServerError(error)) => format!("the server refused to WAIT ({})", error.code()),
            _ => "the server did not say how many replicas have heard of it".to_owned(),
        };
        match policy {
            Policy::Ignore => Ok(()),
            Policy::Warn => {
                fence::told(|| tracing::warn!(target: "lockwright::store", state = "replicas", "{heard}"));
                Ok(())
            }
            Policy::Fail => {
                let message = format!("{heard}; see to the replicas, or ask for fewer (wait_replicas)");
                Err(Error::new(Kind::Unavailable, "connect", message))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::ConnectOptions;

    fn read(options: &str) -> Result<Option<Replicas>> {
        Replicas::read(&mut Uri::parse(&format!("redis://h?{options}"), ConnectOptions::default()).unwrap())
    }

    #[test]
    fn options_are_read_or_refused() {
        let ms = Duration::from_millis;
        let (count, timeout, policy) = (2, ms(250), Policy::Warn);
        for (options, expected) in [
            ("", None),
            ("wait_replicas=0", None),
            ("wait_replicas=2", Some(Replicas { copies: Copies { count, timeout }, policy })),
            (
                "wait_replicas=2&wait_policy=fail&wait_timeout=40ms",
                Some(Replicas { policy: Policy::Fail, copies: Copies { timeout: ms(40), count } }),
            ),
        ] {
            assert_eq!(read(options).unwrap(), expected, "{options}");
        }
        for options in [
            "wait_policy=fail",
            "wait_timeout=1s",
            "wait_replicas=-1",
            "wait_replicas=101",
            "wait_replicas=1&wait_policy=maybe",
            "wait_replicas=1&wait_timeout=1s",
            "wait_replicas=1&wait_timeout=0",
        ] {
            assert_eq!(read(options).unwrap_err().kind(), Kind::InvalidConfig, "{options}");
        }
    }

    #[test]
    fn too_few_fail_only_where_that_is_the_policy() {
        for (options, answer, is_good) in [
            ("wait_replicas=2&wait_policy=fail", Value::Int(2), true),
            ("wait_replicas=2&wait_policy=fail", Value::Int(1), false),
            ("wait_replicas=2&wait_policy=fail", Value::Nil, false),
            ("wait_replicas=2", Value::Int(0), true),
            ("wait_replicas=2&wait_policy=ignore", Value::Int(0), true),
        ] {
            let replicas = read(options).unwrap().unwrap();
            assert_eq!(replicas.check(Some(&answer)).is_ok(), is_good, "{options} {answer:?}");
        }
    }
}
