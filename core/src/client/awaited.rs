//! Who awaits whose wait, for faces of languages in which a caller may wait for several things at once: they find that
//! out by their own means.

use super::{Client, Face, Lock};
use crate::driver::owners;
use crate::error::Error;
use crate::queue::OwnerId;
use crate::share::Share;

impl<F: Face> Client<F> {
    /// The owner whose wait never ends, and the error that it is to be told, where each of the owners in `awaited`
    /// releases what it holds only after the wait of the owner beside it. A wait is found that has no time limit, and
    /// whose lock was made [`for_owner`](Lock::for_owner). Nobody is refused: that is for the caller to do, who may ask
    /// again for the next.
    pub fn endless_wait(&self, awaited: &[(OwnerId, OwnerId)]) -> Option<(OwnerId, Error)> {
        let found = self.on_store(|engine| Ok(engine.waits.endless(engine, awaited)));
        let (waiter, error) = found.ok()??;
        Some((waiter, error.on_store(self.address())))
    }
}

impl<F: Face> Lock<F> {
    /// Whether one of `owners` holds what keeps others from it, by this client.
    pub fn is_kept_by(&self, owners: &[OwnerId]) -> bool {
        let reads = self.layout().share() == Some(Share::READ);
        self.on_store(|engine| Ok(owners::keeps_out(engine, self.key(), reads, owners))).unwrap_or(false)
    }
}
