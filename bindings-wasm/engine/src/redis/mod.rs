//! A Redis server, or a lock server of ours, which is spoken to in the same way: over two connections, the one that is
//! asked and answers, and the one on which the server pushes. The engine is told bytes, and says what to dial, send and
//! end.

mod config;
mod inbox;
mod line;
mod requests;
mod server;

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use lockwright_machines::protocol::{self, Channel, InboxId, Inquiry, Layout, Reply, Request};
use lockwright_machines::session::Inbox as State;
use lockwright_machines::stores::redis::layouts::{native_scripts, survey};
use lockwright_machines::time::{StoreTime, Time};
use lockwright_resp::greeting::Welcome;

pub use self::config::Config;
use self::inbox::{Heard, Inbox, Subscribed};
pub use self::line::{Action, Which};
use self::requests::{Asker, Ended, Requests};
pub use self::server::Server;
use crate::engine::Engine;
use crate::settings::Settings;
use crate::store::{Answered, Done, Job, News, Store};

/// See the [module](self).
pub struct Redis {
    config: Config,
    requests: Requests,
    inbox: Inbox,
    /// An inbox was subscribed before.
    was_met: bool,
}

impl std::fmt::Debug for Redis {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Redis").field(&self.config.settings.address).finish()
    }
}

impl Redis {
    /// That server. Nothing is dialled before something is asked.
    pub fn new(config: Config) -> Self {
        Redis { config, requests: Requests::new(), inbox: Inbox::new(), was_met: false }
    }

    /// What is known of the server.
    pub fn config(&self) -> &Config {
        &self.config
    }

    fn ended(&mut self, Ended { asker, sent, answered }: Ended) -> Option<News> {
        match asker {
            Asker::Engine(job) => Some(News::Done(Done { job, sent, answered })),
            Asker::Finds(subscribed) => {
                let is_lost = matches!(&answered, Answered::Replies(replies) if replies[..] == [Reply::Int(0)]);
                self.inbox.is_found(subscribed, !is_lost);
                None
            }
        }
    }

    fn heard(&mut self, now: Time, heard: Heard) -> Option<News> {
        match heard {
            Heard::Met(welcome) => self.met(now, &welcome),
            Heard::Subscribed(subscribed) => {
                self.is_subscribed(subscribed);
                None
            }
            Heard::Inbox(state) => Some(News::Inbox(state)),
            Heard::Channel { key, channel, state } => Some(News::Channel { key, channel, state }),
            Heard::Pushed(key, event) => Some(News::Pushed(key, event)),
        }
    }

    fn met(&mut self, now: Time, welcome: &Welcome) -> Option<News> {
        let again = std::mem::replace(&mut self.was_met, true);
        self.requests.meet(welcome, now);
        // Where no run is told it may be another one.
        (again && welcome.run.is_none()).then_some(News::Verify)
    }

    fn is_subscribed(&mut self, subscribed: Subscribed) {
        // The key of a lock of this client: it may name it.
        match native_scripts::layout(&*self.config.settings.options.prefix).key("inbox") {
            Ok(key) => {
                let request = Request::new(self.config.server.listeners(), key, [subscribed.channel.clone().into()]);
                self.requests.ask(Asker::Finds(subscribed), std::iter::once(request).collect());
            }
            Err(_) => self.inbox.is_found(subscribed, true),
        }
    }
}

impl Store for Redis {
    type Action = Action;

    fn settings(&self) -> &Settings {
        &self.config.settings
    }

    fn layouts(&self) -> Vec<Arc<dyn Layout>> {
        self.config.server.layouts(&self.config.settings.options.prefix, self.config.has_tokens)
    }

    fn eviction(prefix: &Arc<str>) -> Inquiry<'_, Option<String>> {
        survey::eviction(prefix)
    }

    fn ask(&mut self, job: Job, requests: protocol::Requests) {
        self.requests.ask(Asker::Engine(job), requests);
    }

    fn learn(&mut self, now: Time, at: StoreTime) {
        self.requests.learn(now, at);
    }

    fn pushes(&self) -> bool {
        self.config.pushes
    }

    fn open_inbox(&mut self, id: InboxId) {
        self.inbox.open(&native_scripts::channel(id));
    }

    fn listen(&mut self, slot: u64, channel: Channel<'_>, key: &Arc<str>) -> State {
        self.inbox.hear(slot, channel, key)
    }

    fn leave(&mut self, slot: u64) {
        self.inbox.forget(slot);
    }

    fn look(&mut self, now: Time, actions: &mut VecDeque<Action>) {
        self.requests.look(&self.config, now, actions);
    }

    fn next_news(&mut self, now: Time) -> Option<News> {
        loop {
            let news = if let Some(ended) = self.requests.next_done() {
                self.ended(ended)
            } else if self.requests.take_restarted() {
                Some(News::Verify)
            } else {
                let heard = self.inbox.heard.pop_front()?;
                self.heard(now, heard)
            };
            if news.is_some() {
                return news;
            }
        }
    }

    fn go(&mut self, now: Time, actions: &mut VecDeque<Action>) {
        self.inbox.look(&self.config, now, actions);
        self.requests.go(&self.config, now, actions);
    }

    fn due(&self) -> Option<Time> {
        [self.requests.due(), self.inbox.due()].into_iter().flatten().min()
    }

    fn is_quiet(&self) -> bool {
        self.requests.is_quiet()
    }

    fn hang_up(&mut self, actions: &mut VecDeque<Action>) {
        let lines = [self.requests.hang_up(), self.inbox.hang_up()];
        actions.extend(lines.into_iter().flatten());
    }
}

impl Engine<Redis> {
    /// A line is connected.
    pub fn dialled(&mut self, which: Which, now: Time) {
        self.told(now, |redis, actions| match which {
            Which::Requests => redis.requests.dialled(&redis.config, actions),
            Which::Inbox => redis.inbox.dialled(&redis.config, actions),
        });
    }

    /// A line ended, or could not be made.
    pub fn ended(&mut self, which: Which, now: Time, error: io::Error) {
        self.told(now, |redis, actions| match which {
            Which::Requests => redis.requests.ended(&redis.config, now, error, actions),
            Which::Inbox => redis.inbox.ended(now, error),
        });
    }

    /// These bytes came on a line.
    pub fn came(&mut self, which: Which, now: Time, bytes: &[u8]) {
        self.told(now, |redis, actions| match which {
            Which::Requests => redis.requests.came(&redis.config, now, bytes, actions),
            Which::Inbox => redis.inbox.came(&redis.config, now, bytes, actions),
        });
    }
}
