//! How this thread waits: in slices, so that PHP's signal handlers run, its time limit counts, and what the driver asks
//! of the program meanwhile is answered: it waits for that as the program does for the store.

use std::time::Duration;

use ext_php_rs::exception::PhpResult;
use ext_php_rs::ffi;
use ext_php_rs::zend::{CatchError, ExecutorGlobals, bailout, try_catch};
use lockwright::binding::operation::Work;
use lockwright::binding::{Outcome, Waiting, panicked};
use lockwright::blocking::Wait;
use lockwright::{Error, Kind, Result};

use crate::thrown::thrown;
use crate::told;

/// How long a wait goes on before it looks for signals.
const SLICE: Duration = Duration::from_millis(50);

/// What comes of what `begin` begins, unless PHP ends the wait.
pub(crate) fn waited(operation: &'static str, begin: impl FnOnce() -> Result<Waiting>) -> PhpResult<Result<Outcome>> {
    told::ring_again();
    caught_up(operation, ())?;
    match begin() {
        Ok(waiting) => gone_on(operation, waiting),
        Err(error) => Ok(Err(error)),
    }
}

/// The same of what is asked of a hold, which is done whatever is on its way already, such as `exit`.
pub(crate) fn concluded(operation: &'static str, begin: impl FnOnce() -> Result<Work>) -> PhpResult<Result<Outcome>> {
    match begin().map(Waiting::Job) {
        Ok(waiting) if ExecutorGlobals::has_exception() => Ok(settled(waiting)),
        Ok(waiting) => gone_on(operation, waiting),
        Err(error) => Ok(Err(error)),
    }
}

/// What comes of it where PHP cannot end the wait; no more of the program's is called than the driver needs.
pub(crate) fn settled(mut waiting: Waiting) -> Result<Outcome> {
    loop {
        if let Some(result) = waiting.wait(Wait::Park(SLICE)) {
            return result;
        }
        while told::answer() {}
    }
}

fn gone_on(operation: &'static str, mut waiting: Waiting) -> PhpResult<Result<Outcome>> {
    if let Some(result) = waiting.at_once() {
        return Ok(result);
    }
    loop {
        if let Some(result) = waiting.wait(Wait::Park(SLICE)) {
            return Ok(result);
        }
        waiting = caught_up(operation, waiting)?;
    }
}

/// Lets PHP do what it does between two steps, and gives up what there is where that throws. It would do so right after
/// this call, too, and if something is thrown there, it forgets what the call returned: a guard for ever.
pub(crate) fn caught_up<T>(operation: &'static str, so_far: T) -> PhpResult<T> {
    let ended = match interrupted() {
        Interrupted::No => return Ok(so_far),
        ended => ended,
    };
    drop(so_far);
    Err(thrown(match ended {
        // SAFETY: nothing of this call is left but what PHP owns.
        Interrupted::Bailout => unsafe { bailout() },
        Interrupted::Panicked => panicked(),
        _ => Error::new(Kind::Cancelled, operation, "PHP ended the wait"),
    }))
}

/// Waits between two looks of a wait that this binding makes itself.
pub(crate) fn paused(operation: &'static str, pause: Duration) -> PhpResult<()> {
    let mut left = pause;
    while !left.is_zero() {
        let slice = left.min(SLICE);
        std::thread::sleep(slice);
        left -= slice;
        caught_up(operation, ())?;
    }
    Ok(())
}

enum Interrupted {
    No,
    /// An exception is on its way, or the time limit of the script is over, which PHP looks at when we return.
    GiveUp,
    Bailout,
    Panicked,
}

/// Lets PHP's signal handlers run, if any signal came.
fn interrupted() -> Interrupted {
    if ExecutorGlobals::has_exception() {
        // The program ended in what the core asked it meanwhile.
        return Interrupted::GiveUp;
    }
    let globals = ExecutorGlobals::get();
    // SAFETY: the flags are PHP's own, which its signal handlers set at any time: they are read as they are.
    let (interrupt, timed_out) = unsafe {
        (
            (&raw const globals.vm_interrupt).cast::<bool>().read_volatile(),
            (&raw const globals.timed_out).cast::<bool>().read_volatile(),
        )
    };
    drop(globals);
    if !interrupt {
        return Interrupted::No;
    }
    if timed_out {
        return Interrupted::GiveUp;
    }
    ExecutorGlobals::get_mut().cancel_interrupt();
    // Read before: whatever is called needs the globals, too.
    let frame = ExecutorGlobals::get().current_execute_data;
    let handled = try_catch(|| {
        // SAFETY: PHP calls it so between two steps of its own, with the frame that is executed, as this call is.
        unsafe {
            if let Some(handle) = ffi::zend_interrupt_function {
                handle(frame);
            }
        }
    });
    match handled {
        Err(CatchError::Bailout) => Interrupted::Bailout,
        Err(_) => Interrupted::Panicked,
        Ok(()) if ExecutorGlobals::has_exception() => Interrupted::GiveUp,
        Ok(()) => Interrupted::No,
    }
}
