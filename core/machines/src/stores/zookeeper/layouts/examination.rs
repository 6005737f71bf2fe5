//! Whether an ensemble is fit to keep locks in, by what it says of its members and by what lies where the locks do.

use std::sync::Arc;

use super::line::LAST_SEQUENCE;
use super::recipe::{Library, SEMAPHORE, is_contender, sequence_of};
use super::{CHILDREN, GET, child, garbled, names, on};
use crate::error::Kind;
use crate::finding::{Finding, Severity, some_of};
use crate::protocol::{Inquiry, Reply};

/// Where an ensemble keeps who its members are, since ZooKeeper 3.5.
const CONFIG: &str = "/zookeeper/config";

/// Directories that are looked into in one write.
const PART: usize = 100;

/// How many numbers before the last one are few: a lock that is wanted a thousand times a second has them for a day.
const FEW: i32 = 100_000_000;

/// The names of more contenders are a megabyte, and no client takes a longer answer unless it is told to
/// (`jute.maxbuffer`).
const MANY: usize = 12_000;

type Findings<'a> = Inquiry<'a, Vec<Finding>>;

/// Asks who the members are, and looks into each directory of a lock in `root`. What the user may not read is left out.
pub fn examine<'a>(root: &Arc<str>) -> Findings<'a> {
    let root = root.clone();
    Inquiry::ask([on(&GET, &CONFIG.into()), on(&CHILDREN, &root)], move |replies| {
        let [config, children] = replies else { return Inquiry::Done(Err(garbled("examine"))) };
        let found = vec![members(config)];
        let mut seen = Seen::default();
        match names("examine", children) {
            Ok(children) => {
                let names = children.unwrap_or_default().1;
                let under = root.trim_end_matches('/');
                look(names.into_iter().map(|name| child(under, name)).collect(), seen, found)
            }
            Err(error) if error.kind() == Kind::Auth => {
                seen.unread += 1;
                Inquiry::Done(Ok(seen.told(found)))
            }
            Err(error) => Inquiry::Done(Err(error)),
        }
    })
}

/// Looks into these directories, and tells what was found there behind what was `found` before.
fn look<'a>(mut keys: Vec<Arc<str>>, mut seen: Seen, found: Vec<Finding>) -> Findings<'a> {
    let rest = keys.split_off(keys.len().min(PART));
    if keys.is_empty() {
        return Inquiry::Done(Ok(seen.told(found)));
    }
    let requests: Vec<_> = keys.iter().map(|key| on(&CHILDREN, key)).collect();
    Inquiry::ask(requests, move |replies| {
        let mut left = rest;
        for (key, reply) in keys.iter().zip(replies) {
            match names("examine", reply) {
                Ok(children) => left.extend(seen.add(key, &children.unwrap_or_default().1)),
                Err(error) if error.kind() == Kind::Auth => seen.unread += 1,
                Err(error) => return Inquiry::Done(Err(error)),
            }
        }
        look(left, seen, found)
    })
}

/// What lies in the directories of locks, and in which of them something is wrong.
#[derive(Default)]
struct Seen {
    directories: usize,
    unread: usize,
    mixed: Vec<Arc<str>>,
    nested: Vec<Arc<str>>,
    crowded: Vec<Arc<str>>,
    worn: Vec<Arc<str>>,
    /// One of the `worn` refuses already.
    is_over: bool,
}

impl Seen {
    /// One more directory. The directories below it that are of the same lock.
    fn add(&mut self, dir: &Arc<str>, names: &[&str]) -> Vec<Arc<str>> {
        self.directories += 1;
        let of = |library| names.iter().any(|name| is_contender(library, name));
        let (curators, kazoos) = (of(Library::Curator), of(Library::Kazoo));
        if curators && kazoos {
            self.mixed.push(dir.clone());
        }
        let stands = |name: &str| [Library::Curator, Library::Kazoo].iter().any(|library| is_contender(*library, name));
        if (curators || kazoos) && names.iter().any(|name| !stands(name)) {
            self.nested.push(dir.clone());
        }
        if names.len() > MANY {
            self.crowded.push(dir.clone());
        }
        let last = names.iter().filter_map(|name| sequence_of(name));
        // Past the last of them numbers are negative.
        let last = last.map(|number| if number < 0 { i32::MAX } else { number }).max().unwrap_or(0);
        if last > LAST_SEQUENCE - FEW {
            self.worn.push(dir.clone());
            self.is_over |= last > LAST_SEQUENCE;
        }
        let is_semaphore = SEMAPHORE.iter().all(|below| names.contains(below));
        if is_semaphore { SEMAPHORE.map(|below| child(dir, below)).to_vec() } else { Vec::new() }
    }

    fn told(self, mut found: Vec<Finding>) -> Vec<Finding> {
        let worn = if self.is_over { Severity::Problem } else { Severity::Warning };
        let wrong = [
            (
                Severity::Warning,
                "layouts",
                "both Curator's and kazoo's contenders stand",
                self.mixed,
                "they do not see one another: have all users of these locks use one layout",
            ),
            (
                Severity::Warning,
                "nesting",
                "other nodes lie among the contenders",
                self.nested,
                "Curator takes each of them for somebody in line: do not name locks below other locks",
            ),
            (
                worn,
                "sequence",
                "the numbers of contenders come to their end",
                self.worn,
                "stop all users of these locks, delete the directories, start them again: numbers then begin at 0",
            ),
            (
                Severity::Warning,
                "crowd",
                "more contenders stand than one answer of a megabyte can name",
                self.crowded,
                "raise jute.maxbuffer of all clients that list them, or have fewer wait",
            ),
        ];
        if wrong.iter().all(|(.., dirs, _)| dirs.is_empty()) {
            found.push(Finding::ok("locks", format!("nothing is wrong in directories of locks: {}", self.directories)));
        }
        for (severity, check, what, dirs, advice) in wrong {
            if !dirs.is_empty() {
                found.push(Finding::of(
                    severity,
                    check,
                    format!("{what} in {}", some_of(dirs.iter().map(|dir| &**dir))),
                    advice,
                ));
            }
        }
        if self.unread > 0 {
            let what = format!("this user may not look into {} of the directories", self.unread);
            found.push(Finding::of(Severity::Note, "rights", what, "examine it as a user that may read them all"));
        }
        found
    }
}

/// How many members vote. Whoever is no part of an ensemble names none.
fn members(config: &Reply) -> Finding {
    let data = match config {
        Reply::List(parts) => match &parts[..] {
            [.., Reply::Text(data)] => data,
            _ => "",
        },
        _ => {
            return Finding::of(
                Severity::Note,
                "members",
                "this user cannot see who the members are",
                "examine it without a chroot, as a user that may read /zookeeper/config",
            );
        }
    };
    let members = data.lines().filter(|line| line.starts_with("server."));
    let voting = members.clone().filter(|line| !line.contains(":observer")).count();
    let observers = match members.count() - voting {
        0 => String::new(),
        observers => format!(" (and observers, which do not count: {observers})"),
    };
    match voting {
        0 | 1 => Finding::of(
            Severity::Note,
            "members",
            format!("one server{observers}: nothing can be locked while it does not run, and nothing is forgotten"),
            "an ensemble of three goes on without one of them",
        ),
        voting => {
            let found = format!("{voting} members{observers}: it goes on without {} of them", (voting - 1) / 2);
            match voting % 2 {
                0 => {
                    Finding::of(Severity::Warning, "members", found, "use an odd number: one member less bears as much")
                }
                _ => Finding::ok("members", found),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Result;

    const LINE: &[&str] = &["_c_0-lock-0000000001", "_c_1-lock-0000000002"];

    fn list(names: &[&str]) -> Reply {
        let names = names.iter().map(|name| Reply::Text((*name).into()));
        Reply::List([Reply::Int(7)].into_iter().chain(names).collect())
    }

    fn config(data: &str) -> Reply {
        Reply::List(vec![Reply::Int(7), Reply::Int(0), Reply::Int(0), Reply::Text(data.into())])
    }

    fn refused(code: &str) -> Reply {
        Reply::Error { code: code.into(), message: String::new() }
    }

    /// What is found where these are the answers for the configuration and for each path.
    fn all(data: Reply, tree: &[(&str, Reply)]) -> Result<Vec<Finding>> {
        examine(&"/locks".into()).conclude(|requests| {
            let answer = |path: &str| {
                let known = tree.iter().find(|(known, _)| *known == path);
                known.map_or_else(|| refused("NoNode"), |(_, reply)| reply.clone())
            };
            Ok(requests.iter().map(|one| if &*one.key == CONFIG { data.clone() } else { answer(&one.key) }).collect())
        })
    }

    fn wrong(tree: &[(&str, Reply)]) -> Vec<(&'static str, Severity)> {
        let three = config("server.1=a:2888:3888:participant\nserver.2=b:1:1:participant\nserver.3=c:1:1\nversion=0");
        let found = all(three, tree).unwrap();
        assert_eq!(found[0], Finding::ok("members", "3 members: it goes on without 1 of them"));
        found.iter().map(|one| (one.check, one.severity)).filter(|(_, severity)| *severity > Severity::Ok).collect()
    }

    fn members_of(data: Reply) -> (Severity, String) {
        let found = all(data, &[]).unwrap();
        (found[0].severity, found[0].found.clone())
    }

    #[test]
    fn members_are_counted_and_those_who_only_listen_are_none() {
        assert_eq!(members_of(config("")).0, Severity::Note);
        let observed = "server.1=a:1:1:participant\nserver.2=b:1:1:participant\nserver.3=c:1:1:observer\n";
        let (severity, found) = members_of(config(observed));
        assert_eq!(
            (severity, found.contains("observers, which do not count: 1")),
            (Severity::Warning, true),
            "{found}"
        );
        for cannot in ["NoNode", "NoAuth"] {
            let (severity, found) = members_of(refused(cannot));
            assert_eq!((severity, found.contains("cannot see")), (Severity::Note, true), "{found}");
        }
    }

    #[test]
    fn a_directory_in_which_nothing_is_wrong_is_only_counted() {
        assert_eq!(wrong(&[]), []);
        let semaphore = ("/locks/s", list(&SEMAPHORE));
        let tree = [("/locks", list(&["x", "s", "gone"])), ("/locks/x", list(LINE)), semaphore];
        assert_eq!(wrong(&tree), []);
        let found = all(config(""), &tree).unwrap();
        assert!(found[1].found.ends_with(": 5"), "{found:?}");
    }

    #[test]
    fn contenders_who_do_not_see_one_another_are_told() {
        let kazoos = "0123456789abcdef0123456789abcdef__lock__0000000003";
        let tree = [("/locks", list(&["x"])), ("/locks/x", list(&[LINE, &[kazoos]].concat()))];
        assert_eq!(wrong(&tree), [("layouts", Severity::Warning)]);
        let nested = [("/locks", list(&["x"])), ("/locks/x", list(&[LINE, &["y"]].concat()))];
        assert_eq!(wrong(&nested), [("nesting", Severity::Warning)]);
        let only_a_folder = [("/locks", list(&["x"])), ("/locks/x", list(&["y"]))];
        assert_eq!(wrong(&only_a_folder), []);
    }

    #[test]
    fn numbers_that_come_to_their_end_are_told_before_they_do() {
        let of = |last: &str| {
            let leases = [("/locks", list(&["s"])), ("/locks/s", list(&SEMAPHORE)), ("/locks/s/leases", list(&[last]))];
            wrong(&leases)
        };
        assert_eq!(of("_c_0-lease-2000000000"), []);
        assert_eq!(of("_c_0-lease-2100000000"), [("sequence", Severity::Warning)]);
        assert_eq!(of("_c_0-lease-2147000000"), [("sequence", Severity::Problem)]);
        assert_eq!(of("_c_0-lease--2147483648"), [("sequence", Severity::Problem)]);
        let line = [("/locks", list(&["x"])), ("/locks/x", list(&["_c_0-lock-2100000000"]))];
        assert_eq!(wrong(&line), [("sequence", Severity::Warning)]);
    }

    #[test]
    fn a_crowd_that_no_answer_can_name_is_told() {
        let names: Vec<String> = (0..=MANY).map(|number| format!("_c_0-lock-{number:010}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        assert_eq!(wrong(&[("/locks", list(&["x"])), ("/locks/x", list(&names))]), [("crowd", Severity::Warning)]);
        assert_eq!(wrong(&[("/locks", list(&["x"])), ("/locks/x", list(&names[1..]))]), []);
    }

    #[test]
    fn what_the_user_may_not_read_is_left_out_and_what_no_server_says_is_an_error() {
        assert_eq!(wrong(&[("/locks", refused("NoAuth"))]), [("rights", Severity::Note)]);
        let one = [("/locks", list(&["x", "y"])), ("/locks/x", refused("NoAuth")), ("/locks/y", list(LINE))];
        assert_eq!(wrong(&one), [("rights", Severity::Note)]);
        assert!(all(config(""), &[("/locks", Reply::Int(1))]).is_err());
        assert!(all(config(""), &[("/locks", list(&["x"])), ("/locks/x", refused("ConnectionLoss"))]).is_err());
    }
}
