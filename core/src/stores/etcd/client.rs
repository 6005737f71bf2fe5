//! One cluster: a connection to one member at a time, the client's lease, and its watches. All of it lives in the
//! background runtime, since the caller's own may end before the connection does.

use std::mem;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use etcd_client::{Client, LeaseTimeToLiveOptions};
use lockwright_machines::stores::etcd::latch::Steps;
use lockwright_machines::stores::etcd::lease::Lease;
use lockwright_machines::stores::etcd::wire::{Response, Transaction};
use tokio::sync::Semaphore;
use tokio::task::AbortHandle;
use tokio::time::timeout;

use super::config::Config;
use super::connection::{answered, dial};
use super::failure::{Failure, too_late};
use super::grpc;
use super::layouts::concurrency_layout::ConcurrencyLayout;
use super::layouts::examination;
use super::lease::{Leases, either};
use super::seats::ClientSeats;
use super::transactions::{self, Joined, Under};
use super::watches::{Target, Watches};
use crate::error::{Error, Kind};
use crate::finding::Finding;
use crate::platform::mutex::locked;
use crate::platform::{clock, random, runtime};
use crate::protocol::{AttemptId, Inquiry, Layout, Reply, Request, Requests};
use crate::session::Inbox;
use crate::stores::adapter::{Answered, BoxFuture, Closing, Outcome, Sink, Store, Subscription, Topic, not_sent};
use crate::time::Time;

/// How long giving the lease back may take when the client is closed.
const FAREWELL: Duration = Duration::from_secs(2);
/// How many contenders ask at the same time: more would wait at the server, where nobody can tell for how long.
const ASKING: usize = 128;
/// A member that was too slow so often in a row is left for the next one.
const PATIENCE: u8 = 3;

/// See the [module](self).
pub(crate) struct Etcd {
    pub(super) config: Config,
    layouts: [Arc<dyn Layout>; 1],
    /// What tells this client from all others.
    id: AttemptId,
    line: Mutex<Line>,
    dialling: tokio::sync::Mutex<()>,
    asking: Semaphore,
    pub(super) leases: Leases,
    pub(super) watches: Watches,
    closing: Closing,
    me: Weak<Etcd>,
}

/// The connection, if there is one, and to which of the members.
#[derive(Default)]
struct Line {
    /// Counts those that broke: the next one goes to the next member.
    number: usize,
    client: Option<Arc<Client>>,
    /// When the member answered last.
    heard: Option<Time>,
    /// How often it was too slow since.
    slow: u8,
}

impl Line {
    /// The next member is to be dialled.
    fn gives_way(&mut self) {
        *self = Line { number: self.number + 1, ..Line::default() };
    }
}

impl Etcd {
    pub(super) fn new(config: Config) -> Arc<Self> {
        let layout = ConcurrencyLayout::new(&*config.prefix, config.ttl, Arc::new(ClientSeats::default()));
        Arc::new_cyclic(|me| Etcd {
            config,
            layouts: [Arc::new(layout)],
            id: AttemptId(random::number().unwrap_or_default()),
            line: Mutex::default(),
            dialling: tokio::sync::Mutex::default(),
            asking: Semaphore::new(ASKING),
            leases: Leases::default(),
            watches: Watches::default(),
            closing: Closing::default(),
            me: me.clone(),
        })
    }

    /// The connection, dialled if there is none, and its number.
    pub(super) async fn line(&self) -> Result<(Arc<Client>, usize), Failure> {
        let known = |line: &Line| line.client.clone().map(|client| (client, line.number));
        if let Some(known) = known(&locked(&self.line)) {
            return Ok(known);
        }
        let _dialling = self.dialling.lock().await;
        let number = {
            let line = locked(&self.line);
            if let Some(known) = known(&line) {
                return Ok(known);
            }
            line.number
        };
        let member = &self.config.members[number % self.config.members.len()];
        match dial(&self.config, member).await {
            Ok(client) => {
                let client = Arc::new(client);
                locked(&self.line).client = Some(client.clone());
                Ok((client, number))
            }
            Err(failure) => {
                self.broken(number, &failure);
                Err(failure)
            }
        }
    }

    /// The connection of this number is of no use any more, if that is what `failure` means.
    pub(super) fn broken(&self, number: usize, failure: &Failure) {
        let mut line = locked(&self.line);
        if line.number != number {
            return;
        }
        line.slow = if matches!(failure, Failure::Slow(_)) { line.slow + 1 } else { 0 };
        if failure.is_of_the_line() || line.slow >= PATIENCE {
            line.gives_way();
        }
    }

    /// What was sent then over the connection has no answer yet. A member that answers others is there; one that
    /// answers nobody is left, if there is another.
    fn silent(&self, sent: Time) {
        let mut line = locked(&self.line);
        if self.config.members.len() > 1 && line.heard.is_none_or(|heard| heard < sent) {
            line.gives_way();
        }
    }

    /// The member of this connection answered.
    pub(super) fn heard(&self, number: usize) {
        let mut line = locked(&self.line);
        if line.number == number {
            (line.heard, line.slow) = (Some(clock::now()), 0);
        }
    }

    /// Has `call` done by one member, or by the next where it certainly was not.
    pub(super) async fn over_a_line<T, F>(&self, call: impl Fn(Arc<Client>) -> F) -> Result<T, Failure>
    where
        F: Future<Output = Result<T, Failure>>,
    {
        let mut left = self.config.members.len();
        let mut told = None;
        loop {
            left -= 1;
            let failure = match self.line().await {
                Ok((client, number)) => match call(client).await {
                    Ok(done) => {
                        self.heard(number);
                        return Ok(done);
                    }
                    Err(failure) => {
                        self.broken(number, &failure);
                        failure
                    }
                },
                Err(failure) => failure,
            };
            let failure = match (told.take(), failure) {
                (Some(known @ Failure::NoLeader(_)), Failure::NotSent(_)) => known,
                (_, failure) => failure,
            };
            if left == 0 || matches!(failure, Failure::Refused(_) | Failure::Unknown(_) | Failure::Slow(_)) {
                return Err(failure);
            }
            told = Some(failure);
        }
    }

    pub(super) async fn txn(&self, transaction: &Transaction) -> Result<Response, Failure> {
        let done = self.over_a_line(|client| {
            let txn = grpc::txn(transaction);
            async move { answered(client.kv_client().txn(txn).await) }
        });
        done.await.map(|done| grpc::response(&done))
    }

    /// The same for what is only done under this lease.
    async fn under(&self, lease: &Lease, transaction: &Transaction) -> Result<Response, Failure> {
        let done = self.txn(transaction).await;
        if done.as_ref().is_err_and(Failure::is_of_the_lease) {
            self.leases.over(lease);
        }
        done
    }

    /// Has `joins` done, and reads why nothing was where it was not: that makes a message a third longer, and is sent
    /// along only with a `try`, which is often refused.
    async fn join(&self, request: &Request, lease: &Lease, mut joins: Transaction) -> Result<Response, Failure> {
        let reads = if request.call.name == "try" { Vec::new() } else { mem::take(&mut joins.failure) };
        let response = self.under(lease, &joins).await?;
        if response.succeeded || reads.is_empty() {
            return Ok(response);
        }
        self.txn(&Transaction::of(reads)).await
    }

    async fn perform(&self, requests: &Requests, limit: Time) -> Answered {
        let sent = clock::now();
        let turn = match requests.iter().any(asks_for_a_place) {
            true => timeout(limit.since(sent), self.asking.acquire()).await.map(Some),
            false => Ok(None),
        };
        let Ok(_turn) = turn else { return not_sent(too_late()) };
        // Not the store was silent while others of this client had their turn.
        let limit = limit.after(clock::now().since(sent));
        let mut replies = Vec::with_capacity(requests.len());
        for request in requests {
            let began = clock::now();
            let answer = timeout(limit.since(began), self.answer(request)).await;
            let answer = answer.unwrap_or_else(|_| {
                self.silent(began);
                Err(Failure::Slow(too_late()))
            });
            let outcome = match answer.or_else(|failure| failure.concludes(request, replies.len())) {
                Ok(reply) => {
                    replies.push(reply);
                    continue;
                }
                Err((error, true)) => Outcome::NotSent(error),
                Err((error, false)) => Outcome::Unknown { error, void_after: self.void_after(clock::now(), limit) },
            };
            return Answered { sent, outcome };
        }
        Answered { sent, outcome: Outcome::Replies(replies) }
    }

    async fn answer(&self, request: &Request) -> Result<Reply, Failure> {
        let said = |asked: crate::Result<Transaction>| asked.map_err(Failure::NotSent);
        if let Some(steps) = Steps::of(request, self.id)
            && let Some(answer) = self.go_through(steps).await?
        {
            return Ok(answer);
        }
        match request.call.name {
            "acquire" | "try" | "yield" | "arrive" => {
                let lease = self.lease().await?;
                let fence = lease.fence();
                let copied = self.watches.copies(&request.key);
                let joins = said(transactions::join(request, &lease, fence, !copied))?;
                let response = self.join(request, &lease, joins).await?;
                match transactions::joined(request, &response, &lease, fence) {
                    Joined::Told(reply) => Ok(self.told(request, reply)),
                    Joined::Fenced { fence, reply } => {
                        lease.learn(fence);
                        Ok(reply)
                    }
                    Joined::Unseen { create } => {
                        let copied = self.watches.copied(request, &lease, create).await;
                        copied.map_or_else(|| Ok(transactions::unavailable("its line was not seen")), Ok)
                    }
                }
            }
            "look" => {
                let lease = self.lease().await?;
                if self.watches.copies(&request.key) {
                    let own = match self.watches.hears() {
                        true => 0,
                        // Whether it is told at all.
                        false => transactions::created(&self.txn(&said(transactions::exists(request))?).await?),
                    };
                    if let Some(reply) = self.watches.copied(request, &lease, own).await {
                        return Ok(reply);
                    }
                }
                let looked = self.txn(&said(transactions::look(request))?).await?;
                Ok(self.told(request, transactions::looked(&looked, &lease)))
            }
            "watch" => match transactions::one_key(request) {
                Some((key, revision)) if !self.watches.copies(&request.key) => {
                    Ok(self.watches.want(&request.key, &Target::Key(key, revision)).await)
                }
                _ => Ok(self.watches.want(&request.key, &Target::Line(request.key.clone())).await),
            },
            "lives" => {
                let id = transactions::int(request, 0).map_err(Failure::NotSent)?;
                let lives = self
                    .over_a_line(|client| async move { answered(client.lease_client().time_to_live(id, None).await) });
                let seconds = lives.await?.ttl();
                if seconds < 0 {
                    return Ok(Reply::Nil);
                }
                let card = self.txn(&transactions::card_of(&self.config.prefix, id)).await?;
                Ok(transactions::lives(seconds, &card))
            }
            "status" => {
                let status = self
                    .over_a_line(|client| async move { answered(client.maintenance_client().status().await) })
                    .await?;
                Ok(grpc::status(&status))
            }
            "members" => {
                let members = self
                    .over_a_line(|client| async move { answered(client.cluster_client().member_list().await) })
                    .await?;
                Ok(grpc::members(&members))
            }
            "leases" => {
                let leases =
                    self.over_a_line(|client| async move { answered(client.lease_client().leases().await) }).await?;
                Ok(grpc::leases(&leases))
            }
            "keeps" => {
                let id = transactions::int(request, 0).map_err(Failure::NotSent)?;
                let asks = || Some(LeaseTimeToLiveOptions::new().with_keys());
                let lives =
                    self.over_a_line(
                        |client| async move { answered(client.lease_client().time_to_live(id, asks()).await) },
                    );
                Ok(grpc::kept(&lives.await?))
            }
            _ => self.transact(request).await,
        }
    }

    /// What is one transaction whatever else is known of its lock.
    async fn transact(&self, request: &Request) -> Result<Reply, Failure> {
        let lease = match Under::of(request) {
            Under::Lease => Some(self.lease().await?),
            Under::LeaseIfAny => self.leases.current(),
            Under::Nothing => None,
        };
        let (lease, fence) = (lease.as_deref(), lease.as_deref().map_or(0, Lease::fence));
        let asked = transactions::ask(request, lease, &self.config.prefix).map_err(Failure::NotSent)?;
        let response = match lease {
            Some(lease) => self.under(lease, &asked).await,
            None => self.txn(&asked).await,
        };
        Ok(transactions::answer(request, &response?, lease, fence))
    }

    /// A queue that was read, which may be longer than what was told of it.
    fn told(&self, request: &Request, queue: Reply) -> Reply {
        if transactions::is_cut(request, &queue) {
            self.watches.was_cut(&request.key);
        }
        queue
    }

    async fn say_farewell(&self) {
        let client = locked(&self.line).client.take();
        if let (Some(lease), Some(client)) = (self.leases.take(), client) {
            // If it cannot be given back it ends with its time.
            let _ = timeout(FAREWELL, client.lease_client().revoke(lease.id)).await;
        }
    }
}

/// Whether it is one of a crowd's: whoever holds or gives up does not stand behind them.
fn asks_for_a_place(request: &Request) -> bool {
    matches!(request.call.name, "acquire" | "try" | "look")
}

/// Ends a task with whoever awaits it: what it did not send by then must not leave later.
struct EndedWith(AbortHandle);

impl Drop for EndedWith {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Store for Etcd {
    fn address(&self) -> &Arc<str> {
        &self.config.address
    }

    fn layouts(&self) -> &[Arc<dyn Layout>] {
        &self.layouts
    }

    fn call_async<'a>(&'a self, requests: &'a Requests, limit: Time) -> BoxFuture<'a, Answered> {
        Box::pin(async move {
            let (handle, me) = match (runtime::handle(), self.me.upgrade()) {
                (Ok(handle), Some(me)) => (handle, me),
                (Err(error), _) => return not_sent(error),
                (_, None) => return not_sent(Error::new(Kind::Closed, "connect", "the client is gone")),
            };
            let requests = requests.clone();
            let sent = clock::now();
            let task = handle.spawn(async move { me.perform(&requests, limit).await });
            let _ends = EndedWith(task.abort_handle());
            task.await.unwrap_or_else(|ended| {
                let error = Error::new(Kind::Internal, "connect", "a call to etcd ended early").caused_by(ended);
                Answered { sent, outcome: Outcome::Unknown { error, void_after: self.void_after(clock::now(), limit) } }
            })
        })
    }

    /// Nobody can cut that short, so it needs no task of its own.
    fn call(&self, requests: &Requests, limit: Time) -> Answered {
        runtime::block_on(self.perform(requests, limit)).unwrap_or_else(not_sent)
    }

    /// Whatever was sent is kept from being done by the undo, however late it comes: that moves the fence.
    fn void_after(&self, given_up: Time, _limit: Time) -> Time {
        given_up
    }

    fn subscribe(self: Arc<Self>, topic: Topic<'_>, sink: Weak<dyn Sink>) -> Subscription {
        match topic {
            Topic::Session => {
                self.leases.tell(&sink);
                Subscription::of(Inbox::Closed).in_background(Box::new(move || {
                    let me = self.clone();
                    Box::pin(async move { me.closing.cuts_short(either(me.keep_alive(), me.watch())).await })
                }))
            }
            // Nothing is pushed to a client as such; its waiters set their watches themselves.
            Topic::Inbox(_) => Subscription::of(Inbox::Closed),
            Topic::Channel { .. } => Subscription::of(Inbox::Unavailable),
        }
    }

    fn examine(&self) -> Inquiry<'_, Vec<Finding>> {
        examination::examine(&self.config.prefix)
    }

    fn close(&self) {
        self.closing.close();
        if let (Ok(handle), Some(me)) = (runtime::handle(), self.me.upgrade()) {
            handle.spawn(async move { me.say_farewell().await });
        }
    }
}

impl std::fmt::Debug for Etcd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Etcd({})", self.config.address)
    }
}
