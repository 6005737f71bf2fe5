//! User and password from a function of the program's, which is asked at each new connection: by PHP's thread at once
//! where that makes it, else when PHP can be interrupted.
//!
//! A client outlives its request, and the function does not: whoever connects alike in the next one gives another.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use ext_php_rs::exception::PhpResult;
use ext_php_rs::types::Zval;
use ext_php_rs::zend::{CatchError, ExecutorGlobals, bailout, try_catch};
use lockwright::binding::broker::Found;
use lockwright::options::{Credentials, CredentialsSource};

use crate::once::callable;
use crate::thrown::{caught, is_ending};
use crate::told;

/// User and password as the core wants them.
pub(crate) type Given = Result<Credentials, Box<dyn std::error::Error + Send + Sync>>;

/// What errors call the function.
pub(crate) const CALLABLE: &str = "credentials callable";
/// Why nobody answers between requests.
pub(crate) const NO_REQUEST: &str = "no request is running whose credentials callable could be asked";

/// Whether a request gave one.
static OPEN: AtomicBool = AtomicBool::new(false);

thread_local! {
    static MINE: RefCell<Vec<(u64, Zval)>> = const { RefCell::new(Vec::new()) };
    /// Whether this is PHP's thread.
    static HERE: Cell<bool> = const { Cell::new(false) };
    /// The function ran into PHP's end of the request, which goes on once nothing of the core's is left to return to.
    static BAILED_OUT: Cell<bool> = const { Cell::new(false) };
}

/// A place for a function; it has none yet.
pub(crate) fn slot() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// What the core asks.
pub(crate) fn source(slot: u64, limit: Duration) -> CredentialsSource {
    Arc::new(move || match HERE.get() {
        true => Ok(answer(slot)?),
        false if OPEN.load(Ordering::Acquire) => told::ask(slot, limit),
        false => Err(NO_REQUEST.into()),
    })
}

/// From now on this one is asked, until the request ends.
pub(crate) fn give(slot: u64, function: &Zval) -> PhpResult<()> {
    callable(function, "credentials")?;
    let before = MINE.with_borrow_mut(|all| {
        let at = all.iter().position(|(other, _)| *other == slot);
        all.push((slot, function.shallow_clone()));
        at.map(|at| all.swap_remove(at))
    });
    HERE.set(true);
    OPEN.store(true, Ordering::Release);
    drop(before);
    Ok(())
}

/// In PHP's thread: what the program says.
pub(crate) fn answer(slot: u64) -> Found {
    let function = MINE.with_borrow(|all| all.iter().find(|(other, _)| *other == slot).map(|(_, f)| f.shallow_clone()));
    let function = function.ok_or(NO_REQUEST)?;
    if ExecutorGlobals::has_exception() || BAILED_OUT.get() {
        // PHP calls nothing then, or would be ended once more.
        return Err(ENDED.into());
    }
    let asked = try_catch(std::panic::AssertUnwindSafe(|| {
        let function = callable(&function, "credentials").map_err(|_| "the credentials callable cannot be called")?;
        let found = function.try_call(vec![]);
        if let Some(said) = caught() {
            return Err(format!("the credentials callable threw {said}"));
        }
        if is_ending() {
            return Err(ENDED.to_owned());
        }
        pair(&found.unwrap_or_default()).map_err(str::to_owned)
    }));
    asked.unwrap_or_else(|failure| {
        BAILED_OUT.set(matches!(failure, CatchError::Bailout));
        Err(ENDED.into())
    })
}

const ENDED: &str = "the program ends, or unwinds, and cannot be asked";

const NO_PAIR: &str = "the credentials callable must return an array of two strings, user and password";

const NO_UTF8: &str = "the user or the password that the credentials callable returned is not UTF-8; encode it";

fn pair(found: &Zval) -> Result<Credentials, &'static str> {
    let both = found.array().filter(|both| both.len() == 2).ok_or(NO_PAIR)?;
    let part = |at| both.get_index(at).filter(|part| part.is_string()).ok_or(NO_PAIR);
    let (user, password) = (part(0)?, part(1)?);
    let text = |part: &Zval| part.string().ok_or(NO_UTF8);
    Ok(Credentials { user: text(user)?, password: text(password)? })
}

/// Where nothing of the core's is left to return to: goes on with what the function began.
pub(crate) fn go_on() {
    if BAILED_OUT.take() {
        // SAFETY: nothing of this call is left but what PHP owns.
        unsafe { bailout() }
    }
}

/// The request ends, and with it all functions.
pub(crate) fn ended() {
    OPEN.store(false, Ordering::Release);
    BAILED_OUT.set(false);
    drop(MINE.with_borrow_mut(std::mem::take));
}
