//! The inbox of a client: a connection of its own that listens to a channel of notifications.
//!
//! Whether notifications arrive at all is tried out: behind a pooler that hands out the server's connections by
//! transactions they do not. Then whoever waits asks by itself.

use std::sync::{Arc, Weak};
use std::time::Duration;

use lockwright_machines::push;
use tokio::time::{sleep, timeout};
use tokio_postgres::Notification;

use super::client::Database;
use super::connection::{Connection, dial};
use super::statements;
use crate::protocol::InboxId;
use crate::session::Inbox;
use crate::stores::{Sink, tell};

/// How often a silent inbox is told something, to see whether it hears.
const HEARTBEAT: Duration = Duration::from_secs(5);
/// How long the first sound may take.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long until it is tried again.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));
/// The same where notifications do not arrive.
const DEAF: Duration = Duration::from_secs(300);
/// What an inbox is told to see whether it hears.
const SOUND: &str = "sound";

enum End {
    /// No connection, or none any more.
    Broken,
    /// It cannot hear.
    Deaf,
}

/// Listens at `inbox` and reports to `sink` until that is gone.
pub(super) async fn listen(database: Arc<Database>, inbox: InboxId, sink: Weak<dyn Sink>) {
    let (mut pause, mut was_live) = (PAUSES.0, false);
    while sink.strong_count() > 0 {
        let end = hear(&database, inbox, &sink, was_live).await;
        match end {
            (End::Deaf, _) => {
                tracing::debug!(target: "lockwright::inbox", "no notifications arrive: waiters poll");
                tell(&sink, |sink| sink.inbox(Inbox::Unavailable));
                sleep(DEAF).await;
            }
            (End::Broken, heard) => {
                was_live |= heard;
                pause = if heard { PAUSES.0 } else { (2 * pause).min(PAUSES.1) };
                tell(&sink, |sink| sink.inbox(if heard { Inbox::Closed } else { Inbox::Unavailable }));
                sleep(pause).await;
            }
        }
    }
}

/// Why it ended, and whether anything was heard before.
async fn hear(database: &Arc<Database>, inbox: InboxId, sink: &Weak<dyn Sink>, again: bool) -> (End, bool) {
    let Ok(Connection { client, mut heard, .. }) = dial(&database.config).await else { return (End::Broken, false) };
    if statements::listen(&client, inbox).await.is_err() {
        return (End::Broken, false);
    }
    // By another connection, as others tell.
    match timeout(PATIENCE, database.tell(inbox, SOUND)).await {
        Ok(Ok(())) => {}
        _ => return (End::Broken, false),
    }
    // What others tell meanwhile is told once the inbox is live.
    let mut early = Vec::new();
    loop {
        match timeout(PATIENCE, heard.recv()).await {
            Ok(Some(notification)) if notification.payload() == SOUND => break,
            Ok(Some(notification)) => early.push(notification),
            Ok(None) => return (End::Broken, false),
            Err(_) => return (End::Deaf, false),
        }
    }
    tell(sink, |sink| sink.inbox(Inbox::Live));
    match again {
        // It may be another server, or have lost its last commits.
        true => tell(sink, |sink| sink.restarted()),
        // To dial takes as long as somebody needs to break a lock.
        false => tell(sink, |sink| sink.unheard()),
    }
    early.iter().for_each(|notification| hand_over(sink, notification));
    let mut is_asked = false;
    while sink.strong_count() > 0 {
        match timeout(HEARTBEAT, heard.recv()).await {
            Ok(Some(notification)) => {
                is_asked = false;
                hand_over(sink, &notification);
            }
            Ok(None) => return (End::Broken, true),
            Err(_) if is_asked => return (End::Broken, true),
            Err(_) => {
                is_asked = true;
                if statements::tell(&client, inbox, SOUND).await.is_err() {
                    return (End::Broken, true);
                }
            }
        }
    }
    (End::Broken, true)
}

fn hand_over(sink: &Weak<dyn Sink>, notification: &Notification) {
    if let Some((key, event)) = push::decode(notification.payload()) {
        tell(sink, |sink| sink.pushed(key, &event));
    }
}
