//! The inbox: one subscription per client, kept alive, on a connection of its own.

use std::sync::{Arc, Weak};
use std::time::Duration;

use redis::{Cmd, Value};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, sleep, timeout_at};

use super::client::Redis;
use super::layouts::native::{channel, parse_push};
use super::tasks::Stream;
use super::wire::Frames;
use crate::protocol::InboxId;
use crate::session::Inbox;
use crate::stores::Sink;

/// How long nothing may be heard before the other side is asked whether it is still there.
const QUIET: Duration = Duration::from_millis(if cfg!(test) { 300 } else { 5_000 });
/// How long it may take to say so.
const PATIENCE: Duration = Duration::from_secs(2);
/// First and longest pause before dialling again.
const PAUSE: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(1));

/// How long a server may end or ignore every subscription, and how often, before that counts as a refusal.
const IGNORED: (Duration, u32) = (Duration::from_secs(2), 3);
/// How long after a refusal it is tried again: rights may be given meanwhile.
const REFUSED: Duration = Duration::from_millis(if cfg!(test) { 500 } else { 60_000 });

/// How a subscription ended.
#[derive(Clone, Copy, PartialEq)]
enum End {
    /// The server cannot be reached.
    Away,
    /// The connection is gone or half gone.
    Lost,
    /// The server or the user's rights do not allow it.
    Refused,
    /// Nobody listens any more.
    Unwanted,
}

/// Keeps `inbox` subscribed until `sink` is gone.
pub(super) async fn keep(store: Arc<Redis>, inbox: InboxId, sink: Weak<dyn Sink>) {
    let channel = channel(inbox);
    let (mut pause, mut subscribed_before) = (PAUSE.0, false);
    let (mut ignored, mut refused): (Option<(Instant, u32)>, bool) = (None, false);
    loop {
        let mut listener =
            Listener { store: &store, channel: &channel, sink: &sink, again: subscribed_before, live: false };
        let end = listener.listen().await;
        let was_live = listener.live;
        let Some(sink) = sink.upgrade().filter(|_| end != End::Unwanted) else { return };
        if was_live {
            (pause, subscribed_before, ignored, refused) = (PAUSE.0, true, None, false);
            sink.inbox(Inbox::Closed);
        } else if end == End::Lost {
            let (since, times) = ignored.unwrap_or((Instant::now(), 0));
            ignored = Some((since, times + 1));
        }
        let is_ignored = ignored.is_some_and(|(since, times)| since.elapsed() >= IGNORED.0 && times >= IGNORED.1);
        if (end == End::Refused || is_ignored) && !std::mem::replace(&mut refused, true) {
            sink.inbox(Inbox::Unavailable);
        }
        drop(sink);
        if refused {
            sleep(REFUSED).await;
        } else {
            sleep(jittered(pause)).await;
            pause = (pause * 2).min(PAUSE.1);
        }
    }
}

struct Listener<'a> {
    store: &'a Redis,
    channel: &'a str,
    sink: &'a Weak<dyn Sink>,
    again: bool,
    live: bool,
}

impl Listener<'_> {
    async fn listen(&mut self) -> End {
        let (mut stream, welcome) = match Stream::dial(&self.store.config).await {
            Ok(dialled) => dialled,
            Err(error) => {
                tracing::debug!(target: "lockwright::inbox", %error, "the inbox cannot be subscribed yet");
                return End::Away;
            }
        };
        self.store.meet(welcome);
        if say(&mut stream, &["SUBSCRIBE", self.channel]).await.is_err() {
            return End::Lost;
        }
        let (mut bytes, mut frames) = (Vec::with_capacity(4096), Frames::default());
        // What was read and belongs to no whole message yet, and how much of it was looked at.
        let mut looked = 0;
        let mut asked = true;
        let mut wake = Instant::now() + PATIENCE;
        loop {
            match timeout_at(wake, stream.read_buf(&mut bytes)).await {
                Err(_) if asked || self.sink.strong_count() == 0 => return self.lost(),
                Err(_) => {
                    if say(&mut stream, &["PING"]).await.is_err() {
                        return End::Lost;
                    }
                    asked = true;
                    wake = Instant::now() + PATIENCE;
                    continue;
                }
                Ok(Ok(0) | Err(_)) => return self.lost(),
                Ok(Ok(_)) => {}
            }
            asked = false;
            wake = Instant::now() + QUIET;
            loop {
                match frames.end(&bytes[looked..]) {
                    Ok(Some(end)) => {
                        let message = redis::parse_redis_value(&bytes[..looked + end]);
                        bytes.drain(..looked + end);
                        looked = 0;
                        if let Some(end) = message.map_or(Some(End::Lost), |message| self.heard(message)) {
                            return end;
                        }
                    }
                    Ok(None) => {
                        looked = bytes.len();
                        break;
                    }
                    Err(_) => return End::Lost,
                }
            }
        }
    }

    fn lost(&self) -> End {
        if self.sink.strong_count() == 0 { End::Unwanted } else { End::Lost }
    }

    fn heard(&mut self, message: Value) -> Option<End> {
        let Some(sink) = self.sink.upgrade() else { return Some(End::Unwanted) };
        let parts = match &message {
            Value::Array(parts) => parts.as_slice(),
            // Missing rights, or a proxy that has no such command.
            Value::ServerError(error) => return Some(if may_pass(error.code()) { End::Away } else { End::Refused }),
            _ => return None,
        };
        let text = |part: Option<&Value>| match part {
            Some(Value::BulkString(bytes)) => String::from_utf8(bytes.clone()).ok(),
            _ => None,
        };
        if text(parts.get(1)).as_deref() != Some(self.channel) {
            return None;
        }
        match text(parts.first()).as_deref() {
            Some("subscribe") => {
                if self.again && !self.store.knows_the_run() {
                    sink.restarted();
                }
                self.live = true;
                sink.inbox(Inbox::Live);
            }
            Some("unsubscribe") => return Some(End::Lost),
            Some("message") => {
                if let Some((key, event)) = text(parts.get(2)).as_deref().and_then(parse_push) {
                    sink.pushed(&key, &event);
                }
            }
            _ => {}
        }
        None
    }
}

/// Whether a server that answers with this code may subscribe us a moment later.
fn may_pass(code: &str) -> bool {
    matches!(code, "LOADING" | "MASTERDOWN" | "CLUSTERDOWN" | "BUSY" | "OOM" | "NOAUTH" | "TRYAGAIN")
}

async fn say(stream: &mut Stream, words: &[&str]) -> std::io::Result<()> {
    let mut bytes = Vec::new();
    Cmd::new().arg(words).write_packed_command(&mut bytes);
    match timeout_at(Instant::now() + PATIENCE, stream.write_all(&bytes)).await {
        Ok(written) => written,
        Err(_) => Err(std::io::ErrorKind::TimedOut.into()),
    }
}

/// Half of `pause` to all of it, so that clients of one server do not come back in step.
fn jittered(pause: Duration) -> Duration {
    let random = getrandom::u32().unwrap_or(u32::MAX / 2);
    pause.mul_f64(0.5 + f64::from(random) / f64::from(u32::MAX) / 2.0)
}
