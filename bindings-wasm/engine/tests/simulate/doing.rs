//! What a task does, and what it has meanwhile.

use lockwright_machines::share::Share;
use lockwright_wasm_engine::{Asked, Guard, Ticket};

/// See the [module](self).
pub(crate) enum Doing {
    /// Nothing, until then.
    Rests(u64),
    Acquires {
        asked: Asked,
        of: Held,
        /// It does not look before.
        from: u64,
        /// When it is given up.
        until: u64,
    },
    Holds {
        guard: Guard,
        of: Held,
        until: u64,
    },
    Renews {
        guard: Guard,
        of: Held,
        until: u64,
        ticket: Ticket,
    },
    /// A reader would write, or a writer only read.
    Changes {
        guard: Guard,
        of: Held,
        to: Share,
        until: u64,
        ticket: Ticket,
    },
    Exports {
        guard: Guard,
        of: Held,
        /// Then it is released after all.
        until: u64,
        ticket: Ticket,
        recalled: Option<Ticket>,
    },
    /// Two locks together.
    AcquiresAll(Ticket, u64),
    HoldsAll(Vec<Guard>, u64),
    Releases(Ticket),
    /// Something beside the locks, which is answered by then.
    Inquires(Ticket, u64),
    Counts(Ticket),
    Meets(Asked),
    Ended,
}

/// What a task has, or wants.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    pub(crate) name: usize,
    pub(crate) units: u32,
    pub(crate) resumed: bool,
}

impl Doing {
    /// When it goes on by itself.
    pub(crate) fn due(&self, now: u64) -> Option<u64> {
        match self {
            Doing::Rests(until)
            | Doing::Holds { until, .. }
            | Doing::Exports { until, .. }
            | Doing::AcquiresAll(_, until)
            | Doing::HoldsAll(_, until) => Some(*until),
            Doing::Acquires { from, until, .. } if *from > now => Some(*until.min(from)),
            Doing::Acquires { until, .. } => Some(*until),
            _ => None,
        }
    }

    pub(crate) fn held(&self) -> Vec<(&Guard, Held)> {
        match self {
            Doing::Holds { guard, of, .. }
            | Doing::Renews { guard, of, .. }
            | Doing::Changes { guard, of, .. }
            | Doing::Exports { guard, of, .. } => vec![(guard, *of)],
            Doing::HoldsAll(guards, _) => {
                guards.iter().enumerate().map(|(name, guard)| (guard, one_of(name))).collect()
            }
            _ => Vec::new(),
        }
    }
}

/// The lock of that number, which one alone can hold.
pub(crate) fn one_of(name: usize) -> Held {
    Held { name, units: 1, resumed: false }
}
