//! What several may hold in the layout `redisson`: the model of a store is the reference that the scripts are compared
//! with.

use std::fmt::Debug;
use std::hash::Hash;
use std::time::Duration;

use lockwright_machines::protocol::{Arg, AttemptId, InboxId, Op, Protocol, Reply, Request, StoreEvent};
use lockwright_machines::relative::Relative;
use lockwright_machines::share::{ALL, Primitive, Share};
use lockwright_machines::stores::redis::layouts::redisson_shared::{Object, RedissonSharedMachine};
use lockwright_machines::time::{StoreTime, Time};

use super::joined::{Counted as Locks, Kind as _};
use super::redisson_store::{Notes, Permits, ReadWrite, arguments};
use super::shared::SharedRecord;
use super::{Around, Checked, Record, Role, name_of};
use crate::process::process_of;
use crate::view::{Mix, View};

/// Redisson's `RReadWriteLock`.
pub type ReadWriteRecord = Seeded<ReadWrite, 0>;
/// Its `RPermitExpirableSemaphore`.
pub type PermitsRecord = Seeded<Leased, 0>;
/// Its `RSemaphore`.
pub type CountedRecord = Seeded<Counted, 0>;

/// A store that tells nobody.
pub const TELLS_NOBODY: u8 = 1;
/// One that executes a request however late it comes.
pub const RUNS_LATE: u8 = 2;

/// A hold: whose, how much, until when in microseconds, and under which token.
#[derive(Clone, Debug)]
pub struct Held {
    attempt: AttemptId,
    units: u32,
    ends: i64,
    token: u64,
}

/// What tells one of these from another here.
pub trait Kind: Clone + Debug + Default + 'static {
    const OBJECT: Object;

    fn run(&mut self, request: &Request, now: i64, floor: i64) -> Reply;

    /// Who holds, or held and nobody noticed that it is over.
    fn held(&self) -> Vec<Held>;

    fn notes(&self) -> &Notes;

    /// Whether those who wait were told by the last request.
    fn told(&self) -> bool;

    /// What else the next answers depend on.
    fn fingerprint(&self, view: &View, state: &mut Mix);
}

impl Kind for ReadWrite {
    const OBJECT: Object = Object::RwLock;

    fn run(&mut self, request: &Request, now: i64, floor: i64) -> Reply {
        self.pass(now);
        ReadWrite::run(self, request, now, floor)
    }

    fn held(&self) -> Vec<Held> {
        let hold = |field: &String| {
            let (owner, units, ends) = match field.strip_suffix(":write") {
                Some(owner) => (owner, ALL, self.ends),
                None => (field.as_str(), 1, self.reads(field)?),
            };
            let token = self.notes.token(owner) as u64;
            Some(Held { attempt: Locks::attempt(owner)?, units, ends, token })
        };
        self.fields.keys().filter_map(hold).collect()
    }

    fn notes(&self) -> &Notes {
        &self.notes
    }

    fn told(&self) -> bool {
        self.told
    }

    fn fingerprint(&self, view: &View, state: &mut Mix) {
        // A reader whose lease is over leaves its field, which counts for nobody.
        (self.write, self.fields.len(), view.ahead_at_store(StoreTime(self.ends))).hash(state);
    }
}

fn held_permits(permits: &Permits) -> Vec<Held> {
    let hold = |(owner, (units, ends)): (&String, &(i64, i64))| Held {
        attempt: AttemptId(u128::from_str_radix(owner, 16).expect("an owner of ours")),
        units: *units as u32,
        ends: ends * 1000,
        token: permits.notes.token(owner) as u64,
    };
    permits.leases.iter().map(hold).collect()
}

macro_rules! permits {
    ($(#[$doc:meta])* $name:ident, $object:expr, $counted:literal) => {
        $(#[$doc])*
        #[derive(Clone, Debug)]
        pub struct $name(Permits);

        impl Default for $name {
            fn default() -> Self {
                $name(Permits { counted: $counted, ..Permits::default() })
            }
        }

        impl Kind for $name {
            const OBJECT: Object = $object;

            fn run(&mut self, request: &Request, now: i64, floor: i64) -> Reply {
                self.0.run(request, now, floor)
            }

            fn held(&self) -> Vec<Held> {
                held_permits(&self.0)
            }

            fn notes(&self) -> &Notes {
                &self.0.notes
            }

            fn told(&self) -> bool {
                self.0.told
            }

            fn fingerprint(&self, _: &View, state: &mut Mix) {
                self.0.available.hash(state);
            }
        }
    };
}

permits!(
    /// The keys of a semaphore whose permits end.
    Leased,
    Object::Leased,
    false
);
permits!(
    /// The keys of one whose permits Redisson only counts.
    Counted,
    Object::Counted,
    true
);

/// The record, or one with a fault.
#[derive(Clone, Debug, Default)]
pub struct Seeded<K, const FAULT: u8>(K);

/// A request, and what is read in it.
#[derive(Clone, Debug)]
pub struct Call {
    request: Request,
    me: AttemptId,
    ttl: Duration,
    /// Of what may come too late.
    not_after: Option<StoreTime>,
    /// For a change: how much is wanted, and from which token on.
    change: Option<(i64, u64)>,
}

/// More clients than are explored.
const MOST_CLIENTS: u64 = 8;

fn speak<K: Kind>(units: u32) -> Box<dyn Protocol> {
    let (primitive, capacity) = match K::OBJECT {
        Object::RwLock => (Primitive::RwLock, ALL),
        Object::Leased | Object::Counted => (Primitive::Semaphore, 2),
    };
    let share = Share { primitive, units, capacity, in_order: primitive == Primitive::RwLock };
    Box::new(RedissonSharedMachine::new(K::OBJECT, share, "L".into()))
}

impl<K: Kind, const FAULT: u8> Seeded<K, FAULT> {
    fn live(&self, now: StoreTime) -> impl Iterator<Item = Held> {
        self.0.held().into_iter().filter(move |hold| hold.ends > now.0)
    }

    fn hold_of(&self, attempt: AttemptId) -> Option<Held> {
        self.0.held().into_iter().find(|hold| hold.attempt == attempt)
    }
}

impl<K: Kind, const FAULT: u8> Record for Seeded<K, FAULT> {
    type Call = Call;

    const BLOCK: u64 = 1;

    fn machine() -> Box<dyn Protocol> {
        speak::<K>(ALL)
    }

    fn speaker(role: Role) -> fn() -> Box<dyn Protocol> {
        match role.units() {
            1 => || speak::<K>(1),
            2 => || speak::<K>(2),
            _ => Self::machine,
        }
    }

    fn read(request: &Request) -> Option<Call> {
        let (_, does) = request.call.name.split_once('.')?;
        let args = arguments(request);
        let number = |i: usize| args.get(i)?.parse::<i64>().ok();
        let owner = &args[0];
        let me = Locks::attempt(owner).or_else(|| u128::from_str_radix(owner, 16).ok().map(AttemptId))?;
        let (ttl, not_after, change) = match does {
            "acquire" => (number(1)?, number(2), None),
            "renew" => (number(1)?, None, None),
            "change" => (number(2)?, number(3), Some((number(4)?, number(1)? as u64))),
            _ => (0, None, None),
        };
        let (ttl, not_after) = (Duration::from_millis(ttl as u64), not_after.map(StoreTime));
        Some(Call { request: request.clone(), me, ttl, not_after, change })
    }

    fn run(&mut self, call: &Call, around: &Around<'_>) -> (Reply, Vec<(InboxId, StoreEvent)>) {
        let mut request = call.request.clone();
        if let Some(StoreTime(not_after)) = call.not_after.filter(|_| FAULT == RUNS_LATE) {
            let dates = request.args.iter_mut().filter(|arg| **arg == Arg::Int(not_after));
            dates.for_each(|arg| *arg = Arg::Int(i64::MAX));
        }
        let reply = self.0.run(&request, around.now.0, around.token_floor as i64);
        let path: std::sync::Arc<str> = K::OBJECT.channel("L").into();
        let hints = (0..MOST_CLIENTS).map(|client| (InboxId(client), StoreEvent::Changed { path: path.clone() }));
        let is_told = self.0.told() && FAULT != TELLS_NOBODY;
        (reply, hints.filter(|(inbox, _)| is_told && (around.alive)(*inbox)).collect())
    }

    fn renews(call: &Call) -> Option<Duration> {
        call.request.call.name.ends_with(".renew").then_some(call.ttl)
    }

    fn holds(&self) -> impl Iterator<Item = (AttemptId, StoreTime)> {
        self.0.held().into_iter().map(|hold| (hold.attempt, StoreTime(hold.ends)))
    }

    fn line(&self) -> impl Iterator<Item = AttemptId> {
        std::iter::empty()
    }

    fn last(&self) -> u64 {
        self.0.notes().top as u64
    }

    fn check(&self, before: &Self, call: &Call, around: &Around<'_>) -> Checked<()> {
        let Around { now, top, .. } = *around;
        let explained = || Self::explain(call);
        let capacity = if K::OBJECT == Object::RwLock { ALL } else { 2 };
        let used = self.live(now).map(|hold| u64::from(hold.units)).sum::<u64>();
        if used > capacity.into() {
            return Err(format!("{used} of {capacity} are held after {}", explained()));
        }
        let gives_back = [".release", ".undo"].iter().any(|does| call.request.call.name.ends_with(does));
        for old in before.live(now).filter(|old| !(gives_back && old.attempt == call.me)) {
            let whose = name_of(old.attempt);
            match self.hold_of(old.attempt) {
                None => return Err(format!("{} ends the live lease of {whose}", explained())),
                Some(new) if new.ends < old.ends => {
                    return Err(format!("{} shortens the lease of {whose}", explained()));
                }
                Some(new) if new.units > old.units && new.token <= old.token => {
                    return Err(format!("{whose} has more under token {}, which is no new one", new.token));
                }
                Some(new) if call.me != old.attempt && (new.units, new.token) != (old.units, old.token) => {
                    return Err(format!("{} changes what {whose} has", explained()));
                }
                Some(_) => {}
            }
        }
        let was = |hold: &Held| before.live(now).any(|old| (old.attempt, old.token) == (hold.attempt, hold.token));
        for new in self.live(now).filter(|hold| !was(hold)) {
            let to = name_of(new.attempt);
            if new.token <= top {
                return Err(format!("{to} is granted token {} but {top} was used already", new.token));
            }
            // Who changes what it has keeps a lease that was longer; that none is shortened is checked.
            if call.change.is_none() && new.ends > now.after(call.ttl + Duration::from_millis(1)).0 {
                return Err(format!("{to} is granted it for too long"));
            }
        }
        Ok(())
    }

    fn fingerprint(&self, view: &View, state: &mut Mix) {
        self.0.fingerprint(view, state);
    }

    fn fingerprint_of(&self, client: usize, view: &View, state: &mut Mix) {
        for hold in self.0.held().into_iter().filter(|hold| process_of(hold.attempt) == client) {
            let Held { attempt, units, ends, token } = hold;
            (view.attempt(attempt), units, view.ahead_at_store(StoreTime(ends)), view.token(token)).hash(state);
        }
    }

    fn fingerprint_call(call: &Call, sent: Time, view: &View, state: &mut Mix) {
        (call.request.call.name, call.ttl, view.ago(sent)).hash(state);
        call.not_after.map(|not_after| view.ahead_at_store(not_after)).hash(state);
        call.change.map(|(units, token)| (units, view.token(token))).hash(state);
    }

    fn fingerprint_reply(op: Op, reply: &Reply, sent: Time, dated: bool, view: &View, state: &mut Mix) {
        SharedRecord::fingerprint_reply(op, reply, sent, dated, view, state);
    }

    fn explain(call: &Call) -> String {
        let more = call.change.map_or(String::new(), |(units, _)| format!(" to {units} units"));
        format!("{} {}{more}", call.request.call.name, name_of(call.me))
    }

    fn explain_reply(reply: &Reply, _: i64, _: i64) -> String {
        format!("{reply:?}")
    }

    fn describe(&self, now: StoreTime, tick: i64) -> String {
        let shown = |hold: Held| {
            let left = (hold.ends - now.0) as f64 / tick as f64;
            format!("{} has {} for {left} ticks", name_of(hold.attempt), hold.units)
        };
        let holders: Vec<String> = self.0.held().into_iter().map(shown).collect();
        if holders.is_empty() { "nobody".into() } else { holders.join("; ") }
    }
}
