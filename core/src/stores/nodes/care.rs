//! What is asked of each node, for whoever runs the quorum.

use std::sync::Arc;
use std::time::Duration;

use lockwright_machines::quorum::{self, everywhere};

use super::Member;
use crate::error::Result;
use crate::finding::{Finding, Severity};
use crate::lease::Sighting;
use crate::protocol::{Inquiry, Reply};

/// What a node answered; none where it was silent.
type Heard<T> = Option<Result<T>>;

/// The locks of other libraries that any node has.
pub(super) fn others<'a>(members: &'a [Arc<Member>], name: Option<&'a str>) -> Inquiry<'a, Vec<Sighting>> {
    let talks = members.iter().map(|member| Some(member.store.others(name))).collect();
    everywhere(talks, |heard: Vec<Heard<Vec<Sighting>>>| {
        let found: Result<Vec<_>> = heard.into_iter().flatten().collect();
        Inquiry::Done(found.map(|found| found.into_iter().flatten().collect()))
    })
}

/// What the first node does when its memory is full that drops keys, if one does.
pub(super) fn eviction(members: &[Arc<Member>]) -> Inquiry<'_, Option<String>> {
    let talks = members.iter().map(|member| Some(member.store.eviction())).collect();
    everywhere(talks, |heard: Vec<Heard<Option<String>>>| {
        let mut policies: Vec<String> = heard.into_iter().flatten().flatten().flatten().collect();
        let worst = policies.iter().position(|policy| policy != "noeviction").unwrap_or_default();
        Inquiry::Done(Ok((!policies.is_empty()).then(|| policies.swap_remove(worst))))
    })
}

/// Whether each node is fit, and whether there are enough.
pub(super) fn examine(members: &[Arc<Member>], max_ttl: Duration) -> Inquiry<'_, Vec<Finding>> {
    let talks = members.iter().map(|member| Some(member.store.examine())).collect();
    everywhere(talks, move |heard: Vec<Heard<Vec<Finding>>>| {
        let mut all = Vec::new();
        let mut silent = Vec::new();
        for (member, heard) in members.iter().zip(heard) {
            let address = member.store.address();
            match heard {
                Some(Ok(found)) => all.extend(
                    found
                        .into_iter()
                        .map(|finding| Finding { found: format!("{address}: {}", finding.found), ..finding }),
                ),
                Some(Err(error)) => silent.push(format!("{address} ({})", error.code())),
                None => silent.push(address.to_string()),
            }
        }
        all.insert(0, of_nodes(members.len(), &silent));
        let looks = members.iter().map(|member| {
            let read = |reply: &Reply| Ok(reply.clone());
            Some(Inquiry::of(member.marker.look(max_ttl), read))
        });
        everywhere(looks.collect(), move |looks: Vec<Heard<Reply>>| {
            all.insert(1, of_ages(members, max_ttl, looks));
            Inquiry::Done(Ok(all))
        })
    })
}

fn of_nodes(count: usize, silent: &[String]) -> Finding {
    let answer = count - silent.len();
    let spared = count - quorum::majority(count);
    let found = match silent {
        [] => format!("all {count} nodes answer; the locks survive the loss of {spared}"),
        some => format!("{answer} of {count} nodes answer, not {}", some.join(", ")),
    };
    let advice = "bring the silent nodes back: locks are had and kept only while a majority answers";
    match silent.len() {
        0 if count % 2 == 1 => Finding::ok("quorum", found),
        0 => {
            let advice = "take an odd number of nodes: one more than an odd number survives no further loss";
            Finding::of(Severity::Note, "quorum", found, advice)
        }
        lost if lost <= spared => Finding::of(Severity::Warning, "quorum", found, advice),
        _ => Finding::of(Severity::Problem, "quorum", found, advice),
    }
}

/// By their markers: which nodes do not count yet, and which are the same server.
fn of_ages(members: &[Arc<Member>], max_ttl: Duration, looks: Vec<Heard<Reply>>) -> Finding {
    let mut texts: Vec<(String, &Arc<str>)> = Vec::new();
    let mut said = Vec::new();
    let mut severity = Severity::Ok;
    for (member, look) in members.iter().zip(looks) {
        let address = member.store.address();
        match look {
            Some(Ok(Reply::Text(text))) => {
                let run = text.split(' ').next().unwrap_or_default().to_owned();
                if let Some((_, other)) = texts.iter().find(|(known, _)| *known == run) {
                    said.push(format!("{address} and {other} are one server"));
                    severity = Severity::Problem;
                }
                texts.push((run, address));
            }
            Some(Ok(Reply::Int(left))) => {
                said.push(format!("{address} is young and counts in {} s", left.max(0) / 1_000_000 + 1));
                severity = severity.max(Severity::Note);
            }
            Some(Ok(Reply::List(other))) => {
                let kept = match other.first() {
                    Some(Reply::Int(kept)) => *kept / 1_000,
                    _ => 0,
                };
                said.push(format!("{address} has max_ttl {kept} ms, which is {} ms here", max_ttl.as_millis()));
                severity = Severity::Problem;
            }
            Some(Ok(Reply::Error { code, .. })) => {
                said.push(format!("{address} does not say its age ({code})"));
                severity = Severity::Problem;
            }
            _ => {}
        }
    }
    if said.is_empty() {
        return Finding::ok("age", format!("{} nodes are older than max_ttl and count", texts.len()));
    }
    let advice = "give every client the same max_ttl and every node a server of its own with the right to INFO; a young node counts by itself once it is old enough";
    Finding::of(severity, "age", said.join("; "), advice)
}
