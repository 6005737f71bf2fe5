//! The host, by WASI 0.2: the clock, randomness, and waiting for all that the engine wants of the network. No code runs
//! between two calls.

use lockwright_machines::time::Time;
use lockwright_wasm_engine::{Asked, Random, Ticket};
use wasip2::clocks::monotonic_clock;
use wasip2::io::poll::{Pollable, poll};
use wasip2::random::random::get_random_u64;

pub(crate) use self::network::{Engine, Network, open};
use crate::{CLOSING, Running, Shared};

#[cfg_attr(feature = "etcd", path = "host_0_2/http.rs")]
#[cfg_attr(not(feature = "etcd"), path = "host_0_2/sockets.rs")]
pub(crate) mod network;

pub(crate) fn now() -> Time {
    Time::from_nanos(monotonic_clock::now())
}

pub(crate) fn random() -> Random {
    Box::new(|| Some(u128::from(get_random_u64()) << 64 | u128::from(get_random_u64())))
}

impl Network {
    /// Hears what came while no code ran, and what time it is.
    pub(crate) fn hear(&mut self, engine: &mut Engine) -> Time {
        // What came is read before it can be too late.
        self.work(engine);
        let at = now();
        if engine.next_look().is_some_and(|due| due <= at) {
            engine.look(at);
            self.work(engine);
        }
        at
    }

    /// Does all that can be done at once.
    fn work(&mut self, engine: &mut Engine) {
        loop {
            let mut more = false;
            while let Some(action) = engine.next_action() {
                self.perform(engine, action);
                more = true;
            }
            more |= self.advance(engine);
            if !more {
                return;
            }
        }
    }
}

impl Shared {
    /// Lets the network work until the engine says so, or `limit`.
    pub(crate) fn until(&self, limit: Option<Time>, done: impl Fn(&Engine, Time) -> bool) -> Time {
        let Running { engine, network } = &mut *self.0.borrow_mut();
        loop {
            let at = network.hear(engine);
            if done(engine, at) || limit.is_some_and(|limit| limit <= at) {
                return at;
            }
            wait(network, engine, limit);
        }
    }

    /// Until an acquisition is settled for good: once this call ends nothing renews what was handed over.
    pub(crate) fn until_granted(&self, asked: &Asked) -> Time {
        let now = self.until_settled(asked.ticket);
        self.read(|engine| engine.make_firm(now, asked));
        self.until(None, |engine, now| engine.is_firm(now, asked))
    }

    pub(crate) fn until_all_granted(&self, ticket: Ticket) {
        let now = self.until_settled(ticket);
        self.read(|engine| engine.make_all_firm(now, ticket));
        self.until(None, |engine, now| engine.are_firm(now, ticket));
    }

    /// Ends all that is open.
    pub(crate) fn hang_up(&self) {
        self.tell(|engine, _| engine.hang_up());
    }

    /// Gives back what was dropped, and waits until the server has it: what it has to be asked again, such as a script
    /// that it does not know yet, is asked by no code once this call ends.
    pub(crate) fn let_go(&self, let_go: impl FnOnce(&mut Engine, Time)) {
        let now = self.with(|engine, now| {
            let_go(engine, now);
            now
        });
        self.until(Some(now.after(CLOSING)), |engine, _| engine.is_quiet());
    }

    /// Sends what nobody waits for.
    pub(crate) fn send(&self) {
        let Running { engine, network } = &mut *self.0.borrow_mut();
        network.work(engine);
    }
}

/// Waits until something can be done, or it is time for `engine` to look, or `limit`.
fn wait(network: &Network, engine: &Engine, limit: Option<Time>) {
    let mut pollables: Vec<Pollable> = network.pollables();
    if let Some(due) = engine.next_look().into_iter().chain(limit).min() {
        pollables.push(monotonic_clock::subscribe_instant(due.as_nanos()));
    }
    // The host traps where there is nothing to wait for.
    if !pollables.is_empty() {
        poll(&pollables.iter().collect::<Vec<_>>());
    }
}
