//! Things by number, for languages in which a number costs nothing to make, and nothing to collect.

use std::collections::HashMap;

/// See the [module](self).
#[derive(Debug)]
pub struct Numbered<T> {
    kept: HashMap<u32, T>,
    last: u32,
}

impl<T> Default for Numbered<T> {
    fn default() -> Self {
        Numbered { kept: HashMap::new(), last: 0 }
    }
}

impl<T> Numbered<T> {
    /// A number that nothing is kept under. One that was removed comes again after four billion others.
    pub fn unused(&mut self) -> u32 {
        loop {
            self.last = self.last.wrapping_add(1);
            if !self.kept.contains_key(&self.last) {
                return self.last;
            }
        }
    }

    /// Keeps it under a number of its own.
    pub fn keep(&mut self, thing: T) -> u32 {
        let number = self.unused();
        self.kept.insert(number, thing);
        number
    }

    /// Keeps it under a number that it has already.
    pub fn put(&mut self, number: u32, thing: T) {
        self.kept.insert(number, thing);
    }

    /// What is kept under that number.
    pub fn get(&mut self, number: u32) -> Option<&mut T> {
        self.kept.get_mut(&number)
    }

    /// No longer keeps it.
    pub fn remove(&mut self, number: u32) -> Option<T> {
        self.kept.remove(&number)
    }

    /// All that was kept.
    pub fn take_all(&mut self) -> impl Iterator<Item = T> + use<'_, T> {
        self.kept.drain().map(|(_, thing)| thing)
    }

    /// How many are kept.
    pub fn len(&self) -> usize {
        self.kept.len()
    }

    /// Whether nothing is kept.
    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_not_given_twice_while_it_is_in_use() {
        let mut all = Numbered { kept: HashMap::new(), last: u32::MAX - 1 };
        assert_eq!([all.keep('a'), all.keep('b')], [u32::MAX, 0]);
        all.last = u32::MAX - 1;
        assert_eq!((all.remove(0), all.keep('c'), all.keep('d')), (Some('b'), 0, 1));
        assert_eq!(all.get(u32::MAX), Some(&mut 'a'));
        let mut left: Vec<_> = all.take_all().collect();
        left.sort_unstable();
        assert_eq!((left, all.is_empty()), (vec!['a', 'c', 'd'], true));
    }
}
