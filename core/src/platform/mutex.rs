//! Mutexes, which a panic does not poison.
// Bindings use it.
#![cfg_attr(not(feature = "bindings"), allow(unreachable_pub))]

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex whose holders never leave it half changed: a panic elsewhere must not wedge every other user.
pub fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
