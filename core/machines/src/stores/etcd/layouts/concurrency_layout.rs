//! The layout `concurrency`: how its locks are called, looked at, broken and listed. Who contends for one is its
//! [machine](super::concurrency).
//!
//! ```text
//! inspect, break                    see the survey of those who stand there
//! list     keys, page after page    the names that the contenders among them are of
//! ```

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::barrier_layout::BarrierLayout;
use super::concurrency::Concurrency;
use super::latch_layout::LatchLayout;
use super::part::Part;
use super::seat::Seats;
use super::shared_layout::SharedLayout;
use super::survey::{self, Wanted};
use super::{KEYS, first, garbled, list, refused};
use crate::error::{Error, Result};
use crate::gate::Gate;
use crate::guarantee::{ExclusiveUntil, Guarantees, TokenRises};
use crate::lease::{Inspection, LOCK};
use crate::options::AcquireOptions;
use crate::pages::Pages;
use crate::protocol::{Arg, Inquiry, Layout, Protocol, Reply, Request};
use crate::share::Share;

/// How many keys are listed in one answer.
const PAGE: i64 = 1000;
/// Below which name the driver keeps keys of its own.
pub const RESERVED: &str = "lockwright/fence";

/// What else a person should know of whatever is kept under a lease.
pub(super) const NOTES: [&str; 3] = [
    "Locks are bound to their client's lease, which lasts for the address's ttl: a crash is noticed when that ends.",
    "A cluster that is restored from a backup, or built anew, gives lower tokens than before.",
    "Before etcd 3.4.31 and 3.5.13, a leader that stood still and goes on ends leases that are kept alive.",
];

/// The layout, for locks that are kept under leases of `ttl`.
#[derive(Clone, Debug)]
pub struct ConcurrencyLayout {
    /// The connection's prefix, put before every name.
    pub prefix: String,
    /// How long the client's lease lasts without a sign of life.
    pub ttl: Duration,
    /// What the keys of this client's contenders are called after.
    pub(super) seats: Arc<dyn Seats>,
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
            notes: &NOTES,
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
        Box::new(Concurrency::new(key, self.ttl).seated(&self.seats))
    }

    fn shared(&self, share: Share) -> Option<Arc<dyn Layout>> {
        Some(Arc::new(SharedLayout { locks: self.clone(), share }))
    }

    fn gate(&self, gate: Gate) -> Option<Arc<dyn Layout>> {
        match gate {
            Gate::Latch(plan) => Some(Arc::new(LatchLayout { locks: self.clone(), plan })),
            Gate::Barrier(plan) => Some(Arc::new(BarrierLayout { locks: self.clone(), plan })),
        }
    }

    fn inspect<'a>(&'a self, name: &'a str, key: Arc<str>) -> Inquiry<'a, Inspection> {
        survey::inspect(self.name(), name, key, Wanted::One(LOCK))
    }

    fn identify<'a>(&'a self, name: &'a str, key: Arc<str>) -> Inquiry<'a, Inspection> {
        survey::inspect(self.name(), name, key, Wanted::Any)
    }

    fn break_hold(&self, key: Arc<str>, token: u64) -> Inquiry<'_, bool> {
        survey::break_hold(key, token, Wanted::Any)
    }

    fn list(&self) -> Inquiry<'static, Vec<String>> {
        self.clone().page(Arg::Nothing, Pages::default(), BTreeSet::new())
    }
}

impl ConcurrencyLayout {
    /// The layout of one client, whose lease lasts for `ttl` and whose names begin with `prefix`.
    pub fn new(prefix: impl Into<String>, ttl: Duration, seats: Arc<dyn Seats>) -> Self {
        ConcurrencyLayout { prefix: prefix.into(), ttl, seats }
    }

    /// The names of the locks that are told from `cursor` on, with those that were `found`.
    fn page(self, cursor: Arg, mut pages: Pages, mut found: BTreeSet<String>) -> Inquiry<'static, Vec<String>> {
        Inquiry::ask([ask_page(&self.prefix.as_str().into(), cursor)], move |replies| {
            let (cursor, keys) = match page(first(replies)) {
                Ok(page) => page,
                Err(error) => return Inquiry::Done(Err(error)),
            };
            found.extend(keys.iter().filter_map(|(key, lease)| name_of(&self.prefix, key, *lease).map(str::to_owned)));
            if cursor.is_empty() {
                return Inquiry::Done(Ok(found.into_iter().collect()));
            }
            match pages.turn("list", &cursor) {
                Ok(()) => self.page(Arg::Text(cursor.into()), pages, found),
                Err(error) => Inquiry::Done(Err(error)),
            }
        })
    }
}

/// The name of which `key` is a contender's, behind this prefix: it says so itself, as one of ours or one of Go's
/// readers and writers, or ends with the lease that keeps it.
pub(super) fn name_of<'a>(prefix: &str, key: &'a str, lease: i64) -> Option<&'a str> {
    let name = match Part::of_ours(key) {
        _ if lease == 0 => return None,
        Some((name, _)) => name,
        None if Part::of_count(key).is_some() => Part::of_count(key)?,
        None => match key.rsplit_once('/')? {
            (name, rest) if *rest == *format!("{lease:x}") => name,
            (folder, _) => {
                let (name, _) = folder.rsplit_once('/')?;
                Part::of_key(name, key).filter(|part| part.primitive().is_some()).map(|_| name)?
            }
        },
    };
    name.strip_prefix(prefix).filter(|name| !name.is_empty())
}

/// All keys behind `prefix` from this cursor on, as many as one page has.
pub(super) fn ask_page(prefix: &Arc<str>, cursor: Arg) -> Request {
    Request::new(&KEYS, prefix.clone(), [cursor, Arg::Int(PAGE)])
}

/// Where the page after this one begins, and each key with its lease.
pub(super) fn page(reply: &Reply) -> Result<(String, Vec<(&str, i64)>)> {
    let [Reply::Text(cursor), keys @ ..] = list("list", reply)? else { return Err(refused("list", reply)) };
    let keys = keys.chunks(2).map(|pair| match pair {
        [Reply::Text(key), Reply::Int(lease)] => Ok((key.as_str(), *lease)),
        _ => Err(garbled("list")),
    });
    Ok((cursor.clone(), keys.collect::<Result<_>>()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Kind;
    use crate::protocol::Requests;

    fn layout() -> ConcurrencyLayout {
        ConcurrencyLayout::new("app/", Duration::from_secs(30), Arc::new(()))
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
                entry("app/x/1f", 4, 0x1f, "label"),
                entry("app/x/20", 5, 0x20, ""),
            ]),
            "lives" => Reply::List(vec![Reply::Int(2_500), Reply::Text("h\t5\trust\t".into())]),
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
        assert_eq!(holder.card.label, "label");
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
    fn of_what_is_shared_all_holders_are_told_and_each_can_be_broken() {
        let attempt = "0123456789abcdef0123456789abcdef";
        let line = Reply::List(vec![
            Reply::Int(5),
            entry(&format!("app/x/read/{attempt}.read"), 3, 0x1f, "one"),
            entry("app/x/read/1700000000123456789", 4, 0x20, ""),
            // A lock of that name knows nothing of readers; a lock below it.
            entry("app/x/21", 5, 0x21, ""),
            entry("app/x/y/21", 6, 0x21, ""),
            entry(&format!("app/x/write/{attempt}.write"), 7, 0x1f, ""),
        ]);
        let answer = |request: &Request| if request.call.name == "first" { line.clone() } else { answer(request) };
        let answers = |requests: &Requests| Ok(requests.iter().map(answer).collect());
        let locks = layout();
        let layout = locks.shared(Share::WRITE).unwrap();
        for seen in [layout.inspect("x", "app/x".into()), locks.identify("x", "app/x".into())] {
            let seen = seen.conclude(answers).unwrap();
            let shared = seen.shared.unwrap();
            let holders: Vec<_> = shared.holders.iter().map(|part| (part.holder.first_token, part.units)).collect();
            assert_eq!((seen.primitive, seen.waiters, holders), (Some("rwlock"), 1, vec![(3, 1), (4, 1)]));
            assert_eq!((shared.held, shared.permits, shared.unlisted), (2, None, 0));
            assert_eq!(seen.holder.unwrap().card.label, "one");
        }
        let error = locks.inspect("x", "app/x".into()).conclude(answers).unwrap_err();
        assert_eq!(error.kind(), Kind::ForeignLayout);
        let broken = |token| locks.break_hold("app/x".into(), token).conclude(answers).unwrap();
        assert_eq!([3, 4, 5, 7].map(broken), [true, true, false, false]);
    }

    #[test]
    fn contenders_tell_which_locks_there_are() {
        let layout = layout();
        let attempt = "0123456789abcdef0123456789abcdef";
        let keys = [
            ("app/a/b/1f".to_owned(), 0x1f),
            (format!("app/x/{attempt}"), 7),
            (format!("app/x/{}", attempt.replace('0', "1")), 7),
            // What several share, of ours and of Go's.
            (format!("app/rw/read/{attempt}.read"), 7),
            (format!("app/rw/write/{attempt}.write"), 7),
            ("app/theirs/write/1700000000123456789".to_owned(), 7),
            (format!("app/sem/permits/{attempt}.2.5"), 7),
            ("app/done/latch/state/count".to_owned(), 9),
            ("app/done/latch/state/shut".to_owned(), 9),
            (format!("app/done/latch/{attempt}.wait"), 7),
            // No lease; another lease than its own; no contender; nobody's name; another prefix.
            (format!("app/none/{attempt}"), 0),
            ("app/other/1f".to_owned(), 0x2f),
            ("app/lockwright/fence/-1f".to_owned(), 0x1f),
            ("app/lockwright/fence/-1f.card".to_owned(), 0x1f),
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
        let names = ["a/b", "done", "rw", "sem", "theirs", "x"].map(str::to_owned).to_vec();
        assert_eq!((list.unwrap(), pages), (names, 2));
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
