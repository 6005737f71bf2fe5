//! What an engine needs of a kind of server: it asks, hears what is answered and pushed, and knows no more of it.

use std::collections::VecDeque;
use std::sync::Arc;

use lockwright_machines::error::Error;
use lockwright_machines::protocol::{Channel, InboxId, Inquiry, Layout, Reply, Requests, StoreEvent};
use lockwright_machines::session::{Inbox, RequestId};
use lockwright_machines::time::{StoreTime, Time};

use crate::engine::Ticket;
use crate::settings::Settings;

/// Whom an answer is for.
#[derive(Clone, Debug)]
pub enum Job {
    /// The contender in this slot of a lock.
    Contender {
        /// The lock.
        lock: u64,
        /// The slot.
        slot: u64,
        /// What it asked.
        id: RequestId,
    },
    /// Whoever asks beside the machines.
    Inquiry(Ticket),
}

/// How a write ended.
#[derive(Debug)]
pub(crate) enum Answered {
    /// These were the answers.
    Replies(Vec<Reply>),
    /// It was not executed and never will be.
    NotSent(Error),
    /// It may have been, and may be yet until then.
    Unknown {
        /// Why that is not known.
        error: Error,
        /// From when on it cannot be any more.
        void_after: Time,
    },
}

/// A write that ended: whose, when it left, and how.
#[derive(Debug)]
pub struct Done {
    pub(crate) job: Job,
    pub(crate) sent: Time,
    pub(crate) answered: Answered,
}

/// What came of a server.
#[derive(Debug)]
pub enum News {
    /// An answer, or that there is none.
    Done(Done),
    /// The server may have forgotten what it promised.
    Verify,
    /// The client's own inbox is so.
    Inbox(Inbox),
    /// A channel that tells of the lock under a key is so.
    Channel {
        /// The key.
        key: Arc<str>,
        /// The channel.
        channel: Arc<str>,
        /// How it is.
        state: Inbox,
    },
    /// Something was pushed for the lock under this key.
    Pushed(Arc<str>, StoreEvent),
    /// The client's session at the server lives until then.
    Alive(Time),
    /// That session is over.
    Over,
}

/// See the [module](self).
pub trait Store {
    /// What is to be done outside.
    type Action;

    /// What is known of the client.
    fn settings(&self) -> &Settings;

    /// The layouts of locks there, the first of which is that of who names none.
    fn layouts(&self) -> Vec<Arc<dyn Layout>>;

    /// What the server does when its memory is full, where locks can be evicted.
    fn eviction(prefix: &Arc<str>) -> Inquiry<'_, Option<String>>;

    /// Sends these as soon as that can be.
    fn ask(&mut self, job: Job, requests: Requests);

    /// The server's clock shows this.
    fn learn(&mut self, _now: Time, _at: StoreTime) {}

    /// Whether it can push to this client at all, as far as that is known before anything is asked.
    fn pushes(&self) -> bool {
        true
    }

    /// Hears what is pushed to the client's own inbox.
    fn open_inbox(&mut self, _id: InboxId) {}

    /// Hears a channel of the lock under `key`, for the contender in `slot`; how that stands.
    fn listen(&mut self, _slot: u64, _channel: Channel<'_>, _key: &Arc<str>) -> Inbox {
        Inbox::Unavailable
    }

    /// The contender in `slot` listens no more.
    fn leave(&mut self, _slot: u64) {}

    /// Time passed: does what is due.
    fn look(&mut self, now: Time, actions: &mut VecDeque<Self::Action>);

    /// The next that came.
    fn next_news(&mut self, now: Time) -> Option<News>;

    /// Begins what waits to be begun.
    fn go(&mut self, now: Time, actions: &mut VecDeque<Self::Action>);

    /// When to look at the latest.
    fn due(&self) -> Option<Time>;

    /// Whether nothing is asked and not answered.
    fn is_quiet(&self) -> bool;

    /// The client has nothing there any more: says goodbye, once, where the server keeps something for it.
    fn part(&mut self, _now: Time, _actions: &mut VecDeque<Self::Action>) {}

    /// Ends all that is open: what is left at the server ends with its lease.
    fn hang_up(&mut self, actions: &mut VecDeque<Self::Action>);
}
