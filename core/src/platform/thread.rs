//! The threads that the library starts.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use super::os;

static KEEP_SIGNALS_OUT: AtomicBool = AtomicBool::new(false);

/// Has no thread that the library starts from now on handle the process' signals: for a host whose handlers are made
/// for its own thread alone. PHP's are: while one runs, its thread takes no other signal, and what arrives in a second
/// thread meanwhile is put into a list that the first forgets.
#[cfg(feature = "bindings")]
pub fn keep_signals_out() {
    KEEP_SIGNALS_OUT.store(true, Ordering::Relaxed);
}

/// Starts a thread.
///
/// # Errors
/// The operating system's, when it refuses one.
pub(crate) fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    // A thread begins with the mask of the one that starts it.
    let _blocked = blocked();
    std::thread::Builder::new().name(name.into()).spawn(work).map(drop)
}

/// In a thread that tokio has started: what [`spawn`] does for the others.
pub(crate) fn started() {
    std::mem::forget(blocked());
}

fn blocked() -> Option<os::SignalsBlocked> {
    KEEP_SIGNALS_OUT.load(Ordering::Relaxed).then(os::block_signals)
}
