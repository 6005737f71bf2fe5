//! Who reads comes to write, and who writes to read, without giving up what it has.
//!
//! ```text
//! to read    List:  sync, children            mine is not there: gone
//!            Make:  create a reader's node with the writer's number, or set the data of the one that there is;
//!                   sync, exists it
//!                                             it is of another session: gone
//!            Drop:  delete the writer's       changed; it was gone before the reader's was made: Lost
//!            Lost:  delete the reader's       gone
//! to write   Claim: create, children          mine is not there, or of another session: gone
//!                                             no other reader is before it: changed
//!                                             else Refuse
//!            Refuse: delete the writer's      not changed
//! ```
//!
//! A reader that comes to write keeps its reader's node, which stands before all writers that wait; the writer's behind
//! it keeps new readers out. That is nothing that Curator and kazoo would not understand, though they cannot do it. The
//! number of a writer that comes to read stays, as with Curator's `InterProcessReadWriteLock`: whoever writes next
//! waits for it. Its token stays, too, and stands in the node's data.

use std::sync::Arc;

use super::line::Own;
use super::recipe::{Recipe, numbered};
use super::{
    CHILDREN, CREATE, EPHEMERAL, EXISTS, SET, after_sync, child, created, delete, deleted, first, garbled, names, on,
    stat, synced,
};
use crate::error::{Error, Result};
use crate::lease::ReleaseOutcome;
use crate::protocol::{Arg, Op, Reply, Request, Requests, Step, Terms, Verdict};

/// See the [module](self).
#[derive(Clone, Debug, Hash)]
pub(super) struct Changing {
    dir: Arc<str>,
    prefix: Arc<str>,
    /// The words of a reader's node and of a writer's.
    read: &'static str,
    write: &'static str,
    card: Arc<str>,
    token: u64,
    own: Own,
    stage: Stage,
}

#[derive(Clone, Debug, Hash)]
enum Stage {
    /// There is nothing to be asked.
    Done,
    List,
    Make {
        name: Arc<str>,
        writers: Vec<Arc<str>>,
    },
    Drop {
        made: bool,
    },
    Lost,
    Claim,
    Refuse,
}

const OP: Op = Op::Renew;

/// What stands in the data of a node before the token that its holder was told.
const KEPT: &str = "\ttoken=";

/// A card, and the token that goes with it if it is not the node's own.
pub(super) fn split(data: &str) -> (&str, Option<u64>) {
    let kept = data.rsplit_once(KEPT).and_then(|(card, token)| Some((card, token.parse().ok()?)));
    kept.map_or((data, None), |(card, token)| (card, Some(token)))
}

impl Changing {
    /// Whoever holds by `own` comes to have so many `units`.
    ///
    /// # Errors
    /// `unsupported` for what has one holder.
    pub(super) fn begin(
        dir: &Arc<str>,
        recipe: Recipe,
        own: &Own,
        terms: &Terms,
        token: u64,
        units: u32,
    ) -> Result<(Self, Step)> {
        let (read, write) = recipe
            .pair()
            .ok_or_else(|| Error::unsupported("change", "this lock has one holder, who holds all of it"))?;
        let (dir, prefix, card, own) = (dir.clone(), recipe.prefix(terms.attempt), terms.card.clone(), own.clone());
        let mut changing = Changing { dir, prefix, read, write, card, token, own, stage: Stage::Done };
        let writes = changing.is_writer(&changing.own.name);
        let step = match (writes, units > 1) {
            (true, true) | (false, false) => Step::Done(Verdict::Changed(Some(token))),
            (true, false) => changing.ask(Stage::List, synced(&changing.dir, [on(&CHILDREN, &changing.dir)])),
            (false, true) => {
                let path = child(&changing.dir, &format!("{}{write}", changing.prefix));
                let make = Request::new(&CREATE, path, [Arg::Text(changing.card.clone())]);
                changing.ask(Stage::Claim, Requests::from_iter([make, on(&CHILDREN, &changing.dir)]))
            }
        };
        Ok((changing, step))
    }

    /// By what it is held when it is over.
    pub(super) fn into_own(self) -> Own {
        self.own
    }

    fn is_writer(&self, name: &str) -> bool {
        numbered(name, self.write).is_some()
    }

    fn is_mine(&self, name: &str) -> bool {
        name.starts_with(&*self.prefix)
    }

    fn ask(&mut self, stage: Stage, requests: Requests) -> Step {
        self.stage = stage;
        Step::Ask(requests)
    }

    fn deletes(&self, names: &[Arc<str>]) -> Requests {
        names.iter().map(|name| delete(child(&self.dir, name))).collect()
    }

    pub(super) fn reply(&mut self, replies: &[Reply]) -> Result<Step> {
        match std::mem::replace(&mut self.stage, Stage::Done) {
            Stage::Done => Ok(Step::Ignore),
            Stage::List => {
                let (_, names) = names(OP, first(OP, after_sync(OP, replies)?)?)?.unwrap_or_default();
                Ok(self.make(&names))
            }
            Stage::Make { name, writers } => self.made(name, &writers, replies),
            Stage::Drop { made } => {
                let mut was_there = !made;
                for reply in replies {
                    was_there |= deleted(OP, reply)?;
                }
                if was_there {
                    return Ok(Step::Done(Verdict::Changed(Some(self.token))));
                }
                let reader = [self.own.name.clone()];
                let requests = self.deletes(&reader);
                Ok(self.ask(Stage::Lost, requests))
            }
            Stage::Lost => Ok(gone()),
            Stage::Claim => self.claimed(replies),
            Stage::Refuse => {
                replies.iter().try_for_each(|reply| deleted(OP, reply).map(drop))?;
                Ok(Step::Done(Verdict::Changed(None)))
            }
        }
    }

    fn make(&mut self, names: &[&str]) -> Step {
        let (writers, readers): (Vec<&str>, Vec<&str>) =
            names.iter().copied().filter(|name| self.is_mine(name)).partition(|name| self.is_writer(name));
        let data: Arc<str> = format!("{}{KEPT}{}", self.card, self.token).into();
        let (call, name): (_, Arc<str>) = match (readers.first(), numbered(&self.own.name, self.write)) {
            // From before it came to write, or from a change whose answer was lost.
            (Some(name), _) => (&SET, (*name).into()),
            (None, Some(number)) if writers.contains(&&*self.own.name) => {
                (&EPHEMERAL, format!("{}{}{number}", self.prefix, self.read).into())
            }
            _ => return gone(),
        };
        let path = child(&self.dir, &name);
        let make = Request::new(call, path.clone(), [Arg::Text(data)]);
        let requests = [make].into_iter().chain(synced(&self.dir, [on(&EXISTS, &path)])).collect();
        let writers = writers.into_iter().map(Arc::from).collect();
        self.ask(Stage::Make { name, writers }, requests)
    }

    fn made(&mut self, name: Arc<str>, writers: &[Arc<str>], replies: &[Reply]) -> Result<Step> {
        let [make, reads @ ..] = replies else { return Err(garbled(OP)) };
        let made = match make {
            Reply::Nil => false,
            make => created(OP, make)?.is_some(),
        };
        match stat(OP, first(OP, after_sync(OP, reads)?)?)?.filter(|stat| stat.ours()) {
            None => Ok(gone()),
            Some(stat) => {
                self.own = Own { name, stat };
                if writers.is_empty() {
                    return Ok(Step::Done(Verdict::Changed(Some(self.token))));
                }
                let requests = self.deletes(writers);
                Ok(self.ask(Stage::Drop { made }, requests))
            }
        }
    }

    fn claimed(&mut self, replies: &[Reply]) -> Result<Step> {
        let [made, list] = replies else { return Err(garbled(OP)) };
        let Some((path, stat)) = created(OP, made)? else { return Ok(gone()) };
        let (session, names) = names(OP, list)?.unwrap_or_default();
        let name = path.rsplit_once('/').map_or(path, |(_, name)| name);
        let is_alive = stat.ours() && session == self.own.stat.session && names.contains(&&*self.own.name);
        let number =
            |name: &&str| [self.read, self.write].iter().find_map(|word| Some(numbered(name, word)?.to_owned()));
        let mut line: Vec<_> = names.iter().copied().filter_map(|name| Some((number(&name)?, name))).collect();
        line.sort();
        // Writers that wait do so for this one's reader's node. A reader that waits for one of them would read once
        // that one gives up.
        let mut before = line.iter().map(|(_, other)| *other).take_while(|other| *other != name);
        let is_alone = before.all(|other| self.is_writer(other) || self.is_mine(other));
        if is_alive && is_alone {
            self.own = Own { name: name.into(), stat };
            return Ok(Step::Done(Verdict::Changed(Some(stat.czxid))));
        }
        if !is_alive {
            return Ok(gone());
        }
        let writers: Vec<Arc<str>> =
            names.iter().filter(|name| self.is_mine(name) && self.is_writer(name)).map(|name| (*name).into()).collect();
        let requests = self.deletes(&writers);
        Ok(self.ask(Stage::Refuse, requests))
    }
}

fn gone() -> Step {
    Step::Done(Verdict::Gone(ReleaseOutcome::Expired))
}
