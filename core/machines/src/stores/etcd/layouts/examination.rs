//! Whether a cluster is fit to keep locks in, by what the member that answers says of it.

use std::sync::Arc;

use super::{MEMBERS, STATUS, list};
use crate::error::Result;
use crate::finding::{Finding, Severity};
use crate::protocol::{Inquiry, Reply, Request};

/// The first versions in which a leader that stood still does not end, when it goes on, leases that are kept alive:
/// etcd-io/etcd#15247.
const CAREFUL: [(u32, u32, u32); 2] = [(3, 4, 31), (3, 5, 13)];
/// The oldest etcd that is tried.
const OLDEST: (u32, u32) = (3, 4);

/// Asks for the member's status, and who the others are; what the user may not ask for is left out.
pub fn examine<'a>(prefix: &str) -> Inquiry<'a, Vec<Finding>> {
    let prefix: Arc<str> = prefix.into();
    let asks = [&STATUS, &MEMBERS].map(|call| Request::new(call, prefix.clone(), []));
    Inquiry::ask(asks, |replies| Inquiry::Done(findings(replies)))
}

fn findings(replies: &[Reply]) -> Result<Vec<Finding>> {
    let mut found = Vec::new();
    for (reply, read) in replies.iter().zip([status, members]) {
        match reply {
            Reply::Error { code, .. } if code == "PermissionDenied" => {
                let advice = "examine it as a user with the role root, to learn the rest";
                found.push(Finding::of(Severity::Note, "rights", "this user may not ask for all of it", advice));
            }
            reply => found.extend(read(list("examine", reply)?)),
        }
    }
    Ok(found)
}

/// Version, bytes of data, whether there is a leader, and what is wrong.
fn status(parts: &[Reply]) -> Vec<Finding> {
    let [Reply::Text(version), Reply::Int(size), Reply::Int(leader), wrong @ ..] = parts else { return Vec::new() };
    let wrong: Vec<_> =
        wrong.iter().filter_map(|one| if let Reply::Text(one) = one { Some(&**one) } else { None }).collect();
    let mut found = vec![of_version(version, *size)];
    if is_careless(version) {
        let what = "a leader that stood still and goes on ends leases that are kept alive: a lock may have two holders for \
                    a third of the ttl";
        found.push(Finding::of(Severity::Warning, "leases", what, "use etcd 3.4.31, 3.5.13 or later"));
    }
    found.push(match leader {
        0 => Finding::of(
            Severity::Problem,
            "leader",
            "the member sees no leader: nothing can be locked or given back",
            "see that more than half of the members run and reach one another",
        ),
        _ => Finding::ok("leader", "there is one"),
    });
    found.push(match wrong.iter().any(|one| one.contains("NOSPACE")) {
        true => Finding::of(
            Severity::Problem,
            "room",
            "the alarm NOSPACE is on: its database is full, and it grants nothing",
            "compact and defragment it, then disarm the alarm (etcdctl alarm disarm)",
        ),
        false => Finding::ok("room", "no alarm for room"),
    });
    found
}

/// Major, minor and patch.
fn numbers(version: &str) -> (u32, u32, u32) {
    let mut parts = version.split(['.', '-', '+']).map(|part| part.parse().unwrap_or(0));
    let mut next = || parts.next().unwrap_or(0);
    (next(), next(), next())
}

fn is_careless(version: &str) -> bool {
    let (major, minor, patch) = numbers(version);
    let cured = CAREFUL.iter().find(|careful| (careful.0, careful.1) == (major, minor));
    cured.map_or((major, minor) < OLDEST, |careful| patch < careful.2)
}

fn of_version(version: &str, size: i64) -> Finding {
    let (major, minor, _) = numbers(version);
    let numbers = (major, minor);
    let found = format!("etcd {version}, {:.1} MB of data", size as f64 / 1e6);
    if numbers < OLDEST {
        return Finding::of(
            Severity::Warning,
            "version",
            found,
            "nothing older than 3.4 was ever tried; use a newer one",
        );
    }
    Finding::ok("version", found)
}

/// How many members vote, and how many only learn.
fn members(parts: &[Reply]) -> Vec<Finding> {
    let [Reply::Int(voting), Reply::Int(learning)] = parts else { return Vec::new() };
    let spare = (voting - 1) / 2;
    let learners = if *learning > 0 { format!(", and {learning} learners, which do not count") } else { String::new() };
    vec![match voting {
        1 => Finding::of(
            Severity::Note,
            "members",
            format!("one member{learners}: nothing can be locked while it does not run, and nothing is forgotten"),
            "three members go on without one of them",
        ),
        voting if voting % 2 == 0 => Finding::of(
            Severity::Warning,
            "members",
            format!(
                "{voting} members{learners}: it goes on without {spare} of them, no more than with one member less"
            ),
            "use an odd number",
        ),
        voting => Finding::ok("members", format!("{voting} members{learners}: it goes on without {spare} of them")),
    }]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(version: &str, leader: i64, wrong: &[&str], voting: i64) -> Vec<(&'static str, Severity)> {
        let head = [Reply::Text(version.into()), Reply::Int(20_000_000), Reply::Int(leader)];
        let wrong = wrong.iter().map(|one| Reply::Text((*one).into()));
        let status = Reply::List(head.into_iter().chain(wrong).collect());
        let members = Reply::List(vec![Reply::Int(voting), Reply::Int(0)]);
        let found = findings(&[status, members]).unwrap();
        found.iter().map(|one| (one.check, one.severity)).filter(|(_, severity)| *severity > Severity::Ok).collect()
    }

    #[test]
    fn what_is_wrong_with_a_cluster_is_told() {
        let careless = ("leases", Severity::Warning);
        for version in ["3.4.31", "3.5.13", "3.5.21+git", "3.6.0-rc.1", "3.10.0"] {
            assert_eq!(said(version, 1, &[], 3), [], "{version}");
        }
        for version in ["3.4.23", "3.5.12"] {
            assert_eq!(said(version, 1, &[], 3), [careless], "{version}");
        }
        assert_eq!(said("3.3.9", 1, &[], 3), [("version", Severity::Warning), careless]);
        assert_eq!(said("3.6.1", 0, &["etcdserver: no leader"], 3), [("leader", Severity::Problem)]);
        assert_eq!(said("3.6.1", 1, &["memberID:1 alarm:NOSPACE "], 3), [("room", Severity::Problem)]);
        assert_eq!(said("3.6.1", 1, &[], 1), [("members", Severity::Note)]);
        assert_eq!(said("3.6.1", 1, &[], 4), [("members", Severity::Warning)]);
    }

    #[test]
    fn what_a_user_may_not_ask_for_is_left_out_and_what_no_etcd_says_is_an_error() {
        let denied = Reply::Error { code: "PermissionDenied".into(), message: String::new() };
        let found = examine("").answered(&denied).unwrap();
        assert!(found.len() == 2 && found.iter().all(|one| one.check == "rights"), "{found:?}");
        assert!(examine("").answered(&Reply::Int(1)).is_err());
    }
}
