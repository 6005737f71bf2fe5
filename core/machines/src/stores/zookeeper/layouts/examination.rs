//! Whether an ensemble is fit to keep locks in, by what it says of its members and by what lies where the locks do.

use std::sync::Arc;
use std::time::Duration;

use super::line::LAST_SEQUENCE;
use super::recipe::{Library, SEMAPHORE, is_contender, sequence_of};
use super::servers::{self, Server};
use super::{CHILDREN, CLOCK, DIRECTORY, GET, MEMBER, child, first, garbled, missing, names, on, refused};
use crate::error::{Kind, Result};
use crate::finding::clock::Reading;
use crate::finding::{Finding, Severity, in_places, of_locks};
use crate::protocol::{Arg, Inquiry, Reply, Request};

/// Where an ensemble keeps who its members are, since ZooKeeper 3.5.
const CONFIG: &str = "/zookeeper/config";

/// Directories that are looked into in one write.
const PART: usize = 100;

/// How many numbers before the last one are few: a lock that is wanted a thousand times a second has them for a day.
const FEW: i32 = 100_000_000;

/// The names of more contenders are a megabyte, and no client takes a longer answer unless it is told to
/// (`jute.maxbuffer`).
const MANY: usize = 12_000;

/// Directories that stay when nobody uses them, of which so many are worth a thought.
const LEFT: usize = 1_000;

/// A node that no lock is called by: it is gone in the transaction that makes it.
const PROBE: &str = "_lockwright_clock";

/// Whose node a container is.
const CONTAINERS: i64 = i64::MIN;

type Findings<'a> = Inquiry<'a, Vec<Finding>>;

/// Asks each of so many servers of itself, the ensemble who its members are and how late it is, which is compared with
/// `now`, the client's in microseconds since 1970, and looks into each directory of a lock in `root`. The client wants
/// its session kept for `wanted`. What the user may not read is left out.
pub fn examine<'a>(
    root: &Arc<str>,
    servers: usize,
    wanted: Duration,
    now: impl Fn() -> u64 + Send + 'a,
) -> Findings<'a> {
    let root = root.clone();
    ask_each(root.clone(), servers, Vec::new(), move |heard| {
        let under = Arc::<str>::from(root.trim_end_matches('/'));
        let asks = [on(&GET, &CONFIG.into()), on(&CLOCK, &child(&under, PROBE)), on(&CHILDREN, &root)];
        let before = now();
        Inquiry::ask(asks, move |replies| {
            let [config, clock, children] = replies else { return Inquiry::Done(Err(garbled("examine"))) };
            let mut found = vec![members(config)];
            found.extend(servers::findings(&heard, wanted));
            let mut seen = Seen::default();
            match of_clock(clock, before, now()) {
                Ok(clock) => found.extend(clock),
                Err(error) => return Inquiry::Done(Err(error)),
            }
            match names("examine", children) {
                Ok(children) => {
                    let names = children.unwrap_or_default().1;
                    look(names.into_iter().map(|name| child(&under, name)).collect(), seen, found)
                }
                Err(error) if error.kind() == Kind::Auth => {
                    seen.unread += 1;
                    Inquiry::Done(Ok(seen.told(found)))
                }
                Err(error) => Inquiry::Done(Err(error)),
            }
        })
    })
}

/// Asks one server after the other, each in its own time.
fn ask_each<'a>(
    key: Arc<str>,
    servers: usize,
    mut heard: Vec<Server>,
    then: impl FnOnce(Vec<Server>) -> Findings<'a> + Send + 'a,
) -> Findings<'a> {
    if heard.len() == servers {
        return then(heard);
    }
    let number = i64::try_from(heard.len()).unwrap_or(i64::MAX);
    Inquiry::ask([Request::new(&MEMBER, key.clone(), [Arg::Int(number)])], move |replies| {
        match first("examine", replies).and_then(Server::read) {
            Ok(server) => heard.push(server),
            Err(error) => return Inquiry::Done(Err(error)),
        }
        ask_each(key, servers, heard, then)
    })
}

/// Which server a `member` asks.
pub fn number(request: &Request) -> usize {
    match request.args.first() {
        Some(Arg::Int(number)) => usize::try_from(*number).unwrap_or(usize::MAX),
        _ => usize::MAX,
    }
}

/// The leader's clock, which is the only one that transactions tell; none where nothing can be made there yet.
fn of_clock(reply: &Reply, before: u64, after: u64) -> Result<Option<Finding>> {
    match reply {
        Reply::List(parts) => match parts[..] {
            [Reply::Int(_), Reply::Int(at)] => {
                Ok(Some(Reading { before, at: at.unsigned_abs().saturating_mul(1000), after }.finding()))
            }
            _ => Err(garbled("examine")),
        },
        Reply::Error { code, .. } if matches!(code.as_str(), "NoNode" | "NoAuth" | "NodeExists") => Ok(None),
        Reply::Error { code, message } => Err(refused("examine", code, message)),
        _ => Err(garbled("examine")),
    }
}

/// What lies in a directory.
struct Directory<'a> {
    /// Whoever keeps it.
    owner: i64,
    /// The number that its next child has; once they are negative, that is not to be seen here.
    next: i32,
    names: Vec<&'a str>,
}

/// The answer to `directory`; `None` where there is none.
fn directory(reply: &Reply) -> Result<Option<Directory<'_>>> {
    let Reply::List(parts) = reply else { return missing("examine", reply) };
    let [Reply::Int(_), Reply::Int(owner), Reply::Int(cversion), names @ ..] = &parts[..] else {
        return Err(garbled("examine"));
    };
    let names = names.iter().map(|name| match name {
        Reply::Text(name) => Ok(name.as_str()),
        _ => Err(garbled("examine")),
    });
    let names: Vec<_> = names.collect::<Result<_>>()?;
    // A server counts what was created, and tells twice that less what is there, in 32 bits.
    let twice = (*cversion as i32 as u32).wrapping_add(names.len() as u32);
    Ok(Some(Directory { owner: *owner, next: (twice / 2) as i32, names }))
}

/// Looks into these directories, and tells what was found there behind what was `found` before.
fn look<'a>(mut keys: Vec<Arc<str>>, mut seen: Seen, found: Vec<Finding>) -> Findings<'a> {
    let rest = keys.split_off(keys.len().min(PART));
    if keys.is_empty() {
        return Inquiry::Done(Ok(seen.told(found)));
    }
    let requests: Vec<_> = keys.iter().map(|key| on(&DIRECTORY, key)).collect();
    Inquiry::ask(requests, move |replies| {
        let mut left = rest;
        for (key, reply) in keys.iter().zip(replies) {
            match directory(reply) {
                Ok(found) => left.extend(found.iter().flat_map(|found| seen.add(key, found))),
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
    /// Nobody is in them, and the servers do not remove them.
    left: usize,
}

impl Seen {
    /// One more directory. The directories below it that are of the same lock.
    fn add(&mut self, dir: &Arc<str>, found: &Directory<'_>) -> Vec<Arc<str>> {
        let Directory { owner, next, names } = found;
        self.directories += 1;
        self.left += usize::from(names.is_empty() && *owner != CONTAINERS);
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
        let last = last.map(|number| if number < 0 { i32::MAX } else { number }).max().unwrap_or(0).max(*next - 1);
        if last > LAST_SEQUENCE - FEW {
            self.worn.push(dir.clone());
            self.is_over |= last > LAST_SEQUENCE;
        }
        let is_semaphore = SEMAPHORE.iter().all(|below| names.contains(below));
        if is_semaphore { SEMAPHORE.map(|below| child(dir, below)).to_vec() } else { Vec::new() }
    }

    fn containers(&self) -> Finding {
        let found =
            format!("{} of {} directories are empty and no containers, so they stay", self.left, self.directories);
        if self.left < LEFT {
            return Finding::ok("containers", found);
        }
        let advice = "delete those that nobody locks any more: kazoo leaves them, and all servers keep them in memory";
        Finding::of(Severity::Note, "containers", found, advice)
    }

    fn told(self, mut found: Vec<Finding>) -> Vec<Finding> {
        let worn = if self.is_over { Severity::Problem } else { Severity::Warning };
        let wrong = [
            in_places(
                Severity::Warning,
                "layouts",
                "both Curator's and kazoo's contenders stand",
                &self.mixed,
                "they do not see one another: have all users of these locks use one layout",
            ),
            in_places(
                Severity::Warning,
                "nesting",
                "other nodes lie among the contenders",
                &self.nested,
                "Curator takes each of them for somebody in line: do not name locks below other locks",
            ),
            in_places(
                worn,
                "sequence",
                "the numbers of contenders come to their end",
                &self.worn,
                "stop all users of these locks, delete the directories, start them again: numbers then begin at 0",
            ),
            in_places(
                Severity::Warning,
                "crowd",
                "more contenders stand than one answer of a megabyte can name",
                &self.crowded,
                "raise jute.maxbuffer of all clients that list them, or have fewer wait",
            ),
        ];
        found.extend(of_locks(&format!("directories of locks: {}", self.directories), wrong));
        found.push(self.containers());
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

    /// A directory that is somebody's and had so many children.
    fn directory(owner: i64, created: i32, names: &[&str]) -> Reply {
        let cversion = created.wrapping_mul(2).wrapping_sub(names.len() as i32);
        let names = names.iter().map(|name| Reply::Text((*name).into()));
        Reply::List([7, owner, cversion.into()].map(Reply::Int).into_iter().chain(names).collect())
    }

    /// The same, where only the names matter, as it is told to whoever asks for all of it.
    fn whole(reply: Reply) -> Reply {
        match reply {
            Reply::List(mut parts) if !matches!(parts.get(1), Some(Reply::Int(_))) => {
                let count = parts.len() as i64 - 1;
                parts.splice(1..1, [CONTAINERS, count].map(Reply::Int));
                Reply::List(parts)
            }
            other => other,
        }
    }

    /// What is found where these are the answers for the configuration and for each path, at 5 s of a clock of ours.
    fn all(data: Reply, clock: Reply, tree: &[(&str, Reply)]) -> Result<Vec<Finding>> {
        examine(&"/locks".into(), 1, Duration::ZERO, || 5_000_000).conclude(|requests| {
            let at = |path: &str| {
                let known = tree.iter().find(|(known, _)| *known == path);
                known.map_or_else(|| refused("NoNode"), |(_, reply)| reply.clone())
            };
            let answer = |request: &Request| match request.call.name {
                "member" => {
                    Reply::List(vec![Reply::Text("h:1".into()), Reply::Text("Zookeeper version: 3.8.0-1".into())])
                }
                "get" => data.clone(),
                "clock" => clock.clone(),
                "directory" => whole(at(&request.key)),
                _ => at(&request.key),
            };
            Ok(requests.iter().map(answer).collect())
        })
    }

    fn in_time() -> Reply {
        Reply::List(vec![Reply::Int(7), Reply::Int(5_500)])
    }

    fn wrong(tree: &[(&str, Reply)]) -> Vec<(&'static str, Severity)> {
        let three = config("server.1=a:2888:3888:participant\nserver.2=b:1:1:participant\nserver.3=c:1:1\nversion=0");
        let found = all(three, in_time(), tree).unwrap();
        assert_eq!(found[0], Finding::ok("members", "3 members: it goes on without 1 of them"));
        found.iter().map(|one| (one.check, one.severity)).filter(|(_, severity)| *severity > Severity::Ok).collect()
    }

    fn members_of(data: Reply) -> (Severity, String) {
        let found = all(data, in_time(), &[]).unwrap();
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
        let found = all(config(""), in_time(), &tree).unwrap();
        let checks: Vec<_> = found.iter().map(|one| one.check).collect();
        assert_eq!(checks, ["members", "version", "clock", "locks", "containers"]);
        assert!(found[3].found.ends_with(": 2"), "those that are there: {found:?}");
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
    fn numbers_are_told_of_a_directory_that_nobody_is_in() {
        let of = |created| wrong(&[("/locks", list(&["x"])), ("/locks/x", directory(CONTAINERS, created, &[]))]);
        assert_eq!(of(LAST_SEQUENCE - FEW), []);
        assert_eq!(of(LAST_SEQUENCE - FEW + 2), [("sequence", Severity::Warning)]);
        assert_eq!(of(LAST_SEQUENCE + 2), [("sequence", Severity::Problem)]);
        assert_eq!(of(i32::MAX), [("sequence", Severity::Problem)]);
        let held = [("/locks", list(&["x"])), ("/locks/x", directory(CONTAINERS, i32::MAX, LINE))];
        assert_eq!(wrong(&held), [("sequence", Severity::Problem)]);
    }

    #[test]
    fn directories_that_stay_are_counted_and_very_many_of_them_told() {
        let of = |count: usize, owner| {
            let names: Vec<_> = (0..count).map(|at| format!("d{at}")).collect();
            let names: Vec<_> = names.iter().map(String::as_str).collect();
            let paths: Vec<_> = names.iter().map(|name| format!("/locks/{name}")).collect();
            let empty = paths.iter().map(|path| (&**path, directory(owner, 9, &[])));
            wrong(&[("/locks", list(&names))].into_iter().chain(empty).collect::<Vec<_>>())
        };
        assert_eq!(of(LEFT, CONTAINERS), []);
        assert_eq!(of(LEFT - 1, 0), []);
        assert_eq!(of(LEFT, 0), [("containers", Severity::Note)]);
    }

    #[test]
    fn the_leaders_clock_is_compared_with_this_hosts() {
        let of = |clock| {
            let found = all(config(""), clock, &[]).unwrap();
            found.into_iter().find(|one| one.check == "clock").map(|one| one.severity)
        };
        assert_eq!(of(in_time()), Some(Severity::Ok));
        assert_eq!(of(Reply::List(vec![Reply::Int(7), Reply::Int(60_000)])), Some(Severity::Note));
        assert_eq!(["NoNode", "NoAuth"].map(|code| of(refused(code))), [None, None], "nothing was locked yet");
        assert!(all(config(""), refused("ConnectionLoss"), &[]).is_err());
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
        assert!(all(config(""), in_time(), &[("/locks", Reply::Int(1))]).is_err());
        let lost = [("/locks", list(&["x"])), ("/locks/x", refused("ConnectionLoss"))];
        assert!(all(config(""), in_time(), &lost).is_err());
    }
}
