//! Where one environment of Node polls the core: the main thread's, or a worker's.
//!
//! What JavaScript asks becomes a job, known by its number. [`turn`](Reactor::turn) polls the jobs on the environment's own
//! thread and tells what ended; the wrapper keeps the promises. Sockets are read by Node, and written here; the driver's thread
//! watches for all else, and rings.

use std::collections::HashMap;
use std::future::Future;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use lockwright::event_loop::{EventLoop, JobId, Reader, Watch};
use lockwright::lease::Inspection;
use lockwright::multi::MultiGuard;
use lockwright::options::{Credentials, milliseconds};
use lockwright::share::Share;
use lockwright::{Arrival, Error, Guard, Health, Kind, Result};
use napi::bindgen_prelude::{Array, BigInt, ToNapiValue};
use napi::threadsafe_function::{ThreadsafeFunction, ThreadsafeFunctionCallMode};
use napi::{Env, Status};
use napi_derive::napi;

use crate::barrier::Barrier;
use crate::descriptor::Lent;
use crate::error::{Answer, Failure, answer, lost_track, panicked};
use crate::guard::{Ending, Held, end, end_all};
use crate::latch::Latch;
use crate::lock::{Client, Lock, known_as, token};
use crate::report::{Condition, in_ms, listen, news, seen};
use crate::several::{Bundle, Segments};
use crate::{locked, report};

/// One environment's jobs and what it holds. All but its bell and its mailbox is used by the environment's thread alone.
#[napi]
pub struct Reactor {
    room: Arc<Mutex<Option<Room>>>,
    bell: Arc<Bell>,
    desk: Arc<Desk>,
}

struct Room {
    jobs: EventLoop,
    /// Those that JavaScript waits for.
    open: HashMap<u32, JobId>,
    last: u32,
    held: Held,
    /// What Node was told of and has not taken yet, by socket.
    lent: HashMap<u32, Lent>,
    _watch: Watch,
}

/// What waits for the next turn.
enum Mail {
    Ended(u32, Result<Told>),
    Lost(u32, &'static str),
    Asked { whom: u32, question: u32 },
    Read { socket: u32, descriptor: OwnedFd },
    Unread { socket: u32 },
}

/// What a job found.
enum Told {
    Granted(Box<Guard>),
    AllGranted(Vec<Guard>),
    Segment(Box<Option<(usize, Guard)>>),
    Exported(String),
    /// It may still be held: the guard's number, the guard, and why.
    NotExported(u32, Box<Guard>, Error),
    Released(Ending),
    AllReleased(Vec<Result<Ending>>),
    Well(Health),
    Seen(Box<Inspection>),
    Names(Vec<String>),
    Flag(bool),
    Count(u32),
    Passed(Option<Arrival>),
    Done,
}

/// How `ts/reactor.ts` reads what `turn` returns: triples of one of these, a number, and a value.
mod kind {
    pub(super) const FAILED: u32 = 0;
    pub(super) const DONE: u32 = 1;
    pub(super) const LOST: u32 = 2;
    pub(super) const ASKED: u32 = 3;
    pub(super) const NEWS: u32 = 4;
    pub(super) const READ: u32 = 5;
    pub(super) const UNREAD: u32 = 6;
}

type Function = ThreadsafeFunction<(), (), (), Status, false, true>;

/// Calls for a turn from any thread, as long as the environment exists, and keeps what that turn is to tell.
pub(crate) struct Bell {
    function: Mutex<Option<Function>>,
    rung: AtomicBool,
    /// `None` once the environment has ended: what comes later is dropped.
    mail: Mutex<Option<Vec<Mail>>>,
}

impl Bell {
    fn new(ready: Function) -> Self {
        let mail = Mutex::new(Some(Vec::new()));
        Bell { function: Mutex::new(Some(ready)), rung: AtomicBool::new(false), mail }
    }

    fn leave(&self, mail: Mail) {
        self.put(mail);
        self.ring();
    }

    /// For who is called for anyway.
    fn put(&self, mail: Mail) {
        let mut kept = locked(&self.mail);
        match &mut *kept {
            Some(kept) => kept.push(mail),
            None => {
                // Dropping it may leave more mail.
                drop(kept);
                drop(mail);
            }
        }
    }

    fn take_mail(&self) -> Vec<Mail> {
        locked(&self.mail).as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// What is in the mail keeps its connection, and that this bell.
    fn close(&self) {
        let left = locked(&self.mail).take();
        drop(left);
    }

    pub(crate) fn ring(&self) {
        if !self.rung.swap(true, Ordering::AcqRel)
            && let Some(function) = &*locked(&self.function)
        {
            // It refuses only where the environment ends.
            function.call((), ThreadsafeFunctionCallMode::NonBlocking);
        }
    }

    /// Whether the environment must go on existing for what is rung.
    fn keep_alive(&self, env: &Env, wanted: bool) -> napi::Result<()> {
        let mut function = locked(&self.function);
        #[expect(deprecated, reason = "its advice is for another purpose: that of dropping the function")]
        match &mut *function {
            Some(function) if wanted => function.refer(env),
            Some(function) => function.unref(env),
            None => Ok(()),
        }
    }
}

/// Has Node read the sockets of this environment. They are made and dropped by jobs, so in turns.
struct Sockets(Arc<Bell>);

impl Reader for Sockets {
    fn read(&self, number: usize, descriptor: OwnedFd) {
        if let Ok(socket) = u32::try_from(number) {
            self.0.leave(Mail::Read { socket, descriptor });
        }
    }

    fn stop(&self, number: usize) {
        if let Ok(socket) = u32::try_from(number) {
            self.0.leave(Mail::Unread { socket });
        }
    }
}

/// Where a job leaves its result. Dropping it, as a job that panics does, reports the job as ended without one.
struct Delivery {
    number: u32,
    bell: Arc<Bell>,
    result: Option<Result<Told>>,
}

impl Delivery {
    fn leave(&mut self, result: Result<Told>) {
        self.result = Some(result);
    }
}

impl Drop for Delivery {
    fn drop(&mut self) {
        let result = self.result.take().unwrap_or_else(|| Err(panicked()));
        // No ring: jobs end in turns.
        self.bell.put(Mail::Ended(self.number, result));
    }
}

impl Room {
    fn begin(&mut self, bell: &Arc<Bell>, work: impl Future<Output = Result<Told>> + Send + 'static) -> u32 {
        loop {
            self.last = self.last.wrapping_add(1);
            if !self.open.contains_key(&self.last) {
                break;
            }
        }
        let mut delivery = Delivery { number: self.last, bell: bell.clone(), result: None };
        let job = self.jobs.spawn(async move {
            let result = work.await;
            delivery.leave(result);
        });
        self.open.insert(self.last, job);
        self.last
    }
}

impl Reactor {
    pub(crate) fn desk(&self) -> Arc<Desk> {
        self.desk.clone()
    }

    fn in_room<T>(&self, operation: &'static str, work: impl FnOnce(&mut Room) -> Result<T>) -> Result<T> {
        let mut room = locked(&self.room);
        let ended = || Error::new(Kind::Closed, operation, "this environment of Node has ended");
        room.as_mut().ok_or_else(ended).and_then(work)
    }

    /// Begins a job, to be followed by a turn.
    fn ask<W>(&self, env: &Env, work: Result<W>) -> Answer<u32>
    where
        W: Future<Output = Result<Told>> + Send + 'static,
    {
        let begun = work.and_then(|work| {
            self.in_room("call", |room| {
                let number = room.begin(&self.bell, work);
                if room.open.len() == 1 {
                    self.bell.keep_alive(env, true).map_err(|_| lost_track("call"))?;
                }
                Ok(number)
            })
        });
        answer(begun)
    }

    fn hear<'env>(&self, env: &'env Env, run: impl FnOnce(&EventLoop)) -> napi::Result<Array<'env>> {
        let mut room = locked(&self.room);
        let Some(room) = &mut *room else { return env.create_array(0) };
        let was_busy = !room.open.is_empty();
        run(&room.jobs);
        let mail = self.bell.take_mail();
        let mut told = Triples { array: env.create_array(0)?, length: 0 };
        for letter in mail {
            match letter {
                // Nobody waits for it any more: a guard in it is given back in the background.
                Mail::Ended(number, result) if room.open.remove(&number).is_none() => drop(result),
                Mail::Ended(number, Ok(found)) => found.tell(env, number, &mut room.held, &mut told)?,
                Mail::Ended(number, Err(error)) => told.add(kind::FAILED, number, Failure::from(error))?,
                Mail::Lost(guard, why) => told.add(kind::LOST, guard, why)?,
                Mail::Asked { whom, question } => told.add(kind::ASKED, whom, question)?,
                Mail::Read { socket, descriptor } => {
                    let lent = Lent::new(descriptor);
                    told.add(kind::READ, socket, lent.number())?;
                    room.lent.insert(socket, lent);
                }
                Mail::Unread { socket } => told.add(kind::UNREAD, socket, ())?,
            }
        }
        for event in news(&self.bell) {
            told.add(kind::NEWS, 0, event)?;
        }
        if was_busy && room.open.is_empty() {
            self.bell.keep_alive(env, false)?;
        }
        Ok(told.array)
    }

    fn on_guard<T>(&self, operation: &'static str, guard: u32, work: impl FnOnce(&Guard) -> Result<T>) -> Result<T> {
        self.in_room(operation, |room| work(room.held.get(operation, guard)?))
    }
}

#[napi]
impl Reactor {
    /// `ready` is called when a turn has something to do; it has to call `turn`. Where the environment `reads` sockets it is given
    /// their descriptors, else they are read in turns.
    #[napi(constructor, catch_unwind)]
    pub fn new(env: Env, ready: Function, reads: bool) -> napi::Result<Self> {
        let bell = Arc::new(Bell::new(ready));
        let refused = |error: Error| napi::Error::from_reason(error.to_string());
        let reader = || EventLoop::with_reader(Arc::new(Sockets(bell.clone())));
        let jobs = if reads { reader() } else { EventLoop::new() }.map_err(refused)?;
        let ringing = bell.clone();
        let watch = jobs.watch(move || ringing.ring()).map_err(refused)?;
        let room =
            Room { jobs, open: HashMap::new(), last: 0, held: Held::default(), lent: HashMap::new(), _watch: watch };
        let room = Arc::new(Mutex::new(Some(room)));
        let reactor = Reactor { room, bell, desk: Arc::default() };
        reactor.desk.serve(&reactor.bell);
        let left = (reactor.room.clone(), reactor.bell.clone(), reactor.desk.clone());
        env.add_env_cleanup_hook(left, |(room, bell, desk)| clean_up(&room, &bell, &desk))?;
        Ok(reactor)
    }

    /// Polls what can go on, and tells what ended: triples of a kind, a number and a value, one after another.
    #[napi(catch_unwind)]
    pub fn turn<'env>(&self, env: &'env Env) -> napi::Result<Array<'env>> {
        self.bell.rung.store(false, Ordering::Release);
        self.hear(env, EventLoop::turn)
    }

    /// Takes the first `length` bytes that came from a socket, none when it has ended, and tells what ended as `turn` does.
    #[napi(catch_unwind)]
    pub fn feed<'env>(&self, env: &'env Env, socket: u32, bytes: &[u8], length: u32) -> napi::Result<Array<'env>> {
        let length = bytes.len().min(length as usize);
        self.hear(env, |jobs| jobs.feed(socket as usize, &bytes[..length]))
    }

    /// The descriptor of that socket is Node's now, to be closed by it.
    #[napi(catch_unwind)]
    pub fn taken(&self, socket: u32) {
        let lent = locked(&self.room).as_mut().and_then(|room| room.lent.remove(&socket));
        lent.into_iter().for_each(Lent::given);
    }

    /// Nobody wants what the job is about any more.
    #[napi(catch_unwind)]
    pub fn forget(&self, env: &Env, job: u32) -> napi::Result<()> {
        let mut room = locked(&self.room);
        let Some(room) = &mut *room else { return Ok(()) };
        let Some(known) = room.open.remove(&job) else { return Ok(()) };
        room.jobs.abandon(known);
        if room.open.is_empty() {
            self.bell.keep_alive(env, false)?;
        }
        Ok(())
    }

    #[napi(catch_unwind)]
    pub fn acquire(&self, env: &Env, lock: &Lock, timeout: Option<f64>, owner: f64) -> Answer<u32> {
        let wanted = lock.wanted_by(Some(owner));
        let work = lock.limit(timeout).map(|limit| async move {
            let granted = wanted.acquire_within(limit).await;
            granted.map(|guard| Told::Granted(Box::new(guard)))
        });
        self.ask(env, work)
    }

    #[napi(catch_unwind)]
    pub fn acquire_all(&self, env: &Env, bundle: &Bundle, timeout: Option<f64>, owner: f64) -> Answer<u32> {
        let wanted = bundle.core.for_owner(known_as(owner));
        let work = bundle.limit(timeout).map(|limit| async move {
            let granted = wanted.acquire_within(limit).await;
            granted.map(|all| Told::AllGranted(all.into_guards()))
        });
        self.ask(env, work)
    }

    #[napi(catch_unwind)]
    pub fn any(&self, env: &Env, segments: &Segments, timeout: Option<f64>) -> Answer<u32> {
        let wanted = segments.core.clone();
        let work = segments.limit(timeout).map(|limit| async move {
            let found = wanted.any_within(limit).await?;
            Ok(Told::Segment(Box::new(found.map(|segment| (segment.index(), segment.into_guard())))))
        });
        self.ask(env, work)
    }

    #[napi(catch_unwind)]
    pub fn resume(&self, env: &Env, lock: &Lock, secret: String, owner: Option<f64>) -> Answer<u32> {
        let wanted = lock.wanted_by(owner);
        let work = async move { wanted.resume(&secret).await.map(|guard| Told::Granted(Box::new(guard))) };
        self.ask(env, Ok(work))
    }

    #[napi(catch_unwind)]
    pub fn export(&self, env: &Env, guard: u32, ttl: f64) -> Answer<u32> {
        let ttl = milliseconds("export", "ttl", ttl);
        let taken = ttl.and_then(|ttl| self.in_room("export", |room| Ok((ttl, room.held.take("export", guard)?))));
        let work = taken.map(|(ttl, mut core)| async move {
            Ok(match core.export(ttl).await {
                Ok(secret) => Told::Exported(secret.into_string()),
                Err(error) => Told::NotExported(guard, Box::new(core), error),
            })
        });
        self.ask(env, work)
    }

    #[napi(catch_unwind)]
    pub fn release(&self, env: &Env, guard: u32) -> Answer<u32> {
        let taken = self.in_room("release", |room| room.held.take("release", guard));
        self.ask(env, taken.map(|guard| async move { end(guard).await.map(Told::Released) }))
    }

    /// Gives several back in one write: what became of each.
    #[napi(catch_unwind)]
    pub fn release_all(&self, env: &Env, guards: Vec<u32>) -> Answer<u32> {
        let taken = self.in_room("release", |room| {
            let taken = guards.iter().map(|guard| room.held.take("release", *guard));
            Ok(MultiGuard::of(taken.collect::<Result<_>>()?))
        });
        self.ask(env, taken.map(|guards| async move { Ok(Told::AllReleased(end_all(guards).await)) }))
    }

    /// However early it is released, it stays taken until so long after its grant.
    #[napi(catch_unwind)]
    pub fn hold_at_least_for(&self, guard: u32, span: f64) -> Answer<bool> {
        let span = milliseconds("hold", "span", span);
        let kept = span
            .and_then(|span| self.in_room("hold", |room| room.held.get_mut("hold", guard)?.hold_at_least_for(span)));
        answer(kept.map(|()| true))
    }

    #[napi(catch_unwind)]
    pub fn extend(&self, env: &Env, guard: u32, ttl: f64) -> Answer<u32> {
        let ttl = milliseconds("extend", "ttl", ttl);
        let begun = ttl.and_then(|ttl| self.on_guard("extend", guard, |core| core.begin_extend(ttl)));
        self.ask(env, begun.map(|extended| async move { extended.await.map(|()| Told::Done) }))
    }

    /// Has the writer of a read/write lock go on as a reader, or a reader become the writer: whether it did.
    #[napi(catch_unwind)]
    pub fn change(&self, env: &Env, guard: u32, writes: bool) -> Answer<u32> {
        let to = if writes { Share::WRITE } else { Share::READ };
        let begun = self.on_guard(if writes { "upgrade" } else { "downgrade" }, guard, |core| core.begin_change(to));
        self.ask(env, begun.map(|changed| async move { changed.await.map(Told::Flag) }))
    }

    #[napi(catch_unwind)]
    pub fn resize(&self, env: &Env, lock: &Lock, permits: u32) -> Answer<u32> {
        let core = lock.core.clone();
        self.ask(env, Ok(async move { core.resize(permits).await.map(|()| Told::Done) }))
    }

    #[napi(catch_unwind)]
    pub fn latch_wait(&self, env: &Env, latch: &Latch, timeout: Option<f64>) -> Answer<u32> {
        let core = latch.core.clone();
        let work = |limit| async move { core.wait_within(limit).await.map(Told::Flag) };
        self.ask(env, latch.limit(timeout).map(work))
    }

    #[napi(catch_unwind)]
    pub fn latch_count_down(&self, env: &Env, latch: &Latch) -> Answer<u32> {
        let core = latch.core.clone();
        self.ask(env, Ok(async move { core.count_down().await.map(Told::Count) }))
    }

    #[napi(catch_unwind)]
    pub fn latch_count(&self, env: &Env, latch: &Latch) -> Answer<u32> {
        let core = latch.core.clone();
        self.ask(env, Ok(async move { core.count().await.map(Told::Count) }))
    }

    #[napi(catch_unwind)]
    pub fn latch_set(&self, env: &Env, latch: &Latch, to: u32) -> Answer<u32> {
        let core = latch.core.clone();
        self.ask(env, Ok(async move { core.try_set_count(to).await.map(Told::Flag) }))
    }

    #[napi(catch_unwind)]
    pub fn barrier_wait(&self, env: &Env, barrier: &Barrier, timeout: Option<f64>) -> Answer<u32> {
        let core = barrier.core.clone();
        let work = |limit| async move { core.wait_within(limit).await.map(Told::Passed) };
        self.ask(env, barrier.limit(timeout).map(work))
    }

    #[napi(catch_unwind)]
    pub fn barrier_waiting(&self, env: &Env, barrier: &Barrier) -> Answer<u32> {
        let core = barrier.core.clone();
        self.ask(env, Ok(async move { core.waiting().await.map(Told::Count) }))
    }

    /// The token and its epoch, which a change of part renews.
    #[napi(catch_unwind)]
    pub fn token(&self, guard: u32) -> Answer<Vec<BigInt>> {
        answer(self.on_guard("token", guard, |core| Ok(vec![core.token().n.into(), core.token().epoch.into()])))
    }

    /// For how many milliseconds the lock is certainly held.
    #[napi(catch_unwind)]
    pub fn remaining(&self, guard: u32) -> f64 {
        self.on_guard("remaining", guard, |core| Ok(in_ms(core.remaining()))).unwrap_or_default()
    }

    /// Why it was lost, if it was.
    #[napi(catch_unwind)]
    pub fn why_lost(&self, guard: u32) -> Option<&'static str> {
        self.on_guard("lost", guard, |core| Ok(core.why_lost())).ok()?.map(|why| why.code())
    }

    /// Has its loss told, once.
    #[napi(catch_unwind)]
    pub fn watch(&self, guard: u32) -> Answer<bool> {
        let watched = self.on_guard("lost", guard, |core| {
            let bell = self.bell.clone();
            core.on_lost(move |why| bell.leave(Mail::Lost(guard, why.code())));
            Ok(true)
        });
        answer(watched)
    }

    /// Lets the lease of a guard that was collected run out. For how many milliseconds it was still held.
    #[napi(catch_unwind)]
    pub fn abandon(&self, guard: u32) -> f64 {
        let abandoned = self.in_room("abandon", |room| {
            let core = room.held.take("abandon", guard)?;
            let left = core.remaining();
            core.abandon();
            Ok(in_ms(left))
        });
        abandoned.unwrap_or_default()
    }

    #[napi(catch_unwind)]
    pub fn inspect(&self, env: &Env, client: &Client, name: String) -> Answer<u32> {
        let core = client.core.clone();
        self.ask(env, Ok(async move { core.inspect(&name).await.map(|seen| Told::Seen(Box::new(seen))) }))
    }

    #[napi(catch_unwind)]
    pub fn inspect_lock(&self, env: &Env, lock: &Lock) -> Answer<u32> {
        let core = lock.core.clone();
        self.ask(env, Ok(async move { core.inspect().await.map(|seen| Told::Seen(Box::new(seen))) }))
    }

    #[napi(catch_unwind)]
    pub fn list(&self, env: &Env, client: &Client) -> Answer<u32> {
        let core = client.core.clone();
        self.ask(env, Ok(async move { core.list().await.map(Told::Names) }))
    }

    #[napi(catch_unwind)]
    pub fn break_lock(&self, env: &Env, client: &Client, name: String, expected: BigInt) -> Answer<u32> {
        let core = client.core.clone();
        let work = |token| async move { core.break_lock(&name, token).await.map(Told::Flag) };
        self.ask(env, token(&expected).map(work))
    }

    #[napi(catch_unwind)]
    pub fn break_hold(&self, env: &Env, lock: &Lock, expected: BigInt) -> Answer<u32> {
        let core = lock.core.clone();
        let work = |token| async move { core.break_lock(token).await.map(Told::Flag) };
        self.ask(env, token(&expected).map(work))
    }

    #[napi(catch_unwind)]
    pub fn ping(&self, env: &Env, client: &Client) -> Answer<u32> {
        let core = client.core.clone();
        self.ask(env, Ok(async move { core.ping().await.map(Told::Well) }))
    }

    /// The names of what is held yet after at most `limit` milliseconds.
    #[napi(catch_unwind)]
    pub fn drain(&self, env: &Env, client: &Client, limit: f64) -> Answer<u32> {
        let core = client.core.clone();
        let work = |limit| async move { core.drain(limit).await.map(Told::Names) };
        self.ask(env, milliseconds("drain", "limit", limit).map(work))
    }

    #[napi(catch_unwind)]
    pub fn close(&self, env: &Env, client: &Client) -> Answer<u32> {
        let core = client.core.clone();
        let work = async move {
            core.close().await;
            Ok(Told::Done)
        };
        self.ask(env, Ok(work))
    }

    /// The user and the password that were asked for, or why there are none.
    #[napi(catch_unwind)]
    pub fn give(&self, question: u32, user: Option<String>, password: Option<String>, why: Option<String>) {
        let found = match (user, password) {
            (Some(user), Some(password)) => Ok(Credentials { user, password }),
            _ => Err(why.unwrap_or_else(|| "the credentials function gave none".into())),
        };
        self.desk.give(question, found);
    }

    /// Has events told, of `level` (0, errors, to 4, traces; above, none) from now on; without one, of what level was set
    /// before, at first warnings.
    #[napi(catch_unwind)]
    pub fn listen(&self, level: Option<u8>) -> Answer<bool> {
        answer(listen(&self.bell, level).map(|()| true))
    }
}

/// The environment ends: its thread does this, and runs no JavaScript after it.
fn clean_up(room: &Mutex<Option<Room>>, bell: &Arc<Bell>, desk: &Desk) {
    report::leave(bell);
    let function = locked(&bell.function).take();
    desk.close();
    let left = locked(room).take();
    if let Some(mut left) = left {
        left.held.abandon();
        left.lent.drain().for_each(|(_, lent)| lent.end());
        // With its jobs: acquisitions are undone in the background.
        drop(left);
    }
    bell.close();
    drop(function);
}

/// Triples for JavaScript.
struct Triples<'env> {
    array: Array<'env>,
    length: u32,
}

impl Triples<'_> {
    fn add(&mut self, kind: u32, number: u32, value: impl ToNapiValue) -> napi::Result<()> {
        self.array.set(self.length, kind)?;
        self.array.set(self.length + 1, number)?;
        self.array.set(self.length + 2, value)?;
        self.length += 3;
        Ok(())
    }
}

impl Told {
    fn tell(self, env: &Env, number: u32, held: &mut Held, told: &mut Triples<'_>) -> napi::Result<()> {
        match self {
            Told::Granted(guard) => told.add(kind::DONE, number, grant(env, *guard, held)?),
            Told::AllGranted(guards) => {
                let mut all = env.create_array(0)?;
                for (at, guard) in (0..).zip(guards) {
                    let name = guard.name().to_owned();
                    all.set(2 * at, name)?;
                    all.set(2 * at + 1, grant(env, guard, held)?)?;
                }
                told.add(kind::DONE, number, all)
            }
            Told::Segment(found) => match *found {
                None => told.add(kind::DONE, number, ()),
                Some((index, guard)) => {
                    let mut segment = env.create_array(2)?;
                    segment.set(0, u32::try_from(index).unwrap_or(u32::MAX))?;
                    segment.set(1, grant(env, guard, held)?)?;
                    told.add(kind::DONE, number, segment)
                }
            },
            Told::Exported(secret) => told.add(kind::DONE, number, secret),
            Told::NotExported(guard, core, error) => {
                held.put_back(guard, *core);
                told.add(kind::FAILED, number, Failure::from(error))
            }
            Told::Released(Ending { outcome, why: None }) => told.add(kind::DONE, number, outcome),
            Told::Released(Ending { outcome, why: Some(why) }) => told.add(kind::DONE, number, vec![outcome, why]),
            Told::AllReleased(endings) => {
                let mut all = env.create_array(0)?;
                for (at, ending) in (0..).zip(endings) {
                    match ending {
                        Ok(Ending { outcome, why }) => all.set(at, vec![Some(outcome), why])?,
                        Err(error) => all.set(at, Failure::from(error))?,
                    }
                }
                told.add(kind::DONE, number, all)
            }
            Told::Well(health) => told.add(kind::DONE, number, Condition::from(health)),
            Told::Seen(found) => told.add(kind::DONE, number, seen(*found)),
            Told::Names(names) => told.add(kind::DONE, number, names),
            Told::Flag(flag) => told.add(kind::DONE, number, flag),
            Told::Count(count) => told.add(kind::DONE, number, count),
            Told::Passed(None) => told.add(kind::DONE, number, ()),
            Told::Passed(Some(Arrival { index, generation })) => {
                let mut arrival = env.create_array(2)?;
                arrival.set(0, index)?;
                arrival.set(1, BigInt::from(generation))?;
                told.add(kind::DONE, number, arrival)
            }
            Told::Done => told.add(kind::DONE, number, ()),
        }
    }
}

/// As `Grant` of `ts/native.ts`.
fn grant<'env>(env: &'env Env, guard: Guard, held: &mut Held) -> napi::Result<Array<'env>> {
    let (token, depth) = (guard.token(), guard.depth());
    let mut grant = env.create_array(4)?;
    grant.set(0, held.keep(guard))?;
    grant.set(1, token.n)?;
    grant.set(2, token.epoch)?;
    grant.set(3, depth)?;
    Ok(grant)
}

/// Where the driver's threads ask for credentials, and wait for JavaScript's answer.
#[derive(Default)]
pub(crate) struct Desk {
    state: Mutex<Questions>,
    answered: Condvar,
}

#[derive(Default)]
struct Questions {
    /// `None` once the environment has ended.
    bell: Option<Arc<Bell>>,
    open: HashMap<u32, Option<Found>>,
    last: u32,
}

type Found = std::result::Result<Credentials, String>;

impl Desk {
    fn serve(&self, bell: &Arc<Bell>) {
        locked(&self.state).bell = Some(bell.clone());
    }

    /// Blocks a thread of the driver's, which has no other work meanwhile, for `limit` at most.
    ///
    /// # Errors
    /// Why there are no credentials.
    pub(crate) fn ask(
        &self,
        whom: u32,
        limit: Duration,
    ) -> std::result::Result<Credentials, Box<dyn std::error::Error + Send + Sync>> {
        let mut state = locked(&self.state);
        let bell = state.bell.clone().ok_or("this environment of Node has ended")?;
        state.last = state.last.wrapping_add(1);
        let question = state.last;
        state.open.insert(question, None);
        bell.leave(Mail::Asked { whom, question });
        let unanswered =
            |state: &mut Questions| state.bell.is_some() && matches!(state.open.get(&question), Some(None));
        let waited = self.answered.wait_timeout_while(state, limit, unanswered);
        let found = waited.unwrap_or_else(PoisonError::into_inner).0.open.remove(&question).flatten();
        let late = || Err(format!("the credentials function did not answer within {limit:?}"));
        Ok(found.unwrap_or_else(late)?)
    }

    fn give(&self, question: u32, found: Found) {
        // Nobody waits for an answer that comes late.
        if let Some(open) = locked(&self.state).open.get_mut(&question) {
            *open = Some(found);
        }
        self.answered.notify_all();
    }

    fn close(&self) {
        locked(&self.state).bell = None;
        self.answered.notify_all();
    }
}
