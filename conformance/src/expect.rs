//! What a step expects of an answer, compared with what came.
//!
//! An expectation is a value, or a text that says more: `"> 3"`, `">= 3"`, `"< 3"`, `"<= 3"`, `"!= x"`, `"one of a,
//! b"`, `"something"` (not null, not empty), `"nothing"` (null), `"has x"` (a list with that in it). A `$label.field`
//! stands for what an earlier step's answer said.

use serde_json::Value;

/// Finds what a `$label.field` stands for.
pub trait Refs {
    /// The value of `label.field`; an error says what is not there.
    fn resolve(&self, path: &str) -> Result<Value, String>;
}

/// Replaces every `$label.field` in `value`.
pub fn fill(value: &Value, refs: &dyn Refs) -> Result<Value, String> {
    Ok(match value {
        Value::String(text) => match text.strip_prefix('$') {
            Some(path) => refs.resolve(path)?,
            None => value.clone(),
        },
        Value::Array(items) => Value::Array(items.iter().map(|item| fill(item, refs)).collect::<Result<_, _>>()?),
        Value::Object(fields) => {
            let fields = fields.iter().map(|(key, value)| Ok((key.clone(), fill(value, refs)?)));
            Value::Object(fields.collect::<Result<_, String>>()?)
        }
        other => other.clone(),
    })
}

/// Says what of `expected` is not so in `actual`. Fields that are not mentioned may be anything.
pub fn compare(expected: &Value, actual: &Value, refs: &dyn Refs) -> Result<(), String> {
    match expected {
        Value::Object(fields) => fields.iter().try_for_each(|(key, expected)| {
            let actual = actual.get(key).unwrap_or(&Value::Null);
            compare(expected, actual, refs).map_err(|text| format!("{key}: {text}"))
        }),
        Value::Array(items) if actual.as_array().is_some_and(|actual| actual.len() == items.len()) => {
            items.iter().enumerate().try_for_each(|(i, expected)| compare(expected, &actual[i], refs))
        }
        Value::String(text) => compare_text(text, actual, refs),
        _ if equal(expected, actual) => Ok(()),
        _ => Err(format!("expected {expected}, got {actual}")),
    }
}

fn compare_text(text: &str, actual: &Value, refs: &dyn Refs) -> Result<(), String> {
    let unmet = || Err(format!("expected {text}, got {actual}"));
    let operand = |text: &str| match text.strip_prefix('$') {
        Some(path) => refs.resolve(path),
        None => Ok(text.parse::<f64>().map_or_else(|_| Value::from(text), Value::from)),
    };
    if text == "something" {
        return if matches!(actual, Value::Null) || actual == "" { unmet() } else { Ok(()) };
    }
    if text == "nothing" {
        return if actual.is_null() { Ok(()) } else { unmet() };
    }
    if let Some(item) = text.strip_prefix("has ") {
        let item = operand(item)?;
        return if actual.as_array().is_some_and(|items| items.contains(&item)) { Ok(()) } else { unmet() };
    }
    if let Some(words) = text.strip_prefix("one of ") {
        return if words.split(", ").any(|word| actual == word) { Ok(()) } else { unmet() };
    }
    if let Some(other) = text.strip_prefix("!= ") {
        return if equal(&operand(other)?, actual) { unmet() } else { Ok(()) };
    }
    type Holds = fn(f64, f64) -> bool;
    let compared: [(&str, Holds); 4] =
        [(">= ", |a, b| a >= b), ("<= ", |a, b| a <= b), ("> ", |a, b| a > b), ("< ", |a, b| a < b)];
    if let Some((limit, holds)) = compared.iter().find_map(|(sign, f)| Some((text.strip_prefix(sign)?, f))) {
        let limit = operand(limit)?;
        let (Some(a), Some(b)) = (actual.as_f64(), limit.as_f64()) else { return unmet() };
        return if holds(a, b) { Ok(()) } else { Err(format!("expected {text} ({limit}), got {actual}")) };
    }
    let expected = if text.starts_with('$') { operand(text)? } else { Value::from(text) };
    if equal(&expected, actual) { Ok(()) } else { Err(format!("expected {text} ({expected}), got {actual}")) }
}

/// 1 and 1.0 are the same.
fn equal(a: &Value, b: &Value) -> bool {
    a == b || a.as_f64().zip(b.as_f64()).is_some_and(|(a, b)| a == b)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    struct Known;

    impl Refs for Known {
        fn resolve(&self, path: &str) -> Result<Value, String> {
            if path == "a.token" { Ok(json!(7)) } else { Err(format!("no {path}")) }
        }
    }

    fn meets(expected: Value, actual: Value) -> bool {
        compare(&expected, &actual, &Known).is_ok()
    }

    #[test]
    fn what_is_so_is_accepted_and_nothing_else() {
        let cases = [
            (json!(1), json!(1.0), json!(2)),
            (json!("x"), json!("x"), json!("y")),
            (json!("> 3"), json!(4), json!(3)),
            (json!(">= 3"), json!(3), json!(2)),
            (json!("< 3.5"), json!(3), json!(4)),
            (json!("<= 3"), json!(3), json!("3")),
            (json!("> $a.token"), json!(8), json!(7)),
            (json!("!= $a.token"), json!(8), json!(7)),
            (json!("$a.token"), json!(7), json!(8)),
            (json!("one of x, y"), json!("y"), json!("z")),
            (json!("something"), json!("y"), json!("")),
            (json!("something"), json!(0), Value::Null),
            (json!("nothing"), Value::Null, json!(0)),
            (json!("has x"), json!(["y", "x"]), json!(["y"])),
            (json!({"a": {"b": 1}}), json!({"a": {"b": 1, "c": 2}}), json!({"a": {"c": 1}})),
            (json!([1, "> 1"]), json!([1, 2]), json!([1])),
            (json!(true), json!(true), Value::Null),
        ];
        for (expected, good, bad) in cases {
            assert!(meets(expected.clone(), good.clone()), "{expected} {good}");
            assert!(!meets(expected.clone(), bad.clone()), "{expected} {bad}");
        }
        assert!(!meets(json!("> $b.token"), json!(8)));
    }

    #[test]
    fn references_are_replaced_wherever_they_stand() {
        let filled = fill(&json!({"token": "$a.token", "x": ["$a.token", "a"]}), &Known).unwrap();
        assert_eq!(filled, json!({"token": 7, "x": [7, "a"]}));
        assert!(fill(&json!("$b.token"), &Known).is_err());
    }
}
