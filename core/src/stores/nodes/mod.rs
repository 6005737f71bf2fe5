//! Several stores as one, each a node of a quorum: every request goes to its node, all of a write at once. What a
//! majority is, and what follows from it, is for the machines to say.

mod address;
mod care;
mod health;
mod write;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lockwright_machines::quorum::Marker;

pub(super) use self::address::open;
use self::health::Health;
#[cfg(feature = "unstable-store")]
pub use self::write::on_nodes;
use self::write::{all_at_once, joined, parts};
use super::{Answered, Begun, BoxFuture, Outcome, Store, not_sent};
use crate::finding::Finding;
use crate::lease::Sighting;
use crate::platform::{clock, runtime};
use crate::protocol::{Inquiry, Layout, Node, Requests};
use crate::time::Time;

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Nodes {
    address: Arc<str>,
    layouts: Vec<Arc<dyn Layout>>,
    members: Vec<Arc<Member>>,
    /// How long one of them may take to answer.
    node_timeout: Duration,
    max_ttl: Duration,
    fenced: Arc<AtomicBool>,
}

/// One of the nodes.
#[derive(Debug)]
struct Member {
    store: Arc<dyn Store>,
    marker: Marker,
    health: Health,
}

/// So many times as long may a node take that nobody asked before: there may be names to resolve, and keys to agree on.
const FIRST: u32 = 4;

impl Nodes {
    /// Until when a node may take that is asked at `now`; and whether one that does not answer by then is to blame.
    fn limit(&self, now: Time, limit: Time) -> (Time, bool) {
        let is_new = self.members.iter().any(|member| member.health.is_new());
        let own = now.after(self.node_timeout * if is_new { FIRST } else { 1 });
        (own.min(limit), own <= limit)
    }

    fn member(&self, Node(number): Node) -> &Arc<Member> {
        &self.members[usize::from(number).min(self.members.len() - 1)]
    }

    /// Has those that were away looked at, in the background.
    fn look_after(&self, now: Time) {
        for member in self.members.iter().filter(|member| member.health.is_to_be_looked_at(now)) {
            let (member, patience) = (member.clone(), self.node_timeout * FIRST);
            let look = Requests::from_iter([member.marker.look(self.max_ttl)]);
            let work = async move {
                let limit = clock::now().after(patience);
                let Answered { outcome, .. } = member.store.call_async(&look, limit).await;
                member.health.hear(clock::now(), &outcome);
            };
            if let Ok(background) = runtime::handle() {
                drop(background.spawn(work));
            }
        }
    }

    fn heard(&self, requests: &Requests, answers: Vec<(Node, Answered)>, is_to_blame: bool) -> Answered {
        let now = clock::now();
        for (node, Answered { outcome, .. }) in &answers {
            let health = &self.member(*node).health;
            let has_answered = matches!(outcome, Outcome::Replies(_) | Outcome::Partly { .. });
            if has_answered || (is_to_blame && health.away().is_none()) {
                health.hear(now, outcome);
            }
        }
        joined(requests, answers)
    }
}

impl Store for Nodes {
    fn address(&self) -> &Arc<str> {
        &self.address
    }

    fn layouts(&self) -> &[Arc<dyn Layout>] {
        &self.layouts
    }

    fn call_async<'a>(&'a self, requests: &'a Requests, limit: Time) -> BoxFuture<'a, Answered> {
        Box::pin(async move {
            let now = clock::now();
            self.look_after(now);
            let (limit, is_to_blame) = self.limit(now, limit);
            let parts = parts(requests);
            let ask = |node, part| -> BoxFuture<'_, Answered> {
                let member = self.member(node);
                match member.health.away() {
                    Some(why) => Box::pin(std::future::ready(not_sent(why))),
                    None => member.store.call_async(part, limit),
                }
            };
            let answers = all_at_once(&parts, ask).await;
            self.heard(requests, answers, is_to_blame)
        })
    }

    fn call(&self, requests: &Requests, limit: Time) -> Answered {
        let now = clock::now();
        if self.members.iter().any(|member| member.health.is_new()) {
            // To dial one after the other, some of which may not answer, is what a task need not do.
            return runtime::block_on(self.call_async(requests, limit)).unwrap_or_else(not_sent);
        }
        self.look_after(now);
        let (limit, is_to_blame) = self.limit(now, limit);
        let parts = parts(requests);
        let begun: Vec<(Node, Begun<'_>)> = parts
            .iter()
            .map(|(node, part)| {
                let member = self.member(*node);
                let begun: Begun<'_> = match member.health.away() {
                    Some(why) => Box::new(move || not_sent(why)),
                    None => member.store.begin(part, limit),
                };
                (*node, begun)
            })
            .collect();
        let answers = begun.into_iter().map(|(node, answer)| (node, answer())).collect();
        self.heard(requests, answers, is_to_blame)
    }

    fn void_after(&self, given_up: Time, limit: Time) -> Time {
        let each = self.members.iter().map(|member| member.store.void_after(given_up, limit));
        each.max().unwrap_or(given_up)
    }

    fn insist_on_tokens(&self) {
        self.fenced.store(true, Ordering::Relaxed);
    }

    fn others<'a>(&'a self, name: Option<&'a str>) -> Inquiry<'a, Vec<Sighting>> {
        care::others(&self.members, name)
    }

    fn eviction(&self) -> Inquiry<'_, Option<String>> {
        care::eviction(&self.members)
    }

    fn examine(&self) -> Inquiry<'_, Vec<Finding>> {
        care::examine(&self.members, self.max_ttl)
    }

    fn close(&self) {
        self.members.iter().for_each(|member| member.store.close());
    }
}
