//! What latches and barriers have in common: a gate, which is granted and not held.

use std::time::Duration;

use lockwright_machines::gate::{self, Gate};

use crate::client::{Blocking, Client, Face, Lock, Of};
use crate::error::{Kind, Result};
use crate::token::Token;

impl<F: Face> Client<F> {
    /// What is acquired to pass the `gate` called `name`, with those of the client's options that say where it lies and
    /// how one waits.
    pub(crate) fn gate(&self, name: &str, gate: Gate, ttl: Duration) -> Result<Lock<F>> {
        self.builder(name, Of::Gate(gate)).options(gate::waits(self.options(), ttl)).build()
    }
}

impl Lock {
    /// Waits until it is granted, for at most `timeout`, and gives it back, which costs nothing. The token of the
    /// grant.
    pub(crate) async fn pass_within(&self, timeout: Option<Duration>) -> Result<Option<Token>> {
        let Some(pass) = in_time(self.acquire_within(timeout).await)? else { return Ok(None) };
        let token = pass.token();
        pass.release().await.map(|_| Some(token))
    }
}

impl Lock<Blocking> {
    /// As the async one.
    pub(crate) fn pass_within(&self, timeout: Option<Duration>) -> Result<Option<Token>> {
        let Some(pass) = in_time(self.with_timeout(timeout).acquire())? else { return Ok(None) };
        let token = pass.token();
        pass.release().map(|_| Some(token))
    }
}

/// What was acquired; `None` when the time limit was over before.
fn in_time<T>(acquired: Result<T>) -> Result<Option<T>> {
    match acquired {
        Err(error) if error.kind() == Kind::Timeout => Ok(None),
        acquired => acquired.map(Some),
    }
}
