//! What happened in the demo, counted from the workers' reports and the ledger.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::time::Duration;

use super::shop::Sale;

#[derive(Debug, Default)]
pub(super) struct Tally {
    /// When each token was granted.
    grants: Vec<(u64, u64)>,
    /// When its holder let go of it: released it, was killed, or was stopped.
    ends: HashMap<u64, u64>,
    lost: BTreeSet<u64>,
    refused: u64,
}

/// How it ended.
#[derive(Debug)]
pub(super) struct Verdict {
    pub(super) sold: u64,
    /// Sales of items that had been sold before.
    pub(super) oversold: u64,
    /// How often a lock was granted that somebody still held, or a holder was refused by a higher token.
    pub(super) together: u64,
    lost: u64,
    hand_off: Option<(Duration, Duration)>,
}

impl Tally {
    pub(super) fn granted(&mut self, at: u64, token: u64) {
        self.grants.push((at, token));
    }

    pub(super) fn released(&mut self, at: u64, token: u64) {
        if !self.lost.contains(&token) {
            self.ended(at, token);
        }
    }

    pub(super) fn ended(&mut self, at: u64, token: u64) {
        self.ends.insert(token, at);
    }

    /// The end of a hold that was lost is when it was stopped; whoever was only slow has let go when the next one came.
    pub(super) fn lost(&mut self, token: u64) {
        self.lost.insert(token);
    }

    pub(super) fn refused(&mut self) {
        self.refused += 1;
    }

    /// The highest token granted so far.
    pub(super) fn highest(&self) -> u64 {
        self.grants.iter().map(|(_, token)| *token).max().unwrap_or_default()
    }

    pub(super) fn verdict(&mut self, ledger: &[Sale]) -> Verdict {
        let items: BTreeSet<_> = ledger.iter().map(|sale| sale.item).collect();
        let (sold, items) = (ledger.len() as u64, items.len() as u64);
        self.grants.sort_unstable();
        let mut together = self.refused;
        let mut hand_offs = Vec::new();
        for pair in self.grants.windows(2) {
            let [(_, token), (next, _)] = pair else { continue };
            match self.ends.get(token) {
                Some(end) if end > next => together += 1,
                Some(end) => hand_offs.push(next - end),
                None => {}
            }
        }
        hand_offs.sort_unstable();
        let hand_off = percentile(&hand_offs, 50).zip(percentile(&hand_offs, 99));
        Verdict { sold, oversold: sold - items, together, lost: self.lost.len() as u64, hand_off }
    }
}

/// The smallest of `sorted` that is not exceeded by `percent` of them (nearest rank).
fn percentile(sorted: &[u64], percent: usize) -> Option<Duration> {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).map(|nanos| Duration::from_nanos(*nanos))
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Verdict { sold, oversold, lost, .. } = self;
        write!(f, "sold {sold}, oversold {oversold}, lost-lock events {lost}, hand-off p50/p99 ")?;
        match self.hand_off {
            Some((half, most)) => write!(f, "{:.1}/{:.1} ms", half.as_secs_f64() * 1e3, most.as_secs_f64() * 1e3),
            None => f.write_str("-/- ms"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sale(item: u64) -> Sale {
        Sale { item, worker: 1, token: None }
    }

    #[test]
    fn an_item_sold_twice_is_oversold() {
        let verdict = Tally::default().verdict(&[sale(3), sale(2), sale(2), sale(1), sale(3)]);
        assert_eq!((verdict.sold, verdict.oversold), (5, 2));
        assert_eq!(verdict.to_string(), "sold 5, oversold 2, lost-lock events 0, hand-off p50/p99 -/- ms");
    }

    #[test]
    fn hand_off_is_from_release_to_the_next_grant() {
        let mut tally = Tally::default();
        let ms = |millis: u64| millis * 1_000_000;
        for token in 0..100 {
            tally.granted(ms(10 * token), token);
            tally.released(ms(10 * token + 9), token);
        }
        tally.granted(ms(1_000), 100);
        assert_eq!(
            tally.verdict(&[]).to_string(),
            "sold 0, oversold 0, lost-lock events 0, hand-off p50/p99 1.0/1.0 ms"
        );
        assert_eq!(tally.verdict(&[]).together, 0);
        tally.granted(ms(985), 101);
        assert_eq!(tally.verdict(&[]).together, 1);
    }

    #[test]
    fn what_was_lost_ends_when_it_was_stopped() {
        let mut tally = Tally::default();
        tally.granted(1, 1);
        tally.ended(2, 1);
        tally.granted(9, 2);
        tally.lost(1);
        tally.released(20, 1);
        let verdict = tally.verdict(&[]);
        assert_eq!((verdict.together, verdict.lost), (0, 1));
    }
}
