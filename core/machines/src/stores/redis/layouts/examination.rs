//! Whether a server is fit to keep locks in, by what it says of itself.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use super::native_scripts;
use super::sentinels::{self, Sentinel};
use crate::error::Result;
use crate::finding::clock::{self, Reading};
use crate::finding::said::Said;
use crate::finding::{Finding, Severity};
use crate::pages::Pages;
use crate::protocol::{Arg, Call, Inquiry, Reply, Request};
use crate::replies::{listed, nonsense};

static EXAMINE: Call = Call { name: "examine", body: script!("examine"), batch: false };

/// The oldest server whose scripts and replies are tried.
const OLDEST: (u32, u32) = (6, 2);
/// Replicas tell each second how far they are.
const SILENT: u64 = 3;
/// So many bytes are on their way now and then.
const UNREAD: u64 = 1 << 20;

/// What clients say in layout `native`, with `@` for the key of a lock: what a user may not of it, a server of 7.0 or
/// later tells.
const COMMANDS: [&str; 16] = [
    "EVALSHA 0 0",
    "EVAL 0 0",
    "EXISTS @",
    "HMGET @ v",
    "HGET @ v",
    "HGETALL @",
    "HSET @ v 0",
    "HDEL @ v",
    "HEXISTS @ v",
    "TIME",
    "PEXPIREAT @ 0",
    "PUBLISH lwi:0 0",
    "PUBSUB NUMSUB lwi:0",
    "SUBSCRIBE lwi:0",
    "PING",
    "SCAN 0",
];

/// Asks each of so many sentinels, and the server, whose clock is compared with `now`, the client's, in microseconds
/// since 1970; `prefix` is that of its locks.
pub fn examine<'a>(prefix: &str, sentinels: usize, now: impl Fn() -> u64 + Send + 'a) -> Inquiry<'a, Vec<Finding>> {
    let key = native_scripts::key(prefix, "lockwright-doctor").into();
    ask_sentinels(sentinels::ask(sentinels).collect(), Vec::new(), move |found| {
        let before = now();
        Inquiry::of(request(key), move |reply| {
            Ok(Node::read(reply, before, now())?.found.into_iter().chain(found).collect())
        })
    })
}

/// Asks one after the other, each in its own time, and goes on with what is found.
fn ask_sentinels<'a>(
    mut asks: VecDeque<Request>,
    mut heard: Vec<Sentinel>,
    then: impl FnOnce(Vec<Finding>) -> Inquiry<'a, Vec<Finding>> + Send + 'a,
) -> Inquiry<'a, Vec<Finding>> {
    let Some(next) = asks.pop_front() else {
        return then(if heard.is_empty() { Vec::new() } else { sentinels::findings(&heard) });
    };
    Inquiry::ask([next], move |replies| {
        match replies.first().map_or_else(|| Err(nonsense("examine", replies)), Sentinel::read) {
            Ok(sentinel) => {
                heard.push(sentinel);
                ask_sentinels(asks, heard, then)
            }
            Err(error) => Inquiry::Done(Err(error)),
        }
    })
}

fn request(key: Arc<str>) -> Request {
    Request::new(&EXAMINE, key, COMMANDS.map(Arg::from))
}

/// The same of every master of a cluster, one after the other. The driver answers each request, whose last argument is
/// where it has come to and whose key has a star for what brings it to a node, with where to go on, the node's address,
/// its reply, and how many slots no master serves.
pub fn examine_masters<'a>(prefix: &str, now: impl Fn() -> u64 + Send + 'a) -> Inquiry<'a, Vec<Finding>> {
    ask_master(native_scripts::key(prefix, "*").into(), "".into(), Pages::default(), Vec::new(), now)
}

fn ask_master<'a>(
    key: Arc<str>,
    cursor: Arc<str>,
    mut pages: Pages,
    mut heard: Vec<Node>,
    now: impl Fn() -> u64 + Send + 'a,
) -> Inquiry<'a, Vec<Finding>> {
    let (mut asks, before) = (request(key.clone()), now());
    asks.args.push(Arg::Text(cursor));
    Inquiry::ask([asks], move |replies| {
        let (next, unserved) = match of_master(replies, before, now()) {
            Ok((next, node, unserved)) => {
                heard.push(node);
                (next, unserved)
            }
            Err(error) => return Inquiry::Done(Err(error)),
        };
        if next.is_empty() {
            return Inquiry::Done(Ok(of_masters(heard, unserved)));
        }
        match pages.turn("examine", &next) {
            Ok(()) => ask_master(key, next, pages, heard, now),
            Err(error) => Inquiry::Done(Err(error)),
        }
    })
}

/// Where to go on, what one master says, and how many slots have none.
fn of_master(replies: &[Reply], before: u64, after: u64) -> Result<(Arc<str>, Node, i64)> {
    let [reply] = replies else { return Err(nonsense("examine", replies)) };
    let [Reply::Text(next), Reply::Text(address), said, Reply::Int(unserved)] = listed(reply)? else {
        return Err(nonsense("examine", replies));
    };
    let mut node = match said {
        Reply::Silent => Node::telling(of_no_use("it does not answer".into())),
        Reply::Error { code, .. } if code != DENIED => Node::telling(of_no_use(format!("it does not serve ({code})"))),
        said => Node::read(said, before, after)?,
    };
    for finding in &mut node.found {
        finding.found = format!("{address}: {}", finding.found);
    }
    Ok((next.as_str().into(), node, *unserved))
}

fn of_masters(heard: Vec<Node>, unserved: i64) -> Vec<Finding> {
    let versions: BTreeSet<_> = heard.iter().filter_map(|node| node.version.clone()).collect();
    let ahead: Vec<_> = heard.iter().filter_map(|node| node.ahead).collect();
    let mut found: Vec<_> = heard.into_iter().flat_map(|node| node.found).collect();
    found.extend(of_versions(&versions));
    found.extend(clock::apart(&ahead));
    found.push(of_slots(unserved));
    found
}

/// What whoever lacks a right is told.
const DENIED: &str = "NOPERM";
const RIGHTS: &str = "see the page of this store (Rights), which has the ACL lines";

fn of_no_use(found: String) -> Finding {
    let advice = "locks of its slots are not had until it is back, or a replica of it takes over";
    Finding::of(Severity::Problem, "nodes", found, advice)
}

fn of_versions(versions: &BTreeSet<String>) -> Option<Finding> {
    let found = || format!("the masters are of several: {}", Vec::from_iter(versions.iter().cloned()).join(", "));
    let advice = "bring them all to one version: several are for the time of an upgrade";
    (versions.len() > 1).then(|| Finding::of(Severity::Note, "versions", found(), advice))
}

fn of_slots(unserved: i64) -> Finding {
    if unserved == 0 {
        return Finding::ok("slots", "every slot has a master");
    }
    let found = format!("{unserved} slots have no master, so locks whose names fall there are not had");
    let advice = "bring the masters back, or give the slots to others: redis-cli --cluster fix";
    Finding::of(Severity::Problem, "slots", found, advice)
}

/// What a server says of itself, and what is compared with what others say.
struct Node {
    found: Vec<Finding>,
    version: Option<String>,
    /// By how many microseconds its clock is ahead of this host's.
    ahead: Option<i64>,
}

impl Node {
    fn telling(finding: Finding) -> Self {
        Node { found: vec![finding], version: None, ahead: None }
    }

    /// What it answers.
    fn read(reply: &Reply, before: u64, after: u64) -> Result<Self> {
        if let Reply::Error { code, .. } = reply
            && code == DENIED
        {
            let found = "this user may not examine it";
            return Ok(Node::telling(Finding::of(Severity::Warning, "rights", found, RIGHTS)));
        }
        let [Reply::Int(at), Reply::Text(said), denied @ ..] = listed(reply)? else {
            return Err(nonsense("examine", std::slice::from_ref(reply)));
        };
        let clock = Reading { before, at: u64::try_from(*at).unwrap_or_default(), after };
        let mut found = findings(said, &clock);
        found.extend(of_rights(denied));
        let version = Said(said).of("redis_version").map(str::to_owned);
        Ok(Node { found, version, ahead: Some(clock.ahead()) })
    }
}

/// What this user may not do.
fn of_rights(denied: &[Reply]) -> Option<Finding> {
    let words = denied.iter().filter_map(|one| match one {
        Reply::Text(command) => command.split(' ').next(),
        _ => None,
    });
    let words: Vec<_> = words.collect();
    let found = || format!("in layout native this user may not use {}", words.join(", "));
    (!words.is_empty()).then(|| Finding::of(Severity::Note, "rights", found(), RIGHTS))
}

fn findings(said: &str, clock: &Reading) -> Vec<Finding> {
    let said = Said(said);
    if said.of("redis_version").is_none() {
        let mut found = vec![Finding::of(Severity::Note, "rights", "this user may not ask for INFO", RIGHTS)];
        found.push(clock.finding());
        return found;
    }
    [version(said), role(said), behind(said), of_eviction(said), persistence(said), Some(clock.finding())]
        .into_iter()
        .flatten()
        .collect()
}

fn version(said: Said<'_>) -> Option<Finding> {
    // Valkey says the version of Redis that it stands in for as well.
    let (name, shown) = match said.of("valkey_version") {
        Some(version) => ("Valkey", version),
        None => ("Redis", said.of("redis_version")?),
    };
    let mut parts = said.of("redis_version")?.split('.').map(|part| part.parse().unwrap_or(0));
    let version = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
    let mode = said.of("redis_mode").or_else(|| said.of("server_mode")).unwrap_or("standalone");
    let found = format!("{name} {shown}, {mode}");
    Some(if version < OLDEST {
        Finding::of(Severity::Warning, "version", found, "nothing older than 6.2 was ever tried; use a newer server")
    } else {
        Finding::ok("version", found)
    })
}

fn role(said: Said<'_>) -> Option<Finding> {
    let replicas = said.number("connected_slaves");
    Some(match said.of("role")? {
        "active-replica" => Finding::of(
            Severity::Problem,
            "replication",
            "one of several servers of which each takes writes (KeyDB's active-replica): each grants for itself",
            "keep locks in a server that nobody else writes for: two of these grant one lock to two holders",
        ),
        "master" if replicas == 0 => Finding::ok("replication", "a master without replicas"),
        "master" => Finding::of(
            Severity::Note,
            "replication",
            format!("a master with {replicas} replicas, which learn of a lock a moment after its holder"),
            "a fail-over may forget the youngest locks and grant them twice; fence what must not be done twice",
        ),
        _ => {
            let master = said.of("master_host").unwrap_or("its master");
            let found = format!("a replica of {master}: it takes no writes, so no locks");
            Finding::of(Severity::Problem, "replication", found, "name the master's address")
        }
    })
}

/// Replicas that are not there, or far behind: a fail-over to one of them forgets much.
fn behind(said: Said<'_>) -> Option<Finding> {
    let written = said.number("master_repl_offset");
    let lags = (0..said.number("connected_slaves")).filter_map(|number| {
        let replica = said.of(&format!("slave{number}"))?;
        let of = |what: &str| replica.split(',').find_map(|part| part.strip_prefix(what)?.strip_prefix('='));
        let at = format!("{}:{}", of("ip")?, of("port")?);
        if of("state")? != "online" {
            return Some(format!("{at} is not in step yet ({})", of("state")?));
        }
        let (silent, read) = (of("lag")?.parse::<u64>().ok()?, of("offset")?.parse::<u64>().ok()?);
        let unread = written.saturating_sub(read);
        let is_behind = silent > SILENT || unread > UNREAD;
        is_behind.then(|| format!("{at} was heard of {silent} s ago and has {unread} bytes to read"))
    });
    let lags: Vec<_> = lags.collect();
    let advice = "mend the way to the replica: a fail-over to it forgets all that it has not read; failover_delay waits for the end of such locks";
    (!lags.is_empty()).then(|| Finding::of(Severity::Warning, "lag", lags.join("; "), advice))
}

fn of_eviction(said: Said<'_>) -> Option<Finding> {
    let policy = said.of("maxmemory_policy")?;
    let (limit, evicted) = (said.number("maxmemory"), said.number("evicted_keys"));
    Some(match (policy, limit) {
        ("noeviction", 0) => Finding::ok("eviction", "noeviction, without a limit of memory"),
        ("noeviction", limit) => Finding::ok("eviction", format!("noeviction at {limit} bytes of memory")),
        (policy, 0) => Finding::of(
            Severity::Note,
            "eviction",
            format!("{policy}, which waits for a limit of memory that is not set (maxmemory is 0)"),
            "set maxmemory-policy to noeviction before somebody sets maxmemory",
        ),
        (policy, limit) => Finding::of(
            Severity::Warning,
            "eviction",
            format!(
                "{policy} at {limit} bytes of memory: it may throw away locks that are held ({evicted} keys evicted)"
            ),
            "set maxmemory-policy to noeviction, or give the locks a server of their own",
        ),
    })
}

fn persistence(said: Said<'_>) -> Option<Finding> {
    if said.of("rdb_last_bgsave_status").is_some_and(|status| status != "ok") {
        let advice = "mend its disk (its log says what is wrong): by default it takes no writes meanwhile, so no locks";
        return Some(Finding::of(Severity::Problem, "persistence", "its last snapshot failed", advice));
    }
    if said.of("aof_last_write_status").is_some_and(|status| status != "ok") {
        let advice = "mend its disk (its log says what is wrong): it takes no writes meanwhile, so no locks";
        return Some(Finding::of(
            Severity::Problem,
            "persistence",
            "its last write of the append-only file failed",
            advice,
        ));
    }
    Some(match said.of("aof_enabled")? {
        "1" => Finding::ok(
            "persistence",
            "the append-only file is on; what it wrote last may be lost unless it is always synced",
        ),
        _ => Finding::of(
            Severity::Note,
            "persistence",
            "no append-only file: after a crash the server has forgotten the locks, and their tokens, since its last snapshot",
            "fence what must not be done twice; appendonly yes with appendfsync always forgets nothing",
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "redis_version:7.0.15\r\nredis_mode:standalone\r\nmaxmemory:0\r\nmaxmemory_policy:noeviction\r\n\
                        aof_enabled:1\r\nrdb_last_bgsave_status:ok\r\nrole:master\r\nconnected_slaves:0\r\n";

    /// One replica, that has read 10 bytes of so many.
    fn replica(state: &str, written: u64, lag: u64) -> String {
        format!(
            "connected_slaves:1\r\nslave0:ip=10.0.0.2,port=6379,state={state},offset=10,lag={lag}\r\nmaster_repl_offset:{written}"
        )
    }

    #[test]
    fn every_master_of_a_cluster_is_told_of() {
        let reply = |next: &str, said: Reply| {
            let (next, node) = (Reply::Text(next.into()), Reply::Text("h:1".into()));
            Reply::List(vec![next, node, said, Reply::Int(7)])
        };
        let good = Reply::List(vec![Reply::Int(5_000_000), Reply::Text(GOOD.into())]);
        let mut replies = vec![reply("", good), reply("1 ", Reply::Silent)];
        let told = examine_masters("app:", || 5_000_000).conclude(|requests| {
            assert_eq!(&*requests[0].key, "lw:{app:*}");
            Ok(vec![replies.pop().unwrap()])
        });
        let told = told.unwrap();
        let of = |at: usize| (told[at].check, told[at].severity);
        assert_eq!((of(0), of(1), told.len()), (("nodes", Severity::Problem), ("version", Severity::Ok), 7));
        assert!(told[1].found.starts_with("h:1: Redis"), "{:?}", told[1]);
        assert_eq!(of(6), ("slots", Severity::Problem));
    }

    #[test]
    fn masters_are_compared_with_one_another() {
        let of =
            |at, said: &str| Node::read(&Reply::List(vec![Reply::Int(at), Reply::Text(said.into())]), 0, 0).unwrap();
        let told = |nodes: [Node; 2]| -> Vec<_> {
            let found = of_masters(nodes.into(), 0).into_iter().filter(|one| one.severity > Severity::Ok);
            found.map(|one| (one.check, one.severity)).filter(|one| one.0 != "clock").collect()
        };
        assert_eq!(told([of(0, GOOD), of(900_000, GOOD)]), []);
        assert_eq!(told([of(0, GOOD), of(2_000_000, GOOD)]), [("clocks", Severity::Note)]);
        assert_eq!(told([of(0, GOOD), of(0, &GOOD.replace("7.0.15", "7.2.4"))]), [("versions", Severity::Note)]);
    }

    fn found(said: &str) -> Vec<(&'static str, Severity)> {
        let clock = Reading { before: 5_000_000, at: 5_100_000, after: 5_200_000 };
        findings(said, &clock).into_iter().map(|finding| (finding.check, finding.severity)).collect()
    }

    #[test]
    fn a_server_that_is_fit_has_nothing_to_mend() {
        assert_eq!(
            found(GOOD),
            ["version", "replication", "eviction", "persistence", "clock"].map(|check| (check, Severity::Ok))
        );
    }

    #[test]
    fn what_may_lose_locks_is_told() {
        for (says, instead, check, severity) in [
            ("redis_version:7.0.15", "redis_version:5.0.14", "version", Severity::Warning),
            ("role:master", "role:slave\r\nmaster_host:10.0.0.1", "replication", Severity::Problem),
            ("role:master", "role:active-replica", "replication", Severity::Problem),
            ("connected_slaves:0", "connected_slaves:2", "replication", Severity::Note),
            ("maxmemory_policy:noeviction", "maxmemory_policy:allkeys-lru", "eviction", Severity::Note),
            (
                "maxmemory:0\r\nmaxmemory_policy:noeviction",
                "maxmemory:9\r\nmaxmemory_policy:volatile-ttl",
                "eviction",
                Severity::Warning,
            ),
            ("aof_enabled:1", "aof_enabled:0", "persistence", Severity::Note),
            ("connected_slaves:0", &replica("online", 10, 4), "lag", Severity::Warning),
            ("connected_slaves:0", &replica("wait_bgsave", 10, 0), "lag", Severity::Warning),
            ("connected_slaves:0", &replica("online", 10 + (2 << 20), 0), "lag", Severity::Warning),
            ("rdb_last_bgsave_status:ok", "rdb_last_bgsave_status:err", "persistence", Severity::Problem),
            ("aof_enabled:1", "aof_enabled:1\r\naof_last_write_status:err", "persistence", Severity::Problem),
        ] {
            let said = GOOD.replace(says, instead);
            assert_ne!(said, GOOD);
            let worst: Vec<_> = found(&said).into_iter().filter(|(_, severity)| *severity > Severity::Ok).collect();
            let has_replicas = check == "lag";
            let of_replicas = [("replication", Severity::Note)].into_iter().filter(|_| has_replicas);
            assert_eq!(worst, of_replicas.chain([(check, severity)]).collect::<Vec<_>>(), "{instead}");
        }
    }

    #[test]
    fn a_user_without_the_right_learns_which() {
        assert_eq!(found(""), [("rights", Severity::Note), ("clock", Severity::Ok)]);
        let text = |text: &str| Reply::Text(text.into());
        let denied = Reply::List(vec![Reply::Int(0), text(GOOD), text("PUBLISH lwi:0 0"), text("SCAN 0")]);
        let told = examine("", 0, || 0).answered(&denied).unwrap().pop().unwrap();
        assert_eq!((told.check, told.severity), ("rights", Severity::Note));
        assert!(told.found.ends_with("may not use PUBLISH, SCAN"), "{told:?}");
        let refused = |code: &str| Reply::Error { code: code.into(), message: String::new() };
        assert_eq!(examine("", 0, || 0).answered(&refused("NOPERM")).unwrap()[0].severity, Severity::Warning);
        assert!(examine("", 0, || 0).answered(&refused("LOADING")).is_err());
    }

    #[test]
    fn a_reply_of_another_shape_is_none() {
        assert!(examine("", 0, || 0).answered(&Reply::Int(1)).is_err());
        assert!(examine("", 0, || 0).answered(&Reply::List(vec![Reply::Nil, Reply::Nil])).is_err());
        let told =
            examine("", 0, || 5_000_000).answered(&Reply::List(vec![Reply::Int(5_000_000), Reply::Text(GOOD.into())]));
        assert_eq!(told.unwrap().len(), 5);
    }
}
