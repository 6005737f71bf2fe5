//! The core's values as Python's, and its options by name.

use std::path::PathBuf;

use lockwright::binding::options::{Choice, Shape};
use lockwright::binding::{Case, Ending, Given, Language, Outcome, Record, Unit, Value};
use lockwright::{Error, blocking};
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString, PyTuple};

use crate::error::Raised;
use crate::guard::{Exported, Guard};
use crate::report::Histogram;
use crate::{Keywords, Span, Whole, text};

/// How Python has it.
pub(crate) const PYTHON: Language = Language { name: "python", unit: Unit::Seconds, case: Case::Snake };

/// Sets what the keywords of a call of `method` say. `None` says nothing, and what is among `others` there is not.
pub(crate) fn set<T>(
    method: &str,
    choices: &'static [Choice<T>],
    others: &[&str],
    options: &mut T,
    keywords: Option<Keywords<'_, '_>>,
) -> PyResult<()> {
    let Some(keywords) = keywords else { return Ok(()) };
    let operation = match method {
        "connect" => "connect",
        "require" => "require",
        _ => "lock",
    };
    let mut given = Vec::with_capacity(keywords.len());
    for (name, value) in keywords {
        let name = name.cast::<PyString>()?.to_string_lossy();
        let known = PYTHON.position(choices, &name).filter(|_| !others.contains(&&*name));
        let at = known.ok_or_else(|| unexpected(method, &name))?;
        if !value.is_none() {
            given.push((at, taken(operation, &choices[at], &value)?));
        }
    }
    Ok(PYTHON.set(choices, options, given, operation).map_err(Raised)?)
}

/// Refuses an option that there is not, with a hint for who comes from a library that calls it otherwise.
fn unexpected(method: &str, name: &str) -> PyErr {
    let hint = match name {
        "blocking_timeout" => ": here timeout says how long to wait, and ttl how long the lease lasts",
        "sleep" => ": here retry says how long to pause, where no waiter is told of its turn",
        _ => "",
    };
    let function = if method == "connect" { method.to_owned() } else { format!("Client.{method}") };
    PyTypeError::new_err(format!("{function}() got an unexpected keyword argument '{name}'{hint}"))
}

fn taken<T>(operation: &'static str, choice: &Choice<T>, value: &Bound<'_, PyAny>) -> PyResult<Given> {
    let what = choice.name;
    let wrong = |error| of_argument(value.py(), what, error);
    Ok(match choice.shape() {
        Shape::Span | Shape::Limit => {
            let span: Span = value.extract()?;
            if what == "ttl" {
                span.check_ttl(value.py(), operation)?;
            } else if span != Span::FOR_EVER {
                span.check(operation, what)?;
            }
            span.given(what)?
        }
        Shape::Count => Given::Number(value.extract::<Whole>().map_err(wrong)?.0 as f64),
        Shape::Flag => Given::Flag(value.extract().map_err(wrong)?),
        Shape::Text => Given::Text(text(operation, what, value)?),
        Shape::Path => {
            let path: PathBuf = value.extract().map_err(wrong)?;
            let path = path.into_os_string().into_string();
            let no_utf8 = |_| Raised(Error::invalid(operation, format!("the path {what} is not UTF-8")));
            Given::Text(path.map_err(no_utf8)?)
        }
        Shape::Range => {
            let (min, max): (Span, Span) = value.extract().map_err(wrong)?;
            Given::Range(Box::new([Some(min.given(what)?), Some(max.given(what)?)]))
        }
    })
}

/// As Python says it of the arguments of its own functions.
pub(crate) fn of_argument(py: Python<'_>, what: &str, error: PyErr) -> PyErr {
    if error.is_instance_of::<PyTypeError>(py) {
        return PyTypeError::new_err(format!("argument '{what}': {}", error.value(py)));
    }
    error
}

/// What came of an operation on what belongs to this client.
pub(crate) fn told(py: Python<'_>, outcome: Outcome, client: &blocking::Client) -> PyResult<Py<PyAny>> {
    let guard_of = |guard, client: &blocking::Client| Py::new(py, Guard::new(guard, client));
    let guard = |guard| guard_of(guard, client);
    match outcome {
        Outcome::Told(Value::List(values)) => PyList::new(py, objects(py, values)?)?.into_py_any(py),
        Outcome::Granted(granted) => guard(granted)?.into_py_any(py),
        Outcome::AllGranted(all) => all.into_iter().map(guard).collect::<PyResult<Vec<_>>>()?.into_py_any(py),
        Outcome::Segment(index, granted, of) => (index, guard_of(granted, &of.into_face())?).into_py_any(py),
        Outcome::Told(value) => object(py, value),
        Outcome::Ended(ending) => Ok(outcome_of(py, &ending)),
        Outcome::AllEnded(all) => all_ended(py, all),
        Outcome::Secret(secret) => Exported { secret: secret.into_string(), client: client.clone() }.into_py_any(py),
        Outcome::NotExported(both) => Err(Raised(both.2).into()),
    }
}

fn outcome_of(py: Python<'_>, ending: &Ending) -> Py<PyAny> {
    PyString::intern(py, ending.outcome.code()).into_any().unbind()
}

/// What became of each: a text, or the exception that says why it could not be given back.
pub(crate) fn all_ended(py: Python<'_>, all: Vec<lockwright::Result<Ending>>) -> PyResult<Py<PyAny>> {
    let failed = |error| PyErr::from(Raised(error)).into_value(py).into_any();
    let ended = |ended: lockwright::Result<Ending>| ended.map_or_else(failed, |ending| outcome_of(py, &ending));
    all.into_iter().map(ended).collect::<Vec<_>>().into_py_any(py)
}

fn objects(py: Python<'_>, values: Vec<Value>) -> PyResult<Vec<Py<PyAny>>> {
    values.into_iter().map(|value| object(py, value)).collect()
}

pub(crate) fn object(py: Python<'_>, value: Value) -> PyResult<Py<PyAny>> {
    match value {
        Value::Nothing => Ok(py.None()),
        Value::Flag(flag) => flag.into_py_any(py),
        Value::Count(number) | Value::Token(number) => number.into_py_any(py),
        Value::Span(span) => PYTHON.number(span).into_py_any(py),
        Value::Number(number) => number.into_py_any(py),
        Value::Text(text) => text.into_py_any(py),
        Value::List(values) => PyTuple::new(py, objects(py, values)?)?.into_py_any(py),
        Value::Histogram(histogram) => Histogram(histogram).into_py_any(py),
        Value::Record(record) => Ok(self::record(py, record)?.unbind()),
    }
}

/// An object of the class of that name; a dict where it has none.
pub(crate) fn record(py: Python<'_>, Record { class, fields }: Record) -> PyResult<Bound<'_, PyAny>> {
    let named = PyDict::new(py);
    for (name, value) in fields {
        named.set_item(PyString::intern(py, name), object(py, value)?)?;
    }
    if class.is_empty() {
        return Ok(named.into_any());
    }
    py.import("lockwright._records")?.getattr(class)?.call((), Some(&named))
}

/// Every name that the Python package must have.
#[pyfunction(name = "_manifest")]
pub(crate) fn manifest(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    record(py, lockwright::binding::manifest::manifest())
}
