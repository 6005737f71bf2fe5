//! How many of the tasks whose answers came together go on at a time.

use std::task::Waker;

use smallvec::SmallVec;

/// Tasks that are answered together ask together again, and the server would wait until all of them have: it and they
/// would work in turns. So a portion of them is woken first, and what these ask is sent before the next are woken. That
/// costs writes, and pays where the server works meanwhile, on a processor of its own: what was asked for in parts
/// comes back in parts there. Where it keeps coming back whole, all are woken at once for a while.
#[derive(Debug, Default)]
pub(super) struct Portions {
    /// Nobody would ask again before all are woken.
    are_whole: bool,
    /// Who has an answer and is to be woken.
    waiting: Wakers,
    size: usize,
    /// Those who were answered last are more than one portion.
    parted: bool,
    /// How often in a row what was asked in parts was answered whole.
    in_vain: u32,
    /// How often all are woken at once before portions are tried again.
    pause: u32,
}

pub(super) type Wakers = SmallVec<[Waker; 16]>;

/// A write for fewer tasks than these costs more than it gains.
const LEAST: usize = 4;

/// A portion is this part of what is awaited.
const PART: usize = 4;

/// Fewer tasks than these are woken at once.
const WORTH_IT: usize = 12;

/// After so many answers in a row that came back whole, all are woken at once so many times.
const TRIES: u32 = 3;
const PAUSE: u32 = 500;

impl Portions {
    /// For tasks that are woken together, always.
    pub(super) fn whole() -> Self {
        let mut portions = Portions::default();
        portions.are_whole = true;
        portions
    }

    /// Of `awaited` answers those of `tasks` came together; `came_whole` if these are all of them.
    pub(super) fn came(&mut self, tasks: Wakers, awaited: usize, came_whole: bool) {
        if tasks.is_empty() {
            return;
        }
        if self.parted {
            self.judge(came_whole);
        }
        self.size = self.next_size(awaited);
        self.parted = tasks.len() > self.size;
        self.waiting.extend(tasks);
    }

    fn judge(&mut self, came_whole: bool) {
        self.in_vain = if came_whole { self.in_vain + 1 } else { 0 };
        if self.in_vain == TRIES {
            (self.in_vain, self.pause) = (0, PAUSE);
        }
    }

    fn next_size(&mut self, awaited: usize) -> usize {
        if self.are_whole || awaited < WORTH_IT {
            return usize::MAX;
        }
        match self.pause.checked_sub(1) {
            Some(left) => {
                self.pause = left;
                usize::MAX
            }
            None => LEAST.max(awaited / PART),
        }
    }

    /// Wakes the next portion; whether any are left.
    pub(super) fn wake(&mut self) -> bool {
        let count = self.size.min(self.waiting.len());
        self.waiting.drain(..count).for_each(Waker::wake);
        !self.waiting.is_empty()
    }
}

impl Drop for Portions {
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

    /// The server has `tasks` requests at a time and answers so many of them together; how many portions a thousand of
    /// its answers take.
    fn portions_of(portions: &mut Portions, tasks: usize, together: usize) -> usize {
        let mut woken = 0;
        for _ in 0..1000 {
            portions.came((0..together).map(|_| Waker::noop().clone()).collect(), tasks, together == tasks);
            woken += 1;
            while portions.wake() {
                woken += 1;
            }
        }
        woken
    }

    #[test]
    fn portions_are_made_where_answers_come_in_parts() {
        assert_eq!(portions_of(&mut Portions::default(), 16, 15), 4000);
        assert_eq!(portions_of(&mut Portions::default(), 16, 4), 1000);
        assert_eq!(portions_of(&mut Portions::default(), 200, 100), 2000, "a quarter of what is awaited");
    }

    #[test]
    fn a_server_that_answers_all_at_once_is_asked_at_once_but_for_tries() {
        let mut portions = Portions::default();
        assert_eq!(portions_of(&mut portions, 16, 16), 1000 + 2 * 3 * 3, "each of three times in three more");
        assert!(portions_of(&mut portions, 16, 15) > 2000, "it is tried again");
    }

    #[test]
    fn few_tasks_go_on_together_and_those_of_a_foreign_event_loop() {
        for tasks in 1..WORTH_IT {
            assert_eq!(portions_of(&mut Portions::default(), tasks, tasks), 1000);
        }
        assert_eq!(portions_of(&mut Portions::whole(), 16, 15), 1000);
    }

    #[test]
    fn a_connection_that_ends_leaves_nobody_who_has_an_answer_asleep() {
        let (mut portions, woken) = (Portions::default(), Arc::<Woken>::default());
        portions.came(std::iter::repeat_n(Waker::from(woken.clone()), 16).collect(), 16, true);
        assert!(portions.wake() && woken.0.load(Ordering::Relaxed) == 4);
        drop(portions);
        assert_eq!(woken.0.load(Ordering::Relaxed), 16);
    }
}
