//! Where a client hears that a lock which connections keep was given back: a connection of its own, which listens on a
//! channel of each lock that somebody here waits for.
//!
//! Nobody depends on what is told: whoever waits asks by a timer as well. So nothing is said of a connection that
//! cannot be had, or hears nothing.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Weak};
use std::task::Poll;
use std::time::Duration;

use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{Instant, sleep, timeout_at};
use tokio_postgres::{Client, Notification};

use super::client::Database;
use super::connection::{Connection, dial};
use super::statements;
use crate::protocol::{Channel, StoreEvent};
use crate::stores::adapter::{Closing, Sink, Subscription, Work, tell};
use crate::stores::topics;
use crate::stores::topics::{Changed, Keeper, Topics};

/// How long until a connection is tried again.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// What is said to the server about a channel.
type Word = topics::Word<()>;

/// See the [module](self).
#[derive(Default)]
pub(super) struct Channels {
    topics: Arc<Topics<()>>,
    closing: Closing,
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
        if channel.overheard {
            return self.topics.overhear(channel.name);
        }
        let subscription = self.topics.hear(channel, Some(key));
        match self.topics.keep() {
            Some(keeper) => subscription.in_background(kept(keeper, self.clone(), database.clone(), sink)),
            None => subscription,
        }
    }

    /// The connection ends.
    pub(super) fn close(&self) {
        self.closing.close();
    }

    /// Has a connection while something is listened to.
    async fn keep(&self, database: &Database, sink: &Weak<dyn Sink>) {
        let mut pause = PAUSES.0;
        loop {
            self.topics.are_wanted().await;
            let is_over = match dial(&database.config).await {
                Ok(connection) => self.listen(connection, sink).await,
                Err(error) => {
                    tracing::debug!(target: "lockwright::inbox", %error, "no connection to hear on: waiters poll");
                    false
                }
            };
            let lost = self.topics.disconnected();
            if !lost.is_empty() {
                pause = PAUSES.0;
            }
            changed(sink, lost);
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
        self.topics.connected();
        loop {
            let (words, next) = self.topics.words(Instant::now(), |_| ());
            for word in words {
                if self.say(&client, word, sink).await.is_err() {
                    return false;
                }
            }
            if self.topics.is_empty() {
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
        let (mut told, mut changed) = (pin!(heard.recv()), pin!(self.topics.changed.notified()));
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
            Word::Subscribe((), channel) => {
                statements::hear(client, &channel, true).await?;
                changed(sink, self.topics.subscribed(&channel));
                Ok(())
            }
            Word::Unsubscribe((), channel) => statements::hear(client, &channel, false).await,
        }
    }

    fn told(&self, notification: &Notification, sink: &Weak<dyn Sink>) {
        let path = notification.channel();
        if let Some(Some(key)) = self.topics.recipient(path) {
            tell(sink, |sink| sink.pushed(&key, &StoreEvent::Changed { path: path.into() }));
        }
    }
}

fn changed(sink: &Weak<dyn Sink>, changes: impl IntoIterator<Item = Changed>) {
    tell(sink, |sink| changes.into_iter().for_each(|changed| changed.tell(sink)));
}

/// What listens for all until the client is closed.
fn kept(keeper: Keeper<()>, channels: Arc<Channels>, database: Arc<Database>, sink: Weak<dyn Sink>) -> Work {
    Box::new(move || {
        let _keeper = &keeper;
        let (channels, database, sink) = (channels.clone(), database.clone(), sink.clone());
        Box::pin(async move { channels.closing.cuts_short(channels.keep(&database, &sink)).await })
    })
}
