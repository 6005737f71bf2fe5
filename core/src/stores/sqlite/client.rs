//! The store as the driver sees it.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::{Arc, Mutex, Weak};

use lockwright_machines::cell_layout;
use lockwright_machines::quorum::Marker;
use tokio::sync::oneshot;

use super::config::Config;
use super::examination;
use super::file::LockFile;
use super::inbox;
use super::layouts::{marker_row, record_rows};
use crate::error::{Error, Kind};
use crate::finding::Finding;
use crate::platform::mutex::locked;
use crate::platform::{clock, runtime};
use crate::protocol::{Inquiry, Layout, Requests};
use crate::session::Inbox;
use crate::stores::adapter::{Answered, BoxFuture, Closing, Ends, Outcome, Sink, Store, Subscription, Topic, not_sent};
use crate::time::Time;

/// The locks in one file.
#[derive(Debug)]
pub(crate) struct SqliteStore {
    pub(super) file: Arc<LockFile>,
    native: Arc<dyn Layout>,
    closing: Closing,
    line: Arc<Mutex<JobQueue>>,
}

impl SqliteStore {
    /// Does nothing yet: the first request opens the file.
    pub(crate) fn new(config: Config) -> Self {
        let native = Arc::new(record_rows::layout(&config.prefix));
        SqliteStore { file: Arc::new(LockFile::new(config)), native, closing: Closing::default(), line: Arc::default() }
    }

    /// The file blocks whoever uses it, so it is used from a thread that may be blocked.
    async fn elsewhere(&self, work: impl FnOnce(&LockFile) -> Answered + Send + 'static) -> Answered {
        let file = self.file.clone();
        let runtime = match runtime::handle() {
            Ok(runtime) => runtime,
            Err(error) => return not_sent(error),
        };
        match runtime.spawn_blocking(move || work(&file)).await {
            Ok(answered) => answered,
            Err(error) => lost(error),
        }
    }

    /// The same for what changes something, in the order in which it was asked for: a queue's places are given in it.
    /// What is not begun at `limit` is not begun any more.
    async fn in_turn(&self, requests: Requests, limit: Time) -> Answered {
        let runtime = match runtime::handle() {
            Ok(runtime) => runtime,
            Err(error) => return not_sent(error),
        };
        let (tell, told) = oneshot::channel();
        let number = {
            let mut line = locked(&self.line);
            line.last += 1;
            let number = line.last;
            line.jobs.push_back(Job { number, requests: requests.clone(), limit, tell });
            if !std::mem::replace(&mut line.is_attended, true) {
                let (file, line) = (self.file.clone(), self.line.clone());
                runtime.spawn_blocking(move || attend(&file, &line));
            }
            number
        };
        let mut told = pin!(told);
        let in_time = tokio::time::timeout(limit.since(clock::now()), told.as_mut()).await;
        let answered = match in_time {
            Ok(answered) => answered,
            Err(_) if locked(&self.line).withdraw(number) => return self.file.was_busy(&requests),
            Err(_) => told.await,
        };
        answered.unwrap_or_else(lost)
    }
}

#[cfg(test)]
impl SqliteStore {
    /// Whether nothing that tasks asked for waits to be begun.
    pub(super) fn is_seen_to(&self) -> bool {
        locked(&self.line).jobs.is_empty()
    }
}

fn lost(error: impl std::error::Error + Send + Sync + 'static) -> Answered {
    let message = "the thread that used the lock file ended before its time";
    let error = Error::new(Kind::Internal, "connect", message).caused_by(error);
    Answered { sent: clock::now(), outcome: Outcome::Unknown { error, void_after: clock::now() } }
}

/// What tasks asked for and is not begun yet.
#[derive(Debug, Default)]
struct JobQueue {
    jobs: VecDeque<Job>,
    last: u64,
    /// A thread sees to it.
    is_attended: bool,
}

#[derive(Debug)]
struct Job {
    number: u64,
    requests: Requests,
    limit: Time,
    tell: oneshot::Sender<Answered>,
}

impl JobQueue {
    fn withdraw(&mut self, number: u64) -> bool {
        let place = self.jobs.iter().position(|job| job.number == number);
        place.and_then(|place| self.jobs.remove(place)).is_some()
    }

    fn next(&mut self) -> Option<Job> {
        // Nobody waits any more for what was given up.
        let next = std::iter::from_fn(|| self.jobs.pop_front()).find(|job| !job.tell.is_closed());
        self.is_attended = next.is_some();
        next
    }
}

fn attend(file: &LockFile, line: &Mutex<JobQueue>) {
    loop {
        let Some(job) = locked(line).next() else { return };
        // Whoever comes behind shall be seen to even after a bug; whose turn it was is told by the end of the channel.
        if let Ok(answered) = catch_unwind(AssertUnwindSafe(|| file.perform(&job.requests, job.limit))) {
            // Whoever is gone leaves an attempt that is undone.
            let _ = job.tell.send(answered);
        }
    }
}

/// Ends the listening at an inbox.
#[derive(Default)]
struct Wanted(Closing);

impl Ends for Wanted {
    fn ended(&self) {
        self.0.close();
    }
}

impl Store for SqliteStore {
    fn address(&self) -> &Arc<str> {
        self.file.address()
    }

    fn layouts(&self) -> &[Arc<dyn Layout>] {
        std::slice::from_ref(&self.native)
    }

    fn marker(&self) -> Option<Marker> {
        Some(marker_row::marker(&self.file.config().prefix))
    }

    fn call(&self, requests: &Requests, limit: Time) -> Answered {
        self.file.perform(requests, limit)
    }

    fn call_async<'a>(&'a self, requests: &'a Requests, limit: Time) -> BoxFuture<'a, Answered> {
        let requests = requests.clone();
        if requests.iter().all(cell_layout::only_looks) {
            return Box::pin(self.elsewhere(move |file| file.perform(&requests, limit)));
        }
        Box::pin(self.in_turn(requests, limit))
    }

    fn call_batch(self: Arc<Self>, requests: Requests, limit: Time) -> BoxFuture<'static, Answered> {
        let limit = clock::now().after(self.file.response_timeout()).min(limit);
        Box::pin(async move { self.elsewhere(move |file| file.perform_many(&requests, limit)).await })
    }

    /// A transaction begins before its limit or not at all, and whoever undoes what it does comes after it.
    fn void_after(&self, given_up: Time, limit: Time) -> Time {
        limit.max(given_up)
    }

    fn subscribe(self: Arc<Self>, topic: Topic<'_>, sink: Weak<dyn Sink>) -> Subscription {
        let Topic::Inbox(inbox) = topic else { return Subscription::of(Inbox::Unavailable) };
        let wanted = Arc::new(Wanted::default());
        let ends = wanted.clone();
        let listen = move || -> BoxFuture<'static, ()> {
            let (store, sink, wanted) = (self.clone(), sink.clone(), wanted.clone());
            Box::pin(async move {
                let listens = wanted.0.cuts_short(inbox::listen(store.file.clone(), inbox, sink));
                store.closing.cuts_short(listens).await;
                store.file.inboxes().remove(inbox);
            })
        };
        Subscription::of(Inbox::Closed).until(ends).in_background(Box::new(listen))
    }

    fn examine(&self) -> Inquiry<'_, Vec<Finding>> {
        Inquiry::Done(Ok(examination::examine(self.file.config())))
    }

    fn close(&self) {
        self.closing.close();
        self.file.close();
    }
}
