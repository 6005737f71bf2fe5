//! What happens to a lock, for those who count and tell of it.

use std::time::Duration;

use crate::error::Error;
use crate::lease::{LossReason, ReleaseOutcome};
use crate::protocol::AttemptId;
use crate::queue::Refusal;
use crate::token::Token;

/// Something that happened to a lock.
#[derive(Debug)]
pub enum Notice {
    /// A task asks for it.
    Asked,
    /// Somebody has it, and a task waits.
    Waits,
    /// A task has it.
    Granted { token: Option<Token>, attempt: AttemptId, ttl: Duration, waited: Duration, way: Way },
    /// A task does not get it.
    Refused { why: Why, waited: Duration },
    /// Its lease was prolonged.
    Renewed { token: Option<Token>, attempt: AttemptId, ttl: Duration },
    /// Its lease was not prolonged; it will be tried again.
    NotRenewed { token: Option<Token>, attempt: AttemptId, error: Option<Error> },
    /// A reader became the writer, or the writer a reader.
    Changed { before: Option<Token>, token: Option<Token> },
    /// Somebody asks for it back.
    Wanted { token: Option<Token> },
    /// A hold is over, though the store may not know yet.
    Over { held: Duration },
    /// What became of a release.
    Released { token: Option<Token>, outcome: ReleaseOutcome },
    /// It is a secret's now.
    Exported { token: Option<Token> },
    /// It goes to whoever waits at the store, and is asked for again in the same request.
    Yielded { token: Option<Token> },
    /// A hold was lost.
    Lost { token: Option<Token>, reason: LossReason, held: Duration },
    /// The store is asked to forget an attempt.
    Undone { attempt: AttemptId },
    /// A step of it panicked, and it was given up.
    Panicked { said: String },
}

/// How a task came to have a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// The store's answer to a request.
    Answer,
    /// Pushed by the store, when somebody else released.
    Push,
    /// From the task before it in this process.
    HandOff,
    /// The task's owner has it already.
    Reentry,
}

/// Why a task did not get a lock.
#[derive(Debug)]
pub enum Why {
    /// Somebody else has it, and the task only tried.
    Taken,
    /// Its time limit passed.
    TimedOut,
    /// It went away.
    Cancelled,
    /// The lock cannot be had.
    Failed(Error),
}

impl From<&Refusal> for Why {
    fn from(refusal: &Refusal) -> Self {
        match refusal {
            Refusal::Taken => Why::Taken,
            Refusal::TimedOut(_) => Why::TimedOut,
            Refusal::Failed(error) => Why::Failed(error.clone()),
        }
    }
}
