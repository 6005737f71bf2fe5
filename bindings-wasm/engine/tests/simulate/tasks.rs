//! What tasks do next, and what has to be so of it.

use std::time::Duration;

use lockwright_machines::barrier_cell::Passage;
use lockwright_machines::error::{Error, Kind};
use lockwright_machines::layout_choice::Of;
use lockwright_machines::options::AcquireOptions;
use lockwright_machines::share::Share;
use lockwright_wasm_engine::redis::Redis;
use lockwright_wasm_engine::{Engine, Guard, Latch, Outcome};

use crate::doing::{Doing, Held, one_of};
use crate::random::{MS, SECOND};
use crate::{Client, NAMES, QUIET, READERS, World};

/// For how long the store may be asked in vain, by the clock of whoever asks.
const STORE_TIMEOUT: u64 = 5 * SECOND + 50 * MS;
/// The latch counts from this.
const COUNT: u32 = 10_000;
/// So many meet at the barrier.
const PARTIES: u32 = 2;

impl World {
    /// Whether a task went on.
    pub(crate) fn advance(&mut self, client: usize, task: usize) -> bool {
        let doing = std::mem::replace(&mut self.clients[client].tasks[task], Doing::Ended);
        let (doing, went_on) = match self.next_doing(client, doing) {
            Ok(next) => (next, true),
            Err(same) => (*same, false),
        };
        self.clients[client].tasks[task] = doing;
        went_on
    }

    /// What a task does next, or the same where that is not over.
    fn next_doing(&mut self, client: usize, doing: Doing) -> Result<Doing, Box<Doing>> {
        let known = &mut self.clients[client];
        let now = known.local(self.now);
        let Client { engine, paused_until, .. } = known;
        match doing {
            Doing::Rests(until) if until <= self.now => Ok(self.begin(client)),
            Doing::Acquires { asked, of, from, .. } if from <= self.now && engine.is_settled(asked.ticket) => {
                let outcome = engine.conclude(now, asked);
                Ok(self.acquired(client, of, outcome))
            }
            Doing::Acquires { asked, until, .. } if until <= self.now => {
                engine.abandon(now, asked);
                self.note(format!("client {client} gives up an acquisition"));
                Ok(self.rest())
            }
            Doing::Holds { guard, of, until } if until <= self.now => Ok(self.end_of(client, guard, of)),
            Doing::Renews { guard, of, until, ticket } if engine.is_settled(ticket) => {
                if let Err(error) = engine.renewed(now, &guard, ticket) {
                    expect(&error, &[Kind::Lost, Kind::Unavailable]);
                }
                Ok(Doing::Holds { guard, of, until })
            }
            Doing::Changes { guard, of, to, until, ticket } if engine.is_settled(ticket) => {
                let changed = engine.changed(now, &guard, ticket);
                if let Err(error) = &changed {
                    expect(error, &[Kind::Lost, Kind::Unavailable]);
                }
                let writes = to == Share::WRITE && matches!(changed, Ok(true));
                Ok(Doing::Holds { guard, of: Held { units: if writes { READERS } else { 1 }, ..of }, until })
            }
            Doing::Exports { mut guard, of, until, ticket, .. } if until <= self.now => {
                let recalled = Some(engine.release(now, &mut guard).unwrap());
                Ok(Doing::Exports { guard, of, until: u64::MAX, ticket, recalled })
            }
            Doing::Exports { mut guard, of, ticket, recalled, .. } if engine.is_settled(ticket) => {
                match engine.exported(now, &mut guard, ticket) {
                    Ok(secret) => {
                        assert!(recalled.is_none(), "who released it has it no more");
                        self.secrets.push((of.name, secret));
                    }
                    Err(error) => expect(&error, &[Kind::Lost, Kind::Unavailable, Kind::NotOwned]),
                }
                Ok(recalled.map_or_else(|| self.rest(), Doing::Releases))
            }
            Doing::AcquiresAll(ticket, _) if engine.is_settled(ticket) => {
                let all = engine.acquired_all(ticket);
                Ok(self.acquired_all(client, all))
            }
            Doing::AcquiresAll(ticket, until) if until <= self.now => {
                engine.abandon_all(now, ticket);
                Ok(self.rest())
            }
            Doing::HoldsAll(mut guards, until) if until <= self.now => {
                assert!(engine.release_all(now, &mut guards).iter().all(Result::is_ok));
                Ok(self.rest())
            }
            Doing::Releases(ticket) if engine.is_settled(ticket) => {
                let outcome = engine.released(ticket);
                self.note(format!("client {client} released: {outcome:?}"));
                Ok(self.rest())
            }
            Doing::Inquires(ticket, by) if engine.is_settled(ticket) => {
                let is_late = self.now > by && *paused_until < by - STORE_TIMEOUT;
                assert!(!is_late, "a question outlasts the store's time limit");
                if let Err(error) = engine.listed(ticket) {
                    expect(&error, &[Kind::Unavailable]);
                }
                Ok(self.rest())
            }
            Doing::Counts(ticket) if engine.is_settled(ticket) => {
                let left = engine.left(&latch(engine), ticket);
                self.counted(left);
                Ok(self.rest())
            }
            Doing::Meets(asked) if engine.is_settled(asked.ticket) => {
                let passed = engine.passed(now, asked);
                self.met(passed);
                Ok(self.rest())
            }
            same => Err(Box::new(same)),
        }
    }

    fn rest(&mut self) -> Doing {
        if self.now > QUIET { Doing::Ended } else { Doing::Rests(self.now + self.random.below(SECOND)) }
    }

    fn begin(&mut self, client: usize) -> Doing {
        if self.now > QUIET {
            return Doing::Ended;
        }
        let now = self.clients[client].local(self.now);
        if self.random.chance(50) {
            let ticket = self.clients[client].engine.list(now).unwrap();
            return Doing::Inquires(ticket, self.now + STORE_TIMEOUT);
        }
        if self.random.chance(100) {
            return self.acquire_all(client);
        }
        if self.random.chance(100) {
            let engine = &mut self.clients[client].engine;
            return Doing::Counts(engine.count_down(now, &latch(engine)).unwrap());
        }
        if self.random.chance(100) {
            let limit = Duration::from_millis(self.random.below(5000));
            let engine = &mut self.clients[client].engine;
            let barrier = engine.barrier("barrier", PARTIES, Duration::from_secs(2)).unwrap();
            return Doing::Meets(engine.acquire(now, barrier.gate(), Some(limit)).unwrap());
        }
        let ttl = Duration::from_millis([300, 1000, 3000][self.random.below(3) as usize]);
        let fair = self.random.chance(300);
        let options = AcquireOptions { ttl, fair, renew: self.random.chance(900), ..AcquireOptions::default() };
        if !self.secrets.is_empty() && self.random.chance(500) {
            let (name, secret) = self.secrets.remove(0);
            let asked = self.clients[client].engine.resume(now, &secret, options).unwrap();
            let of = Held { resumed: true, ..one_of(name) };
            return Doing::Acquires { asked, of, from: 0, until: u64::MAX };
        }
        let name = self.random.below(NAMES.len() as u64) as usize;
        let timeout = match self.random.below(4) {
            0 => Some(Duration::ZERO),
            1 => Some(Duration::from_millis(1 + self.random.below(3000))),
            _ => None,
        };
        let until = if self.random.chance(100) { self.now + self.random.below(SECOND) } else { u64::MAX };
        self.acquire(client, name, options, timeout, until)
    }

    pub(crate) fn acquire(
        &mut self,
        client: usize,
        name: usize,
        options: AcquireOptions,
        timeout: Option<Duration>,
        until: u64,
    ) -> Doing {
        let (of, units) = match NAMES[name].1 {
            1 => (Of::Lock, 1),
            READERS if self.random.chance(300) => (Of::Write, READERS),
            READERS => (Of::Read, 1),
            permits => (Of::Permits { take: 1, permits }, 1),
        };
        let now = self.clients[client].local(self.now);
        let engine = &mut self.clients[client].engine;
        let lock = engine.lock_of(of, NAMES[name].0, options).unwrap();
        let asked = engine.acquire(now, &lock, timeout).unwrap();
        self.note(format!("client {client} asks for {units} of {} within {timeout:?}", NAMES[name].0));
        let from = if until < u64::MAX { self.now + self.random.below(SECOND) } else { 0 };
        Doing::Acquires { asked, of: Held { name, units, resumed: false }, from, until }
    }

    /// Both that one alone can hold.
    fn acquire_all(&mut self, client: usize) -> Doing {
        let now = self.clients[client].local(self.now);
        let engine = &mut self.clients[client].engine;
        let options = AcquireOptions { ttl: Duration::from_secs(1), ..AcquireOptions::default() };
        let all = engine.multi_lock([NAMES[1].0, NAMES[0].0], &options).unwrap();
        let ticket = engine.acquire_all(now, &all, None).unwrap();
        self.note(format!("client {client} asks for both"));
        let until = if self.random.chance(200) { self.now + self.random.below(SECOND) } else { u64::MAX };
        Doing::AcquiresAll(ticket, until)
    }

    fn acquired_all(&mut self, client: usize, all: Result<Option<Vec<Guard>>, Error>) -> Doing {
        match all {
            Ok(Some(guards)) => {
                self.note(format!("client {client} has both by {} and {}", guards[0].token(), guards[1].token()));
                for (name, guard) in guards.iter().enumerate() {
                    self.rises(one_of(name), guard.token().n);
                }
                Doing::HoldsAll(guards, self.now + self.random.below(300 * MS))
            }
            Ok(None) => panic!("they were waited for"),
            Err(error) => {
                expect(&error, &[Kind::Unavailable, Kind::Lost]);
                self.rest()
            }
        }
    }

    fn acquired(&mut self, client: usize, of: Held, outcome: Result<Outcome, Error>) -> Doing {
        let name = NAMES[of.name].0;
        match outcome {
            Ok(Outcome::Granted(guard)) => {
                self.note(format!("client {client} has {} of {name} by {}", of.units, guard.token()));
                self.grants += 1;
                self.rises(of, guard.token().n);
                let longest = if self.random.chance(100) { 4 * SECOND } else { 300 * MS };
                let hold = self.random.below(longest);
                Doing::Holds { guard, of, until: if self.by_hand { u64::MAX } else { self.now + hold } }
            }
            Ok(Outcome::Taken) => self.rest(),
            Err(error) => {
                self.note(format!("client {client} has none of {name}: {error}"));
                let also = if of.resumed { Kind::NotOwned } else { Kind::Timeout };
                expect(&error, &[Kind::Unavailable, Kind::Lost, also]);
                self.rest()
            }
        }
    }

    /// Tokens of what one alone holds rise.
    fn rises(&mut self, of: Held, token: u64) {
        if NAMES[of.name].1 > 1 {
            return;
        }
        let last = self.tokens.insert(of.name, token).unwrap_or_default();
        assert!(token > last || of.resumed && token == last, "token {token} after {last}");
    }

    /// A latch was counted down, or it is not known whether.
    fn counted(&mut self, left: Result<Option<u32>, Error>) {
        match left {
            Ok(left) => {
                assert!(left.is_some(), "nobody sets its count");
                self.counts.0 += 1;
            }
            Err(error) => {
                expect(&error, &[Kind::Unavailable]);
                self.counts.1 += 1;
            }
        }
    }

    /// A party went on, or gave up.
    fn met(&mut self, passed: Result<Option<Passage>, Error>) {
        match passed {
            Ok(Some(Passage { index, generation })) => {
                assert!(index < PARTIES, "{index} is the place of none");
                assert!(self.passages.insert((generation, index)), "two are {index} of generation {generation}");
            }
            Ok(None) => {}
            Err(error) => expect(&error, &[Kind::Unavailable, Kind::Lost]),
        }
    }

    /// What counted a latch down did so once.
    pub(crate) fn count(&mut self) {
        let now = self.clients[0].local(self.now);
        let engine = &mut self.clients[0].engine;
        let (latch, ticket) = (latch(engine), engine.ask_count(now, &latch(engine)).unwrap());
        self.run(self.now + SECOND, |world| world.clients[0].engine.is_settled(ticket));
        let left = self.clients[0].engine.left(&latch, ticket).unwrap().unwrap();
        let (known, unknown) = self.counts;
        let down = COUNT - left;
        assert!((known..=known + unknown).contains(&down), "{down} times, and {known} or {unknown} more were to be");
    }

    /// Whoever has held it long enough.
    fn end_of(&mut self, client: usize, mut guard: Guard, of: Held) -> Doing {
        let now = self.clients[client].local(self.now);
        let is_bad = self.is_bad();
        let engine = &mut self.clients[client].engine;
        let (choice, until) = (self.random.below(20), self.now + self.random.below(300 * MS));
        match choice {
            0 if is_bad => {
                let ticket = engine.renew(now, &guard, Duration::from_secs(1)).unwrap();
                self.note(format!("client {client} renews {}", NAMES[of.name].0));
                Doing::Renews { guard, of, until, ticket }
            }
            1 if is_bad && NAMES[of.name].1 == READERS => {
                let to = if of.units == 1 { Share::WRITE } else { Share::READ };
                let ticket = engine.change(now, &guard, to).unwrap();
                self.note(format!("client {client} changes {} from {}", NAMES[of.name].0, of.units));
                // Who would only read lets others in at any time.
                Doing::Changes { guard, of: Held { units: 1, ..of }, to, until, ticket }
            }
            1 if is_bad && NAMES[of.name].1 == 1 => {
                let ttl = Duration::from_millis(100 + self.random.below(1000));
                let ticket = engine.export(now, &mut guard, ttl).unwrap();
                self.note(format!("client {client} exports {}", NAMES[of.name].0));
                Doing::Exports { guard, of, until, ticket, recalled: None }
            }
            2 => {
                engine.let_go(now, &mut guard);
                self.rest()
            }
            _ => {
                let ticket = engine.release(now, &mut guard).unwrap();
                self.note(format!("client {client} gives back {}", NAMES[of.name].0));
                Doing::Releases(ticket)
            }
        }
    }
}

/// One that is never open.
fn latch(engine: &Engine<Redis>) -> Latch {
    engine.latch("latch", COUNT, Duration::from_secs(300)).expect("a latch")
}

/// The error is one of these kinds, or nothing that a sound client says.
fn expect(error: &Error, kinds: &[Kind]) {
    assert!(kinds.contains(&error.kind()), "{error}");
}
