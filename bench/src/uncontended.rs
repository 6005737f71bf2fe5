//! S1: one thread takes and frees a lock that nobody else wants.

use std::time::Instant;

use crate::raw::Raw;
use crate::stats::{micros, percentile, spread};

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Pairs a round.
    #[arg(long, default_value_t = 5000)]
    pairs: usize,
    /// Rounds.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
}

/// Contenders take turns in chunks of this many pairs.
const CHUNK: usize = 20;

pub(crate) fn run(url: &str, options: &Options) -> Result<(), Box<dyn std::error::Error>> {
    let mut raw = Raw::connect(url)?;
    let client = lockwright::blocking::connect(url)?;
    let lock = client.lock("bench:s1").build()?;
    println!("S1 uncontended, one thread, Redis {}, {} pairs a round", raw.version()?, options.pairs);
    let (mut kept, mut named) = (Vec::new(), Vec::new());
    for round in 0..options.rounds {
        let (mut raws, mut reused, mut fresh) = (Vec::new(), Vec::new(), Vec::new());
        for chunk in 0..=options.pairs.div_ceil(CHUNK) {
            for _ in 0..CHUNK {
                raws.push(raw.pair()?);
            }
            for _ in 0..CHUNK {
                let start = Instant::now();
                lock.acquire()?.release()?;
                reused.push(start.elapsed());
            }
            for _ in 0..CHUNK {
                let start = Instant::now();
                client.lock("bench:s1").acquire()?.release()?;
                fresh.push(start.elapsed());
            }
            if chunk == 0 {
                // The first chunk dials and loads scripts.
                (raws, reused, fresh) = Default::default();
            }
        }
        let [raw, reused, fresh] = [&mut raws, &mut reused, &mut fresh].map(|samples| micros(percentile(samples, 50)));
        println!(
            "round {round}: raw pair {raw:.1} us, lock kept {reused:.1} us = {:.3}, lock named anew {fresh:.1} us = {:.3}",
            reused / raw,
            fresh / raw
        );
        kept.push(reused / raw);
        named.push(fresh / raw);
    }
    println!("raw pairs, min/median/max of rounds: lock kept {}, lock named anew {}", spread(kept), spread(named));
    Ok(())
}
