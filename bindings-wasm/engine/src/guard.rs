//! A lock that is held: renewed, given back, left to a secret.

use std::rc::Rc;
use std::time::Duration;

use lockwright_machines::error::{Error, Kind, Result, being_exported, no_longer_held, recalled};
use lockwright_machines::lease::{LossReason, ReleaseOutcome};
use lockwright_machines::machine::{Event, Hold as _, Settled};
use lockwright_machines::options::AcquireOptions;
use lockwright_machines::queue::{HoldId, Refusal};
use lockwright_machines::secret;
use lockwright_machines::share::Share;
use lockwright_machines::time::Time;
use lockwright_machines::token::Token;

use crate::engine::{Engine, Spot, Ticket};
use crate::hold::Hold;
use crate::store::Store;

/// See the [module](self). It is to be [released](Engine::release), [let go](Engine::let_go) or
/// [abandoned](Engine::abandon_guard): dropped, it is renewed for ever.
#[derive(Debug)]
pub struct Guard {
    spot: Rc<Spot>,
    lock: u64,
    _used: Rc<()>,
    hold: Hold,
    /// It is exported by this ticket, and nothing is known of that yet: the store may have it as the secret's, and for
    /// less long.
    leaving: Option<Ticket>,
    is_over: bool,
}

impl Guard {
    pub(crate) fn new(spot: Rc<Spot>, lock: u64, used: Rc<()>, hold: Hold) -> Self {
        Guard { spot, lock, _used: used, hold, leaving: None, is_over: false }
    }

    /// The lock's name.
    pub fn name(&self) -> &str {
        &self.spot.name
    }

    /// Its fencing token; [`Token::NONE`] where the layout has none.
    pub fn token(&self) -> Token {
        self.hold.shown().unwrap_or(Token::NONE)
    }

    /// How much longer it is certainly held: not at all from an export on.
    pub fn remaining(&self, now: Time) -> Duration {
        if self.is_gone() { Duration::ZERO } else { self.hold.remaining(now) }
    }

    /// Why it was lost, if it was.
    pub fn why_lost(&self, now: Time) -> Option<LossReason> {
        if self.is_gone() { None } else { self.hold.why_lost(now) }
    }

    fn is_gone(&self) -> bool {
        self.is_over || self.leaving.is_some()
    }

    /// The error for what was asked of it, unless it is held.
    fn no_longer_held(&self, now: Time, operation: &'static str) -> Option<Error> {
        let why = self.why_lost(now);
        (why.is_some() || self.is_gone()).then(|| no_longer_held(operation, why))
    }

    /// What to renew for it to [be firm](Engine::is_firm), unless it is.
    pub(crate) fn unfirm(&self, now: Time, ttl: Duration) -> Option<(u64, HoldId)> {
        (!self.hold.is_firm(now, ttl)).then(|| (self.lock, self.hold.id()))
    }

    /// Whether it was released or exported.
    pub fn is_over(&self) -> bool {
        self.is_over
    }
}

/// What was released while it was exported, by the ticket that its answer comes for.
#[derive(Debug)]
pub(crate) enum Recall {
    /// It is on its way to a secret.
    Leaving { spot: Rc<Spot>, lock: u64, hold: Hold, waiter: Ticket },
    /// It is taken over from the secret, which nobody was told.
    Resumed { lock: u64, waiter: Ticket },
}

impl<S: Store> Engine<S> {
    fn on_guard(&self, guard: &Guard, error: Error) -> Error {
        error.on_lock(guard.spot.name.clone()).on_store(self.settings().address.clone())
    }

    /// # Errors
    /// `not_owned` where it was given back already, `unavailable` while it is exported.
    fn check_held(&self, guard: &Guard, operation: &'static str) -> Result<()> {
        self.check_not_over(guard, operation)?;
        if guard.leaving.is_some() { Err(self.on_guard(guard, being_exported(operation))) } else { Ok(()) }
    }

    /// # Errors
    /// `not_owned` where it was given back already.
    fn check_not_over(&self, guard: &Guard, operation: &'static str) -> Result<()> {
        if guard.is_over {
            let error = Error::new(Kind::NotOwned, operation, "this guard was released or exported already");
            return Err(self.on_guard(guard, error));
        }
        Ok(())
    }

    /// Gives the lock back; [`released`](Self::released) has what the store found.
    ///
    /// # Errors
    /// `not_owned` where it was given back already.
    pub fn release(&mut self, now: Time, guard: &mut Guard) -> Result<Ticket> {
        let ticket = self.begin_release(now, guard)?;
        self.go_on(now);
        Ok(ticket)
    }

    /// Gives several back, in one write; a ticket for each.
    pub fn release_all<'a>(
        &mut self,
        now: Time,
        guards: impl IntoIterator<Item = &'a mut Guard>,
    ) -> Vec<Result<Ticket>> {
        let tickets = guards.into_iter().map(|guard| self.begin_release(now, guard)).collect();
        self.go_on(now);
        tickets
    }

    fn begin_release(&mut self, now: Time, guard: &mut Guard) -> Result<Ticket> {
        self.check_not_over(guard, "release")?;
        guard.is_over = true;
        let waiter = self.next_ticket();
        self.give_back(now, guard, waiter);
        Ok(waiter)
    }

    /// Gives back what a guard holds, or what comes of its export.
    fn give_back(&mut self, now: Time, guard: &Guard, waiter: Ticket) {
        match guard.leaving {
            Some(ticket) => {
                let (spot, lock, hold) = (guard.spot.clone(), guard.lock, guard.hold.clone());
                self.recall(now, ticket, Recall::Leaving { spot, lock, hold, waiter });
            }
            None => self.release_hold(now, guard.lock, &guard.hold, waiter),
        }
    }

    fn recall(&mut self, now: Time, ticket: Ticket, recall: Recall) {
        self.recalls.insert(ticket, recall);
        if let Some(settled) = self.take(ticket) {
            self.settle(now, ticket, settled);
        }
    }

    /// What its exporter is told of a lock that was recalled, if there is one: it is given back.
    pub(crate) fn recalled(&mut self, now: Time, recall: Recall, settled: Settled<Hold>) -> Option<Settled<Hold>> {
        let unknown = Settled::Released(ReleaseOutcome::Unknown);
        let (spot, lock, hold, waiter) = match (recall, &settled) {
            (Recall::Leaving { spot, lock, hold, waiter }, _) => (spot, lock, hold, waiter),
            (Recall::Resumed { lock, waiter }, Settled::Granted { hold, .. }) => {
                self.release_hold(now, lock, hold, waiter);
                return None;
            }
            (Recall::Resumed { waiter, .. }, _) => {
                self.settle(now, waiter, unknown);
                return None;
            }
        };
        match settled {
            Settled::Exported(secret) => {
                match self.take_back(now, &spot, secret) {
                    Ok((ticket, lock)) => self.recall(now, ticket, Recall::Resumed { lock, waiter }),
                    Err(_) => {
                        self.tell(now, lock, Event::Retract { secret });
                        self.settle(now, waiter, unknown);
                    }
                }
                return Some(Settled::Refused(Refusal::Failed(recalled())));
            }
            Settled::Released(ref outcome) if !settled.is_kept() => {
                self.settle(now, waiter, Settled::Released(outcome.clone()));
            }
            _ => self.release_hold(now, lock, &hold, waiter),
        }
        Some(settled)
    }

    /// What a release that is [settled](Self::is_settled) found.
    pub fn released(&mut self, ticket: Ticket) -> ReleaseOutcome {
        match self.take(ticket) {
            Some(Settled::Released(outcome)) => outcome,
            _ => ReleaseOutcome::Unknown,
        }
    }

    /// Makes the lease last its ttl, or `ttl`, from now at least.
    ///
    /// # Errors
    /// `invalid_config` for a ttl out of range, `not_owned` where it was given back already.
    pub fn renew(&mut self, now: Time, guard: &Guard, ttl: Duration) -> Result<Ticket> {
        AcquireOptions { ttl, ..AcquireOptions::default() }.check()?;
        self.check_held(guard, "renew")?;
        Ok(self.extend(now, guard.lock, guard.hold.id(), ttl))
    }

    fn extend(&mut self, now: Time, lock: u64, hold: HoldId, ttl: Duration) -> Ticket {
        let waiter = self.next_ticket();
        self.tell(now, lock, Event::Extend { hold, ttl, waiter });
        self.go_on(now);
        waiter
    }

    /// A renewal whose result shows in the hold alone.
    pub(crate) fn renew_now(&mut self, now: Time, lock: u64, hold: HoldId, ttl: Duration) {
        let ticket = self.extend(now, lock, hold, ttl);
        self.forget(now, lock, ticket, None);
    }

    /// What became of a renewal that is [settled](Self::is_settled).
    ///
    /// # Errors
    /// `lost` with the reason, or `unavailable` where the store did not say in time.
    pub fn renewed(&mut self, now: Time, guard: &Guard, ticket: Ticket) -> Result<()> {
        let error = match (self.take(ticket), guard.no_longer_held(now, "renew")) {
            (Some(Settled::Extended(true)), _) => return Ok(()),
            (Some(Settled::Refused(Refusal::Failed(error))), _) => error,
            (_, Some(error)) => error,
            (_, None) => Error::new(Kind::Unavailable, "renew", "the store did not renew the lease; try again"),
        };
        Err(self.on_guard(guard, error))
    }

    /// Begins to hold another part of a read/write lock: a reader's, or the writer's.
    ///
    /// # Errors
    /// `unsupported` for any other lock, `not_owned` where it was given back already.
    pub fn change(&mut self, now: Time, guard: &Guard, to: Share) -> Result<Ticket> {
        self.check_held(guard, "change")?;
        if guard.spot.layout.share().is_none_or(|share| share.primitive != to.primitive) {
            let message = "only a guard of a read/write lock can be downgraded or upgraded";
            return Err(self.on_guard(guard, Error::unsupported("change", message)));
        }
        let waiter = self.next_ticket();
        self.tell(now, guard.lock, Event::Change { hold: guard.hold.id(), units: to.units, waiter });
        self.go_on(now);
        Ok(waiter)
    }

    /// Whether it holds what was wanted, by a ticket that is [settled](Self::is_settled).
    ///
    /// # Errors
    /// `lost` with the reason, and what the store says.
    pub fn changed(&mut self, now: Time, guard: &Guard, ticket: Ticket) -> Result<bool> {
        let error = match (self.take(ticket), guard.no_longer_held(now, "change")) {
            (Some(Settled::Changed(true)), _) => return Ok(true),
            (Some(Settled::Refused(Refusal::Failed(error))), None) => error,
            (_, None) => return Ok(false),
            (_, Some(error)) => error,
        };
        Err(self.on_guard(guard, error))
    }

    /// Leaves the lock to a secret for `ttl` from now.
    ///
    /// # Errors
    /// `invalid_config` for a ttl out of range, `not_owned` where it was given back already, `internal`.
    pub fn export(&mut self, now: Time, guard: &mut Guard, ttl: Duration) -> Result<Ticket> {
        AcquireOptions { ttl, ..AcquireOptions::default() }.check()?;
        self.check_held(guard, "export")?;
        let (secret, waiter) = (self.mint()?, self.next_ticket());
        guard.leaving = Some(waiter);
        let (hold, token) = (guard.hold.id(), guard.hold.shown());
        self.tell(now, guard.lock, Event::Export { hold, token, secret, ttl, waiter });
        self.go_on(now);
        Ok(waiter)
    }

    /// The secret of an export that is [settled](Self::is_settled).
    ///
    /// # Errors
    /// `unsupported` where the layout cannot, which leaves the guard as it was; `lost`, `unavailable`; `not_owned`
    /// where the guard was released meanwhile: the lock is given back.
    pub fn exported(&mut self, now: Time, guard: &mut Guard, ticket: Ticket) -> Result<String> {
        let settled = self.take(ticket).unwrap_or(Settled::Released(ReleaseOutcome::Unknown));
        guard.leaving = None;
        guard.is_over |= !settled.is_kept();
        self.go_on(now);
        let secret = settled.secret().map_err(|error| self.on_guard(guard, error))?;
        Ok(secret::text(secret, &guard.spot.name))
    }

    /// Nobody waits for what was asked of this guard any more; what it exported meanwhile is taken back.
    pub fn forget_answer(&mut self, now: Time, guard: &mut Guard, ticket: Ticket) {
        if guard.leaving == Some(ticket) {
            self.let_go(now, guard);
        }
        self.forget(now, guard.lock, ticket, None);
        self.go_on(now);
    }

    /// Gives the lock back without waiting for what the store finds.
    pub fn let_go(&mut self, now: Time, guard: &mut Guard) {
        if !std::mem::replace(&mut guard.is_over, true) {
            self.give_back(now, guard, 0);
            self.go_on(now);
        }
    }

    /// The same for whoever looks afterwards.
    pub(crate) fn let_go_of(&mut self, now: Time, guard: Guard) {
        if !guard.is_over {
            self.drop_hold(now, guard.lock, &guard.hold);
        }
    }

    /// Nobody will ever give the lock back: nothing prolongs its lease any more.
    pub fn abandon_guard(&mut self, now: Time, guard: &Guard) {
        if !guard.is_over {
            self.tell(now, guard.lock, Event::Abandon { hold: guard.hold.id() });
            self.go_on(now);
        }
    }

    pub(crate) fn drop_hold(&mut self, now: Time, lock: u64, hold: &Hold) {
        self.release_hold(now, lock, hold, 0);
    }

    fn release_hold(&mut self, now: Time, lock: u64, hold: &Hold, waiter: Ticket) {
        self.tell(now, lock, Event::Release { hold: hold.id(), token: hold.shown(), waiter });
    }
}
