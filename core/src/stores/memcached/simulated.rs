//! A server on the simulated network, as memcached is: one command after the other, values that end when its clock
//! shows a second, and a number for each value that it stored. It is neither full nor restarted, since it would forget
//! what is held, which nobody is kept from (see the page of the store). Its clock is a little faster or slower than
//! that of its clients. Some have no meta commands.
//!
//! Sources: `protocol.txt`, and `proto_text.c`, `proto_parser.c`, `items.c` and `memcached.c` (`realtime`,
//! `clock_handler`) of memcached 1.6.18.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::platform::clock;
use crate::platform::mutex::locked;
use crate::platform::simulated::network::Network;
use crate::platform::simulated::random::SECOND;
use crate::platform::simulated::sockets::{Connection, Host, Sockets, host};

/// The second that its clock shows when that of the clients shows nothing.
const SHOWN: i64 = 1_800_000_000;
/// By how many of a thousand parts it is faster or slower at most.
const DRIFT: u64 = 5;
/// An end before this would be a span of time.
const LONGEST_SPAN: i64 = 60 * 60 * 24 * 30;

/// See the [module](self).
pub(crate) struct Server {
    pub(crate) sockets: Arc<Sockets>,
    network: Arc<Network>,
    state: Mutex<State>,
}

struct State {
    has_meta: bool,
    /// So many nanoseconds of its second were over when the clock of the clients began.
    phase: u64,
    /// Its nanoseconds in a thousand of theirs.
    rate: u64,
    items: BTreeMap<String, Item>,
    /// How many values were stored.
    stored: u64,
    /// What came on a connection, and is no whole command yet.
    talks: BTreeMap<Connection, Vec<u8>>,
}

struct Item {
    value: String,
    number: u64,
    end: i64,
}

/// The next whole command, and the value behind it.
fn command(come: &mut Vec<u8>) -> Option<(String, String)> {
    let end = come.windows(2).position(|two| two == b"\r\n")?;
    let line = String::from_utf8(come[..end].to_vec()).expect("a text");
    let length = match Vec::from_iter(line.split(' ')).as_slice() {
        ["add", _, _, _, length] | ["cas", _, _, _, length, _] => length.parse::<usize>().expect("a length") + 2,
        _ => 0,
    };
    let rest = come.get(end + 2..end + 2 + length)?;
    let value = String::from_utf8(rest[..length.saturating_sub(2)].to_vec()).expect("a text");
    come.drain(..end + 2 + length);
    Some((line, value))
}

impl State {
    /// The second that its clock shows.
    fn shown(&self) -> i64 {
        let since = clock::now().as_nanos() / 1000 * self.rate + self.phase;
        SHOWN + (since / SECOND) as i64
    }

    fn store(&mut self, key: &str, end: &str, value: String) -> &'static str {
        let end: i64 = end.parse().expect("when it ends");
        assert!(!(0..=LONGEST_SPAN).contains(&end), "{end} is a span of time");
        self.stored += 1;
        self.items.insert(key.to_owned(), Item { value, number: self.stored, end });
        "STORED\r\n"
    }

    fn answer(&mut self, line: &str, value: String) -> String {
        let now = self.shown();
        self.items.retain(|_, item| item.end > now);
        let is = |item: &Item, number: &str| item.number.to_string() == number;
        match Vec::from_iter(line.split(' ')).as_slice() {
            ["mn"] if self.has_meta => "MN\r\n".into(),
            ["mn"] => "ERROR\r\n".into(),
            ["stats"] => format!("STAT pid 1\r\nSTAT time {now}\r\nEND\r\n"),
            ["stats", "settings"] => "STAT cas_enabled yes\r\nSTAT evictions off\r\nEND\r\n".into(),
            ["add", key, "0", ..] if self.items.contains_key(*key) => "NOT_STORED\r\n".into(),
            ["add", key, "0", end, _] => self.store(key, end, value).into(),
            ["cas", key, "0", end, _, number] => match self.items.get(*key) {
                None => "NOT_FOUND\r\n".into(),
                Some(item) if is(item, number) => self.store(key, end, value).into(),
                Some(_) => "EXISTS\r\n".into(),
            },
            ["mg", key, "v", "c", "t"] if self.has_meta => self.items.get(*key).map_or("EN\r\n".into(), |item| {
                let Item { value, number, end } = item;
                format!("VA {} c{number} t{}\r\n{value}\r\n", value.len(), end - now)
            }),
            ["gets", key] => {
                let found = self.items.get(*key).map_or(String::new(), |Item { value, number, .. }| {
                    format!("VALUE {key} 0 {} {number}\r\n{value}\r\n", value.len())
                });
                format!("{found}END\r\n")
            }
            ["md", key, number] if self.has_meta => match self.items.get(*key) {
                None => "NF\r\n".into(),
                Some(item) if is(item, number.strip_prefix('C').expect("a number")) => {
                    self.items.remove(*key);
                    "HD\r\n".into()
                }
                Some(_) => "EX\r\n".into(),
            },
            other => panic!("no server here knows the command {other:?}"),
        }
    }

    fn come(&mut self, connection: Connection, bytes: &[u8]) -> String {
        let Some(mut come) = self.talks.remove(&connection) else { return String::new() };
        come.extend_from_slice(bytes);
        let mut said = String::new();
        while let Some((line, value)) = command(&mut come) {
            said += &self.answer(&line, value);
        }
        self.talks.insert(connection, come);
        said
    }
}

impl Server {
    /// One on this network.
    pub(crate) fn new(network: &Arc<Network>) -> Arc<Self> {
        let below = |end| network.below(end).as_nanos() as u64;
        let state = State {
            has_meta: below(4) > 0,
            phase: below(SECOND),
            rate: 1000 - DRIFT + below(2 * DRIFT + 1),
            items: BTreeMap::new(),
            stored: 0,
            talks: BTreeMap::new(),
        };
        Arc::new_cyclic(|me| Server {
            sockets: Sockets::new(network, me.clone()),
            network: network.clone(),
            state: Mutex::new(state),
        })
    }

    /// Where clients find it, whose locks have that ttl where nothing else is said.
    pub(crate) fn address(ttl: Duration) -> String {
        format!("memcached://{}?ttl={}s", host(0), ttl.as_secs())
    }

    /// It ends one of its connections, as where it has as many as it takes.
    fn end_one(&self) {
        let talks: Vec<_> = locked(&self.state).talks.keys().copied().collect();
        let at = self.network.one_of(talks.len());
        if let Some(connection) = talks.get(at) {
            locked(&self.state).talks.remove(connection);
            self.sockets.close(*connection);
        }
    }

    /// Something goes wrong: connections break or go silent, it ends one, or lets nobody in.
    pub(crate) fn fail(&self) {
        match self.network.below(10).as_nanos() {
            0 => {
                self.sockets.shut_out(0, self.network.below(4 * SECOND));
            }
            1 | 2 => self.end_one(),
            3 | 4 => self.sockets.go_silent(),
            _ => self.sockets.cut_one(),
        }
    }
}

impl Host for Server {
    fn opened(&self, connection: Connection, _: usize) {
        locked(&self.state).talks.insert(connection, Vec::new());
    }

    fn came(self: Arc<Self>, connection: Connection, bytes: &[u8]) {
        let said = locked(&self.state).come(connection, bytes);
        if !said.is_empty() {
            self.sockets.send(connection, said.into_bytes());
        }
    }

    fn ended(&self, connection: Connection) {
        locked(&self.state).talks.remove(&connection);
    }
}
