//! The listener: one connection per client that keeps its [topics](crate::stores::topics) subscribed, and tells what is
//! heard on them.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Weak};
use std::task::Poll;
use std::time::Duration;

use redis::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, sleep, timeout_at};

use super::client::Redis;
use super::failover::as_hint;
use super::layouts::native_scripts::parse_push;
use super::parse;
use super::tasks;
use super::topics::{MOVED, REFUSED, Told, Word, command};
use super::wire::{Commands, Frames};
use crate::platform::random;
use crate::protocol::StoreEvent;
use crate::stores::pipe::Pipe;
use crate::stores::topics::{Changed, Keeper};
use crate::stores::{Sink, Work};

/// How long nothing may be heard before the other side is asked whether it is still there.
const QUIET: Duration = Duration::from_millis(if cfg!(test) { 300 } else { 5_000 });
/// How long it may take to say so.
const PATIENCE: Duration = Duration::from_secs(2);
/// First and longest pause before dialling again.
const PAUSE: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(1));

/// How long a server may end or ignore every subscription, and how often, before that counts as a refusal.
const IGNORED: (Duration, u32) = (Duration::from_secs(2), 3);

/// How a connection ended.
#[derive(Clone, Copy, PartialEq)]
enum End {
    /// The server cannot be reached.
    Away,
    /// The connection is gone or half gone.
    Lost,
    /// There is nothing to listen to.
    Idle,
    /// Nobody listens any more.
    Unwanted,
}

/// What keeps the topics of the store subscribed until `sink` is gone, or the client is closed.
pub(super) fn kept(keeper: Keeper<Told>, store: Arc<Redis>, sink: Weak<dyn Sink>) -> Work {
    Box::new(move || {
        let _keeper = &keeper;
        let (store, sink) = (store.clone(), sink.clone());
        Box::pin(async move { store.closing.cuts_short(keep(store.clone(), sink)).await })
    })
}

async fn keep(store: Arc<Redis>, sink: Weak<dyn Sink>) {
    let (mut pause, mut subscribed_before) = (PAUSE.0, false);
    let (mut ignored, mut barred): (Option<(Instant, u32)>, bool) = (None, false);
    loop {
        store.topics.are_wanted().await;
        let (said, since) = (VecDeque::new(), Instant::now());
        let (again, in_shards) = (subscribed_before, !store.config.seeds.is_empty());
        let mut listener =
            Listener { store: &store, sink: &sink, again, live: false, said, unfound: None, since, in_shards };
        let end = listener.listen().await;
        let was_live = listener.live;
        let Some(sink) = sink.upgrade().filter(|_| end != End::Unwanted) else { return };
        if was_live {
            (pause, subscribed_before, ignored, barred) = (PAUSE.0, true, None, false);
        } else if end == End::Lost && listener.was_asked() {
            let (since, times) = ignored.unwrap_or((Instant::now(), 0));
            ignored = Some((since, times + 1));
        }
        tell(&*sink, store.topics.disconnected());
        if ignored.is_some_and(|(since, times)| since.elapsed() >= IGNORED.0 && times >= IGNORED.1) {
            barred = true;
            tell(&*sink, store.topics.bar());
        }
        drop(sink);
        if barred {
            sleep(REFUSED).await;
        } else if end != End::Idle {
            sleep(jittered(pause)).await;
            pause = (pause * 2).min(PAUSE.1);
        }
    }
}

fn tell(sink: &dyn Sink, changes: impl IntoIterator<Item = Changed>) {
    changes.into_iter().for_each(|changed| changed.tell(sink));
}

/// What was said to the server and has no answer yet: they come in this order.
#[derive(PartialEq)]
enum Sent {
    Word(Word),
    Ping,
    /// A ping whose answer says that scripts do not find whoever listens on this inbox, and not that the connection had
    /// ended by then.
    Confirm(Arc<str>),
}

struct Listener<'a> {
    store: &'a Redis,
    sink: &'a Weak<dyn Sink>,
    again: bool,
    live: bool,
    said: VecDeque<Sent>,
    /// The inbox that scripts did not find.
    unfound: Option<Arc<str>>,
    /// When something was heard last, or said to which an answer is due.
    since: Instant,
    /// The server is one of a cluster, where what tells of a lock is told in the shard of that, and knows of shards as
    /// far as is known.
    in_shards: bool,
}

impl Listener<'_> {
    async fn listen(&mut self) -> End {
        let (mut stream, welcome) = match tasks::dial(&self.store.config).await {
            Ok(dialled) => dialled,
            Err(error) => {
                tracing::debug!(target: "lockwright::inbox", %error, "the inbox cannot be subscribed yet");
                return End::Away;
            }
        };
        let run = welcome.run.clone();
        self.store.meet(welcome);
        self.store.topics.connected();
        let (mut bytes, mut frames) = (Vec::with_capacity(4096), Frames::default());
        // What was read and belongs to no whole message yet, and how much of it was looked at.
        let mut looked = 0;
        self.since = Instant::now();
        loop {
            let now = Instant::now();
            let (words, next) = self.store.topics.words(now, |key| Told::of(key, self.in_shards));
            let words = words.into_iter().map(Sent::Word).chain(self.unfound.take().map(Sent::Confirm));
            if self.say(&mut stream, words).await.is_err() {
                return self.lost();
            }
            if self.store.topics.is_empty() {
                return End::Idle;
            }
            if self.store.has_left(run.as_deref()) {
                return self.lost();
            }
            // Nothing may be heard for long, or an answer is due.
            let silent_at = if self.said.is_empty() { self.since + QUIET } else { self.since + PATIENCE };
            let wake = next.map_or(silent_at, |next| next.min(silent_at));
            match self.read(&mut stream, &mut bytes, wake).await {
                None if Instant::now() < silent_at => continue,
                None if !self.said.is_empty() || self.sink.strong_count() == 0 => return self.lost(),
                None => {
                    if self.say(&mut stream, [Sent::Ping]).await.is_err() {
                        return self.lost();
                    }
                    continue;
                }
                Some(Ok(0) | Err(_)) => return self.lost(),
                Some(Ok(_)) => self.since = Instant::now(),
            }
            loop {
                match frames.end(&bytes[looked..]) {
                    Ok(Some(end)) => {
                        let message = parse::value(&bytes[..looked + end]);
                        bytes.drain(..looked + end);
                        looked = 0;
                        let Ok(message) = message else { return End::Lost };
                        if let Some(end) = self.heard(message).await {
                            return end;
                        }
                    }
                    Ok(None) => {
                        looked = bytes.len();
                        break;
                    }
                    Err(_) => return self.lost(),
                }
            }
        }
    }

    /// What was read; none when it is time to look at the topics again.
    async fn read(&self, stream: &mut Pipe, bytes: &mut Vec<u8>, wake: Instant) -> Option<std::io::Result<usize>> {
        let changed = self.store.topics.changed.notified();
        let read = stream.read_buf(bytes);
        let (mut changed, mut read) = (pin!(changed), pin!(read));
        let either = poll_fn(|context| match read.as_mut().poll(context) {
            Poll::Ready(count) => Poll::Ready(Some(count)),
            Poll::Pending => changed.as_mut().poll(context).map(|()| None),
        });
        timeout_at(wake, either).await.unwrap_or(None)
    }

    async fn say(&mut self, stream: &mut Pipe, all: impl IntoIterator<Item = Sent>) -> std::io::Result<()> {
        let mut bytes = Vec::new();
        for said in all {
            match &said {
                Sent::Word(word) => bytes.command(&command(word)),
                Sent::Ping | Sent::Confirm(_) => bytes.command(&["PING"]),
            }
            if self.said.is_empty() {
                self.since = Instant::now();
            }
            self.said.push_back(said);
        }
        if bytes.is_empty() {
            return Ok(());
        }
        match timeout_at(Instant::now() + PATIENCE, stream.write_all(&bytes)).await {
            Ok(written) => written,
            Err(_) => Err(std::io::ErrorKind::TimedOut.into()),
        }
    }

    fn lost(&self) -> End {
        if self.sink.strong_count() == 0 { End::Unwanted } else { End::Lost }
    }

    /// Whether the server owes an answer to a subscription.
    fn was_asked(&self) -> bool {
        self.said.iter().any(|said| matches!(said, Sent::Word(Word::Subscribe(..))))
    }

    async fn heard(&mut self, message: Value) -> Option<End> {
        let Some(sink) = self.sink.upgrade() else { return Some(End::Unwanted) };
        let parts = match &message {
            Value::Array(parts) => parts.as_slice(),
            // Missing rights, or a proxy that has no such command.
            Value::ServerError(error) => return self.refused(&*sink, error.code()),
            _ => return self.ponged(&*sink),
        };
        let text = |part: Option<&Value>| match part {
            Some(Value::BulkString(bytes)) => String::from_utf8(bytes.clone()).ok(),
            _ => None,
        };
        let kind = text(parts.first());
        let channel: Arc<str> = text(parts.get(1)).unwrap_or_default().into();
        // Also without having been asked to.
        let over = |told| Sent::Word(Word::Unsubscribe(told, channel.clone()));
        match kind.as_deref() {
            Some(kind @ ("subscribe" | "ssubscribe")) => {
                drop(sink);
                let told = if kind == "subscribe" { Told::ByAll } else { Told::InShard };
                self.subscribed(told, &channel).await;
            }
            Some("unsubscribe") if !self.answered(&over(Told::ByAll)) => return Some(End::Lost),
            Some("sunsubscribe") if !self.answered(&over(Told::InShard)) => {
                tell(&*sink, self.store.topics.ended(&channel, Instant::now() + MOVED));
            }
            Some("pong") => return self.ponged(&*sink),
            Some("message" | "smessage") => match self.store.topics.recipient(&channel) {
                Some(Some(key)) => sink.pushed(&key, &StoreEvent::Changed { path: channel }),
                Some(None) => {
                    if let Some((key, event)) = text(parts.get(2)).as_deref().and_then(parse_push) {
                        let believed = self.store.config.delay.is_none();
                        sink.pushed(&key, &if believed { event } else { as_hint(event) });
                    }
                }
                None => {}
            },
            _ => {}
        }
        None
    }

    /// Whether this is the answer to what was said first.
    fn answered(&mut self, said: &Sent) -> bool {
        let is = self.said.front() == Some(said);
        if is {
            self.said.pop_front();
        }
        is
    }

    async fn subscribed(&mut self, told: Told, channel: &str) {
        self.answered(&Sent::Word(Word::Subscribe(told, channel.into())));
        let is_inbox = matches!(self.store.topics.recipient(channel), Some(None));
        let is_found = !is_inbox || self.store.finds(channel).await;
        let Some(sink) = self.sink.upgrade() else { return };
        let sink = &*sink;
        if self.again && !self.live && !self.store.knows_the_run() {
            sink.restarted();
        }
        self.live = true;
        if is_found {
            tell(sink, self.store.topics.subscribed(channel));
        } else {
            self.unfound = Some(channel.into());
        }
    }

    fn ponged(&mut self, sink: &dyn Sink) -> Option<End> {
        if let Some(Sent::Ping | Sent::Confirm(_)) = self.said.front()
            && let Some(Sent::Confirm(channel)) = self.said.pop_front()
        {
            // In a fail-over one of the two is at the new master already: the sentinels are asked again.
            if self.store.config.sentinels.is_some() {
                return Some(End::Lost);
            }
            tell(sink, self.store.topics.refused(&channel, Instant::now() + REFUSED));
        }
        None
    }

    fn refused(&mut self, sink: &dyn Sink, code: &str) -> Option<End> {
        if may_pass(code) {
            return Some(End::Away);
        }
        let Some(Sent::Word(Word::Subscribe(told, channel))) = self.said.pop_front() else { return Some(End::Lost) };
        match (told, code) {
            (Told::InShard, "MOVED") => tell(sink, self.store.topics.ended(&channel, Instant::now() + MOVED)),
            // The command is not known: as before Redis 7, all is told by all.
            (Told::InShard, "ERR") => {
                self.in_shards = false;
                self.store.topics.ask_anew(|told| told == Told::InShard);
            }
            _ => tell(sink, self.store.topics.refused(&channel, Instant::now() + REFUSED)),
        }
        None
    }
}

/// Whether a server that answers with this code may subscribe us a moment later.
fn may_pass(code: &str) -> bool {
    matches!(code, "LOADING" | "MASTERDOWN" | "CLUSTERDOWN" | "BUSY" | "OOM" | "NOAUTH" | "TRYAGAIN")
}

/// Half of `pause` to all of it, so that clients of one server do not come back in step.
fn jittered(pause: Duration) -> Duration {
    let random = random::number().map_or(u32::MAX / 2, |number| (number >> 96) as u32);
    pause.mul_f64(0.5 + f64::from(random) / f64::from(u32::MAX) / 2.0)
}
