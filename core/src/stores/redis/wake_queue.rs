//! Tasks that were answered and are to be woken.

use std::task::Waker;

use smallvec::SmallVec;

use crate::platform::portions::Portions;

pub(super) type Wakers = SmallVec<[Waker; 16]>;

/// Who has an answer and is to be woken, a portion at a time.
#[derive(Debug)]
pub(super) struct WakeQueue {
    /// None where nobody would ask again before all are woken.
    portions: Option<Portions>,
    waiting: Wakers,
}

impl Default for WakeQueue {
    fn default() -> Self {
        WakeQueue { portions: Some(Portions::default()), waiting: Wakers::new() }
    }
}

impl WakeQueue {
    /// For tasks that are woken together, always.
    pub(super) fn whole() -> Self {
        WakeQueue { portions: None, waiting: Wakers::new() }
    }

    /// Of `awaited` answers those of `tasks` came together; `came_whole` if these are all of them.
    pub(super) fn came(&mut self, tasks: Wakers, awaited: usize, came_whole: bool) {
        if let Some(portions) = &mut self.portions {
            portions.came(tasks.len(), awaited, came_whole);
        }
        self.waiting.extend(tasks);
    }

    /// Wakes the next portion; whether any are left.
    pub(super) fn wake(&mut self) -> bool {
        let all = self.waiting.len();
        let count = self.portions.as_ref().map_or(all, |portions| portions.next(all));
        self.waiting.drain(..count).for_each(Waker::wake);
        !self.waiting.is_empty()
    }
}

impl Drop for WakeQueue {
    /// Who has an answer is told, whatever becomes of the connection.
    fn drop(&mut self) {
        self.waiting.drain(..).for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn sixteen(woken: &Arc<Woken>) -> Wakers {
        std::iter::repeat_n(Waker::from(woken.clone()), 16).collect()
    }

    #[test]
    fn a_connection_that_ends_leaves_nobody_who_has_an_answer_asleep() {
        let (mut queue, woken) = (WakeQueue::default(), Arc::<Woken>::default());
        queue.came(sixteen(&woken), 16, true);
        assert!(queue.wake() && woken.0.load(Ordering::Relaxed) == 4);
        drop(queue);
        assert_eq!(woken.0.load(Ordering::Relaxed), 16);
    }

    #[test]
    fn tasks_of_a_foreign_event_loop_are_woken_together() {
        let (mut queue, woken) = (WakeQueue::whole(), Arc::<Woken>::default());
        queue.came(sixteen(&woken), 20, false);
        assert!(!queue.wake() && woken.0.load(Ordering::Relaxed) == 16);
    }
}
