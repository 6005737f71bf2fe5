//! A cluster of etcd, by the JSON gateway of its members: each request is one of HTTP with an answer of its own, and
//! what is deleted is heard on an answer that goes on. The engine is told answers, and says what to post.
//!
//! ```text
//! a write     waits for a token and a lease, where it needs them; then one post for each of its requests, and several for
//!             one about a latch
//! a renewal   a sign of life of the lease first, by which all holds last; then whether the key is there
//! a watch     one for each lock that somebody waits for, until nobody has wanted it for a while; and one for the lease's
//!             fence, from its first sign of life on
//! ```

mod config;
mod failures;
mod latches;
mod lease;
mod posts;
mod watches;
mod writes;

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use lockwright_machines::protocol::{AttemptId, Inquiry, Layout, Requests};
use lockwright_machines::stores::etcd::failure::Failure;
use lockwright_machines::stores::etcd::gateway;
use lockwright_machines::stores::etcd::layouts::concurrency_layout::ConcurrencyLayout;
use lockwright_machines::time::Time;

pub use self::config::Config;
use self::failures::{lost, too_late};
use self::lease::Leases;
pub use self::posts::{Action, Post};
use self::posts::{For, Open, Posts};
use self::watches::Watch;
use self::writes::Write;
use crate::engine::Engine;
use crate::settings::Settings;
use crate::store::{Job, News, Store};

/// See the [module](self).
#[derive(Debug)]
pub struct Etcd {
    config: Config,
    /// Which member is asked, and when it said something last.
    member: usize,
    heard: Time,
    posts: Posts,
    token: Option<Token>,
    leases: Leases,
    /// What is to go on as soon as it can.
    waiting: VecDeque<Write>,
    /// What waits for the answer to a post, by number.
    writes: HashMap<u64, Write>,
    last_write: u64,
    /// What others were faster than, and until when it rests.
    resting: Vec<(Time, Write)>,
    /// As whose it is remembered what this client counted down.
    counts_as: Option<AttemptId>,
    watches: HashMap<Arc<str>, Watch>,
    /// The locks of which something may have been missed, and when that is told.
    missed: VecDeque<(Time, Arc<str>)>,
    news: VecDeque<News>,
    actions: VecDeque<Action>,
}

/// What says who asks.
#[derive(Debug)]
struct Token {
    text: Arc<str>,
    /// It was good for something: one that is refused later has ended.
    is_proven: bool,
}

impl Etcd {
    /// That cluster. Nothing is posted before something is asked.
    pub fn new(config: Config) -> Self {
        Etcd {
            config,
            member: 0,
            heard: Time::ZERO,
            posts: Posts::default(),
            token: None,
            leases: Leases::default(),
            waiting: VecDeque::new(),
            writes: HashMap::new(),
            last_write: 0,
            resting: Vec::new(),
            counts_as: None,
            watches: HashMap::new(),
            missed: VecDeque::new(),
            news: VecDeque::new(),
            actions: VecDeque::new(),
        }
    }

    /// What is known of the cluster.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// For how long a host may try to connect to a member.
    pub fn connect_timeout(&self) -> Duration {
        self.config.settings.options.connect_timeout
    }

    /// For how long an answer is waited for, whether or not a connection is made for it.
    fn patience(&self) -> Duration {
        let options = &self.config.settings.options;
        options.connect_timeout.saturating_add(options.response_timeout)
    }

    fn post(&mut self, now: Time, what: For, path: &'static str, body: String) {
        let token = self.token.as_ref().map(|token| token.text.clone());
        let by = Some(now.after(self.patience()));
        let open = Open { what, member: self.member, token: token.clone(), sent: now, by, status: 0, body: Vec::new() };
        let number = self.posts.begin(open);
        let members = &self.config.members;
        let member = members[self.member % members.len()].clone();
        self.actions.push_back(Action::Post(Post { number, member, path, token, body }));
    }

    /// Whether a token is needed, and asked for.
    fn asks_for_token(&mut self, now: Time) -> bool {
        let login = &self.config.settings.login.0;
        if login.user.is_empty() || self.token.is_some() {
            return false;
        }
        if !self.posts.any(|what| matches!(what, For::Login)) {
            let body = gateway::authenticate(&login.user, &login.password);
            self.post(now, For::Login, gateway::AUTHENTICATE, body);
        }
        true
    }

    fn came(&mut self, number: u64, now: Time, status: u16, bytes: &[u8]) {
        let Some(open) = self.posts.get_mut(number) else { return };
        if open.member == self.member {
            self.heard = now;
        }
        open.status = status;
        open.body.extend_from_slice(bytes);
        if open.what.is_stream() && status == 200 {
            self.heard(now, number);
        }
    }

    fn ended(&mut self, number: u64, now: Time, ended: io::Result<()>) {
        let Some(open) = self.posts.end(number) else { return };
        match ended {
            Ok(()) => self.answered(now, open),
            Err(error) => {
                let failure = lost(error, self.config.is_secure);
                self.failed(now, open, failure);
            }
        }
    }

    fn answered(&mut self, now: Time, open: Open) {
        let body = &open.body[..];
        let is_ok = match &open.what {
            For::Login => gateway::token(body).map(|text| self.logged_in(&text)),
            For::Grant => gateway::granted(body).map(|granted| self.granted(now, granted, open.sent)),
            For::Fence(lease, sent) => gateway::response(body).map(|response| self.fenced(lease, &response, *sent)),
            For::Beat(lease) => gateway::alive(body).map(|seconds| self.beaten(now, lease, seconds, open.sent)),
            For::Write(number, terms) => self.answers(now, *number, terms, body),
            For::Revoke => Some(()),
            // A stream that stands does not end by itself.
            For::Watch(_) | For::Breaks => None,
        };
        match is_ok {
            Some(()) => self.prove(&open),
            None => {
                let failure = gateway::failure(open.status, &open.body);
                self.failed(now, open, failure);
            }
        }
    }

    fn logged_in(&mut self, text: &str) {
        self.token = Some(Token { text: text.into(), is_proven: false });
    }

    /// The token that this was asked with is good.
    fn prove(&mut self, open: &Open) {
        if let Some(token) = &mut self.token {
            token.is_proven |= open.token.as_ref() == Some(&token.text);
        }
    }

    /// Whether what failed so is to be asked again, with another token: its own has ended.
    fn needs_another_token(&mut self, open: &Open, failure: &Failure) -> bool {
        let Some(used) = open.token.as_ref().filter(|_| failure.is_of_the_token()) else { return false };
        match &self.token {
            Some(token) if token.text == *used => self.token.take_if(|token| token.is_proven).is_some(),
            _ => true,
        }
    }

    /// No answer came in time. A member that says something else meanwhile is there.
    fn late(&mut self, now: Time, open: Open) {
        if open.member == self.member && self.heard < open.sent {
            self.member += 1;
        }
        self.failed(now, open, too_late());
    }

    fn failed(&mut self, now: Time, open: Open, failure: Failure) {
        if failure.is_of_the_line() && open.member == self.member {
            self.member += 1;
        }
        let again = self.needs_another_token(&open, &failure);
        match open.what {
            For::Login | For::Grant | For::Fence(..) if again => {}
            // Nothing that concerns a lock was sent.
            For::Login | For::Grant | For::Fence(..) => self.none_goes_on(now, &failure.harmless()),
            For::Beat(_) => self.leases.missed_beat(now),
            For::Write(number, terms) => self.write_failed(now, number, &terms, failure, again),
            For::Watch(lock) => self.watch_ended(now, &lock, failure, again),
            // The next sign of life asks for it again.
            For::Breaks | For::Revoke => {}
        }
        self.renewals_go_on();
    }

    /// What waits cannot go on, for this reason.
    fn none_goes_on(&mut self, now: Time, failure: &Failure) {
        for write in std::mem::take(&mut self.waiting) {
            self.conclude(now, write, failure.clone());
        }
    }
}

impl Store for Etcd {
    type Action = Action;

    fn settings(&self) -> &Settings {
        &self.config.settings
    }

    fn layouts(&self) -> Vec<Arc<dyn Layout>> {
        let Config { settings, ttl, .. } = &self.config;
        let layout = ConcurrencyLayout::new(&*settings.options.prefix, *ttl, Arc::new(()));
        vec![Arc::new(layout)]
    }

    /// Nothing is ever evicted.
    fn eviction(_: &Arc<str>) -> Inquiry<'_, Option<String>> {
        Inquiry::Done(Ok(None))
    }

    fn ask(&mut self, job: Job, requests: Requests) {
        self.waiting.push_back(Write::new(job, requests));
    }

    fn look(&mut self, now: Time, actions: &mut VecDeque<Action>) {
        while let Some((number, open)) = self.posts.take_late(now) {
            actions.push_back(Action::Drop(number));
            self.late(now, open);
        }
        self.beat_if_due(now);
        self.rested(now);
        self.tell_of_missed(now);
        self.forget_unwanted(now);
    }

    fn next_news(&mut self, _: Time) -> Option<News> {
        self.news.pop_front()
    }

    fn go(&mut self, now: Time, actions: &mut VecDeque<Action>) {
        if !self.waiting.is_empty() && !self.asks_for_token(now) {
            for write in std::mem::take(&mut self.waiting) {
                self.go_on(now, write);
            }
        }
        actions.append(&mut self.actions);
    }

    fn due(&self) -> Option<Time> {
        let missed = self.missed.front().map(|(at, _)| *at);
        let rested = self.resting.iter().map(|(until, _)| *until).min();
        [self.posts.due(), self.leases.due(), missed, rested].into_iter().flatten().min()
    }

    fn is_quiet(&self) -> bool {
        self.waiting.is_empty()
            && self.resting.is_empty()
            && self.writes.is_empty()
            && self.leases.renewals.is_empty()
            && self.watches.values().all(|watch| watch.waiters.is_empty())
            && !self.posts.any(|what| !what.is_aside())
    }

    fn part(&mut self, now: Time, actions: &mut VecDeque<Action>) {
        self.posts.drop_all(actions, For::is_aside);
        self.watches.clear();
        if let Some(lease) = self.leases.take() {
            // If it cannot be given back it ends with its time.
            self.post(now, For::Revoke, gateway::REVOKE, gateway::of_lease(lease.id));
        }
        actions.append(&mut self.actions);
    }

    fn hang_up(&mut self, actions: &mut VecDeque<Action>) {
        self.posts.drop_all(actions, |_| true);
    }
}

impl Engine<Etcd> {
    /// This came of the answer to a post, which has that status.
    pub fn came(&mut self, number: u64, now: Time, status: u16, bytes: &[u8]) {
        self.told(now, |etcd, _| etcd.came(number, now, status, bytes));
    }

    /// The answer to a post is over, or will not be.
    pub fn ended(&mut self, number: u64, now: Time, ended: io::Result<()>) {
        self.told(now, |etcd, _| etcd.ended(number, now, ended));
    }
}
