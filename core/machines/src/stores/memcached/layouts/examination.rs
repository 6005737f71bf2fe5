//! Whether a server is fit to keep locks in, by what it says of itself.

use super::{SETTINGS, STATS, refused};
use crate::error::Result;
use crate::finding::{Finding, Severity};
use crate::protocol::{Inquiry, Reply, Request};
use crate::replies::nonsense;

/// The oldest server that was tried.
const OLDEST: (u32, u32, u32) = (1, 6, 18);
/// Of its memory, so much in use is nearly all.
const FULL: u64 = 90;
/// The most bytes that a lock takes: its key, who holds it, and what the server puts before that.
const LOCK: u64 = 1024;
/// A server that was started so many seconds ago may have forgotten locks.
const YOUNG: u64 = 3600;

/// Asks the server. What it does not say is left out.
pub fn examine<'a>() -> Inquiry<'a, Vec<Finding>> {
    let requests = [Request::new(&STATS, "".into(), []), Request::new(&SETTINGS, "".into(), [])];
    Inquiry::ask(requests, |replies| Inquiry::Done(findings(replies)))
}

/// What it does once its memory is full: `lru` where it evicts what was used longest ago, else `noeviction`.
pub fn eviction<'a>() -> Inquiry<'a, Option<String>> {
    Inquiry::of(Request::new(&SETTINGS, "".into(), []), |reply| {
        let evictions = Said::of("connect", reply)?.text("evictions");
        Ok(evictions.map(|evicts| if evicts == "off" { "noeviction" } else { "lru" }.to_owned()))
    })
}

fn findings(replies: &[Reply]) -> Result<Vec<Finding>> {
    let [stats, settings] = replies else { return Err(nonsense("examine", replies)) };
    let (stats, settings) = (Said::of("examine", stats)?, Said::of("examine", settings)?);
    Ok(vec![
        version(&stats),
        numbers(&settings),
        eviction_of(&stats, &settings),
        memory(&stats),
        item_size(&settings),
        restart(&stats),
        several(),
    ])
}

/// Names and values, in turn.
#[derive(Debug)]
pub struct Said<'a>(&'a [Reply]);

impl<'a> Said<'a> {
    /// What a reply says.
    ///
    /// # Errors
    /// What the server refuses with, or `protocol` for what is no list.
    pub fn of(operation: &'static str, reply: &'a Reply) -> Result<Self> {
        match reply {
            Reply::List(list) => Ok(Said(list)),
            Reply::Error { code, message } => Err(refused(operation, code, message)),
            other => Err(nonsense(operation, std::slice::from_ref(other))),
        }
    }

    /// The value of that name.
    pub fn text(&self, name: &str) -> Option<&'a str> {
        self.0.chunks(2).find_map(|pair| match pair {
            [Reply::Text(known), Reply::Text(value)] if known == name => Some(value.as_str()),
            _ => None,
        })
    }

    /// The same as a number.
    pub fn number(&self, name: &str) -> Option<u64> {
        self.text(name)?.parse().ok()
    }
}

fn version(stats: &Said<'_>) -> Finding {
    let Some(version) = stats.text("version") else {
        let advice = "see whether this is a memcached itself: locks cannot be kept through a proxy";
        return Finding::of(Severity::Warning, "version", "the server does not tell its version", advice);
    };
    let mut numbers = version.split('.').map(|part| part.parse().unwrap_or(0));
    let mut next = || numbers.next().unwrap_or(0);
    let found = format!("memcached {version}");
    if (next(), next(), next()) < OLDEST {
        return Finding::of(Severity::Note, "version", found, "locks were tried with 1.6.18 and later");
    }
    Finding::ok("version", found)
}

fn numbers(settings: &Said<'_>) -> Finding {
    match settings.text("cas_enabled") {
        Some("no") => Finding::of(
            Severity::Problem,
            "cas",
            "it was started with -C: what is stored has no number, by which a lock is renewed and given back",
            "start it without -C",
        ),
        _ => Finding::ok("cas", "what is stored has a number"),
    }
}

fn eviction_of(stats: &Said<'_>, settings: &Said<'_>) -> Finding {
    let evicted = stats.number("evictions").unwrap_or(0);
    match settings.text("evictions") {
        Some("off") => Finding::ok("eviction", "it was started with -M: a full server refuses locks and forgets none"),
        _ if evicted > 0 => Finding::of(
            Severity::Warning,
            "eviction",
            format!("it has evicted {evicted} values since it was started; locks may have been among them"),
            "give it more memory (-m), or keep locks in one of their own, started with -M",
        ),
        _ => Finding::of(
            Severity::Note,
            "eviction",
            "it has evicted nothing yet, but forgets what was used longest ago once its memory is full",
            "keep locks in a server of their own, started with -M",
        ),
    }
}

fn memory(stats: &Said<'_>) -> Finding {
    let (used, most) = (stats.number("bytes").unwrap_or(0), stats.number("limit_maxbytes").unwrap_or(0));
    let (used_mib, most_mib) = (used >> 20, most >> 20);
    let found = format!("{used_mib} of {most_mib} MiB in use");
    if most > 0 && used >= most / 100 * FULL {
        return Finding::of(Severity::Warning, "memory", found, "give it more memory (-m)");
    }
    Finding::ok("memory", found)
}

fn item_size(settings: &Said<'_>) -> Finding {
    match settings.number("item_size_max") {
        Some(most) if most < LOCK => Finding::of(
            Severity::Problem,
            "item_size",
            format!("an item has {most} bytes at most, and a lock with all that is said of its holder up to {LOCK}"),
            "raise it (-I)",
        ),
        Some(most) => Finding::ok("item_size", format!("a lock is far from the {most} bytes that an item may have")),
        None => Finding::ok("item_size", "the server does not tell; as it comes, every lock fits"),
    }
}

fn restart(stats: &Said<'_>) -> Finding {
    match stats.number("uptime") {
        Some(seconds) if seconds < YOUNG => Finding::of(
            Severity::Note,
            "restart",
            format!("it was started {seconds} s ago, and forgot all locks then; tokens began again at 1"),
            "see why it was restarted, where nobody did it on purpose",
        ),
        Some(seconds) => Finding::ok("restart", format!("it has been running for {} h", seconds / 3600)),
        None => Finding::of(Severity::Note, "restart", "the server does not tell since when it runs", "see its log"),
    }
}

fn several() -> Finding {
    Finding::of(
        Severity::Note,
        "servers",
        "a lock is kept by this server alone",
        "give every program this one address, also where caches of others are spread over several",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Kind;

    fn said(words: &str) -> Reply {
        Reply::List(words.split_whitespace().map(|word| Reply::Text(word.into())).collect())
    }

    const STATS: &str = "version 1.6.18 uptime 7200 evictions 0 bytes 1000 limit_maxbytes 67108864";

    fn wrong(stats: &str, settings: &str) -> Vec<(&'static str, Severity)> {
        let found = findings(&[said(&format!("{stats} {STATS}")), said(settings)]).unwrap();
        let of = |finding: &Finding| (finding.check, finding.severity);
        // That it is one server is always told.
        found.iter().map(of).filter(|(check, severity)| *severity != Severity::Ok && *check != "servers").collect()
    }

    #[test]
    fn what_is_wrong_is_told() {
        let fine = "evictions off cas_enabled yes";
        assert_eq!(wrong("", fine), []);
        assert_eq!(wrong("version 1.4.39", fine), [("version", Severity::Note)]);
        assert_eq!(wrong("uptime 5", fine), [("restart", Severity::Note)]);
        assert_eq!(wrong("bytes 67000000", fine), [("memory", Severity::Warning)]);
        assert_eq!(wrong("", "evictions on cas_enabled yes"), [("eviction", Severity::Note)]);
        assert_eq!(wrong("evictions 3", "evictions on cas_enabled yes"), [("eviction", Severity::Warning)]);
        assert_eq!(wrong("", "evictions off cas_enabled no"), [("cas", Severity::Problem)]);
        assert_eq!(wrong("", "evictions off item_size_max 1024"), []);
        assert_eq!(wrong("", "evictions off item_size_max 512"), [("item_size", Severity::Problem)]);
    }

    #[test]
    fn what_is_no_memcached_is_an_error() {
        assert_eq!(findings(&[said(STATS)]).unwrap_err().kind(), Kind::Protocol);
        assert_eq!(findings(&[Reply::Int(1), said("")]).unwrap_err().kind(), Kind::Protocol);
        let evicts = |settings| eviction().answered(&said(settings)).unwrap();
        assert_eq!(["evictions on", "evictions off"].map(evicts), ["lru", "noeviction"].map(|word| Some(word.into())));
        assert_eq!(evicts(""), None);
    }
}
