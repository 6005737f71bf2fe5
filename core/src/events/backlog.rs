//! Events that wait for somebody to take them.
#![cfg_attr(not(feature = "bindings"), allow(unreachable_pub))]

use std::collections::VecDeque;

use super::Event;

/// Events in their order, as many as there is space for. Whatever comes beyond is counted, and the next event tells how
/// many are lost before it.
#[derive(Debug, Default)]
pub struct Backlog {
    events: VecDeque<Event>,
    missed: u64,
}

impl Backlog {
    /// Appends an event if fewer than `capacity` wait: whether it does.
    pub fn push(&mut self, event: Event, capacity: usize) -> bool {
        if self.events.len() >= capacity {
            self.missed += 1 + event.missed;
            return false;
        }
        let missed = event.missed + std::mem::take(&mut self.missed);
        self.events.push_back(Event { missed, ..event });
        true
    }

    /// Whether no event waits.
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// The oldest event first; none is left.
    pub fn take(&mut self) -> VecDeque<Event> {
        std::mem::take(&mut self.events)
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;
    use crate::events::Level;

    fn event(missed: u64) -> Event {
        let (at, level) = (SystemTime::UNIX_EPOCH, Level::Info);
        Event { at, level, target: "lockwright", message: String::new(), fields: Vec::new(), missed }
    }

    #[test]
    fn what_has_no_space_is_counted_by_the_next_that_has() {
        let mut backlog = Backlog::default();
        assert!(backlog.push(event(3), 2) && backlog.push(event(0), 2));
        assert!(!backlog.push(event(0), 2) && !backlog.push(event(5), 2));
        let missed = |backlog: &mut Backlog| backlog.take().iter().map(|event| event.missed).collect::<Vec<_>>();
        assert_eq!(missed(&mut backlog), [3, 0]);
        assert!(backlog.is_empty() && backlog.push(event(2), 2) && backlog.push(event(0), 2));
        assert_eq!(missed(&mut backlog), [9, 0]);
    }
}
