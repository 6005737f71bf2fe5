//! What happens to this library when the process forks.
//!
//! The child inherits memory, descriptors and the one thread that called `fork`; every other thread is gone, and
//! whatever mutex it held stays locked for ever. So the child touches nothing of what it inherited: a generation
//! passes, and the system's [registered](register) descriptors are closed without a word to the other side, which they
//! still belong to. At its next use a client finds that its generation has passed and builds everything anew
//! ([`Generational`]); the inherited part is leaked.

#![allow(unsafe_code)]
// Bindings have values of each process.
#![cfg_attr(not(feature = "bindings"), allow(unreachable_pub))]

#[cfg(feature = "sqlite")]
use std::cell::Cell;
use std::cell::UnsafeCell;
#[cfg(feature = "sqlite")]
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use super::os::watch_forks;
pub(crate) use super::os::{Registered, register};

static GENERATION: AtomicU64 = AtomicU64::new(0);
static RESTORED: AtomicU64 = AtomicU64::new(0);

/// How often this process and its ancestors forked since the library was first used: differs between a parent and its
/// child.
pub fn generation() -> u64 {
    GENERATION.load(Ordering::Relaxed)
}

/// The same, counting also how often it went on from a copy of its memory without a fork: then its threads and
/// descriptors are its own, but what it believes to hold may be another's. See [`crate::restored`].
pub(crate) fn image() -> u64 {
    generation() + RESTORED.load(Ordering::Relaxed)
}

/// It goes on from such a copy.
pub(crate) fn restored() {
    RESTORED.fetch_add(1, Ordering::Relaxed);
}

/// Who is inside a library whose own locks must not be inherited half taken. Held for a moment only, and across a fork,
/// so that no fork can catch it locked.
static INSIDE: Mutex<Inside> = Mutex::new(Inside { is_busy: false, waiting: 0, forks: 0 });
static LEFT: Condvar = Condvar::new();

struct Inside {
    is_busy: bool,
    /// How many wait to enter.
    waiting: u32,
    /// How many wait to fork; they come first.
    forks: u32,
}

/// How long a fork waits for whoever is inside. What runs there takes some ten microseconds, but a disk may keep it;
/// and a fork may be keeping its whole process from going on, as Python's does.
const PATIENCE: Duration = Duration::from_secs(1);
/// The process was forked while somebody was inside, who will never leave.
static STRANDED: AtomicBool = AtomicBool::new(false);

fn inside() -> MutexGuard<'static, Inside> {
    INSIDE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Who is next, if anybody waits.
fn tell_of_leaving(inside: MutexGuard<'static, Inside>) {
    let (waiting, forks) = (inside.waiting, inside.forks);
    drop(inside);
    match (waiting, forks) {
        (0, 0) => {}
        (_, 0) => LEFT.notify_one(),
        _ => LEFT.notify_all(),
    }
}

struct HeldAcrossFork(UnsafeCell<Option<MutexGuard<'static, Inside>>>);

// SAFETY: only the fork handlers touch it, and they run one after the other in the thread that forks, between taking
// and leaving `INSIDE`.
unsafe impl Sync for HeldAcrossFork {}

static HELD: HeldAcrossFork = HeldAcrossFork(UnsafeCell::new(None));

/// Proof that nobody else is inside, and that a fork waits, for a while, until it is dropped. It stays with its thread.
#[cfg(feature = "sqlite")]
#[derive(Debug)]
pub(crate) struct Gate(PhantomData<*const ()>);

#[cfg(feature = "sqlite")]
thread_local! {
    /// This thread has the gate.
    pub(crate) static IS_INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Enters a library whose own locks must not be inherited half taken. None in a process that was forked while somebody
/// was inside: it must not touch that library for as long as it lives.
#[cfg(feature = "sqlite")]
pub(crate) fn gate() -> Option<Gate> {
    watch_forks();
    if STRANDED.load(Ordering::Relaxed) {
        return None;
    }
    let mut inside = inside();
    while inside.is_busy || inside.forks > 0 {
        inside.waiting += 1;
        inside = LEFT.wait(inside).unwrap_or_else(PoisonError::into_inner);
        inside.waiting -= 1;
    }
    inside.is_busy = true;
    IS_INSIDE.set(true);
    Some(Gate(PhantomData))
}

#[cfg(feature = "sqlite")]
impl Drop for Gate {
    fn drop(&mut self) {
        IS_INSIDE.set(false);
        let mut inside = inside();
        inside.is_busy = false;
        tell_of_leaving(inside);
    }
}

/// The thread that forks waits, for a while, until nobody is inside, and lets nobody in.
pub(super) fn before() {
    let mut inside = inside();
    inside.forks += 1;
    inside = match LEFT.wait_timeout_while(inside, PATIENCE, |inside| inside.is_busy) {
        Ok((inside, _)) => inside,
        Err(poisoned) => poisoned.into_inner().0,
    };
    inside.forks -= 1;
    // SAFETY: see `HeldAcrossFork`; `INSIDE` is ours.
    unsafe { *HELD.0.get() = Some(inside) };
}

/// The parent goes on.
pub(super) fn in_parent() {
    // SAFETY: as in `before`.
    if let Some(inside) = unsafe { (*HELD.0.get()).take() } {
        tell_of_leaving(inside);
    }
}

/// The child has a generation of its own.
pub(super) fn in_child() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
    // SAFETY: as in `before`.
    if let Some(mut inside) = unsafe { (*HELD.0.get()).take() } {
        // The threads that were counted are not there any more.
        (inside.waiting, inside.forks) = (0, 0);
        if std::mem::take(&mut inside.is_busy) {
            STRANDED.store(true, Ordering::Relaxed);
        }
    }
}

/// A value that every process has its own of: after a fork the child makes a new one and never touches the inherited.
#[derive(Debug)]
pub struct Generational<T> {
    stamp: fn() -> u64,
    first: Node<T>,
}

#[derive(Debug)]
struct Node<T> {
    stamp: fn() -> u64,
    generation: u64,
    value: std::mem::ManuallyDrop<Arc<T>>,
    next: OnceLock<Box<Node<T>>>,
}

impl<T> Generational<T> {
    /// This process has `value`.
    pub fn new(value: Arc<T>) -> Self {
        Self::by(generation, value)
    }

    /// A value that every [image] of a process has its own of.
    pub(crate) fn of_image(value: Arc<T>) -> Self {
        Self::by(image, value)
    }

    fn by(stamp: fn() -> u64, value: Arc<T>) -> Self {
        watch_forks();
        Generational { stamp, first: Node::new(stamp, value) }
    }

    /// This process's value, if it has one already.
    pub fn current(&self) -> Option<&Arc<T>> {
        let now = (self.stamp)();
        let mut node = &self.first;
        loop {
            if node.generation == now {
                return Some(&node.value);
            }
            node = node.next.get()?;
        }
    }

    /// This process's value, made by `make` when the process is a child that has none yet.
    pub fn get_or_make(&self, make: impl FnOnce() -> Arc<T>) -> &Arc<T> {
        let now = (self.stamp)();
        let mut make = Some(make);
        let mut node = &self.first;
        while node.generation != now {
            node = node.next.get_or_init(|| match make.take() {
                Some(make) => Box::new(Node::new(self.stamp, make())),
                None => unreachable!("a node made by this call has this generation"),
            });
        }
        &node.value
    }
}

impl<T> Node<T> {
    fn new(stamp: fn() -> u64, value: Arc<T>) -> Self {
        Node { stamp, generation: stamp(), value: std::mem::ManuallyDrop::new(value), next: OnceLock::new() }
    }
}

impl<T> Drop for Node<T> {
    fn drop(&mut self) {
        if self.generation == (self.stamp)() {
            // SAFETY: dropped once, here; a value of another generation is leaked.
            unsafe { std::mem::ManuallyDrop::drop(&mut self.value) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_made_once_per_process() {
        let value = Generational::new(Arc::new(1));
        assert_eq!(value.current().map(|v| **v), Some(1));
        assert_eq!(**value.get_or_make(|| Arc::new(2)), 1);
    }
}
