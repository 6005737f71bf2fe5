//! Where one environment of Node polls the core: the main thread's, or a worker's.
//!
//! What JavaScript asks becomes a job, known by its number. [`turn`](Reactor::turn) polls the jobs on the environment's
//! own thread and tells what ended; the wrapper keeps the promises. Sockets are read by Node, and written here; the
//! driver's thread watches for all else, and rings.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lockwright::binding::jobs::{Ended, Sends};
use lockwright::binding::{Broker, Ending, Given, Jobs, Outcome, Record, lost_track};
use lockwright::event_loop::{Reader, Watch};
use lockwright::lease::{LossReason, ReleaseOutcome};
use lockwright::options::{Credentials, CredentialsSource};
use lockwright::{Error, Guard, Kind, Result};
use napi::bindgen_prelude::{Array, BigInt, Either, External, Float64Array, ToNapiValue};
use napi::threadsafe_function::{ThreadsafeFunction, ThreadsafeFunctionCallMode};
use napi::{Env, Status};
use napi_derive::napi;

use crate::descriptor::Lent;
use crate::error::{Answer, Failure, answer};
use crate::guard::Guards;
use crate::handle::{Handle, Word, whole};
use crate::report::news;
use crate::value::{NODE, js, number, object};
use crate::{locked, report};

/// One environment's jobs and what it holds. All but its notifier is used by the environment's thread alone. JavaScript
/// hands it to each function: to find an object of a class takes longer than most of what is asked of it.
pub struct Reactor {
    environment: Arc<Mutex<Option<Environment>>>,
    notifier: Arc<Notifier>,
    broker: Arc<Broker>,
}

struct Environment {
    jobs: Jobs,
    everyday: Everyday,
    guards: Guards,
    /// What Node was told of and has not taken yet, by socket.
    lent: HashMap<u32, Lent>,
    _watch: Watch,
}

/// What waits for the next turn.
enum Message {
    Lost(u32, &'static str),
    Wanted(u32),
    Asked { whom: u32, question: u32 },
    Read { socket: u32, descriptor: OwnedFd },
    Unread { socket: u32 },
}

/// How `ts/reactor.ts` reads what `turn` returns, if it is a list: triples of one of these, a number, and a value.
mod kind {
    pub(super) const FAILED: u32 = 0;
    pub(super) const DONE: u32 = 1;
    pub(super) const LOST: u32 = 2;
    pub(super) const ASKED: u32 = 3;
    pub(super) const NEWS: u32 = 4;
    pub(super) const READ: u32 = 5;
    pub(super) const UNREAD: u32 = 6;
    pub(super) const WANTED: u32 = 7;
    pub(super) const MORE: u32 = 8;
}

type Function = ThreadsafeFunction<(), (), (), Status, false, true>;

/// Calls for a turn from any thread, as long as the environment exists, and keeps what that turn is to tell.
pub(crate) struct Notifier {
    function: Mutex<Option<Function>>,
    notified: AtomicBool,
    /// `None` once the environment has ended: what comes later is dropped.
    messages: Mutex<Option<Vec<Message>>>,
}

impl Notifier {
    fn new(ready: Function) -> Self {
        let messages = Mutex::new(Some(Vec::new()));
        Notifier { function: Mutex::new(Some(ready)), notified: AtomicBool::new(false), messages }
    }

    fn post(&self, message: Message) {
        if let Some(kept) = &mut *locked(&self.messages) {
            kept.push(message);
        } else {
            // Not dropped under the mutex: that may post more messages.
            return;
        }
        self.notify();
    }

    fn take_messages(&self) -> Vec<Message> {
        locked(&self.messages).as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// What is in a message keeps its connection, and that this notifier.
    fn close(&self) {
        let left = locked(&self.messages).take();
        drop(left);
    }

    pub(crate) fn notify(&self) {
        if !self.notified.swap(true, Ordering::AcqRel)
            && let Some(function) = &*locked(&self.function)
        {
            // It refuses only where the environment ends.
            function.call((), ThreadsafeFunctionCallMode::NonBlocking);
        }
    }

    /// Whether the environment must go on existing for what is notified.
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
struct Sockets(Arc<Notifier>);

impl Reader for Sockets {
    fn read(&self, number: usize, descriptor: OwnedFd) {
        if let Ok(socket) = u32::try_from(number) {
            self.0.post(Message::Read { socket, descriptor });
        }
    }

    fn stop(&self, number: usize) {
        if let Ok(socket) = u32::try_from(number) {
            self.0.post(Message::Unread { socket });
        }
    }
}

impl Reactor {
    /// Asks JavaScript's function of that number for user and password, and waits for at most so long.
    pub(crate) fn source(&self, whom: u32, limit: Duration) -> CredentialsSource {
        let (broker, notifier) = (self.broker.clone(), self.notifier.clone());
        let post = move |question| notifier.post(Message::Asked { whom, question });
        Arc::new(move || broker.ask("credentials function", limit, &post))
    }

    fn in_environment<T>(
        &self,
        operation: &'static str,
        work: impl FnOnce(&mut Environment) -> Result<T>,
    ) -> Result<T> {
        let mut environment = locked(&self.environment);
        let ended = || Error::new(Kind::Closed, operation, "this environment of Node has ended");
        environment.as_mut().ok_or_else(ended).and_then(work)
    }

    /// Begins a job, to be followed by `go_on`; one that was sent at once is told by its complement, below zero.
    fn ask(&self, env: &Env, begin: impl FnOnce(&mut Environment) -> Result<u32>) -> Answer<i64> {
        answer(self.in_environment("call", |environment| {
            let was_idle = environment.jobs.is_idle();
            let job = begin(environment)?;
            if was_idle {
                self.notifier.keep_alive(env, true).map_err(|_| lost_track("call"))?;
            }
            Ok(if environment.jobs.go_on_alone() { !i64::from(job) } else { job.into() })
        }))
    }

    fn hear<'env>(&self, env: &'env Env, run: impl FnOnce(&Jobs)) -> napi::Result<Told<'env>> {
        let mut environment = locked(&self.environment);
        let Some(environment) = &mut *environment else { return Ok(Told::A(0)) };
        let was_busy = !environment.jobs.is_idle();
        run(&environment.jobs);
        let (messages, events) = (self.notifier.take_messages(), news(&self.notifier));
        let (ended, are_more) = environment.jobs.ended_portion();
        let told = match messages.is_empty() && events.is_empty() && environment.everyday.has_room_for(&ended) {
            true => Told::A(environment.tell_everyday(ended) * if are_more { -1 } else { 1 }),
            false => Told::B(environment.tell_all(env, messages, ended, are_more, events)?),
        };
        if was_busy && environment.jobs.is_idle() {
            self.notifier.keep_alive(env, false)?;
        }
        Ok(told)
    }

    fn on_guard<T>(
        &self,
        operation: &'static str,
        guard: u32,
        work: impl FnOnce(&mut Guard) -> Result<T>,
    ) -> Result<T> {
        self.in_environment(operation, |environment| work(environment.guards.get(operation, guard)?))
    }
}

/// How many ended in a way that is told by [`Everyday`], negative where more are to be told; or all that is to be told.
type Told<'env> = Either<i32, Array<'env>>;

/// Numbers that JavaScript reads where they lie: to make an object for each grant takes longer than all else that is
/// done for it here. They are of jobs that were granted a lock, or gave it back in time.
struct Everyday(Float64Array);

/// The numbers of one of them: the job, then those of `Grant` of `ts/native.ts`; of what was given back only the job,
/// at the depth 0.
const NUMBERS: usize = 5;
/// What JavaScript counts exactly.
const EXACT: u64 = 1 << 53;

impl Everyday {
    fn has_room_for(&self, ended: &[Ended]) -> bool {
        let is_usual = |(_, result): &Ended| match result {
            Ok(Outcome::Granted(guard)) => guard.token().n.max(guard.token().epoch) <= EXACT,
            Ok(Outcome::Ended(Ending { outcome, why: None })) => *outcome == ReleaseOutcome::Released,
            _ => false,
        };
        ended.len() * NUMBERS <= self.0.len() && ended.iter().all(is_usual)
    }

    fn put(&mut self, at: usize, numbers: [f64; NUMBERS]) {
        // SAFETY: JavaScript reads it when this thread, its own, has returned there.
        let all = unsafe { self.0.as_mut() };
        all[at * NUMBERS..][..NUMBERS].copy_from_slice(&numbers);
    }
}

/// `ready` is called when a turn has something to do; it has to call `turn`. Where the environment `reads` sockets
/// it is given their descriptors, else they are read in turns. In `everyday` is told what a turn most often tells.
#[napi(catch_unwind)]
pub fn start(env: &Env, ready: Function, reads: bool, everyday: Float64Array) -> napi::Result<External<Reactor>> {
    let notifier = Arc::new(Notifier::new(ready));
    let refused = |error: Error| napi::Error::from_reason(error.to_string());
    let reader = reads.then(|| Arc::new(Sockets(notifier.clone())) as Arc<dyn Reader>);
    let jobs = Jobs::new(reader, Sends::InTurns).map_err(refused)?;
    let notifying = notifier.clone();
    let watch = jobs.watch(move || notifying.notify()).map_err(refused)?;
    let (everyday, guards, lent) = (Everyday(everyday), Guards::default(), HashMap::new());
    let environment = Environment { jobs, everyday, guards, lent, _watch: watch };
    let environment = Arc::new(Mutex::new(Some(environment)));
    let reactor = Reactor { environment, notifier, broker: Arc::default() };
    let left = (reactor.environment.clone(), reactor.notifier.clone(), reactor.broker.clone());
    env.add_env_cleanup_hook(left, |(environment, notifier, broker)| clean_up(&environment, &notifier, &broker))?;
    Ok(External::new(reactor))
}

/// Polls what can go on, and tells what ended: how many jobs are told in `everyday`, or triples of a kind, a number
/// and a value, one after another. Where it says that there are more, the next call, of any that tells, tells them.
#[napi(catch_unwind)]
pub fn turn<'env>(env: &'env Env, reactor: &External<Reactor>) -> napi::Result<Told<'env>> {
    reactor.notifier.notified.store(false, Ordering::Release);
    reactor.hear(env, Jobs::turn)
}

/// As `turn`, after something was begun: `ready` is called where there is more to do.
#[napi(catch_unwind)]
pub fn go_on<'env>(env: &'env Env, reactor: &External<Reactor>) -> napi::Result<Told<'env>> {
    reactor.hear(env, Jobs::go_on)
}

/// Takes the first `length` bytes that came from a socket, none when it has ended, and tells what ended as `turn`
/// does.
#[napi(catch_unwind)]
pub fn feed<'env>(
    env: &'env Env,
    reactor: &External<Reactor>,
    socket: u32,
    bytes: &[u8],
    length: u32,
) -> napi::Result<Told<'env>> {
    let length = bytes.len().min(length as usize);
    reactor.hear(env, |jobs| jobs.feed(socket as usize, &bytes[..length]))
}

/// The descriptor of that socket is Node's now, to be closed by it.
#[napi(catch_unwind)]
pub fn taken(reactor: &External<Reactor>, socket: u32) {
    let lent = locked(&reactor.environment).as_mut().and_then(|environment| environment.lent.remove(&socket));
    lent.into_iter().for_each(Lent::given);
}

/// Nobody wants what the job is about any more.
#[napi(catch_unwind)]
pub fn forget(env: &Env, reactor: &External<Reactor>, job: u32) -> napi::Result<()> {
    let mut environment = locked(&reactor.environment);
    let Some(environment) = &mut *environment else { return Ok(()) };
    let was_busy = !environment.jobs.is_idle();
    environment.jobs.forget(job);
    if was_busy && environment.jobs.is_idle() {
        reactor.notifier.keep_alive(env, false)?;
    }
    Ok(())
}

/// What `begin` does for a lock, without a list of arguments.
#[napi(catch_unwind)]
pub fn acquire(
    env: &Env,
    reactor: &External<Reactor>,
    lock: &External<Handle>,
    timeout: Option<f64>,
    owner: f64,
) -> Answer<i64> {
    reactor.ask(env, |environment| Ok(environment.jobs.acquire(lock.wanted_by(owner)?, lock.limit(timeout)?)))
}

/// Begins the operation of that name, for an acquisition of that number if it is one.
#[napi(catch_unwind)]
pub fn begin(
    env: &Env,
    reactor: &External<Reactor>,
    of: &Handle,
    name: String,
    words: Vec<Word>,
    owner: Option<f64>,
) -> Answer<i64> {
    reactor.ask(env, |environment| {
        let (operation, core, arguments) = of.asked(&name, words, owner)?;
        Ok(environment.jobs.begin(operation.run(core, arguments)))
    })
}

#[napi(catch_unwind)]
pub fn export(env: &Env, reactor: &External<Reactor>, guard: u32, ttl: f64) -> Answer<i64> {
    reactor.ask(env, |environment| {
        let ttl = NODE.span("export", "ttl", &Given::Number(ttl))?;
        Ok(environment.jobs.export(guard, environment.guards.take("export", guard)?, ttl))
    })
}

#[napi(catch_unwind)]
pub fn release(env: &Env, reactor: &External<Reactor>, guard: u32) -> Answer<i64> {
    reactor.ask(env, |environment| Ok(environment.jobs.release(environment.guards.take("release", guard)?)))
}

/// Gives several back in one write: what became of each.
#[napi(catch_unwind)]
pub fn release_all(env: &Env, reactor: &External<Reactor>, guards: Vec<u32>) -> Answer<i64> {
    reactor.ask(env, |environment| {
        let taken = guards.iter().map(|guard| environment.guards.take("release", *guard));
        Ok(environment.jobs.release_all(taken.collect::<Result<_>>()?))
    })
}

/// However early it is released, it stays taken until so long after its grant.
#[napi(catch_unwind)]
pub fn hold_at_least_for(reactor: &External<Reactor>, guard: u32, span: f64) -> Answer<bool> {
    let span = NODE.span("hold", "span", &Given::Number(span));
    let held = span.and_then(|span| reactor.on_guard("hold", guard, |core| core.hold_at_least_for(span)));
    answer(held.map(|()| true))
}

#[napi(catch_unwind)]
pub fn extend(env: &Env, reactor: &External<Reactor>, guard: u32, ttl: f64) -> Answer<i64> {
    reactor.ask(env, |environment| {
        let ttl = NODE.span("extend", "ttl", &Given::Number(ttl))?;
        environment.jobs.extend(environment.guards.get("extend", guard)?, ttl)
    })
}

/// Has the writer of a read/write lock go on as a reader, or a reader become the writer: whether it did.
#[napi(catch_unwind)]
pub fn change(env: &Env, reactor: &External<Reactor>, guard: u32, writes: bool) -> Answer<i64> {
    let operation = if writes { "upgrade" } else { "downgrade" };
    reactor.ask(env, |environment| environment.jobs.change(environment.guards.get(operation, guard)?, writes))
}

/// The token and its epoch, which a change of part renews.
#[napi(catch_unwind)]
pub fn token(reactor: &External<Reactor>, guard: u32) -> Answer<Vec<BigInt>> {
    answer(reactor.on_guard("token", guard, |core| Ok(vec![core.token().n.into(), core.token().epoch.into()])))
}

/// For how many milliseconds the lock is certainly held.
#[napi(catch_unwind)]
pub fn remaining(reactor: &External<Reactor>, guard: u32) -> f64 {
    reactor.on_guard("remaining", guard, |core| Ok(NODE.number(core.remaining()))).unwrap_or_default()
}

/// Whether there is a guard of this number, which was not given back.
#[napi(catch_unwind)]
pub fn has_guard(reactor: &External<Reactor>, guard: u32) -> bool {
    reactor.on_guard("lost", guard, |_| Ok(())).is_ok()
}

/// Why it was lost, if it was.
#[napi(catch_unwind)]
pub fn why_lost(reactor: &External<Reactor>, guard: u32) -> Option<&'static str> {
    reactor.on_guard("lost", guard, |core| Ok(core.why_lost())).ok()?.map(|why| why.code())
}

/// Has its loss told, once.
#[napi(catch_unwind)]
pub fn watch(reactor: &External<Reactor>, guard: u32) -> Answer<bool> {
    let watched = reactor.on_guard("lost", guard, |core| {
        let notifier = reactor.notifier.clone();
        core.on_lost(move |why| notifier.post(Message::Lost(guard, why.code())));
        Ok(true)
    });
    answer(watched)
}

/// Whether somebody asked for it back.
#[napi(catch_unwind)]
pub fn release_requested(reactor: &External<Reactor>, guard: u32) -> bool {
    reactor.on_guard("release_requested", guard, |core| Ok(core.release_requested())).unwrap_or_default()
}

/// Has it told, once, when somebody asks for it back.
#[napi(catch_unwind)]
pub fn heed(reactor: &External<Reactor>, guard: u32) -> Answer<bool> {
    let heeded = reactor.on_guard("on_release_requested", guard, |core| {
        let notifier = reactor.notifier.clone();
        core.on_release_requested(move || notifier.post(Message::Wanted(guard)));
        Ok(true)
    });
    answer(heeded)
}

/// Lets the lease of a guard that was collected run out. The lock's name, and for how many milliseconds it was
/// still held, if it was.
#[napi(catch_unwind)]
pub fn abandon(reactor: &External<Reactor>, guard: u32) -> Option<(String, f64)> {
    let abandoned = reactor.in_environment("abandon", |environment| {
        let core = environment.guards.take("abandon", guard)?;
        let (name, left) = (core.name().to_owned(), core.remaining());
        core.abandon();
        Ok((!left.is_zero()).then(|| (name, NODE.number(left))))
    });
    abandoned.ok().flatten()
}

/// The user and the password that were asked for, or why there are none.
#[napi(catch_unwind)]
pub fn give(
    reactor: &External<Reactor>,
    question: u32,
    user: Option<String>,
    password: Option<String>,
    why: Option<String>,
) {
    let found = match (user, password) {
        (Some(user), Some(password)) => Ok(Credentials { user, password }),
        _ => Err(why.unwrap_or_else(|| "the credentials function gave none".into())),
    };
    reactor.broker.give(question, found);
}

/// Has events told, of `level` (0, errors, to 4, traces; above, none) from now on; without one, of what level was
/// set before, at first warnings.
#[napi(catch_unwind)]
pub fn listen(reactor: &External<Reactor>, level: Option<u8>) -> Answer<bool> {
    answer(report::listen(&reactor.notifier, level).map(|()| true))
}

/// The environment ends: its thread does this, and runs no JavaScript after it.
fn clean_up(environment: &Mutex<Option<Environment>>, notifier: &Arc<Notifier>, broker: &Broker) {
    report::leave(notifier);
    let function = locked(&notifier.function).take();
    broker.close("this environment of Node has ended");
    let left = locked(environment).take();
    if let Some(mut left) = left {
        // Whoever used them is gone, maybe in the middle of what they protect: the leases run out.
        left.guards.0.take_all().for_each(Guard::abandon);
        left.lent.drain().for_each(|(_, lent)| lent.end());
        // With its jobs: acquisitions are undone in the background.
        drop(left);
    }
    notifier.close();
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

impl Environment {
    /// How many ended in one of the two usual ways.
    fn tell_everyday(&mut self, ended: Vec<Ended>) -> i32 {
        let count = i32::try_from(ended.len()).unwrap_or(i32::MAX);
        for (at, (job, result)) in ended.into_iter().enumerate() {
            let numbers = match result {
                Ok(Outcome::Granted(guard)) => {
                    let Grant { guard, token, epoch, depth } = grant(guard, &mut self.guards);
                    [job.into(), guard.into(), number(token), number(epoch), depth.into()]
                }
                _ => [job.into(), 0., 0., 0., 0.],
            };
            self.everyday.put(at, numbers);
        }
        count
    }

    fn tell_all<'env>(
        &mut self,
        env: &'env Env,
        messages: Vec<Message>,
        ended: Vec<Ended>,
        are_more: bool,
        events: Vec<Record>,
    ) -> napi::Result<Array<'env>> {
        let mut told = Triples { array: env.create_array(0)?, length: 0 };
        for message in messages {
            match message {
                Message::Lost(guard, why) => told.add(kind::LOST, guard, why)?,
                Message::Wanted(guard) => told.add(kind::WANTED, guard, ())?,
                Message::Asked { whom, question } => told.add(kind::ASKED, whom, question)?,
                Message::Read { socket, descriptor } => {
                    let lent = Lent::new(descriptor);
                    told.add(kind::READ, socket, lent.number())?;
                    self.lent.insert(socket, lent);
                }
                Message::Unread { socket } => told.add(kind::UNREAD, socket, ())?,
            }
        }
        for (job, result) in ended {
            self.tell(env, job, result, &mut told)?;
        }
        if are_more {
            told.add(kind::MORE, 0, ())?;
        }
        for event in events {
            told.add(kind::NEWS, 0, object(env, event)?)?;
        }
        Ok(told.array)
    }

    fn tell(&mut self, env: &Env, job: u32, result: Result<Outcome>, told: &mut Triples<'_>) -> napi::Result<()> {
        match result {
            Err(error) => told.add(kind::FAILED, job, Failure::from(error)),
            Ok(Outcome::Told(value)) => told.add(kind::DONE, job, js(env, value)?),
            Ok(Outcome::Granted(guard)) => told.add(kind::DONE, job, grant(guard, &mut self.guards)),
            Ok(Outcome::AllGranted(guards)) => {
                let all = guards.into_iter().map(|guard| (guard.name().to_owned(), grant(guard, &mut self.guards)));
                told.add(kind::DONE, job, all.collect::<Vec<_>>())
            }
            Ok(Outcome::Segment(index, guard, _)) => {
                told.add(kind::DONE, job, (whole(index), grant(guard, &mut self.guards)))
            }
            Ok(Outcome::Secret(secret)) => told.add(kind::DONE, job, secret.into_string()),
            Ok(Outcome::NotExported(kept)) => {
                let (number, guard, error) = *kept;
                if !guard.is_over() {
                    self.guards.0.put(number, guard);
                }
                told.add(kind::FAILED, job, Failure::from(error))
            }
            Ok(Outcome::Ended(Ending { outcome, why: None })) => told.add(kind::DONE, job, outcome.code()),
            Ok(Outcome::Ended(ending)) => told.add(kind::DONE, job, ended(&ending)),
            Ok(Outcome::AllEnded(endings)) => {
                let all = endings.into_iter().map(|ending| answer(ending.map(|ending| ended(&ending))));
                told.add(kind::DONE, job, all.collect::<Vec<_>>())
            }
        }
    }
}

/// As `Ending` of `ts/guard.ts`.
fn ended(Ending { outcome, why }: &Ending) -> Vec<Option<&'static str>> {
    vec![Some(outcome.code()), why.as_ref().map(LossReason::code)]
}

/// As `Grant` of `ts/native.ts`.
#[napi(object, object_from_js = false)]
pub struct Grant {
    pub guard: u32,
    pub token: u64,
    pub epoch: u64,
    pub depth: u32,
}

fn grant(guard: Guard, guards: &mut Guards) -> Grant {
    let (token, depth) = (guard.token(), guard.depth());
    Grant { guard: guards.0.keep(guard), token: token.n, epoch: token.epoch, depth }
}
