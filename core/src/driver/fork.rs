//! What happens to this library when the process forks. The only file of the core with `unsafe` in it.
//!
//! The child inherits memory, descriptors and the one thread that called `fork`; every other thread is gone, and whatever
//! mutex it held stays locked for ever. So the child touches nothing of what it inherited: the handler bumps a generation,
//! and closes the registered descriptors without a word to the other side, which they still belong to. At its next use a
//! client finds that its generation has passed and builds everything anew ([`Generational`]); the inherited part is leaked.

#![allow(unsafe_code)]

use std::cell::UnsafeCell;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Once, OnceLock, PoisonError};

static GENERATION: AtomicU64 = AtomicU64::new(0);

/// How often this process and its ancestors forked since the library was first used: differs between a parent and its
/// child.
pub(crate) fn generation() -> u64 {
    GENERATION.load(Ordering::Relaxed)
}

const SLOTS: usize = 4096;
const FREE: i32 = -1;
static DESCRIPTORS: [AtomicI32; SLOTS] = [const { AtomicI32::new(FREE) }; SLOTS];

/// A descriptor that a forked child closes. Dropping this before the descriptor itself takes it off the list.
#[derive(Debug)]
pub(crate) struct Registered(Option<usize>);

/// Registers a descriptor. When the list is full, the child keeps it open: harmless but for the other side, which sees the
/// connection end only when the child does.
pub(crate) fn register(descriptor: &impl AsRawFd) -> Registered {
    install();
    let fd: RawFd = descriptor.as_raw_fd();
    Registered(
        DESCRIPTORS
            .iter()
            .position(|slot| slot.compare_exchange(FREE, fd, Ordering::Relaxed, Ordering::Relaxed).is_ok()),
    )
}

impl Drop for Registered {
    fn drop(&mut self) {
        if let Some(slot) = self.0 {
            DESCRIPTORS[slot].store(FREE, Ordering::Relaxed);
        }
    }
}

/// A mutex that no fork can catch locked.
static GATE: Mutex<()> = Mutex::new(());

struct HeldAcrossFork(UnsafeCell<Option<MutexGuard<'static, ()>>>);

// SAFETY: only the fork handlers touch it, and they run one after the other in the thread that forks, between taking and
// leaving `GATE`.
unsafe impl Sync for HeldAcrossFork {}

static HELD: HeldAcrossFork = HeldAcrossFork(UnsafeCell::new(None));

/// Keeps the process from forking while the guard lives: for libraries whose own locks must not be inherited half taken.
#[cfg(feature = "sqlite")]
pub(crate) fn gate() -> MutexGuard<'static, ()> {
    install();
    GATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Registers the handlers, once in a process and its descendants.
pub(crate) fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: the three handlers are `extern "C"` functions without arguments that never unwind.
        let refused = unsafe { libc::pthread_atfork(Some(prepare), Some(parent), Some(child)) };
        debug_assert_eq!(refused, 0);
    });
}

extern "C" fn prepare() {
    let guard = GATE.lock().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: see `HeldAcrossFork`; `GATE` is ours.
    unsafe { *HELD.0.get() = Some(guard) };
}

extern "C" fn parent() {
    // SAFETY: as in `prepare`; dropping the guard leaves the gate.
    unsafe { *HELD.0.get() = None };
}

extern "C" fn child() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
    for slot in &DESCRIPTORS {
        let fd = slot.swap(FREE, Ordering::Relaxed);
        if fd != FREE {
            // SAFETY: a plain system call. The object that owns the descriptor is leaked, never dropped, in this process.
            unsafe { libc::close(fd) };
        }
    }
    // SAFETY: as in `parent`.
    unsafe { *HELD.0.get() = None };
}

/// A value that every process has its own of: after a fork the child makes a new one and never touches the inherited.
pub(crate) struct Generational<T> {
    first: Node<T>,
}

struct Node<T> {
    generation: u64,
    value: std::mem::ManuallyDrop<Arc<T>>,
    next: OnceLock<Box<Node<T>>>,
}

impl<T> Generational<T> {
    pub(crate) fn new(value: Arc<T>) -> Self {
        install();
        Generational { first: Node::new(value) }
    }

    /// This process's value, if it has one already.
    pub(crate) fn current(&self) -> Option<&Arc<T>> {
        let now = generation();
        let mut node = &self.first;
        loop {
            if node.generation == now {
                return Some(&node.value);
            }
            node = node.next.get()?;
        }
    }

    /// This process's value, made by `make` when the process is a child that has none yet.
    pub(crate) fn get_or_make(&self, make: impl FnOnce() -> Arc<T>) -> &Arc<T> {
        let now = generation();
        let mut make = Some(make);
        let mut node = &self.first;
        while node.generation != now {
            node = node.next.get_or_init(|| match make.take() {
                Some(make) => Box::new(Node::new(make())),
                None => unreachable!("a node made by this call has this generation"),
            });
        }
        &node.value
    }
}

impl<T> Node<T> {
    fn new(value: Arc<T>) -> Self {
        Node { generation: generation(), value: std::mem::ManuallyDrop::new(value), next: OnceLock::new() }
    }
}

impl<T> Drop for Node<T> {
    fn drop(&mut self) {
        if self.generation == generation() {
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
