//! The joined layouts: their model of a store is the reference that their scripts are compared with.

use std::fmt::Debug;
use std::hash::Hash;
use std::marker::PhantomData;
use std::time::Duration;

use lockwright_machines::lock_cell::BLOCK;
use lockwright_machines::protocol::{Arg, AttemptId, InboxId, Op, Protocol, Reply, Request, StoreEvent};
use lockwright_machines::relative::Relative;
use lockwright_machines::stores::redis::layouts::redisson::{self, PLAIN, RedissonLock};
use lockwright_machines::stores::redis::layouts::redisson_fenced::{self, FencedLock};
use lockwright_machines::stores::redis::layouts::{getset, string};
use lockwright_machines::time::{StoreTime, Time};

use super::joined_store::{JoinedStore, Waiter, Way};
use super::{Around, Checked, Record, name_of};
use crate::process::{inbox_of, process_of};
use crate::view::{Mix, View};

/// The layout `string`.
pub type StringRecord = Seeded<Owned, NO_BUG>;
/// The layout `getset`, in milliseconds. `python_redis_lock` and `symfony` keep an owner and an end, as `string` does.
pub type GetsetRecord = Seeded<Ending, NO_BUG>;
/// The layout `redisson`.
pub type RedissonRecord = Seeded<Counted, NO_BUG>;
/// The same in the format `fenced`.
pub type FencedRecord = Seeded<Fenced, NO_BUG>;

/// What tells one joined layout from another here.
pub trait Kind: Clone + Debug + Default + 'static {
    /// How the lock's key says who holds it.
    const WAY: Way = Way::Owner;

    /// Whether its tokens are counted in a key beside it.
    const COUNTS: bool = false;

    fn machine() -> Box<dyn Protocol>;

    /// The attempt that an owner is, if it is one.
    fn attempt(owner: &str) -> Option<AttemptId>;

    /// The channel on which it is told that asking may help; none is everybody.
    fn channel(of: Option<&str>) -> Option<String>;
}

/// An owner is all there is, and nobody is told of anything.
#[derive(Clone, Debug, Default)]
pub struct Owned;

impl Kind for Owned {
    fn machine() -> Box<dyn Protocol> {
        Box::new(string::FAMILY.machine(&string::REDIS_PY, "L".into()))
    }

    fn attempt(owner: &str) -> Option<AttemptId> {
        (owner.len() == 32).then(|| AttemptId(u128::from_str_radix(owner, 16).expect("an owner of redis-py")))
    }

    fn channel(_: Option<&str>) -> Option<String> {
        None
    }
}

/// Only the end of the hold lies there.
#[derive(Clone, Debug, Default)]
pub struct Ending;

impl Kind for Ending {
    const WAY: Way = Way::End(1000);

    fn machine() -> Box<dyn Protocol> {
        Box::new(getset::FAMILY.machine(&getset::MILLISECONDS, "L".into()))
    }

    fn attempt(owner: &str) -> Option<AttemptId> {
        Owned::attempt(owner)
    }

    fn channel(_: Option<&str>) -> Option<String> {
        None
    }
}

/// Redisson's locks.
#[derive(Clone, Debug, Default)]
pub struct Counted;

impl Kind for Counted {
    fn machine() -> Box<dyn Protocol> {
        Box::new(RedissonLock::new(PLAIN, "L".into()))
    }

    fn attempt(owner: &str) -> Option<AttemptId> {
        let uuid = owner.strip_suffix(":0").filter(|uuid| uuid.len() == 36)?;
        u128::from_str_radix(&uuid.replace('-', ""), 16).ok().map(AttemptId)
    }

    fn channel(of: Option<&str>) -> Option<String> {
        let all = redisson::channel("L");
        Some(of.map_or(all.clone(), |owner| format!("{all}:{owner}")))
    }
}

/// Redisson's fenced locks.
#[derive(Clone, Debug, Default)]
pub struct Fenced;

impl Kind for Fenced {
    const COUNTS: bool = true;

    fn machine() -> Box<dyn Protocol> {
        Box::new(FencedLock::new(redisson_fenced::Fenced { in_cluster: false }, "L".into()))
    }

    fn attempt(owner: &str) -> Option<AttemptId> {
        Counted::attempt(owner)
    }

    fn channel(of: Option<&str>) -> Option<String> {
        Counted::channel(of)
    }
}

/// The attempt whose channel this is, if it is that of one.
pub fn attempt_of(channel: &str) -> Option<AttemptId> {
    Counted::attempt(channel.strip_prefix(&redisson::channel("L"))?.strip_prefix(':')?)
}

/// The record, with a bug that the explorer has to find.
#[derive(Clone, Debug)]
pub struct Seeded<K, const BUG: u8>(JoinedStore, PhantomData<K>);

impl<K: Kind, const BUG: u8> Default for Seeded<K, BUG> {
    fn default() -> Self {
        let counter = K::COUNTS.then_some(0);
        Seeded(JoinedStore { counter, ..JoinedStore::new(K::WAY) }, PhantomData)
    }
}

pub const NO_BUG: u8 = 0;
/// A request is executed however late it comes.
pub const RUNS_LATE: u8 = 1;
/// A release deletes the key, whoever holds it.
pub const DELETES_BLINDLY: u8 = 2;
/// Nobody is told of a release.
pub const TELLS_NOBODY: u8 = 3;
/// Whoever asks for a fair lock that is free has it.
pub const IGNORES_THE_LINE: u8 = 4;

/// A request, and what is read in it.
#[derive(Clone, Debug)]
pub struct Call {
    request: Request,
    owners: Vec<AttemptId>,
    ttl: Duration,
    not_after: StoreTime,
}

/// More clients than are explored.
const MOST_CLIENTS: u64 = 8;

fn attempt<K: Kind>(owner: &str) -> AttemptId {
    K::attempt(owner).expect("an owner of ours")
}

impl<K: Kind, const BUG: u8> Seeded<K, BUG> {
    fn value(&self) -> Option<(AttemptId, StoreTime)> {
        let ends = self.0.value.as_ref()?.ends.expect("ours all end");
        // Nothing is evicted here, and nobody else takes the lock.
        Some((attempt::<K>(&self.0.holder().expect("ours are recorded").owner), StoreTime(ends)))
    }

    /// What those who were told hear, and where.
    fn hints(&self) -> Vec<(InboxId, StoreEvent)> {
        let hint = |owner: &Option<String>| {
            let path: std::sync::Arc<str> = K::channel(owner.as_deref())?.into();
            let of = |client| (client, StoreEvent::Changed { path: path.clone() });
            Some(match owner {
                Some(owner) => vec![of(inbox_of(process_of(attempt::<K>(owner))))],
                None => (0..MOST_CLIENTS).map(|client| of(InboxId(client))).collect(),
            })
        };
        self.0.told.iter().filter_map(hint).flatten().collect()
    }

    /// Whether who holds it would be told its tokens again.
    fn is_recorded(&self) -> bool {
        self.0.holder().is_some()
    }
}

impl<K: Kind, const BUG: u8> Record for Seeded<K, BUG> {
    type Call = Call;

    const BLOCK: u64 = BLOCK;

    fn machine() -> Box<dyn Protocol> {
        K::machine()
    }

    fn read(request: &Request) -> Option<Call> {
        let owners = request.args.iter().filter_map(|arg| match arg {
            Arg::Text(text) => K::attempt(text),
            _ => None,
        });
        let mut numbers = request.args.iter().filter_map(|arg| match arg {
            Arg::Int(number) => Some(*number),
            _ => None,
        });
        let ttl = Duration::from_millis(numbers.next().unwrap_or(0) as u64);
        let not_after = StoreTime(numbers.next().unwrap_or(i64::MAX));
        Some(Call { owners: owners.collect(), request: request.clone(), ttl, not_after })
    }

    fn run(&mut self, call: &Call, around: &Around<'_>) -> (Reply, Vec<(InboxId, StoreEvent)>) {
        let mut request = call.request.clone();
        for arg in &mut request.args {
            if BUG == RUNS_LATE && *arg == Arg::Int(call.not_after.0) {
                *arg = Arg::Int(i64::MAX);
            }
        }
        if BUG == DELETES_BLINDLY && request.call.name == "release" {
            self.0.value = None;
        }
        if BUG == IGNORES_THE_LINE && request.call.name == "acquire-fair" && self.0.value.is_none() {
            self.0.queue.clear();
        }
        let reply = self.0.run(&request, around.now.0, around.token_floor as i64);
        // No run lasts until it goes, and states are told apart by when something does.
        self.0.record.iter_mut().for_each(|record| record.ends = i64::MAX);
        let reply = match reply {
            Reply::List(mut list) if request.call.batch => list.remove(0),
            reply => reply,
        };
        if BUG == TELLS_NOBODY {
            self.0.told.clear();
        }
        let hints = self.hints().into_iter().filter(|(inbox, _)| (around.alive)(*inbox)).collect();
        self.0.told.clear();
        (reply, hints)
    }

    fn renews(call: &Call) -> Option<Duration> {
        (call.request.call.name == "renew").then_some(call.ttl)
    }

    fn holds(&self) -> impl Iterator<Item = (AttemptId, StoreTime)> {
        self.value().into_iter()
    }

    fn line(&self) -> impl Iterator<Item = AttemptId> {
        self.0.queue.iter().map(|place| attempt::<K>(&place.owner))
    }

    fn last(&self) -> u64 {
        self.0.record.as_ref().map_or(0, |record| record.first as u64 + BLOCK - 1)
    }

    fn check(&self, before: &Self, call: &Call, around: &Around<'_>) -> Checked<()> {
        let Around { now, top, .. } = *around;
        let old = before.value().filter(|(_, ends)| *ends > now);
        let new = self.value();
        if let Some((owner, ends)) = old {
            let gives_back = matches!(call.request.call.name, "release" | "undo") && call.owners.contains(&owner);
            match new {
                Some((same, later)) if same == owner && later < ends => {
                    return Err(format!("{} shortens the lease of {}", Self::explain(call), name_of(owner)));
                }
                Some((same, _)) if same == owner => {}
                _ if gives_back => {}
                _ => return Err(format!("{} ends the live lease of {}", Self::explain(call), name_of(owner))),
            }
        }
        let Some((owner, ends)) = new.filter(|(owner, _)| old.is_none_or(|(before, _)| before != *owner)) else {
            return Ok(());
        };
        let to = name_of(owner);
        let in_line = before.0.queue.iter().find(|place| place.deadline * 1000 > now.0);
        if let Some(place) = in_line.filter(|_| call.request.call.name == "acquire-fair")
            && attempt::<K>(&place.owner) != owner
        {
            let first = name_of(attempt::<K>(&place.owner));
            return Err(format!("{to} is granted the lock before {first}, who came first"));
        }
        let first = self.0.holder().map_or(0, |record| record.first as u64);
        if first <= top {
            return Err(format!("{to} is granted token {first} but {top} was used already"));
        }
        let rounded = match K::WAY {
            Way::Owner => 0,
            Way::End(unit) => 2 * unit as u64,
        };
        if ends > now.after(call.ttl + Duration::from_micros(rounded)) {
            return Err(format!("{to} is granted the lock for too long"));
        }
        Ok(())
    }

    fn fingerprint(&self, view: &View, state: &mut Mix) {
        if let Some((_, ends)) = self.value() {
            (view.ahead_at_store(ends), self.is_recorded()).hash(state);
        }
        self.0.record.as_ref().map(|record| view.token(record.first as u64)).hash(state);
        self.0.queue.len().hash(state);
    }

    fn fingerprint_of(&self, client: usize, view: &View, state: &mut Mix) {
        if let Some((owner, _)) = self.value().filter(|(owner, _)| process_of(*owner) == client) {
            view.attempt(owner).hash(state);
        }
        for (place, Waiter { owner, deadline }) in self.0.queue.iter().enumerate() {
            let owner = attempt::<K>(owner);
            if process_of(owner) == client {
                (place, view.attempt(owner), view.ahead_at_store(StoreTime(deadline * 1000))).hash(state);
            }
        }
    }

    fn fingerprint_call(call: &Call, sent: Time, view: &View, state: &mut Mix) {
        call.request.call.name.hash(state);
        match call.request.call.name {
            "acquire" | "acquire-fair" => {
                let late = call.not_after < StoreTime((view.now / 1000) as i64);
                (call.ttl, late, view.ahead_at_store(call.not_after), view.ago(sent)).hash(state);
            }
            "renew" => (call.ttl, view.ago(sent)).hash(state),
            _ => {}
        }
        call.owners.iter().for_each(|owner| view.attempt(*owner).hash(state));
    }

    fn fingerprint_reply(op: Op, reply: &Reply, sent: Time, dated: bool, view: &View, state: &mut Mix) {
        match (op, reply) {
            (Op::Acquire, Reply::Int(first)) => (view.token(*first as u64), view.ago(sent)).hash(state),
            (Op::Acquire, Reply::List(list)) => {
                let at = |i: usize| match list.get(i) {
                    Some(Reply::Int(value)) => *value,
                    _ => 0,
                };
                (at(0), at(2) < 0, view.span(at(2).max(0) * 1000), list.get(4)).hash(state);
                if dated || at(0) == 2 {
                    view.ago_at_store(StoreTime(at(1))).hash(state);
                }
            }
            (Op::Renew, _) => (reply, view.ago(sent)).hash(state),
            _ => reply.hash(state),
        }
    }

    fn explain(call: &Call) -> String {
        let owners: Vec<_> = call.owners.iter().map(|owner| name_of(*owner)).collect();
        format!("{} {}", call.request.call.name, owners.join(" and "))
    }

    fn explain_reply(reply: &Reply, tick: i64, _: i64) -> String {
        match reply {
            Reply::List(list) => match list.as_slice() {
                [Reply::Int(0), _, Reply::Int(left), _] => format!("held for {} ticks", left * 1000 / tick),
                [Reply::Int(1), _, Reply::Int(left), _, Reply::Int(ahead)] => {
                    format!("queued behind {ahead}, held for {} ticks", left * 1000 / tick)
                }
                [Reply::Int(2), ..] => "late".into(),
                _ => format!("{reply:?}"),
            },
            other => format!("{other:?}"),
        }
    }

    fn describe(&self, now: StoreTime, tick: i64) -> String {
        self.value().map_or("nobody".into(), |(owner, ends)| {
            format!("{} for {} ticks", name_of(owner), ends.micros_since(now) as f64 / tick as f64)
        })
    }
}
