//! What becomes of permits once they are held, of a semaphore whose permits are nodes in one directory, and whose users
//! stand in a line in another: looked at, given back, undone.
//!
//! ```text
//! renew     sync, exists the first of mine: same node, session -> renewed; otherwise gone
//! release   delete mine; several, or a create in doubt: list, delete all that begin with the attempt's prefix
//! undo      the same, then the line's
//! ```

use std::mem;
use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;

use super::line::{Line, Own};
use super::recipe::Recipe;
use super::sweep::Sweep;
use super::{EXISTS, Stat, after_sync, child, first, garbled, on, stat, synced};
use crate::error::{Error, Kind, Result};
use crate::lease::ReleaseOutcome;
use crate::protocol::{
    AttemptId, Grant, Input, Intent, Op, Previous, Protocol, Reply, Step, Term, Terms, Verdict, Wait,
};
use crate::token::Tokens;

/// See the [module](self).
#[derive(Clone, Debug, Hash)]
pub(super) struct Keeping {
    /// Where the permits lie.
    dir: Arc<str>,
    /// By which nodes of an attempt are called.
    recipe: Recipe,
    /// More than one permit is taken at once.
    several: bool,
    renewing: bool,
    released: Option<AttemptId>,
    release: Option<Sweep>,
    undo: Option<Undo>,
}

#[derive(Clone, Debug, Hash)]
enum Undo {
    Permits(Box<(Sweep, Terms, Option<Previous>)>),
    Line,
}

impl Keeping {
    pub(super) fn new(dir: Arc<str>, recipe: Recipe, several: bool) -> Self {
        Keeping { dir, recipe, several, renewing: false, released: None, release: None, undo: None }
    }

    /// Begins what an attempt that has `own` wants of what it has; `doubt` is that it may have more than is known.
    pub(super) fn begin(&mut self, intent: Intent, own: Option<&Own>, doubt: bool) -> Result<Step> {
        match intent {
            Intent::Acquire { .. } => {
                Err(Error::new(Kind::Internal, "acquire", "a semaphore cannot yield, yet it was asked to"))
            }
            Intent::Renew { terms, ttl } => self.renew(&terms, ttl, own),
            Intent::Release { terms, .. } => Ok(self.release(terms.attempt, own, doubt)),
            Intent::Undo { terms, prev } => Ok(self.undo(terms, prev)),
        }
    }

    /// Looks whether `own` is there yet, of somebody who wants it to last for `ttl`.
    fn renew(&mut self, terms: &Terms, ttl: Duration, own: Option<&Own>) -> Result<Step> {
        if ttl > terms.ttl {
            let message = "a permit on ZooKeeper lasts as long as its session; build it with a longer ttl instead";
            return Err(Error::unsupported("renew", message));
        }
        let own = own.ok_or_else(|| Error::new(Kind::Internal, "renew", "this attempt holds nothing"))?;
        self.renewing = true;
        Ok(Step::Ask(synced(&self.dir, [on(&EXISTS, &child(&self.dir, &own.name))])))
    }

    /// Gives back what the attempt has.
    fn release(&mut self, attempt: AttemptId, own: Option<&Own>, doubt: bool) -> Step {
        let again = self.released.replace(attempt) == Some(attempt);
        // Of several each is as good as the others: that any was there says that it was held.
        let own = own.filter(|_| !self.several).map(|own| own.name.clone());
        let prefixes = [self.recipe.prefix(attempt)].into_iter().collect();
        let sweep = Sweep::new(Op::Release, self.dir.clone(), prefixes, own, again).of_several();
        self.release.insert(sweep).begin(!self.several && !doubt)
    }

    fn undo(&mut self, terms: Terms, prev: Option<Previous>) -> Step {
        let attempts = [Some(terms.attempt), prev.as_ref().map(|prev| prev.terms.attempt)];
        let prefixes: SmallVec<_> = attempts.into_iter().flatten().map(|attempt| self.recipe.prefix(attempt)).collect();
        let mut sweep = Sweep::new(Op::Undo, self.dir.clone(), prefixes, None, false);
        let step = sweep.begin(false);
        self.undo = Some(Undo::Permits(Box::new((sweep, terms, prev))));
        step
    }

    /// The replies of one of these conversations, of somebody who has `own` and stood in `line`.
    pub(super) fn reply(&mut self, op: Op, replies: &[Reply], own: Option<&Own>, line: &mut Line) -> Result<Step> {
        match op {
            Op::Acquire => Ok(Step::Ignore),
            Op::Renew => self.renewed(replies, own),
            Op::Undo => self.undone(replies, line),
            Op::Release => {
                let Some(mut current) = self.release.take() else { return Ok(Step::Ignore) };
                let step = current.reply(replies)?;
                self.release = matches!(step, Step::Ask(_)).then_some(current);
                Ok(step)
            }
        }
    }

    fn renewed(&mut self, replies: &[Reply], own: Option<&Own>) -> Result<Step> {
        let (true, Some(own)) = (mem::take(&mut self.renewing), own) else { return Ok(Step::Ignore) };
        let found = stat(Op::Renew, first(Op::Renew, after_sync(Op::Renew, replies)?)?)?;
        Ok(Step::Done(match found {
            Some(stat) if stat == own.stat => Verdict::Renewed,
            _ => Verdict::Gone(ReleaseOutcome::Expired),
        }))
    }

    fn undone(&mut self, replies: &[Reply], line: &mut Line) -> Result<Step> {
        match self.undo.take() {
            None => Ok(Step::Ignore),
            Some(Undo::Permits(mut permits)) => match permits.0.reply(replies)? {
                Step::Done(Verdict::Undone) => {
                    let (_, terms, prev) = *permits;
                    self.undo = Some(Undo::Line);
                    Ok(line.step(Input::Begin(Intent::Undo { terms, prev })))
                }
                step => {
                    self.undo = Some(Undo::Permits(permits));
                    Ok(step)
                }
            },
            Some(Undo::Line) => {
                let step = line.step(Input::Reply(Op::Undo, replies));
                self.undo = matches!(step, Step::Ask(_)).then_some(Undo::Line);
                Ok(step)
            }
        }
    }
}

/// All that was wanted is `own`.
pub(super) fn granted(own: &[Own]) -> Result<Step> {
    let tokens = own.iter().map(|own| own.stat.czxid).min().and_then(Tokens::one);
    let tokens = Some(tokens.ok_or_else(|| garbled(Op::Acquire))?);
    Ok(Step::Done(Verdict::Granted(Grant { tokens, term: Term::FromRequest, prev: None })))
}

/// The node at `path` in `dir`, if this session made it; an attempt's nodes begin with `prefix`.
pub(super) fn own_of(dir: &str, prefix: &str, path: &str, stat: Stat) -> Result<Option<Own>> {
    let name = path.strip_prefix(dir).and_then(|path| path.strip_prefix('/'));
    let name = name.filter(|name| name.starts_with(prefix)).ok_or_else(|| garbled(Op::Acquire))?;
    Ok(stat.ours().then(|| Own { name: name.into(), stat }))
}

/// What a line says, but for what it failed with.
pub(super) fn not_failed(step: Step) -> Result<Step> {
    match step {
        Step::Done(Verdict::Failed(error)) => Err(error),
        other => Ok(other),
    }
}

/// A change is told; the timer only guards against a lost event.
pub(super) fn until_a_change(terms: &Terms) -> Step {
    Step::Wait(Wait { at: None, remaining: terms.ttl, position: 0, prev: None })
}
