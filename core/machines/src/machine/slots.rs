//! The sessions of a machine. Mostly there is one; where very many tasks want their own place at the store there are as
//! many, and no step of one of them looks at all the others.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::ops::{Deref, Index, IndexMut};

use smallvec::SmallVec;

use crate::protocol::AttemptId;
use crate::queue::ContenderId;
use crate::session::{Action, Session};
use crate::time::Time;

/// From how many on they are found by an index.
const MANY: usize = 16;

pub(super) struct Slot {
    pub(super) id: u64,
    /// Whom it stands for; `None` once the queue has nothing to do with it any more.
    pub(super) contender: Option<ContenderId>,
    pub(super) session: Session,
    /// Its contract ended; only what is left at the store keeps it.
    pub(super) idle: bool,
    /// It listens on its session's channel.
    pub(super) listens: bool,
    /// Others come before it who have no place yet.
    pub(super) behind: bool,
}

impl Slot {
    /// Whether a place that somebody left may still be known to the store.
    fn undoes(&self) -> bool {
        self.contender.is_none() && !self.idle && self.session.is_undoing()
    }

    /// When something of its session is due at the latest.
    fn due(&self, now: Time) -> Option<Time> {
        // While a renewal is unanswered its lease's end is what matters; but the answer will ask for an earlier look.
        let looks = [self.session.poll_timeout(), self.session.next_renewal(now)];
        looks.into_iter().flatten().min().filter(|_| !self.idle)
    }
}

/// See the [module](self). Of few all are looked at. Of many, whatever is lent out to be changed is taken to have been,
/// so it is what [`next_action`](Self::next_action) asks and the index is corrected by.
pub(super) struct Slots {
    all: SmallVec<[Slot; 1]>,
    many: Option<Box<Many>>,
}

/// The index of many.
#[derive(Default)]
struct Many {
    by_id: HashMap<u64, usize>,
    by_contender: HashMap<ContenderId, usize>,
    by_attempt: HashMap<AttemptId, usize>,
    by_due: BTreeSet<(Time, u64)>,
    /// The one that is not in use, if there is one.
    idle: Option<usize>,
    /// How many undo what nobody wants any more.
    undoing: usize,
    /// Under what each of them is found.
    filed: Vec<Filed>,
    /// Which were lent out since they had no more actions.
    touched: VecDeque<u32>,
    /// Which were touched in this step.
    worked: Vec<u32>,
    /// Which were lent out since they were filed: very many may be before the first of them says what it wants done.
    unfiled: Vec<u32>,
}

#[derive(Clone, Copy, PartialEq)]
struct Filed {
    id: u64,
    contender: Option<ContenderId>,
    attempt: AttemptId,
    due: Option<Time>,
    idle: bool,
    undoes: bool,
}

impl Many {
    fn forget(&mut self, at: usize) {
        let Filed { id, contender, attempt, due, idle, undoes } = self.filed[at];
        self.idle.take_if(|_| idle);
        self.undoing -= usize::from(undoes);
        self.by_id.remove(&id);
        self.by_attempt.remove(&attempt);
        contender.map(|contender| self.by_contender.remove(&contender));
        due.map(|due| self.by_due.remove(&(due, id)));
    }

    fn find(&mut self, at: usize) {
        let Filed { id, contender, attempt, due, idle, undoes } = self.filed[at];
        self.idle = self.idle.or(idle.then_some(at));
        self.undoing += usize::from(undoes);
        self.by_id.insert(id, at);
        self.by_attempt.insert(attempt, at);
        contender.map(|contender| self.by_contender.insert(contender, at));
        due.map(|due| self.by_due.insert((due, id)));
    }

    fn file(&mut self, at: usize, slot: &Slot, now: Time) {
        let Slot { id, contender, idle, .. } = *slot;
        let (attempt, due, undoes) = (slot.session.attempt(), slot.due(now), slot.undoes());
        let filed = Filed { id, contender, attempt, due, idle, undoes };
        if self.filed.get(at) == Some(&filed) {
            return;
        }
        match self.filed.get(at) {
            Some(_) => {
                self.forget(at);
                self.filed[at] = filed;
            }
            None => self.filed.push(filed),
        }
        self.find(at);
    }

    /// The one at `at` goes, and the last one comes in its place.
    fn remove(&mut self, at: usize) {
        let last = self.filed.len() - 1;
        self.forget(at);
        if at < last {
            self.forget(last);
        }
        self.filed.swap_remove(at);
        if at < last {
            self.find(at);
        }
        self.worked = moved(std::mem::take(&mut self.worked).into_iter(), at, last).collect();
        self.touched = moved(std::mem::take(&mut self.touched).into_iter(), at, last).collect();
    }

    fn touch(&mut self, place: u32) {
        if self.touched.back() != Some(&place) {
            self.touched.push_back(place);
        }
        if self.unfiled.last() != Some(&place) {
            self.unfiled.push(place);
        }
    }

    fn next_action(&mut self, all: &mut [Slot]) -> Option<(usize, Action)> {
        while let Some(place) = self.touched.front().copied() {
            let at = place as usize;
            if let Some(action) = all[at].session.poll_action() {
                return Some((at, action));
            }
            self.touched.pop_front();
            self.worked.push(place);
        }
        None
    }
}

/// Places after a removal at `at`, where the `last` comes instead.
fn moved(places: impl Iterator<Item = u32>, at: usize, last: usize) -> impl Iterator<Item = u32> {
    let left = places.filter(move |place| *place as usize != at);
    left.map(move |place| if place as usize == last { at as u32 } else { place })
}

impl Slots {
    pub(super) fn new() -> Self {
        Slots { all: SmallVec::new(), many: None }
    }

    /// A copy in the same state, which has no index yet.
    pub(super) fn duplicate(&self) -> Self {
        let copy = |slot: &Slot| Slot { session: slot.session.duplicate(), ..*slot };
        Slots { all: self.all.iter().map(copy).collect(), many: None }
    }

    /// Has `look` see those that took part in this step, or all of few, until it says that this is enough; whether it
    /// did.
    pub(super) fn any_worked(&mut self, mut look: impl FnMut(&mut Slot) -> bool) -> bool {
        let Slots { all, many } = self;
        match many {
            Some(many) => many.worked.iter().any(|at| look(&mut all[*at as usize])),
            None => all.iter_mut().any(look),
        }
    }

    /// The same of each of them.
    pub(super) fn each_worked(&mut self, mut change: impl FnMut(&mut Slot)) {
        self.any_worked(|slot| {
            change(slot);
            false
        });
    }

    /// To be changed in what no step depends on.
    pub(super) fn aside(&mut self, at: usize) -> &mut Slot {
        &mut self.all[at]
    }

    /// A step begins.
    pub(super) fn begin(&mut self) {
        if let Some(many) = &mut self.many {
            many.worked.clear();
        }
    }

    /// Where it is that has this id.
    pub(super) fn position(&mut self, id: u64, now: Time) -> Option<usize> {
        match self.filed(now) {
            Some(many) => many.by_id.get(&id).copied(),
            None => self.all.iter().position(|slot| slot.id == id),
        }
    }

    /// Where it is that stands for `contender`.
    pub(super) fn position_of(&mut self, contender: ContenderId, now: Time) -> Option<usize> {
        match self.filed(now) {
            Some(many) => many.by_contender.get(&contender).copied(),
            None => self.all.iter().position(|slot| slot.contender == Some(contender)),
        }
    }

    /// Where they are that an event for `attempt` may concern: all of few.
    pub(super) fn positions_for(&mut self, attempt: AttemptId, now: Time) -> SmallVec<[usize; 4]> {
        match self.filed(now).map(|many| many.by_attempt.get(&attempt).copied()) {
            Some(Some(at)) => SmallVec::from_iter([at]),
            // Of an attempt before the present one.
            Some(None) | None => (0..self.all.len()).collect(),
        }
    }

    /// Those of which something may be due, to be changed.
    pub(super) fn each_due(&mut self, now: Time, mut change: impl FnMut(&mut Slot)) {
        let due: Vec<usize> = match self.filed(now) {
            Some(many) => {
                let due = many.by_due.range(..=(now, u64::MAX));
                due.filter_map(|(_, id)| many.by_id.get(id).copied()).collect()
            }
            None => return self.all.iter_mut().for_each(change),
        };
        due.into_iter().for_each(|at| change(&mut self[at]));
    }

    /// When the first of them is due.
    pub(super) fn first_due(&mut self, now: Time) -> Option<Time> {
        match self.filed(now) {
            Some(many) => many.by_due.first().map(|(due, _)| *due),
            None => self.all.iter().filter_map(|slot| slot.due(now)).min(),
        }
    }

    /// The index, as things are now; none of few.
    #[inline]
    fn filed(&mut self, now: Time) -> Option<&Many> {
        if self.many.is_none() && self.all.len() <= MANY { None } else { Some(self.filed_anew(now)) }
    }

    fn filed_anew(&mut self, now: Time) -> &Many {
        let Slots { all, many } = self;
        let many = many.get_or_insert_with(|| {
            let mut many = Box::<Many>::default();
            all.iter().enumerate().for_each(|(at, slot)| many.file(at, slot, now));
            many.worked = (0..all.len() as u32).collect();
            many.touched = (0..all.len() as u32).collect();
            many
        });
        // In the order in which they were lent out, which has new ones as they came.
        let mut unfiled = std::mem::take(&mut many.unfiled);
        unfiled.drain(..).for_each(|at| many.file(at as usize, &all[at as usize], now));
        many.unfiled = unfiled;
        many
    }

    /// Whether a place that somebody left may still be known to the store.
    pub(super) fn is_undoing(&mut self, now: Time) -> bool {
        match self.filed(now) {
            Some(many) => many.undoing > 0,
            None => self.all.iter().any(Slot::undoes),
        }
    }

    /// Where one is that is not in use.
    pub(super) fn idle(&mut self, now: Time) -> Option<usize> {
        match self.filed(now) {
            Some(many) => many.idle,
            None => self.all.iter().position(|slot| slot.idle),
        }
    }

    pub(super) fn push(&mut self, slot: Slot) -> usize {
        self.all.push(slot);
        let at = self.all.len() - 1;
        if let Some(many) = &mut self.many {
            many.touch(at as u32);
        }
        at
    }

    pub(super) fn remove(&mut self, at: usize, now: Time) {
        self.filed(now);
        if let Some(many) = &mut self.many {
            many.remove(at);
        }
        self.all.swap_remove(at);
        if self.all.len() <= MANY / 2 && self.many.take().is_some() {
            self.all.shrink_to_fit();
        }
    }

    /// What one of them wants done, and which.
    pub(super) fn next_action(&mut self) -> Option<(usize, Action)> {
        match &mut self.many {
            Some(many) => many.next_action(&mut self.all),
            None => self.all.iter_mut().enumerate().find_map(|(at, slot)| Some((at, slot.session.poll_action()?))),
        }
    }

    /// Takes out the only one there is.
    pub(super) fn take_only(&mut self) -> Option<Slot> {
        debug_assert!(self.all.len() <= 1 && self.many.is_none());
        self.all.pop()
    }

    /// All that are in use, to be changed.
    pub(super) fn each(&mut self, mut change: impl FnMut(&mut Slot)) {
        for at in 0..self.all.len() {
            if !self.all[at].idle {
                change(&mut self[at]);
            }
        }
    }
}

impl Deref for Slots {
    type Target = [Slot];

    fn deref(&self) -> &[Slot] {
        &self.all
    }
}

impl Index<usize> for Slots {
    type Output = Slot;

    fn index(&self, at: usize) -> &Slot {
        &self.all[at]
    }
}

impl IndexMut<usize> for Slots {
    fn index_mut(&mut self, at: usize) -> &mut Slot {
        if let Some(many) = &mut self.many {
            many.touch(at as u32);
        }
        &mut self.all[at]
    }
}
