//! One server, as Redis is: one command after the other, scripts by their digests, which it forgets when it is
//! restarted, and messages to whoever subscribed. What a script of the layout `native` does, the
//! [cells](lockwright_machines::cell) do, which are compared with the scripts on real servers
//! (`core/machines/tests/comparison`).
//!
//! Sources: the pages of the commands and the code of Redis 7.2 (`processCommand`, `server.c`; `pubsub.c`;
//! `commands.def`, which says what is answered while the data is loaded).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, OnceLock};

use lockwright_machines::barrier_machine::BarrierCalls;
use lockwright_machines::latch_machine::LatchCalls;
use lockwright_machines::lock_cell::BLOCK;
use lockwright_machines::native_machine::{Calls, OwnCalls};
use lockwright_machines::shared_machine::SharedCalls;
use lockwright_machines::written::{Written, compute};
use redis::Value;
use sha1_smol::Sha1;

use super::shards::Slots;
use crate::platform::clock;
use crate::platform::simulated::sockets::{Connection, host};
use crate::protocol::{Arg, Call, InboxId, Reply, Request, StoreEvent};
use crate::stores::redis::client::LISTENERS;
use crate::stores::redis::input::Input;
use crate::stores::redis::layouts::marker::MARK;
use crate::stores::redis::layouts::native_scripts::{self, channel};
use crate::stores::redis::layouts::{barrier_scripts, combined, latch_scripts, shared_scripts, survey};
use crate::stores::redis::wire::Commands;
use crate::time::{StoreTime, Time};

/// What its clock shows when that of the clients shows nothing.
const CLOCK: StoreTime = StoreTime(1_800_000_000_000_000);

/// See the [module](self).
#[derive(Default)]
pub(super) struct Node {
    /// Counts its starts after the first.
    run: u64,
    pub(super) records: BTreeMap<Arc<str>, Written>,
    /// What says since when it has had them, by keys of their own.
    marks: BTreeMap<String, String>,
    /// The digests of the scripts that it was sent since it was started.
    pub(super) scripts: BTreeSet<String>,
    pub(super) talks: BTreeMap<Connection, Talk>,
    /// It reads its data until then, and serves nobody.
    loads_until: Time,
    /// It does nothing until then, and finds later what came.
    stands_until: Time,
    come: VecDeque<Come>,
    pub(super) role: Role,
    /// What it knows of the cluster that it is one of.
    pub(super) slots: Option<Slots>,
}

/// Whether it is written to.
#[derive(Clone, Copy, Default)]
pub(super) enum Role {
    #[default]
    Master,
    Replica,
    /// It says that the node with this number is the master.
    Sentinel {
        named: usize,
    },
}

/// What lies at a node.
pub(super) type Data = (BTreeMap<Arc<str>, Written>, BTreeMap<String, String>);

/// Something was written there.
pub(super) enum Wrote {
    Record(Arc<str>, Written),
    Mark(String, String),
}

/// A connection.
#[derive(Default)]
pub(super) struct Talk {
    input: Input,
    channels: BTreeSet<String>,
    /// It said `ASKING`, which is for the next command.
    asking: bool,
}

/// What came to a server, and what it looks at next.
pub(super) enum Come {
    Bytes(Connection, Vec<u8>),
    End(Connection),
    /// What was published at another node of its cluster.
    Published(Published),
}

/// A message on a channel.
#[derive(Clone)]
pub(super) struct Published {
    channel: String,
    text: String,
}

/// What a server says, on which connections, and what was published and written.
#[derive(Default)]
pub(super) struct Said {
    pub(super) on: BTreeMap<Connection, Vec<u8>>,
    pub(super) published: Vec<Published>,
    pub(super) wrote: Vec<Wrote>,
}

/// What a script does.
#[derive(Clone, Copy)]
enum Script {
    /// What its call is for, once for each of its keys where that is one for several.
    Of(&'static Call),
    /// The same for each of several callers.
    Combined(&'static Call),
    /// Several acquisitions, or none, or one of them.
    Together(&'static Call),
    /// How many listen on a channel.
    Listeners,
    /// What the server does when its memory is full.
    Eviction,
    /// What else lies there, which is nothing.
    Survey,
    /// Since when the server has had what it keeps.
    Mark,
}

pub(super) enum Answer {
    Line(&'static str),
    Reply(Reply),
}

fn digest(script: &str) -> String {
    Sha1::from(script).digest().to_string()
}

/// All scripts of the layout, by their digests.
fn scripts() -> &'static BTreeMap<String, Script> {
    static SCRIPTS: OnceLock<BTreeMap<String, Script>> = OnceLock::new();
    SCRIPTS.get_or_init(|| {
        let Calls { acquire, renew, release, undo, inspect, break_hold, list } = &native_scripts::CALLS;
        let mut calls = vec![acquire, renew, release, undo, inspect, break_hold, list];
        let SharedCalls { acquire, renew, change, release, undo, break_hold, resize } = &shared_scripts::CALLS;
        calls.extend([acquire, renew, change, release, undo, break_hold, resize]);
        let LatchCalls { wait, leave, change, look, past: _ } = &latch_scripts::CALLS;
        calls.extend([wait, leave, change, look]);
        let BarrierCalls { arrive, leave, look, past: _ } = &barrier_scripts::CALLS;
        calls.extend([arrive, leave, look]);
        let OwnCalls { pass, raise: _, together } = &native_scripts::OWN;
        calls.push(pass);
        let by_digest = |call: &'static Call, script| (digest(&call.body.concat()), script);
        let several = [&native_scripts::CALLS.acquire, &native_scripts::CALLS.release];
        let several = several.map(|call| (digest(&combined::script(call).collect::<String>()), Script::Combined(call)));
        let together = together.iter().map(|call| by_digest(call, Script::Together(&native_scripts::CALLS.acquire)));
        let all = calls.into_iter().map(|call| by_digest(call, Script::Of(call))).chain(together).chain(several);
        let beside = [
            by_digest(&LISTENERS, Script::Listeners),
            by_digest(survey::eviction("").asks()[0].call, Script::Eviction),
            by_digest(survey::others("", None).asks()[0].call, Script::Survey),
            by_digest(&MARK, Script::Mark),
        ];
        all.chain(beside).collect()
    })
}

fn is_granted(answer: &Reply) -> bool {
    match answer {
        Reply::Int(_) => true,
        Reply::List(list) => list.first() == Some(&Reply::Int(3)),
        _ => false,
    }
}

/// What is published of an event, as a script does.
fn words(key: &str, event: &StoreEvent) -> String {
    match event {
        StoreEvent::Granted { attempt, first, last, at } if first == last => {
            format!("taken {attempt} {first} {} {key}", at.0)
        }
        StoreEvent::Granted { attempt, first, last, at } => {
            assert_eq!(last - first, BLOCK - 1, "a push has a block of tokens or one");
            format!("granted {attempt} {first} {} {key}", at.0)
        }
        StoreEvent::Broken { attempt } => format!("broken {attempt} {key}"),
        StoreEvent::Next { tail } => format!("next {tail:08x} {key}"),
        StoreEvent::Dropped => format!("dropped {key}"),
        other => panic!("no script publishes {other:?}"),
    }
}

fn write(reply: &Reply, out: &mut Vec<u8>) {
    match reply {
        Reply::Nil => out.extend_from_slice(b"$-1\r\n"),
        Reply::Int(number) => out.extend_from_slice(format!(":{number}\r\n").as_bytes()),
        Reply::Text(text) => out.word(text.as_bytes()),
        Reply::List(list) => {
            out.begin(list.len());
            list.iter().for_each(|reply| write(reply, out));
        }
        Reply::Error { code, message } => out.extend_from_slice(format!("-{code} {message}\r\n").as_bytes()),
        Reply::Shared(one) => write(one, out),
        Reply::Silent | Reply::Unsent => panic!("one server answers"),
    }
}

fn texts<const N: usize>(texts: [&str; N]) -> Reply {
    Reply::List(texts.map(|text| Reply::Text(text.into())).into())
}

/// The keys of a script, whose number comes first, and its arguments.
fn keys_of<'a, 'b>(rest: &'a [&'b str]) -> (&'a [&'b str], &'a [&'b str]) {
    let [count, rest @ ..] = rest else { panic!("a script has keys") };
    rest.split_at(count.parse().expect("a number of keys"))
}

/// What became of a subscription, and how many there are now.
fn about(what: &str, channel: &str, count: usize) -> Answer {
    let (what, channel) = (Reply::Text(what.into()), Reply::Text(channel.into()));
    Answer::Reply(Reply::List(vec![what, channel, Reply::Int(count as i64)]))
}

pub(super) fn refused(code: &str, message: impl Into<String>) -> Answer {
    Answer::Reply(Reply::Error { code: code.into(), message: message.into() })
}

fn is_over(now: StoreTime) -> Reply {
    Reply::List([0, now.0, 0, 0].map(Reply::Int).into())
}

impl Node {
    /// The one with this number, which has runs of its own.
    pub(super) fn new(me: usize, role: Role, slots: Option<Slots>) -> Self {
        Node { run: (me as u64) << 32, role, slots, ..Node::default() }
    }

    fn now() -> StoreTime {
        StoreTime(CLOCK.0 + (clock::now().as_nanos() / 1000) as i64)
    }

    fn listeners<'a>(&'a self, channel: &'a str) -> impl Iterator<Item = Connection> + 'a {
        let listening = self.talks.iter().filter(move |(_, talk)| talk.channels.contains(channel));
        listening.map(|(connection, _)| *connection)
    }

    fn answer(&mut self, connection: Connection, command: &[&str], said: &mut Said) -> Answer {
        let talk = self.talks.entry(connection).or_default();
        let asking = std::mem::replace(&mut talk.asking, matches!(command, ["ASKING"]));
        let (listens, loads) = (!talk.channels.is_empty(), clock::now() < self.loads_until);
        if let (Some(slots), ["EVAL" | "EVALSHA", _, rest @ ..]) = (&self.slots, command)
            && let Some(elsewhere) = slots.redirect(keys_of(rest).0, asking, |key| self.records.contains_key(key))
        {
            return elsewhere;
        }
        match command {
            ["SUBSCRIBE", channel] => {
                talk.channels.insert((*channel).to_owned());
                about("subscribe", channel, talk.channels.len())
            }
            ["UNSUBSCRIBE", channel] => {
                talk.channels.remove(*channel);
                about("unsubscribe", channel, talk.channels.len())
            }
            [word, ..] if listens && *word != "PING" => {
                refused("ERR", format!("Can't execute '{word}': only (P|S)SUBSCRIBE / ... are allowed in this context"))
            }
            ["CLIENT", "SETNAME" | "SETINFO", ..] => Answer::Line("OK"),
            ["CLUSTER", "SLOTS"] => Answer::Reply(self.slots.as_ref().expect("it is one of a cluster").told()),
            ["ASKING"] => Answer::Line("OK"),
            ["TIME"] => {
                let now = Node::now().0;
                Answer::Reply(texts([&(now / 1_000_000).to_string(), &(now % 1_000_000).to_string()]))
            }
            ["INFO", "server"] => {
                Answer::Reply(Reply::Text(format!("# Server\r\nredis_version:7.2.4\r\nrun_id:{:040x}\r\n", self.run)))
            }
            ["INFO", "replication"] => {
                let role = if matches!(self.role, Role::Replica) { "slave" } else { "master" };
                Answer::Reply(Reply::Text(format!("# Replication\r\nrole:{role}\r\n")))
            }
            ["SENTINEL", "GET-MASTER-ADDR-BY-NAME", _] => {
                let Role::Sentinel { named } = self.role else { panic!("it is no sentinel") };
                Answer::Reply(texts([&host(named), "6379"]))
            }
            ["INFO", "memory"] => {
                Answer::Reply(Reply::Text("# Memory\r\nmaxmemory:0\r\nmaxmemory_policy:noeviction\r\n".into()))
            }
            ["PING" | "GET" | "EVAL" | "EVALSHA", ..] if loads => {
                refused("LOADING", "Redis is loading the dataset in memory")
            }
            ["PING"] if listens => Answer::Reply(texts(["pong", ""])),
            ["PING"] => Answer::Line("PONG"),
            ["GET", key] => Answer::Reply(self.marks.get(*key).map_or(Reply::Nil, |mark| Reply::Text(mark.clone()))),
            ["EVAL" | "EVALSHA", ..] if matches!(self.role, Role::Replica) => {
                refused("READONLY", "You can't write against a read only replica.")
            }
            ["EVAL", script, rest @ ..] => {
                let digest = digest(script);
                assert!(scripts().contains_key(&digest), "no script of the layout: {script}");
                self.scripts.insert(digest.clone());
                Answer::Reply(self.run(&digest, rest, said))
            }
            ["EVALSHA", digest, rest @ ..] if self.scripts.contains(*digest) => {
                Answer::Reply(self.run(digest, rest, said))
            }
            ["EVALSHA", ..] => refused("NOSCRIPT", "No matching script. Please use EVAL."),
            other => panic!("no server here knows the command {other:?}"),
        }
    }

    /// Runs the script with these keys and arguments, whose number comes first.
    fn run(&mut self, digest: &str, rest: &[&str], said: &mut Said) -> Reply {
        let script = *scripts().get(digest).expect("it was sent");
        let (keys, args) = keys_of(rest);
        let each = args.len() / keys.len();
        match script {
            Script::Listeners => Reply::Int(self.listeners(args[0]).count() as i64),
            Script::Eviction => Reply::Text("noeviction".into()),
            Script::Survey => texts([""]),
            Script::Mark => self.mark(keys[0], args, said),
            Script::Of(call) if std::ptr::eq(call, &raw const native_scripts::CALLS.list) => {
                self.list(args.get(1).unwrap_or(&keys[0]))
            }
            Script::Of(call) if call.batch => {
                let renewed = keys.iter().zip(args.chunks(each));
                Reply::List(renewed.map(|(key, args)| self.perform(call, key, args, said)).collect())
            }
            // The second key is that of what is remembered beside it, which is in the record here.
            Script::Of(call) => self.perform(call, keys[0], args, said),
            Script::Combined(call) => {
                let asked = keys.iter().zip(args.chunks(each));
                let answer = |(key, args): (&&str, &[&str])| match self.records.contains_key(*key) {
                    true => self.perform(call, key, args, said),
                    false => Reply::Nil,
                };
                Reply::List(asked.map(answer).collect())
            }
            Script::Together(acquire) => self.together(acquire, keys, args, said),
        }
    }

    /// All locks or none, or the first that is free.
    fn together(&mut self, acquire: &'static Call, keys: &[&str], args: &[&str], said: &mut Said) -> Reply {
        let [all, args @ ..] = args else { panic!("it says whether all are wanted") };
        let (all, now, mut winner) = (*all == "1", Node::now(), None);
        let mut answers = Vec::new();
        for (at, (key, args)) in keys.iter().zip(args.chunks(7)).enumerate() {
            answers.push(match winner {
                Some(_) => is_over(now),
                None => self.perform(acquire, key, args, said),
            });
            if winner.is_none() && is_granted(&answers[at]) != all {
                winner = Some(at);
            }
        }
        for at in 0..winner.filter(|_| all).unwrap_or_default() {
            self.perform(&native_scripts::CALLS.undo, keys[at], &[args[7 * at], ""], said);
            answers[at] = is_over(now);
        }
        Reply::List(answers)
    }

    fn perform(&mut self, call: &'static Call, key: &str, args: &[&str], said: &mut Said) -> Reply {
        let args = args.iter().map(|arg| Arg::Text((*arg).into())).collect();
        let request = Request { call, key: key.into(), args };
        let alive = |inbox: InboxId| self.listeners(&channel(inbox)).next().is_some();
        let computed = compute(self.records.get(key), std::iter::once(&request), Node::now(), &alive);
        for (inbox, event) in &computed.pushes {
            let published = Published { channel: channel(*inbox), text: words(key, event) };
            self.tell(&published, said);
            said.published.push(published);
        }
        if let Some(kept) = computed.kept {
            self.records.insert(key.into(), kept.clone());
            said.wrote.push(Wrote::Record(key.into(), kept));
        }
        computed.replies.into_iter().next().expect("an answer")
    }

    /// As the script `quorum/mark` does.
    fn mark(&mut self, key: &str, args: &[&str], said: &mut Said) -> Reply {
        let [run, longest] = args else { panic!("{args:?} are no run and a span") };
        let (now, most) = (Node::now().0, longest.parse::<i64>().expect("microseconds"));
        let mark = self.marks.get(key);
        let known = mark.and_then(|mark| mark.strip_prefix(&format!("{run} {longest} "))?.parse::<i64>().ok());
        match known.map(|since| since + most - now) {
            Some(left @ 1..) if left <= most => Reply::Int(left),
            Some(..=0) => mark.map_or(Reply::Nil, |mark| Reply::Text(mark.clone())),
            _ => {
                let mark = format!("{run} {longest} {now}");
                self.marks.insert(key.to_owned(), mark.clone());
                said.wrote.push(Wrote::Mark(key.to_owned(), mark));
                Reply::Int(most)
            }
        }
    }

    /// Of what its master wrote.
    pub(super) fn keep(&mut self, wrote: Wrote) {
        match wrote {
            Wrote::Record(key, record) => drop(self.records.insert(key, record)),
            Wrote::Mark(key, mark) => drop(self.marks.insert(key, mark)),
        }
    }

    pub(super) fn data(&self) -> Data {
        (self.records.clone(), self.marks.clone())
    }

    pub(super) fn replace(&mut self, data: Data) {
        (self.records, self.marks) = data;
    }

    /// Tells it to those who listen here.
    fn tell(&self, Published { channel, text }: &Published, said: &mut Said) {
        for listener in self.listeners(channel) {
            write(&texts(["message", channel, text]), said.on.entry(listener).or_default());
        }
    }

    /// All keys that match, in one page.
    fn list(&self, pattern: &str) -> Reply {
        let (before, behind) = pattern.split_once('*').expect("a pattern");
        let is_match = |key: &&Arc<str>| key.starts_with(before) && key.ends_with(behind);
        let keys = self.records.keys().filter(is_match).map(|key| Reply::Text(key.to_string()));
        Reply::List(std::iter::once(Reply::Text(String::new())).chain(keys).collect())
    }

    /// What it says to the next that came, if it does anything now.
    pub(super) fn look(&mut self) -> Option<Said> {
        if self.is_standing() {
            return None;
        }
        let mut said = Said::default();
        match self.come.pop_front()? {
            Come::Bytes(connection, bytes) => self.read(connection, &bytes, &mut said),
            Come::Published(published) => self.tell(&published, &mut said),
            Come::End(connection) => drop(self.talks.remove(&connection)),
        }
        Some(said)
    }

    fn read(&mut self, connection: Connection, bytes: &[u8], said: &mut Said) {
        let Some(talk) = self.talks.get_mut(&connection) else { return };
        talk.input.brought(bytes);
        loop {
            let Some(talk) = self.talks.get_mut(&connection) else { return };
            let Some(value) = talk.input.value().expect("a command") else { return };
            let Value::Array(parts) = value else { panic!("{value:?} is no command") };
            let word = |part: Value| match part {
                Value::BulkString(bytes) => String::from_utf8(bytes).expect("a text"),
                other => panic!("{other:?} is no word"),
            };
            let parts: Vec<String> = parts.into_iter().map(word).collect();
            let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
            let answer = self.answer(connection, &parts, said);
            let out = said.on.entry(connection).or_default();
            match answer {
                Answer::Line(line) => out.extend_from_slice(format!("+{line}\r\n").as_bytes()),
                Answer::Reply(reply) => write(&reply, out),
            }
        }
    }

    /// It looks at it as soon as it does anything.
    pub(super) fn come(&mut self, come: Come) {
        self.come.push_back(come);
    }

    pub(super) fn is_standing(&self) -> bool {
        clock::now() < self.stands_until
    }

    /// It serves nobody's keys.
    pub(super) fn is_away(&self) -> bool {
        clock::now() < self.stands_until.max(self.loads_until)
    }

    pub(super) fn stands_until(&mut self, until: Time) {
        self.stands_until = self.stands_until.max(until);
    }

    /// It is restarted, is up then, and reads its data until it serves: it has what it had, but for scripts and
    /// connections.
    pub(super) fn restart(&mut self, up: Time, serves: Time) {
        self.run += 1;
        (self.stands_until, self.loads_until) = (up, serves);
        self.scripts.clear();
        self.talks.clear();
        self.come.clear();
        if let Some(slots) = &mut self.slots {
            slots.restarted(up);
        }
    }
}
