//! Waiting for what is granted and not held.

use std::time::Duration;

use crate::client::Lock;
use crate::error::{Kind, Result};
use crate::token::Token;

impl Lock {
    /// Waits until it is granted, for at most `timeout`, and gives it back, which costs nothing. The token of the grant.
    pub(crate) async fn pass_within(&self, timeout: Option<Duration>) -> Result<Option<Token>> {
        let Some(pass) = in_time(self.acquire_within(timeout).await)? else { return Ok(None) };
        let token = pass.token();
        pass.release().await.map(|_| Some(token))
    }
}

impl crate::blocking::Lock {
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
