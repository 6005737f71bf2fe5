//! Lists whose memory is lent to them for as long as something is in them.

use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};

/// A list that takes one word while it has no memory. A client may hold very many locks, each with several lists of
/// which nothing is in any most of the time: whoever works on a lock lends it the memory, from a [`Pool`].
#[derive(Clone, Debug)]
#[allow(clippy::box_collection, reason = "one word instead of four is what it is for")]
pub(crate) struct Lent<T>(Option<Box<VecDeque<T>>>);

impl<T: 'static> Lent<T> {
    const NOTHING: &'static VecDeque<T> = &VecDeque::new();

    pub(crate) const fn new() -> Self {
        Lent(None)
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

/// The memory that whoever works on very many locks lends to each of them. Those that wait for an answer keep theirs
/// meanwhile, so there is some for several; but what very many needed at once is not kept for ever.
#[derive(Clone, Debug)]
#[allow(clippy::vec_box, reason = "what is lent is the box")]
pub(crate) struct Pool<T>(Vec<Box<VecDeque<T>>>);

impl<T: 'static> Pool<T> {
    /// For how many lists there is memory at most, and for how much in each.
    const MOST: (usize, usize) = (32, 64);

    /// Lends memory to a list that has none: before work on it.
    pub(crate) fn lend(&mut self, list: &mut Lent<T>) {
        list.0 = list.0.take().or_else(|| self.0.pop());
    }

    /// Takes the memory back of a list that nothing is in: after the work.
    pub(crate) fn take_back(&mut self, list: &mut Lent<T>) {
        if !list.is_empty() {
            return;
        }
        let (lists, room) = Self::MOST;
        if let Some(mut memory) = list.0.take().filter(|_| self.0.len() < lists) {
            if memory.capacity() > room {
                memory.shrink_to(room);
            }
            self.0.push(memory);
        }
    }
}

impl<T> Default for Pool<T> {
    fn default() -> Self {
        Pool(Vec::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_empty_list_gives_its_memory_away() {
        let (mut pool, mut list) = (Pool::default(), Lent::new());
        list.push_back(1);
        pool.take_back(&mut list);
        assert_eq!((list.pop_front(), pool.0.len()), (Some(1), 0));
        pool.take_back(&mut list);
        assert!(list.0.is_none() && pool.0.len() == 1);
        pool.lend(&mut list);
        assert!(list.0.is_some() && pool.0.is_empty());
    }

    #[test]
    fn what_very_many_needed_is_not_kept() {
        let mut pool = Pool::default();
        for _ in 0..100 {
            let mut list = Lent::new();
            list.extend(0..1000);
            list.clear();
            pool.take_back(&mut list);
        }
        let (lists, room) = Pool::<i32>::MOST;
        assert!(pool.0.len() == lists && pool.0.iter().all(|memory| memory.capacity() <= room));
    }
}
