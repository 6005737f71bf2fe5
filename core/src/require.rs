//! What a caller insists on before it uses anything, so that a wrong address fails at the start.
//!
//! ```no_run
//! # fn example(client: lockwright::Client) -> lockwright::Result<()> {
//! use lockwright::guarantee::Requirements;
//!
//! // Read/write locks with fencing tokens, that other processes see.
//! client.require(Requirements { rwlock: true, fenced: true, shared: true, ..Requirements::default() })?;
//! # Ok(())
//! # }
//! ```

use std::time::Duration;

use lockwright_machines::gate::{BarrierPlan, Gate, LatchPlan, MAX_IDLE};

use crate::client::{Client, Face, Of};
use crate::error::{Error, Result};
use crate::guarantee::{ExclusiveUntil, Guarantees, Requirements, TokenRises};
use crate::options::DEFAULT_TTL;

impl<F: Face> Client<F> {
    /// Fails when something insisted on is not promised by the client's layout: of locks, or of the primitives that are
    /// named. Nothing is sent.
    ///
    /// # Errors
    /// `unsupported`, naming everything that is missing; else as [`guarantees`](Self::guarantees).
    pub fn require(&self, wanted: Requirements) -> Result<()> {
        let layout = self.default_layout()?;
        let locks = self.promises(&*layout);
        let (named, options) = (named(wanted), self.options());
        let lacks = |(name, of, wanted): &(&str, Of, Requirements)| match of.layout(layout.clone(), &options) {
            Ok(its) => lacking(&self.promises(&*its), *wanted).map(|what| format!("{what} of a {name}")).collect(),
            Err(_) => vec![(*name).to_owned()],
        };
        let missing: Vec<String> = if named.is_empty() {
            lacking(&locks, wanted).map(str::to_owned).collect()
        } else {
            named.iter().flat_map(lacks).collect()
        };
        if !missing.is_empty() {
            return Err(refused(&locks, &missing).on_store(self.address()));
        }
        if wanted.fenced {
            self.insist_on_tokens();
        }
        Ok(())
    }
}

/// The primitives that are wanted, and what of each.
fn named(wanted: Requirements) -> Vec<(&'static str, Of, Requirements)> {
    // What nobody holds has no token, no order and no owner.
    let of_a_gate = Requirements { fenced: false, fair: false, reentrant: false, ..wanted };
    let latch = LatchPlan { count: 1, idle: MAX_IDLE };
    let barrier = BarrierPlan { parties: 1, ttl: DEFAULT_TTL, copies: Duration::ZERO };
    let all = [
        (wanted.rwlock, "rwlock", Of::Read, wanted),
        (wanted.semaphore, "semaphore", Of::Permits { take: 1, permits: 1 }, wanted),
        (wanted.latch, "latch", Of::Gate(Gate::Latch(latch)), of_a_gate),
        (wanted.barrier, "barrier", Of::Gate(Gate::Barrier(barrier)), of_a_gate),
    ];
    all.into_iter().filter(|(is_wanted, ..)| *is_wanted).map(|(_, name, of, wanted)| (name, of, wanted)).collect()
}

fn refused(Guarantees { store, layout, .. }: &Guarantees, missing: &[String]) -> Error {
    let missing = missing.join(", ");
    let message = format!("{store} with layout {layout} does not promise: {missing}; choose another store or layout");
    Error::unsupported("require", message)
}

/// Whether no failover makes two holders.
fn is_failover_safe(until: ExclusiveUntil) -> bool {
    matches!(until, ExclusiveUntil::Deadline | ExclusiveUntil::NodeClock)
}

/// What of `wanted` is not promised.
fn lacking(promised: &Guarantees, wanted: Requirements) -> impl Iterator<Item = &'static str> {
    let checks = [
        (wanted.fenced && promised.token == TokenRises::Never, "fenced"),
        (wanted.fair && !promised.fair, "fair"),
        (wanted.reentrant && !promised.reentrant, "reentrant"),
        (wanted.shared && !promised.shared, "shared"),
        (wanted.push && !promised.push, "push"),
        (wanted.failover_safe && !is_failover_safe(promised.exclusive_until), "failover_safe"),
    ];
    checks.into_iter().filter(|(lacks, _)| *lacks).map(|(_, what)| what)
}
