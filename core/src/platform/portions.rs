//! How many of those whose answers came together go on at a time.

/// Tasks that are answered together ask together again, and the server would wait until all of them have: it and they
/// would work in turns. So a portion of them goes on first, and what these ask is sent before the next go on. That
/// costs writes, and pays where the server works meanwhile, on a processor of its own: what was asked for in parts
/// comes back in parts there. Where it keeps coming back whole, all go on at once for a while.
#[derive(Debug, Default)]
pub(crate) struct Portions {
    size: usize,
    /// Those who were answered last are more than one portion.
    parted: bool,
    /// How often in a row what was asked in parts was answered whole.
    in_vain: u32,
    /// How often all go on at once before portions are tried again.
    pause: u32,
}

/// A write for fewer tasks than these costs more than it gains.
const LEAST: usize = 4;

/// A portion is this part of what is awaited.
const PART: usize = 4;

/// Fewer tasks than these go on at once.
const WORTH_IT: usize = 12;

/// After so many answers in a row that came back whole, all go on at once so many times.
const TRIES: u32 = 3;
const PAUSE: u32 = 500;

impl Portions {
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
        if awaited < WORTH_IT {
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
    fn few_tasks_go_on_together() {
        for tasks in 1..WORTH_IT {
            assert_eq!(portions_of(&mut Portions::default(), tasks, tasks), 1000);
        }
    }
}
