//! What the nodes said to one question, and what that comes to.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use super::machine::Shape;
use super::majority;
use super::nodes::Nodes;
use crate::error::{Error, Kind};
use crate::span::written;
use crate::token::Tokens;

/// What one node said.
#[derive(Clone, Debug)]
pub(super) enum Said {
    /// It is ours there, under these tokens if the layout has any.
    Yes(Option<Tokens>),
    /// Somebody else has it, for so long; of a renewal or release: it is not ours.
    No(Duration),
    /// It may have forgotten what it granted, for so long yet.
    Young(Duration),
    /// It is used with leases of so long.
    OtherTtl(Duration),
    /// The request came too late.
    Late,
    /// It did not answer, or cannot be reached.
    Down,
    /// It was not asked: it was told to give back what it granted before, and did not say that it did.
    Owes,
    /// It refuses.
    Refuses(Error),
}

/// All that was said by those who were asked.
pub(super) struct Ballot {
    pub(super) said: Vec<Said>,
    pub(super) asked: Nodes,
    pub(super) shape: Arc<Shape>,
}

/// What it comes to where it is no majority for us.
#[derive(Debug)]
pub(super) enum Outcome {
    /// Others have it, as far as a majority says.
    Held(Duration),
    /// A majority answers, but some of it may not grant yet.
    NotYet(Error),
    /// There is no majority to be had.
    Hopeless(Error),
}

impl Ballot {
    pub(super) fn count(&self, of: impl Fn(&Said) -> bool) -> usize {
        self.said.iter().filter(|said| of(said)).count()
    }

    pub(super) fn need(&self) -> usize {
        majority(self.nodes())
    }

    pub(super) fn yes(&self) -> usize {
        self.count(|said| matches!(said, Said::Yes(_)))
    }

    pub(super) fn no(&self) -> usize {
        self.count(|said| matches!(said, Said::No(_)))
    }

    fn nodes(&self) -> usize {
        self.shape.addresses.len()
    }

    /// Whether so many leave no majority to the others.
    fn is_blocked_by(&self, count: usize) -> bool {
        count > self.nodes() - self.need()
    }

    /// The highest tokens of those who granted.
    pub(super) fn tokens(&self) -> Option<Tokens> {
        let granted = self.said.iter().filter_map(|said| match said {
            Said::Yes(tokens) => *tokens,
            _ => None,
        });
        granted.max_by_key(|tokens| tokens.last())
    }

    /// What it comes to where no majority granted.
    pub(super) fn refused(&self, operation: &'static str) -> Outcome {
        if self.yes() + self.no() >= self.need() {
            let longest = self.said.iter().map(|said| match said {
                Said::No(left) => *left,
                _ => Duration::ZERO,
            });
            return Outcome::Held(longest.max().unwrap_or_default());
        }
        let young = self.count(|said| matches!(said, Said::Young(_)));
        let error = self.error(operation);
        if self.yes() + self.no() + young >= self.need() {
            return Outcome::NotYet(error);
        }
        // What so many refuse for good is no matter of a quorum.
        let is_final = |said: &&Said| matches!(said, Said::Refuses(error) if error.kind() != Kind::Unavailable);
        match self.said.iter().find(is_final) {
            Some(Said::Refuses(first)) if self.is_blocked_by(self.said.iter().filter(is_final).count()) => {
                Outcome::Hopeless(first.clone())
            }
            _ => Outcome::Hopeless(error),
        }
    }

    /// That too few nodes said yes, and what the others said.
    pub(super) fn error(&self, operation: &'static str) -> Error {
        Error::new(Kind::Quorum, operation, self.explained(operation))
    }

    /// One line on who said what.
    fn explained(&self, operation: &str) -> String {
        let did = if operation == "acquire" { "granted the lock" } else { "have it as ours" };
        let mut text = format!("{} of {} nodes {did}, {} are needed: ", self.yes(), self.nodes(), self.need());
        let others = self.asked.each().zip(&self.said).filter(|(_, said)| !matches!(said, Said::Yes(_)));
        for (number, (node, said)) in others.enumerate() {
            let between = if number > 0 { "; " } else { "" };
            let _ = write!(text, "{between}{} {}", self.shape.addresses[node], self.why(said));
        }
        text.push_str("; see to these nodes, or wait");
        text
    }

    fn why(&self, said: &Said) -> String {
        match said {
            Said::Yes(_) => "granted it".into(),
            Said::No(_) => "has it as somebody else's or free".into(),
            Said::Young(left) => {
                format!("was restarted, emptied or is new, and counts in {}", written(round(*left)))
            }
            Said::OtherTtl(other) => {
                format!("is used with max_ttl={}, which is {} here", written(*other), written(self.shape.max_ttl))
            }
            Said::Late => "got the request too late".into(),
            Said::Down => "is down or silent".into(),
            Said::Owes => "did not say whether it gave back what it granted before".into(),
            Said::Refuses(error) => format!("refuses ({}: {})", error.code(), error.context()),
        }
    }
}

/// Whole milliseconds; at least one.
fn round(span: Duration) -> Duration {
    Duration::from_millis(u64::try_from(span.as_millis()).unwrap_or(u64::MAX).max(1))
}
