//! What an environment holds. JavaScript has numbers of it.

use lockwright::binding::Numbered;
use lockwright::lease::LossReason;
use lockwright::{Error, Guard, Kind, Result};
use napi_derive::napi;

/// What is held, by number.
#[derive(Default)]
pub(crate) struct Guards(pub(crate) Numbered<Guard>);

impl Guards {
    pub(crate) fn get(&mut self, operation: &'static str, number: u32) -> Result<&mut Guard> {
        self.0.get(number).ok_or_else(|| released(operation))
    }

    pub(crate) fn take(&mut self, operation: &'static str, number: u32) -> Result<Guard> {
        self.0.remove(number).ok_or_else(|| released(operation))
    }
}

/// What a loss means, for a person.
#[napi(catch_unwind)]
pub fn sentence(why: String) -> &'static str {
    let known = LossReason::ALL.iter().find(|reason| reason.code() == why);
    known.map_or("the reason is not known", LossReason::sentence)
}

fn released(operation: &'static str) -> Error {
    Error::new(Kind::NotOwned, operation, "this guard was released already")
}
