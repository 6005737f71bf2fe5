//! Its layouts.
//!
//! The requests, and what answers them. `connection` is a number that the driver gives to each connection: what was
//! read on one says nothing of what is done on the next, for the server may have been started anew, and then counts
//! from 1 again.
//!
//! | request | is done as | answer |
//! |---|---|---|
//! | `acquire key: value ttl not-after` | `add`, then a look | seen |
//! | `renew key: cas connection value ttl not-after` | `cas` unless the connection is another one, then a look | seen |
//! | `look key` | `mg key v c t`, or `gets key` | seen |
//! | `delete key: cas connection` | `md key C<cas>`, or a `cas` whose value ends at once | 1 done, 0 not, -1 the connection is another one |
//! | `stats`, `settings` | `stats`, `stats settings` | `[name value name value ..]` |
//!
//! Seen is `[done connection]` where nothing lies, else `[done connection value cas left]`: whether it was stored (1,
//! 0, or -1 for another connection), and for how many seconds what lies there lasts yet: -1 where it never ends, -2
//! where the server does not say.
//!
//! For `not-after` the driver writes the second of the server's clock in which the value ends. The value is stored by
//! the commands `add` and `cas`, also where the server has the newer `ms`: an `ms` that finds no memory takes away what
//! lies there, whoever holds it.
//!
//! Sources: `protocol.txt` and `proto_text.c` of memcached 1.6.18; the failing `ms` was tried on a server of that
//! version.

pub mod add;
pub mod add_layout;
pub mod examination;

use std::sync::Arc;

use crate::error::{Error, Kind, Result};
use crate::protocol::{Arg, AttemptId, Call, Reply, Request};
use crate::replies::nonsense;

const fn call(name: &'static str, batch: bool) -> Call {
    Call { name, body: &[], batch }
}

/// Takes the lock, if it is free.
pub static ACQUIRE: Call = call("acquire", false);
/// Writes it anew, if it is as it was.
pub static RENEW: Call = call("renew", true);
/// Looks at it.
pub static LOOK: Call = call("look", false);
/// Deletes it, if it is as it was.
pub static DELETE: Call = call("delete", true);
/// What the server says of itself.
pub static STATS: Call = call("stats", false);
/// How it was started.
pub static SETTINGS: Call = call("settings", false);

/// What lies under the key of a lock of ours: `attempt token card`. The token is 0 until the first renewal, since only
/// the server knows the number under which it stores a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value<'a> {
    /// Whose it is.
    pub attempt: AttemptId,
    /// Under which token, 0 while that is the value's own number.
    pub token: u64,
    /// The holder card.
    pub card: &'a str,
}

impl<'a> Value<'a> {
    /// What is stored.
    pub fn written(&self) -> Arc<str> {
        format!("{} {} {}", self.attempt, self.token, self.card).into()
    }

    /// What was stored, if it is ours.
    pub fn read(text: &'a str) -> Option<Self> {
        let mut parts = text.splitn(3, ' ');
        let (attempt, token, card) = (parts.next()?, parts.next()?, parts.next()?);
        let is_ours = attempt.len() == 32 && attempt.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
        let attempt = u128::from_str_radix(attempt, 16).ok().filter(|_| is_ours)?;
        Some(Value { attempt: AttemptId(attempt), token: token.parse().ok()?, card })
    }
}

/// What a look found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found<'a> {
    pub(crate) text: &'a str,
    pub(crate) cas: u64,
    pub(crate) connection: i64,
    pub(crate) left: Left,
}

/// How long something lasts yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Left {
    Seconds(u64),
    Endless,
    Untold,
}

impl<'a> Found<'a> {
    /// Whose it is, if it is ours.
    pub(crate) fn value(&self) -> Option<Value<'a>> {
        Value::read(self.text)
    }

    /// The token of whoever holds it, of which that is the value.
    pub(crate) fn token(&self, value: &Value<'_>) -> u64 {
        if value.token == 0 { self.cas } else { value.token }
    }
}

/// Whether something was stored, and what lies there.
///
/// # Errors
/// What the server refuses with; `unsupported` for one that numbers nothing; `protocol` for what makes no sense.
pub(crate) fn seen<'a>(operation: &'static str, reply: &'a Reply) -> Result<(bool, Option<Found<'a>>)> {
    let strange = || nonsense(operation, std::slice::from_ref(reply));
    let (done, found) = match reply {
        Reply::Error { code, message } => return Err(refused(operation, code, message)),
        Reply::List(list) => match list.as_slice() {
            [Reply::Int(done), Reply::Int(_)] => (*done, None),
            [Reply::Int(done), Reply::Int(connection), Reply::Text(text), Reply::Int(cas), Reply::Int(left)] => {
                let left = match left {
                    -2 => Left::Untold,
                    -1 => Left::Endless,
                    left => Left::Seconds(u64::try_from(*left).map_err(|_| strange())?),
                };
                let cas = u64::try_from(*cas).map_err(|_| strange())?;
                (*done, Some(Found { text, cas, connection: *connection, left }))
            }
            _ => return Err(strange()),
        },
        _ => return Err(strange()),
    };
    match found {
        Some(Found { cas: 0, .. }) => Err(without_numbers(operation)),
        found => Ok((done == 1, found)),
    }
}

/// The error for a server that was started without what locks need.
pub fn without_numbers(operation: &'static str) -> Error {
    let message = "this memcached was started with -C, without the numbers by which a lock is renewed and given back; start \
                   it without that option";
    Error::unsupported(operation, message)
}

/// The error for what a server refuses.
pub fn refused(operation: &'static str, code: &str, message: &str) -> Error {
    let has = |part: &str| message.contains(part);
    let (kind, advice) = match code {
        _ if has("unauthenticated") || has("authentication failure") => {
            (Kind::Auth, "check the user and password in the address")
        }
        "SERVER_ERROR" if has("out of memory") => {
            (Kind::Unavailable, "its memory is full, and it evicts nothing: give it more (-m)")
        }
        "SERVER_ERROR" => (Kind::Unavailable, "it may pass by itself; see the server's log"),
        _ => (Kind::Protocol, "see whether this is a memcached, and its version"),
    };
    let words: String = message.chars().filter(|c| !c.is_control()).take(100).collect();
    Error::new(kind, operation, format!("the server refused: {code} {words}; {advice}"))
}

fn on<const N: usize>(call: &'static Call, key: &Arc<str>, args: [Arg; N]) -> Request {
    Request::new(call, key.clone(), args)
}

/// A number as a request carries it.
fn number(value: u64) -> Arg {
    Arg::Int(i64::try_from(value).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_nothing_else() {
        let value = Value { attempt: AttemptId(7), token: 12, card: "host\t5\trust\ta label" };
        let text = value.written();
        assert_eq!(Value::read(&text), Some(value));
        let long = format!("{:033x} 0 ", 7);
        let capital = format!("{:032X} 0 ", 0xa);
        for other in ["", "7", "a-member", &format!("{:032x}", 7), &format!("{:032x} x ", 7), &long, &capital] {
            assert_eq!(Value::read(other), None, "{other}");
        }
    }

    #[test]
    fn an_answer_without_a_number_is_of_no_use() {
        let reply = |cas| {
            Reply::List(vec![Reply::Int(0), Reply::Int(1), Reply::Text("x".into()), Reply::Int(cas), Reply::Int(-1)])
        };
        assert_eq!(seen("acquire", &reply(0)).unwrap_err().kind(), Kind::Unsupported);
        let found = reply(3);
        assert_eq!(seen("acquire", &found).unwrap().1.unwrap().left, Left::Endless);
        assert_eq!(seen("acquire", &reply(-3)).unwrap_err().kind(), Kind::Protocol);
    }

    #[test]
    fn what_is_refused_says_what_to_do() {
        let kind = |code, message| refused("acquire", code, message).kind();
        assert_eq!(kind("SERVER_ERROR", "out of memory storing object"), Kind::Unavailable);
        assert_eq!(kind("CLIENT_ERROR", "unauthenticated"), Kind::Auth);
        assert_eq!(kind("ERROR", ""), Kind::Protocol);
    }
}
