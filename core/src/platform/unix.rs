//! What Unix gives.

#![allow(unsafe_code)]

use std::os::fd::{AsRawFd, RawFd};
use std::sync::Once;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

use nix::sys::signal::{SigSet, SigmaskHow, Signal};

use super::fork;
use crate::time::Time;

/// Now, on a clock that also runs while the machine is suspended (on Linux; elsewhere it may stand still meanwhile, and
/// the guarantees say so).
pub(crate) fn now() -> Time {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    let clock = rustix::time::ClockId::Boottime;
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    let clock = rustix::time::ClockId::Monotonic;
    let at = rustix::time::clock_gettime(clock);
    Time::from_nanos((at.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(at.tv_nsec as u64))
}

/// This host's name.
pub(crate) fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

const SLOTS: usize = 4096;
const FREE: i32 = -1;
/// Taken, and not yet to be closed.
const RESERVED: i32 = -2;

/// A descriptor, and what it led to when it was registered: whoever closes descriptors by number, as daemons do when
/// they start, closes ours too, and the number is given to something else.
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

/// Registers a descriptor. When the list is full, the child keeps it open: harmless but for the other side, which sees
/// the connection end only when the child does.
pub(crate) fn register(descriptor: &impl AsRawFd) -> Registered {
    watch_forks();
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

/// Until this is dropped, its thread handles no signal, but for those by which the processor says what it did itself.
#[derive(Debug)]
pub(crate) struct SignalsBlocked(nix::Result<SigSet>);

pub(crate) fn block_signals() -> SignalsBlocked {
    let mut all = SigSet::all();
    [Signal::SIGSEGV, Signal::SIGBUS, Signal::SIGFPE, Signal::SIGILL, Signal::SIGTRAP]
        .into_iter()
        .for_each(|own| all.remove(own));
    SignalsBlocked(all.thread_swap_mask(SigmaskHow::SIG_BLOCK))
}

impl Drop for SignalsBlocked {
    fn drop(&mut self) {
        if let Ok(before) = &self.0 {
            let restored = before.thread_set_mask();
            debug_assert!(restored.is_ok());
        }
    }
}

/// Registers the handlers, once in a process and its descendants.
pub(super) fn watch_forks() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: the three handlers are `extern "C"` functions without arguments that never unwind.
        let refused = unsafe { libc::pthread_atfork(Some(prepare), Some(parent), Some(child)) };
        debug_assert_eq!(refused, 0);
    });
}

extern "C" fn prepare() {
    fork::before();
}

extern "C" fn parent() {
    fork::in_parent();
}

extern "C" fn child() {
    close_inherited();
    fork::in_child();
}

fn close_inherited() {
    for slot in &DESCRIPTORS {
        let fd = slot.fd.swap(FREE, Ordering::Acquire);
        if fd < 0 {
            continue;
        }
        let known = (slot.device.load(Ordering::Relaxed), slot.inode.load(Ordering::Relaxed));
        if leads_to(fd) == Some(known) {
            // SAFETY: a plain system call. The object that owns the descriptor is leaked, never dropped, in this
            // process.
            unsafe { libc::close(fd) };
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
