//! Errors of the core, on their way to the classes of `ts/errors.ts`.

use lockwright::{Error, Result};
use napi::Either;
use napi_derive::napi;

/// What the wrapper makes an error of. Nothing here throws: an exception would cost the stack trace of the native call.
#[napi(object, object_from_js = false)]
pub struct Failure {
    pub code: String,
    pub message: String,
    pub operation: String,
    pub lock: Option<String>,
    pub store: Option<String>,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure {
            code: error.code().to_owned(),
            message: error.to_string(),
            operation: error.operation().to_owned(),
            lock: error.lock().map(str::to_owned),
            store: error.store().map(str::to_owned),
        }
    }
}

/// A result, or what went wrong.
pub(crate) type Answer<T> = Either<T, Failure>;

pub(crate) fn answer<T>(result: Result<T>) -> Answer<T> {
    match result {
        Ok(value) => Either::A(value),
        Err(error) => Either::B(error.into()),
    }
}
