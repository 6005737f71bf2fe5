//! What goes over the wire: text commands, of which the meta commands (`mg`, `md`) are sent where the server has them.
//!
//! A request is one or two commands, whose answers come in the same order; see [`super::layouts`]. Reading is a
//! function of all bytes that have come for a request: it says that more are to come, or how many there were and what
//! they mean.
//!
//! Sources: `protocol.txt` of memcached 1.6.18.

use super::layouts::{ACQUIRE, DELETE, LOOK, RENEW, SETTINGS, STATS, without_numbers};
use crate::error::{Error, Kind, Result};
use crate::protocol::{Arg, Reply, Request};
use crate::stores::memcached::layouts::examination::Said;

/// The longest line that an answer may have.
const LONGEST_LINE: usize = 2048;
/// The longest value that is read: as long as a server lets one be where it was told nothing else.
const LONGEST_VALUE: usize = 1 << 20;
/// How much of a value is of interest: ours are shorter.
const SHOWN: usize = 1024;
/// The most lines that a server may say of itself.
const MOST_LINES: usize = 1000;

/// What is told of an answer that no memcached gives.
pub const NO_ANSWER: &str =
    "the server sent something that is no answer of memcached; see what answers at that address";

/// Which commands a server has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// The meta commands, too.
    Meta,
    /// Only those that there have always been.
    Text,
}

/// What the driver knows when a request is sent.
#[derive(Clone, Copy, Debug)]
pub struct Sending {
    /// Which commands the server has.
    pub dialect: Dialect,
    /// The number of the connection.
    pub connection: i64,
    /// The second of the server's clock in which a value that is stored now is to end.
    pub end: i64,
}

/// How the answer to a request is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expected {
    dialect: Dialect,
    connection: i64,
    verb: Verb,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verb {
    /// A value is stored, and then looked at.
    Store,
    /// It is only looked at; what was to be stored was not, as this says.
    Look(i64),
    Delete,
    Said,
}

/// What became of a request that was to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Written {
    /// It was, and is answered.
    Asked(Expected),
    /// It was not, since its answer is known.
    Answered(Reply),
}

/// Writes `request`.
///
/// # Errors
/// `internal` for a request that is of no layout of this store.
pub fn write(out: &mut Vec<u8>, request: &Request, sending: Sending) -> Result<Written> {
    let strange =
        || Error::new(Kind::Internal, "connect", format!("memcached has no command for {}", request.call.name));
    let Sending { dialect, connection, end } = sending;
    let key = &*request.key;
    let name = request.call.name;
    let verb = match request.args.as_slice() {
        [Arg::Text(value), Arg::Int(_), Arg::NotAfter] if name == ACQUIRE.name => {
            say(out, &format!("add {key} 0 {end} {}", value.len()));
            say(out, value);
            Verb::Store
        }
        [Arg::Int(cas), Arg::Int(of), Arg::Text(value), Arg::Int(_), Arg::NotAfter] if name == RENEW.name => {
            if *of == connection {
                say(out, &format!("cas {key} 0 {end} {} {cas}", value.len()));
                say(out, value);
                Verb::Store
            } else {
                Verb::Look(-1)
            }
        }
        [] if name == LOOK.name => Verb::Look(0),
        [Arg::Int(_), Arg::Int(of)] if name == DELETE.name && *of != connection => {
            return Ok(Written::Answered(Reply::Int(-1)));
        }
        [Arg::Int(cas), Arg::Int(_)] if name == DELETE.name => {
            match dialect {
                Dialect::Meta => say(out, &format!("md {key} C{cas}")),
                // A value that ends before it begins.
                Dialect::Text => say(out, &format!("cas {key} 0 -1 0 {cas}\r\n")),
            }
            Verb::Delete
        }
        [] if name == STATS.name => {
            say(out, "stats");
            Verb::Said
        }
        [] if name == SETTINGS.name => {
            say(out, "stats settings");
            Verb::Said
        }
        _ => return Err(strange()),
    };
    if matches!(verb, Verb::Store | Verb::Look(_)) {
        match dialect {
            Dialect::Meta => say(out, &format!("mg {key} v c t")),
            Dialect::Text => say(out, &format!("gets {key}")),
        }
    }
    Ok(Written::Asked(Expected { dialect, connection, verb }))
}

fn say(out: &mut Vec<u8>, line: &str) {
    out.extend_from_slice(line.as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// For how many seconds a request of this kind is to keep a value; nothing for those that keep none.
pub fn keeps(request: &Request) -> Option<u64> {
    let ttl = match request.args.as_slice() {
        [Arg::Text(_), Arg::Int(ttl), Arg::NotAfter] | [_, _, Arg::Text(_), Arg::Int(ttl), Arg::NotAfter] => *ttl,
        _ => return None,
    };
    u64::try_from(ttl).ok()
}

/// For how many seconds what lies there lasts yet, where it was stored by the request that is answered so.
pub fn kept(reply: &Reply) -> Option<i64> {
    match reply {
        Reply::List(list) => match list.as_slice() {
            [Reply::Int(1), _, _, _, Reply::Int(left)] if *left >= 0 => Some(*left),
            _ => None,
        },
        _ => None,
    }
}

/// Reads the answer to a request from `bytes`, which may have more behind it: how long it is, and what it means;
/// nothing while it is not whole.
///
/// # Errors
/// `protocol` for what no memcached answers.
pub fn read(expected: Expected, bytes: &[u8]) -> Result<Option<(usize, Reply)>> {
    let mut from = Reader { bytes, at: 0 };
    let reply = match expected.verb {
        Verb::Store => stored(expected, &mut from),
        Verb::Look(done) => look(expected, done, &mut from),
        Verb::Delete => deleted(&mut from),
        Verb::Said => said(&mut from),
    };
    match reply {
        Ok(reply) => Ok(Some((from.at, reply))),
        Err(Stop::More) => Ok(None),
        Err(Stop::Wrong) => Err(garbled()),
    }
}

/// The error for what no memcached answers.
pub fn garbled() -> Error {
    Error::new(Kind::Protocol, "connect", NO_ANSWER)
}

/// Why reading stops.
enum Stop {
    More,
    Wrong,
}

type Read<T> = std::result::Result<T, Stop>;

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    /// The next line.
    fn line(&mut self) -> Read<&'a str> {
        let rest = &self.bytes[self.at..];
        let part = &rest[..rest.len().min(LONGEST_LINE)];
        let Some(end) = part.windows(2).position(|pair| pair == b"\r\n") else {
            return Err(if rest.len() > LONGEST_LINE { Stop::Wrong } else { Stop::More });
        };
        self.at += end + 2;
        std::str::from_utf8(&part[..end]).map_err(|_| Stop::Wrong)
    }

    /// A value of that many bytes and the end of its line.
    fn value(&mut self, length: &str) -> Read<String> {
        let length: usize = length.parse().map_err(|_| Stop::Wrong)?;
        if length > LONGEST_VALUE {
            return Err(Stop::Wrong);
        }
        let rest = &self.bytes[self.at..];
        if rest.len() < length + 2 {
            return Err(Stop::More);
        }
        if &rest[length..length + 2] != b"\r\n" {
            return Err(Stop::Wrong);
        }
        self.at += length + 2;
        Ok(String::from_utf8_lossy(&rest[..length.min(SHOWN)]).into_owned())
    }
}

/// What a line refuses with, if it does.
fn refusal(line: &str) -> Option<Reply> {
    let (code, message) = line.split_once(' ').unwrap_or((line, ""));
    matches!(code, "ERROR" | "CLIENT_ERROR" | "SERVER_ERROR")
        .then(|| Reply::Error { code: code.to_owned(), message: message.to_owned() })
}

fn stored(expected: Expected, from: &mut Reader<'_>) -> Read<Reply> {
    let line = from.line()?;
    let done = match line {
        "STORED" => Ok(1),
        "NOT_STORED" | "EXISTS" | "NOT_FOUND" => Ok(0),
        _ => Err(refusal(line).ok_or(Stop::Wrong)?),
    };
    match done {
        Ok(done) => look(expected, done, from),
        // What was asked behind it is answered, too.
        Err(refused) => look(expected, 0, from).map(|_| refused),
    }
}

fn look(expected: Expected, done: i64, from: &mut Reader<'_>) -> Read<Reply> {
    let seen = match expected.dialect {
        Dialect::Meta => meta(from)?,
        Dialect::Text => text(from)?,
    };
    let head = [Reply::Int(done), Reply::Int(expected.connection)];
    Ok(match seen {
        Seen::Refused(refused) => refused,
        Seen::Nothing => Reply::List(head.into()),
        Seen::Value { text, cas, left } => {
            let rest = [Reply::Text(text), Reply::Int(cas), Reply::Int(left)];
            Reply::List(head.into_iter().chain(rest).collect())
        }
    })
}

enum Seen {
    Refused(Reply),
    Nothing,
    Value { text: String, cas: i64, left: i64 },
}

fn meta(from: &mut Reader<'_>) -> Read<Seen> {
    let line = from.line()?;
    let mut words = line.split(' ');
    match words.next() {
        Some("EN") => Ok(Seen::Nothing),
        Some("VA") => {
            let text = from.value(words.next().ok_or(Stop::Wrong)?)?;
            let flag = |letter| words.clone().find_map(|word| word.strip_prefix(letter)?.parse::<i64>().ok());
            let (cas, left) = (flag('c').ok_or(Stop::Wrong)?, flag('t').ok_or(Stop::Wrong)?);
            if cas < 0 || left < -1 {
                return Err(Stop::Wrong);
            }
            Ok(Seen::Value { text, cas, left })
        }
        _ => refusal(line).map(Seen::Refused).ok_or(Stop::Wrong),
    }
}

fn text(from: &mut Reader<'_>) -> Read<Seen> {
    let line = from.line()?;
    if line == "END" {
        return Ok(Seen::Nothing);
    }
    let words: Vec<_> = line.split(' ').collect();
    let ["VALUE", _, _, length, cas] = words[..] else {
        return refusal(line).map(Seen::Refused).ok_or(Stop::Wrong);
    };
    let text = from.value(length)?;
    let cas = cas.parse().ok().filter(|cas| *cas >= 0).ok_or(Stop::Wrong)?;
    match from.line()? {
        "END" => Ok(Seen::Value { text, cas, left: -2 }),
        _ => Err(Stop::Wrong),
    }
}

fn deleted(from: &mut Reader<'_>) -> Read<Reply> {
    let line = from.line()?;
    match line.split(' ').next() {
        Some("HD" | "STORED") => Ok(Reply::Int(1)),
        Some("NF" | "EX" | "NS" | "EXISTS" | "NOT_FOUND" | "NOT_STORED") => Ok(Reply::Int(0)),
        _ => refusal(line).ok_or(Stop::Wrong),
    }
}

fn said(from: &mut Reader<'_>) -> Read<Reply> {
    let mut said = Vec::new();
    loop {
        let line = from.line()?;
        let mut words = line.splitn(3, ' ');
        match (words.next(), words.next()) {
            (Some("END"), None) => return Ok(Reply::List(said)),
            (Some("STAT"), Some(name)) if said.len() < 2 * MOST_LINES => {
                let value = words.next().unwrap_or_default();
                said.extend([name, value].map(|word| Reply::Text(word.to_owned())));
            }
            _ if said.is_empty() => return refusal(line).ok_or(Stop::Wrong),
            _ => return Err(Stop::Wrong),
        }
    }
}

/// What is said first on a connection: the login, if there is one, and what the server is asked of itself.
pub fn greeting(out: &mut Vec<u8>, user: &str, password: &str) -> Greeting {
    let logs_in = !user.is_empty() || !password.is_empty();
    if logs_in {
        // So it is done for a server with -Y: a `set` of any key. One that asks nobody who it is forgets it at once.
        say(out, &format!("set lockwright 0 -1 {}\r\n{user} {password}", user.len() + 1 + password.len()));
    }
    say(out, "mn");
    say(out, "stats");
    say(out, "stats settings");
    Greeting { logs_in }
}

/// How the answer to a [`greeting`] is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Greeting {
    logs_in: bool,
}

/// Who answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Welcome {
    /// Which commands it has.
    pub dialect: Dialect,
    /// The second that its clock shows, counted from 1970.
    pub shown: i64,
}

impl Greeting {
    /// Reads it from all `bytes` that have come; nothing while it is not whole.
    ///
    /// # Errors
    /// `auth` where the user is refused, `unsupported` for a server without what locks need, `protocol` for what is no
    /// memcached.
    pub fn read(self, bytes: &[u8]) -> Result<Option<Welcome>> {
        match self.whole(&mut Reader { bytes, at: 0 }) {
            Ok(welcome) => welcome.map(Some),
            Err(Stop::More) => Ok(None),
            Err(Stop::Wrong) => Err(garbled()),
        }
    }

    fn whole(self, from: &mut Reader<'_>) -> Read<Result<Welcome>> {
        if self.logs_in {
            match from.line()? {
                "STORED" => {}
                line if refusal(line).is_some() => {
                    let message = "the server refuses this user and password; it takes them in text where it was started with -Y, \
                                   not by SASL (-S)";
                    return Ok(Err(Error::new(Kind::Auth, "connect", message)));
                }
                _ => return Err(Stop::Wrong),
            }
        }
        let dialect = match from.line()? {
            "MN" => Dialect::Meta,
            "ERROR" => Dialect::Text,
            line if line.contains("unauthenticated") => {
                let message =
                    "the server wants a user and a password; put them into the address, memcached://user:password@host";
                return Ok(Err(Error::new(Kind::Auth, "connect", message)));
            }
            _ => return Err(Stop::Wrong),
        };
        let (stats, settings) = (said(from)?, said(from)?);
        if from.at < from.bytes.len() {
            return Err(Stop::Wrong);
        }
        Ok(welcome(dialect, &stats, &settings))
    }
}

fn welcome(dialect: Dialect, stats: &Reply, settings: &Reply) -> Result<Welcome> {
    let (stats, settings) = (Said::of("connect", stats)?, Said::of("connect", settings)?);
    if settings.text("cas_enabled") == Some("no") {
        return Err(without_numbers("connect"));
    }
    let Some(time) = stats.number("time") else {
        let message = "the server does not tell its time (stats), by which a lock ends; give the address of a memcached itself, \
                       not of a proxy";
        return Err(Error::unsupported("connect", message));
    };
    let shown = i64::try_from(time).map_err(|_| garbled())?;
    Ok(Welcome { dialect, shown })
}

/// Writes a question for the server's clock, and how its answer is read.
pub fn clock(out: &mut Vec<u8>) -> Expected {
    say(out, "stats");
    Expected { dialect: Dialect::Text, connection: 0, verb: Verb::Said }
}

/// The second that the clock shows, by the answer to [`clock`].
///
/// # Errors
/// As with the greeting.
pub fn time(reply: &Reply) -> Result<i64> {
    let time = Said::of("connect", reply)?.number("time");
    time.and_then(|time| i64::try_from(time).ok()).ok_or_else(garbled)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    const SENDING: Sending = Sending { dialect: Dialect::Meta, connection: 3, end: 1_700_000_031 };

    fn request<const N: usize>(call: &'static crate::protocol::Call, args: [Arg; N]) -> Request {
        Request::new(call, Arc::from("orders"), args)
    }

    fn acquire() -> Request {
        request(&ACQUIRE, [Arg::from("abc"), Arg::Int(30), Arg::NotAfter])
    }

    fn renew(connection: i64) -> Request {
        request(&RENEW, [Arg::Int(7), Arg::Int(connection), Arg::from("abc"), Arg::Int(30), Arg::NotAfter])
    }

    fn delete(connection: i64) -> Request {
        request(&DELETE, [Arg::Int(7), Arg::Int(connection)])
    }

    fn written(request: &Request, dialect: Dialect) -> (String, Written) {
        let mut out = Vec::new();
        let written = write(&mut out, request, Sending { dialect, ..SENDING }).unwrap();
        (String::from_utf8(out).unwrap(), written)
    }

    /// What answers `request`, and that it is not read before it is whole.
    fn answer(request: &Request, dialect: Dialect, bytes: &str) -> Result<Reply> {
        let Written::Asked(expected) = written(request, dialect).1 else { panic!("it is not asked") };
        let (end, reply) = read(expected, format!("{bytes}EN\r\n").as_bytes())?.expect("it is whole");
        assert_eq!(end, bytes.len());
        for part in 0..bytes.len() {
            assert_eq!(read(expected, &bytes.as_bytes()[..part]).unwrap(), None, "{part}");
        }
        Ok(reply)
    }

    fn seen(done: i64, text: &str, cas: i64, left: i64) -> Reply {
        Reply::List(vec![Reply::Int(done), Reply::Int(3), Reply::Text(text.into()), Reply::Int(cas), Reply::Int(left)])
    }

    fn nothing(done: i64) -> Reply {
        Reply::List(vec![Reply::Int(done), Reply::Int(3)])
    }

    #[test]
    fn a_value_is_stored_by_add_and_cas_and_never_by_the_meta_command() {
        let meta = |request: Request| written(&request, Dialect::Meta).0;
        let text = |request: Request| written(&request, Dialect::Text).0;
        assert_eq!(meta(acquire()), "add orders 0 1700000031 3\r\nabc\r\nmg orders v c t\r\n");
        assert_eq!(text(acquire()), "add orders 0 1700000031 3\r\nabc\r\ngets orders\r\n");
        assert_eq!(meta(renew(3)), "cas orders 0 1700000031 3 7\r\nabc\r\nmg orders v c t\r\n");
        assert_eq!(meta(delete(3)), "md orders C7\r\n");
        assert_eq!(text(delete(3)), "cas orders 0 -1 0 7\r\n\r\n");
    }

    #[test]
    fn nothing_is_changed_by_a_number_of_another_connection() {
        assert_eq!(written(&renew(2), Dialect::Meta).0, "mg orders v c t\r\n");
        assert_eq!(answer(&renew(2), Dialect::Meta, "VA 3 c9 t29\r\nabc\r\n").unwrap(), seen(-1, "abc", 9, 29));
        assert_eq!(written(&delete(2), Dialect::Meta), (String::new(), Written::Answered(Reply::Int(-1))));
    }

    #[test]
    fn answers_are_read_once_they_are_whole() {
        let meta = |bytes| answer(&acquire(), Dialect::Meta, bytes);
        assert_eq!(meta("STORED\r\nVA 3 c41 t31\r\nabc\r\n").unwrap(), seen(1, "abc", 41, 31));
        assert_eq!(meta("NOT_STORED\r\nVA 4 t-1 c12\r\na\r\nb\r\n").unwrap(), seen(0, "a\r\nb", 12, -1));
        assert_eq!(meta("NOT_STORED\r\nEN\r\n").unwrap(), nothing(0));
        let text = |bytes| answer(&acquire(), Dialect::Text, bytes);
        assert_eq!(text("STORED\r\nVALUE orders 0 3 41\r\nabc\r\nEND\r\n").unwrap(), seen(1, "abc", 41, -2));
        assert_eq!(text("STORED\r\nEND\r\n").unwrap(), nothing(1));
        let gone = |bytes| answer(&delete(3), Dialect::Meta, bytes).unwrap();
        assert_eq!(["HD\r\n", "EX\r\n", "NF\r\n"].map(gone), [1, 0, 0].map(Reply::Int));
        let stats = request(&STATS, []);
        let told = answer(&stats, Dialect::Meta, "STAT pid 7\r\nSTAT version \r\nEND\r\n").unwrap();
        assert_eq!(told, Reply::List(["pid", "7", "version", ""].map(|word| Reply::Text(word.into())).into()));
    }

    #[test]
    fn what_is_refused_is_told_after_all_its_answers() {
        let full = answer(&acquire(), Dialect::Meta, "SERVER_ERROR out of memory storing object\r\nEN\r\n").unwrap();
        let message = "out of memory storing object".to_owned();
        assert_eq!(full, Reply::Error { code: "SERVER_ERROR".into(), message });
        let refused = answer(&request(&LOOK, []), Dialect::Meta, "CLIENT_ERROR bad\r\n").unwrap();
        assert_eq!(refused, Reply::Error { code: "CLIENT_ERROR".into(), message: "bad".into() });
    }

    #[test]
    fn what_no_memcached_says_is_refused() {
        let long = format!("STORED\r\nVA {} c1 t1\r\n", LONGEST_VALUE + 1);
        for bytes in [
            "HTTP/1.1 400 Bad Request\r\n",
            "STORED\r\nVA 3 t1\r\nabc\r\n",
            "STORED\r\nVA 3 c-1 t1\r\nabc\r\n",
            "STORED\r\nVA 3 c1 t-2\r\nabc\r\n",
            "STORED\r\nVA 3 c1 t1\r\nabcd\r\n",
            "STORED\r\nVA x c1 t1\r\n",
            "STORED\r\nVALUE orders 0 3 1\r\nabc\r\nEND\r\n",
            "STORED\r\n\u{fffd}\r\n",
            &long,
        ] {
            let error = answer(&acquire(), Dialect::Meta, bytes).unwrap_err();
            assert_eq!(error.kind(), Kind::Protocol, "{bytes}");
        }
        let Written::Asked(expected) = written(&acquire(), Dialect::Meta).1 else { panic!("it is asked") };
        assert!(read(expected, &[b'x'; LONGEST_LINE + 1]).is_err());
        let odd = request(&LOOK, [Arg::Int(1)]);
        assert_eq!(write(&mut Vec::new(), &odd, SENDING).unwrap_err().kind(), Kind::Internal);
    }

    const STATS_SAID: &str = "STAT pid 7\r\nSTAT uptime 100\r\nSTAT time 1700000000\r\nEND\r\n";
    const SETTINGS_SAID: &str = "STAT cas_enabled yes\r\nEND\r\n";

    fn greeted(user: &str, bytes: &str) -> Result<Option<Welcome>> {
        greeting(&mut Vec::new(), user, user).read(bytes.as_bytes())
    }

    #[test]
    fn a_greeting_tells_which_server_it_is_and_what_it_can() {
        let whole = format!("MN\r\n{STATS_SAID}{SETTINGS_SAID}");
        let welcome = Welcome { dialect: Dialect::Meta, shown: 1_700_000_000 };
        assert_eq!(greeted("", &whole).unwrap(), Some(welcome));
        assert!((0..whole.len()).all(|part| greeted("", &whole[..part]).unwrap().is_none()));
        let old = greeted("", &whole.replace("MN", "ERROR")).unwrap().unwrap();
        assert_eq!(old, Welcome { dialect: Dialect::Text, ..welcome });
        assert_eq!(greeted("ada", &format!("STORED\r\n{whole}")).unwrap(), Some(welcome));
    }

    #[test]
    fn a_login_is_a_set_of_both_words() {
        let mut out = Vec::new();
        greeting(&mut out, "ada", "secret");
        assert!(out.starts_with(b"set lockwright 0 -1 10\r\nada secret\r\nmn\r\n"));
    }

    #[test]
    fn a_server_that_is_of_no_use_is_refused_at_once() {
        let kind = |user, bytes: &str| greeted(user, bytes).unwrap_err().kind();
        let whole = format!("MN\r\n{STATS_SAID}{SETTINGS_SAID}");
        assert_eq!(kind("", &whole.replace("yes", "no")), Kind::Unsupported);
        assert_eq!(kind("", &whole.replace("STAT time", "STAT tune")), Kind::Unsupported);
        assert_eq!(kind("", "CLIENT_ERROR unauthenticated\r\n"), Kind::Auth);
        assert_eq!(kind("ada", "CLIENT_ERROR authentication failure\r\n"), Kind::Auth);
        assert_eq!(kind("", "+PONG\r\n"), Kind::Protocol);
        assert_eq!(kind("", &format!("{whole}more")), Kind::Protocol);
    }

    #[test]
    fn what_is_kept_is_compared_with_what_was_asked() {
        assert_eq!([acquire(), renew(3), delete(3)].map(|request| keeps(&request)), [Some(30), Some(30), None]);
        assert_eq!(
            [seen(1, "", 1, 31), seen(0, "", 1, 31), seen(1, "", 1, -2)].map(|r| kept(&r)),
            [Some(31), None, None]
        );
    }
}
