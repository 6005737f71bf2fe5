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
static RESTORED: AtomicU64 = AtomicU64::new(0);

/// How often this process and its ancestors forked since the library was first used: differs between a parent and its
/// child.
pub(crate) fn generation() -> u64 {
    GENERATION.load(Ordering::Relaxed)
}

/// The same, counting also how often it went on from a copy of its memory without a fork: then its threads and descriptors are its own,
/// but what it believes to hold may be another's. See [`crate::restored`].
pub(crate) fn image() -> u64 {
    generation() + RESTORED.load(Ordering::Relaxed)
}

/// It goes on from such a copy.
pub(crate) fn restored() {
    RESTORED.fetch_add(1, Ordering::Relaxed);
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

/// Proof that the process cannot fork at present.
#[cfg(feature = "sqlite")]
pub(crate) type Gate = MutexGuard<'static, ()>;

/// Keeps the process from forking while the guard lives: for libraries whose own locks must not be inherited half taken.
#[cfg(feature = "sqlite")]
pub(crate) fn gate() -> Gate {
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
    stamp: fn() -> u64,
    first: Node<T>,
}

struct Node<T> {
    stamp: fn() -> u64,
    generation: u64,
    value: std::mem::ManuallyDrop<Arc<T>>,
    next: OnceLock<Box<Node<T>>>,
}

impl<T> Generational<T> {
    pub(crate) fn new(value: Arc<T>) -> Self {
        Self::by(generation, value)
    }

    /// A value that every [image](image) of a process has its own of.
    pub(crate) fn of_image(value: Arc<T>) -> Self {
        Self::by(image, value)
    }

    fn by(stamp: fn() -> u64, value: Arc<T>) -> Self {
        install();
        Generational { stamp, first: Node::new(stamp, value) }
    }

    /// This process's value, if it has one already.
    pub(crate) fn current(&self) -> Option<&Arc<T>> {
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
    pub(crate) fn get_or_make(&self, make: impl FnOnce() -> Arc<T>) -> &Arc<T> {
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

#[cfg(feature = "sqlite")]
pub(crate) use database::Database;

/// SQLite connections that a forked child can be rid of.
///
/// SQLite keeps a list, one for the whole process, of the files it has open and of the locks it holds on them. The child
/// inherits the list but not the locks (`fcntl` locks belong to a process), so a connection that it opened to the same file
/// would believe itself protected by locks that only the parent has, and both would write over each other. Hence every
/// connection is known here, no SQLite call is under way while the process forks ([`gate`]), and the child throws the
/// inherited connections out of that list before it opens any of its own. `SQLITE_FCNTL_NULL_IO`, made for this, first
/// takes the file from the connection, so that closing it can neither write nor unlock anything. See
/// `docs/adr/0006-sqlite-under-fork.md`.
#[cfg(feature = "sqlite")]
mod database {
    use std::mem::ManuallyDrop;
    use std::path::Path;
    use std::ptr;
    use std::sync::{Mutex, PoisonError};

    use rusqlite::config::DbConfig;
    use rusqlite::{Connection, OpenFlags, ffi};

    use super::{Gate, generation};

    struct Open {
        generation: u64,
        handle: *mut ffi::sqlite3,
    }

    // SAFETY: only used under the gate, where no other SQLite call is under way.
    unsafe impl Send for Open {}

    /// Every connection of this process, and those inherited that were not thrown out yet. Only taken under the gate, so that
    /// no fork can catch it locked.
    static OPEN: Mutex<Vec<Open>> = Mutex::new(Vec::new());

    /// A connection. Used and closed under the gate only; merely dropping it leaks it, which is what a forked child does with
    /// an inherited one.
    pub(crate) struct Database {
        generation: u64,
        connection: ManuallyDrop<Connection>,
    }

    impl Database {
        /// Opens `path`, in a forked child after throwing out what it inherited.
        pub(crate) fn open(gate: &Gate, path: &Path, flags: OpenFlags) -> rusqlite::Result<Self> {
            throw_out_inherited(gate);
            let connection = Connection::open_with_flags(path, flags)?;
            // A checkpoint at closing would cost every short run two syncs, and an inherited connection must not even try.
            connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
            // SAFETY: the handle is used only while the connection is open: `close` takes it off the list, and an inherited
            // connection, which stays on it, is never closed by its owner.
            let handle = unsafe { connection.handle() };
            let generation = generation();
            OPEN.lock().unwrap_or_else(PoisonError::into_inner).push(Open { generation, handle });
            Ok(Database { generation, connection: ManuallyDrop::new(connection) })
        }

        /// The connection; none in a child that inherited it.
        pub(crate) fn get(&self, _: &Gate) -> Option<&Connection> {
            (self.generation == generation()).then_some(&*self.connection)
        }

        /// Closes the connection; does nothing in a child that inherited it.
        pub(crate) fn close(self, _: &Gate) {
            if self.generation != generation() {
                return;
            }
            // SAFETY: the connection is open.
            let handle = unsafe { self.connection.handle() };
            OPEN.lock().unwrap_or_else(PoisonError::into_inner).retain(|open| open.handle != handle);
            drop(ManuallyDrop::into_inner(self.connection));
        }
    }

    impl std::fmt::Debug for Database {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.debug_struct("Database").field("generation", &self.generation).finish_non_exhaustive()
        }
    }

    fn throw_out_inherited(_: &Gate) {
        let now = generation();
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        for inherited in open.extract_if(.., |open| open.generation != now) {
            let handle = inherited.handle;
            // SAFETY: the connection was open, and idle, when the process forked; `Database` touches it no more, so its
            // statements and itself are finalised and closed here alone. The closing of descriptors takes no lock from the
            // parent, and none from this process, which has not opened the file yet.
            unsafe {
                ffi::sqlite3_file_control(handle, c"main".as_ptr(), ffi::SQLITE_FCNTL_NULL_IO, ptr::null_mut());
                loop {
                    let statement = ffi::sqlite3_next_stmt(handle, ptr::null_mut());
                    if statement.is_null() {
                        break;
                    }
                    ffi::sqlite3_finalize(statement);
                }
                ffi::sqlite3_close(handle);
            }
        }
    }
}

/// Forks for a test: the child runs `work`, in which nothing of the test harness may be used, and ends with its answer.
#[cfg(all(test, feature = "sqlite"))]
pub(crate) fn fork_to(work: impl FnOnce() -> i32) -> rustix::process::Pid {
    // SAFETY: the tests that fork do so in a process with no other thread that holds what the child needs.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        let code = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).unwrap_or(101);
        // SAFETY: a plain system call.
        unsafe { libc::_exit(code) };
    }
    rustix::process::Pid::from_raw(pid).expect("fork failed")
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
