//! The clock that leases are counted on: it also runs while the machine is suspended.

use std::os::fd::{AsFd, BorrowedFd};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::{ClockId, clock_gettime};

/// Now, in nanoseconds since the machine started.
pub(crate) fn now() -> u64 {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    let clock = ClockId::Boottime;
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    let clock = ClockId::Monotonic;
    let at = clock_gettime(clock);
    (at.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(at.tv_nsec as u64)
}

/// Waits until something can be read from `input`, or the clock has reached `at`; whether there is something to read.
/// May return early with `false`.
pub(crate) fn readable_by(input: BorrowedFd<'_>, at: Option<u64>) -> bool {
    let alarm = at.and_then(Alarm::at);
    let mut watched = vec![PollFd::from_borrowed_fd(input, PollFlags::IN)];
    if let Some(alarm) = &alarm {
        watched.push(PollFd::from_borrowed_fd(alarm.0.as_fd(), PollFlags::IN));
    }
    // Where there is no alarm on this clock, poll's own clock may stand still during a suspension: short looks.
    let slice = rustix::time::Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
    let limit = (at.is_some() && alarm.is_none()).then_some(&slice);
    poll(&mut watched, limit).is_ok() && watched.first().is_some_and(|input| !input.revents().is_empty())
}

struct Alarm(std::os::fd::OwnedFd);

impl Alarm {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn at(nanos: u64) -> Option<Self> {
        use rustix::time::{
            Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
        };
        let alarm = timerfd_create(TimerfdClockId::Boottime, TimerfdFlags::CLOEXEC).ok()?;
        // All zero would switch the alarm off.
        let nanos = nanos.clamp(1, i64::MAX as u64);
        let it_value = Timespec { tv_sec: (nanos / 1_000_000_000) as i64, tv_nsec: (nanos % 1_000_000_000) as i64 };
        let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value };
        timerfd_settime(&alarm, TimerfdTimerFlags::ABSTIME, &once).ok()?;
        Some(Alarm(alarm))
    }

    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    fn at(_: u64) -> Option<Self> {
        None
    }
}
