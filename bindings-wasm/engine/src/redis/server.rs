//! Which server it is, and what differs for that.

use std::sync::Arc;

use lockwright_machines::guarantee::{ExclusiveUntil, Guarantees, TokenRises};
use lockwright_machines::protocol::{Call, Layout, StoreEvent};
use lockwright_machines::stores::redis::layouts::{self, native_scripts, tokenless};
use lockwright_machines::{cell_layout, native_machine, push};
use lockwright_resp::wire;

/// How many a script of a Redis server finds to listen on a channel.
static FOUND: Call =
    Call { name: "listeners", body: &["return redis.call('PUBSUB', 'NUMSUB', ARGV[1])[2]"], batch: false };

/// The same of a lock server, which has a word for it.
static LISTENERS: Call = Call { name: "listeners", body: &[], batch: false };

/// See the [module](self).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Server {
    /// A Redis server.
    Redis,
    /// A lock server of ours, such as a Durable Object.
    Ours,
}

impl Server {
    /// What errors call it.
    pub(super) fn called(self) -> &'static str {
        match self {
            Server::Redis => wire::REDIS,
            Server::Ours => "a lock server",
        }
    }

    /// The layouts of locks there, for names that get `prefix` put before them.
    pub(super) fn layouts(self, prefix: &str, has_tokens: bool) -> Vec<Arc<dyn Layout>> {
        match self {
            Server::Redis if !has_tokens => tokenless::layouts(prefix, false),
            Server::Redis => layouts::all(prefix),
            Server::Ours => vec![Arc::new(cell_layout::layout(prefix, guarantees))],
        }
    }

    /// What tells how many listen on the channel that is its argument.
    pub(super) fn listeners(self) -> &'static Call {
        match self {
            Server::Redis => &FOUND,
            Server::Ours => &LISTENERS,
        }
    }

    /// What was pushed to an inbox, and for which key; none of what is nothing of the kind.
    pub(super) fn read_push(self, text: &str) -> Option<(Arc<str>, StoreEvent)> {
        match self {
            Server::Redis => native_scripts::parse_push(text),
            Server::Ours => push::decode(text).map(|(key, event)| (key.into(), event)),
        }
    }
}

fn guarantees() -> Guarantees {
    let notes = &[
        "Each record is on the object's disk before an answer leaves it; one that is evicted or moved goes on with what it had.",
        "Tokens are the clock of the machine that the object runs on.",
    ];
    native_machine::guarantees("lock server", ExclusiveUntil::Deadline, TokenRises::WithStoreClock, notes)
}
