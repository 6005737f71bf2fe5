//! One Redis server: a few blocking callers take a connection each from a pool, many share one as async callers do, who
//! have one per runtime, and all write the same commands.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::task::{Poll, Waker};
use std::time::Duration;

use lockwright_machines::quorum::Marker;
use lockwright_machines::store_clock::StoreClock;
use redis::Value;
use tokio::time::timeout;

use super::config::Config;
use super::exchange::{Exchange, Manner, may_grant};
use super::failover::{self, NAMED};
use super::greeting::{self, Welcome};
use super::inbox::kept;
use super::layouts::sentinels::asked;
use super::layouts::{self, examination, survey};
use super::replicas::Replicas;
use super::sentinels;
use super::shared_connection::{SharedConnection, Values};
use super::shortcut;
use super::socket::{Connection, unreachable};
use super::tasks;
use super::topics::Topics;
use super::wire::{Commands, Scripts};
use crate::error::{Error, Kind, Result};
use crate::finding::Finding;
use crate::lease::Sighting;
use crate::platform::mutex::locked;
use crate::platform::stream::{Home, HomeId};
use crate::platform::{clock, fence, runtime};
use crate::protocol::{Call, Channel, Inquiry, Layout, Reply, Request, Requests};
use crate::session::{Inbox, margin};
use crate::stores::adapter::{
    Answered, Begun, BoxFuture, Closing, Outcome, Sink, Store, Subscription, Topic, not_sent,
};
use crate::time::{StoreTime, Time};

/// A connection idle for longer is looked at before it is used: servers and middle boxes end idle ones.
const TRUSTED: Duration = Duration::from_secs(1);
/// A connection idle for longer is closed.
const IDLE: Duration = Duration::from_secs(60);
/// An answer that has come is read within this, however long others took that were read first.
const HAS_COME: Duration = Duration::from_millis(2);
/// So many blocking callers at a time have a connection each; whoever finds that many waiting shares one with all
/// others who do. A request then goes to another thread and back, but the server reads, and answers, many by one
/// system call.
const OWN: usize = 8;
/// How many idle connections are kept.
const KEPT: usize = 64;

/// How many a script finds to listen on a channel. Whoever does not find itself there is behind a proxy that spreads
/// clients over servers: a script that looked for it there, before it hands a lock over, would take it for dead.
pub(super) static LISTENERS: Call =
    Call { name: "listeners", body: &["return redis.call('PUBSUB', 'NUMSUB', ARGV[1])[2]"], batch: false };

/// See the [module](self).
pub(crate) struct Redis {
    pub(super) config: Arc<Config>,
    layouts: Vec<Arc<dyn Layout>>,
    scripts: Arc<Scripts>,
    clock: StoreClock,
    /// Idle blocking connections, the last used at the back.
    pool: Mutex<VecDeque<Box<Connection>>>,
    /// How many blocking callers wait for an answer.
    waiting: AtomicUsize,
    /// Few, and looked up with every request.
    lines: Mutex<Vec<(HomeId, Line)>>,
    met: Mutex<Met>,
    pub(super) closing: Closing,
    /// What cleans up yet dials for itself, and leaves nothing open.
    closed: AtomicBool,
    /// The key of the marker by which it says since when it has been the master; none while that is not known.
    mark: Mutex<Option<Arc<str>>>,
    pub(super) topics: Arc<Topics>,
}

/// The connection of one runtime or foreign event loop, and who dials it.
#[derive(Default)]
struct Line {
    /// With the time at which it was dialled.
    connection: Option<(SharedConnection, Time)>,
    dialling: Arc<tokio::sync::Mutex<()>>,
}

impl Line {
    fn usable(&self, config: &Config) -> Option<SharedConnection> {
        let (connection, since) = self.connection.as_ref()?;
        (connection.is_usable() && !is_outdated(config, *since)).then(|| connection.clone())
    }
}

/// Which run of the server was met last, and who wants to know of another one.
#[derive(Default)]
struct Met {
    run: Option<String>,
    /// That it may drop locks was told.
    evicts: bool,
    sinks: Vec<Weak<dyn Sink>>,
}

/// A blocking caller waits for an answer, until this is dropped.
struct Waiting<'a> {
    count: &'a AtomicUsize,
    /// How many others did when it began.
    others: usize,
}

impl<'a> Waiting<'a> {
    fn begin(count: &'a AtomicUsize) -> Self {
        Waiting { count, others: count.fetch_add(1, Ordering::Relaxed) }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What was sent and is not answered yet.
struct Sent<'a> {
    exchange: Exchange<&'a [Request]>,
    not_after: StoreTime,
    asks_time: bool,
    asks_commands: bool,
}

/// What was sent, when, and on which connection; or why not.
struct Departure<'a> {
    at: Time,
    sent: Exchanged<(Box<Connection>, Sent<'a>)>,
}

type Exchanged<T = Vec<Reply>> = std::result::Result<T, Failed>;

/// Why a write has no replies, and whether it can have been executed.
enum Failed {
    Unsent(Error),
    Unanswered(Error),
}

/// The next reply on `connection`.
fn receive(connection: &mut Connection) -> Exchanged<Value> {
    connection.receive().map_err(|error| Failed::Unanswered(connection.lost(error)))
}

/// Whether another server may be the master by now than the one that a connection of this age leads to.
fn is_outdated(config: &Config, since: Time) -> bool {
    config.sentinels.is_some() && clock::now().since(since) > NAMED
}

/// Whether the server refused all of it, having become a replica since it was dialled, or being about to.
fn was_demoted(replies: &[Reply]) -> bool {
    let is_refused = |reply: &Reply| match reply {
        Reply::Error { code, .. } => matches!(&**code, "READONLY" | "LOADING" | "MASTERDOWN"),
        _ => false,
    };
    !replies.is_empty() && replies.iter().all(is_refused)
}

/// The server may drop what is held.
fn tell_of_eviction(store: &str, policy: &str) {
    let what = "the server drops keys when its memory is full, locks that are held among them; set its maxmemory-policy to noeviction";
    fence::told(|| tracing::warn!(target: "lockwright::store", store, state = "evicts", policy, "{what}"));
}

impl Redis {
    pub(super) fn new(config: Config) -> Self {
        Redis {
            layouts: config.layouts(),
            scripts: Arc::new(Scripts::new(layouts::by_digest())),
            clock: StoreClock::default(),
            pool: Mutex::default(),
            waiting: AtomicUsize::new(0),
            lines: Mutex::default(),
            met: Mutex::default(),
            closing: Closing::default(),
            closed: AtomicBool::new(false),
            mark: Mutex::new(config.seeds.is_empty().then(|| failover::key(&config.prefix).into())),
            topics: Arc::default(),
            config: Arc::new(config),
        }
    }

    /// A connection greeted: its clock is the store's, and its run may be another than before.
    pub(super) fn meet(&self, welcome: Welcome) {
        self.clock.learn(clock::now(), welcome.at);
        let mut met = locked(&self.met);
        let is_other = welcome.run.is_some() && met.run.is_some() && welcome.run != met.run;
        met.run = welcome.run.or(met.run.take());
        let evicts = welcome.evicts.filter(|_| !std::mem::replace(&mut met.evicts, true));
        if is_other {
            // The listener may be at the other one still.
            self.topics.changed.notify_one();
        }
        let sinks: Vec<_> = if is_other { met.sinks.iter().filter_map(Weak::upgrade).collect() } else { Vec::new() };
        drop(met);
        sinks.iter().for_each(|sink| sink.restarted());
        if let Some(policy) = evicts {
            tell_of_eviction(&self.config.address, &policy);
        }
    }

    /// Whether a restart of the server would be noticed from its greeting.
    pub(super) fn knows_the_run(&self) -> bool {
        locked(&self.met).run.is_some()
    }

    /// Whether another run of the server was met after this one.
    pub(super) fn has_left(&self, run: Option<&str>) -> bool {
        let met = locked(&self.met);
        matches!((run, met.run.as_deref()), (Some(run), Some(met)) if run != met)
    }

    /// The idle connection that was used last and seems good.
    fn idle(&self, now: Time) -> Option<Box<Connection>> {
        loop {
            let mut connection = locked(&self.pool).pop_back()?;
            let idle = now.since(connection.used);
            if is_outdated(&self.config, connection.since) {
                continue;
            }
            if idle <= TRUSTED || (idle <= IDLE && !connection.is_stale()) {
                return Some(connection);
            }
        }
    }

    fn dial(&self, limit: Time) -> Result<Box<Connection>> {
        let (connection, welcome) = Connection::dial(&self.config, limit)?;
        self.meet(welcome);
        Ok(Box::new(connection))
    }

    fn keep(&self, mut connection: Box<Connection>, used: Time) {
        if !connection.is_clean() || self.closed.load(Ordering::Acquire) {
            return;
        }
        connection.used = used;
        let mut pool = locked(&self.pool);
        let is_old = pool.front().is_some_and(|oldest| used.since(oldest.used) > IDLE);
        let closed = if pool.len() >= KEPT || is_old { pool.pop_front() } else { None };
        pool.push_back(connection);
        drop(pool);
        drop(closed);
    }

    /// Sends `requests` on `connection` at `sent`.
    fn send<'a>(
        &self,
        connection: &mut Connection,
        requests: &'a [Request],
        sent: Time,
        limit: Time,
        asking: bool,
    ) -> Exchanged<Sent<'a>> {
        let patience = self.config.response_timeout.min(limit.since(sent));
        if patience.is_zero() {
            return Err(Failed::Unsent(self.unreached()));
        }
        connection.expect(sent.after(patience), patience);
        let not_after = self.not_after(sent);
        let asks_time = self.clock.is_old(sent);
        connection.out.clear();
        if asks_time {
            connection.out.command(&["TIME"]);
        }
        let exchange = Exchange::new(requests, &connection.known, self.manner(asking));
        let asks_commands = connection.known.asks(requests);
        if asks_commands {
            shortcut::ask(&mut connection.out);
        }
        exchange.write(&self.scripts, not_after, &mut connection.out);
        connection.send().map_err(|unsent| match unsent.entirely {
            true => Failed::Unsent(unreachable(&self.config, unsent.error)),
            false => Failed::Unanswered(connection.lost(unsent.error)),
        })?;
        Ok(Sent { exchange, not_after, asks_time, asks_commands })
    }

    /// What was sent on `connection` is answered.
    fn receive(&self, connection: &mut Connection, sent: Sent<'_>) -> Exchanged {
        let Sent { mut exchange, not_after, asks_time, asks_commands } = sent;
        if asks_time {
            self.learn_from(&receive(connection)?);
        }
        if asks_commands {
            let answer = receive(connection)?;
            connection.known.learn(&answer);
        }
        loop {
            let answers = (0..exchange.expected()).map(|_| receive(connection)).collect::<Exchanged<Values>>()?;
            exchange.take(answers, &mut connection.known).map_err(Failed::Unanswered)?;
            if exchange.open() == 0 {
                return self.replies(exchange).map_err(Failed::Unanswered);
            }
            connection.out.clear();
            exchange.write(&self.scripts, not_after, &mut connection.out);
            connection.send().map_err(|unsent| Failed::Unanswered(connection.lost(unsent.error)))?;
        }
    }

    /// Sends `requests` on an idle connection that is good, else on a new one.
    fn send_somewhere<'a>(&self, requests: &'a [Request], limit: Time, asking: bool) -> Departure<'a> {
        loop {
            let now = clock::now();
            let idle = self.idle(now);
            let is_new = idle.is_none();
            let (mut connection, at) = match idle.map_or_else(|| self.dial(limit), Ok) {
                Ok(connection) => (connection, if is_new { clock::now() } else { now }),
                Err(error) => return Departure { at: now, sent: Err(Failed::Unsent(error)) },
            };
            match self.send(&mut connection, requests, at, limit, asking) {
                Ok(sent) => return Departure { at, sent: Ok((connection, sent)) },
                Err(failed) => {
                    // The others are no better: the server restarted, or the way to it is gone.
                    locked(&self.pool).clear();
                    if is_new || !matches!(failed, Failed::Unsent(_)) {
                        return Departure { at, sent: Err(failed) };
                    }
                }
            }
        }
    }

    /// Those to all that was asked, unless too few replicas have heard of what may have been granted, and they had to.
    fn replies(&self, exchange: Exchange<&[Request]>) -> Result<Vec<Reply>> {
        if let (Some(replicas), Some(heard)) = (self.config.replicas, exchange.heard()) {
            replicas.check(heard)?;
        }
        exchange.replies()
    }

    fn manner(&self, asking: bool) -> Manner {
        Manner {
            by_slot: !self.config.seeds.is_empty(),
            asking,
            copies: self.config.replicas.map(|replicas| replicas.copies),
        }
    }

    /// What [`Store::call`] does, where the server may have to be told that it will have the slot.
    pub(super) fn call_as(&self, requests: &[Request], limit: Time, asking: bool) -> Answered {
        let waiting = Waiting::begin(&self.waiting);
        // Replicas that are waited for hold up the whole connection.
        if waiting.others >= OWN && self.config.replicas.is_none() {
            return runtime::block_on(self.ask(requests, limit, asking)).unwrap_or_else(not_sent);
        }
        match self.with_look(requests) {
            Ok(Some(all)) => self.judged(requests, self.arrive(self.send_somewhere(&all, limit, asking), None)),
            Ok(None) => self.arrive(self.send_somewhere(requests, limit, asking), None),
            Err(error) => self.answered(clock::now(), Err(Failed::Unsent(error))),
        }
    }

    /// `requests`, with a look behind them whether the server has been the master for long enough, where that matters.
    ///
    /// # Errors
    /// `unavailable` while it is not known where its marker is.
    fn with_look(&self, requests: &[Request]) -> Result<Option<Requests>> {
        let Some(delay) = self.config.delay.filter(|_| requests.iter().any(may_grant)) else { return Ok(None) };
        let key = locked(&self.mark).clone().ok_or_else(|| {
            let message = "it is not known yet which slots of the cluster this node has; it is asked again";
            Error::new(Kind::Unavailable, "connect", message)
        })?;
        Ok(Some(delay.with_look(requests, &key)))
    }

    /// The answer to `requests` that were sent with such a look.
    fn judged(&self, requests: &[Request], mut answered: Answered) -> Answered {
        if let (Some(delay), Outcome::Replies(replies)) = (self.config.delay, &mut answered.outcome) {
            if matches!(replies.last(), Some(Reply::Error { code, .. }) if matches!(&**code, "MOVED" | "ASK")) {
                *locked(&self.mark) = None;
            }
            *replies = delay.judge(requests, std::mem::take(replies));
        }
        answered
    }

    /// Its marker lies under `key` from now on.
    pub(super) fn is_marked(&self, key: Arc<str>) {
        *locked(&self.mark) = Some(key);
    }

    /// Whether the slot that its marker was in is somebody else's, or none is known.
    pub(super) fn has_lost_its_mark(&self) -> bool {
        self.config.delay.is_some() && locked(&self.mark).is_none()
    }

    /// The answer to what was sent; by `deadline`, where that is not over yet.
    fn arrive(&self, Departure { at, sent }: Departure<'_>, deadline: Option<Time>) -> Answered {
        let (mut connection, sent) = match sent {
            Ok(sent) => sent,
            Err(failed) => return self.answered(at, Err(failed)),
        };
        if let Some(deadline) = deadline {
            let now = clock::now();
            let patience = deadline.since(now).max(HAS_COME);
            connection.expect(now.after(patience), patience);
        }
        let result = self.receive(&mut connection, sent);
        match &result {
            Ok(replies) if !self.is_elsewhere(replies) => self.keep(connection, at),
            _ => locked(&self.pool).clear(),
        }
        self.answered(at, result)
    }

    /// Whether these replies say that another server is the master, which the sentinels know.
    fn is_elsewhere(&self, replies: &[Reply]) -> bool {
        self.config.sentinels.is_some() && was_demoted(replies)
    }

    fn learn_from(&self, answer: &Value) {
        if let Some(at) = greeting::time(answer) {
            self.clock.learn(clock::now(), at);
        }
    }

    fn not_after(&self, sent: Time) -> StoreTime {
        self.clock.at(sent).after(self.config.response_timeout)
    }

    /// After which point of our clock a write sent at `sent` at the latest cannot be executed any more.
    fn void_after_sending(&self, sent: Time) -> Time {
        let lasts = self.config.response_timeout;
        sent.after(lasts).after(margin(lasts))
    }

    fn answered(&self, sent: Time, result: Exchanged) -> Answered {
        let outcome = match result {
            Ok(replies) if self.is_elsewhere(&replies) => {
                let message = "the server became a replica; the sentinels are asked for the new master";
                let error = Error::new(Kind::Unavailable, "connect", message);
                Outcome::NotSent(error.on_store(self.config.address.clone()))
            }
            Ok(replies) => Outcome::Replies(replies),
            Err(Failed::Unsent(error)) => Outcome::NotSent(error.on_store(self.config.address.clone())),
            Err(Failed::Unanswered(error)) => Outcome::Unknown {
                error: error.on_store(self.config.address.clone()),
                void_after: self.void_after_sending(sent),
            },
        };
        Answered { sent, outcome }
    }

    /// The connection of the present runtime or foreign event loop at `now`, dialled until `limit` where there is none,
    /// and when it is there.
    async fn line(&self, now: Time, limit: Time) -> Result<(SharedConnection, Time)> {
        let home = Home::current();
        let dialling = match self.shared(home.id()) {
            Ok(line) => return Ok((line, now)),
            Err(dialling) => dialling,
        };
        // Apart: to dial takes kilobytes, which every request would have to carry.
        let dialled = timeout(limit.since(now), Box::pin(self.dial_line(home, &dialling))).await;
        dialled.unwrap_or_else(|_| Err(self.unreached())).map(|line| (line, clock::now()))
    }

    async fn dial_line(&self, home: Home, dialling: &tokio::sync::Mutex<()>) -> Result<SharedConnection> {
        let _dialling = dialling.lock().await;
        let id = home.id();
        if let Ok(line) = self.shared(id) {
            return Ok(line);
        }
        let since = clock::now();
        let (line, welcome) = tasks::shared(&self.config, self.scripts.clone(), home).await?;
        if !self.closed.load(Ordering::Acquire)
            && let Some((_, shared)) = locked(&self.lines).iter_mut().find(|(of, _)| *of == id)
        {
            shared.connection = Some((line.clone(), since));
        }
        self.meet(welcome);
        Ok(line)
    }

    fn unreached(&self) -> Error {
        unreachable(&self.config, std::io::ErrorKind::TimedOut.into())
    }

    /// The connection of `home`, or what whoever dials it has meanwhile.
    fn shared(&self, home: HomeId) -> std::result::Result<SharedConnection, Arc<tokio::sync::Mutex<()>>> {
        let mut lines = locked(&self.lines);
        if let Some((_, shared)) = lines.iter().find(|(of, _)| *of == home) {
            return shared.usable(&self.config).ok_or_else(|| shared.dialling.clone());
        }
        // Runtimes come and go; those that went left nothing that is of use.
        lines.retain(|(_, shared)| shared.connection.as_ref().is_none_or(|(line, _)| line.is_usable()));
        let shared = Line::default();
        let dialling = shared.dialling.clone();
        lines.push((home, shared));
        Err(dialling)
    }

    /// `sink` wants to know when another run of the server is met.
    fn heed(&self, sink: &Weak<dyn Sink>) {
        let mut met = locked(&self.met);
        met.sinks.retain(|sink| sink.strong_count() > 0);
        met.sinks.push(sink.clone());
    }

    /// What `requests` are answered, asked in the present runtime.
    pub(super) async fn ask(&self, requests: &[Request], limit: Time, asking: bool) -> Answered {
        match self.with_look(requests) {
            Ok(Some(all)) => self.judged(requests, self.ask_all(&all, limit, asking).await),
            Ok(None) => self.ask_all(requests, limit, asking).await,
            Err(error) => self.answered(clock::now(), Err(Failed::Unsent(error))),
        }
    }

    async fn ask_all(&self, requests: &[Request], limit: Time, asking: bool) -> Answered {
        let began = clock::now();
        let (line, sent) = match self.line(began, limit).await {
            Ok(found) => found,
            Err(error) => return self.answered(began, Err(Failed::Unsent(error))),
        };
        let patience = self.config.response_timeout.min(limit.since(sent));
        if patience.is_zero() {
            return self.answered(sent, Err(Failed::Unsent(self.unreached())));
        }
        let result = self.ask_on(&line, requests, (sent, sent.after(patience)), asking).await;
        if result.as_ref().is_ok_and(|replies| self.is_elsewhere(replies)) {
            line.retire();
        }
        self.answered(sent, result.map_err(Failed::Unanswered))
    }

    async fn ask_on(
        &self,
        line: &SharedConnection,
        requests: &[Request],
        (sent, deadline): (Time, Time),
        asking: bool,
    ) -> Result<Vec<Reply>> {
        let not_after = self.not_after(sent);
        let asks_time = self.clock.is_old(sent);
        let ask = |waker: &Waker| {
            line.ask(deadline, Some(waker), |known, out| {
                let exchange = Exchange::new(requests, known, self.manner(asking));
                let asks_commands = known.asks(requests);
                if asks_time || asks_commands {
                    let (scripts, out) = out.alone();
                    if asks_time {
                        out.command(&["TIME"]);
                    }
                    if asks_commands {
                        shortcut::ask(out);
                    }
                    exchange.write(scripts, not_after, out);
                } else {
                    exchange.write_among(not_after, out);
                }
                let expected = exchange.expected() + usize::from(asks_time) + usize::from(asks_commands);
                (expected, (exchange, asks_commands))
            })
        };
        let (asked, (mut exchange, asks_commands)) = poll_fn(|context| Poll::Ready(ask(context.waker()))).await;
        let mut answers = asked.await?.into_iter();
        if asks_time && let Some(answer) = answers.next() {
            self.learn_from(&answer);
        }
        if asks_commands && let Some(answer) = answers.next() {
            line.learn(|known| known.learn(&answer));
        }
        loop {
            // Who asked together with others and is told nothing asks alone.
            if answers.len() > 0 {
                line.learn(|known| exchange.take(answers, known))?;
            }
            if exchange.open() == 0 {
                return self.replies(exchange);
            }
            let (again, ()) = line.ask(deadline, None, |_, out| {
                let (scripts, out) = out.alone();
                exchange.write(scripts, not_after, out);
                (exchange.expected(), ())
            });
            answers = again.await?.into_iter();
        }
    }

    /// Whether scripts find whoever listens on the inbox `channel`. Who may not ask, or is not answered, is found.
    pub(super) async fn finds(&self, channel: &str) -> bool {
        // The key of a lock of this client: it may name it, and where a proxy has several servers it is at one of
        // them.
        let key = layouts::native_scripts::layout(&*self.config.prefix).key("inbox");
        let Ok(key) = key else { return true };
        let request = Request::new(&LISTENERS, key, [channel.into()]);
        let limit = clock::now().after(self.config.response_timeout);
        !matches!(&self.ask(&[request], limit, false).await.outcome, Outcome::Replies(replies) if replies[..] == [Reply::Int(0)])
    }
}

impl Store for Redis {
    fn address(&self) -> &Arc<str> {
        &self.config.address
    }

    fn layouts(&self) -> &[Arc<dyn Layout>] {
        &self.layouts
    }

    fn others<'a>(&'a self, name: Option<&'a str>) -> Inquiry<'a, Vec<Sighting>> {
        survey::others(&self.config.prefix, name)
    }

    fn eviction(&self) -> Inquiry<'_, Option<String>> {
        survey::eviction(&self.config.prefix)
    }

    fn examine(&self) -> Inquiry<'_, Vec<Finding>> {
        let sentinels = self.config.sentinels.as_ref().map_or(0, |sentinels| sentinels.each.len());
        examination::examine(&self.config.prefix, sentinels, clock::wall)
    }

    fn call(&self, requests: &Requests, limit: Time) -> Answered {
        match asked(requests) {
            Some(number) => runtime::block_on(sentinels::look(&self.config, number)).unwrap_or_else(not_sent),
            None => self.call_as(requests, limit, false),
        }
    }

    fn begin<'a>(&'a self, requests: &'a Requests, limit: Time) -> Begun<'a> {
        // Only nodes of a quorum are asked so, and they have no failover_delay.
        let departure = self.send_somewhere(requests, limit, false);
        let deadline = departure.at.after(self.config.response_timeout).min(limit);
        Box::new(move || self.arrive(departure, Some(deadline)))
    }

    fn check_lease(&self, ttl: Duration) -> Result<()> {
        self.config.delay.map_or(Ok(()), |delay| delay.check(ttl))
    }

    fn marker(&self) -> Option<Marker> {
        self.config.delay.is_none().then(|| layouts::marker::marker(&self.config.prefix))
    }

    fn call_async<'a>(&'a self, requests: &'a Requests, limit: Time) -> BoxFuture<'a, Answered> {
        match asked(requests) {
            Some(number) => Box::pin(sentinels::look(&self.config, number)),
            None => Box::pin(self.ask(requests, limit, false)),
        }
    }

    fn void_after(&self, given_up: Time, _: Time) -> Time {
        self.void_after_sending(given_up)
    }

    fn subscribe(self: Arc<Self>, topic: Topic<'_>, sink: Weak<dyn Sink>) -> Subscription {
        let subscription = match topic {
            // What is handed over is told before any replica has heard of it.
            Topic::Inbox(_) if self.config.replicas.is_some_and(Replicas::must_have_heard) => {
                return Subscription::of(Inbox::Unavailable);
            }
            Topic::Inbox(inbox) => {
                let name = &layouts::native_scripts::channel(inbox).into();
                self.topics.hear(Channel { name, own: true, overheard: false }, None)
            }
            Topic::Session => return Subscription::of(Inbox::Unavailable),
            Topic::Channel { channel, .. } if channel.overheard => {
                return self.topics.overhear(channel.name);
            }
            Topic::Channel { channel, key } => self.topics.hear(channel, Some(key)),
        };
        match self.topics.keep() {
            Some(keeper) => {
                self.heed(&sink);
                subscription.in_background(kept(keeper, self.clone(), sink))
            }
            None => subscription,
        }
    }

    fn close(&self) {
        self.closed.store(true, Ordering::Release);
        locked(&self.met).sinks.clear();
        self.closing.close();
        let idle = std::mem::take(&mut *locked(&self.pool));
        let lines = std::mem::take(&mut *locked(&self.lines));
        drop((idle, lines));
    }

    fn learn(&self, _sent: Time, at: StoreTime) {
        self.clock.learn(clock::now(), at);
    }
}

impl std::fmt::Debug for Redis {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Redis({})", self.config.address)
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
