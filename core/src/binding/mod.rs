//! What the bindings of other languages are made of, so that each of them is a skin: the idioms of its language and
//! nothing else.
//!
//! Nothing here has a type parameter for how a caller waits, and everything can be kept behind a number or an object of
//! another language. Of the feature `bindings`, which programs in Rust do not need.
//!
//! | what | where |
//! |---|---|
//! | options by name and value, in the language's unit | [`options`] |
//! | what is made with an option or two of its own | [`open`] |
//! | operations by name, with arguments as data; what waits waits in slices, or as a job | [`operation`] |
//! | what comes of them: [`Outcome`], of which all but guards is a [`Value`] | [`operation`], [`record`] |
//! | jobs by number in the language's own event loop, which may be given up | [`jobs`] |
//! | a guard that several threads of a program share, and groups of them | [`held`], [`watch`] |
//! | events on their way to the language's log | [`report`] |
//! | user and password, asked on threads of the driver's | [`broker`] |
//! | whatever a language has a number of | [`numbered`] |
//! | whatever each process of a program has its own of | [`Generational`] |
//! | every name that a language must have, for its test: [`manifest`](manifest::manifest) | [`manifest`] |
//!
//! Errors are the core's: [`code`](crate::Error::code), [`retryable`](crate::Error::retryable), and what to do in the
//! text. Events are collected by [`events`](crate::events) and told as [`report`] has it.

pub mod broker;
pub mod held;
pub mod jobs;
pub mod manifest;
pub mod numbered;
pub mod open;
pub mod operation;
pub mod options;
pub mod record;
pub mod report;
pub mod watch;

pub use broker::Broker;
pub use held::{Ending, Held, Standing};
pub use jobs::Jobs;
pub use numbered::Numbered;
pub use operation::{Argument, Handle, Outcome, Waiting};
pub use options::{Case, Given, Language, Unit};
pub use record::{Record, Value};

pub use crate::driver::road::Road;
pub use crate::platform::fork::Generational;
pub use crate::platform::mutex::locked;
pub use crate::platform::thread::keep_signals_out;
pub use lockwright_machines::options::check_every;
pub use lockwright_machines::uri::span_with_unit;

use std::time::Duration;

use crate::error::{Error, Kind, Result};

/// The error of a call that panicked, which is a defect: nothing unwinds into another language.
pub fn panicked() -> Error {
    Error::new(Kind::Internal, "call", "the library panicked; please report this")
}

/// The error for what cannot happen.
pub fn lost_track(operation: &'static str) -> Error {
    Error::new(Kind::Internal, operation, "the library lost track of its own state; please report this")
}

/// Has the library's thread do `work` after `span`, unless it ends before.
///
/// # Errors
/// `internal` when the operating system refuses a thread or a descriptor.
pub fn later(span: Duration, work: impl FnOnce() + Send + 'static) -> Result<()> {
    let job = async move {
        tokio::time::sleep(span).await;
        work();
    };
    drop(crate::platform::runtime::handle()?.spawn(job));
    Ok(())
}

/// Ends the library's thread, for a language that unloads the library: nothing of it may be used afterwards.
pub fn unload() {
    crate::platform::runtime::end();
}

/// A client of a place of its own.
#[cfg(all(test, feature = "memory"))]
fn client_of_test<F: crate::Face>() -> crate::client::Client<F> {
    use std::sync::atomic::{AtomicU32, Ordering};

    static NEXT: AtomicU32 = AtomicU32::new(0);
    let place = format!("memory://binding-{}", NEXT.fetch_add(1, Ordering::Relaxed));
    crate::client::Client::open(Some(&place), crate::options::ConnectOptions::default()).unwrap()
}
