//! The core's values as JavaScript's, and its options by name.

use std::collections::HashMap;

use lockwright::Result;
use lockwright::binding::options::Choice;
use lockwright::binding::{Case, Given, Language, Record, Unit, Value, lost_track};
use napi::bindgen_prelude::{Either4, Object, ToNapiValue};
use napi::{Env, Unknown};

use crate::report::Histogram;

/// How JavaScript has it.
pub(crate) const NODE: Language = Language { name: "node", unit: Unit::Milliseconds, case: Case::Camel };

/// What `ts/options.ts` found to be of the right type, by name. A range has its ends.
pub(crate) type Options = HashMap<String, Either4<String, f64, bool, Vec<Option<f64>>>>;

/// Sets what was given.
pub(crate) fn set<T>(
    choices: &'static [Choice<T>],
    options: &mut T,
    given: Options,
    operation: &'static str,
) -> Result<()> {
    let placed = given.into_iter().map(|(name, value)| {
        let value = match value {
            Either4::A(text) => Given::Text(text),
            Either4::B(number) => Given::Number(number),
            Either4::C(flag) => Given::Flag(flag),
            Either4::D(ends) => {
                Given::Range(Box::new([0, 1].map(|at| ends.get(at).copied().flatten().map(Given::Number))))
            }
        };
        NODE.position(choices, &name).map(|at| (at, value)).ok_or_else(|| lost_track(operation))
    });
    NODE.set(choices, options, placed.collect::<Result<_>>()?, operation)
}

/// A record is an object without what there is none of. The names of one without a class are data, and stay as they
/// are.
pub(crate) fn object<'env>(env: &'env Env, Record { class, fields }: Record) -> napi::Result<Object<'env>> {
    let mut object = Object::new(env)?;
    for (name, value) in fields {
        let name = if class.is_empty() { name.into() } else { NODE.spell(name) };
        if !matches!(value, Value::Nothing) {
            object.set(&*name, js(env, value)?)?;
        }
    }
    Ok(object)
}

pub(crate) fn js(env: &Env, value: Value) -> napi::Result<Unknown<'_>> {
    match value {
        Value::Nothing => ().into_unknown(env),
        Value::Flag(flag) => flag.into_unknown(env),
        Value::Count(count) => number(count).into_unknown(env),
        Value::Token(token) => token.into_unknown(env),
        Value::Span(span) => NODE.number(span).into_unknown(env),
        Value::Number(number) => number.into_unknown(env),
        Value::Text(text) => text.into_owned().into_unknown(env),
        Value::Histogram(histogram) => Histogram(histogram).into_unknown(env),
        Value::Record(record) => object(env, record)?.into_unknown(env),
        Value::List(values) => {
            values.into_iter().map(|value| js(env, value)).collect::<napi::Result<Vec<_>>>()?.into_unknown(env)
        }
    }
}

/// A count as JavaScript has numbers; exact up to 2^53.
#[expect(clippy::cast_precision_loss, reason = "nothing is counted so far")]
pub(crate) fn number(count: u64) -> f64 {
    count as f64
}
