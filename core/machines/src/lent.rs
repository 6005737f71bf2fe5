//! Lists whose memory is lent to them for as long as something is in them.

use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};

/// A list that takes one word while it has no memory. A client may hold very many locks, each with several lists of
/// which nothing is in any most of the time: whoever works on a lock lends it the memory, by
/// [`exchange`](Self::exchange).
#[derive(Clone, Debug)]
#[allow(clippy::box_collection, reason = "one word instead of four is what it is for")]
pub(crate) struct Lent<T>(Option<Box<VecDeque<T>>>);

impl<T: 'static> Lent<T> {
    const NOTHING: &'static VecDeque<T> = &VecDeque::new();

    pub(crate) const fn new() -> Self {
        Lent(None)
    }

    /// Exchanges memory with `other`, unless something is in it: before work to lend it, and afterwards to take it
    /// back.
    pub(crate) fn exchange(&mut self, other: &mut Self) {
        if self.is_empty() {
            std::mem::swap(self, other);
        }
    }

    /// Takes back memory into `self` from a list that may have got some elsewhere.
    pub(crate) fn take_back(&mut self, from: &mut Self) {
        if from.is_empty() && from.0.is_some() {
            let back = from.0.take();
            self.0 = self.0.take().or(back);
        }
    }

    /// Keeps memory for no more than so many.
    pub(crate) fn shrink_to(&mut self, most: usize) {
        if let Some(list) = &mut self.0 {
            list.shrink_to(most);
        }
    }
}

impl<T> Default for Lent<T> {
    fn default() -> Self {
        Lent(None)
    }
}

impl<T: 'static> Deref for Lent<T> {
    type Target = VecDeque<T>;

    fn deref(&self) -> &VecDeque<T> {
        self.0.as_deref().unwrap_or(Self::NOTHING)
    }
}

impl<T: 'static> DerefMut for Lent<T> {
    fn deref_mut(&mut self) -> &mut VecDeque<T> {
        self.0.get_or_insert_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_empty_list_gives_its_memory_away() {
        let (mut room, mut list) = (Lent::new(), Lent::new());
        room.reserve(8);
        list.exchange(&mut room);
        assert!(list.0.is_some() && room.0.is_none());
        list.push_back(1);
        room.take_back(&mut list);
        list.exchange(&mut room);
        assert_eq!((list.pop_front(), room.0.is_none()), (Some(1), true));
        room.take_back(&mut list);
        assert!(list.0.is_none() && room.0.is_some() && list.is_empty());
    }
}
