//! The layout `add`: how its locks are called, looked at and broken. Who contends for one is its [machine](super::add).

use std::sync::Arc;
use std::time::Duration;

use super::add::AddLock;
use super::{DELETE, Found, LOOK, Left, number, on, refused, seen};
use crate::error::{Error, Result};
use crate::guarantee::{ExclusiveUntil, Guarantees, TokenRises};
use crate::lease::{Card, Holder, Inspection};
use crate::options::AcquireOptions;
use crate::protocol::{Inquiry, Layout, Protocol, Reply};
use crate::replies::{nonsense, shown};
use crate::span::written;

/// The longest key that memcached takes, in bytes.
const LONGEST_KEY: usize = 250;
/// The most rounds of a lock that changes while it is broken.
const MAX_ROUNDS: u8 = 16;

/// The layout.
#[derive(Clone, Debug)]
pub struct AddLayout {
    /// The connection's prefix, put before every name.
    pub prefix: String,
}

impl Layout for AddLayout {
    fn name(&self) -> &'static str {
        "add"
    }

    fn guarantees(&self) -> Guarantees {
        Guarantees {
            store: "memcached",
            layout: "add",
            exclusive_until: ExclusiveUntil::StoreFailover,
            token: TokenRises::WithStoreData,
            fair: false,
            reentrant: true,
            shared: true,
            push: false,
            survives_disconnect: true,
            incarnation: true,
            notes: &[
                "It is a cache: a server that is restarted, flushed, or full and evicting forgets locks that are held; their \
                 holders are told at the next renewal, and another may hold meanwhile.",
                "Tokens count the values stored since the server was started, and begin again with it.",
                "A lock is kept by one server. Clients that spread keys over several keep it elsewhere when the list changes.",
                "Other libraries release and renew without comparing, and may take the lock from its holder, who is told at \
                 its next renewal.",
                "Waiters poll, in no order: with several processes, one of them may wait long.",
            ],
        }
    }

    fn key(&self, name: &str) -> Result<Arc<str>> {
        let key = format!("{}{name}", self.prefix);
        if key.len() > LONGEST_KEY {
            let length = key.len();
            let message =
                format!("a key of memcached has {LONGEST_KEY} bytes at most, and this name and prefix have {length}");
            return Err(Error::invalid("lock", message));
        }
        if let Some(bad) = key.chars().find(|c| *c == ' ' || c.is_control()) {
            let message =
                format!("a key of memcached has no spaces or control characters, and this name or prefix has {bad:?}");
            return Err(Error::invalid("lock", message));
        }
        Ok(key.into())
    }

    fn check(&self, options: &AcquireOptions) -> Result<()> {
        if options.ttl.subsec_nanos() == 0 && options.ttl >= Duration::from_secs(1) {
            return Ok(());
        }
        let message = format!(
            "memcached counts whole seconds, and ttl is {}; give whole seconds, 1s at least",
            written(options.ttl)
        );
        Err(Error::invalid("lock", message))
    }

    fn protocol(&self, key: Arc<str>) -> Box<dyn Protocol> {
        Box::new(AddLock::new(key))
    }

    fn inspect<'a>(&'a self, name: &'a str, key: Arc<str>) -> Inquiry<'a, Inspection> {
        Inquiry::of(on(&LOOK, &key, []), move |reply| {
            let nothing = Inspection::of_nothing(self.name(), name);
            let (_, found) = seen("inspect", reply)?;
            Ok(match found {
                Some(found) => Inspection { holder: Some(holder(&found)), ..nothing.of_lock() },
                None => nothing,
            })
        })
    }

    fn break_hold(&self, key: Arc<str>, token: u64) -> Inquiry<'_, bool> {
        break_under(key, token, MAX_ROUNDS)
    }

    fn list(&self) -> Inquiry<'static, Vec<String>> {
        let message = "memcached cannot tell which keys it has; ask for each lock by its name";
        Inquiry::Done(Err(Error::unsupported("list", message)))
    }
}

/// Who holds a lock. Whoever stored a value that is none of ours uses another library, which has no tokens.
fn holder(found: &Found<'_>) -> Holder {
    let remaining = match found.left {
        Left::Seconds(left) => Duration::from_secs(left),
        Left::Endless | Left::Untold => Duration::MAX,
    };
    let (owner, card, token) = match found.value() {
        Some(value) => (shown(&value.attempt.to_string()), Card::decode(value.card), found.token(&value)),
        None => (shown(found.text), Card { language: "another library".into(), ..Card::default() }, 0),
    };
    Holder { owner, card, held_for: None, remaining, first_token: token, last_token: token }
}

fn break_under<'a>(key: Arc<str>, token: u64, rounds: u8) -> Inquiry<'a, bool> {
    Inquiry::ask([on(&LOOK, &key, [])], move |replies| {
        let reply = replies.first().unwrap_or(&Reply::Nil);
        let found = match seen("break", reply) {
            Ok((_, found)) => found,
            Err(error) => return Inquiry::Done(Err(error)),
        };
        let holds = |found: &Found<'_>| found.value().is_some_and(|value| found.token(&value) == token);
        let Some(found) = found.filter(holds) else { return Inquiry::Done(Ok(false)) };
        let delete = on(&DELETE, &key, [number(found.cas), crate::protocol::Arg::Int(found.connection)]);
        Inquiry::ask([delete], move |replies| match replies.first() {
            Some(Reply::Int(1)) => Inquiry::Done(Ok(true)),
            // It was renewed meanwhile, or the connection is another one.
            Some(Reply::Int(0 | -1)) if rounds > 0 => break_under(key, token, rounds - 1),
            Some(Reply::Int(0 | -1)) => Inquiry::Done(Ok(false)),
            Some(Reply::Error { code, message }) => Inquiry::Done(Err(refused("break", code, message))),
            _ => Inquiry::Done(Err(nonsense("break", replies))),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Kind;
    use crate::protocol::{AttemptId, Requests};
    use crate::stores::memcached::layouts::Value;

    fn layout() -> AddLayout {
        AddLayout { prefix: "app:".into() }
    }

    fn there(text: &str, cas: i64, left: i64) -> Reply {
        Reply::List(vec![Reply::Int(0), Reply::Int(1), Reply::Text(text.into()), Reply::Int(cas), Reply::Int(left)])
    }

    fn ours(token: u64) -> String {
        Value { attempt: AttemptId(7), token, card: "h\t5\trust\tlabel" }.written().to_string()
    }

    fn inspected(reply: &Reply) -> Inspection {
        layout().inspect("x", layout().key("x").unwrap()).answered(reply).unwrap()
    }

    #[test]
    fn a_holder_is_told_with_the_token_of_its_grant() {
        let fresh = inspected(&there(&ours(0), 41, 30)).holder.unwrap();
        assert_eq!((fresh.first_token, fresh.card.pid, fresh.remaining), (41, 5, Duration::from_secs(30)));
        let renewed = inspected(&there(&ours(41), 57, 30)).holder.unwrap();
        assert_eq!((renewed.first_token, renewed.owner), (41, fresh.owner));
        let other = inspected(&there("a-member", 9, -1)).holder.unwrap();
        assert_eq!((other.first_token, other.remaining, &*other.card.language), (0, Duration::MAX, "another library"));
        assert!(inspected(&Reply::List(vec![Reply::Int(0), Reply::Int(1)])).is_free());
    }

    #[test]
    fn whoever_holds_it_under_that_token_is_broken_and_nobody_else() {
        let broken = |token, done: [i64; 2]| {
            let (mut numbers, mut deleted) = ([57, 58].into_iter(), done.into_iter());
            let answer = |requests: &Requests| {
                Ok(vec![match requests[0].call.name {
                    "look" => there(&ours(41), numbers.next().unwrap(), 30),
                    _ => Reply::Int(deleted.next().unwrap()),
                }])
            };
            layout().break_hold("app:x".into(), token).conclude(answer).unwrap()
        };
        assert!(broken(41, [1, 1]));
        assert!(broken(41, [0, 1]), "renewed meanwhile");
        assert!(broken(41, [-1, 1]), "another connection");
        assert!(!broken(57, [1, 1]) && !broken(40, [1, 1]));
    }

    #[test]
    fn names_that_are_no_keys_are_refused() {
        let kind = |name: &str| layout().key(name).map_err(|error| error.kind());
        assert_eq!(kind("orders:42/ü").as_deref(), Ok("app:orders:42/ü"));
        assert_eq!(kind("a b"), Err(Kind::InvalidConfig));
        assert_eq!(kind("a\nb"), Err(Kind::InvalidConfig));
        assert!(kind(&"x".repeat(246)).is_ok());
        assert_eq!(kind(&"x".repeat(247)), Err(Kind::InvalidConfig));
        assert_eq!(kind(&"ü".repeat(124)), Err(Kind::InvalidConfig));
    }

    #[test]
    fn only_whole_seconds_are_a_ttl() {
        let check = |millis| {
            let options = AcquireOptions { ttl: Duration::from_millis(millis), ..AcquireOptions::default() };
            layout().check(&options).map_err(|error| error.kind())
        };
        assert_eq!([1000, 30_000].map(check), [Ok(()), Ok(())]);
        assert_eq!([1500, 999, 100].map(check), [Err(Kind::InvalidConfig); 3]);
    }

    #[test]
    fn what_locks_there_are_is_not_known_and_says_why() {
        let error = layout().list().answered(&Reply::Nil).unwrap_err();
        assert!(error.kind() == Kind::Unsupported && error.to_string().contains("which keys it has"), "{error}");
    }
}
