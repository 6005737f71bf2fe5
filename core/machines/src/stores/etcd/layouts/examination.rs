//! Whether a cluster is fit to keep locks in, by what the member that answers says of it, and by what lies there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::concurrency_layout::{ask_page, name_of, page};
use super::part::Part;
use super::{KEEPS, LEASES, MEMBERS, STATUS, first, is, list};
use crate::error::Result;
use crate::finding::said::numbers;
use crate::finding::{Finding, Severity, in_places, of_locks};
use crate::pages::Pages;
use crate::protocol::{Arg, Inquiry, Reply, Request};

/// The first versions in which a leader that stood still does not end, when it goes on, leases that are kept alive:
/// etcd-io/etcd#15247.
const CAREFUL: [(u32, u32, u32); 2] = [(3, 4, 31), (3, 5, 13)];
/// The oldest etcd that is tried.
const OLDEST: (u32, u32) = (3, 4);

/// So many leases that keep nothing are no accident: a program makes one for each lock.
const IDLE: usize = 100;
/// Of how many leases it is asked what they keep, and of how many in one write.
const ASKED: (usize, usize) = (1000, 100);

type Findings<'a> = Inquiry<'a, Vec<Finding>>;

/// Asks for the member's status and who the others are, and looks at all that lies behind `prefix` and at the leases;
/// what the user may not ask for is left out.
pub fn examine<'a>(prefix: &str) -> Findings<'a> {
    let prefix: Arc<str> = prefix.into();
    let asks = [&STATUS, &MEMBERS].map(|call| Request::new(call, prefix.clone(), []));
    Inquiry::ask(asks, move |replies| {
        let mut told = Told::default();
        for (reply, read) in replies.iter().zip([status, members]) {
            match told.permitted(reply) {
                Ok(parts) => told.found.extend(parts.map(read).unwrap_or_default()),
                Err(error) => return Inquiry::Done(Err(error)),
            }
        }
        look(Seen::of(prefix), Arg::Nothing, Pages::default(), told)
    })
}

/// What is known so far.
#[derive(Default)]
struct Told {
    found: Vec<Finding>,
    is_refused: bool,
}

impl Told {
    /// The list that a reply is; `None` where this user may not ask for it.
    fn permitted<'a>(&mut self, reply: &'a Reply) -> Result<Option<&'a [Reply]>> {
        self.is_refused |= is(reply, DENIED);
        if is(reply, DENIED) { Ok(None) } else { list("examine", reply).map(Some) }
    }

    fn findings(mut self) -> Vec<Finding> {
        if self.is_refused {
            let advice = "examine it as a user with the role root, to learn the rest";
            self.found.push(Finding::of(Severity::Note, "rights", "this user may not ask for all of it", advice));
        }
        self.found
    }
}

const DENIED: &str = "PermissionDenied";

/// Looks at the keys from `cursor` on, and then at the leases.
fn look<'a>(mut seen: Seen, cursor: Arg, mut pages: Pages, mut told: Told) -> Findings<'a> {
    Inquiry::ask([ask_page(&seen.prefix, cursor)], move |replies| {
        match told.permitted(first(replies)) {
            Ok(Some(_)) => {}
            Ok(None) => return ask_leases(seen.prefix, told),
            Err(error) => return Inquiry::Done(Err(error)),
        }
        match page(first(replies)) {
            Ok((cursor, keys)) => {
                keys.into_iter().for_each(|(key, lease)| seen.add(key, lease));
                if !cursor.is_empty() {
                    return match pages.turn("examine", &cursor) {
                        Ok(()) => look(seen, Arg::Text(cursor.into()), pages, told),
                        Err(error) => Inquiry::Done(Err(error)),
                    };
                }
            }
            Err(error) => return Inquiry::Done(Err(error)),
        }
        told.found.extend(seen.findings());
        ask_leases(seen.prefix, told)
    })
}

fn ask_leases<'a>(key: Arc<str>, mut told: Told) -> Findings<'a> {
    Inquiry::ask([Request::new(&LEASES, key.clone(), [])], move |replies| match told.permitted(first(replies)) {
        Ok(Some(leases)) => count_idle(key, leases.iter().filter_map(crate::replies::int).collect(), told),
        Ok(None) => Inquiry::Done(Ok(told.findings())),
        Err(error) => Inquiry::Done(Err(error)),
    })
}

/// Asks of each lease what it keeps. Whoever may not ask that may not read what it keeps, so it keeps something.
fn count_idle<'a>(key: Arc<str>, leases: Vec<i64>, told: Told) -> Findings<'a> {
    let all = leases.len();
    let asked: Vec<_> = leases.into_iter().take(ASKED.0).collect();
    let count = asked.len();
    ask_kept(key, asked, 0, move |idle| {
        let mut told = told;
        told.found.push(of_leases(all, count, idle));
        Inquiry::Done(Ok(told.findings()))
    })
}

fn ask_kept<'a>(
    key: Arc<str>,
    mut leases: Vec<i64>,
    idle: usize,
    then: impl FnOnce(usize) -> Findings<'a> + Send + 'a,
) -> Findings<'a> {
    let rest = leases.split_off(leases.len().min(ASKED.1));
    if leases.is_empty() {
        return then(idle);
    }
    let asks: Vec<_> = leases.iter().map(|lease| Request::new(&KEEPS, key.clone(), [Arg::Int(*lease)])).collect();
    Inquiry::ask(asks, move |replies| {
        let more = replies.iter().filter(|reply| **reply == Reply::Int(0)).count();
        ask_kept(key, rest, idle + more, then)
    })
}

fn of_leases(all: usize, asked: usize, idle: usize) -> Finding {
    let of = if asked < all { format!("{asked} of {all} leases that were looked at") } else { format!("{all} leases") };
    let found = format!("of {of}, {idle} keep nothing");
    if idle < IDLE {
        return Finding::ok("leaked", found);
    }
    let advice = "have each program use one client, or one session, for all its locks: a lease of each that was made and \
                  not closed lasts for its ttl, or for as long as something keeps it alive";
    Finding::of(Severity::Note, "leaked", found, advice)
}

/// Who stands in line for one name.
#[derive(Default)]
struct Standing {
    words: BTreeSet<&'static str>,
    /// Also a client of Go's, or `etcdctl`.
    is_gos: bool,
}

/// What lies behind the prefix.
struct Seen {
    prefix: Arc<str>,
    names: BTreeMap<String, Standing>,
    /// Keys that a lease keeps of which nobody can say what they are.
    others: BTreeSet<String>,
    orphans: Vec<String>,
    /// Somebody contends for a lock below which all of them lie.
    is_enclosed: bool,
}

impl Seen {
    fn of(prefix: Arc<str>) -> Self {
        let (names, others, orphans) = (BTreeMap::new(), BTreeSet::new(), Vec::new());
        Seen { prefix, names, others, orphans, is_enclosed: false }
    }

    /// One more key, with its lease.
    fn add(&mut self, key: &str, lease: i64) {
        let is_ours = Part::of_ours(key).is_some() || Part::of_count(key).is_some();
        if lease == 0 {
            self.orphans.extend(is_ours.then(|| key.to_owned()));
            return;
        }
        let Some(name) = name_of(&self.prefix, key, lease) else {
            let is_contender = key.strip_prefix(&*self.prefix) == Some(&format!("{lease:x}"));
            self.is_enclosed |= is_contender && self.prefix.ends_with('/');
            self.others.insert(key.to_owned());
            return;
        };
        let standing = self.names.entry(name.to_owned()).or_default();
        standing.words.extend(Part::of_key(&format!("{}{name}", self.prefix), key).map(Part::word));
        standing.is_gos |= !is_ours;
    }

    /// The names above this one that are locked, too.
    fn above(&self, name: &str) -> impl Iterator<Item = &Standing> {
        let ends = name.match_indices('/').map(|(at, _)| at);
        let ends: Vec<_> = ends.filter_map(|end| self.names.get(&name[..end])).collect();
        ends.into_iter()
    }

    fn findings(&self) -> Vec<Finding> {
        let names_where = |is_so: &dyn Fn(&str, &Standing) -> bool| -> Vec<&str> {
            self.names.iter().filter(|(name, standing)| is_so(name, standing)).map(|(name, _)| &**name).collect()
        };
        let is_mixed = |name: &str, standing: &Standing| {
            standing.words.len() > 1 || self.others.contains(&format!("{}{name}", self.prefix))
        };
        let is_nested = |name: &str, _: &Standing| self.is_enclosed || self.above(name).next().is_some();
        let gos = self.is_enclosed || self.names.keys().any(|name| self.above(name).any(|above| above.is_gos));
        let wrong = [
            in_places(
                Severity::Warning,
                "layouts",
                "two kinds of locks, or those of a library with one key for each lock, stand",
                &names_where(&is_mixed),
                "they do not all see one another: use a name for one thing, and lock it in one layout everywhere",
            ),
            in_places(
                if gos { Severity::Warning } else { Severity::Note },
                "nesting",
                "names lie below the names of other locks",
                &names_where(&is_nested),
                "Go and etcdctl, where they lock the name above, wait for those below it, too: do not name locks below others",
            ),
            in_places(
                Severity::Problem,
                "orphans",
                "contenders stand that no lease keeps, so that nobody goes on behind them",
                &self.orphans,
                "delete these keys (etcdctl del KEY); a mirror or a backup brought them here without their leases",
            ),
        ];
        of_locks(&format!("what is locked: {} names", self.names.len()), wrong)
    }
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

    fn refused() -> Reply {
        Reply::Error { code: DENIED.into(), message: String::new() }
    }

    /// What is found where these are the answers.
    fn examined(
        [status, members, leases]: [Reply; 3],
        keys: &[(&str, i64)],
        kept: impl Fn(i64) -> Reply,
    ) -> Result<Vec<Finding>> {
        examine("app/").conclude(|requests| {
            let answer = |request: &Request| match (request.call.name, &request.args[..]) {
                ("status", _) => status.clone(),
                ("members", _) => members.clone(),
                ("leases", _) => leases.clone(),
                ("keeps", [Arg::Int(lease)]) => kept(*lease),
                // Two pages.
                ("keys", [cursor, _]) => {
                    let (next, half) = match (cursor, keys.split_at(keys.len() / 2)) {
                        (Arg::Nothing, (half, _)) => ("app/m", half),
                        (_, (_, half)) => ("", half),
                    };
                    let keys = half.iter().flat_map(|(key, lease)| [Reply::Text((*key).into()), Reply::Int(*lease)]);
                    Reply::List([Reply::Text(next.into())].into_iter().chain(keys).collect())
                }
                other => panic!("nobody asks {other:?}"),
            };
            Ok(requests.iter().map(answer).collect())
        })
    }

    fn member(version: &str, leader: i64, wrong: &[&str], voting: i64) -> [Reply; 3] {
        let head = [Reply::Text(version.into()), Reply::Int(20_000_000), Reply::Int(leader)];
        let wrong = wrong.iter().map(|one| Reply::Text((*one).into()));
        let status = Reply::List(head.into_iter().chain(wrong).collect());
        let members = Reply::List(vec![Reply::Int(voting), Reply::Int(0)]);
        [status, members, Reply::List(Vec::new())]
    }

    fn fit() -> [Reply; 3] {
        member("3.6.1", 1, &[], 3)
    }

    fn worse_than_ok(found: &[Finding]) -> Vec<(&'static str, Severity)> {
        found.iter().map(|one| (one.check, one.severity)).filter(|(_, severity)| *severity > Severity::Ok).collect()
    }

    fn said(version: &str, leader: i64, wrong: &[&str], voting: i64) -> Vec<(&'static str, Severity)> {
        let found = examined(member(version, leader, wrong, voting), &[], |_| Reply::Nil);
        worse_than_ok(&found.unwrap())
    }

    fn wrong(keys: &[(&str, i64)]) -> Vec<(&'static str, Severity)> {
        worse_than_ok(&examined(fit(), keys, |_| Reply::Nil).unwrap())
    }

    const ATTEMPT: &str = "0123456789abcdef0123456789abcdef";

    #[test]
    fn locks_that_do_not_see_one_another_or_wait_for_too_many_are_told() {
        let of = |name: &str| format!("app/{name}/{ATTEMPT}");
        let (x, below, reader) = (of("x"), of("x/y"), format!("app/x/read/{ATTEMPT}.read"));
        let others = [("app/service", 9), ("app/x.note", 0), ("app/lockwright/fence/-7", 7)];
        assert_eq!(wrong(&[&[(&*x, 7), ("app/x/8", 8), ("app/z/9", 9)], &others[..]].concat()), []);
        let mixed = [("layouts", Severity::Warning)];
        assert_eq!(wrong(&[(&x, 7), (&reader, 8)]), mixed);
        assert_eq!(wrong(&[("app/x", 8), (&x, 7)]), mixed, "one key for each lock");
        assert_eq!(wrong(&[(&x, 7), (&below, 7)]), [("nesting", Severity::Note)], "only ours");
        assert_eq!(wrong(&[("app/x/8", 8), (&below, 7)]), [("nesting", Severity::Warning)]);
        assert_eq!(wrong(&[(&x, 7), ("app/x/y/8", 8)]), [("nesting", Severity::Note)], "Go is below");
        assert_eq!(wrong(&[("app/8", 8), (&x, 7)]), [("nesting", Severity::Warning)], "the prefix is a lock's");
        assert_eq!(wrong(&[("app/8", 9), (&x, 7)]), [], "it is none");
        assert_eq!(wrong(&[("app/note", 0), (&x, 0)]), [("orphans", Severity::Problem)]);
    }

    #[test]
    fn leases_that_keep_nothing_are_counted_and_very_many_of_them_told() {
        let of = |count: i64, idle: i64| {
            let [status, members, _] = fit();
            let leases = Reply::List((0..count).map(Reply::Int).collect());
            let kept = |lease| match lease {
                0 => refused(),
                1 => Reply::Nil,
                lease => Reply::Int(i64::from(lease - 2 >= idle)),
            };
            let found = examined([status, members, leases], &[], kept).unwrap();
            found.into_iter().rfind(|one| one.check == "leaked").unwrap()
        };
        assert_eq!(of(250, 99), Finding::ok("leaked", "of 250 leases, 99 keep nothing"));
        assert_eq!(of(250, 100).severity, Severity::Note);
        assert!(of(5000, 4000).found.starts_with("of 1000 of 5000 leases that were looked at, 998"));
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
        let found = examine("").answered(&refused()).unwrap();
        assert_eq!(worse_than_ok(&found), [("rights", Severity::Note)]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(examine("").answered(&Reply::Int(1)).is_err());
        let [status, members, _] = fit();
        assert!(examined([status, members, Reply::Int(1)], &[], |_| Reply::Nil).is_err());
    }
}
