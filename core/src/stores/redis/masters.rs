//! What is asked of every master of a cluster: names, and whether each is fit. It is asked page by page, of one master
//! after the other, so that nothing has to be kept of one client between two requests.
//!
//! ```text
//!   list     cursor   ->  cursor' names...       of the master that the cursor is at
//!   examine  what.. cursor   ->  cursor' node reply slots   its reply, and how many slots nobody serves
//! ```
//!
//! A cursor is the number of a master, by its first slot, and that master's own cursor. What moves from one master to
//! another meanwhile may be told twice or not at all, as with any such list.

use super::cluster::Cluster;
use super::failover::key_in;
use crate::platform::clock;
use crate::protocol::{Arg, Reply, Request};
use crate::stores::{Answered, Outcome};
use crate::time::Time;

/// The call by which names are asked for, page by page.
const LIST: &str = "list";

/// Whether every master is asked for this, one after the other.
pub(super) fn is_for_all(request: &Request) -> bool {
    matches!(request.call.name, LIST | "examine")
}

/// The answer of the master that `request` has come to.
pub(super) async fn page(cluster: &Cluster, request: &Request, limit: Time) -> Answered {
    let (cursor, rest) = match request.args.split_last() {
        Some((Arg::Text(cursor), rest)) => (&**cursor, rest),
        _ => ("", &[][..]),
    };
    let (number, own) = cursor.split_once(' ').unwrap_or((cursor, ""));
    let number = number.parse().unwrap_or(0);
    let (masters, unserved) = cluster.masters_by_slot();
    let Some((slot, node)) = masters.get(number) else {
        return Answered { sent: clock::now(), outcome: Outcome::Replies(vec![nothing()]) };
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
    Answered { sent, outcome }
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
