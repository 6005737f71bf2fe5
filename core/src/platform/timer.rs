//! A timer on the driver's clock, for the background runtime.

use std::task::{Context, Poll};

use crate::time::Time;

/// Becomes ready when the clock has reached a point in time.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) use linux::Timer;

#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(crate) use portable::Timer;

#[cfg(any(target_os = "linux", target_os = "android"))]
mod linux {
    use std::os::fd::OwnedFd;

    use rustix::time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
    };
    use tokio::io::unix::AsyncFd;

    use super::{Context, Poll, Time};
    use crate::platform::{clock, fence, fork};

    /// A timerfd on `CLOCK_BOOTTIME`: it also counts the time that the machine is suspended.
    pub(crate) struct Timer {
        descriptor: Option<(fork::Registered, AsyncFd<OwnedFd>)>,
        set_for: Option<Time>,
    }

    impl Timer {
        pub(crate) fn new() -> Self {
            let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
            let timer = timerfd_create(TimerfdClockId::Boottime, flags).ok();
            // Deprecated for types that may lie about their descriptor; an `OwnedFd` cannot.
            #[allow(deprecated)]
            let descriptor = timer.and_then(|timer| Some((fork::register(&timer), AsyncFd::new(timer).ok()?)));
            if descriptor.is_none() {
                fence::told(|| {
                    tracing::error!(target: "lockwright::runtime", "no timer to be had; raise the limit of open files");
                });
            }
            Timer { descriptor, set_for: None }
        }

        pub(crate) fn poll_reached(&mut self, at: Time, context: &mut Context<'_>) -> Poll<()> {
            loop {
                if clock::now() >= at {
                    return Poll::Ready(());
                }
                #[cfg(test)]
                if crate::platform::simulated::wakes(at, context.waker()) {
                    return Poll::Pending;
                }
                let Some((_, descriptor)) = &self.descriptor else { return Poll::Pending };
                if self.set_for != Some(at) {
                    let nanos = at.as_nanos().min(i64::MAX as u64);
                    let it_value =
                        Timespec { tv_sec: (nanos / 1_000_000_000) as i64, tv_nsec: (nanos % 1_000_000_000) as i64 };
                    let it_interval = Timespec { tv_sec: 0, tv_nsec: 0 };
                    let alarm = Itimerspec { it_interval, it_value };
                    if timerfd_settime(descriptor, TimerfdTimerFlags::ABSTIME, &alarm).is_ok() {
                        self.set_for = Some(at);
                    }
                }
                match descriptor.poll_read_ready(context) {
                    Poll::Ready(Ok(mut ready)) => {
                        ready.clear_ready();
                        self.set_for = None;
                    }
                    _ => return Poll::Pending,
                }
            }
        }
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
mod portable {
    use std::pin::Pin;

    use super::{Context, Poll, Time};
    use crate::platform::clock;

    /// The runtime's own timer; it may stand still while the machine is suspended.
    pub(crate) struct Timer(Option<Pin<Box<tokio::time::Sleep>>>, Option<Time>);

    impl Timer {
        pub(crate) fn new() -> Self {
            Timer(None, None)
        }

        pub(crate) fn poll_reached(&mut self, at: Time, context: &mut Context<'_>) -> Poll<()> {
            if clock::now() >= at {
                return Poll::Ready(());
            }
            if self.1 != Some(at) {
                *self = Timer(Some(Box::pin(tokio::time::sleep(at.since(clock::now())))), Some(at));
            }
            match self.0.as_mut() {
                Some(sleep) => sleep.as_mut().poll(context),
                None => Poll::Pending,
            }
        }
    }
}
