//! What was asked and is not answered yet: the requests of a write are posted one after the other.

use std::sync::Arc;

use lockwright_machines::protocol::{Reply, Request, Requests};
use lockwright_machines::stores::etcd::failure::Failure;
use lockwright_machines::stores::etcd::gateway;
use lockwright_machines::stores::etcd::latch::Came;
use lockwright_machines::stores::etcd::lease::Lease;
use lockwright_machines::stores::etcd::transactions::{self, Under};
use lockwright_machines::time::Time;

use super::Etcd;
use super::latches::Latch;
use super::posts::{For, Terms};
use crate::store::{Answered, Done, Job, News};

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Write {
    job: Job,
    requests: Requests,
    replies: Vec<Reply>,
    /// When the first of them went on its way.
    sent: Option<Time>,
    /// The client's lease was renewed for what is asked now.
    is_renewed: bool,
    /// For how many seconds the lease that is asked about lasts yet.
    lives: Option<i64>,
    /// How far what is asked now is, where it is about a latch.
    latch: Option<Latch>,
}

impl Write {
    pub(super) fn new(job: Job, requests: Requests) -> Self {
        Write { job, requests, replies: Vec::new(), sent: None, is_renewed: false, lives: None, latch: None }
    }

    /// What is to be asked now.
    fn request(&self) -> Option<&Request> {
        self.requests.get(self.replies.len())
    }

    /// The lock that it is about.
    pub(super) fn key(&self) -> Option<Arc<str>> {
        self.request().map(|request| request.key.clone())
    }

    pub(super) fn reply(&mut self, reply: Reply) {
        self.replies.push(reply);
        (self.is_renewed, self.lives, self.latch) = (false, None, None);
    }

    /// What is done of it step by step, until there is an answer or it can be asked itself.
    pub(super) fn stepping(&self) -> Option<&Latch> {
        self.latch.as_ref().filter(|latch| !latch.is_kept())
    }

    pub(super) fn stepped(&mut self, came: Came) {
        if let Some(latch) = &mut self.latch {
            latch.go_on(came);
        }
    }
}

impl Etcd {
    /// Posts the next of its requests, or has it wait for what that needs.
    pub(super) fn go_on(&mut self, now: Time, mut write: Write) {
        write.sent.get_or_insert(now);
        let Some(request) = write.request() else { return self.done(now, write) };
        if write.latch.is_none() {
            write.latch = self.latch_of(request);
        }
        if write.stepping().is_some() {
            return self.step(now, write);
        }
        let Some(request) = write.request() else { return };
        match request.call.name {
            "watch" => self.watch(now, write),
            "lives" if write.lives.is_none() => match transactions::int(request, 0) {
                Ok(id) => self.post_for(now, write, Terms::default(), gateway::TIME_TO_LIVE, gateway::of_lease(id)),
                Err(error) => self.conclude(now, write, Failure::NotSent(error)),
            },
            _ => self.transact(now, write),
        }
    }

    fn transact(&mut self, now: Time, mut write: Write) {
        let Some(request) = write.request() else { return };
        let (name, under) = (request.call.name, Under::of(request));
        let lease = if under == Under::Nothing { None } else { self.leases.current() };
        if under == Under::Lease && lease.is_none() {
            self.waiting.push_back(write);
            return self.ask_for_lease(now);
        }
        if name == "exists" && !write.is_renewed {
            write.is_renewed = true;
            return self.renew(now, write);
        }
        let prefix = &*self.config.settings.options.prefix;
        let asked = match (name, transactions::int(request, 0)) {
            ("lives", Ok(id)) => Ok(transactions::card_of(prefix, id)),
            _ => transactions::ask(request, lease.as_deref(), prefix),
        };
        match asked {
            Ok(asked) => {
                let terms = Terms { fence: lease.as_deref().map_or(0, Lease::fence), lease };
                self.post_for(now, write, terms, gateway::TRANSACTION, gateway::transaction(&asked));
            }
            Err(error) => self.conclude(now, write, Failure::NotSent(error)),
        }
    }

    pub(super) fn post_for(&mut self, now: Time, write: Write, terms: Terms, path: &'static str, body: String) {
        self.last_write += 1;
        self.writes.insert(self.last_write, write);
        self.post(now, For::Write(self.last_write, terms), path, body);
    }

    /// The answer to what a write asked; none where that is no answer.
    pub(super) fn answers(&mut self, now: Time, number: u64, terms: &Terms, body: &[u8]) -> Option<()> {
        let write = self.writes.get(&number)?;
        if let Some(latch) = write.stepping() {
            let came = latch.came(body)?;
            let mut write = self.writes.remove(&number)?;
            write.stepped(came);
            self.go_on(now, write);
            return Some(());
        }
        let request = write.request()?;
        let (name, lives) = (request.call.name, write.lives);
        match (name, lives) {
            ("lives", None) => {
                let seconds = gateway::lives(body)?;
                let mut write = self.writes.remove(&number)?;
                match seconds {
                    ..0 => write.reply(Reply::Nil),
                    _ => write.lives = Some(seconds),
                }
                self.go_on(now, write);
            }
            ("lives", Some(seconds)) => {
                let card = gateway::response(body)?;
                self.replied(now, number, transactions::lives(seconds, &card));
            }
            _ => {
                let Terms { lease, fence } = terms;
                let reply = transactions::answer(request, &gateway::response(body)?, lease.as_deref(), *fence);
                self.replied(now, number, reply);
            }
        }
        Some(())
    }

    fn replied(&mut self, now: Time, number: u64, reply: Reply) {
        let Some(mut write) = self.writes.remove(&number) else { return };
        write.reply(reply);
        self.go_on(now, write);
    }

    /// What a write asked has no answer, or is refused; it is asked `again` where that was for its token alone.
    pub(super) fn write_failed(&mut self, now: Time, number: u64, terms: &Terms, failure: Failure, again: bool) {
        let Some(mut write) = self.writes.remove(&number) else { return };
        if again {
            return self.waiting.push_back(write);
        }
        if write.stepping().is_some_and(Latch::gives_back) {
            write.stepped(Came::Nothing);
            return self.go_on(now, write);
        }
        if let Some(lease) = terms.lease.as_deref().filter(|_| failure.is_of_the_lease()) {
            self.over(lease);
        }
        self.conclude(now, write, failure);
    }

    /// A write fails so, unless that is an answer.
    pub(super) fn conclude(&mut self, now: Time, mut write: Write, failure: Failure) {
        let Some(request) = write.request() else { return self.done(now, write) };
        let answered = match failure.concludes(request, write.replies.len()) {
            Ok(reply) => {
                write.reply(reply);
                return self.go_on(now, write);
            }
            Err((error, true)) => Answered::NotSent(error.on_store(self.config.settings.address.clone())),
            // The undo moves the fence, however late this is executed.
            Err((error, false)) => {
                let error = error.on_store(self.config.settings.address.clone());
                Answered::Unknown { error, void_after: now }
            }
        };
        self.news.push_back(News::Done(Done { job: write.job, sent: write.sent.unwrap_or(now), answered }));
    }

    fn done(&mut self, now: Time, write: Write) {
        let Write { job, replies, sent, .. } = write;
        self.news.push_back(News::Done(Done { job, sent: sent.unwrap_or(now), answered: Answered::Replies(replies) }));
    }
}
