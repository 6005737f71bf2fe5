//! What is asked by name, with the arguments of a method of Python's: here, or as a job of an event loop.

use std::sync::Arc;

use lockwright::binding::operation::{Operation, Takes};
use lockwright::binding::{Argument, Handle, lost_track};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

use crate::barrier::Barrier;
use crate::client::{Client, SharedClient};
use crate::error::Raised;
use crate::latch::Latch;
use crate::lock::{Lock, limit};
use crate::several::{Bundle, Segments};
use crate::value::{of_argument, told};
use crate::{Given, Span, Whole, text, waited};

/// Whatever of Python's is asked something.
pub(crate) trait Asked {
    fn handle(&self) -> Handle;
    fn shared(&self) -> &Arc<SharedClient>;
    /// Readies each client that it asks.
    fn prepare(&self, py: Python<'_>) -> PyResult<()>;
}

/// The classes that are asked something, what each has of the core, and what it has of other clients than its own.
macro_rules! classes {
    ($($class:ident: $kind:ident($($core:ident).+) $(+ $others:ident)?),* $(,)?) => {
        $(
            impl Asked for $class {
                fn handle(&self) -> Handle {
                    Handle::$kind(self.$($core).+.clone().into_face())
                }

                fn shared(&self) -> &Arc<SharedClient> {
                    &self.shared
                }

                fn prepare(&self, py: Python<'_>) -> PyResult<()> {
                    $(self.$others.iter().try_for_each(|other| other.prepare(py))?;)?
                    self.shared.prepare(py)
                }
            }
        )*

        /// What an object of any of them is asked by, which is ready to be.
        pub(crate) fn any(py: Python<'_>, of: &Bound<'_, PyAny>) -> PyResult<(Handle, Arc<SharedClient>)> {
            $(if let Ok(of) = of.cast::<$class>() {
                let of = of.get();
                of.prepare(py)?;
                return Ok((of.handle(), of.shared().clone()));
            })*
            Err(Raised(lost_track("call")).into())
        }
    };
}

classes! {
    Client: Client(shared.client),
    Lock: Lock(core),
    Latch: Latch(core),
    Barrier: Barrier(core),
    Bundle: Locks(core),
    Segments: Segments(core) + others,
}

/// The operation of that name of this handle, and its arguments as Python gave them.
pub(crate) fn asked(of: &Handle, name: &str, given: &[Given<'_>]) -> PyResult<(&'static Operation, Vec<Argument>)> {
    let operation = Operation::find(of.of(), name).ok_or_else(|| Raised(lost_track("call")))?;
    let argument = |((what, takes), given): (&(&'static str, Takes), &Given<'_>)| match (takes, given) {
        (Takes::Limit, span) => {
            let span = span.as_ref().map(|span| span.extract::<Span>()).transpose()?;
            Ok(Argument::Limit(limit(span, of.own_limit())?))
        }
        (Takes::Span, Some(span)) => Ok(Argument::Span(span.extract::<Span>()?.check(operation.operation, what)?)),
        (Takes::Text, Some(given)) => Ok(Argument::Text(text(operation.operation, what, given)?)),
        (Takes::Token, Some(given)) => Ok(Argument::Token(given.extract::<Whole>()?.token(operation.operation)?)),
        (Takes::Count, Some(given)) => {
            let number: Whole = given.extract().map_err(|error| of_argument(given.py(), what, error))?;
            Ok(Argument::Count(number.count()))
        }
        (_, None) => Err(PyTypeError::new_err(format!("argument '{what}' must not be None"))),
    };
    let arguments = operation.takes.iter().zip(given).map(argument).collect::<PyResult<_>>()?;
    Ok((operation, arguments))
}

/// Asks it in this thread, which lets others run meanwhile.
pub(crate) fn ask<'py>(py: Python<'py>, of: &impl Asked, name: &str, given: &[Given<'py>]) -> PyResult<Py<PyAny>> {
    let handle = of.handle();
    let (operation, arguments) = asked(&handle, name, given)?;
    of.prepare(py)?;
    let limit = match arguments.first() {
        Some(Argument::Limit(limit)) => *limit,
        _ => None,
    };
    let outcome = waited(py, limit, move || operation.here(handle, arguments))?;
    told(py, outcome.map_err(Raised)?, &of.shared().client)
}
