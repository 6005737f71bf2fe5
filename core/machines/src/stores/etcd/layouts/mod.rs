//! The lock layouts, and the words in which they and the driver talk.
//!
//! A request's key is the lock; its contenders' keys are `<lock>/<something>`. `lease` is the id of the client's lease,
//! which the driver grants before it sends anything that needs one: with it a machine knows its own without being told
//! when it changes. The *fence* is a key of the client's, of which the driver knows the revision that it was written at
//! last: what was sent before an `undo` and comes after it finds another one, and does nothing.
//!
//! | call | does, in one transaction | arguments | answer |
//! |---|---|---|---|
//! | `acquire` | puts the own key under the lease if it is not there and the fence is as known; reads the queue | own key, card, limit, fence, part, tag | queue |
//! | `try` | the same, if nobody is in the queue | own key, card, limit, fence, part, tag | queue |
//! | `yield` | the same as `acquire`, and deletes the key of an earlier hold, if that was created at that revision and nobody has the own key | own key, card, limit, fence, earlier key, its create, tag | queue |
//! | `look` | reads own key and queue | own key, limit, create, part | queue |
//! | `exists` | reads own key | own key | `[lease, create, lease of the key]`, or nil |
//! | `release` | deletes the own key if it was created at that revision | own key, create | 1, or 0 where it is gone and 2 where others are in the queue |
//! | `break` | the same of somebody else's key, and tells its client by the fence of that lease | key, create, lease | as `release` |
//! | `delete` | deletes keys, and one only if its value is this tag, where one is given | keys, tag | how many there were |
//! | `undo` | the same, and writes the fence | keys, tag | how many there were |
//! | `watch` | has deletions in the queue told from now on, unless they are; or at least that of a key since that revision | key, revision, or none | `[revision, milliseconds since then]` |
//! | `first` | reads the queue with values | limit | `[count, [key, create, lease, value], ...]` |
//! | `lives` | asks for how long a lease lasts yet, and what its client says of itself | lease | `[milliseconds, card]`, or nil |
//! | `keys` | reads keys after another, with a prefix | cursor, limit | `[next, key, lease, key, lease, ...]` |
//! | `latch.change` | counts a latch down by one, or sets the count of an open one; copies of it do nothing | attempt, what, count, idle | `[1, count]`, or `[0]` where it counts yet |
//! | `latch.look` | reads the count of a latch | | the count, or nil |
//! | `status` | asks the member how it is | | `[version, bytes of data, 1 where it has a leader, what is wrong, ...]` |
//! | `members` | asks for the members | | `[those who vote, learners]` |
//! | `leases` | asks which leases there are | | `[lease, ...]` |
//! | `keeps` | asks how many keys a lease keeps | lease | the number, or nil where it is over |
//!
//! A *queue* is `[lease, revision, create, lease of the own key, [key, create, lease], ...]`: as of which revision, the
//! own key's creation (0 where it is not there), and the last keys below the lock in the order of their creation, as
//! many as the limit says; none that were created after `create` (unless that is 0), and only those below `part`, where
//! that is said.
//!
//! Whoever waits for a latch says more in `acquire`, `try` and `look`: from where it counts and for how many seconds it
//! is kept. If there is none it is made, else it is kept for that long from now on.
//!
//! A card is that of a [`Holder`](crate::lease::Holder). Its label, or the tag, becomes the value of the own key,
//! which for Go is what a leader proclaims; the rest is the same for all holds of a client, and lies by its lease.
//!
//! A refusal is an error reply: `Fenced`, `Taken` (the own key is there with another value), `Kept` (a `yield` found
//! something else than it was to find, and did nothing), `LeaseNotFound`, `NoSpace`, `PermissionDenied`,
//! `Unavailable`, ... A deletion is told as [`StoreEvent::Gone`](crate::protocol::StoreEvent) with the path
//! `<revision>:<key>`, what may have been missed as `Changed` with the lock as path.

use std::sync::Arc;

use crate::error::{Error, Kind, Result};
use crate::gate::LatchPlan;
use crate::protocol::{Arg, Call, Op, Reply, Request};
use crate::replies::refusal;

pub mod barrier;
mod barrier_layout;
pub mod concurrency;
pub mod concurrency_layout;
pub mod examination;
mod giving;
pub mod latch_layout;
pub mod part;
pub mod seat;
pub mod shared_layout;
mod survey;

const fn call(name: &'static str) -> Call {
    Call { name, body: &[], batch: false }
}

/// Becomes a contender.
pub static ACQUIRE: Call = call("acquire");
/// Becomes the only contender, or none.
pub static TRY: Call = call("try");
/// Becomes a contender in the place of an earlier hold of the same client, which is given back.
pub static YIELD: Call = call("yield");
/// Reads own key and queue.
pub static LOOK: Call = call("look");
/// Reads the own key.
pub static EXISTS: Call = call("exists");
/// Gives the lock back.
pub static RELEASE: Call = call("release");
/// Takes the lock from somebody else.
pub static BREAK: Call = call("break");
/// Deletes keys.
pub static DELETE: Call = call("delete");
/// Deletes keys, and whatever is on its way does nothing.
pub static UNDO: Call = call("undo");
/// Has deletions told.
pub static WATCH: Call = call("watch");
/// Reads the queue for whoever is no part of it.
pub static FIRST: Call = call("first");
/// Asks how long a lease lasts, and who keeps it.
pub static LIVES: Call = call("lives");
/// Lists keys.
pub static KEYS: Call = call("keys");

/// Takes a place at a barrier.
pub static ARRIVE: Call = call("arrive");
/// Lets places pass, all of them or none.
pub static OPEN: Call = call("open");
/// Reads a place and what became of it.
pub static FATE: Call = call("fate");

/// Counts a latch down, or sets its count.
pub static LATCH_CHANGE: Call = call("latch.change");
/// Reads the count of a latch.
pub static LATCH_LOOK: Call = call("latch.look");

/// Asks a member how it is.
pub static STATUS: Call = call("status");
/// Asks how many members there are.
pub static MEMBERS: Call = call("members");
/// Asks which leases there are.
pub static LEASES: Call = call("leases");
/// Asks how many keys a lease keeps.
pub static KEEPS: Call = call("keeps");

/// What was being done, for errors.
fn doing(op: Op) -> &'static str {
    match op {
        Op::Acquire => "acquire",
        Op::Renew => "renew",
        Op::Release => "release",
        Op::Undo => "undo",
    }
}

/// One key of a queue.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Entry {
    key: Arc<str>,
    create: u64,
    lease: i64,
}

/// What a client learns of a queue that it looks at.
#[derive(Clone, Debug)]
struct Queue {
    lease: i64,
    revision: u64,
    /// The own key's creation and lease; none where it is not there.
    own: Option<(u64, i64)>,
    /// All that were told, also keys of locks whose names go on after a slash.
    entries: Vec<Entry>,
}

fn queue(op: Op, reply: &Reply) -> Result<Queue> {
    let doing = doing(op);
    let parts = list(doing, reply)?;
    let [Reply::Int(lease), Reply::Int(revision), Reply::Int(create), Reply::Int(owner), entries @ ..] = parts else {
        return Err(garbled(doing));
    };
    let entries = entries.iter().map(|entry| match entry {
        Reply::List(parts) => match &parts[..] {
            [Reply::Text(key), Reply::Int(create), Reply::Int(lease)] => {
                Ok(Entry { key: key.as_str().into(), create: number(doing, *create)?, lease: *lease })
            }
            _ => Err(garbled(doing)),
        },
        _ => Err(garbled(doing)),
    });
    let own = (*create > 0).then_some((create.unsigned_abs(), *owner));
    Ok(Queue { lease: *lease, revision: number(doing, *revision)?, own, entries: entries.collect::<Result<_>>()? })
}

fn number(doing: &'static str, number: i64) -> Result<u64> {
    u64::try_from(number).map_err(|_| garbled(doing))
}

fn list<'a>(doing: &'static str, reply: &'a Reply) -> Result<&'a [Reply]> {
    match reply {
        Reply::List(parts) => Ok(parts),
        other => Err(refused(doing, other)),
    }
}

fn int(doing: &'static str, reply: &Reply) -> Result<i64> {
    match reply {
        Reply::Int(number) => Ok(*number),
        other => Err(refused(doing, other)),
    }
}

fn first(replies: &[Reply]) -> &Reply {
    replies.first().unwrap_or(&Reply::Nil)
}

/// A request about the keys that it is for.
fn on_keys(call: &'static Call, lock: &Arc<str>, keys: impl IntoIterator<Item = Arc<str>>) -> Request {
    let mut request = Request::new(call, lock.clone(), []);
    request.args.extend(keys.into_iter().map(Arg::Key));
    request
}

fn release(lock: &Arc<str>, own: &Arc<str>, create: u64) -> Request {
    let create = i64::try_from(create).unwrap_or(i64::MAX);
    Request::new(&RELEASE, lock.clone(), [Arg::Key(own.clone()), Arg::Int(create)])
}

/// From where a latch counts, and for how many seconds it is kept.
fn plan_args(plan: LatchPlan) -> [Arg; 2] {
    [Arg::Int(plan.count.into()), Arg::Int(i64::try_from(plan.idle.as_secs()).unwrap_or(i64::MAX))]
}

/// Whether that is this refusal.
fn is(reply: &Reply, refusal: &str) -> bool {
    matches!(reply, Reply::Error { code, .. } if code == refusal)
}

/// An answer that no etcd gives.
fn garbled(doing: &'static str) -> Error {
    let message = "the answer has not the shape of an etcd answer; is something else listening at this address?";
    Error::new(Kind::Protocol, doing, message)
}

/// A refusal as an error. `unavailable` means that asking again may help.
fn refused(doing: &'static str, reply: &Reply) -> Error {
    let Reply::Error { code, message } = reply else { return garbled(doing) };
    let (kind, advice) = match code.as_str() {
        "FOREIGN" => return refusal(doing, code, message),
        "NoSpace" => (
            Kind::Unavailable,
            "its database is full, so it grants no lock; compact and defragment it, then disarm the alarm (etcdctl alarm disarm)",
        ),
        "Fenced" | "LeaseNotFound" | "Unavailable" => (Kind::Unavailable, "ask again"),
        "PermissionDenied" | "Unauthenticated" => {
            (Kind::Auth, "check user and password, and that a role of the user may read and write the locks' keys")
        }
        _ => (Kind::Protocol, "no etcd gives this answer to this request"),
    };
    Error::new(kind, doing, format!("etcd answered {code} ({message}): {advice}"))
}
