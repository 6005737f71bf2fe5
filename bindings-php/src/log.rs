//! The library's events for a logger of the program's, as PSR-3 has them.

use std::cell::{Cell, RefCell};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, UNIX_EPOCH};

use ext_php_rs::boxed::ZBox;
use ext_php_rs::convert::IntoZval;
use ext_php_rs::error::php_error;
use ext_php_rs::exception::PhpResult;
use ext_php_rs::flags::ErrorType;
use ext_php_rs::prelude::*;
use ext_php_rs::types::{ZendHashTable, Zval};
use ext_php_rs::zend::ExecutorGlobals;
use lockwright::Error;
use lockwright::binding::lost_track;
use lockwright::events::{self, Event, Events, Level, Value};

use crate::once::callable;
use crate::thrown::{caught, thrown, type_error};
use crate::told;
use crate::value::{is_there, text};

/// How many events wait for PHP before more are counted only.
const CAPACITY: usize = 1024;

/// Made when somebody first wants to see any.
static EVENTS: OnceLock<Arc<Events>> = OnceLock::new();

thread_local! {
    /// The logger's method, as PHP calls it.
    static LOGGER: RefCell<Option<Zval>> = const { RefCell::new(None) };
    /// A logger that uses locks is not told of what it does.
    static IS_TELLING: Cell<bool> = const { Cell::new(false) };
}

/// Where the library's events go.
#[php_class]
#[php(name = "Lockwright\\Log", flags = ext_php_rs::flags::ClassFlags::Final)]
#[derive(Debug)]
pub struct Log;

#[php_impl]
impl Log {
    /// Has every event of `level` (`error`, `warning`, which is the default, `info` or `debug`) and above told to
    /// `logger`, a `Psr\Log\LoggerInterface`, until the request ends; with null to nobody any more. It is called in the
    /// program's own thread, between two of its steps and while it waits for a lock. The context has `target`, such as
    /// `lockwright::lost`, `at`, in seconds since 1970, and what the event has.
    ///
    /// What the logger throws becomes a warning of PHP's. Throws InvalidConfig for another level.
    pub fn to(logger: &Zval, level: Option<&Zval>) -> PhpResult<()> {
        if logger.is_null() {
            stop();
            return Ok(());
        }
        let wrong =
            || type_error("Argument $logger must be a Psr\\Log\\LoggerInterface, which has a method log".into());
        let mut method = ZendHashTable::new();
        method.push(logger.shallow_clone())?;
        method.push("log")?;
        let method = method.into_zval(false)?;
        if !logger.is_object() || !method.is_callable() {
            return Err(wrong());
        }
        let wanted = is_there(level).map_or(Ok(Level::Warn), |level| named(&text("log", "level", level)?))?;
        begun()?.set_level(Some(wanted));
        drop(LOGGER.replace(Some(method)));
        Ok(())
    }
}

/// The mailbox of this process.
fn begun() -> PhpResult<&'static Arc<Events>> {
    if EVENTS.get().is_none() {
        let events = events::collect(None, CAPACITY).map_err(thrown)?;
        events.ring(told::ring);
        drop(EVENTS.set(events));
    }
    EVENTS.get().ok_or_else(|| thrown(lost_track("log")))
}

fn named(level: &str) -> PhpResult<Level> {
    Ok(match level {
        "error" => Level::Error,
        "warning" => Level::Warn,
        "info" => Level::Info,
        "debug" => Level::Debug,
        other => {
            let message = format!("there are no events of level {other:?}; say error, warning, info or debug");
            return Err(thrown(Error::invalid("log", message)));
        }
    })
}

const fn name(level: Level) -> &'static str {
    match level {
        Level::Error => "error",
        Level::Warn => "warning",
        Level::Info => "info",
        Level::Debug | Level::Trace => "debug",
    }
}

/// In PHP's thread: what there is to tell.
pub(crate) fn tell() {
    let Some(events) = EVENTS.get() else { return };
    let Some(logger) = LOGGER.with_borrow(|logger| logger.as_ref().map(Zval::shallow_clone)) else { return };
    if IS_TELLING.replace(true) {
        return;
    }
    for event in events.wait(Duration::ZERO).into_iter().flatten() {
        if told(&logger, event).is_err() || ExecutorGlobals::has_exception() {
            break;
        }
    }
    IS_TELLING.set(false);
}

fn told(logger: &Zval, event: Event) -> PhpResult<()> {
    let (level, message) = (name(event.level), event.message.clone());
    let context = context(event)?;
    let done = callable(logger, "logger")?.try_call(vec![&level, &message, &context]);
    let Some(said) = caught() else { return Ok(done.map(drop)?) };
    php_error(&ErrorType::Warning, &format!("the logger of Lockwright threw {said}"));
    Ok(())
}

fn context(event: Event) -> PhpResult<Zval> {
    let mut context: ZBox<ZendHashTable> = ZendHashTable::new();
    context.insert("target", event.target)?;
    context.insert("at", event.at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64())?;
    for (name, value) in event.fields {
        match value {
            Value::Text(text) => context.insert(name, text)?,
            Value::Seconds(span) => context.insert(name, span)?,
            Value::Number(number) => context.insert(name, number)?,
            Value::Flag(flag) => context.insert(name, flag)?,
        };
    }
    if event.missed > 0 {
        context.insert("missed", i64::try_from(event.missed).unwrap_or(i64::MAX))?;
    }
    Ok(context.into_zval(false)?)
}

/// Nobody is told any more.
pub(crate) fn stop() {
    let Some(logger) = LOGGER.take() else { return };
    if let Some(events) = EVENTS.get() {
        events.set_level(None);
        drop(events.wait(Duration::ZERO));
    }
    drop(logger);
}
