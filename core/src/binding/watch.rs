//! Where threads and tasks wait for the loss of a lock, and the driver's thread rings.

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use crate::blocking::Wait;
use crate::platform::mutex::locked;

/// What became of a lock that is held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fate {
    /// Nothing yet.
    #[default]
    Held,
    /// It was lost, for the reason of that code.
    Lost(&'static str),
    /// It was given back.
    Over,
}

/// One for all who wait for the loss of one hold.
#[derive(Debug, Default)]
pub struct Watch {
    news: Mutex<News>,
    bell: Condvar,
}

#[derive(Debug, Default)]
struct News {
    fate: Fate,
    tasks: HashMap<u64, Waker>,
    next: u64,
}

impl Watch {
    /// Tells everybody.
    pub(super) fn ring(&self, fate: Fate) {
        let mut news = locked(&self.news);
        if news.fate == Fate::Held {
            news.fate = fate;
        }
        let tasks = std::mem::take(&mut news.tasks);
        drop(news);
        self.bell.notify_all();
        tasks.into_values().for_each(Waker::wake);
    }

    /// A place to wait at.
    pub fn register(self: &Arc<Self>) -> Registration {
        let mut news = locked(&self.news);
        news.next += 1;
        Registration { watch: self.clone(), number: news.next }
    }

    /// Why the lock was lost; `None` once it was released.
    pub async fn told(self: Arc<Self>) -> Option<&'static str> {
        let registration = self.register();
        match poll_fn(|context| registration.look(context.waker()).map_or(Poll::Pending, Poll::Ready)).await {
            Fate::Lost(why) => Some(why),
            Fate::Held | Fate::Over => None,
        }
    }
}

/// The registration of one who waits at a watch; dropped, it is over.
#[derive(Debug)]
pub struct Registration {
    watch: Arc<Watch>,
    number: u64,
}

impl Registration {
    /// What became of the lock; while it is held, `waker` is called when it is not any more.
    fn look(&self, waker: &Waker) -> Option<Fate> {
        let mut news = locked(&self.watch.news);
        if news.fate == Fate::Held {
            news.tasks.insert(self.number, waker.clone());
        }
        (news.fate != Fate::Held).then_some(news.fate)
    }

    fn park(&self, slice: Duration) -> Option<Fate> {
        let (watch, news) = (&self.watch, locked(&self.watch.news));
        let is_held = |news: &mut News| news.fate == Fate::Held;
        let fate = if slice == Duration::MAX {
            watch.bell.wait_while(news, is_held).unwrap_or_else(PoisonError::into_inner).fate
        } else {
            let waited = watch.bell.wait_timeout_while(news, slice, is_held);
            waited.unwrap_or_else(PoisonError::into_inner).0.fate
        };
        (fate != Fate::Held).then_some(fate)
    }

    /// Whether the lock was lost; `None` when nothing happened yet.
    pub fn wait(&self, how: Wait<'_>, deadline: Option<Instant>) -> Option<bool> {
        let left = || deadline.map_or(Duration::MAX, |deadline| deadline.saturating_duration_since(Instant::now()));
        let fate = match how {
            Wait::Park(slice) => self.park(slice.min(left())),
            Wait::Wake(waker) => self.look(waker),
        };
        match fate {
            None => left().is_zero().then_some(false),
            Some(fate) => Some(fate != Fate::Over),
        }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        locked(&self.watch.news).tasks.remove(&self.number);
    }
}
