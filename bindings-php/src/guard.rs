//! The guard: what is held, and how it ends.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use ext_php_rs::exception::PhpResult;
use ext_php_rs::prelude::*;
use ext_php_rs::types::{ZendClassObject, Zval};
use lockwright::binding::operation::Work;
use lockwright::binding::{Ending, Held, Outcome, Road, Standing, lost_track};

use crate::request::{give_back, hold};
use crate::thrown::thrown;
use crate::told::{self as mail, listened_to};
use crate::value::{ended, of_token, span, told};
use crate::waiting::concluded;

/// A lock that is held. It is given back by `release`, else when nothing refers to the object any more, else at the end
/// of the request, however that ends. In a forked child the parent's does nothing.
#[php_class]
#[php(name = "Lockwright\\Guard", modifier = listened_to, flags = ext_php_rs::flags::ClassFlags::Final)]
#[derive(Debug)]
pub struct Guard {
    pub(crate) held: Arc<Held>,
    /// Who is told of its loss.
    listeners: RefCell<Vec<i64>>,
}

impl Guard {
    pub(crate) fn new(guard: lockwright::Guard) -> Self {
        Guard { held: hold(guard), listeners: RefCell::default() }
    }
}

/// What came of what is asked of a hold.
fn done(
    held: &Arc<Held>,
    operation: &'static str,
    begin: impl FnOnce(Arc<Held>) -> lockwright::Result<Work>,
) -> PhpResult<Outcome> {
    concluded(operation, || begin(held.clone()))?.map_err(thrown)
}

/// Makes its lease last `ttl` from now on.
pub(crate) fn extended(held: &Arc<Held>, ttl: Duration) -> PhpResult<()> {
    done(held, "extend", |held| held.begin_extend(Road::Thread, ttl)).map(drop)
}

/// Gives it back: how the hold ended.
pub(crate) fn released(held: &Arc<Held>) -> PhpResult<Ending> {
    match done(held, "release", |held| Ok(Box::pin(held.begin_release(Road::Thread, false)?)))? {
        Outcome::Ended(ending) => Ok(ending),
        _ => Err(thrown(lost_track("release"))),
    }
}

/// The same of what the work of a block may have given back already.
pub(crate) fn released_yet(held: &Arc<Held>) -> PhpResult<Option<Ending>> {
    if held.standing() == Standing::Open { released(held).map(Some) } else { Ok(None) }
}

/// The same as methods tell it.
pub(crate) fn released_as(held: &Arc<Held>) -> PhpResult<String> {
    Ok(ended(&released(held)?).to_owned())
}

impl Guard {
    /// Goes on as the writer, or as a reader: whether it does.
    fn changed(&self, writes: bool) -> PhpResult<Zval> {
        told(done(&self.held, "change", |held| held.begin_change(Road::Thread, writes))?)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        mail::forget_all(self.listeners.take());
        give_back(&self.held);
    }
}

#[php_impl]
impl Guard {
    /// The fencing token: whatever the lock protects refuses one that is lower than it has seen. An int, or a string
    /// where it is beyond PHP_INT_MAX.
    pub fn token(&self) -> PhpResult<Zval> {
        of_token(self.held.token())
    }

    /// Changes only where tokens start again; goes before the token when two are compared.
    pub fn epoch(&self) -> PhpResult<Zval> {
        of_token(self.held.epoch())
    }

    /// The name of its lock.
    pub fn name(&self) -> String {
        self.held.name().to_string()
    }

    /// How many times its owner holds it.
    pub fn depth(&self) -> i64 {
        self.held.depth().into()
    }

    /// Whether the lock is certainly held at this moment.
    pub fn is_held(&self) -> bool {
        self.held.is_held()
    }

    /// Seconds that the lock is certainly held without a further renewal.
    pub fn remaining(&self) -> f64 {
        self.held.remaining().unwrap_or_default().as_secs_f64()
    }

    /// Whether it was lost: it is over, and was not given back.
    pub fn is_lost(&self) -> bool {
        self.held.why().is_some()
    }

    /// Calls `listener` with the reason, as `whyLost` has it, when the lock is lost before it is given back: in the
    /// program's own thread, between two of its steps, also while it waits for another lock, but not within `sleep` or
    /// a query. What it throws is thrown there; others that are due are told right after that was looked at.
    ///
    /// A listener that refers to the guard, as one does that has a `$this` with it, keeps it until PHP collects cycles,
    /// unless it is released; a `static fn` does not.
    pub fn on_lost(self_: &mut ZendClassObject<Self>, listener: &Zval) -> PhpResult<()> {
        let held = self_.held.clone();
        let number = mail::on_lost(self_.get_mut_zend_obj(), &[held], listener)?;
        self_.listeners.borrow_mut().push(number);
        Ok(())
    }

    /// Whether somebody asked for the lock back since it was granted; only known of one that is `revocable`.
    pub fn release_requested(&self) -> bool {
        self.held.release_requested()
    }

    /// Calls `listener` once when somebody asks for the lock back before it is given back, soon if that was done
    /// already, and never where the lock is not `revocable`; where and as `onLost` does. The lock stays held.
    pub fn on_release_requested(self_: &mut ZendClassObject<Self>, listener: &Zval) -> PhpResult<()> {
        let held = self_.held.clone();
        let number = mail::on_release_requested(self_.get_mut_zend_obj(), &held, listener)?;
        self_.listeners.borrow_mut().push(number);
        Ok(())
    }

    /// `expired`, `max_hold`, `abandoned`, `not_renewed`, `gone`, `broken` or `closed`; null unless it was lost.
    pub fn why_lost(&self) -> Option<String> {
        self.held.why().map(|why| why.code().to_owned())
    }

    /// Makes the lease last at least `ttl` from now, and at every renewal. Throws LockLost when the lock is not held
    /// any more, and Unavailable when the store did not answer for `storeTimeout`: the lock stays held for as long as
    /// `remaining` says.
    pub fn extend(&self, ttl: &Zval) -> PhpResult<()> {
        extended(&self.held, span("extend", "ttl", ttl)?)
    }

    /// However early it is released, the lock stays taken until `span` after it was acquired (at most 24 hours).
    pub fn hold_at_least_for(&self, span: &Zval) -> PhpResult<()> {
        let operation = "hold_at_least_for";
        self.held.hold_at_least_for(crate::value::span(operation, "span", span)?).map_err(thrown)
    }

    /// Leaves the lock to a secret, which `Client::resume` takes over within `ttl`, in this process or another. Treat
    /// it as a password; this guard is dead.
    pub fn export(&self, ttl: &Zval) -> PhpResult<Zval> {
        let ttl = span("export", "ttl", ttl)?;
        told(done(&self.held, "export", |held| held.begin_export(Road::Thread, ttl))?)
    }

    /// Of a read/write lock: the writer becomes a reader, and nobody else writes in between. The token stays.
    pub fn downgrade(&self) -> PhpResult<()> {
        self.changed(false).map(drop)
    }

    /// Of a read/write lock: whether this reader is the writer now, with a new token. It is if nobody else reads.
    pub fn try_upgrade(&self) -> PhpResult<Zval> {
        self.changed(true)
    }

    /// Gives the lock back, and says what the store found: `released`, `kept` (its owner still holds it), `expired` or
    /// `stolen` (it was lost before), or `unknown` (free when its lease ends). Throws NotOwned the second time.
    pub fn release(&self) -> PhpResult<String> {
        released_as(&self.held)
    }
}
