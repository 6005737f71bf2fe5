//! Whether a server is fit to keep locks in, by what it says of itself.

use std::sync::Arc;
use std::time::Duration;

use super::native_scripts;
use crate::error::Result;
use crate::finding::{Finding, Severity};
use crate::protocol::{Call, Inquiry, Reply, Request};
use crate::replies::{listed, nonsense};

static EXAMINE: Call = Call { name: "examine", body: &[include_str!("scripts/examine.lua")], batch: false };

/// The oldest server whose scripts and replies are tried.
const OLDEST: (u32, u32) = (6, 2);
/// Replicas tell each second how far they are.
const SILENT: u64 = 3;
/// So many bytes are on their way now and then.
const UNREAD: u64 = 1 << 20;
/// Clocks that differ by no more are as good as the same: nothing is decided by the client's.
const CLOSE: Duration = Duration::from_secs(1);

/// Asks the server, whose clock is compared with `now`, the client's, in microseconds since 1970; `prefix` routes the
/// request.
pub fn examine<'a>(prefix: &str, now: impl Fn() -> u64 + Send + 'a) -> Inquiry<'a, Vec<Finding>> {
    let before = now();
    Inquiry::of(Request::new(&EXAMINE, prefix.into(), []), move |reply| of_reply(reply, before, now()))
}

/// The same of every master of a cluster, one after the other. The driver answers each request, whose argument is where
/// it has come to and whose key has a star for what brings it to a node, with where to go on, the node's address, its
/// reply, and how many slots no master serves.
pub fn examine_masters<'a>(prefix: &str, now: impl Fn() -> u64 + Send + 'a) -> Inquiry<'a, Vec<Finding>> {
    let (key, before) = (Arc::<str>::from(native_scripts::key(prefix, "*")), now());
    let ask = move |cursor: &str| Request::new(&EXAMINE, key.clone(), [cursor.into()]);
    Inquiry::pages(ask, move |reply| match listed(reply)? {
        [Reply::Text(next), Reply::Text(node), said, Reply::Int(unserved)] => {
            let mut found = match said {
                Reply::Silent => vec![of_silent()],
                Reply::Error { code, .. } => {
                    vec![Finding::of(Severity::Warning, "rights", format!("it refuses ({code})"), RIGHTS)]
                }
                said => of_reply(said, before, now())?,
            };
            for finding in &mut found {
                finding.found = format!("{node}: {}", finding.found);
            }
            if next.is_empty() {
                found.push(of_slots(*unserved));
            }
            Ok((found, Some(next.clone()).filter(|next| !next.is_empty())))
        }
        _ => Err(nonsense("examine", std::slice::from_ref(reply))),
    })
}

const RIGHTS: &str = "grant +info; the page of this store (Rights) has the ACL line";

fn of_silent() -> Finding {
    let advice = "locks of its slots are not had until it is back, or a replica of it takes over";
    Finding::of(Severity::Problem, "nodes", "it does not answer", advice)
}

fn of_slots(unserved: i64) -> Finding {
    if unserved == 0 {
        return Finding::ok("slots", "every slot has a master");
    }
    let found = format!("{unserved} slots have no master, so locks whose names fall there are not had");
    let advice = "bring the masters back, or give the slots to others: redis-cli --cluster fix";
    Finding::of(Severity::Problem, "slots", found, advice)
}

fn of_reply(reply: &Reply, before: u64, after: u64) -> Result<Vec<Finding>> {
    match listed(reply)? {
        [Reply::Int(at), Reply::Text(said)] => {
            Ok(findings(said, &Reading { before, at: u64::try_from(*at).unwrap_or_default(), after }))
        }
        _ => Err(nonsense("examine", std::slice::from_ref(reply))),
    }
}

/// The server's clock, and the client's before and after it was read.
struct Reading {
    before: u64,
    at: u64,
    after: u64,
}

fn findings(said: &str, clock: &Reading) -> Vec<Finding> {
    let said = Said(said);
    if said.of("redis_version").is_none() {
        let mut found = vec![Finding::of(Severity::Note, "rights", "this user may not ask for INFO", RIGHTS)];
        found.push(of_clock(clock));
        return found;
    }
    [version(&said), role(&said), behind(&said), of_eviction(&said), persistence(&said), Some(of_clock(clock))]
        .into_iter()
        .flatten()
        .collect()
}

/// The text of `INFO`.
struct Said<'a>(&'a str);

impl<'a> Said<'a> {
    fn of(&self, what: &str) -> Option<&'a str> {
        let line = |line: &'a str| line.strip_prefix(what)?.strip_prefix(':');
        self.0.lines().find_map(line).map(str::trim)
    }

    fn number(&self, what: &str) -> u64 {
        self.of(what).and_then(|text| text.parse().ok()).unwrap_or_default()
    }
}

fn version(said: &Said<'_>) -> Option<Finding> {
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

fn role(said: &Said<'_>) -> Option<Finding> {
    let replicas = said.number("connected_slaves");
    Some(match said.of("role")? {
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
fn behind(said: &Said<'_>) -> Option<Finding> {
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

fn of_eviction(said: &Said<'_>) -> Option<Finding> {
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

fn persistence(said: &Said<'_>) -> Option<Finding> {
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

fn of_clock(Reading { before, at, after }: &Reading) -> Finding {
    // Where in between it was read is not known.
    let (ahead, behind) = (at.saturating_sub(*after), before.saturating_sub(*at));
    let (by, side) = if ahead > behind { (ahead, "ahead of") } else { (behind, "behind") };
    let by = Duration::from_micros(by);
    if by <= CLOSE {
        return Finding::ok("clock", "the server's and this host's agree to a second");
    }
    let found = format!("the server's is {:.1} s {side} this host's", by.as_secs_f64());
    let advice = "no lock depends on it, since only the server's clock counts; logs and the times that are shown do";
    Finding::of(Severity::Note, "clock", found, advice)
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
    }

    #[test]
    fn clocks_apart_are_told_whatever_the_way_took() {
        let clock = |before, at, after| of_clock(&Reading { before, at, after });
        assert_eq!(clock(0, 60_000_000, 59_500_000).severity, Severity::Ok);
        let ahead = clock(0, 3_600_000_000, 100_000);
        assert!(ahead.severity == Severity::Note && ahead.found.contains("3599.9 s ahead of"), "{ahead:?}");
        let behind = clock(3_600_000_000, 0, 3_700_000_000);
        assert!(behind.found.contains("3600.0 s behind"), "{behind:?}");
        assert_eq!(clock(0, u64::MAX, 0).severity, Severity::Note);
    }

    #[test]
    fn a_reply_of_another_shape_is_none() {
        assert!(examine("", || 0).answered(&Reply::Int(1)).is_err());
        assert!(examine("", || 0).answered(&Reply::List(vec![Reply::Nil, Reply::Nil])).is_err());
        let told =
            examine("", || 5_000_000).answered(&Reply::List(vec![Reply::Int(5_000_000), Reply::Text(GOOD.into())]));
        assert_eq!(told.unwrap().len(), 5);
    }
}
