//! What those who explore what could happen next ask of a machine: copies, beliefs, fingerprints.

use std::hash::{Hash, Hasher};

use super::LockMachine;
use super::environment::{Handles, Hold};
use crate::protocol::AttemptId;
use crate::queue::{HoldId, Refusal};
use crate::relative::Relative;
use crate::session::RequestId;
use crate::time::Time;

impl<H: Handles> LockMachine<H> {
    /// A copy in the same state.
    pub fn duplicate(&self) -> Self {
        LockMachine {
            queue: self.queue.clone(),
            slots: self.slots.duplicate(),
            tasks: self.tasks.clone(),
            parting: self.parting.clone(),
            holds: self.holds.clone(),
            releases: self.releases.clone(),
            wishes: self.wishes.clone(),
            failure: self.failure.clone(),
            card: self.card.clone(),
            ..*self
        }
    }

    /// Until when whoever has this hold may believe so, if it is in force.
    pub fn valid_until(&self, hold: HoldId) -> Option<Time> {
        let contender = self.queue.holder(hold)?;
        let slot = self.slots.iter().find(|slot| slot.contender == Some(contender))?;
        slot.session.valid_until()
    }

    /// Every attempt whose session believes to hold, and until when.
    pub fn beliefs(&self) -> impl Iterator<Item = (AttemptId, Time)> {
        self.slots.iter().filter_map(|slot| Some((slot.session.attempt(), slot.session.valid_until()?)))
    }

    /// Whether an answer to `id` would be taken.
    pub fn awaits(&self, slot: u64, id: RequestId) -> bool {
        self.slots.iter().any(|known| known.id == slot && known.session.awaits(id))
    }

    /// Where the contender of `slot` stands among those there are: its number only matters by that.
    pub fn place_of(&self, slot: u64) -> Option<usize> {
        self.slots.iter().position(|known| known.id == slot)
    }

    /// Feeds everything that later answers depend on to `state`, in the names of `view`. When a task came is left out,
    /// which matters only by the time limit that was set then, and whether it was said to wait, of which only notices
    /// tell.
    pub fn fingerprint(&self, view: &impl Relative, state: &mut impl Hasher) {
        self.queue.fingerprint(view, state);
        (self.slots.len(), self.tasks.len(), self.parting.len()).hash(state);
        (self.holds.len(), self.releases.len(), self.wishes.len(), self.closed).hash(state);
        for slot in self.slots.iter() {
            (slot.contender, slot.idle, slot.listens, slot.behind).hash(state);
            slot.session.fingerprint(view, state);
        }
        for task in self.tasks.iter() {
            (task.id, task.insists, task.hurries).hash(state);
            task.parts.as_ref().map(|why| matches!(why, Refusal::Failed(_))).hash(state);
        }
        for (by, task) in self.parting.iter() {
            (view.ahead(*by), task).hash(state);
        }
        for hold in &self.holds {
            (hold.id(), hold.shown().map(|token| view.token(token.n))).hash(state);
        }
        for release in self.releases.iter() {
            let asked = release.asked.map(|slot| self.place_of(slot));
            (release.hold, asked, release.heir.map(|secret| view.attempt(secret))).hash(state);
        }
        for wish in self.wishes.iter() {
            (self.place_of(wish.slot), wish.changes, view.ahead(wish.until)).hash(state);
        }
    }
}
