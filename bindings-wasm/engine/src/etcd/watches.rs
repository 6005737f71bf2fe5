//! What is watched: the deletions below each lock that somebody waits for, from when that is asked for first, and for a
//! while after it was asked for last; and the fence of a lease that is kept alive, by which a client hears that a hold
//! of its is broken.

use std::sync::Arc;
use std::time::Duration;

use lockwright_machines::protocol::{Reply, StoreEvent};
use lockwright_machines::stores::etcd::failure::Failure;
use lockwright_machines::stores::etcd::gateway::{self, Changes, Heard};
use lockwright_machines::stores::etcd::lease::Lease;
use lockwright_machines::stores::etcd::transactions::{self, below, unavailable};
use lockwright_machines::stores::etcd::wire::{KeyValue, Keys};
use lockwright_machines::time::Time;

use super::Etcd;
use super::posts::{Action, For};
use super::writes::Write;
use crate::store::News;

/// Whoever waits looks, and asks for its watch, every 30 s at the least.
const WANTED: Duration = Duration::from_secs(65);

/// How long after a watch that stood has ended whoever waits asks for another one.
const PAUSE: Duration = Duration::from_millis(50);

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Watch {
    /// What is deleted after this revision is told, since then.
    stands: Option<(i64, Time)>,
    wanted: Time,
    /// Who goes on once it stands.
    pub(super) waiters: Vec<Write>,
}

impl Etcd {
    /// Has deletions told to whoever waits for a lock.
    pub(super) fn watch(&mut self, now: Time, mut write: Write) {
        let Some(lock) = write.key() else { return };
        let is_new = !self.watches.contains_key(&lock);
        let watch = self.watches.entry(lock.clone()).or_default();
        watch.wanted = now;
        if let Some((revision, since)) = watch.stands {
            let age = i64::try_from(now.since(since).as_millis()).unwrap_or(i64::MAX);
            write.reply(stands(revision, age));
            return self.go_on(now, write);
        }
        watch.waiters.push(write);
        if is_new {
            let body = gateway::watch(&Keys::beginning(&below(&lock)), Changes::Deletions);
            self.post(now, For::Watch(lock), gateway::WATCH, body);
        }
    }

    /// Has breaks of what is held under `lease` told. One that comes before that is heard by what looks at the lock.
    pub(super) fn watch_fence(&mut self, now: Time, lease: &Lease) {
        if !self.posts.any(|what| matches!(what, For::Breaks)) {
            let body = gateway::watch(&Keys::one(&lease.fence_key), Changes::Writes);
            self.post(now, For::Breaks, gateway::WATCH, body);
        }
    }

    /// The fence of a lease that is over tells nothing.
    pub(super) fn forget_fence(&mut self) {
        self.posts.drop_all(&mut self.actions, |what| matches!(what, For::Breaks));
    }

    /// More came of a watch, a line for each message.
    pub(super) fn heard(&mut self, now: Time, number: u64) {
        while let Some(open) = self.posts.get_mut(number) {
            let Some(end) = open.body.iter().position(|byte| *byte == b'\n') else { return };
            let line: Vec<u8> = open.body.drain(..=end).collect();
            let failure = match gateway::heard(&line) {
                Some(Heard::Stands(revision)) => {
                    open.by = None;
                    if let For::Watch(lock) = &open.what {
                        let lock = lock.clone();
                        self.stands(now, &lock, revision);
                    }
                    continue;
                }
                Some(Heard::Changed(changed)) => {
                    self.news.extend(changed.iter().filter_map(|kv| news(&open.what, kv)));
                    continue;
                }
                Some(Heard::Ended(why)) => Failure::Refused(refusal(&why)),
                None => gateway::failure(200, &line),
            };
            let Some(open) = self.posts.end(number) else { return };
            self.actions.push_back(Action::Drop(number));
            self.failed(now, open, failure);
        }
    }

    fn stands(&mut self, now: Time, lock: &Arc<str>, revision: i64) {
        let Some(watch) = self.watches.get_mut(lock) else { return };
        watch.stands = Some((revision, now));
        for mut write in std::mem::take(&mut watch.waiters) {
            write.reply(stands(revision, 0));
            self.go_on(now, write);
        }
    }

    /// Nothing is told any more, and something may have been missed. Whoever waits for it asks `again` where that was
    /// for its token alone.
    pub(super) fn watch_ended(&mut self, now: Time, lock: &Arc<str>, failure: Failure, again: bool) {
        let Some(watch) = self.watches.remove(lock) else { return };
        if watch.stands.is_some() {
            self.missed.push_back((now.after(PAUSE), lock.clone()));
        }
        for write in watch.waiters {
            match again {
                true => self.waiting.push_back(write),
                false => self.conclude(now, write, failure.clone()),
            }
        }
    }

    pub(super) fn tell_of_missed(&mut self, now: Time) {
        let is_due = |(at, _): &&(Time, Arc<str>)| *at <= now;
        let due = self.missed.iter().take_while(is_due).count();
        let told = self.missed.drain(..due);
        self.news.extend(told.map(|(_, lock)| News::Pushed(lock.clone(), StoreEvent::Changed { path: lock })));
    }

    /// Ends what nobody wanted for long.
    pub(super) fn forget_unwanted(&mut self, now: Time) {
        let unwanted =
            self.watches.extract_if(|_, watch| watch.wanted.after(WANTED) <= now && watch.waiters.is_empty());
        let locks: Vec<_> = unwanted.map(|(lock, _)| lock).collect();
        self.posts.drop_all(&mut self.actions, |what| matches!(what, For::Watch(lock) if locks.contains(lock)));
    }
}

/// What is told by a change of what is watched.
fn news(watched: &For, changed: &KeyValue) -> Option<News> {
    match watched {
        For::Watch(lock) => Some(News::Pushed(lock.clone(), transactions::gone(changed))),
        _ => transactions::broken(&changed.value).map(|(lock, event)| News::Pushed(lock, event)),
    }
}

fn stands(revision: i64, age: i64) -> Reply {
    Reply::List([revision, age].map(Reply::Int).into())
}

/// Why there is no such watch.
fn refusal(why: &str) -> Reply {
    match why {
        why if why.contains("permission denied") => {
            Reply::Error { code: "PermissionDenied".into(), message: why.into() }
        }
        why => unavailable(why),
    }
}
