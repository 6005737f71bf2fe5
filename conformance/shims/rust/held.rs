//! What a command wants to hold, and what it holds: one lock, several, or a segment.

use std::time::Duration;

use lockwright::lease::{LossReason, ReleaseOutcome};
use lockwright::multi::{MultiGuard, MultiLock};
use lockwright::striped::Segment;
use lockwright::{Client, Error, Guard, Kind, Lock, Result};
use serde_json::{Value, json};

use crate::way::Way;
use crate::{builder_of, lock_of, plain};

pub(crate) enum Target<W: Way> {
    One(Lock<W>),
    /// Several, and which of them has the token that is told.
    All(MultiLock<W>, String),
}

pub(crate) enum Held<W: Way> {
    One(Guard<W>),
    All(MultiGuard<W>, String),
    Part(Segment<W>),
}

impl<W: Way> Target<W> {
    pub(crate) fn of(client: &Client<W>, command: &Value, name: &str) -> Result<Self> {
        let Some(with) = command["with"].as_array() else { return lock_of(client, command, name).map(Target::One) };
        let last = plain(name);
        let mut names: Vec<String> = with.iter().filter_map(Value::as_str).map(plain).collect();
        names.push(last.clone());
        let options = builder_of(client, command, name)?.current_options().clone();
        Ok(Target::All(client.multi_lock_with(names, &options)?, last))
    }

    pub(crate) async fn acquire(&self) -> Result<Held<W>> {
        match self {
            Target::One(lock) => W::acquire(lock).await.map(Held::One),
            Target::All(lock, name) => Ok(Held::All(W::acquire_all(lock).await?, name.clone())),
        }
    }

    pub(crate) async fn try_acquire(&self) -> Result<Option<Held<W>>> {
        match self {
            Target::One(lock) => Ok(W::try_acquire(lock).await?.map(Held::One)),
            Target::All(lock, name) => {
                let held = W::try_acquire_all(lock).await?;
                Ok(held.map(|guard| Held::All(guard, name.clone())))
            }
        }
    }
}

impl<W: Way> Held<W> {
    /// The guard, where there is one.
    pub(crate) fn one(&self) -> Result<&Guard<W>> {
        match self {
            Held::One(guard) => Ok(guard),
            Held::Part(segment) => Ok(segment),
            Held::All(..) => Err(several()),
        }
    }

    pub(crate) fn into_one(self) -> Result<Guard<W>> {
        match self {
            Held::One(guard) => Ok(guard),
            Held::Part(segment) => Ok(segment.into_guard()),
            Held::All(..) => Err(several()),
        }
    }

    pub(crate) fn token(&self) -> u64 {
        match self {
            Held::All(guard, name) => guard.token_of(name).map_or(0, |token| token.n),
            Held::One(guard) => guard.token().n,
            Held::Part(segment) => segment.token().n,
        }
    }

    pub(crate) fn is_held(&self) -> bool {
        match self {
            Held::All(guard, _) => guard.is_held(),
            Held::One(guard) => guard.is_held(),
            Held::Part(segment) => segment.is_held(),
        }
    }

    pub(crate) fn remaining(&self) -> Duration {
        match self {
            Held::All(guard, _) => guard.remaining(),
            Held::One(guard) => guard.remaining(),
            Held::Part(segment) => segment.remaining(),
        }
    }

    pub(crate) fn why_lost(&self) -> Option<LossReason> {
        match self {
            Held::All(guard, _) => guard.why_lost().map(|(_, why)| why),
            Held::One(guard) => guard.why_lost(),
            Held::Part(segment) => segment.why_lost(),
        }
    }

    pub(crate) fn release_requested(&self) -> bool {
        self.one().is_ok_and(Guard::release_requested)
    }

    pub(crate) fn on_release_requested(&self, callback: Box<dyn FnOnce() + Send>) {
        if let Ok(guard) = self.one() {
            guard.on_release_requested(callback);
        }
    }

    pub(crate) fn depth(&self) -> u32 {
        self.one().map_or(1, Guard::depth)
    }

    pub(crate) fn shown(&self) -> Value {
        json!({ "token": self.token(), "depth": self.depth(), "remaining": self.remaining().as_secs_f64() })
    }

    pub(crate) async fn release(self) -> Result<ReleaseOutcome> {
        match self {
            Held::All(guard, _) => W::release_all(guard).await,
            Held::One(guard) => W::release(guard).await,
            Held::Part(segment) => W::release(segment.into_guard()).await,
        }
    }

    pub(crate) async fn sold_out(self) -> Result<ReleaseOutcome> {
        match self {
            Held::Part(segment) => W::sold_out(segment).await,
            _ => Err(Error::new(Kind::Internal, "shim", "that is no segment")),
        }
    }
}

fn several() -> Error {
    Error::new(Kind::Unsupported, "shim", "several locks have no such thing in common")
}
