//! The barrier: whoever waits goes on once as many as there are parties wait at the same time; then it starts over.
//!
//! ```no_run
//! # async fn example(client: lockwright::Client) -> lockwright::Result<()> {
//! // In each of three workers:
//! let barrier = client.barrier("simulation", 3).build()?;
//! for step in 0..100 {
//!     // ... this worker's part of the step ...
//!     let arrival = barrier.wait().await?;
//!     if arrival.index == 0 {
//!         println!("step {step} is done by all, in generation {}", arrival.generation);
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! **Use it** where a fixed number of workers, on other hosts too, go from step to step together. **Use something
//! else** where some wait for others who need not wait themselves ([`latch`](crate::latch)), or where the number of
//! workers changes while they run.
//!
//! * **All or none**: they go on exactly if at one instant of the store as many places stood as there are parties.
//!   Nobody is ahead of the others by more than one generation.
//! * **A place has a lease** ([`ttl`](BarrierBuilder::ttl)), which is renewed while its party waits. A party that dies,
//!   times out, is cancelled or whose client is closed gives its place up, and the others go on waiting for whoever
//!   replaces it. That is not what `threading.Barrier` and `CyclicBarrier` do: those break for everybody. So a wait
//!   that must end has a time limit.
//! * **Where places are kept by a session** (etcd, ZooKeeper) a party whose session at the store ended while it waited
//!   fails with `lost`.
//! * **A time limit tells the truth**: a wait that was given up just as the barrier opened with it succeeds, since the
//!   others went on. Where the store does not say for `store_timeout` which it was, that is an error, `unavailable`.
//! * **Everybody names the same number of parties.** Whoever names another one than those who wait gets
//!   `invalid_config`.
//! * **The generation** rises by one whenever the barrier opens; on etcd and ZooKeeper, whose own count of changes it
//!   is, by more than one. Elsewhere it is remembered for three ttls and about a minute after the last use; after that
//!   it goes on from the store's clock, in milliseconds, so it rises as fencing tokens do.
//! * **Nothing is held**: no token, nothing to release. Those who wait are told by push, and ask each ttl/3 besides.
//!   Where the store can push nothing to this client they poll, as for a lock; their places stand meanwhile.
//! * A barrier and a lock of one name are not two things: whoever comes second gets `foreign_layout`.
//!
//! Source of the semantics: `java.util.concurrent.CyclicBarrier` and Python's `threading.Barrier`.

use std::time::Duration;

use lockwright_machines::barrier_cell::Passage;
use lockwright_machines::gate::{Answer, BarrierPlan, Gate};

use crate::client::{Async, Blocking, Client, Face, Guard, Lock};
use crate::driver::road::{Road, here};
use crate::error::{Error, Kind, Result};
use crate::options::DEFAULT_TTL;
use crate::protocol::Question;
use crate::token::Token;

/// A barrier whose options are being set.
#[derive(Debug)]
#[must_use = "a barrier does nothing until it is built and used"]
pub struct BarrierBuilder<F: Face = Async> {
    client: Client<F>,
    name: String,
    parties: u32,
    ttl: Duration,
}

/// A named barrier. Cheap to clone; each wait is a party. See the [module](self) for when to use it and what it
/// promises.
#[derive(Debug)]
pub struct Barrier<F: Face = Async> {
    gate: Lock<F>,
    parties: u32,
}

/// How a party went on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Arrival {
    /// Which of its generation it was, in the order of arrival: 0 to one less than there are parties, each once.
    pub index: u32,
    /// How often the barrier has opened, this time included; see the [module](self) for what it counts from.
    pub generation: u64,
}

impl From<Token> for Arrival {
    fn from(token: Token) -> Self {
        let Passage { index, generation } = Passage::of(token);
        Arrival { index, generation }
    }
}

impl<F: Face> Client<F> {
    /// The barrier called `name`, which opens when `parties` (1 to 10,000) wait for it at the same time; names as for
    /// [`lock`](Self::lock). A wrong name or number is reported when it is built.
    pub fn barrier(&self, name: &str, parties: u32) -> BarrierBuilder<F> {
        BarrierBuilder { client: self.clone(), name: name.to_owned(), parties, ttl: DEFAULT_TTL }
    }
}

impl<F: Face> BarrierBuilder<F> {
    /// How long the place of a party that died stands yet, 20 ms to 24 h; default 30 s. It is renewed each third of it.
    /// A party that was stopped for longer than twice this and `store_timeout` does not know whether the others went on
    /// with it, and its wait fails with `lost`.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self
    }

    /// The barrier, ready to be used.
    ///
    /// # Errors
    /// `invalid_config` for a bad name or a number out of range, `unsupported` where the client's layout has no
    /// barriers.
    pub fn build(self) -> Result<Barrier<F>> {
        let BarrierBuilder { client, name, parties, ttl } = self;
        let explain = |error: Error| error.on_lock(&*name).on_store(client.address());
        let plan = BarrierPlan::new(parties, ttl, client.copies().map_err(explain)?).map_err(explain)?;
        Ok(Barrier { gate: client.gate(&name, Gate::Barrier(plan), ttl)?, parties })
    }
}

impl<F: Face> Barrier<F> {
    /// Its name.
    pub fn name(&self) -> &str {
        self.gate.name()
    }

    /// How many have to wait at the same time.
    pub fn parties(&self) -> u32 {
        self.parties
    }

    /// What a wait acquires, when it opens. Giving it back costs nothing. For faces that wait in their own way.
    pub fn gate(&self) -> &Lock<F> {
        &self.gate
    }

    /// How whoever acquired the [gate](Self::gate) went on.
    pub fn arrival(pass: &Guard<F>) -> Arrival {
        pass.token().into()
    }

    /// The same barrier for callers that wait in another way.
    pub fn into_face<G: Face>(self) -> Barrier<G> {
        Barrier { gate: self.gate.into_face(), parties: self.parties }
    }

    async fn waiting_by(&self, road: Road) -> Result<u32> {
        let engine = self.gate.engine()?;
        let asked = async {
            let asked = self.gate.layout().question(self.gate.key().clone(), Question::Look);
            let asked = asked.ok_or_else(|| Error::unsupported("barrier", "this layout has no barriers"))?;
            match engine.inquire_by(road, asked).await? {
                Answer::Standing(standing) => Ok(standing),
                _ => Err(Error::new(Kind::Protocol, "barrier", "a barrier does not say how many stand there")),
            }
        };
        asked.await.map_err(|error| self.gate.explain(error))
    }
}

impl<F: Face> Clone for Barrier<F> {
    fn clone(&self) -> Self {
        Barrier { gate: self.gate.clone(), parties: self.parties }
    }
}

impl Barrier {
    /// Waits until as many wait as there are parties. Cancelling, by dropping the future, gives the place up, in the
    /// background; when the barrier has opened just then, the others went on with this party.
    ///
    /// # Errors
    /// `invalid_config` when those who wait name another number of parties; `lost` when this process was stopped for so
    /// long that it is not known whether it passed; `unavailable` when the store did not answer for `store_timeout`,
    /// after which that is not known either; `auth`, `foreign_layout` and `protocol` from the store; `closed`.
    pub async fn wait(&self) -> Result<Arrival> {
        loop {
            if let Some(arrival) = self.wait_within(None).await? {
                return Ok(arrival);
            }
        }
    }

    /// The same for at most `timeout`: zero goes on if this party is the last one, and takes no place else; `None`
    /// waits for ever. `None` when it did not open in time: this party's place is gone then, and was counted for
    /// nobody.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    pub async fn wait_within(&self, timeout: Option<Duration>) -> Result<Option<Arrival>> {
        Ok(self.gate.pass_within(timeout).await?.map(Arrival::from))
    }

    /// How many wait now; those whose process died count until their place's ttl is over.
    ///
    /// # Errors
    /// `unavailable`, `auth`, `foreign_layout` and `protocol` from the store; `closed`.
    pub async fn waiting(&self) -> Result<u32> {
        self.waiting_by(Road::Task).await
    }
}

impl Barrier<Blocking> {
    /// See the async [`wait`](Barrier::wait).
    ///
    /// # Errors
    /// As there.
    pub fn wait(&self) -> Result<Arrival> {
        loop {
            if let Some(arrival) = self.wait_within(None)? {
                return Ok(arrival);
            }
        }
    }

    /// See the async [`wait_within`](Barrier::wait_within).
    ///
    /// # Errors
    /// As there.
    pub fn wait_within(&self, timeout: Option<Duration>) -> Result<Option<Arrival>> {
        Ok(self.gate.pass_within(timeout)?.map(Arrival::from))
    }

    /// See the async [`waiting`](Barrier::waiting).
    ///
    /// # Errors
    /// As there.
    pub fn waiting(&self) -> Result<u32> {
        here(self.waiting_by(Road::Thread))
    }
}
