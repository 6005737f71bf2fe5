//! A latch: its count as one key, which is changed by comparing at which revision it was written last, and a key that
//! stands there while it is shut, so that whoever waits is told when that goes. Both are kept by a lease of the latch's
//! own, which lasts for as long as nobody uses it.
//!
//! What a client counted down last lies beside it, in the same transaction: a request that is sent again, since its
//! answer was lost, is answered as if it were the first.

use std::sync::Arc;
use std::time::Duration;

use lockwright_machines::cell::foreign;
use lockwright_machines::stores::etcd::wire::{Compare, Done, Get, Is, KeyValue, Keys, Op, Response, Transaction};
use tokio::time::sleep;

use super::client::Etcd;
use super::connection::answered;
use super::failure::{Failure, too_late};
use super::layouts::part::Part;
use super::transactions::{below, strange};
use crate::protocol::{Arg, AttemptId, Reply, Request};

/// How many keys below a name are looked at for what is no latch.
const OTHERS: i64 = 32;
/// How many of its own count-downs a client remembers for each latch: more than it asks for at the same time.
const REMEMBERED: usize = 64;
/// How often a change that others were faster than is tried before somebody else's turn is waited for.
const TRIES: u32 = 64;

/// What a request says of the latch.
#[derive(Clone, Copy)]
pub(super) struct Plan {
    count: i64,
    idle: i64,
}

/// A latch as it was read.
struct Latch {
    count: i64,
    idle: i64,
    lease: i64,
    /// At which revision its count was written last.
    written: i64,
    /// It was made just now.
    is_new: bool,
}

impl Latch {
    fn of(kv: &KeyValue) -> Option<Self> {
        let value = std::str::from_utf8(&kv.value).ok()?;
        let (count, idle) = value.split_once(' ')?;
        let (count, idle) = (count.parse().ok()?, idle.parse().ok()?);
        Some(Latch { count, idle, lease: kv.lease, written: kv.written, is_new: false })
    }
}

/// The plan in a request by somebody who waits, or counts.
pub(super) fn plan(request: &Request) -> Option<Plan> {
    let at = match request.call.name {
        "acquire" | "try" => 5,
        "look" => 4,
        _ => 2,
    };
    match request.args.get(at..at + 2) {
        Some([Arg::Int(count), Arg::Int(idle)]) => Some(Plan { count: *count, idle: *idle }),
        _ => None,
    }
}

fn put_count(name: &str, count: i64, idle: i64, lease: i64) -> Op {
    Op::Put { key: Part::count_key(name), value: format!("{count} {idle}"), lease }
}

fn put_shut(name: &str, lease: i64) -> Op {
    Op::Put { key: Part::shut_key(name), value: String::new(), lease }
}

fn read(key: &str) -> Op {
    Op::Get(Get::all(Keys::one(key)))
}

/// What a get of a transaction found.
fn found(response: &Response, at: usize) -> &[KeyValue] {
    match response.done.get(at) {
        Some(Done::Got(got)) => &got.kvs,
        _ => &[],
    }
}

/// Reads the latch and what else lies below its name.
fn look(name: &str) -> Transaction {
    let others = Get { limit: OTHERS, ..Get::keys(Keys::beginning(&below(name))) };
    Transaction::of([read(&Part::count_key(name)), Op::Get(others)])
}

/// What else than a latch is called so, as a refusal.
fn another(name: &str, below: &[KeyValue]) -> Option<Reply> {
    let parts = below.iter().filter_map(|kv| Part::of_key(name, std::str::from_utf8(&kv.key).ok()?));
    parts.into_iter().find(|part| !matches!(part, Part::Latch | Part::Wait)).map(|part| foreign(part.word()))
}

impl Etcd {
    /// The latch `name`, made if there is none, by this attempt where that is all that it wants, and kept for as long
    /// as it says from now on; or why there can be none.
    async fn keep(&self, name: &str, plan: Plan, sets: Option<&str>) -> Result<Result<Latch, Reply>, Failure> {
        for tries in 0..TRIES {
            let seen = self.txn(&look(name)).await?;
            if let Some(latch) = found(&seen, 0).first().and_then(Latch::of) {
                if latch.idle >= plan.idle {
                    if self.touch(latch.lease).await? {
                        return Ok(Ok(latch));
                    }
                } else {
                    // The longest that anybody says counts.
                    let lease = self.grant(plan.idle).await?;
                    let same = Compare::key(&Part::count_key(name), Is::WrittenAt(latch.written));
                    let shut = (latch.count > 0).then(|| put_shut(name, lease));
                    let puts = [put_count(name, latch.count, plan.idle, lease)].into_iter().chain(shut);
                    self.txn(&Transaction::when([same]).then(puts)).await?;
                }
            } else {
                if let Some(other) = another(name, found(&seen, 1)) {
                    return Ok(Err(other));
                }
                let lease = self.grant(plan.idle).await?;
                // Nobody came meanwhile.
                let same = Compare { keys: Keys::beginning(&below(name)), is: Is::CreatedBefore(seen.revision + 1) };
                let makes = [put_count(name, plan.count, plan.idle, lease), put_shut(name, lease)];
                let key = || self.counted_key(name).to_string();
                let counts = sets.map(|attempt| Op::Put { key: key(), value: attempt.to_owned(), lease });
                let made = self.txn(&Transaction::when([same]).then(makes.into_iter().chain(counts))).await?;
                if made.succeeded {
                    let Plan { count, idle } = plan;
                    return Ok(Ok(Latch { count, idle, lease, written: made.revision, is_new: true }));
                }
                self.give_up(lease).await;
            }
            self.steps_aside(tries).await;
        }
        Err(Failure::Slow(too_late()))
    }

    /// For who waits: whether the latch is there, or why it cannot be.
    pub(super) async fn keeps_latch(&self, request: &Request) -> Result<Option<Reply>, Failure> {
        let Some(plan) = plan(request) else { return Ok(None) };
        Ok(self.keep(&request.key, plan, None).await?.err())
    }

    /// Counts it down or sets its count, once for each attempt.
    pub(super) async fn change_latch(&self, request: &Request) -> Result<Reply, Failure> {
        let (Some(Arg::Text(attempt)), Some(Arg::Text(does)), Some(plan)) =
            (request.args.first(), request.args.get(1), plan(request))
        else {
            return Err(Failure::NotSent(strange(request)));
        };
        let name = &*request.key;
        let left = |count: i64| Ok(Reply::List([1, count].map(Reply::Int).into()));
        let counted_key = self.counted_key(name);
        let sets = (&**does == "set").then_some(&**attempt);
        for tries in 0..TRIES {
            let latch = match self.keep(name, plan, sets).await? {
                Ok(latch) if latch.is_new && sets.is_some() => return left(latch.count),
                Ok(latch) => latch,
                Err(refused) => return Ok(refused),
            };
            let seen = self.txn(&Transaction::of([read(&counted_key)])).await?;
            let counted = found(&seen, 0);
            let known = counted.first().map_or(&[][..], |kv| &kv.value);
            let known: Vec<_> = std::str::from_utf8(known).unwrap_or_default().split_whitespace().collect();
            let count = match &**does {
                _ if known.contains(&&**attempt) => return left(latch.count),
                "down" if latch.count == 0 => return left(0),
                "down" => latch.count - 1,
                _ if latch.count > 0 => return Ok(Reply::List(vec![Reply::Int(0)])),
                _ => plan.count,
            };
            let before = counted.first().map_or(0, |kv| kv.written);
            let compares = [
                Compare::key(&Part::count_key(name), Is::WrittenAt(latch.written)),
                Compare::key(&counted_key, Is::WrittenAt(before)),
            ];
            let forgotten = known.len().saturating_sub(REMEMBERED - 1);
            let known = [&known[forgotten..], &[&**attempt]].concat().join(" ");
            let puts = [
                put_count(name, count, latch.idle, latch.lease),
                Op::Put { key: counted_key.to_string(), value: known, lease: latch.lease },
                if count == 0 { Op::Delete(Part::shut_key(name)) } else { put_shut(name, latch.lease) },
            ];
            if self.txn(&Transaction::when(compares).then(puts)).await?.succeeded {
                return left(count);
            }
            self.steps_aside(tries).await;
        }
        Err(Failure::Slow(too_late()))
    }

    /// How many are to come yet.
    pub(super) async fn look_at_latch(&self, name: &Arc<str>) -> Result<Reply, Failure> {
        let seen = self.txn(&look(name)).await?;
        let latch = found(&seen, 0).first().and_then(Latch::of).map(|latch| Reply::Int(latch.count));
        Ok(latch.or_else(|| another(name, found(&seen, 1))).unwrap_or(Reply::Nil))
    }

    /// Where it lies what this client counted down last.
    fn counted_key(&self, name: &str) -> Arc<str> {
        Part::Latch.own_key(name, AttemptId(self.id))
    }

    async fn grant(&self, seconds: i64) -> Result<i64, Failure> {
        let granted =
            self.over_a_line(|client| async move { answered(client.lease_client().grant(seconds, None).await) });
        Ok(granted.await?.id())
    }

    /// Has a lease last for its time from now on; whether it is there.
    async fn touch(&self, lease: i64) -> Result<bool, Failure> {
        let touched = self.over_a_line(|client| async move {
            match client.lease_client().keep_alive(lease).await {
                Err(etcd_client::Error::LeaseKeepAliveError(_)) => Ok(false),
                touched => answered(touched).map(|_| true),
            }
        });
        touched.await
    }

    async fn give_up(&self, lease: i64) {
        // If it cannot be given back it ends with its time.
        let given = self.over_a_line(|client| async move { answered(client.lease_client().revoke(lease).await) });
        drop(given.await);
    }

    /// Others were faster: the more often, the longer.
    async fn steps_aside(&self, tries: u32) {
        let spread = u64::try_from(self.id % 8).unwrap_or(0);
        sleep(Duration::from_micros(200 * u64::from(tries.min(20)) * (1 + spread))).await;
    }
}
