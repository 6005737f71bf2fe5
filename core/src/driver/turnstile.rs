//! Lets so many acquisitions of tasks ask the store at a time as it answers within its limits. Ten thousand tasks that
//! want a lock at once would else be ten thousand requests on their way, the last of which are given up though the
//! store is well.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{Semaphore, SemaphorePermit};

/// How many are on their way at a time: enough that the store always has something to do.
const AT_ONCE: usize = 256;

/// See the [module](self). First come, first served.
#[derive(Debug)]
pub(crate) struct Turnstile {
    free: Semaphore,
    /// How many more than [`AT_ONCE`] may be on their way.
    more: AtomicUsize,
}

/// One that is on its way.
#[derive(Debug)]
pub(crate) struct Passage<'a> {
    turnstile: &'a Turnstile,
    permit: Option<SemaphorePermit<'a>>,
}

impl Turnstile {
    pub(crate) fn new() -> Self {
        Turnstile { free: Semaphore::new(AT_ONCE), more: AtomicUsize::new(0) }
    }

    /// Passes if nobody has to wait.
    pub(crate) fn pass(&self) -> Option<Passage<'_>> {
        let permit = self.free.try_acquire().ok()?;
        Some(Passage { turnstile: self, permit: Some(permit) })
    }

    /// Waits until another one may ask.
    pub(crate) async fn enter(&self) -> Passage<'_> {
        // It is never closed.
        Passage { turnstile: self, permit: self.free.acquire().await.ok() }
    }

    /// A request was not answered. Whoever waits to ask is to learn of that as soon as who asks.
    pub(super) fn open(&self) {
        if self.free.available_permits() < AT_ONCE {
            self.more.fetch_add(AT_ONCE, Ordering::Relaxed);
            self.free.add_permits(AT_ONCE);
        }
    }
}

impl Drop for Passage<'_> {
    fn drop(&mut self) {
        let Some(permit) = self.permit.take() else { return };
        let fewer = |more: usize| more.checked_sub(1);
        if self.turnstile.more.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fewer).is_ok() {
            permit.forget();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn so_many_pass_at_once_and_more_where_the_store_does_not_answer() {
        let turnstile = Turnstile::new();
        let mut inside: Vec<_> = std::iter::from_fn(|| turnstile.pass()).collect();
        assert_eq!(inside.len(), AT_ONCE);
        inside.pop();
        inside.push(turnstile.enter().await);
        assert!(turnstile.pass().is_none());
        turnstile.open();
        inside.extend(std::iter::from_fn(|| turnstile.pass()));
        assert_eq!(inside.len(), 2 * AT_ONCE);
        // What was added for the outage goes again.
        inside.clear();
        assert_eq!((turnstile.free.available_permits(), turnstile.more.load(Ordering::Relaxed)), (AT_ONCE, 0));
    }
}
