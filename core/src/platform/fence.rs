//! Panics of what others wrote (callbacks, wakers, subscribers of `tracing`) and of what runs in the background: they
//! end where they happened, and not the tasks that the locks of a whole client live on.

use std::any::Any;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

/// How long a task of the background that panicked waits before it goes on.
pub(crate) const PAUSE: Duration = Duration::from_millis(100);

/// What a panic said.
#[derive(Debug)]
pub(crate) struct Panicked(String);

impl Panicked {
    fn new(payload: Box<dyn Any + Send>) -> Self {
        let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_default();
        // Of whatever kind it is, dropping it may panic as well.
        std::mem::forget(payload);
        Panicked(text)
    }

    pub(crate) fn said(self) -> String {
        self.0
    }

    /// Leaves it for `tracing`: `whose` panicked, at something of this lock of this store.
    pub(crate) fn tell(&self, whose: &str, lock: Option<&str>, store: &str) {
        tell_of_panic(&self.0, whose, lock, store);
    }
}

/// The same of a panic of which only is left what it `said`.
pub(crate) fn tell_of_panic(said: &str, whose: &str, lock: Option<&str>, store: &str) {
    told(|| {
        tracing::error!(target: "lockwright::panic", lock, store, whose, said, "a panic was caught; the locks are not affected");
    });
}

/// What `work` returns, or that it panicked.
pub(crate) fn caught<T>(work: impl FnOnce() -> T) -> Result<T, Panicked> {
    catch_unwind(AssertUnwindSafe(work)).map_err(Panicked::new)
}

/// Tells `tracing` something. A subscriber that panics has not heard it: the panic's own message says where.
pub(crate) fn told(tell: impl FnOnce()) {
    drop(caught(tell));
}

/// What `work` ends with, or that it panicked.
pub(crate) async fn contained<T>(work: impl Future<Output = T>) -> Result<T, Panicked> {
    let mut work = pin!(work);
    poll_fn(|context| match caught(|| work.as_mut().poll(context)) {
        Ok(polled) => polled.map(Ok),
        Err(panicked) => Poll::Ready(Err(panicked)),
    })
    .await
}

/// Goes on with `work` until it ends of itself: where it panics it is begun again.
pub(crate) async fn kept_up<F: Future<Output = ()>>(whose: &str, store: &str, mut work: impl FnMut() -> F) {
    while let Err(panicked) = contained(async { work().await }).await {
        panicked.tell(whose, None, store);
        tokio::time::sleep(PAUSE).await;
    }
}

/// Round what others wrote and is run for one lock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fence<'a> {
    pub(crate) lock: &'a str,
    pub(crate) store: &'a str,
}

impl Fence<'_> {
    /// Runs `work`; a panic in it is told, as that of `whose`.
    pub(crate) fn run(self, whose: &str, work: impl FnOnce()) {
        if let Err(panicked) = caught(work) {
            panicked.tell(whose, Some(self.lock), self.store);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn what_a_panic_said_is_kept_and_what_it_threw_is_not_dropped() {
        struct Bomb;
        impl Drop for Bomb {
            fn drop(&mut self) {
                panic!("once more");
            }
        }
        assert_eq!(caught(|| panic!("plain")).unwrap_err().0, "plain");
        assert_eq!(caught(|| panic!("{} parts", 2)).unwrap_err().0, "2 parts");
        assert_eq!(caught(|| std::panic::panic_any(Bomb)).unwrap_err().0, "");
        assert_eq!(caught(|| 3).unwrap(), 3);
    }

    #[tokio::test]
    async fn what_panics_is_begun_again_until_it_ends() {
        let times = Cell::new(0);
        kept_up("the test", "memory://", || async {
            times.set(times.get() + 1);
            assert!(times.get() > 2, "not yet");
        })
        .await;
        assert_eq!(times.get(), 3);
    }
}
