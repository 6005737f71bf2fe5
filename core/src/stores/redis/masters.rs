//! What is asked of every master of a cluster: names, and whether each is fit. It is asked page by page, of one master
//! after the other, so that nothing has to be kept of one client between two requests.
//!
//! ```text
//!   list     cursor   ->  cursor' names...       of the master that the cursor is at
//!   examine  what.. cursor   ->  cursor' node reply slots   its reply, and how many slots nobody serves
//! ```
//!
//! A cursor is the number of a master, by its first slot, and that master's own cursor. What moves from one master to
//! another meanwhile may be told twice or not at all, as with any such list. Where a slot is on its way to another
//! master, one that stays is named instead.

use super::cluster::Cluster;
use super::failover::key_in;
use crate::error::{Error, Kind};
use crate::platform::clock;
use crate::protocol::{Arg, Reply, Request};
use crate::stores::adapter::not_sent;
use crate::stores::{Answered, Outcome};
use crate::time::Time;

/// The call by which names are asked for, page by page.
const LIST: &str = "list";

/// Whether every master is asked for this, one after the other.
pub(super) fn is_for_all(request: &Request) -> bool {
    matches!(request.call.name, LIST | "examine")
}

/// So many slots of one master may be on their way to others, or gone, before it is given up for now.
const TRIES: usize = 8;

/// The answer of the master that `request` has come to.
pub(super) async fn page(cluster: &Cluster, request: &Request, limit: Time) -> Answered {
    let mut moved = Vec::new();
    loop {
        match page_but(cluster, request, limit, &moved).await {
            Ok(answered) => return answered,
            Err(slot) if moved.len() < TRIES => moved.push(slot),
            Err(_) => {
                cluster.look_again();
                let message = "the slots of the cluster are being moved to other masters; try again";
                return not_sent(Error::new(Kind::Unavailable, "connect", message));
            }
        }
    }
}

/// The same, by a slot that is none of `moved`; or the slot that the master named another one for.
async fn page_but(cluster: &Cluster, request: &Request, limit: Time, moved: &[u16]) -> Result<Answered, u16> {
    let (cursor, rest) = match request.args.split_last() {
        Some((Arg::Text(cursor), rest)) => (&**cursor, rest),
        _ => ("", &[][..]),
    };
    let (number, own) = cursor.split_once(' ').unwrap_or((cursor, ""));
    let number = number.parse().unwrap_or(0);
    let (masters, unserved) = cluster.masters_by_slot(moved);
    let Some((slot, node)) = masters.get(number) else {
        return Ok(Answered { sent: clock::now(), outcome: Outcome::Replies(vec![nothing()]) });
    };
    let next = |own: &str| match own.is_empty() {
        false => format!("{number} {own}"),
        true if number + 1 < masters.len() => format!("{} ", number + 1),
        true => String::new(),
    };
    // A script needs a key of this master's that the user may name, and is told apart from it what to look for.
    let (before, behind) = request.key.split_once('*').unwrap_or((&request.key, ""));
    let here = key_in(before, *slot, behind).into();
    let asked = match request.call.name {
        LIST => Request::new(request.call, here, [own.into(), Arg::Text(request.key.clone())]),
        _ => Request { key: here, args: rest.into(), ..request.clone() },
    };
    let Answered { sent, outcome } = cluster.ask_master(node, asked, limit).await;
    if is_redirected(&outcome) {
        return Err(*slot);
    }
    let outcome = match (request.call.name, outcome) {
        (LIST, Outcome::Replies(replies)) => {
            Outcome::Replies(replies.into_iter().map(|page| turned(page, next)).collect())
        }
        (LIST, silent) => silent,
        (_, outcome) => {
            let said = match outcome {
                Outcome::Replies(mut replies) => replies.pop().unwrap_or(Reply::Nil),
                // The others are looked at all the same.
                _ => Reply::Silent,
            };
            let of = [Reply::Text(next("")), Reply::Text(node.shown()), said, Reply::Int(unserved)];
            Outcome::Replies(vec![Reply::List(of.into())])
        }
    };
    Ok(Answered { sent, outcome })
}

/// Whether another master is named for the slot. It is not followed: each is asked for what it has itself.
fn is_redirected(outcome: &Outcome) -> bool {
    let names_another =
        |reply: &Reply| matches!(reply, Reply::Error { code, .. } if matches!(&**code, "MOVED" | "ASK"));
    matches!(outcome, Outcome::Replies(replies) if replies.iter().any(names_another))
}

/// No page, and none behind it.
fn nothing() -> Reply {
    Reply::List(vec![Reply::Text(String::new())])
}

/// A page of one master whose cursor is that of all of them.
fn turned(page: Reply, next: impl Fn(&str) -> String) -> Reply {
    match page {
        Reply::List(mut list) => {
            if let Some(Reply::Text(cursor)) = list.first_mut() {
                *cursor = next(cursor);
            }
            Reply::List(list)
        }
        other => other,
    }
}
