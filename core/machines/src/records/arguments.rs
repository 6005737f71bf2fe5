//! The arguments of a request, as the machines of our records write them and the stores that run their procedures
//! themselves read them.

use std::time::Duration;

use crate::lock_cell::Claimant;
use crate::protocol::{Arg, AttemptId};

pub(crate) fn attempt_arg(attempt: AttemptId) -> Arg {
    Arg::Text(attempt.to_string().into())
}

/// The key, beside `key`, of what is remembered of attempts, where a store keeps that apart.
pub(crate) fn past_key(past: Option<&'static str>, key: &str) -> Option<Arg> {
    past.map(|past| Arg::Key(format!("{key}{past}").into()))
}

pub(crate) fn micros(duration: Duration) -> Arg {
    Arg::Int(i64::try_from(duration.as_micros()).unwrap_or(i64::MAX))
}

pub(crate) fn token_arg(token: u64) -> Arg {
    Arg::Int(i64::try_from(token).unwrap_or(i64::MAX))
}

/// A request's arguments, for the stores that run its procedures themselves.
pub(crate) struct Arguments<'a>(pub(crate) &'a [Arg]);

impl<'a> Arguments<'a> {
    pub(crate) fn text(&self, i: usize) -> Option<&'a str> {
        match self.0.get(i) {
            Some(Arg::Text(text)) => Some(text),
            _ => None,
        }
    }

    pub(crate) fn number(&self, i: usize) -> Option<i64> {
        match self.0.get(i) {
            Some(Arg::Int(value)) => Some(*value),
            Some(Arg::NotAfter) => Some(i64::MAX),
            // It was written as a word, and read by somebody who does not know what it is.
            Some(Arg::Text(text)) => text.parse().ok(),
            _ => None,
        }
    }

    pub(crate) fn token(&self, i: usize) -> Option<u64> {
        self.number(i).and_then(|n| u64::try_from(n).ok())
    }

    pub(crate) fn attempt(&self, i: usize) -> Option<AttemptId> {
        u128::from_str_radix(self.text(i)?, 16).ok().map(AttemptId)
    }

    pub(crate) fn claimant(&self, i: usize) -> Option<Claimant> {
        self.text(i).and_then(Claimant::parse)
    }
}
