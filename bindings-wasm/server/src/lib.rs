//! A lock server without a socket, a disk or a clock: what a Durable Object is made of.
//!
//! It runs the [cells](lockwright_machines::cell), as the stores in memory and in a database do, and has each record as
//! [texts](lockwright_machines::written) in a [`Storage`]. Clients speak to it as to a Redis server, in commands that
//! are the procedures of [`cell_layout`] by their names; what is pushed is a message on a client's inbox.

#![forbid(unsafe_code)]

mod answers;
mod memory;
mod words;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use lockwright_machines::protocol::{InboxId, Reply, Request};
use lockwright_machines::stores::redis::layouts::native_scripts::channel;
use lockwright_machines::time::StoreTime;
use lockwright_machines::written::{Written, compute, is_idle, is_over};
use lockwright_machines::{cell_layout, push};

use answers::Answer;
pub use memory::InMemory;
use words::{Command, Garbled};

/// Names in one page of a list, and records in one look for those that are over.
const PAGE: usize = 500;

/// On so many channels a connection listens at the most: a client has one, its inbox, and a socket remembers 2,048
/// bytes.
const CHANNELS: usize = 16;

/// For how long nothing must have happened to a record before it is removed: longer than any request can be late.
pub const IDLE: Duration = Duration::from_secs(600);

/// Where records lie, by their keys. What is kept is there whatever happens before anything that was said after it is
/// heard by anybody.
pub trait Storage {
    /// What lies under `key`.
    fn load(&self, key: &str) -> Option<Written>;

    /// Keeps it there.
    fn keep(&mut self, key: &str, written: &Written);

    /// Removes it.
    fn remove(&mut self, key: &str);

    /// The first so many with keys above `after`, in the order of their bytes.
    fn page(&self, after: &str, count: usize) -> Vec<(Arc<str>, Written)>;
}

/// Which connection.
pub type Connection = u32;

/// These bytes are to be sent on that connection.
pub type Sent = (Connection, Vec<u8>);

/// See the [module](self).
#[derive(Debug, Default)]
pub struct Server {
    /// Who listens on which channels.
    listeners: BTreeMap<Connection, BTreeSet<Arc<str>>>,
}

impl Server {
    /// One that nobody is connected to.
    pub fn new() -> Self {
        Server::default()
    }

    /// The channels on which `connection` listens.
    pub fn channels(&self, connection: Connection) -> impl Iterator<Item = &str> {
        self.listeners.get(&connection).into_iter().flatten().map(|channel| &**channel)
    }

    /// A connection is there that listened on a channel before this server was begun again.
    pub fn listens(&mut self, connection: Connection, channel: &str) {
        self.listeners.entry(connection).or_default().insert(channel.into());
    }

    /// A connection ended.
    pub fn ended(&mut self, connection: Connection) {
        self.listeners.remove(&connection);
    }

    /// These commands came on `connection`, all of each; what is to be sent then, in this order.
    ///
    /// # Errors
    /// They are none: the connection is of no use any more.
    pub fn came(
        &mut self,
        connection: Connection,
        bytes: &[u8],
        now: StoreTime,
        storage: &mut impl Storage,
    ) -> Result<Vec<Sent>, Garbled> {
        let mut sent = vec![(connection, Vec::new())];
        for command in words::read(bytes)? {
            let answer = self.answer(connection, command, now, storage, &mut sent);
            answer.write(&mut sent[0].1);
        }
        Ok(sent)
    }

    fn answer(
        &mut self,
        connection: Connection,
        command: Command,
        now: StoreTime,
        storage: &mut impl Storage,
        sent: &mut Vec<Sent>,
    ) -> Answer {
        match command {
            Command::Courtesy => Answer::Okay,
            Command::Time => Answer::time(now),
            Command::Said => Answer::Reply(Reply::Text(String::new())),
            Command::Ping => Answer::words(["pong", ""]),
            Command::Subscribe(_) if self.channels(connection).count() == CHANNELS => {
                Answer::refused(format!("a connection listens on {CHANNELS} channels at the most"))
            }
            Command::Subscribe(channel) => {
                self.listens(connection, &channel);
                Answer::about("subscribe", &channel, self.channels(connection).count())
            }
            Command::Unsubscribe(channel) => {
                if let Some(channels) = self.listeners.get_mut(&connection) {
                    channels.remove(&*channel);
                }
                Answer::about("unsubscribe", &channel, self.channels(connection).count())
            }
            Command::Listeners(channel) => Answer::Reply(Reply::Int(self.listeners_of(&channel).count() as i64)),
            Command::Request(request) if cell_layout::lists(&request) => Answer::Reply(page(&request, now, storage)),
            Command::Request(request) => Answer::Reply(self.perform(&request, now, storage, sent)),
            Command::Refused(message) => Answer::refused(message),
        }
    }

    fn listeners_of<'a>(&'a self, channel: &'a str) -> impl Iterator<Item = Connection> + 'a {
        let listening = self.listeners.iter().filter(move |(_, channels)| channels.contains(channel));
        listening.map(|(connection, _)| *connection)
    }

    fn perform(&self, request: &Request, now: StoreTime, storage: &mut impl Storage, sent: &mut Vec<Sent>) -> Reply {
        let lies = storage.load(&request.key);
        let alive = |inbox: InboxId| self.listeners_of(&channel(inbox)).next().is_some();
        let computed = compute(lies.as_ref(), std::iter::once(request), now, &alive);
        if let Some(kept) = &computed.kept {
            storage.keep(&request.key, kept);
        }
        for (inbox, event) in &computed.pushes {
            let Some(text) = push::encode(&request.key, event) else { continue };
            let channel = channel(*inbox);
            for listener in self.listeners_of(&channel) {
                let mut bytes = Vec::new();
                Answer::words(["message", &channel, &text]).write(&mut bytes);
                sent.push((listener, bytes));
            }
        }
        computed.replies.into_iter().next().unwrap_or(Reply::Nil)
    }

    /// Removes what nobody used for [`IDLE`]; whether anything is left.
    pub fn sweep(&self, now: StoreTime, storage: &mut impl Storage) -> bool {
        let long_ago = StoreTime(now.0.saturating_sub(IDLE.as_micros() as i64));
        let (mut after, mut is_left): (Arc<str>, bool) = ("".into(), false);
        loop {
            let page = storage.page(&after, PAGE);
            let Some((last, _)) = page.last() else { return is_left };
            after = last.clone();
            for (key, written) in &page {
                match is_over(written, long_ago) {
                    true => storage.remove(key),
                    false => is_left = true,
                }
            }
        }
    }
}

/// One page of the keys in use.
fn page(request: &Request, now: StoreTime, storage: &impl Storage) -> Reply {
    let (from, cursor) = cell_layout::page_asked(request);
    // Before all keys with this prefix, of which none is empty.
    let after = if cursor.is_empty() { from } else { cursor };
    let rows = storage.page(after, PAGE);
    let next = rows.last().filter(|(last, _)| rows.len() == PAGE && last.starts_with(from));
    let used = rows.iter().filter(|(key, written)| key.starts_with(from) && !is_idle(written, now));
    cell_layout::page(next.map(|(last, _)| last.to_string()), used.map(|(key, _)| key.to_string()))
}
