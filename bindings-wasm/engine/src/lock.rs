//! A named lock: asked for, waited for, taken over.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use lockwright_machines::error::{Error, Kind, Result, timed_out};
use lockwright_machines::guarantee::Guarantees;
use lockwright_machines::layout_choice::{self, LayoutChoice, Of};
use lockwright_machines::lease::Inspection;
use lockwright_machines::machine::{Demand, Event, Hold as _, Settled, unfair};
use lockwright_machines::options::AcquireOptions;
use lockwright_machines::ping::{PING, trial};
use lockwright_machines::protocol::{AttemptId, Layout, Push};
use lockwright_machines::queue::{Ask, Refusal, TaskId};
use lockwright_machines::rank::Rank;
use lockwright_machines::session::Service;
use lockwright_machines::share::Share;
use lockwright_machines::time::Time;
use lockwright_machines::{name, secret};

use crate::engine::{Engine, Spot, Ticket};
use crate::guard::Guard;
use crate::hold::Hold;
use crate::inquiries::{Found, Want, unanswered};
use crate::store::Store;

/// See the [module](self).
#[derive(Clone, Debug)]
pub struct Lock {
    spot: Rc<Spot>,
    options: AcquireOptions,
    card: Arc<str>,
    /// Whoever cannot be served in order is served all the same.
    prefers_order: bool,
}

/// An acquisition under way.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Whom its result is for.
    pub ticket: Ticket,
    spot: Rc<Spot>,
    lock: u64,
    used: Rc<()>,
    task: TaskId,
    timeout: Option<Duration>,
    ttl: Duration,
}

/// What became of an acquisition.
#[derive(Debug)]
pub enum Outcome {
    /// The lock is held.
    Granted(Guard),
    /// Somebody else has it, and it was only tried.
    Taken,
}

impl<S: Store> Engine<S> {
    /// The options of a lock where nothing else is said, as the address has them.
    pub fn lock_options(&self) -> AcquireOptions {
        self.settings().lock.clone()
    }

    /// What locks of this client promise, in the layout of its address.
    ///
    /// # Errors
    /// `unsupported` for a layout that is not there, `invalid_config` for a format that does not go with it.
    pub fn guarantees(&self) -> Result<Guarantees> {
        Ok(self.promised(&*self.default_layout()?))
    }

    /// That of its address.
    pub(crate) fn default_layout(&self) -> Result<Arc<dyn Layout>> {
        layout_choice::layout_of(self.layouts(), LayoutChoice::of(&self.lock_options()))
    }

    /// What `layout` promises to this client: nobody enters a lock twice here.
    fn promised(&self, layout: &dyn Layout) -> Guarantees {
        let promised = Guarantees { reentrant: false, ..layout.guarantees() };
        match layout.protocol("".into()).traits().push {
            Push::Inbox | Push::Place if self.store_is_deaf() => Guarantees { push: false, fair: false, ..promised },
            _ => promised,
        }
    }

    /// The lock of this name.
    ///
    /// # Errors
    /// `invalid_config` for a bad name or a value out of range, `unsupported` for what this layout cannot do or is not
    /// to be had here, `closed`.
    pub fn lock(&self, name: &str, options: AcquireOptions) -> Result<Lock> {
        self.lock_of(Of::Lock, name, options)
    }

    /// The same, of what else has this name: a part of a read/write lock, permits of a semaphore.
    ///
    /// # Errors
    /// As there.
    pub fn lock_of(&self, of: Of, name: &str, options: AcquireOptions) -> Result<Lock> {
        let build = || {
            self.check_open()?;
            let name = name::check(name)?;
            options.check()?;
            for (is_wanted, what) in
                [(options.reentrant, "reentrant"), (options.at_least_for.is_some(), "at_least_for")]
            {
                if is_wanted {
                    let message = format!("{what} is not to be had in WebAssembly yet; leave it out");
                    return Err(Error::unsupported("lock", message));
                }
            }
            let layout = of.layout(layout_choice::layout_of(self.layouts(), LayoutChoice::of(&options))?, &options)?;
            layout_choice::check(&*layout, &self.promised(&*layout), &options)?;
            let key = layout.key(&name)?;
            let card = self.card(options.label.as_deref().unwrap_or_default());
            Ok(Lock { spot: Rc::new(Spot { layout, name, key }), options, card, prefers_order: false })
        };
        build().map_err(|error: Error| error.on_store(self.settings().address.clone()))
    }

    /// Asks for `lock`. Within `timeout` it is granted or refused: at once where that is zero, and in any time where
    /// there is none.
    ///
    /// # Errors
    /// `closed`.
    pub fn acquire(&mut self, now: Time, lock: &Lock, timeout: Option<Duration>) -> Result<Asked> {
        self.ask(now, lock, timeout, None)
    }

    /// Takes over the exported lock that `text` is the secret of, on these terms.
    ///
    /// # Errors
    /// `invalid_config` for what is no secret, and as [`lock`](Self::lock).
    pub fn resume(&mut self, now: Time, text: &str, options: AcquireOptions) -> Result<Asked> {
        let (attempt, name) = secret::read(text)?;
        let lock = self.lock(&name, options)?;
        self.ask(now, &lock, Some(Duration::ZERO), Some(attempt))
    }

    /// The same, of the lock that the secret has to be of, on its terms.
    ///
    /// # Errors
    /// As there, and `invalid_config` for a secret of another lock.
    pub fn resume_lock(&mut self, now: Time, lock: &Lock, text: &str) -> Result<Asked> {
        let attempt =
            secret::of_lock(text, lock.name()).map_err(|error| error.on_store(self.settings().address.clone()))?;
        self.ask(now, lock, Some(Duration::ZERO), Some(attempt))
    }

    /// Takes over what nobody has the secret of, for whoever gives it back at once: by which ticket, and of which lock.
    pub(crate) fn take_back(&mut self, now: Time, spot: &Rc<Spot>, secret: AttemptId) -> Result<(Ticket, u64)> {
        let (options, card) = (AcquireOptions::default(), self.card(""));
        let lock = Lock { spot: spot.clone(), options, card, prefers_order: false };
        let asked = self.begin_with(now, &lock, Some(Duration::ZERO), Some(secret))?;
        Ok((asked.ticket, asked.lock))
    }

    fn ask(&mut self, now: Time, lock: &Lock, timeout: Option<Duration>, secret: Option<AttemptId>) -> Result<Asked> {
        let asked = self.begin_with(now, lock, timeout, secret)?;
        self.go_on(now);
        Ok(asked)
    }

    /// The same as [`acquire`](Self::acquire) for whoever looks afterwards.
    pub(crate) fn begin(&mut self, now: Time, lock: &Lock, timeout: Option<Duration>) -> Result<Asked> {
        self.begin_with(now, lock, timeout, None)
    }

    fn begin_with(
        &mut self,
        now: Time,
        lock: &Lock,
        timeout: Option<Duration>,
        secret: Option<AttemptId>,
    ) -> Result<Asked> {
        self.check_open()?;
        let Lock { spot, options, card, prefers_order } = lock;
        let in_order = (options.fair || *prefers_order) && self.promised(&*spot.layout).fair;
        if options.fair && !in_order && !prefers_order {
            return Err(unfair().on_lock(spot.name.clone()).on_store(self.settings().address.clone()));
        }
        let (ticket, task) = (self.next_ticket(), self.next_task());
        let (entry, used) = self.entry(spot);
        let tries = timeout == Some(Duration::ZERO);
        let AcquireOptions { ttl, renew, max_hold, retry, rank, .. } = *options;
        let ask = Ask {
            task,
            owner: None,
            fair: in_order,
            rank: Rank::new(rank).unwrap_or_default(),
            tries,
            deadline: timeout.filter(|_| !tries).map(|limit| now.after(limit)),
            service: Service { ttl, renew, max_hold, retry },
        };
        let (by, holds_nothing, lenient) = (None, true, false);
        let demand = Demand { ask, card, by, holds_nothing, lenient, secret, insists: !prefers_order, hurries: tries };
        self.tell(now, entry, Event::Acquire { demand, waiter: ticket });
        Ok(Asked { ticket, spot: spot.clone(), lock: entry, used, task, timeout, ttl })
    }

    /// Whether an acquisition is settled, and what was granted lasts for more than the moment that a hand-over does:
    /// for whoever renews nothing once it has its guard.
    pub fn is_firm(&self, now: Time, asked: &Asked) -> bool {
        match self.result(asked.ticket) {
            None => false,
            Some(Settled::Granted { hold, .. }) if asked.spot.layout.is_held() => hold.is_firm(now, asked.ttl),
            Some(_) => true,
        }
    }

    /// Has what was handed over renewed now, for whoever waits until it [is firm](Self::is_firm): by itself that comes
    /// only when a third of the moment is over.
    pub fn make_firm(&mut self, now: Time, asked: &Asked) {
        let Some(Settled::Granted { hold, .. }) = self.result(asked.ticket) else { return };
        let hold = hold.id();
        if !self.is_firm(now, asked) {
            self.renew_now(now, asked.lock, hold, asked.ttl);
        }
    }

    /// What became of an acquisition that is [settled](Self::is_settled).
    ///
    /// # Errors
    /// Why there is no guard: `timeout`, `unavailable`, `lost`, and what the layout says.
    pub fn conclude(&mut self, now: Time, asked: Asked) -> Result<Outcome> {
        let settled = self.take(asked.ticket);
        let Asked { spot, lock, used, timeout, .. } = asked;
        let error = match settled {
            Some(Settled::Granted { hold, .. }) => return self.granted(now, (spot, lock, used), hold),
            Some(Settled::Refused(Refusal::Taken)) => return Ok(Outcome::Taken),
            Some(Settled::Refused(Refusal::TimedOut(ahead))) => {
                let ahead = ahead.filter(|_| spot.layout.is_held());
                timed_out(timeout.unwrap_or_default(), None, ahead)
            }
            Some(Settled::Refused(Refusal::Failed(error))) => error,
            _ => Error::new(Kind::Internal, "acquire", "an acquisition has no result of its own; please report this"),
        };
        Err(error.on_lock(spot.name.clone()).on_store(self.settings().address.clone()))
    }

    fn granted(&mut self, now: Time, (spot, lock, used): (Rc<Spot>, u64, Rc<()>), hold: Hold) -> Result<Outcome> {
        if !hold.remaining(now).is_zero() || !spot.layout.is_held() {
            return Ok(Outcome::Granted(Guard::new(spot, lock, used, hold)));
        }
        self.drop_hold(now, lock, &hold);
        let message = "the lock was granted, but its lease was over before this call could return: the instance did not run for \
                       longer than the ttl, or for a second when its holder handed it on; acquire it again";
        let error = Error::new(Kind::Lost, "acquire", message);
        Err(error.on_lock(spot.name.clone()).on_store(self.settings().address.clone()))
    }

    /// Nobody waits for this acquisition any more; what it was granted is given back.
    pub fn abandon(&mut self, now: Time, asked: Asked) {
        self.give_up(now, asked);
        self.go_on(now);
    }

    pub(crate) fn give_up(&mut self, now: Time, asked: Asked) {
        self.forget(now, asked.lock, asked.ticket, Some(asked.task));
    }

    /// Gives a semaphore another size. [`resized`](Self::resized) says whether that is done.
    ///
    /// # Errors
    /// `unsupported` for what is none, `invalid_config` for a number out of range, `closed`.
    pub fn resize(&mut self, now: Time, lock: &Lock, permits: u32) -> Result<Ticket> {
        let share = Share::permits(1, permits, false)?;
        if lock.spot.layout.share().is_none_or(|is| is.primitive != share.primitive) {
            return Err(Error::unsupported("resize", "only a semaphore can be resized"));
        }
        self.inquire(now, &lock.spot, Want::Resize(permits))
    }

    /// It has the size that was wanted.
    ///
    /// # Errors
    /// `unsupported` in a layout that cannot, `foreign_layout`, `unavailable`, and what the store says.
    pub fn resized(&mut self, ticket: Ticket) -> Result<()> {
        match self.inquiries.take(ticket) {
            Some(Err(error)) => Err(error),
            _ => Ok(()),
        }
    }

    /// Asks who holds a lock. [`inspected`](Self::inspected) has the answer.
    ///
    /// # Errors
    /// `closed`.
    pub fn inspect(&mut self, now: Time, lock: &Lock) -> Result<Ticket> {
        self.inquire(now, &lock.spot, Want::Inspect)
    }

    /// The lock by which it is found out whether locks can be had.
    ///
    /// # Errors
    /// As [`lock`](Self::lock).
    pub fn trial(&self) -> Result<Lock> {
        self.lock(PING, trial(self.lock_options()))
    }

    /// Asks what lies under a lock's name, of whatever kind. [`inspected`](Self::inspected) has the answer.
    ///
    /// # Errors
    /// `closed`.
    pub fn identify(&mut self, now: Time, lock: &Lock) -> Result<Ticket> {
        self.inquire(now, &lock.spot, Want::Identify)
    }

    /// Who holds it.
    ///
    /// # Errors
    /// `foreign_layout`, `unavailable`, and what the store says.
    pub fn inspected(&mut self, ticket: Ticket) -> Result<Inspection> {
        match self.inquiries.take(ticket) {
            Some(Ok(Found::Inspection(seen))) => Ok(*seen),
            other => Err(unanswered("inspect", other)),
        }
    }

    /// Takes a lock from whoever holds it under that token. [`broken`](Self::broken) has the answer.
    ///
    /// # Errors
    /// `closed`.
    pub fn break_hold(&mut self, now: Time, lock: &Lock, token: u64) -> Result<Ticket> {
        self.inquire(now, &lock.spot, Want::Break(token))
    }

    /// The same for whatever lies under a lock's name. [`broken`](Self::broken) has the answer.
    ///
    /// # Errors
    /// `closed`.
    pub fn break_any(&mut self, now: Time, lock: &Lock, token: u64) -> Result<Ticket> {
        self.inquire(now, &lock.spot, Want::BreakAny(token))
    }

    /// Whether somebody held it under that token.
    ///
    /// # Errors
    /// `foreign_layout`, `unavailable`, and what the store says.
    pub fn broken(&mut self, ticket: Ticket) -> Result<bool> {
        match self.inquiries.take(ticket) {
            Some(Ok(Found::Broken(broken))) => Ok(broken),
            other => Err(unanswered("break", other)),
        }
    }
}

impl Lock {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.spot.name
    }

    /// The same lock as candidates for the lead acquire it, and as observers look at it: first come, first served where
    /// its layout promises that and the server allows it, else in no order, and known by one token.
    #[must_use]
    pub fn for_election(&self) -> Lock {
        let mut lock = Lock { prefers_order: true, ..self.clone() };
        if let Some(layout) = self.spot.layout.agreed() {
            lock.spot = Rc::new(Spot { layout, name: self.spot.name.clone(), key: self.spot.key.clone() });
        }
        lock
    }

    pub(crate) fn spot(&self) -> &Rc<Spot> {
        &self.spot
    }

    pub(crate) fn renews(&self) -> bool {
        self.options.renew
    }

    /// How long it stays ours without a renewal.
    pub fn ttl(&self) -> Duration {
        self.options.ttl
    }

    /// How long acquisitions of it wait where nothing else is said.
    pub fn timeout(&self) -> Option<Duration> {
        self.options.timeout
    }
}
