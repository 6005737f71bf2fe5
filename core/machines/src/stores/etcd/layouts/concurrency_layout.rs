//! The layout `concurrency`: how its locks are called, looked at, broken and listed. Who contends for one is its
//! [machine](super::concurrency).
//!
//! ```text
//! inspect  first                    nobody there: free
//!          lives: the holder's lease  that it is, who, and for how long yet
//! break    first                    the holder was created at that token: break it; else nobody held it so
//! list     keys, page after page    the locks that the contenders among them are of
//! ```

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::concurrency::Concurrency;
use super::{BREAK, FIRST, KEYS, LIVES, contender, first, garbled, int, list, number, refused};
use crate::error::{Error, Kind, Result};
use crate::guarantee::{ExclusiveUntil, Guarantees, TokenRises};
use crate::lease::{Card, Holder, Inspection};
use crate::options::AcquireOptions;
use crate::protocol::{Arg, Inquiry, Layout, Protocol, Reply, Request};

/// How many of a queue are read for a look at it.
const SEEN: i64 = 1000;
/// How many keys are listed in one answer.
const PAGE: i64 = 1000;
/// Below which name the driver keeps keys of its own.
pub const RESERVED: &str = "lockwright/fence";

/// The layout, for locks that are kept under leases of `ttl`.
#[derive(Clone, Debug)]
pub struct ConcurrencyLayout {
    /// The connection's prefix, put before every name.
    pub prefix: String,
    /// How long the client's lease lasts without a sign of life.
    pub ttl: Duration,
}

/// The contender that holds a lock.
struct First {
    key: Arc<str>,
    create: u64,
    lease: i64,
    value: String,
    others: u64,
}

impl Layout for ConcurrencyLayout {
    fn name(&self) -> &'static str {
        "concurrency"
    }

    fn guarantees(&self) -> Guarantees {
        Guarantees {
            store: "etcd",
            layout: "concurrency",
            exclusive_until: ExclusiveUntil::Deadline,
            token: TokenRises::WithStoreData,
            fair: true,
            reentrant: true,
            shared: true,
            push: true,
            survives_disconnect: true,
            incarnation: true,
            notes: &[
                "Locks are bound to their client's lease, which lasts for the address's ttl: a crash is noticed when that ends.",
                "A cluster that is restored from a backup, or built anew, gives lower tokens than before.",
            ],
        }
    }

    fn key(&self, name: &str) -> Result<Arc<str>> {
        if name == RESERVED {
            let message = format!("{RESERVED:?} is where this library keeps keys of its own; choose another name");
            return Err(Error::invalid("lock", message));
        }
        Ok(format!("{}{name}", self.prefix).into())
    }

    fn check(&self, options: &AcquireOptions) -> Result<()> {
        if options.ttl > self.ttl {
            let message = format!(
                "a lock on etcd lasts as long as its client's lease, {}; give a longer one in the address, ?ttl={}",
                crate::span::written(self.ttl),
                crate::span::written(options.ttl)
            );
            return Err(Error::unsupported("lock", message));
        }
        Ok(())
    }

    fn protocol(&self, key: Arc<str>) -> Box<dyn Protocol> {
        Box::new(Concurrency::new(key, self.ttl))
    }

    fn inspect<'a>(&'a self, name: &'a str, key: Arc<str>) -> Inquiry<'a, Inspection> {
        let nothing = Inspection::of_nothing(self.name(), name);
        look("inspect", key.clone(), move |holder| {
            let Some(holder) = holder else { return Inquiry::Done(Ok(nothing)) };
            let seen = Inspection { waiters: holder.others, ..nothing.of_lock() };
            Inquiry::of(Request::new(&LIVES, key, [Arg::Int(holder.lease)]), move |reply| {
                let remaining = match reply {
                    Reply::Nil => Duration::ZERO,
                    other => Duration::from_millis(number("inspect", int("inspect", other)?)?),
                };
                Ok(Inspection { holder: Some(shown(&holder, remaining)), ..seen })
            })
        })
    }

    fn break_hold(&self, key: Arc<str>, token: u64) -> Inquiry<'_, bool> {
        look("break", key.clone(), move |holder| {
            let Some(holder) = holder.filter(|holder| holder.create == token) else { return Inquiry::Done(Ok(false)) };
            let (create, lease) = (Arg::Int(i64::try_from(token).unwrap_or(i64::MAX)), Arg::Int(holder.lease));
            let request = Request::new(&BREAK, key, [Arg::Key(holder.key), create, lease]);
            Inquiry::of(request, |reply| match reply {
                // Its lease ended meanwhile, and the hold with it.
                Reply::Error { code, .. } if code == "LeaseNotFound" => Ok(false),
                other => Ok(int("break", other)? == 1),
            })
        })
    }

    fn list(&self) -> Inquiry<'_, Vec<String>> {
        let prefix: Arc<str> = self.prefix.as_str().into();
        self.page(Request::new(&KEYS, prefix, [Arg::Nothing, Arg::Int(PAGE)]), BTreeSet::new())
    }
}

impl ConcurrencyLayout {
    /// The names of the locks that are told by `request` and the pages after it, with those that were `found`.
    fn page(&self, request: Request, mut found: BTreeSet<String>) -> Inquiry<'_, Vec<String>> {
        Inquiry::ask([request], move |replies| {
            let (cursor, keys) = match page(first(replies)) {
                Ok(page) => page,
                Err(error) => return Inquiry::Done(Err(error)),
            };
            found.extend(keys.iter().filter_map(|(key, lease)| self.name_of(key, *lease)));
            if cursor.is_empty() {
                return Inquiry::Done(Ok(found.into_iter().collect()));
            }
            let prefix: Arc<str> = self.prefix.as_str().into();
            self.page(Request::new(&KEYS, prefix, [Arg::Text(cursor.into()), Arg::Int(PAGE)]), found)
        })
    }

    /// The name of the lock of which `key` is a contender's: what follows it is an attempt of ours, or the lease.
    fn name_of(&self, key: &str, lease: i64) -> Option<String> {
        let (lock, rest) = key.rsplit_once('/')?;
        let is_digits = |text: &str| text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        let is_ours = rest.len() == 32 && is_digits(rest) && lease != 0;
        let is_a_contender = is_ours || lease != 0 && *rest == *format!("{lease:x}");
        let name = lock.strip_prefix(&self.prefix).filter(|_| is_a_contender)?;
        (!name.is_empty()).then(|| name.to_owned())
    }
}

/// Finds out who stands first, and goes on with that.
fn look<'a, T: 'a>(
    doing: &'static str,
    key: Arc<str>,
    next: impl FnOnce(Option<First>) -> Inquiry<'a, T> + Send + 'a,
) -> Inquiry<'a, T> {
    Inquiry::ask([Request::new(&FIRST, key.clone(), [Arg::Int(SEEN)])], move |replies| {
        match standing(doing, &key, first(replies)) {
            Ok(holder) => next(holder),
            Err(error) => Inquiry::Done(Err(error)),
        }
    })
}

/// Who stands first, and before how many others.
fn standing(doing: &'static str, lock: &str, reply: &Reply) -> Result<Option<First>> {
    let [Reply::Int(count), entries @ ..] = list(doing, reply)? else { return Err(garbled(doing)) };
    let beyond = number(doing, *count)?.saturating_sub(entries.len() as u64);
    let mut holder: Option<First> = None;
    for entry in entries {
        let Reply::List(parts) = entry else { return Err(garbled(doing)) };
        let [Reply::Text(key), Reply::Int(create), Reply::Int(lease), Reply::Text(value)] = &parts[..] else {
            return Err(garbled(doing));
        };
        match &mut holder {
            _ if contender(lock, key).is_none() => {}
            Some(holder) => holder.others += 1,
            None if *lease == 0 => {
                let message = format!("the key {key} is kept by no lease, as a lock's are: it is something else");
                return Err(Error::new(Kind::ForeignLayout, doing, message));
            }
            None => {
                let (key, create, value) = (key.as_str().into(), number(doing, *create)?, value.clone());
                holder = Some(First { key, create, lease: *lease, value, others: beyond });
            }
        }
    }
    Ok(holder)
}

fn page(reply: &Reply) -> Result<(String, Vec<(&str, i64)>)> {
    let [Reply::Text(cursor), keys @ ..] = list("list", reply)? else { return Err(refused("list", reply)) };
    let keys = keys.chunks(2).map(|pair| match pair {
        [Reply::Text(key), Reply::Int(lease)] => Ok((key.as_str(), *lease)),
        _ => Err(garbled("list")),
    });
    Ok((cursor.clone(), keys.collect::<Result<_>>()?))
}

fn shown(first: &First, remaining: Duration) -> Holder {
    Holder {
        owner: sha1_smol::Sha1::from(&*first.key).digest().to_string()[..12].to_owned(),
        // Go's contenders write nothing.
        card: Card::decode(&first.value),
        held_for: None,
        remaining,
        first_token: first.create,
        last_token: first.create,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout() -> ConcurrencyLayout {
        ConcurrencyLayout { prefix: "app/".into(), ttl: Duration::from_secs(30) }
    }

    fn entry(key: &str, create: i64, lease: i64, value: &str) -> Reply {
        Reply::List(vec![Reply::Text(key.into()), Reply::Int(create), Reply::Int(lease), Reply::Text(value.into())])
    }

    /// A queue of two, behind a contender for a lock whose name begins with this one's.
    fn answer(request: &Request) -> Reply {
        match request.call.name {
            "first" => Reply::List(vec![
                Reply::Int(5),
                entry("app/x/y/77", 3, 0x77, ""),
                entry("app/x/1f", 4, 0x1f, "h\t5\trust\tlabel"),
                entry("app/x/20", 5, 0x20, ""),
            ]),
            "lives" => Reply::Int(2_500),
            "break" => Reply::Int(1),
            other => panic!("nobody asks {other}"),
        }
    }

    #[test]
    fn who_was_first_holds_it_and_the_others_wait() {
        let layout = layout();
        let look = layout.inspect("x", layout.key("x").unwrap());
        let seen = look.conclude(|requests| Ok(requests.iter().map(answer).collect())).unwrap();
        let holder = seen.holder.unwrap();
        assert_eq!((holder.first_token, holder.card.pid, holder.remaining.as_millis()), (4, 5, 2_500));
        // Two more than were shown.
        assert_eq!(seen.waiters, 3);
        let nobody = layout.inspect("x", "app/x".into()).answered(&Reply::List(vec![Reply::Int(0)])).unwrap();
        assert!(nobody.is_free());
        let foreign = Reply::List(vec![Reply::Int(1), entry("app/x/note", 3, 0, "")]);
        let error = layout.inspect("x", "app/x".into()).answered(&foreign).unwrap_err();
        assert_eq!(error.kind(), Kind::ForeignLayout);
    }

    #[test]
    fn who_holds_it_under_that_token_is_broken_and_nobody_else() {
        let layout = layout();
        let broken = |token| {
            let look = layout.break_hold("app/x".into(), token);
            look.conclude(|requests| Ok(requests.iter().map(answer).collect())).unwrap()
        };
        assert_eq!([3, 4, 5].map(broken), [false, true, false]);
    }

    #[test]
    fn contenders_tell_which_locks_there_are() {
        let layout = layout();
        let attempt = "0123456789abcdef0123456789abcdef";
        let keys = [
            ("app/a/b/1f".to_owned(), 0x1f),
            (format!("app/x/{attempt}"), 7),
            (format!("app/x/{}", attempt.replace('0', "1")), 7),
            // No lease; another lease than its own; no contender; nobody's name; another prefix.
            (format!("app/none/{attempt}"), 0),
            ("app/other/1f".to_owned(), 0x2f),
            ("app/lockwright/fence/-1f".to_owned(), 0x1f),
            ("app//1f".to_owned(), 0x1f),
            ("1f".to_owned(), 0x1f),
        ];
        let mut pages = 0;
        let list = layout.list().conclude(|requests| {
            pages += 1;
            let cursor = if pages == 1 { "app/m" } else { "" };
            assert_eq!(requests[0].args[0] == Arg::Nothing, pages == 1);
            let part = if pages == 1 { &keys[..2] } else { &keys[2..] };
            let part = part.iter().flat_map(|(key, lease)| [Reply::Text(key.clone()), Reply::Int(*lease)]);
            Ok(vec![Reply::List([Reply::Text(cursor.into())].into_iter().chain(part).collect())])
        });
        assert_eq!((list.unwrap(), pages), (vec!["a/b".to_owned(), "x".to_owned()], 2));
    }

    #[test]
    fn a_ttl_beyond_the_lease_is_refused_and_says_where_it_belongs() {
        let longer = AcquireOptions { ttl: Duration::from_secs(31), ..AcquireOptions::default() };
        let error = layout().check(&longer).unwrap_err();
        assert!(error.kind() == Kind::Unsupported && error.to_string().contains("?ttl=31s"), "{error}");
        assert!(layout().check(&AcquireOptions::default()).is_ok());
        assert_eq!(layout().key(RESERVED).unwrap_err().kind(), Kind::InvalidConfig);
    }
}
