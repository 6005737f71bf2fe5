//! A process that goes on with this one's business after its death.

use std::sync::OnceLock;

static COMPANION: OnceLock<u32> = OnceLock::new();

/// Says that what this process does under its locks is ended by process `pid`, should this one die: stores that take a
/// dead process's locks away at once wait for that one, too. To be said once, and before the locks it concerns are
/// taken or [renewed](crate::Guard::extend); a second word is not heard.
#[doc(hidden)]
pub fn outlived_by(pid: u32) {
    let _ = COMPANION.set(pid);
}

/// Who was named.
#[cfg(feature = "sqlite")]
pub(crate) fn companion() -> Option<u32> {
    COMPANION.get().copied()
}
