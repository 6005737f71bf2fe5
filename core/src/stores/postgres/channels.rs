//! Where a client hears that a lock which connections keep was given back: a connection of its own, which listens on a
//! channel of each lock that somebody here waits for.
//!
//! Nobody depends on what is told: whoever waits asks by a timer as well. So nothing is said of a connection that
//! cannot be had, or hears nothing.

use std::collections::HashMap;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::task::Poll;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{Instant, sleep, timeout_at};
use tokio_postgres::{Client, Notification};

use super::client::Database;
use super::connection::{Connection, dial};
use super::statements;
use crate::platform::mutex::locked;
use crate::protocol::{Channel, StoreEvent};
use crate::session::Inbox;
use crate::stores::{Closing, Ends, Sink, Subscription, Work, tell};

/// How long a channel that nobody listens on is still listened to: a lock that is waited for will soon be waited for
/// again.
const LINGER: Duration = Duration::from_secs(1);
/// How long until a connection is tried again.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// See the [module](self).
#[derive(Default)]
pub(super) struct Channels {
    by_channel: Mutex<HashMap<Arc<str>, Topic>>,
    /// Somebody listens for all, or is about to.
    are_kept: AtomicBool,
    changed: Notify,
    closing: Closing,
}

struct Topic {
    /// Of the lock that it tells of.
    key: Arc<str>,
    /// How many listen.
    listeners: usize,
    /// How long it stays once nobody does.
    until: Instant,
    /// The server tells what comes on it.
    is_live: bool,
}

/// One of those who listen on a channel.
struct Listener {
    channels: Arc<Channels>,
    channel: Arc<str>,
}

impl Ends for Listener {
    fn ended(&self) {
        if let Some(topic) = locked(&self.channels.by_channel).get_mut(&self.channel) {
            topic.listeners -= 1;
            topic.until = Instant::now() + LINGER;
        }
        self.channels.changed.notify_one();
    }
}

/// Whoever listens for all.
struct Keeper(Arc<Channels>);

impl Drop for Keeper {
    fn drop(&mut self) {
        self.0.are_kept.store(false, Ordering::Release);
    }
}

/// What is said to the server about a channel.
#[derive(Debug, PartialEq, Eq)]
enum Word {
    Hear(Arc<str>),
    Ignore(Arc<str>),
}

/// Why there is something to do.
enum Woken {
    Told(Notification),
    /// Others are listened to, or it is time.
    Look,
    Ended,
}

impl Channels {
    /// One more listens on `channel`, which tells of the lock under `key`.
    pub(super) fn hear(
        self: &Arc<Self>,
        database: &Arc<Database>,
        channel: Channel<'_>,
        key: &Arc<str>,
        sink: Weak<dyn Sink>,
    ) -> Subscription {
        let subscription = self.listened(channel, key);
        if channel.overheard || self.are_kept.swap(true, Ordering::AcqRel) {
            return subscription;
        }
        subscription.in_background(kept(Keeper(self.clone()), database.clone(), sink))
    }

    fn listened(self: &Arc<Self>, channel: Channel<'_>, key: &Arc<str>) -> Subscription {
        let mut all = locked(&self.by_channel);
        let is_live = all.get(channel.name).is_some_and(|topic| topic.is_live);
        if channel.overheard && !is_live {
            return Subscription::of(Inbox::Closed);
        }
        let new = || Topic { key: key.clone(), listeners: 0, until: Instant::now(), is_live: false };
        all.entry(channel.name.clone()).or_insert_with(new).listeners += 1;
        drop(all);
        self.changed.notify_one();
        let listener = Arc::new(Listener { channels: self.clone(), channel: channel.name.clone() });
        Subscription::of(if is_live { Inbox::Live } else { Inbox::Closed }).until(listener)
    }

    /// The connection ends.
    pub(super) fn close(&self) {
        self.closing.close();
    }

    /// Has a connection while something is listened to.
    async fn keep(&self, database: &Database, sink: &Weak<dyn Sink>) {
        let mut pause = PAUSES.0;
        loop {
            while locked(&self.by_channel).is_empty() {
                self.changed.notified().await;
            }
            let is_over = match dial(&database.config).await {
                Ok(connection) => self.listen(connection, sink).await,
                Err(error) => {
                    tracing::debug!(target: "lockwright::inbox", %error, "no connection to hear on: waiters poll");
                    false
                }
            };
            if self.disconnected(sink) {
                pause = PAUSES.0;
            }
            if !is_over {
                sleep(pause).await;
                pause = (2 * pause).min(PAUSES.1);
            }
        }
    }

    /// Hears what comes until nothing is listened to any more, and tells whether that is so; or until the
    /// connection ends.
    async fn listen(&self, connection: Connection, sink: &Weak<dyn Sink>) -> bool {
        let Connection { client, mut heard, .. } = connection;
        loop {
            let (words, next) = self.words(Instant::now());
            for word in words {
                if self.say(&client, word, sink).await.is_err() {
                    return false;
                }
            }
            if locked(&self.by_channel).is_empty() {
                return true;
            }
            match self.woken(&mut heard, next).await {
                Woken::Told(notification) => self.told(&notification, sink),
                Woken::Look => {}
                Woken::Ended => return false,
            }
        }
    }

    async fn woken(&self, heard: &mut UnboundedReceiver<Notification>, next: Option<Instant>) -> Woken {
        let (mut told, mut changed) = (pin!(heard.recv()), pin!(self.changed.notified()));
        let either = poll_fn(|context| match told.as_mut().poll(context) {
            Poll::Ready(told) => Poll::Ready(told.map_or(Woken::Ended, Woken::Told)),
            Poll::Pending => changed.as_mut().poll(context).map(|()| Woken::Look),
        });
        match next {
            Some(next) => timeout_at(next, either).await.unwrap_or(Woken::Look),
            None => either.await,
        }
    }

    async fn say(&self, client: &Client, word: Word, sink: &Weak<dyn Sink>) -> Result<(), tokio_postgres::Error> {
        match word {
            Word::Hear(channel) => {
                statements::hear(client, &channel, true).await?;
                let key = locked(&self.by_channel).get_mut(&channel).map(|topic| {
                    topic.is_live = true;
                    topic.key.clone()
                });
                if let Some(key) = key {
                    tell(sink, |sink| sink.channel(&key, &channel, Inbox::Live));
                }
                Ok(())
            }
            Word::Ignore(channel) => statements::hear(client, &channel, false).await,
        }
    }

    /// What is to be said to the server now, and when to look again at the latest.
    fn words(&self, now: Instant) -> (Vec<Word>, Option<Instant>) {
        let (mut words, mut next) = (Vec::new(), None);
        locked(&self.by_channel).retain(|channel, topic| {
            let lingers = topic.listeners == 0 && topic.until > now;
            if lingers {
                next = Some(next.map_or(topic.until, |next: Instant| next.min(topic.until)));
            }
            let stays = lingers || topic.listeners > 0;
            match (stays, topic.is_live) {
                (true, false) => words.push(Word::Hear(channel.clone())),
                (false, true) => words.push(Word::Ignore(channel.clone())),
                _ => {}
            }
            stays
        });
        (words, next)
    }

    fn told(&self, notification: &Notification, sink: &Weak<dyn Sink>) {
        let all = locked(&self.by_channel);
        let known = all.get_key_value(notification.channel());
        let known = known.map(|(channel, topic)| (channel.clone(), topic.key.clone()));
        drop(all);
        if let Some((path, key)) = known {
            tell(sink, |sink| sink.pushed(&key, &StoreEvent::Changed { path }));
        }
    }

    /// Nothing is told any more; whether something was.
    fn disconnected(&self, sink: &Weak<dyn Sink>) -> bool {
        let mut all = locked(&self.by_channel);
        let live = all.iter_mut().filter_map(|(channel, topic)| {
            std::mem::take(&mut topic.is_live).then(|| (channel.clone(), topic.key.clone()))
        });
        let live: Vec<_> = live.collect();
        drop(all);
        live.iter().for_each(|(channel, key)| tell(sink, |sink| sink.channel(key, channel, Inbox::Closed)));
        !live.is_empty()
    }
}

/// What listens for all until the client is closed.
fn kept(keeper: Keeper, database: Arc<Database>, sink: Weak<dyn Sink>) -> Work {
    Box::new(move || {
        let (channels, database, sink) = (keeper.0.clone(), database.clone(), sink.clone());
        Box::pin(async move { channels.closing.cuts_short(channels.keep(&database, &sink)).await })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_channel_is_listened_to_while_somebody_does_and_for_a_moment_after() {
        let channels = Arc::new(Channels::default());
        let (name, key) = (Arc::from("of a lock"), Arc::from("key"));
        let hear = |overheard| channels.listened(Channel { name: &name, own: false, overheard }, &key);
        let now = Instant::now();
        assert_eq!(hear(true).state(), Inbox::Closed);
        assert_eq!(channels.words(now), (vec![], None), "what is overheard is not asked for");
        let (one, other) = (hear(false), hear(false));
        assert_eq!(channels.words(now), (vec![Word::Hear(name.clone())], None));
        locked(&channels.by_channel).get_mut(&name).unwrap().is_live = true;
        assert_eq!((channels.words(now), hear(true).state()), ((vec![], None), Inbox::Live));
        drop(one);
        assert_eq!(channels.words(now + 2 * LINGER), (vec![], None));
        drop(other);
        let (words, next) = channels.words(now);
        assert_eq!((words, next.is_some()), (vec![], true));
        assert_eq!(channels.words(now + 2 * LINGER), (vec![Word::Ignore(name.clone())], None));
        assert_eq!(channels.words(now), (vec![], None));
    }
}
