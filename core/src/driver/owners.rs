//! Who of this process holds and waits: the callers' names, and the circles in which they would wait for one another
//! for ever.
//!
//! A caller that waits without a limit is entered here once it is known to wait; one that is granted a lock at once
//! never is, nor a thread that holds nothing. Whoever is entered looks whether its wait ends at itself: it waits for
//! what somebody holds who waits for what somebody holds ... who waits for what the first one holds. Callers are known
//! by the [`OwnerId`]s that faces hand in: a thread, a task. Each waits for one thing at a time, so a circle is closed
//! by the last one that comes to wait in it. Other processes are not seen.

use std::cell::{Cell, OnceCell};
use std::collections::{BTreeMap, HashMap, HashSet, hash_map};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use lockwright_machines::queue::{OwnerId, TaskId};
use rustc_hash::FxHashMap;

use super::engine::Engine;
use super::entry::Entry;
use super::holder::about;
use super::notice;
use crate::error::{Error, Kind};
use crate::platform::mutex::locked;
use crate::platform::runtime;
use crate::time::Time;

/// Most holders of one thing that are looked at: a circle over more than these readers is not found.
const HOLDERS: usize = 256;
/// How long an owner may wait for itself before that is said, where somebody else may release what it holds.
const PATIENCE: Duration = Duration::from_secs(1);
/// Most steps of a circle.
const STEPS: usize = 64;

/// What threads of Rust's blocking face are known by is above what other faces count.
const THREADS: u64 = 1 << 63;

static NAMES: Mutex<BTreeMap<OwnerId, String>> = Mutex::new(BTreeMap::new());

/// A thread of Rust's blocking face, which is forgotten when it ends.
struct Thread {
    id: OwnerId,
    /// How many guards it was given and did not give back itself. Where another thread does that for it, it stays too
    /// high, which is no harm: see [`holds_nothing`].
    guards: Cell<u32>,
}

impl Drop for Thread {
    fn drop(&mut self) {
        locked(&NAMES).remove(&self.id);
    }
}

thread_local! {
    static THIS: OnceCell<Thread> = const { OnceCell::new() };
}

/// What this thread is known by.
pub(crate) fn this_thread() -> Option<OwnerId> {
    static NEXT: AtomicU64 = AtomicU64::new(THREADS);
    let me = || {
        let me = OwnerId(NEXT.fetch_add(1, Ordering::Relaxed));
        if let Some(name) = std::thread::current().name() {
            locked(&NAMES).insert(me, format!("thread {name}"));
        }
        Thread { id: me, guards: Cell::new(0) }
    };
    THIS.try_with(|this| this.get_or_init(me).id).ok()
}

/// What is known of this thread, if that is who `owner` is.
fn of_this_thread<T>(owner: OwnerId, ask: impl FnOnce(&Cell<u32>) -> T) -> Option<T> {
    THIS.try_with(|this| this.get().filter(|this| this.id == owner).map(|this| ask(&this.guards))).ok().flatten()
}

/// `owner` has a guard more.
pub(crate) fn has_guard(owner: Option<OwnerId>) {
    owner.and_then(|owner| of_this_thread(owner, |guards| guards.set(guards.get().saturating_add(1))));
}

/// `owner` gave a guard back.
pub(crate) fn gave_back(owner: Option<OwnerId>) {
    owner.and_then(|owner| of_this_thread(owner, |guards| guards.set(guards.get().saturating_sub(1))));
}

/// Whether nobody can wait for `owner`, as far as that is known without looking at what others do: who has nothing
/// that others want is in no circle.
pub(crate) fn holds_nothing(owner: OwnerId) -> bool {
    of_this_thread(owner, |guards| guards.get() == 0).unwrap_or(false)
}

fn name(owner: OwnerId) -> Option<String> {
    locked(&NAMES).get(&owner).cloned()
}

/// Who waits for what without a limit, of one client. The hash is a cheap one: each such wait comes and goes here, and
/// nobody outside chooses the numbers.
#[derive(Debug, Default)]
pub(crate) struct Waits(Mutex<FxHashMap<OwnerId, Wait>>);

#[derive(Clone, Debug)]
struct Wait {
    entry: Weak<Entry>,
    task: TaskId,
}

impl Waits {
    /// The wait of `owner` as `task` is over; it may be in another one already.
    pub(crate) fn end(&self, owner: OwnerId, task: TaskId) {
        if let hash_map::Entry::Occupied(wait) = locked(&self.0).entry(owner)
            && wait.get().task == task
        {
            wait.remove();
        }
    }

    /// The `task` of `owner` waits for `entry` since `now`: the error where it would for ever.
    pub(crate) fn begin(
        &self,
        engine: &Engine,
        entry: &Arc<Entry>,
        owner: OwnerId,
        task: TaskId,
        now: Time,
    ) -> Option<Error> {
        let mut waits = locked(&self.0);
        // It may have been granted by another thread since.
        let holder = entry.kept_from(task, now)?;
        waits.insert(owner, Wait { entry: Arc::downgrade(entry), task });
        // All but always: one holds it who waits for nothing.
        let is_alone = entry.layout.share().is_none();
        if is_alone && holder.is_none_or(|holder| holder != owner && !waits.contains_key(&holder)) {
            return None;
        }
        let circle =
            circle(engine, entry, |holder| waits.get(&holder).into_iter().collect(), |holder| holder == owner)?;
        waits.remove(&owner);
        Some(deadlock(entry, &circle))
    }

    /// The first wait without an end, where each of the owners in `awaited` goes on only when the wait of the one
    /// beside it is over.
    pub(crate) fn endless(&self, engine: &Engine, awaited: &[(OwnerId, OwnerId)]) -> Option<(OwnerId, Error)> {
        let waits = locked(&self.0);
        let known: HashSet<_> = awaited.iter().copied().collect();
        let mut of = HashMap::<OwnerId, Vec<&Wait>>::new();
        for (owner, waiter) in awaited {
            of.entry(*owner).or_default().extend(waits.get(waiter));
        }
        awaited.iter().find_map(|(_, waiter)| {
            let entry = waits.get(waiter)?.entry()?;
            let next = |holder| of.get(&holder).cloned().unwrap_or_default();
            let circle = circle(engine, &entry, next, |holder| known.contains(&(holder, *waiter)))?;
            Some((*waiter, deadlock(&entry, &circle)))
        })
    }
}

impl Wait {
    /// What is waited for, unless the wait is over.
    fn entry(&self) -> Option<Arc<Entry>> {
        self.entry.upgrade().filter(|entry| entry.waits(self.task))
    }
}

/// Whether one of `owners` holds what keeps others from the lock under `key`.
pub(crate) fn keeps_out(engine: &Engine, key: &str, reads: bool, owners: &[OwnerId]) -> bool {
    let in_the_way = |other: &Arc<Entry>| !(reads && other.is_for_a_reader());
    let by = |entry: Arc<Entry>| entry.holder_here()?.by;
    engine.entries_of_key(key, HOLDERS).into_iter().filter(in_the_way).filter_map(by).any(|by| owners.contains(&by))
}

/// Says so, where the `task` of `owner` waits a while for what that one holds itself and somebody else may yet release.
pub(crate) fn warn_of_itself(entry: &Arc<Entry>, store: &Arc<str>, owner: OwnerId, task: TaskId) {
    let waits_for_itself = move |entry: &Entry| kept_by(entry) == Some(owner);
    if !waits_for_itself(entry) {
        return;
    }
    let (entry, store) = (entry.clone(), store.clone());
    let warning = async move {
        tokio::time::sleep(PATIENCE).await;
        if entry.waits(task) && waits_for_itself(&entry) {
            notice::waits_for_itself(&entry.name, &store);
        }
    };
    if let Ok(handle) = runtime::handle() {
        handle.spawn(warning);
    }
}

/// The locks that are waited for in turn from `entry` on, until one whose holder `ends` the circle; `waits` is what a
/// holder waits for.
fn circle<'a>(
    engine: &Engine,
    entry: &Arc<Entry>,
    waits: impl Fn(OwnerId) -> Vec<&'a Wait>,
    ends: impl Fn(OwnerId) -> bool,
) -> Option<Vec<Arc<Entry>>> {
    let mut todo = vec![(0, entry.clone())];
    let (mut path, mut seen) = (Vec::new(), Vec::new());
    while let Some((depth, entry)) = todo.pop() {
        path.truncate(depth);
        path.push(entry.clone());
        for holder in holders(engine, &entry) {
            if ends(holder) {
                return Some(path);
            }
            if seen.contains(&holder) || seen.len() == HOLDERS || path.len() == STEPS {
                continue;
            }
            seen.push(holder);
            let next = waits(holder).into_iter().filter_map(Wait::entry);
            todo.extend(next.map(|next| (path.len(), next)));
        }
    }
    None
}

/// Who of this client keeps others from `entry`, as far as their faces said who they are.
fn holders(engine: &Engine, entry: &Arc<Entry>) -> impl Iterator<Item = OwnerId> {
    let all =
        if entry.layout.share().is_some() { engine.entries_of_key(&entry.key, HOLDERS) } else { vec![entry.clone()] };
    let reads = entry.is_for_a_reader();
    let in_the_way = all.into_iter().filter(move |other| !(reads && other.is_for_a_reader()));
    in_the_way.filter_map(|other| kept_by(&other))
}

/// Who of this client has `entry` until that one gives it back. A hold that ends by itself keeps nobody for ever.
fn kept_by(entry: &Entry) -> Option<OwnerId> {
    entry.holder_here().filter(|here| here.is_endless)?.by
}

fn deadlock(entry: &Entry, circle: &[Arc<Entry>]) -> Error {
    let message = match circle {
        [_] => {
            let since = entry.holder_here().map(|here| format!(" for {}", about(here.held_for))).unwrap_or_default();
            let what = match entry.layout.share() {
                None => "take a reentrant lock, if that is meant",
                Some(_) => "a reader becomes the writer by try_upgrade, the writer a reader by downgrade",
            };
            format!(
                "the caller has held it itself{since} and would wait for itself without end; release it first ({what}), or wait with a \
                 time limit if somebody else is to release it"
            )
        }
        several => {
            let names: Vec<String> = several.iter().map(|entry| format!("{:?}", entry.name)).collect();
            format!(
                "the caller would wait without end: who holds it waits for what the caller holds (the circle is {}); take locks in the \
                 same order everywhere, or together as one multi_lock, or wait with a time limit",
                names.join(", then ")
            )
        }
    };
    Error::new(Kind::Deadlock, "acquire", message).on_lock(entry.name.clone())
}

/// Who of this client holds a lock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Here {
    pub(crate) by: Option<OwnerId>,
    pub(crate) held_for: Duration,
    /// It is given back by its holder or never: its lease is renewed without an end.
    pub(crate) is_endless: bool,
}

impl Here {
    /// Who that is, for `me` or somebody of whom nothing is known.
    pub(crate) fn describe(&self, me: Option<OwnerId>) -> String {
        let who = match self.by {
            Some(by) if Some(by) == me => "the caller itself".to_owned(),
            Some(by) => name(by).map_or_else(|| "this process".to_owned(), |name| format!("this process ({name})")),
            None => "this process".to_owned(),
        };
        format!("{who} for {}", about(self.held_for))
    }
}
