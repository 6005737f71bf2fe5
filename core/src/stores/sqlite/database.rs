//! SQLite connections that a forked child can be rid of.
//!
//! SQLite keeps a list, one for the whole process, of the files it has open and of the locks it holds on them. The
//! child inherits the list but not the locks (`fcntl` locks belong to a process), so a connection that it opened to the
//! same file would believe itself protected by locks that only the parent has, and both would write over each other.
//! Hence every connection is known here, no SQLite call is under way while the process forks
//! ([`gate`](crate::platform::fork::gate)), and the child throws the inherited connections out of that list before it
//! opens any of its own. `SQLITE_FCNTL_NULL_IO`, made for this, first takes the file from the connection, so that
//! closing it can neither write nor unlock anything. See `docs/adr/0006-sqlite-under-fork.md`.

#![allow(unsafe_code)]

use std::mem::ManuallyDrop;
use std::path::Path;
use std::ptr;
use std::sync::{Mutex, PoisonError};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, ffi};

use crate::platform::fork::{Gate, generation};

/// Steps of SQLite's machine between two looks at the time; a request takes some hundreds.
const STEPS: i32 = 4096;

struct Open {
    generation: u64,
    handle: *mut ffi::sqlite3,
}

// SAFETY: only used under the gate, where no other SQLite call is under way.
unsafe impl Send for Open {}

/// Every connection of this process, and those inherited that were not thrown out yet. Only taken under the gate, so
/// that no fork can catch it locked.
static OPEN: Mutex<Vec<Open>> = Mutex::new(Vec::new());

/// A connection. Used and closed under the gate only; merely dropping it leaks it, which is what a forked child does
/// with an inherited one.
pub(crate) struct Database {
    generation: u64,
    connection: ManuallyDrop<Connection>,
}

impl Database {
    /// Opens `path`, in a forked child after throwing out what it inherited. SQLite asks now and then whether
    /// `is_over`, and gives up what it is about.
    pub(crate) fn open(
        gate: &Gate,
        path: &Path,
        flags: OpenFlags,
        is_over: impl FnMut() -> bool + Send + 'static,
    ) -> rusqlite::Result<Self> {
        throw_out_inherited(gate);
        locks::belong_to_descriptors(gate);
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

/// Whose the locks are that SQLite has on our files.
///
/// SQLite locks by `fcntl` for the whole process: another SQLite library in it (a second copy of this one, Python's
/// `sqlite3`) is refused nothing, and lets go of all our locks on a file when it closes that. Linux has the same locks
/// for an open file, which have neither flaw and exclude locks of processes, even of the same. SQLite lets its system
/// calls be replaced; ours asks for the latter where the former were asked for from behind the gate, where only our own
/// connections are used, and leaves everything else as it is, such as an application's databases. See
/// `docs/adr/0025-sqlites-locks-belong-to-open-files.md`.
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
mod locks {
    use std::os::fd::RawFd;
    use std::sync::Once;
    use std::sync::atomic::{AtomicBool, Ordering};

    use libc::{c_int, c_void, flock};
    use rusqlite::ffi;

    use crate::platform::fork::{Gate, IS_INSIDE};

    /// The kernel only plays Linux, and has no such locks.
    static UNKNOWN: AtomicBool = AtomicBool::new(false);

    type Fcntl = unsafe extern "C" fn(RawFd, c_int, *mut c_void) -> c_int;

    /// From now on they belong to SQLite's descriptors.
    pub(super) fn belong_to_descriptors(_: &Gate) {
        static ONCE: Once = Once::new();
        ONCE.call_once(|| {
            // SAFETY: SQLite's own object for its own kind of files, or null. Of its `fcntl` it knows the first two
            // arguments and that more may follow; on Linux a third one is passed in the same place whether or not it is
            // declared.
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
            // SAFETY: the argument of these commands is a lock, SQLite's own for the length of this call; its process
            // has to be zero.
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

#[cfg(not(all(target_os = "linux", target_pointer_width = "64")))]
mod locks {
    /// There are no such locks, or they are told otherwise.
    pub(super) fn belong_to_descriptors(_: &crate::platform::fork::Gate) {}
}
