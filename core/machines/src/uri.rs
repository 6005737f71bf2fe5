//! Where the locks are kept, as one text: `redis://user:secret@host:6379/0?ttl=10s&layout=native`.
//!
//! The scheme names the store, the rest its place there, and the query the options: those of a lock (defaults for every
//! lock of the client) and those of the connection. Parsing sends nothing.

use std::ops::Range;
use std::time::Duration;

use url::Url;

use crate::error::{Error, Result};
use crate::options::{AcquireOptions, ConnectOptions, MAX_TIMEOUT, Retry};

/// The environment variable that says where locks are kept when the program does not.
pub const ENVIRONMENT: &str = "LOCKWRIGHT_URL";

/// What the addresses of all stores begin with, wherever they are to be had.
pub const SCHEMES: [&str; 18] = [
    "etcd",
    "etcds",
    "mariadb",
    "memcached",
    "memory",
    "mysql",
    "postgres",
    "postgresql",
    "redis",
    "redis+cluster",
    "redis+sentinel",
    "redis+unix",
    "rediss",
    "rediss+cluster",
    "rediss+sentinel",
    "sqlite",
    "zookeeper",
    "zookeepers",
];

/// A parsed address with the options that rode in it. Its `Debug` shows no user, no password and no option that is not
/// known.
#[derive(Clone)]
pub struct Uri {
    /// The address; may hold a password.
    url: Url,
    /// Defaults for every lock of the client.
    pub lock: AcquireOptions,
    /// How to reach the store.
    pub connect: ConnectOptions,
    /// The hosts behind the first one, each with its port where it has one; unread yet.
    more_hosts: Vec<String>,
    /// The other nodes of a quorum; unread yet.
    other_nodes: Vec<Uri>,
    /// Options that concern only this store, unread yet.
    pub rest: Vec<(String, String)>,
    /// Which those are that the store has asked for.
    own: Vec<&'static str>,
    /// Whether a password may have been taken for something else.
    hides_a_password: bool,
}

impl std::fmt::Debug for Uri {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let shown = if self.hides_a_password { format!("{}://..", self.scheme()) } else { self.redacted() };
        let (lock, connect) = (&self.lock, &self.connect);
        f.debug_struct("Uri").field("url", &shown).field("lock", lock).field("connect", connect).finish_non_exhaustive()
    }
}

impl Uri {
    /// Parses `text`, with `connect` as the defaults of what it does not say.
    ///
    /// # Errors
    /// `invalid_config` that says which part is wrong, without showing a password.
    pub fn parse(text: &str, connect: ConnectOptions) -> Result<Self> {
        let mut nodes = text.split_whitespace();
        match (nodes.next(), nodes.next()) {
            (Some(_), Some(_)) => Self::of_nodes(text.split_whitespace(), &connect),
            _ => {
                let (mut uri, options) = Self::without_options(text, connect)?;
                uri.take_options(options).map_err(|error| discreet(&uri, error))?;
                Ok(uri)
            }
        }
    }

    /// Several addresses, each of a node of a quorum: the first, which has the [others](Self::take_other_nodes). What
    /// an address says of its own node is how that is reached; everything else holds for all, wherever it stands.
    fn of_nodes<'a>(nodes: impl Iterator<Item = &'a str>, connect: &ConnectOptions) -> Result<Self> {
        let mut all: Vec<(Uri, Vec<(String, String)>)> = Vec::new();
        let mut common: Vec<(String, String)> = Vec::new();
        let mut twofold: Option<String> = None;
        for text in nodes {
            let (uri, options) = Self::without_options(text, connect.clone())?;
            let (own, shared): (Vec<_>, Vec<_>) =
                options.into_iter().partition(|(key, _)| OF_A_NODE.contains(&key.as_str()));
            for (key, value) in shared {
                match common.iter().find(|(known, _)| *known == key) {
                    Some((_, other)) if *other != value => twofold = twofold.or(Some(key)),
                    Some(_) => {}
                    None => common.push((key, value)),
                }
            }
            all.push((uri, own));
        }
        // What hides in one of them may be quoted of another.
        let hides = all.iter().any(|(uri, _)| uri.hides_a_password);
        all.iter_mut().for_each(|(uri, _)| uri.hides_a_password = hides);
        if let (Some(key), Some((uri, _))) = (twofold, all.first()) {
            let message = format!("the addresses say two things of {key}, which is the same for all nodes");
            return Err(discreet(uri, Error::invalid("connect", message)));
        }
        let mut read = Vec::with_capacity(all.len());
        for (number, (mut uri, own)) in all.into_iter().enumerate() {
            let known = |(key, _): &&(String, String)| {
                number == 0 || OPTIONS.contains(&key.as_str()) || OF_EACH_NODE.contains(&key.as_str())
            };
            let options = own.into_iter().chain(common.iter().filter(known).cloned()).collect();
            uri.take_options(options).map_err(|error| discreet(&uri, error))?;
            read.push(uri);
        }
        let others = read.split_off(1);
        let Some(mut first) = read.pop() else { return Err(Error::invalid("connect", no_uri("", None))) };
        first.other_nodes = others;
        Ok(first)
    }

    /// The address alone, and the options that rode in it.
    fn without_options(text: &str, connect: ConnectOptions) -> Result<(Self, Vec<(String, String)>)> {
        let hosts = hosts(text);
        let mut each = text[hosts.clone()].split(',');
        let first = each.next().unwrap_or_default();
        let more_hosts = each.map(str::to_owned).collect();
        let text = &format!("{}{first}{}", &text[..hosts.start], &text[hosts.end..]);
        let url = match Url::parse(text.trim()) {
            Ok(url) if !is_host_and_port(text.trim()) => url,
            parsed => return Err(Error::invalid("connect", no_uri(text.trim(), parsed.err()))),
        };
        if url.fragment().is_some() {
            return Err(Error::invalid("connect", "a # in the address is written %23"));
        }
        let hides_a_password = behind_the_host(text).contains('@');
        let (lock, rest, own) = (AcquireOptions::default(), Vec::new(), Vec::new());
        let options = url.query_pairs().map(|(k, v)| (k.into_owned(), v.into_owned())).collect();
        let uri = Uri { lock, connect, more_hosts, other_nodes: Vec::new(), rest, own, hides_a_password, url };
        Ok((uri, options))
    }

    fn take_options(&mut self, options: Vec<(String, String)>) -> Result<()> {
        for (key, value) in options {
            self.take(key, value)?;
        }
        self.lock.check()?;
        self.connect.check()
    }

    /// The scheme, in lower case.
    pub fn scheme(&self) -> &str {
        self.url.scheme()
    }

    /// The address itself; may hold a password, so never show it.
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// The address as it may be shown: no user, no password, no options.
    pub fn redacted(&self) -> String {
        let port = self.url.port().map(|port| format!(":{port}")).unwrap_or_default();
        let more: String = self.more_hosts.iter().map(|host| format!(",{host}")).collect();
        let nodes: String = self.other_nodes.iter().map(|node| format!(" {}", node.redacted())).collect();
        let (scheme, host) = (self.url.scheme(), self.url.host_str().unwrap_or_default());
        format!("{scheme}://{host}{port}{more}{}{nodes}", self.url.path())
    }

    /// Takes the hosts behind the first one, each with its port where it has one.
    pub fn take_more_hosts(&mut self) -> Vec<String> {
        std::mem::take(&mut self.more_hosts)
    }

    /// Takes the addresses of the other nodes of a quorum, whose first node this one names.
    pub fn take_other_nodes(&mut self) -> Vec<Uri> {
        std::mem::take(&mut self.other_nodes)
    }

    /// Takes the store's own option `key` out of those not read yet.
    pub fn take_rest(&mut self, key: &'static str) -> Option<String> {
        self.own.push(key);
        let at = self.rest.iter().position(|(k, _)| k == key)?;
        Some(self.rest.swap_remove(at).1)
    }

    /// Complains about options and hosts that nobody read.
    ///
    /// # Errors
    /// `invalid_config` naming the first of them; `unsupported` for a list of hosts.
    pub fn check_all_read(&self) -> Result<()> {
        if !self.more_hosts.is_empty() {
            return Err(several());
        }
        match self.rest.first() {
            None => Ok(()),
            Some((key, _)) => {
                let meant = OPTIONS.iter().find(|option| is_nearly(key, option));
                let meant = meant.map(|option| format!("; did you mean {option}?")).unwrap_or_default();
                let all: Vec<_> = OPTIONS.iter().chain(&self.own).copied().collect();
                let (scheme, all) = (self.scheme(), all.join(", "));
                let message =
                    format!("the address has an option {key:?}, which {scheme} does not have{meant} (options: {all})");
                Err(Error::invalid("connect", message))
            }
        }
    }

    /// Takes one of [`OPTIONS`], and keeps others for the store.
    fn take(&mut self, key: String, value: String) -> Result<()> {
        let text = value.as_str();
        match key.as_str() {
            "ttl" => self.lock.ttl = span(&key, text)?,
            "timeout" => self.lock.timeout = Some(span(&key, text)?),
            "max_hold" => self.lock.max_hold = Some(span(&key, text)?),
            "renew" => self.lock.renew = flag(&key, text)?,
            "fair" => self.lock.fair = flag(&key, text)?,
            "rank" => self.lock.rank = rank(&key, text)?,
            "keep" if flag(&key, text)? => {
                return Err(Error::unsupported("lock", "keep (the sticky lease) is not built yet; leave it out"));
            }
            "keep" => {}
            "layout" => self.lock.layout = Some(text.into()),
            "format" => self.lock.format = (!text.is_empty()).then(|| text.into()),
            "retry" => self.lock.retry = retry(&key, text)?,
            "label" => self.lock.label = Some(text.into()),
            "prefix" => self.connect.prefix = value,
            "connect_timeout" => self.connect.connect_timeout = span(&key, text)?,
            "response_timeout" => self.connect.response_timeout = span(&key, text)?,
            "store_timeout" => self.connect.store_timeout = span(&key, text)?,
            "ca" => self.connect.ca = Some(value),
            "cert" => self.connect.cert = Some(value),
            "key" => self.connect.key = Some(value),
            _ => self.rest.push((key, value)),
        }
        Ok(())
    }
}

/// What is wrong with an address, without quoting it where a password may have been taken for something else: an
/// `@` behind the host means that a `/`, `?` or `#` stood before it.
pub fn discreet(uri: &Uri, error: Error) -> Error {
    if !uri.hides_a_password {
        return error;
    }
    let message = "the address cannot be used as it is, and is not quoted since part of it may be a password; write \
                   scheme://user:password@host, and / ? # @ % inside a password as %2F %3F %23 %40 %25";
    Error::new(error.kind(), "connect", message)
}

/// The options that every store's address may have.
pub const OPTIONS: [&str; 18] = [
    "ttl",
    "timeout",
    "max_hold",
    "renew",
    "fair",
    "rank",
    "keep",
    "layout",
    "format",
    "retry",
    "label",
    "prefix",
    "connect_timeout",
    "response_timeout",
    "store_timeout",
    "ca",
    "cert",
    "key",
];

/// What an address of a quorum says of its own node; anything else holds for all.
const OF_A_NODE: [&str; 7] = ["prefix", "db", "ca", "cert", "key", "sentinel_user", "sentinel_password"];

/// What a store's address says of its locks, so that each node has to know it.
const OF_EACH_NODE: [&str; 1] = ["tokens"];

/// Whether a word is another one with a letter too many, too few, wrong, or two of them swapped.
fn is_nearly(word: &str, other: &str) -> bool {
    let (word, other): (Vec<char>, Vec<char>) = (word.chars().collect(), other.chars().collect());
    let (long, short) = if word.len() >= other.len() { (word, other) } else { (other, word) };
    let same = long.iter().zip(short.iter()).take_while(|(a, b)| a == b).count();
    let (long, short) = (&long[same..], &short[same..]);
    match long.len() - short.len() {
        0 => {
            let swapped = long.len() > 1 && long[0] == short[1] && long[1] == short[0] && long[2..] == short[2..];
            long.is_empty() || long[1..] == short[1..] || swapped
        }
        1 => long[1..] == *short,
        _ => false,
    }
}

fn several() -> Error {
    let message = "the address names several hosts, and this store has one; a cluster is redis+cluster://a,b, sentinels are \
                   redis+sentinel://a,b/mymaster, and the nodes of a quorum are addresses with a space between them, \
                   redis://a redis://b redis://c";
    Error::unsupported("connect", message)
}

/// Where an address names its host or hosts.
fn hosts(text: &str) -> Range<usize> {
    let Some(start) = text.find("://").map(|at| at + "://".len()) else { return 0..0 };
    let end = text[start..].find(['/', '?', '#']).map_or(text.len(), |at| start + at);
    let start = text[start..end].rfind('@').map_or(start, |at| start + at + 1);
    start..end
}

/// Whether somebody left the scheme out.
fn is_host_and_port(text: &str) -> bool {
    let host = |c: char| c.is_ascii_alphanumeric() || c == '.' || c == '-';
    text.split_once(':').is_some_and(|(name, port)| {
        !name.is_empty() && name.chars().all(host) && !port.is_empty() && port.chars().all(|c| c.is_ascii_digit())
    })
}

/// Why a text is no address. It is quoted only where it is no password that got into the wrong place.
fn no_uri(text: &str, error: Option<url::ParseError>) -> String {
    const ADVICE: &str = "write one such as redis://localhost:6379 or sqlite:///var/lib/app/locks.db";
    let is_ip = || text.contains('.') && text.chars().all(|c| c.is_ascii_digit() || c == '.');
    if text.is_empty() {
        return format!("the address is empty; {ADVICE}");
    }
    if text == "localhost" || is_ip() || is_host_and_port(text) {
        return format!("the address has no scheme; did you mean redis://{text}?");
    }
    if text.starts_with('/') && !text.contains('@') {
        return format!("the address has no scheme; did you mean sqlite://{text}?");
    }
    let why = error.filter(|error| *error != url::ParseError::RelativeUrlWithoutBase);
    let why = why.map(|error| format!(" ({error})")).unwrap_or_default();
    format!("the address is not a URI{why}; {ADVICE}")
}

/// A span of time as text that says its unit, as faces have it whose plain numbers are milliseconds; nothing for what
/// is none.
#[must_use]
pub fn span_with_unit(text: &str) -> Option<Duration> {
    let has_unit = text.ends_with(|last: char| last.is_ascii_alphabetic());
    has_unit.then(|| span("span", text).ok()).flatten()
}

/// A span of time as text: `10s`, `500ms`, `2m`, `1h`, or a plain number of seconds.
///
/// # Errors
/// `invalid_config` when it is none, negative, or larger than any time. Ten years are the most that is told apart from
/// no limit.
pub fn span(what: &str, text: &str) -> Result<Duration> {
    let split = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let unit = match unit {
        "ms" => Some(1_000_000),
        "s" | "" => Some(1_000_000_000),
        "m" => Some(60_000_000_000),
        "h" => Some(3_600_000_000_000),
        _ => None,
    };
    match unit.and_then(|unit| nanos_of(number, unit)).filter(|nanos| *nanos <= Duration::MAX.as_nanos()) {
        Some(nanos) => Ok(u64::try_from(nanos).map_or(MAX_TIMEOUT, Duration::from_nanos).min(MAX_TIMEOUT)),
        None => Err(Error::invalid(
            "connect",
            format!("{what} is {text:?}; write a span of at most ten years, such as 500ms, 10s, 2m or 1h"),
        )),
    }
}

/// How many nanoseconds a decimal `number` of units of so many has. Floating-point numbers would round it, and what
/// parses them is larger than all else that reads addresses.
fn nanos_of(number: &str, unit: u128) -> Option<u128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = |text: &str| text.bytes().all(|digit| digit.is_ascii_digit());
    if whole.len() + fraction.len() == 0 || !digits(whole) || !digits(fraction) {
        return None;
    }
    let value = |digit: u8| u128::from(digit - b'0');
    let add = |sum: u128, digit| sum.saturating_mul(10).saturating_add(value(digit) * unit);
    let (mut sum, mut part) = (whole.bytes().fold(0, add), unit);
    for digit in fraction.bytes() {
        part /= 10;
        sum = sum.saturating_add(value(digit) * part);
    }
    Some(sum)
}

/// The pauses between two tries as text: `50ms..250ms`, or one span for pauses that are all the same.
///
/// # Errors
/// `invalid_config` when a part is no span of time.
pub fn retry(what: &str, text: &str) -> Result<Retry> {
    let (min, max) = text.split_once("..").unwrap_or((text, text));
    Ok(Retry { min: span(what, min)?, max: span(what, max)? })
}

/// What stands behind user, password and host as they were written: parsing drops parts of it, such as what `..` takes
/// back.
fn behind_the_host(text: &str) -> &str {
    let rest = text.split_once(':').map_or(text, |(_, rest)| rest);
    let Some(rest) = rest.strip_prefix("//") else { return rest };
    rest.find(['/', '?', '#']).map_or("", |end| &rest[end..])
}

fn rank(what: &str, text: &str) -> Result<u8> {
    text.parse().map_err(|_| Error::invalid("connect", format!("{what} is {text:?}; write a number from 0 to 9")))
}

/// Yes or no as text.
///
/// # Errors
/// `invalid_config` when it is neither.
pub fn flag(what: &str, text: &str) -> Result<bool> {
    match text {
        "true" | "yes" | "on" | "1" => Ok(true),
        "false" | "no" | "off" | "0" => Ok(false),
        _ => Err(Error::invalid("connect", format!("{what} is {text:?}; write true or false"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Kind;
    use crate::span::written;

    fn parse(text: &str) -> Result<Uri> {
        Uri::parse(text, ConnectOptions::default())
    }

    #[test]
    fn options_ride_in_the_query() {
        let uri = parse("redis://u:p@h:1/2?ttl=10s&fair=true&prefix=app:&response_timeout=250ms&db=3").unwrap();
        assert_eq!(uri.lock.ttl, Duration::from_secs(10));
        assert!(uri.lock.fair);
        assert_eq!(uri.lock.retry, Retry::DEFAULT);
        let polls = parse("redis://h?layout=string&format=redsync&retry=50ms..250ms").unwrap().lock;
        assert_eq!((polls.layout.as_deref(), polls.format.as_deref()), (Some("string"), Some("redsync")));
        let [min, max] = [50, 250].map(Duration::from_millis);
        assert_eq!(polls.retry, Retry { min, max });
        assert_eq!(parse("redis://h?retry=50ms").unwrap().lock.retry, Retry { min, max: min });
        assert_eq!((uri.connect.prefix.as_str(), uri.connect.response_timeout), ("app:", Duration::from_millis(250)));
        assert_eq!(uri.rest, [("db".to_owned(), "3".to_owned())]);
        assert!(uri.check_all_read().unwrap_err().to_string().contains("\"db\""));
    }

    #[test]
    fn every_option_that_is_named_is_taken() {
        for option in OPTIONS {
            let taken = parse(&format!("memory://?{option}=x"));
            assert!(taken.is_err() || taken.is_ok_and(|uri| uri.rest.is_empty()), "{option}");
        }
    }

    #[test]
    fn words_are_near_by_one_letter() {
        for near in ["tll", "tt", "ttls", "tlt", "ttl"] {
            assert!(is_nearly(near, "ttl"), "{near}");
        }
        for far in ["", "t", "lease", "ltt?", "xxl", "éé"] {
            assert!(!is_nearly(far, "ttl"), "{far}");
        }
    }

    #[test]
    fn spans_are_written_as_they_are_read() {
        let millis = [0, 20, 1_000, 1_500, 86_401_000, 86_400_000].map(Duration::from_millis);
        assert_eq!(millis.map(written), ["0", "20ms", "1s", "1500ms", "86401s", "24h"]);
    }

    #[test]
    fn what_cannot_be_honoured_is_refused() {
        for text in [
            "",
            "redis",
            "redis://h?ttl=0",
            "redis://h?ttl=-1s",
            "redis://h?ttl=NaN",
            "redis://h?fair=maybe",
            "redis://h?retry=often",
            "redis://h?retry=0..1s",
            "redis://h?retry=2s..1s",
            "redis://h?response_timeout=0",
            "redis://h?prefix=%00",
        ] {
            assert_eq!(parse(text).unwrap_err().kind(), Kind::InvalidConfig, "{text:?}");
        }
        assert_eq!(parse("redis://h?keep=true").unwrap_err().kind(), Kind::Unsupported);
    }

    #[test]
    fn several_addresses_are_the_nodes_of_a_quorum() {
        let mut uri = parse("redis://u:p@a?db=1&ttl=5s  redis://b?prefix=x: redis://c:1?ttl=5s&max_ttl=9s").unwrap();
        assert_eq!(uri.redacted(), "redis://a redis://b redis://c:1");
        assert_eq!((uri.lock.ttl, uri.take_rest("max_ttl")), (Duration::from_secs(5), Some("9s".into())));
        let others = uri.take_other_nodes();
        assert_eq!(others.iter().map(|node| &*node.connect.prefix).collect::<Vec<_>>(), ["x:", ""]);
        assert!(others.iter().all(|node| node.lock.ttl == uri.lock.ttl && node.rest.is_empty()));
        let mut uri = parse("redis://a redis://b?tokens=false redis://c").unwrap();
        let mut all = uri.take_other_nodes();
        all.push(uri);
        assert!(all.iter_mut().all(|node| node.take_rest("tokens").is_some()));
        for text in ["redis://a?ttl=5s redis://b?ttl=6s", "redis://a b", "redis://a redis://b?ttl=soon"] {
            assert_eq!(parse(text).unwrap_err().kind(), Kind::InvalidConfig, "{text:?}");
        }
        let hidden = parse("redis://u:hunter2@a redis://u:1/hunter2@b?ttl=hunter2").unwrap_err();
        assert!(!hidden.to_string().contains("hunter2"), "{hidden}");
    }

    #[test]
    fn a_list_of_hosts_is_for_stores_that_read_it() {
        let mut uri = parse("zookeeper://u:a,b@one,two:2182,[::1]:3/x").unwrap();
        assert_eq!((uri.url().host_str(), uri.url().password()), (Some("one"), Some("a,b")));
        assert_eq!(uri.redacted(), "zookeeper://one,two:2182,[::1]:3/x");
        assert_eq!(uri.check_all_read().unwrap_err().kind(), Kind::Unsupported);
        assert_eq!(uri.take_more_hosts(), ["two:2182", "[::1]:3"]);
        assert!(uri.check_all_read().is_ok());
    }

    #[test]
    fn a_password_is_never_shown() {
        let uri = parse("rediss://user:hunter2@h:1/0?ttl=10s").unwrap();
        assert_eq!(uri.redacted(), "rediss://h:1/0");
        let shown = format!("{uri:?}");
        assert!(shown.contains("rediss://h:1/0") && !shown.contains("hunter2") && !shown.contains("user"), "{shown}");
        let misread = parse("redis://user:1/hunter2@h?password=hunter2").unwrap();
        assert!(!format!("{misread:?}").contains("hunter2"), "{misread:?}");
        let broken = parse("redis://user:hunter2@h:notaport/").unwrap_err();
        assert!(!format!("{broken} {broken:?}").contains("hunter2"));
    }

    #[test]
    fn spans_are_read_with_their_units() {
        let read = |text| span("ttl", text).unwrap();
        assert_eq!(
            [read("500ms"), read("10s"), read("1.5"), read("2m"), read("1h")],
            [500, 10_000, 1_500, 120_000, 3_600_000].map(Duration::from_millis)
        );
        assert_eq!(
            [read(".1ms"), read("2.ms"), read("0.0000000019")].map(|span| span.as_nanos()),
            [100_000, 2_000_000, 1]
        );
        assert_eq!([read("87600.1h"), read("18446744073709551615")], [MAX_TIMEOUT; 2]);
        let (too_long, endless) = ("18446744073709551616", "9".repeat(99));
        for text in ["", "s", ".", "1d", "-1s", "+1s", "1e300h", "inf", "9 s", "1.2.3", too_long, &endless] {
            assert!(span("ttl", text).is_err(), "{text:?}");
        }
    }
}
