//! The latch: whoever waits goes on once so many have counted it down.
//!
//! ```no_run
//! # async fn example(client: lockwright::Client) -> lockwright::Result<()> {
//! // In each of three workers:
//! client.latch("import:2026-11-20", 3).build()?.count_down().await?;
//! // And in whoever needs them all to be done, before or after that:
//! client.latch("import:2026-11-20", 3).build()?.wait().await?;
//! # Ok(())
//! # }
//! ```
//!
//! **Use it** where some wait until others, on other hosts too, are done with something that happens once. **Use
//! something else** where a result is to be handed over (a latch carries none), or where a party that dies must not
//! keep the others waiting: nobody counts down for it, so wait with a limit.
//!
//! * **Whoever comes first makes it**, with the count that it names, by waiting or by counting down: nobody has to set
//!   it up, so nobody can come too early. A client that names another count meanwhile goes by the one there is.
//! * **Open stays open**: whoever comes later does not wait. [`try_set_count`](Latch::try_set_count) makes it count
//!   again.
//! * **Each count-down counts once**, however often it had to be sent again because an answer was lost.
//! * **It ends** when nobody waited, counted or set it for 30 days, or for what [`idle`](LatchBuilder::idle) says.
//!   Until then an open one is still open; after it, its name is a new latch. So name it after what happens once:
//!   `import:2026-11-20`.
//! * **Nothing is held**: no lease, no token, nothing to release. Those who wait are told by push, and ask once in ten
//!   seconds besides. Where the store can push nothing to this client they poll, as for a lock.
//! * A latch and a lock of one name are not two things: whoever comes second gets `foreign_layout`.
//!
//! Source of the semantics: `java.util.concurrent.CountDownLatch` and Redisson's `RCountDownLatch`, whose count
//! somebody has to set.

use std::time::Duration;

use lockwright_machines::gate::{Answer, CountOperation, Gate, LatchPlan, MAX_IDLE};
use lockwright_machines::latch_machine::TTL;

use crate::client::{Async, Blocking, Client, Face, Lock};
use crate::driver::engine::Engine;
use crate::driver::road::{Road, here};
use crate::error::{Error, Kind, Result};
use crate::protocol::Question;

/// A latch whose options are being set.
#[derive(Debug)]
#[must_use = "a latch does nothing until it is built and used"]
pub struct LatchBuilder<F: Face = Async> {
    client: Client<F>,
    name: String,
    count: u32,
    idle: Duration,
}

/// A named latch. Cheap to clone. See the [module](self) for when to use it and what it promises.
#[derive(Debug)]
pub struct Latch<F: Face = Async> {
    gate: Lock<F>,
    plan: LatchPlan,
}

impl<F: Face> Client<F> {
    /// The latch called `name`, which is open when it was counted down `count` times (1 to 1,000,000), unless it is
    /// there with another count; names as for [`lock`](Self::lock). A wrong name or number is reported when it is
    /// built.
    pub fn latch(&self, name: &str, count: u32) -> LatchBuilder<F> {
        LatchBuilder { client: self.clone(), name: name.to_owned(), count, idle: MAX_IDLE }
    }
}

impl<F: Face> LatchBuilder<F> {
    /// How long it is kept after its last use, 1 minute to 30 days; default 30 days. Somebody who waits uses it all the
    /// time. The longest that any of its users says counts.
    pub fn idle(mut self, idle: Duration) -> Self {
        self.idle = idle;
        self
    }

    /// The latch, ready to be used.
    ///
    /// # Errors
    /// `invalid_config` for a bad name or a number out of range, `unsupported` where the client's layout has no
    /// latches.
    pub fn build(self) -> Result<Latch<F>> {
        let LatchBuilder { client, name, count, idle } = self;
        let plan = LatchPlan::new(count, idle).map_err(|error| error.on_lock(&*name).on_store(client.address()))?;
        Ok(Latch { gate: client.gate(&name, Gate::Latch(plan), TTL)?, plan })
    }
}

impl<F: Face> Latch<F> {
    /// Its name.
    pub fn name(&self) -> &str {
        self.gate.name()
    }

    /// What a wait acquires: everybody does so at once when it is open. Giving it back costs nothing. For faces that
    /// wait in their own way.
    pub fn gate(&self) -> &Lock<F> {
        &self.gate
    }

    /// The same latch for callers that wait in another way.
    pub fn into_face<G: Face>(self) -> Latch<G> {
        Latch { gate: self.gate.into_face(), plan: self.plan }
    }

    async fn count_by(&self, road: Road) -> Result<u32> {
        match self.ask(road, |_| Ok(Question::Look)).await? {
            Answer::Left(count) => Ok(count),
            _ => Ok(self.plan.count),
        }
    }

    async fn count_down_by(&self, road: Road) -> Result<u32> {
        match self.change(road, CountOperation::Down, self.plan).await? {
            Answer::Left(count) => Ok(count),
            _ => Err(self.explain(Error::new(Kind::Protocol, "latch", "a latch refused to be counted down"))),
        }
    }

    async fn try_set_by(&self, road: Road, count: u32) -> Result<bool> {
        let plan = self.plan.with_count(count).map_err(|error| self.explain(error))?;
        Ok(matches!(self.change(road, CountOperation::Set, plan).await?, Answer::Left(_)))
    }

    async fn change(&self, road: Road, operation: CountOperation, plan: LatchPlan) -> Result<Answer> {
        let question = move |engine: &Engine| {
            Ok(Question::Change { attempt: engine.mint()?, copies: engine.copies(), operation, plan })
        };
        self.ask(road, question).await
    }

    async fn ask(&self, road: Road, question: impl FnOnce(&Engine) -> Result<Question>) -> Result<Answer> {
        let engine = self.gate.engine()?;
        let question = question(&engine);
        let asked = async {
            let question = question?;
            let (mut latest, silent_until) = (None, engine.silent_until());
            // What came too late says what time it is at the store, so that the next one does not, unless the clock
            // runs unevenly. It is no answer: who asks again has no more time for that.
            for _ in 0..3 {
                let asked = self.gate.layout().question(self.gate.key().clone(), question);
                let asked = asked.ok_or_else(|| Error::unsupported("latch", "this layout has no latches"))?;
                match engine.inquire_at(road, asked, latest).await? {
                    (sent, Answer::Late(at)) => engine.store.learn(sent, at),
                    (_, answer) => return Ok(answer),
                }
                latest = Some(silent_until);
            }
            let late = "the store finds every request too late; see whether its clock runs evenly";
            Err(Error::new(Kind::Unavailable, "latch", late))
        };
        asked.await.map_err(|error| self.gate.explain(error))
    }

    fn explain(&self, error: Error) -> Error {
        error.on_lock(self.name())
    }
}

impl<F: Face> Clone for Latch<F> {
    fn clone(&self) -> Self {
        Latch { gate: self.gate.clone(), plan: self.plan }
    }
}

impl Latch {
    /// Waits until it is open. Cancelling, by dropping the future, is safe at every await.
    ///
    /// # Errors
    /// `unavailable` when the store did not answer for `store_timeout`; `auth`, `foreign_layout` and `protocol` from
    /// the store; `closed`.
    pub async fn wait(&self) -> Result<()> {
        self.wait_within(None).await.map(|_| ())
    }

    /// Waits until it is open, for at most `timeout`: zero only looks, `None` waits for ever. Whether it is open.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    pub async fn wait_within(&self, timeout: Option<Duration>) -> Result<bool> {
        self.gate.pass_within(timeout).await.map(|passed| passed.is_some())
    }

    /// Counts it down by one, once; how many are still to come. An open one stays open. Two callers may be told the
    /// same number, where an answer was lost and asked for again: 0 does not mean that you were the last.
    ///
    /// # Errors
    /// `unavailable` when the store did not answer for `store_timeout`: whether it was counted down is then not known.
    /// `auth`, `foreign_layout` and `protocol` from the store; `closed`.
    pub async fn count_down(&self) -> Result<u32> {
        self.count_down_by(Road::Task).await
    }

    /// How many are still to come; of a latch that nobody used yet, its count. Makes none.
    ///
    /// # Errors
    /// As [`count_down`](Self::count_down).
    pub async fn count(&self) -> Result<u32> {
        self.count_by(Road::Task).await
    }

    /// Has it count from `count` (1 to 1,000,000), if it is open or nobody used it yet; else nothing changes. Whether
    /// it does.
    ///
    /// # Errors
    /// `invalid_config` for a number out of range; else as [`count_down`](Self::count_down).
    pub async fn try_set_count(&self, count: u32) -> Result<bool> {
        self.try_set_by(Road::Task, count).await
    }
}

impl Latch<Blocking> {
    /// See the async [`wait`](Latch::wait).
    ///
    /// # Errors
    /// As there.
    pub fn wait(&self) -> Result<()> {
        self.wait_within(None).map(|_| ())
    }

    /// See the async [`wait_within`](Latch::wait_within).
    ///
    /// # Errors
    /// As there.
    pub fn wait_within(&self, timeout: Option<Duration>) -> Result<bool> {
        self.gate.pass_within(timeout).map(|passed| passed.is_some())
    }

    /// See the async [`count_down`](Latch::count_down).
    ///
    /// # Errors
    /// As there.
    pub fn count_down(&self) -> Result<u32> {
        here(self.count_down_by(Road::Thread))
    }

    /// See the async [`count`](Latch::count).
    ///
    /// # Errors
    /// As there.
    pub fn count(&self) -> Result<u32> {
        here(self.count_by(Road::Thread))
    }

    /// See the async [`try_set_count`](Latch::try_set_count).
    ///
    /// # Errors
    /// As there.
    pub fn try_set_count(&self, count: u32) -> Result<bool> {
        here(self.try_set_by(Road::Thread, count))
    }
}
