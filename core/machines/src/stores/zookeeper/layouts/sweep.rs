//! Giving back: the release and undo conversations of layouts whose nodes begin with a prefix of their own.
//!
//! ```text
//! begin   the node is known          Own:  delete it
//!         unknown, or not the only   List: sync, children
//! Own     deleted, release           released
//!         NoNode, or undo            List
//! List    none of mine               the outcome
//!         some                       All:  delete each
//! All     deleted | NoNode, each     the outcome
//! ```

use std::sync::Arc;

use smallvec::SmallVec;

use super::{CHILDREN, after_sync, child, delete, deleted, first, garbled, names, on, synced};
use crate::error::Result;
use crate::lease::ReleaseOutcome;
use crate::protocol::{Op, Reply, Requests, Step, Verdict};

/// Deletes what attempts left behind. The node that is known goes first and by name: a directory may be closed to
/// reading.
#[derive(Clone, Debug, Hash)]
pub(super) struct Sweep {
    op: Op,
    dir: Arc<str>,
    prefixes: SmallVec<[Arc<str>; 2]>,
    own: Option<Arc<str>>,
    again: bool,
    others: bool,
    /// That others are there does not say that they took it.
    of_several: bool,
    stage: Stage,
}

#[derive(Clone, Debug, Hash)]
enum Stage {
    Own,
    List,
    /// For each delete, whether it concerns the node by which the lock was held.
    All(Vec<bool>),
}

impl Sweep {
    pub(super) fn new(
        op: Op,
        dir: Arc<str>,
        prefixes: SmallVec<[Arc<str>; 2]>,
        own: Option<Arc<str>>,
        again: bool,
    ) -> Self {
        Sweep { op, dir, prefixes, own, again, others: false, of_several: false, stage: Stage::List }
    }

    /// The same where several hold at once.
    pub(super) fn of_several(self) -> Self {
        Sweep { of_several: true, ..self }
    }

    pub(super) fn begin(&mut self, certain: bool) -> Step {
        let Some(own) = self.own.as_ref().filter(|_| certain) else { return self.list() };
        self.stage = Stage::Own;
        Step::Ask(Requests::from_iter([delete(child(&self.dir, own))]))
    }

    fn list(&mut self) -> Step {
        self.stage = Stage::List;
        Step::Ask(synced(&self.dir, [on(&CHILDREN, &self.dir)]))
    }

    pub(super) fn reply(&mut self, replies: &[Reply]) -> Result<Step> {
        match &self.stage {
            Stage::Own if deleted(self.op, first(self.op, replies)?)? && self.op == Op::Release => Ok(self.done(true)),
            Stage::Own => Ok(self.list()),
            Stage::List => {
                let names = names(self.op, first(self.op, after_sync(self.op, replies)?)?)?.unwrap_or_default().1;
                let own = |name: &&str| self.prefixes.iter().any(|prefix| name.starts_with(&**prefix));
                let (mine, others): (Vec<&str>, Vec<&str>) = names.into_iter().partition(own);
                self.others = !others.is_empty() && !self.of_several;
                if mine.is_empty() {
                    return Ok(self.done(false));
                }
                let held = mine.iter().map(|name| self.own.as_ref().is_none_or(|own| **own == **name)).collect();
                self.stage = Stage::All(held);
                Ok(Step::Ask(mine.into_iter().map(|name| delete(child(&self.dir, name))).collect()))
            }
            Stage::All(held) if held.len() != replies.len() => Err(garbled(self.op)),
            Stage::All(held) => {
                let mut freed = false;
                for (reply, held) in replies.iter().zip(held) {
                    freed |= deleted(self.op, reply)? && *held;
                }
                Ok(self.done(freed))
            }
        }
    }

    fn done(&self, freed: bool) -> Step {
        Step::Done(match self.op {
            Op::Undo => Verdict::Undone,
            _ if freed => Verdict::Released(ReleaseOutcome::Released),
            _ if self.again => Verdict::Released(ReleaseOutcome::Unknown),
            _ if self.others => Verdict::Released(ReleaseOutcome::StolenBy(String::new())),
            _ => Verdict::Released(ReleaseOutcome::Expired),
        })
    }
}
