//! One client, and its clock.

use std::collections::VecDeque;

use lockwright_lock_server::Connection;
use lockwright_machines::time::Time;
use lockwright_wasm_engine::Engine;
use lockwright_wasm_engine::redis::{Config, Redis};

use crate::doing::Doing;
use crate::network::News;
use crate::random::{MS, Random, SECOND};

/// See the [module](self).
pub(crate) struct Client {
    pub(crate) engine: Engine<Redis>,
    /// Its clock runs so many parts in a million too fast.
    drift: i64,
    pub(crate) paused_until: u64,
    /// What came meanwhile.
    pub(crate) unheard: VecDeque<(Connection, News)>,
    pub(crate) tasks: Vec<Doing>,
}

impl Client {
    /// One with a few tasks, and a clock of its own.
    pub(crate) fn new(random: &mut Random) -> Self {
        let mut numbers = Random(random.next());
        let draw = move || Some(u128::from(numbers.next()) << 64 | u128::from(numbers.next()));
        let config = Config::read("lockwright://simulated", "test").expect("an address");
        Client {
            engine: Engine::new(Redis::new(config), Box::new(draw)),
            drift: random.below(18_001) as i64 - 9000,
            paused_until: 0,
            unheard: VecDeque::new(),
            tasks: (0..1 + random.below(4)).map(|_| Doing::Rests(random.below(SECOND))).collect(),
        }
    }

    /// What its clock shows.
    pub(crate) fn local(&self, now: u64) -> Time {
        let ahead = i128::from(now) * i128::from(self.drift) / 1_000_000;
        Time::from_nanos((SECOND + now).saturating_add_signed(ahead as i64))
    }

    /// When its clock shows that.
    pub(crate) fn at(&self, due: Time) -> u64 {
        let mut at = (due.as_nanos().saturating_sub(SECOND) as i64 * 1_000_000 / (1_000_000 + self.drift)) as u64;
        while self.local(at) < due {
            at += MS;
        }
        at
    }
}
