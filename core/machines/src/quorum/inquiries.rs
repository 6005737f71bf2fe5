//! What is asked about locks on several nodes, of all of them at once, and what their answers come to.

use std::sync::Arc;
use std::time::Duration;

use super::machine::Shape;
use super::majority;
use crate::error::{Error, Kind, Result};
use crate::lease::{Holder, Inspection};
use crate::protocol::{Inquiry, Layout, Node, Reply, Requests};

/// What a node answered; none where it was silent.
type Heard<T> = Option<Result<T>>;

/// Has all these conversations, each with the node of its place, as one; `finish` is told what each ended with, and
/// nothing of a node that was silent.
pub fn everywhere<'a, T: Send + 'a, U: Send + 'a>(
    talks: Vec<Option<Inquiry<'a, T>>>,
    finish: impl FnOnce(Vec<Option<Result<T>>>) -> Inquiry<'a, U> + Send + 'a,
) -> Inquiry<'a, U> {
    let mut requests = Requests::new();
    let mut counts = Vec::with_capacity(talks.len());
    for (node, talk) in talks.iter().enumerate() {
        let asks = talk.as_ref().map_or(&[][..], Inquiry::asks);
        counts.push(asks.len());
        requests.extend(asks.iter().map(|request| request.clone().at(Node(node as u16))));
    }
    if requests.is_empty() {
        let ended = |talk| match talk {
            Some(Inquiry::Done(result)) => Some(result),
            _ => None,
        };
        return finish(talks.into_iter().map(ended).collect());
    }
    Inquiry::ask(requests, move |replies| {
        let mut left = replies;
        let mut talks = talks;
        for (talk, count) in talks.iter_mut().zip(counts) {
            let (own, rest) = left.split_at(count.min(left.len()));
            left = rest;
            let is_silent = own.iter().any(|reply| matches!(reply, Reply::Silent | Reply::Unsent));
            *talk = match talk.take() {
                Some(Inquiry::Ask(..)) if is_silent || own.len() < count => None,
                Some(Inquiry::Ask(_, next)) => Some(next(own)),
                other => other,
            };
        }
        everywhere(talks, finish)
    })
}

/// The answers, if a majority answered; else why not.
fn of_majority<T>(shape: &Shape, operation: &'static str, heard: Vec<Heard<T>>) -> Result<Vec<T>> {
    let (nodes, mut answers, mut silent, mut refused) = (heard.len(), Vec::new(), Vec::new(), None);
    for (heard, address) in heard.into_iter().zip(&shape.addresses) {
        match heard {
            Some(Ok(answer)) => answers.push(answer),
            Some(Err(error)) => refused = refused.or(Some(error)),
            None => silent.push(&**address),
        }
    }
    match refused {
        _ if answers.len() >= majority(nodes) => Ok(answers),
        Some(error) => Err(error),
        None => {
            let message = format!("too few of {nodes} nodes answer; down or silent: {}", silent.join(", "));
            Err(Error::new(Kind::Quorum, operation, message))
        }
    }
}

/// A look: whoever has the lock on a majority holds it, and the rest is on its way in or out. Where the token is
/// `agreed`, whoever has it under different ones is on its way, too.
pub(super) fn inspect<'a>(
    shape: &Arc<Shape>,
    agreed: bool,
    looks: Vec<Inquiry<'a, Inspection>>,
) -> Inquiry<'a, Inspection> {
    let shape = shape.clone();
    everywhere(looks.into_iter().map(Some).collect(), move |heard| {
        let nodes = heard.len();
        Inquiry::Done(of_majority(&shape, "inspect", heard).map(|seen| together(nodes, agreed, seen)))
    })
}

fn together(nodes: usize, agreed: bool, seen: Vec<Inspection>) -> Inspection {
    let holder = of_most(nodes, agreed, seen.iter().filter_map(|seen| seen.holder.as_ref()));
    let what = seen.iter().find(|seen| holder.is_none() || seen.holder.is_some()).or(seen.first());
    let mut all = what.cloned().unwrap_or_else(|| Inspection::of_nothing("", ""));
    if let (Some(shared), None) = (&mut all.shared, &holder) {
        shared.holders.clear();
    }
    all.holder = holder;
    all
}

/// The holder that most nodes have, if these are a majority: with the highest tokens, and for as long as a majority
/// keeps it.
fn of_most<'a>(nodes: usize, agreed: bool, holders: impl Iterator<Item = &'a Holder> + Clone) -> Option<Holder> {
    let is_same =
        |of: &Holder, other: &Holder| other.owner == of.owner && (!agreed || other.first_token == of.first_token);
    let same = |of: &Holder| holders.clone().filter(|other| is_same(of, other)).collect::<Vec<_>>();
    let kept = holders.clone().map(same).find(|same| same.len() >= majority(nodes))?;
    let mut lasts: Vec<Duration> = kept.iter().map(|holder| holder.remaining).collect();
    lasts.sort_unstable_by(|a, b| b.cmp(a));
    let highest = kept.iter().max_by_key(|holder| holder.last_token)?;
    Some(Holder { remaining: lasts[majority(nodes) - 1], ..(**highest).clone() })
}

/// Takes the lock from whoever has it under `token` on one node, wherever it has it: each node has its own tokens.
pub(super) fn break_hold<'a>(
    shape: &Arc<Shape>,
    each: Vec<(&'a dyn Layout, Arc<str>)>,
    token: u64,
) -> Inquiry<'a, bool> {
    let shape = shape.clone();
    let looks = each.iter().map(|(layout, key)| Some(layout.inspect("", key.clone()))).collect();
    everywhere(looks, move |heard: Vec<Heard<Inspection>>| {
        let holders: Vec<Option<Holder>> =
            heard.iter().map(|heard| heard.as_ref()?.as_ref().ok()?.holder.clone()).collect();
        if let Err(error) = of_majority(&shape, "break", heard) {
            return Inquiry::Done(Err(error));
        }
        let is_meant = |holder: &&Holder| (holder.first_token..=holder.last_token).contains(&token);
        let Some(owner) = holders.iter().flatten().find(is_meant).map(|holder| holder.owner.clone()) else {
            return Inquiry::Done(Ok(false));
        };
        let breaks = each.into_iter().zip(&holders).map(|((layout, key), holder)| {
            let holder = holder.as_ref().filter(|holder| holder.owner == owner)?;
            Some(layout.break_hold(key, holder.first_token))
        });
        everywhere(breaks.collect(), |heard| {
            let mut broken = false;
            for heard in heard.into_iter().flatten() {
                match heard {
                    Ok(done) => broken |= done,
                    Err(error) => return Inquiry::Done(Err(error)),
                }
            }
            Inquiry::Done(Ok(broken))
        })
    })
}

/// Every name that a node knows.
pub(super) fn list<'a>(shape: &Arc<Shape>, lists: Vec<Inquiry<'a, Vec<String>>>) -> Inquiry<'a, Vec<String>> {
    let shape = shape.clone();
    everywhere(lists.into_iter().map(Some).collect(), move |heard| {
        Inquiry::Done(of_majority(&shape, "list", heard).map(|lists| lists.into_iter().flatten().collect()))
    })
}
