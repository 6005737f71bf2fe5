//! [`lockwright::binding`] as one function from bytes to bytes, which needs nothing of a language but that it can call
//! one.
//!
//! [`answered`] takes a request and gives a reply ([`wire`]): a first byte says what is [asked](verb), numbers stand
//! for what is kept in the [`table`]. [`open`] makes clients, locks and whatever else is asked something; [`ask`] asks
//! it; [`guard`] has what is held; [`reply`] writes what came of it. The [`agenda`] has the jobs of what waits, and
//! what a thread of the language takes to tell whoever waits; [`report`] has events, [`kit`] checks of fencing tokens.
//!
//! What holds everywhere here:
//! - No thread of ours enters the language's runtime or is known to it. What the driver has to say lies in the agenda
//!   until a thread of the language's takes it.
//! - No pointer crosses: a number that the language made up, or kept too long, is an error.
//! - Nothing is thrown here, and a panic becomes an error: both are replies.

#![forbid(unsafe_code)]
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod agenda;
mod ask;
mod guard;
mod kit;
mod open;
mod reply;
mod report;
mod table;
mod verb;
mod wire;

use std::panic::{AssertUnwindSafe, catch_unwind};

use lockwright::Result;
pub(crate) use lockwright::binding::locked;
use lockwright::binding::{Case, Language, Unit, panicked};

use reply::Reply;
use wire::Request;

/// How Java has it. Spans of time come as texts or as milliseconds.
pub(crate) const JAVA: Language = Language { name: "java", unit: Unit::Milliseconds, case: Case::Camel };

/// The reply to a request.
pub fn answered(request: &[u8]) -> Vec<u8> {
    let answer = catch_unwind(AssertUnwindSafe(|| answer(Request::new(request))));
    let reply = answer.unwrap_or_else(|_| Err(panicked())).unwrap_or_else(|error| Reply::failed(&error));
    reply.into_bytes()
}

fn answer(mut request: Request<'_>) -> Result<Reply> {
    let asked = request.byte()?;
    verb::obey(asked, &mut request)
}

/// Nobody asks any more, since whatever loaded the library is gone: the threads end.
pub fn unloaded() {
    // A panic is in the log, which nobody reads any more.
    let _ = catch_unwind(|| {
        report::end();
        lockwright::binding::unload();
    });
}
