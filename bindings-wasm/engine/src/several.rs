//! Several locks that are acquired together: all or none, in the order of their keys, in which nobody deadlocks.

use std::time::Duration;

use lockwright_machines::error::{Error, Kind, Result, left_of, lost_meanwhile};
use lockwright_machines::options::AcquireOptions;
use lockwright_machines::time::Time;

use crate::engine::{Engine, Ticket};
use crate::guard::Guard;
use crate::lock::{Asked, Lock, Outcome};
use crate::store::Store;

/// Several locks.
#[derive(Clone, Debug)]
pub struct MultiLock {
    /// Each once, in the order in which everybody takes them.
    locks: Vec<Lock>,
}

impl MultiLock {
    /// Their names, in the order in which they are taken.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.locks.iter().map(Lock::name)
    }

    /// How long acquisitions wait for all of them where nothing else is said.
    pub fn timeout(&self) -> Option<Duration> {
        self.locks.first().and_then(Lock::timeout)
    }
}

/// All of them being acquired.
#[derive(Debug)]
pub(crate) struct Acquiring {
    locks: Vec<Lock>,
    timeout: Option<Duration>,
    deadline: Option<Time>,
    next: Option<Asked>,
    guards: Vec<Guard>,
    /// All of them, or nothing where somebody has one and they were only tried.
    result: Option<Result<Option<Vec<Guard>>>>,
}

impl Acquiring {
    pub(crate) fn is_settled(&self) -> bool {
        self.result.is_some()
    }
}

impl<S: Store> Engine<S> {
    /// The locks of these names, to be held all at once.
    ///
    /// # Errors
    /// `invalid_config` for no name at all; else as [`lock`](Self::lock) for each.
    pub fn multi_lock<'a>(
        &self,
        names: impl IntoIterator<Item = &'a str>,
        options: &AcquireOptions,
    ) -> Result<MultiLock> {
        let mut locks = names.into_iter().map(|name| self.lock(name, options.clone())).collect::<Result<Vec<_>>>()?;
        locks.sort_by(|a, b| a.spot().key.cmp(&b.spot().key));
        locks.dedup_by(|a, b| a.spot().key == b.spot().key);
        if locks.is_empty() {
            let error = Error::invalid("lock", "no lock is named; name at least one");
            return Err(error.on_store(self.settings().address.clone()));
        }
        Ok(MultiLock { locks })
    }

    /// Asks for all of them, for at most `timeout` altogether. [`acquired_all`](Self::acquired_all) has the result.
    ///
    /// # Errors
    /// `closed`.
    pub fn acquire_all(&mut self, now: Time, all: &MultiLock, timeout: Option<Duration>) -> Result<Ticket> {
        self.check_open()?;
        let ticket = self.next_ticket();
        let deadline = timeout.map(|limit| now.after(limit));
        let (locks, guards) = (all.locks.clone(), Vec::new());
        let mut acquiring = Acquiring { locks, timeout, deadline, next: None, guards, result: None };
        self.ask_next(now, &mut acquiring);
        self.several.insert(ticket, acquiring);
        self.go_on(now);
        Ok(ticket)
    }

    /// Begins with the next of them.
    fn ask_next(&mut self, now: Time, acquiring: &mut Acquiring) {
        let Some(lock) = acquiring.locks.get(acquiring.guards.len()).cloned() else { return };
        let left = left_of(acquiring.timeout, acquiring.deadline.map(|deadline| deadline.since(now)));
        match left.and_then(|left| self.begin(now, &lock, left)) {
            Ok(asked) => acquiring.next = Some(asked),
            Err(error) => self.end(now, acquiring, Err(error)),
        }
    }

    fn end(&mut self, now: Time, acquiring: &mut Acquiring, result: Result<Option<Vec<Guard>>>) {
        for guard in acquiring.guards.drain(..) {
            self.let_go_of(now, guard);
        }
        acquiring.result = Some(result);
    }

    /// Goes on with all of which the one that was asked for last is settled; whether there was any.
    pub(crate) fn advance_several(&mut self, now: Time) -> bool {
        let is_ready = |(_, acquiring): &(&Ticket, &Acquiring)| {
            acquiring.next.as_ref().is_some_and(|asked| self.is_settled(asked.ticket))
        };
        let ready: Vec<Ticket> = self.several.iter().filter(is_ready).map(|(ticket, _)| *ticket).collect();
        for ticket in &ready {
            if let Some(mut acquiring) = self.several.remove(ticket) {
                self.advance(now, &mut acquiring);
                self.several.insert(*ticket, acquiring);
            }
        }
        !ready.is_empty()
    }

    fn advance(&mut self, now: Time, acquiring: &mut Acquiring) {
        let Some(asked) = acquiring.next.take() else { return };
        match self.conclude(now, asked) {
            Ok(Outcome::Granted(guard)) => acquiring.guards.push(guard),
            Ok(Outcome::Taken) => return self.end(now, acquiring, Ok(None)),
            Err(error) => return self.end(now, acquiring, Err(error)),
        }
        if acquiring.guards.len() < acquiring.locks.len() {
            return self.ask_next(now, acquiring);
        }
        let Some(lost) = acquiring.guards.iter().find(|guard| guard.remaining(now).is_zero()) else {
            acquiring.result = Some(Ok(Some(std::mem::take(&mut acquiring.guards))));
            return;
        };
        let error = lost_meanwhile().on_lock(lost.name()).on_store(self.settings().address.clone());
        // Without renewal what was lost would only be lost again.
        let renews = acquiring.locks.iter().all(Lock::renews);
        if renews && acquiring.deadline.is_none_or(|deadline| deadline > now) {
            for guard in acquiring.guards.drain(..) {
                self.let_go_of(now, guard);
            }
            return self.ask_next(now, acquiring);
        }
        self.end(now, acquiring, Err(error));
    }

    /// Whether the result is there, and what was granted lasts for more than the moment that a hand-over does; see
    /// [`is_firm`](Self::is_firm).
    pub fn are_firm(&self, now: Time, ticket: Ticket) -> bool {
        let Some(Acquiring { locks, result: Some(result), .. }) = self.several.get(&ticket) else { return false };
        let Ok(Some(guards)) = result else { return true };
        guards.iter().zip(locks).all(|(guard, lock)| guard.unfirm(now, lock.ttl()).is_none())
    }

    /// The same of all of them as [`make_firm`](Self::make_firm).
    pub fn make_all_firm(&mut self, now: Time, ticket: Ticket) {
        let Some(Acquiring { locks, result: Some(Ok(Some(guards))), .. }) = self.several.get(&ticket) else { return };
        let unfirm = |(guard, lock): (&Guard, &Lock)| Some((guard.unfirm(now, lock.ttl())?, lock.ttl()));
        for ((lock, hold), ttl) in guards.iter().zip(locks).filter_map(unfirm).collect::<Vec<_>>() {
            self.renew_now(now, lock, hold, ttl);
        }
    }

    /// All of them by a ticket that is [settled](Self::is_settled); nothing where somebody has one and they were only
    /// tried.
    ///
    /// # Errors
    /// `timeout`, `lost` where one was lost while others were waited for; else as [`conclude`](Self::conclude).
    pub fn acquired_all(&mut self, ticket: Ticket) -> Result<Option<Vec<Guard>>> {
        let internal = || Error::new(Kind::Internal, "acquire", "several locks have no result; please report this");
        self.several.remove(&ticket).and_then(|acquiring| acquiring.result).unwrap_or_else(|| Err(internal()))
    }

    /// Nobody waits for them any more: what was granted is given back.
    pub fn abandon_all(&mut self, now: Time, ticket: Ticket) {
        let Some(Acquiring { next, guards, result, .. }) = self.several.remove(&ticket) else { return };
        if let Some(asked) = next {
            self.give_up(now, asked);
        }
        for guard in guards.into_iter().chain(result.and_then(Result::ok).flatten().into_iter().flatten()) {
            self.let_go_of(now, guard);
        }
        self.go_on(now);
    }
}
