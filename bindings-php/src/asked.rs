//! What is asked by name, with the arguments of a method of PHP's.

use ext_php_rs::exception::PhpResult;
use ext_php_rs::types::Zval;
use lockwright::Error;
use lockwright::binding::operation::{Operation, Takes};
use lockwright::binding::{Argument, Handle, Outcome, lost_track};

use crate::thrown::thrown;
use crate::value::{PHP, count, limit, span, text, token, told};
use crate::waiting::{caught_up, waited};

/// What came of it, with the core's own error.
pub(crate) fn tried(of: Handle, name: &str, given: &[Option<&Zval>]) -> PhpResult<Result<Outcome, Error>> {
    let operation = Operation::find(of.of(), name).ok_or_else(|| thrown(lost_track("call")))?;
    let argument = |((name, takes), given): (&(&'static str, Takes), &Option<&Zval>)| {
        let (asked, what) = (operation.operation, &*PHP.spell(name));
        Ok(match (takes, given) {
            (Takes::Limit, given) => Argument::Limit(limit(asked, what, *given, of.own_limit())?),
            (Takes::Span, Some(given)) => Argument::Span(span(asked, what, given)?),
            (Takes::Text, Some(given)) => Argument::Text(text(asked, what, given)?),
            (Takes::Token, Some(given)) => Argument::Token(token(asked, what, given)?),
            (Takes::Count, Some(given)) => Argument::Count(count(asked, what, given)?),
            (_, None) => return Err(thrown(lost_track(asked))),
        })
    };
    let arguments = operation.takes.iter().zip(given).map(argument).collect::<PhpResult<_>>()?;
    waited(operation.operation, || operation.here(of, arguments))
}

/// What came of it.
pub(crate) fn outcome(of: Handle, name: &str, given: &[Option<&Zval>]) -> PhpResult<Outcome> {
    tried(of, name, given)?.map_err(thrown)
}

/// The same, as PHP has it.
pub(crate) fn ask(of: Handle, name: &'static str, given: &[Option<&Zval>]) -> PhpResult<Zval> {
    caught_up(name, told(outcome(of, name, given)?)?)
}
