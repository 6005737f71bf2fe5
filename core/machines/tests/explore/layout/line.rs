//! The queue of one lock, in memory.

use std::convert::Infallible;

use lockwright_machines::lock_cell::{LockStorage, Waiter};
use lockwright_machines::protocol::{AttemptId, InboxId};

#[derive(Clone, Debug, Default)]
pub struct Queued(pub Vec<Waiter>);

impl LockStorage for Queued {
    type Error = Infallible;

    fn join(&mut self, waiter: &Waiter) -> Result<u32, Infallible> {
        let at = self.0.iter().position(|w| w.owner.attempt == waiter.owner.attempt).unwrap_or_else(|| {
            self.0.push(waiter.clone());
            self.0.len() - 1
        });
        Ok(at as u32)
    }

    fn first(&mut self) -> Result<Option<Waiter>, Infallible> {
        Ok(self.0.first().cloned())
    }

    fn count(&mut self) -> Result<u32, Infallible> {
        Ok(self.0.len() as u32)
    }

    fn pop(&mut self) -> Result<Option<Waiter>, Infallible> {
        Ok((!self.0.is_empty()).then(|| self.0.remove(0)))
    }

    fn contains(&mut self, attempt: AttemptId) -> Result<bool, Infallible> {
        Ok(self.0.iter().any(|w| w.owner.attempt == attempt))
    }

    fn leave(&mut self, attempt: AttemptId) -> Result<(), Infallible> {
        self.0.retain(|w| w.owner.attempt != attempt);
        Ok(())
    }

    fn drop_inbox(&mut self, inbox: InboxId) -> Result<(), Infallible> {
        self.0.retain(|w| w.owner.inbox != inbox);
        Ok(())
    }
}
