//! Sets of nodes.

/// How many nodes a quorum may have.
pub const MOST: usize = 15;

/// Some of the nodes of a quorum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Nodes(u32);

impl Nodes {
    pub(super) const NONE: Nodes = Nodes(0);

    /// The first so many.
    pub(super) fn first(count: usize) -> Self {
        Nodes((1 << count.min(MOST)) - 1)
    }

    pub(super) fn add(&mut self, node: usize) {
        self.0 |= 1 << node;
    }

    pub(super) fn remove(&mut self, node: usize) {
        self.0 &= !(1 << node);
    }

    pub(super) fn and(self, other: Nodes) -> Nodes {
        Nodes(self.0 | other.0)
    }

    pub(super) fn without(self, other: Nodes) -> Nodes {
        Nodes(self.0 & !other.0)
    }

    pub(super) fn has(self, node: usize) -> bool {
        self.0 & (1 << node) != 0
    }

    pub(super) fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    pub(super) fn each(self) -> impl Iterator<Item = usize> {
        (0..MOST).filter(move |node| self.has(*node))
    }
}
