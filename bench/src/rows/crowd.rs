//! Many tasks, in one process or several, one lock or a lock each.

use std::time::{Duration, Instant};

use super::{MeasuredStore, Size, column, main_column, progress, yardstick};
use crate::Result;
use crate::entrant::{Entrant, order};
use crate::machine::used_by;
use crate::report::{Better, Column};
use crate::stats::{fairness, quantile, ratio};
use crate::talk::{Contender, Peer, Tally};

/// Raw pairs on either side of each contender's turn.
const RAW_PAIRS: usize = 400;

pub(super) struct Crowd {
    pub(super) row: &'static str,
    pub(super) processes: usize,
    pub(super) tasks: usize,
    pub(super) own_keys: bool,
}

/// What all processes of a contender did in one turn.
struct Turn {
    tallies: Vec<Tally>,
    elapsed: Duration,
    /// What server and contender used of the CPU.
    cpu: Duration,
    requests: Option<u64>,
}

impl Crowd {
    pub(super) fn measure(
        &self,
        store: &mut MeasuredStore,
        entrants: &mut [Entrant],
        size: Size,
    ) -> Result<Vec<Column>> {
        let time = Duration::from_millis(if size.quick { 300 } else { 3000 });
        let raw = yardstick(entrants);
        if let Some(raw) = raw {
            entrants[raw].start(&store.url);
        }
        for round in 0..size.rounds {
            for i in order(entrants.len(), round).filter(|i| Some(*i) != raw) {
                let mut raw_pairs = raw.and_then(|raw| entrants[raw].pairs(RAW_PAIRS)).unwrap_or_default();
                let Some(turn) = entrants[i].attempt(|entrant| self.turn(store, &entrant.contender, time)) else {
                    continue;
                };
                raw_pairs.extend(raw.and_then(|raw| entrants[raw].pairs(RAW_PAIRS)).unwrap_or_default());
                raw_pairs.sort_unstable();
                let raw_us = quantile(&raw_pairs, 0.5) as f64 / 1e3;
                let figures = turn.figures(raw_us);
                let said = figures.iter().find(|(key, _)| *key == "pairs_s").and_then(|(_, value)| *value);
                progress(
                    self.row,
                    round,
                    size.rounds,
                    &format!("{}: {:.0}/s", entrants[i].name(), said.unwrap_or(0.0)),
                );
                entrants[i].record(figures);
            }
            if let Some(raw) = raw
                && let Some(mut ns) = entrants[raw].pairs(5 * RAW_PAIRS)
            {
                ns.sort_unstable();
                let us = quantile(&ns, 0.5) as f64 / 1e3;
                entrants[raw].record([("pairs_s", ratio(1e6, us)), ("raw", Some(1.0))]);
            }
        }
        if let Some(raw) = raw {
            entrants[raw].peer = None;
        }
        let (rate, hand_off) = if self.own_keys { (Some(Better::More), None) } else { (None, Some(Better::Less)) };
        let mut columns = vec![
            main_column("pairs_s", "pairs/s", 0, rate),
            main_column("raw", "raw pairs a pair", 3, hand_off),
            column("cpu_us", "CPU of a pair, us", 1),
            column("wait_p50_ms", "p50 wait, ms", 3),
            column("wait_p99_ms", "p99 wait, ms", 3),
        ];
        if !self.own_keys {
            columns.push(column("p99_share", "p99 wait, x fair share", 2));
        }
        columns.push(column("max_min", "max/min a task", 3));
        columns.push(column("requests", "requests an acquisition", 3));
        Ok(columns)
    }

    fn turn(&self, store: &mut MeasuredStore, contender: &Contender, time: Duration) -> Result<Turn> {
        let start = || Peer::start(contender, &store.url);
        let mut peers = (0..self.processes).map(|_| start()).collect::<Result<Vec<_>>>()?;
        for peer in &mut peers {
            peer.crowd(self.tasks, self.own_keys)?;
        }
        let names = &contender.offer.requests;
        let before = store.server.calls(names)?;
        let pids: Vec<u32> = peers.iter().map(Peer::pid).chain(store.pids.iter().copied()).collect();
        let cpu_before = cpu(&pids)?;
        let began = Instant::now();
        for peer in &mut peers {
            peer.tell("go")?;
        }
        std::thread::sleep(time);
        for peer in &mut peers {
            peer.tell("stop")?;
        }
        let elapsed = began.elapsed();
        let mut tallies = Vec::new();
        for peer in &mut peers {
            tallies.extend(peer.tallies(self.tasks)?);
        }
        let cpu = cpu(&pids)? - cpu_before;
        let calls = store.server.calls(names)? - before;
        Ok(Turn { tallies, elapsed, cpu, requests: (!names.is_empty()).then_some(calls) })
    }
}

/// What these processes used of the CPU so far.
fn cpu(pids: &[u32]) -> Result<Duration> {
    let ticks: Vec<u64> = pids.iter().map(|pid| used_by(*pid)).collect::<Result<_>>()?;
    Ok(Duration::from_millis(10 * ticks.iter().sum::<u64>()))
}

impl Turn {
    fn figures(&self, raw_us: f64) -> [(&'static str, Option<f64>); 8] {
        let served: Vec<u64> = self.tallies.iter().map(|tally| tally.acquired).collect();
        let total = served.iter().sum::<u64>() as f64;
        let mut waits: Vec<u64> = self.tallies.iter().flat_map(|tally| tally.ns.iter().copied()).collect();
        waits.sort_unstable();
        let ms = |q| quantile(&waits, q) as f64 / 1e6;
        let pair_us = ratio(self.elapsed.as_secs_f64() * 1e6, total);
        // Were everybody served in turn, each would wait for one pair of everybody.
        let fair_share_ms = pair_us.map(|us| us * served.len() as f64 / 1e3);
        [
            ("pairs_s", ratio(total, self.elapsed.as_secs_f64())),
            ("raw", pair_us.and_then(|us| ratio(us, raw_us))),
            ("cpu_us", ratio(self.cpu.as_secs_f64() * 1e6, total)),
            ("wait_p50_ms", Some(ms(0.5))),
            ("wait_p99_ms", Some(ms(0.99))),
            ("p99_share", fair_share_ms.and_then(|share| ratio(ms(0.99), share))),
            ("max_min", Some(fairness(&served))),
            // Every wait ended with an acquisition, though some of them after the end.
            ("requests", self.requests.and_then(|requests| ratio(requests as f64, waits.len() as f64))),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_figures_of_a_turn() {
        let tally = |acquired, ns: &[u64]| Tally { acquired, ns: ns.to_vec() };
        // 8 acquisitions in 4 ms are 500 us each, and with 2 tasks the fair share is 1 ms.
        let turn = Turn {
            tallies: vec![tally(6, &[1_000_000; 7]), tally(2, &[4_000_000; 3])],
            elapsed: Duration::from_millis(4),
            cpu: Duration::from_millis(2),
            requests: Some(20),
        };
        let figures: Vec<_> =
            turn.figures(250.0).into_iter().map(|(key, value)| (key, value.unwrap_or(-1.0))).collect();
        let expected = [
            ("pairs_s", 2000.0),
            ("raw", 2.0),
            ("cpu_us", 250.0),
            ("wait_p50_ms", 1.0),
            ("wait_p99_ms", 4.0),
            ("p99_share", 4.0),
            ("max_min", 3.0),
            ("requests", 2.0),
        ];
        assert_eq!(figures, expected);
    }

    #[test]
    fn a_turn_without_an_acquisition_has_no_ratios() {
        let turn = Turn { tallies: Vec::new(), elapsed: Duration::from_secs(1), cpu: Duration::ZERO, requests: None };
        let figures = turn.figures(30.0);
        assert!(figures.iter().all(|(_, value)| value.is_none_or(|value| value.is_finite())));
        assert!(figures.iter().any(|(key, value)| *key == "raw" && value.is_none()));
    }
}
