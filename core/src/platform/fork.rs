//! What happens to this library when the process forks. The only file of the core with `unsafe` in it.
//!
//! The child inherits memory, descriptors and the one thread that called `fork`; every other thread is gone, and whatever
//! mutex it held stays locked for ever. So the child touches nothing of what it inherited: the handler bumps a generation,
//! and closes the registered descriptors without a word to the other side, which they still belong to. At its next use a
//! client finds that its generation has passed and builds everything anew ([`Generational`]); the inherited part is leaked.

#![allow(unsafe_code)]

#[cfg(feature = "sqlite")]
use std::cell::Cell;
use std::cell::UnsafeCell;
#[cfg(feature = "sqlite")]
use std::marker::PhantomData;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, Once, OnceLock, PoisonError};
use std::time::Duration;

static GENERATION: AtomicU64 = AtomicU64::new(0);
static RESTORED: AtomicU64 = AtomicU64::new(0);

/// How often this process and its ancestors forked since the library was first used: differs between a parent and its
/// child.
pub fn generation() -> u64 {
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
/// Taken, and not yet to be closed.
const RESERVED: i32 = -2;

/// A descriptor, and what it led to when it was registered: whoever closes descriptors by number, as daemons do when they start,
/// closes ours too, and the number is given to something else.
struct Slot {
    fd: AtomicI32,
    device: AtomicU64,
    inode: AtomicU64,
}

static DESCRIPTORS: [Slot; SLOTS] =
    [const { Slot { fd: AtomicI32::new(FREE), device: AtomicU64::new(0), inode: AtomicU64::new(0) } }; SLOTS];

/// A descriptor that a forked child closes. Dropping this before the descriptor itself takes it off the list.
#[derive(Debug)]
pub(crate) struct Registered(Option<usize>);

/// Registers a descriptor. When the list is full, the child keeps it open: harmless but for the other side, which sees the
/// connection end only when the child does.
pub(crate) fn register(descriptor: &impl AsRawFd) -> Registered {
    install();
    let fd: RawFd = descriptor.as_raw_fd();
    let Some((device, inode)) = leads_to(fd) else { return Registered(None) };
    let is_taken = |slot: &Slot| slot.fd.compare_exchange(FREE, RESERVED, Ordering::Relaxed, Ordering::Relaxed).is_ok();
    let taken = DESCRIPTORS.iter().position(is_taken);
    if let Some(slot) = taken.and_then(|slot| DESCRIPTORS.get(slot)) {
        slot.device.store(device, Ordering::Relaxed);
        slot.inode.store(inode, Ordering::Relaxed);
        slot.fd.store(fd, Ordering::Release);
    }
    Registered(taken)
}

impl Drop for Registered {
    fn drop(&mut self) {
        if let Some(slot) = self.0 {
            DESCRIPTORS[slot].fd.store(FREE, Ordering::Relaxed);
        }
    }
}

/// Device and inode. Timers and the like all share one, so these are taken for one another.
fn leads_to(fd: RawFd) -> Option<(u64, u64)> {
    // SAFETY: all zeroes is a `stat`.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: a plain system call that writes into `stat`.
    let failed = unsafe { libc::fstat(fd, &raw mut stat) };
    #[allow(clippy::unnecessary_cast, reason = "the width of these differs from platform to platform")]
    (failed == 0).then_some((stat.st_dev as u64, stat.st_ino as u64))
}

/// Who is inside a library whose own locks must not be inherited half taken. Held for a moment only, and across a fork, so that
/// no fork can catch it locked.
static INSIDE: Mutex<Inside> = Mutex::new(Inside { is_busy: false, waiting: 0, forks: 0 });
static LEFT: Condvar = Condvar::new();

struct Inside {
    is_busy: bool,
    /// How many wait to enter.
    waiting: u32,
    /// How many wait to fork; they come first.
    forks: u32,
}

/// How long a fork waits for whoever is inside. What runs there takes some ten microseconds, but a disk may keep it; and a fork
/// may be keeping its whole process from going on, as Python's does.
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

// SAFETY: only the fork handlers touch it, and they run one after the other in the thread that forks, between taking and
// leaving `INSIDE`.
unsafe impl Sync for HeldAcrossFork {}

static HELD: HeldAcrossFork = HeldAcrossFork(UnsafeCell::new(None));

/// Proof that nobody else is inside, and that a fork waits, for a while, until it is dropped. It stays with its thread.
#[cfg(feature = "sqlite")]
#[derive(Debug)]
pub(crate) struct Gate(PhantomData<*const ()>);

#[cfg(feature = "sqlite")]
thread_local! {
    /// This thread has the gate.
    static IS_INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Enters a library whose own locks must not be inherited half taken. None in a process that was forked while somebody was
/// inside: it must not touch that library for as long as it lives.
#[cfg(feature = "sqlite")]
pub(crate) fn gate() -> Option<Gate> {
    install();
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

extern "C" fn parent() {
    // SAFETY: as in `prepare`.
    if let Some(inside) = unsafe { (*HELD.0.get()).take() } {
        tell_of_leaving(inside);
    }
}

extern "C" fn child() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
    for slot in &DESCRIPTORS {
        let fd = slot.fd.swap(FREE, Ordering::Acquire);
        if fd < 0 {
            continue;
        }
        let known = (slot.device.load(Ordering::Relaxed), slot.inode.load(Ordering::Relaxed));
        if leads_to(fd) == Some(known) {
            // SAFETY: a plain system call. The object that owns the descriptor is leaked, never dropped, in this process.
            unsafe { libc::close(fd) };
        }
    }
    // SAFETY: as in `parent`.
    if let Some(mut inside) = unsafe { (*HELD.0.get()).take() } {
        // The threads that were counted are not there any more.
        (inside.waiting, inside.forks) = (0, 0);
        if std::mem::take(&mut inside.is_busy) {
            STRANDED.store(true, Ordering::Relaxed);
        }
    }
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

    /// Steps of SQLite's machine between two looks at the time; a request takes some hundreds.
    const STEPS: i32 = 4096;

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
        /// Opens `path`, in a forked child after throwing out what it inherited. SQLite asks now and then whether `is_over`, and
        /// gives up what it is about.
        pub(crate) fn open(
            gate: &Gate,
            path: &Path,
            flags: OpenFlags,
            is_over: impl FnMut() -> bool + Send + 'static,
        ) -> rusqlite::Result<Self> {
            throw_out_inherited(gate);
            super::locks::belong_to_descriptors(gate);
            let mut connection = Connection::open_with_flags(path, flags)?;
            connection.progress_handler(STEPS, Some(is_over))?;
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

/// Whose the locks are that SQLite has on our files.
///
/// SQLite locks by `fcntl` for the whole process: another SQLite library in it (a second copy of this one, Python's `sqlite3`) is
/// refused nothing, and lets go of all our locks on a file when it closes that. Linux has the same locks for an open file, which have
/// neither flaw and exclude locks of processes, even of the same. SQLite lets its system calls be replaced; ours asks for the
/// latter where the former were asked for from behind the gate, where only our own connections are used, and leaves everything
/// else as it is, such as an application's databases. See `docs/adr/0025-sqlites-locks-belong-to-open-files.md`.
#[cfg(all(feature = "sqlite", target_os = "linux", target_pointer_width = "64"))]
mod locks {
    use std::os::fd::RawFd;
    use std::sync::Once;
    use std::sync::atomic::{AtomicBool, Ordering};

    use libc::{c_int, c_void, flock};
    use rusqlite::ffi;

    use super::{Gate, IS_INSIDE};

    /// The kernel only plays Linux, and has no such locks.
    static UNKNOWN: AtomicBool = AtomicBool::new(false);

    type Fcntl = unsafe extern "C" fn(RawFd, c_int, *mut c_void) -> c_int;

    /// From now on they belong to SQLite's descriptors.
    pub(super) fn belong_to_descriptors(_: &Gate) {
        static ONCE: Once = Once::new();
        ONCE.call_once(|| {
            // SAFETY: SQLite's own object for its own kind of files, or null. Of its `fcntl` it knows the first two arguments and that
            // more may follow; on Linux a third one is passed in the same place whether or not it is declared.
            unsafe {
                let files = ffi::sqlite3_vfs_find(c"unix".as_ptr());
                if let Some(replace) = files.as_ref().and_then(|files| files.xSetSystemCall) {
                    let ours = std::mem::transmute::<Fcntl, unsafe extern "C" fn()>(fcntl);
                    replace(files, c"fcntl".as_ptr(), Some(ours));
                }
            }
        });
    }

    unsafe extern "C" fn fcntl(fd: RawFd, command: c_int, argument: *mut c_void) -> c_int {
        let of_open_file = match command {
            libc::F_GETLK => libc::F_OFD_GETLK,
            libc::F_SETLK => libc::F_OFD_SETLK,
            libc::F_SETLKW => libc::F_OFD_SETLKW,
            _ => command,
        };
        let is_ours = IS_INSIDE.try_with(|inside| inside.get()).unwrap_or(false);
        if of_open_file != command && is_ours && !UNKNOWN.load(Ordering::Relaxed) {
            // SAFETY: the argument of these commands is a lock, SQLite's own for the length of this call; its process has to be zero.
            let done = unsafe {
                (*argument.cast::<flock>()).l_pid = 0;
                libc::fcntl(fd, of_open_file, argument)
            };
            // SAFETY: a thread's own error number.
            if done == 0 || unsafe { *libc::__errno_location() } != libc::EINVAL {
                return done;
            }
            UNKNOWN.store(true, Ordering::Relaxed);
        }
        // SAFETY: as SQLite asked for it.
        unsafe { libc::fcntl(fd, command, argument) }
    }
}

#[cfg(all(feature = "sqlite", not(all(target_os = "linux", target_pointer_width = "64"))))]
mod locks {
    /// There are no such locks, or they are told otherwise.
    pub(super) fn belong_to_descriptors(_: &super::Gate) {}
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
