//! The inbox of a client: a table that it looks into while somebody waits, the less often the longer it found nothing.

use std::sync::{Arc, Weak};
use std::time::Duration;

use lockwright_machines::push;
use tokio::time::sleep;

use super::client::Database;
use crate::platform::{clock, random};
use crate::protocol::InboxId;
use crate::session::Inbox;
use crate::stores::{Sink, tell};

/// How long until it is looked again.
const PAUSES: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(50));
/// The same where the database does not answer.
const BROKEN: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// Looks for what `inbox` was told and reports to `sink` until that is gone.
pub(super) async fn listen(database: Arc<Database>, inbox: InboxId, sink: Weak<dyn Sink>) {
    let (mut found, mut broken, mut heard) = (clock::now(), BROKEN.0, Vec::new());
    let (mut state, mut was_live) = (Inbox::Closed, false);
    while sink.strong_count() > 0 {
        let Ok(told) = database.hear(inbox, &heard, state != Inbox::Live).await else {
            state = if was_live { Inbox::Closed } else { Inbox::Unavailable };
            tell(&sink, |sink| sink.inbox(state));
            sleep(jittered(broken)).await;
            broken = (2 * broken).min(BROKEN.1);
            continue;
        };
        if state != Inbox::Live {
            (state, broken) = (Inbox::Live, BROKEN.0);
            tell(&sink, |sink| sink.inbox(state));
            if was_live {
                // It may be another server, or have lost its last commits.
                tell(&sink, |sink| sink.restarted());
            }
            was_live = true;
        }
        if !told.is_empty() {
            found = clock::now();
        }
        for (_, message) in &told {
            if let Some((key, event)) = push::decode(message) {
                tell(&sink, |sink| sink.pushed(key, &event));
            }
        }
        heard = told.into_iter().map(|(id, _)| id).collect();
        sleep(jittered(pause(clock::now().since(found)))).await;
    }
}

/// How long until it is looked again where nothing was found for so long. An eighth of that keeps pace with a lock that
/// goes round among several clients: were it half, each would look ever later since the others do.
fn pause(silent: Duration) -> Duration {
    (silent / 8).clamp(PAUSES.0, PAUSES.1)
}

/// Between half and all of `pause`, so that clients which began together do not go on together.
fn jittered(pause: Duration) -> Duration {
    let part = random::number().unwrap_or(0) % 512;
    pause / 2 + pause / 1024 * u32::try_from(part).unwrap_or(0)
}
