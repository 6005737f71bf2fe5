//! What happens to locks, told twice: counted at once in the client's [`Metrics`], and, if somebody listens, left for
//! `tracing` once no mutex is held. `docs/observability.md` lists targets and fields, which are stable.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use lockwright_machines::machine::{Notice, Way, Why};
use tracing::level_filters::LevelFilter;
use tracing::{Level, debug, info, trace, warn};

use crate::error::Kind;
use crate::metrics::Metrics;
use crate::platform::clock;
use crate::platform::fence::{tell_of_panic, told};
use crate::platform::mutex::locked;
use crate::session::Inbox;
use crate::stores::{Answered, Outcome, Store};
use crate::time::Time;
use crate::token::Token;

/// The word for why a lock was not acquired.
fn reason_of(why: &Why) -> &'static str {
    match why {
        Why::Taken => "taken",
        Why::TimedOut => Kind::Timeout.code(),
        Why::Cancelled => Kind::Cancelled.code(),
        Why::Failed(error) => error.code(),
    }
}

/// The word for how a lock was acquired.
fn word_of(way: Way) -> &'static str {
    match way {
        Way::Answer => "answer",
        Way::Push => "push",
        Way::HandOff => "hand_off",
        Way::Reentry => "reentry",
    }
}

/// The figures of one client.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    metrics: Mutex<Metrics>,
}

impl Counters {
    pub(crate) fn snapshot(&self) -> Metrics {
        locked(&self.metrics).clone()
    }

    pub(crate) fn change(&self, change: impl FnOnce(&mut Metrics)) {
        change(&mut locked(&self.metrics));
    }

    pub(crate) fn count(&self, notices: &[Notice]) {
        if !notices.is_empty() {
            let mut metrics = locked(&self.metrics);
            notices.iter().for_each(|notice| count(notice, &mut metrics));
        }
    }

    /// Whether anything is held.
    pub(crate) fn holds(&self) -> bool {
        locked(&self.metrics).held > 0
    }
}

fn count(notice: &Notice, metrics: &mut Metrics) {
    match notice {
        Notice::Asked => metrics.waiting += 1,
        Notice::Waits => metrics.contended += 1,
        Notice::Granted { waited, way, .. } => {
            metrics.waiting -= 1;
            metrics.acquired += 1;
            metrics.held += u64::from(*way != Way::Reentry);
            metrics.reentered += u64::from(*way == Way::Reentry);
            metrics.hand_offs += u64::from(*way == Way::HandOff);
            metrics.wait.record(*waited);
        }
        Notice::Refused { why, .. } => {
            metrics.waiting -= 1;
            *match why {
                Why::Taken => &mut metrics.refused,
                Why::TimedOut => &mut metrics.timeouts,
                Why::Cancelled => &mut metrics.cancelled,
                Why::Failed(_) => &mut metrics.failed,
            } += 1;
        }
        Notice::Renewed { .. } => metrics.renewals += 1,
        Notice::NotRenewed { .. } => metrics.renewal_failures += 1,
        Notice::Over { held } => {
            metrics.held -= 1;
            metrics.hold.record(*held);
        }
        Notice::Lost { reason, held, .. } => {
            metrics.held -= 1;
            metrics.hold.record(*held);
            metrics.lost.count(reason);
        }
        Notice::Changed { .. }
        | Notice::Wanted { .. }
        | Notice::Released { .. }
        | Notice::Exported { .. }
        | Notice::Yielded { .. }
        | Notice::Undone { .. }
        | Notice::Panicked { .. } => {}
    }
}

/// Whether anybody may want to read of it.
pub(crate) fn is_wanted(notice: &Notice) -> bool {
    let level = match notice {
        Notice::Asked | Notice::Over { .. } => return false,
        Notice::Renewed { .. } => Level::TRACE,
        Notice::Wanted { .. } => Level::INFO,
        Notice::Lost { .. } => Level::WARN,
        Notice::Panicked { .. } => Level::ERROR,
        _ => Level::DEBUG,
    };
    level <= LevelFilter::current()
}

/// Tells `tracing` that it happened to `lock`.
pub(crate) fn tell(notice: &Notice, lock: &str, store: &str) {
    let shown = |token: &Option<Token>| token.map(tracing::field::display);
    match notice {
        Notice::Asked | Notice::Over { .. } => {}
        Notice::Waits => debug!(target: "lockwright::wait", lock, store, "waiting: somebody else has the lock"),
        Notice::Granted { token, attempt, ttl, waited, way } => {
            let (ttl, waited, via) = (ttl.as_secs_f64(), waited.as_secs_f64(), word_of(*way));
            let attempt = attempt.short();
            debug!(target: "lockwright::grant", lock, store, token = shown(token), %attempt, ttl, waited, via, "lock granted");
        }
        Notice::Refused { why, waited } => {
            let (reason, waited) = (reason_of(why), waited.as_secs_f64());
            match why {
                Why::Failed(error) => {
                    debug!(target: "lockwright::refuse", lock, store, reason, waited, %error, "lock not acquired");
                }
                _ => debug!(target: "lockwright::refuse", lock, store, reason, waited, "lock not acquired"),
            }
        }
        Notice::Renewed { token, attempt, ttl } => {
            let (attempt, ttl, outcome) = (attempt.short(), ttl.as_secs_f64(), "renewed");
            trace!(target: "lockwright::renew", lock, store, token = shown(token), %attempt, ttl, outcome, "lease renewed");
        }
        Notice::NotRenewed { token, attempt, error } => {
            let (attempt, outcome) = (attempt.short(), "failed");
            let error = error.as_ref().map(tracing::field::display);
            debug!(
                target: "lockwright::renew", lock, store, token = shown(token), %attempt, outcome, error,
                "lease not renewed; trying again"
            );
        }
        Notice::Changed { before, token } => {
            debug!(target: "lockwright::change", lock, store, before = shown(before), token = shown(token), "held as a reader, or as the writer, now");
        }
        Notice::Released { token, outcome } => {
            let outcome = outcome.code();
            debug!(target: "lockwright::release", lock, store, token = shown(token), outcome, "lock released");
        }
        Notice::Exported { token } => {
            debug!(target: "lockwright::export", lock, store, token = shown(token), "lock exported: whoever knows the secret has it");
        }
        Notice::Yielded { token } => {
            debug!(target: "lockwright::yield", lock, store, token = shown(token), "other processes have their turn");
        }
        Notice::Wanted { token } => {
            info!(target: "lockwright::request", lock, store, token = shown(token), "somebody asks for the lock back");
        }
        Notice::Lost { token, reason, held } => {
            let (reason, held) = (reason.code(), held.as_secs_f64());
            warn!(target: "lockwright::lost", lock, store, token = shown(token), reason, held, "lock lost");
        }
        Notice::Panicked { said } => tell_of_panic(said, "a step of this lock", Some(lock), store),
        Notice::Undone { attempt } => {
            let attempt = attempt.short();
            debug!(target: "lockwright::undo", lock, store, %attempt, "taking back what may be left at the store");
        }
    }
}

/// Since when the store has not answered, so that an outage is told once and not by every lock.
#[derive(Debug, Default)]
pub(crate) struct Silence(AtomicU64);

impl Silence {
    /// Whether the store did not answer when it was last asked.
    #[cfg(feature = "bindings")]
    pub(crate) fn lasts(&self) -> bool {
        self.0.load(Ordering::Relaxed) != 0
    }

    /// Takes up how a round trip ended; whether the store answered again after it had not.
    pub(crate) fn hear(&self, answered: &Answered, store: &Arc<dyn Store>) -> bool {
        let store = &**store.address();
        match &answered.outcome {
            Outcome::Replies(_) | Outcome::Partly { .. } => {
                // Read before it is written: every request of a store that is well comes along here.
                if self.0.load(Ordering::Relaxed) == 0 {
                    return false;
                }
                let since = self.0.swap(0, Ordering::Relaxed);
                if since == 0 {
                    return false;
                }
                let after = clock::now().since(Time::from_nanos(since)).as_secs_f64();
                told(|| info!(target: "lockwright::store", store, after, state = "answers", "the store answers again"));
                true
            }
            // Who went away, or did not ask after all, says nothing of the store.
            Outcome::NotSent(error) | Outcome::Unknown { error, .. } if error.kind() == Kind::Cancelled => false,
            Outcome::NotSent(error) | Outcome::Unknown { error, .. } => {
                let since = answered.sent.as_nanos().max(1);
                if self.0.compare_exchange(0, since, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
                    let (state, what) = match error.kind() {
                        Kind::Unavailable => ("silent", "the store does not answer"),
                        _ => ("refuses", "the store refuses this client"),
                    };
                    told(|| warn!(target: "lockwright::store", store, state, %error, "{what}"));
                }
                false
            }
        }
    }
}

/// The subscription that pushes come through was made, lost, or refused.
pub(crate) fn inbox_changed(before: Inbox, state: Inbox, store: &str) {
    told(|| match state {
        Inbox::Unavailable if before != state => {
            warn!(target: "lockwright::poll", store, "the store pushes nothing to this client: those who wait poll");
        }
        Inbox::Live => debug!(target: "lockwright::inbox", store, state = "live", "subscribed"),
        Inbox::Closed => debug!(target: "lockwright::inbox", store, state = "closed", "the subscription ended"),
        Inbox::Unavailable => {}
    });
}

/// A caller has waited a while for what it holds itself.
pub(crate) fn waits_for_itself(lock: &str, store: &str) {
    warn!(
        target: "lockwright::wait", lock, store,
        "the caller waits for a lock that it holds itself: unless somebody else releases it, it waits for ever"
    );
}

/// A semaphore has another number of permits than this client says.
pub(crate) fn other_permits(lock: &str, store: &str, wanted: u32, permits: u32) {
    let what = "the semaphore has another number of permits than this client asks for, and keeps it while it is in use; `resize` changes it";
    told(|| warn!(target: "lockwright::permits", lock, store, wanted, permits, "{what}"));
}

/// The store is not the one it was.
pub(crate) fn store_restarted(store: &str) {
    told(
        || warn!(target: "lockwright::restart", store, "the store is another one than before: verifying what is held"),
    );
}

/// Somebody used this client to ask a holder for its lock.
pub(crate) fn asked_back(lock: &str, store: &str, token: Token, asked: bool) {
    let outcome = if asked { "asked" } else { "not_held" };
    told(|| debug!(target: "lockwright::request", lock, store, %token, outcome, "asked for a lock back"));
}

/// Somebody used this client to take a lock from its holder.
pub(crate) fn asked_to_break(lock: &str, store: &str, token: Token, broken: bool) {
    let outcome = if broken { "broken" } else { "not_held" };
    told(|| warn!(target: "lockwright::break", lock, store, %token, outcome, "asked to break a lock"));
}
