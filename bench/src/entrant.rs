//! A contender in the course of one row.

use crate::Result;
use crate::report::{Figures, Measured, Role};
use crate::talk::{Contender, Peer};

pub(crate) struct Entrant {
    pub(crate) contender: Contender,
    pub(crate) peer: Option<Peer>,
    rounds: Vec<Figures>,
    failure: Option<String>,
}

impl Entrant {
    pub(crate) fn new(contender: Contender) -> Self {
        let failure = contender.offer.absent.clone();
        Entrant { contender, peer: None, rounds: Vec::new(), failure }
    }

    pub(crate) fn name(&self) -> &str {
        &self.contender.offer.name
    }

    pub(crate) fn is(&self, role: Role) -> bool {
        self.contender.offer.role == role
    }

    /// Does `work`, unless the contender failed before. One that fails is out, and the others go on without it.
    pub(crate) fn attempt<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T>) -> Option<T> {
        if self.failure.is_some() {
            return None;
        }
        match work(self) {
            Ok(value) => Some(value),
            Err(error) => {
                eprintln!("{}: {error}", self.name());
                self.failure = Some(format!("failed: {error}"));
                self.peer = None;
                None
            }
        }
    }

    pub(crate) fn start(&mut self, url: &str) {
        self.peer = self.attempt(|entrant| Peer::start(&entrant.contender, url));
    }

    /// Pairs of the running process.
    pub(crate) fn pairs(&mut self, count: usize) -> Option<Vec<u64>> {
        self.attempt(|entrant| entrant.peer.as_mut().ok_or("is not running")?.pairs(count))
    }

    pub(crate) fn record(&mut self, figures: impl IntoIterator<Item = (&'static str, Option<f64>)>) {
        self.record_all(figures.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect());
    }

    pub(crate) fn record_all(&mut self, figures: Figures) {
        self.rounds.push(figures);
    }

    /// One that fails half-way leaves no figures: they would be of other rounds than everybody else's.
    pub(crate) fn measured(self) -> Measured {
        let rounds = if self.failure.is_some() { Vec::new() } else { self.rounds };
        let offer = self.contender.offer;
        Measured { name: offer.name, role: offer.role, versions: offer.versions, rounds, absent: self.failure }
    }
}

/// The turns of a round: every contender once, each round beginning with another.
pub(crate) fn order(count: usize, round: usize) -> impl Iterator<Item = usize> {
    (0..count).map(move |i| (i + round) % count)
}

#[cfg(test)]
mod tests {
    use super::order;

    #[test]
    fn every_contender_has_its_turn_and_another_one_begins() {
        assert_eq!(order(3, 0).collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!(order(3, 4).collect::<Vec<_>>(), [1, 2, 0]);
        assert_eq!(order(0, 1).count(), 0);
    }
}
