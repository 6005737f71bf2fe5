//! How many of those whose answers came together go on at a time.

/// Tasks that are answered together ask together again, and the server would wait until all of them have: it and they
/// would work in turns. So a portion of them goes on first, and what these ask is sent before the next go on. That
/// costs writes, and pays where the server works meanwhile, on a processor of its own: what was asked for in parts
/// comes back in parts there. Where it keeps coming back whole, all go on at once for a while.
#[derive(Debug)]
pub(crate) struct Portions {
    /// No portion is of fewer tasks: a write for them costs more than it gains.
    least: usize,
    /// Where fewer answers than these are awaited, all go on at once.
    worth_it: usize,
    size: usize,
    /// Those who were answered last are more than one portion.
    parted: bool,
    /// How often in a row what was asked in parts was answered whole.
    in_vain: u32,
    /// How often all go on at once before portions are tried again.
    pause: u32,
}

/// A portion is this part of what is awaited.
const PART: usize = 4;

/// After so many answers in a row that came back whole, all go on at once so many times.
const TRIES: u32 = 3;
const PAUSE: u32 = 500;

impl Default for Portions {
    /// For tasks that ask again sooner than a write takes.
    fn default() -> Self {
        Portions { least: 4, worth_it: 12, size: 0, parted: false, in_vain: 0, pause: 0 }
    }
}

impl Portions {
    /// For those that take longer than a write until they ask again.
    #[cfg(any(feature = "bindings", test))]
    pub(crate) fn of_slow_tasks() -> Self {
        Portions { least: 1, worth_it: 2, ..Portions::default() }
    }

    /// Of `awaited` answers so many came together; `came_whole` if these are all of them.
    pub(crate) fn came(&mut self, together: usize, awaited: usize, came_whole: bool) {
        if together == 0 {
            return;
        }
        if self.parted {
            self.judge(came_whole);
        }
        self.size = self.next_size(awaited);
        self.parted = together > self.size;
    }

    fn judge(&mut self, came_whole: bool) {
        self.in_vain = if came_whole { self.in_vain + 1 } else { 0 };
        if self.in_vain == TRIES {
            (self.in_vain, self.pause) = (0, PAUSE);
        }
    }

    fn next_size(&mut self, awaited: usize) -> usize {
        if awaited < self.worth_it {
            return usize::MAX;
        }
        match self.pause.checked_sub(1) {
            Some(left) => {
                self.pause = left;
                usize::MAX
            }
            None => self.least.max(awaited / PART),
        }
    }

    /// Of so many who are to go on, those who go on now.
    pub(crate) fn next(&self, waiting: usize) -> usize {
        self.size.min(waiting)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The server has `tasks` requests at a time and answers so many of them together; how many portions a thousand of
    /// its answers take.
    fn portions_of(portions: &mut Portions, tasks: usize, together: usize) -> usize {
        let mut count = 0;
        for _ in 0..1000 {
            portions.came(together, tasks, together == tasks);
            let mut waiting = together;
            while waiting > 0 {
                waiting -= portions.next(waiting);
                count += 1;
            }
        }
        count
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
    fn few_tasks_go_on_together_unless_they_are_slow() {
        for tasks in 1..12 {
            assert_eq!(portions_of(&mut Portions::default(), tasks, tasks), 1000);
        }
        assert_eq!([4, 9].map(|tasks| portions_of(&mut Portions::of_slow_tasks(), tasks, 3)), [3000, 2000]);
        assert_eq!(portions_of(&mut Portions::of_slow_tasks(), 1, 1), 1000);
    }
}
