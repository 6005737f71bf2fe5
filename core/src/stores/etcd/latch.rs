//! A latch: its count as one key, which is changed by comparing at which revision it was written last, and a key that
//! stands there while it is shut, so that whoever waits is told when that goes. Both are kept by a lease of the latch's
//! own, which lasts for as long as nobody uses it.
//!
//! What a client counted down last lies beside it, in the same transaction: a request that is sent again, since its
//! answer was lost, is answered as if it were the first.

use std::sync::Arc;
use std::time::Duration;

use etcd_client::{Compare, CompareOp, GetOptions, KeyValue, PutOptions, Txn, TxnOp, TxnOpResponse, TxnResponse};
use lockwright_machines::cell::foreign;
use tokio::time::sleep;

use super::client::Etcd;
use super::connection::{Failure, answered, too_late};
use super::layouts::part::Part;
use super::transactions::{below, int, revision_of, strange};
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
        let value = std::str::from_utf8(kv.value()).ok()?;
        let (count, idle) = value.split_once(' ')?;
        let (count, idle) = (count.parse().ok()?, idle.parse().ok()?);
        Some(Latch { count, idle, lease: kv.lease(), written: kv.mod_revision(), is_new: false })
    }
}

/// The plan in a request by somebody who waits, or counts.
pub(super) fn plan(request: &Request) -> Option<Plan> {
    let at = match request.call.name {
        "acquire" | "try" => 5,
        "look" => 4,
        _ => 2,
    };
    Some(Plan { count: int(request, at).ok()?, idle: int(request, at + 1).ok()? })
}

fn under(lease: i64) -> Option<PutOptions> {
    Some(PutOptions::new().with_lease(lease))
}

fn put_count(name: &str, count: i64, idle: i64, lease: i64) -> TxnOp {
    TxnOp::put(Part::count_key(name), format!("{count} {idle}"), under(lease))
}

fn put_shut(name: &str, lease: i64) -> TxnOp {
    TxnOp::put(Part::shut_key(name), "", under(lease))
}

/// What a get of a transaction found.
fn found(response: &TxnResponse, at: usize) -> Vec<KeyValue> {
    match response.op_responses().into_iter().nth(at) {
        Some(TxnOpResponse::Get(got)) => got.kvs().to_vec(),
        _ => Vec::new(),
    }
}

/// Reads the latch and what else lies below its name.
fn look(name: &str) -> Txn {
    let others = GetOptions::new().with_prefix().with_limit(OTHERS).with_keys_only();
    Txn::new().and_then([TxnOp::get(Part::count_key(name), None), TxnOp::get(below(name), Some(others))])
}

/// What else than a latch is called so, as a refusal.
fn another(name: &str, below: &[KeyValue]) -> Option<Reply> {
    let parts = below.iter().filter_map(|kv| Part::of_key(name, std::str::from_utf8(kv.key()).ok()?));
    parts.into_iter().find(|part| !matches!(part, Part::Latch | Part::Wait)).map(|part| foreign(part.word()))
}

impl Etcd {
    /// The latch `name`, made if there is none, by this attempt where that is all that it wants, and kept for as long
    /// as it says from now on; or why there can be none.
    async fn keep(&self, name: &str, plan: Plan, sets: Option<&str>) -> Result<Result<Latch, Reply>, Failure> {
        for tries in 0..TRIES {
            let seen = self.txn(look(name)).await?;
            if let Some(latch) = found(&seen, 0).first().and_then(Latch::of) {
                if latch.idle >= plan.idle {
                    if self.touch(latch.lease).await? {
                        return Ok(Ok(latch));
                    }
                } else {
                    // The longest that anybody says counts.
                    let lease = self.grant(plan.idle).await?;
                    let same = Compare::mod_revision(Part::count_key(name), CompareOp::Equal, latch.written);
                    let shut = (latch.count > 0).then(|| put_shut(name, lease));
                    let puts = [put_count(name, latch.count, plan.idle, lease)].into_iter().chain(shut);
                    self.txn(Txn::new().when([same]).and_then(puts.collect::<Vec<_>>())).await?;
                }
            } else {
                if let Some(other) = another(name, &found(&seen, 1)) {
                    return Ok(Err(other));
                }
                let lease = self.grant(plan.idle).await?;
                // Nobody came meanwhile.
                let same = Compare::create_revision(below(name), CompareOp::Less, revision_of(&seen) + 1).with_prefix();
                let makes = [put_count(name, plan.count, plan.idle, lease), put_shut(name, lease)];
                let counts = sets.map(|attempt| TxnOp::put(&*self.counted_key(name), attempt, under(lease)));
                let makes: Vec<_> = makes.into_iter().chain(counts).collect();
                let made = self.txn(Txn::new().when([same]).and_then(makes)).await?;
                if made.succeeded() {
                    let Plan { count, idle } = plan;
                    return Ok(Ok(Latch { count, idle, lease, written: revision_of(&made), is_new: true }));
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
            let seen = self.txn(Txn::new().and_then([TxnOp::get(&*counted_key, None)])).await?;
            let counted = found(&seen, 0);
            let known = counted.first().map_or(&[][..], KeyValue::value);
            let known: Vec<_> = std::str::from_utf8(known).unwrap_or_default().split_whitespace().collect();
            let count = match &**does {
                _ if known.contains(&&**attempt) => return left(latch.count),
                "down" if latch.count == 0 => return left(0),
                "down" => latch.count - 1,
                _ if latch.count > 0 => return Ok(Reply::List(vec![Reply::Int(0)])),
                _ => plan.count,
            };
            let before = counted.first().map_or(0, KeyValue::mod_revision);
            let compares = [
                Compare::mod_revision(Part::count_key(name), CompareOp::Equal, latch.written),
                Compare::mod_revision(&*counted_key, CompareOp::Equal, before),
            ];
            let forgotten = known.len().saturating_sub(REMEMBERED - 1);
            let known = [&known[forgotten..], &[&**attempt]].concat().join(" ");
            let puts = [
                put_count(name, count, latch.idle, latch.lease),
                TxnOp::put(&*counted_key, known, under(latch.lease)),
                if count == 0 { TxnOp::delete(Part::shut_key(name), None) } else { put_shut(name, latch.lease) },
            ];
            if self.txn(Txn::new().when(compares).and_then(puts)).await?.succeeded() {
                return left(count);
            }
            self.steps_aside(tries).await;
        }
        Err(Failure::Slow(too_late()))
    }

    /// How many are to come yet.
    pub(super) async fn look_at_latch(&self, name: &Arc<str>) -> Result<Reply, Failure> {
        let seen = self.txn(look(name)).await?;
        let latch = found(&seen, 0).first().and_then(Latch::of).map(|latch| Reply::Int(latch.count));
        Ok(latch.or_else(|| another(name, &found(&seen, 1))).unwrap_or(Reply::Nil))
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
