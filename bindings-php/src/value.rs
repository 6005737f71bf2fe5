//! The core's values as PHP's, and PHP's as options and arguments.

use std::time::Duration;

use ext_php_rs::boxed::ZBox;
use ext_php_rs::convert::IntoZval;
use ext_php_rs::exception::{PhpException, PhpResult};
use ext_php_rs::types::{ZendHashTable, ZendObject, Zval};
use lockwright::Error;
use lockwright::binding::options::{Choice, Shape};
use lockwright::binding::{Case, Ending, Given, Language, Outcome, Record, Unit, Value, lost_track};

use crate::classes;
use crate::guard::Guard;
use crate::report::Histogram;
use crate::several::MultiGuard;
use crate::thrown::{thrown, type_error};

/// How PHP has it.
pub(crate) const PHP: Language = Language { name: "php", unit: Unit::Seconds, case: Case::Camel };

/// What PHP gave, if it did: null says nothing.
pub(crate) type MaybeGiven<'a> = Option<&'a Zval>;

/// What is there of what need not be given.
pub(crate) fn is_there(given: MaybeGiven<'_>) -> Option<&Zval> {
    given.map(Zval::dereference).filter(|given| !given.is_null())
}

fn expected(what: &str, wanted: &str, given: &Zval) -> PhpException {
    type_error(format!("Argument ${what} must be {wanted}, not {}", given.get_type()))
}

/// A text, which may hold bytes that are no UTF-8.
pub(crate) fn text(operation: &'static str, what: &str, given: &Zval) -> PhpResult<String> {
    let given = given.dereference();
    let bytes = given.zend_str().ok_or_else(|| expected(what, "a string", given))?.as_bytes();
    let no_utf8 = |_| thrown(Error::invalid(operation, format!("the {what} is not UTF-8; encode it")));
    String::from_utf8(bytes.to_vec()).map_err(no_utf8)
}

fn number(given: &Zval) -> Option<f64> {
    given.double().or_else(|| given.long().map(|number| number as f64))
}

/// A span of time, not checked yet.
fn given_span(operation: &'static str, what: &str, given: &Zval) -> PhpResult<Given> {
    let given = given.dereference();
    if given.is_string() {
        return text(operation, what, given).map(Given::Text);
    }
    let wanted = "a number of seconds or a text such as '10s' or '500ms'";
    number(given).map(Given::Number).ok_or_else(|| expected(what, wanted, given))
}

pub(crate) fn span(operation: &'static str, what: &str, given: &Zval) -> PhpResult<Duration> {
    PHP.span(operation, what, &given_span(operation, what, given)?).map_err(thrown)
}

/// The same of what need not be given.
pub(crate) fn optional_span(operation: &'static str, what: &str, given: MaybeGiven<'_>) -> PhpResult<Option<Duration>> {
    is_there(given).map(|given| span(operation, what, given)).transpose()
}

/// How long to wait: as `own` says where nothing is given.
pub(crate) fn limit(
    operation: &'static str,
    what: &str,
    given: MaybeGiven<'_>,
    own: Option<Duration>,
) -> PhpResult<Option<Duration>> {
    let Some(given) = is_there(given) else { return Ok(own) };
    PHP.limit(operation, what, &given_span(operation, what, given)?).map_err(thrown)
}

/// How many, of which the core says what is too few and too many.
pub(crate) fn count(operation: &'static str, what: &str, given: &Zval) -> PhpResult<u32> {
    let given = given.dereference();
    let number = given.long().ok_or_else(|| expected(what, "an int", given))?;
    let wrong = if number < 0 { "it must not be negative" } else { "that is too many" };
    u32::try_from(number).map_err(|_| thrown(Error::invalid(operation, format!("{what} is {number}; {wrong}"))))
}

/// A token, or an epoch: a number, or a text where PHP has no number so large.
pub(crate) fn token(operation: &'static str, what: &str, given: &Zval) -> PhpResult<u64> {
    let given = given.dereference();
    let number = match given.long() {
        Some(number) => u64::try_from(number).ok(),
        None => given.str().ok_or_else(|| expected(what, "an int", given))?.parse().ok(),
    };
    let message = || format!("{what} is out of range; give one that a guard or inspect showed");
    number.ok_or_else(|| thrown(Error::invalid(operation, message())))
}

/// A fencing token, or a generation: a text where PHP has no number so large.
pub(crate) fn of_token(token: u64) -> PhpResult<Zval> {
    Ok(match i64::try_from(token) {
        Ok(number) => number.into_zval(false)?,
        Err(_) => token.to_string().into_zval(false)?,
    })
}

/// Sets what was given of a table, in its order; what was not stays as it is.
pub(crate) fn set<T>(
    choices: &'static [Choice<T>],
    options: &mut T,
    all: &[(&'static str, MaybeGiven<'_>)],
    operation: &'static str,
) -> PhpResult<()> {
    let mut given = Vec::with_capacity(all.len());
    for (name, value) in all {
        if let Some(value) = is_there(*value) {
            let at = PHP.position(choices, name).ok_or_else(|| thrown(lost_track(operation)))?;
            given.push((at, taken(operation, name, choices[at].shape(), value)?));
        }
    }
    PHP.set(choices, options, given, operation).map_err(thrown)
}

fn taken(operation: &'static str, what: &str, shape: Shape, value: &Zval) -> PhpResult<Given> {
    let wrong = |wanted| expected(what, wanted, value);
    Ok(match shape {
        Shape::Span | Shape::Limit => given_span(operation, what, value)?,
        Shape::Count => Given::Number(value.long().ok_or_else(|| wrong("an int"))? as f64),
        Shape::Flag => Given::Flag(value.bool().ok_or_else(|| wrong("a bool"))?),
        Shape::Text | Shape::Path => Given::Text(text(operation, what, value)?),
        Shape::Range => {
            let wanted = "an array of the shortest and the longest time";
            let ends = value.array().filter(|ends| ends.len() == 2).ok_or_else(|| wrong(wanted))?;
            let end = |at| match is_there(ends.get_index(at)) {
                Some(end) => given_span(operation, what, end).map(Some),
                None => Ok(None),
            };
            Given::Range(Box::new([end(0)?, end(1)?]))
        }
    })
}

/// What came of an operation.
pub(crate) fn told(outcome: Outcome) -> PhpResult<Zval> {
    Ok(match outcome {
        Outcome::Told(value) => object(value)?,
        Outcome::Granted(guard) => Guard::new(guard).into_zval(false)?,
        Outcome::AllGranted(all) => MultiGuard::made(all)?,
        Outcome::Segment(..) | Outcome::AllEnded(_) => return Err(thrown(lost_track("call"))),
        Outcome::Secret(secret) => secret.into_string().into_zval(false)?,
        Outcome::NotExported(both) => return Err(thrown(both.2)),
        Outcome::Ended(ending) => ended(&ending).into_zval(false)?,
    })
}

/// What the store found when it was given back.
pub(crate) fn ended(ending: &Ending) -> &'static str {
    ending.outcome.code()
}

/// A value; a list is an array.
pub(crate) fn object(value: Value) -> PhpResult<Zval> {
    Ok(match value {
        Value::Nothing => Zval::null(),
        Value::Flag(flag) => flag.into_zval(false)?,
        Value::Count(number) | Value::Token(number) => of_token(number)?,
        Value::Span(span) => PHP.number(span).into_zval(false)?,
        Value::Number(number) => number.into_zval(false)?,
        Value::Text(text) => text.into_owned().into_zval(false)?,
        Value::List(values) => {
            let mut list = ZendHashTable::new();
            for value in values {
                list.push(object(value)?)?;
            }
            list.into_zval(false)?
        }
        Value::Histogram(histogram) => Histogram::new(histogram).into_zval(false)?,
        Value::Record(record) => self::record(record)?,
    })
}

/// An object of the class of that name; an array where it has none.
pub(crate) fn record(Record { class, fields }: Record) -> PhpResult<Zval> {
    let Some(class) = classes::named(class) else {
        let mut named = ZendHashTable::new();
        for (name, value) in fields {
            named.insert(name, object(value)?)?;
        }
        return Ok(named.into_zval(false)?);
    };
    let mut of: ZBox<ZendObject> = ZendObject::new(class);
    for (name, value) in fields {
        classes::set(&mut of, &PHP.spell(name), object(value)?);
    }
    Ok(of.into_zval(false)?)
}

/// The segment and its index.
pub(crate) fn segment(outcome: Outcome) -> PhpResult<Option<(usize, Guard)>> {
    match outcome {
        Outcome::Segment(index, guard, _) => Ok(Some((index, Guard::new(guard)))),
        _ => Ok(None),
    }
}
