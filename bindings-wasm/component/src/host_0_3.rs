//! The host, by WASI 0.3: the clock, randomness, and work in the background on all that the engine wants of the
//! network.
//!
//! Calls are tasks that wait beside one another. One of them works for all, and goes on when its own call has an
//! answer, for as long as something is held or asked; a task that only waits is woken once the engine has what it waits
//! for. A call that has no answer yet may be cancelled, and all that runs in its task with it, so the first call that
//! has one goes on with the work.
//!
//! To leave off reading, or waiting for a time, may take a moment, in which the host lets other calls in. So lines are
//! worked on, and dropped, while the client is not borrowed.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::{io, mem};

use lockwright_machines::time::Time;
use lockwright_wasm_engine::{Asked, Random, Ticket};
use wasip3::clocks::monotonic_clock;
use wasip3::random::random::get_random_u64;
use wit_bindgen::{StreamReader, StreamResult, spawn_local};

use self::network::{End, Means, Name, Wire};
pub(crate) use self::network::{Engine, open};
use crate::{Running, Shared};

#[cfg_attr(feature = "etcd", path = "host_0_3/http.rs")]
#[cfg_attr(not(feature = "etcd"), path = "host_0_3/sockets.rs")]
pub(crate) mod network;

/// How much is read at a time.
const ROOM: usize = 8 << 10;

pub(crate) fn now() -> Time {
    Time::from_nanos(monotonic_clock::now())
}

pub(crate) fn random() -> Random {
    Box::new(|| Some(u128::from(get_random_u64()) << 64 | u128::from(get_random_u64())))
}

type Done = Rc<dyn Fn(&Engine, Time) -> bool>;

/// Somebody who waits until the engine says so, or a time.
struct Wait {
    done: Done,
    limit: Option<Time>,
    waker: Waker,
}

impl Wait {
    fn is_over(&self, engine: &Engine, at: Time) -> bool {
        (self.done)(engine, at) || self.limit.is_some_and(|limit| limit <= at)
    }
}

/// Whoever works.
struct Work {
    number: u64,
    /// The wait in whose task it is, until that call has its answer.
    of: Option<u64>,
    waker: Option<Waker>,
}

impl Shared {
    /// Waits until the engine says so, or `limit`.
    pub(crate) async fn until(&self, limit: Option<Time>, done: impl Fn(&Engine, Time) -> bool + 'static) -> Time {
        let me = Waiting { client: self, number: self.0.borrow_mut().network.begin_wait() };
        let done: Done = Rc::new(done);
        self.send();
        let end = poll_fn(|cx| {
            let Running { engine, network } = &mut *self.0.borrow_mut();
            let (at, wait) = (now(), Wait { done: done.clone(), limit, waker: cx.waker().clone() });
            if wait.is_over(engine, at) {
                return Poll::Ready(at);
            }
            network.waits.insert(me.number, wait);
            if network.work.is_none() {
                self.work_in(network, Some(me.number));
            }
            Poll::Pending
        })
        .await;
        self.returns(me.number);
        end
    }

    pub(crate) async fn until_granted(&self, asked: &Asked) -> Time {
        self.until_settled(asked.ticket).await
    }

    pub(crate) async fn until_all_granted(&self, ticket: Ticket) {
        self.until_settled(ticket).await;
    }

    /// Has what was asked done, by whoever works.
    pub(crate) fn send(&self) {
        let Running { engine, network } = &mut *self.0.borrow_mut();
        network.perform(engine);
        network.wake_worker();
    }

    /// Gives back what was dropped: whoever works goes on with it.
    pub(crate) fn let_go(&self, let_go: impl FnOnce(&mut Engine, Time)) {
        self.tell(let_go);
    }

    /// Ends all that is open.
    pub(crate) fn hang_up(&self) {
        self.tell(|engine, _| engine.hang_up());
        self.drop_old();
    }

    /// This call has its answer, unless it waits for more: what is spawned comes after it.
    fn returns(&self, wait: u64) {
        let network = &mut self.0.borrow_mut().network;
        if matches!(network.work, Some(Work { of: Some(_), .. })) {
            network.returning = Some(wait);
            let client = self.clone();
            spawn_local(async move { client.take_over(wait) });
        }
    }

    /// Nobody can cancel the task of this call any more.
    fn take_over(&self, wait: u64) {
        let network = &mut self.0.borrow_mut().network;
        if network.returning.take_if(|returning| *returning == wait).is_none() {
            return;
        }
        match &mut network.work {
            Some(work) if work.of == Some(wait) => work.of = None,
            Some(Work { of: Some(_), .. }) => {
                network.wake_worker();
                self.work_in(network, None);
            }
            _ => {}
        }
    }

    fn work_in(&self, network: &mut Network, of: Option<u64>) {
        let number = network.next_number();
        network.work = Some(Work { number, of, waker: None });
        let worker = Worker { client: self.clone(), number };
        spawn_local(async move { poll_fn(|cx| worker.client.work(number, cx)).await });
    }

    fn work(&self, number: u64, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            {
                let Running { engine, network } = &mut *self.0.borrow_mut();
                match &mut network.work {
                    Some(work) if work.number == number => work.waker = Some(cx.waker().clone()),
                    // Whoever works instead goes on with what is begun here.
                    _ => {
                        network.wake_worker();
                        return Poll::Ready(());
                    }
                }
                network.hear(engine);
                network.perform(engine);
            }
            self.advance(cx);
            if self.wake() {
                if self.rest(number, cx) {
                    return Poll::Ready(());
                }
            } else if !self.rings(cx) {
                return Poll::Pending;
            }
        }
    }

    /// Takes each line as far as it comes.
    fn advance(&self, cx: &mut Context<'_>) {
        while self.step_each(false, cx) {}
    }

    /// Takes each line a step further, or has it rest; whether anything happened on one.
    fn step_each(&self, rests: bool, cx: &mut Context<'_>) -> bool {
        let names: Vec<Name> = self.0.borrow().network.lines.open.iter().map(|line| line.name).collect();
        let more = names.into_iter().fold(false, |more, name| self.step(name, rests, cx) | more);
        self.drop_old();
        more
    }

    fn step(&self, name: Name, rests: bool, cx: &mut Context<'_>) -> bool {
        let Some((wire, mut run)) = self.0.borrow_mut().network.lines.lend(name) else { return false };
        wire.borrow_mut().rests = rests;
        let end = match run.as_mut().poll(cx) {
            Poll::Ready(end) => Some(end),
            Poll::Pending => None,
        };
        let Running { engine, network } = &mut *self.0.borrow_mut();
        if !network.lines.give_back(name, &wire, run) {
            return false;
        }
        let more = network.tell(engine, name, &wire, end);
        network.perform(engine);
        more
    }

    /// Wakes those who have what they wait for; whether nothing is held, asked or awaited then.
    fn wake(&self) -> bool {
        let Running { engine, network } = &mut *self.0.borrow_mut();
        let at = now();
        for (_, wait) in network.waits.extract_if(.., |_, wait| wait.is_over(engine, at)) {
            wait.waker.wake();
        }
        network.may_rest(engine)
    }

    /// Ends the work, unless something comes meanwhile; whether it did.
    fn rest(&self, number: u64, cx: &mut Context<'_>) -> bool {
        self.step_each(true, cx);
        let alarms = mem::take(&mut self.0.borrow_mut().network.alarms);
        drop(alarms);
        let Running { engine, network } = &mut *self.0.borrow_mut();
        network.may_rest(engine) && network.work.take_if(|work| work.number == number).is_some()
    }

    fn drop_old(&self) {
        let old = mem::take(&mut self.0.borrow_mut().network.lines.old);
        drop(old);
    }

    /// Whether it is time for the engine to look.
    fn rings(&self, cx: &mut Context<'_>) -> bool {
        let Running { engine, network } = &mut *self.0.borrow_mut();
        // One that rings too early does no harm, and another one for each answer would.
        if let Some(due) = network.due(engine)
            && network.alarms.iter().all(|(at, _)| *at > due)
        {
            network.alarms.push((due, Box::pin(monotonic_clock::wait_until(due.as_nanos()))));
        }
        let count = network.alarms.len();
        network.alarms.retain_mut(|(_, alarm)| alarm.as_mut().poll(cx).is_pending());
        network.alarms.len() < count
    }
}

/// Whoever is away waits no more. Where the work ended with its task, another one of those who wait goes on with it.
struct Waiting<'a> {
    client: &'a Shared,
    number: u64,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let network = &mut self.client.0.borrow_mut().network;
        network.waits.remove(&self.number);
        if network.work.is_none()
            && let Some((_, wait)) = network.waits.pop_first()
        {
            wait.waker.wake();
        }
    }
}

/// A task that is cancelled drops the work first and then whoever waits in it, who must not be woken any more.
struct Worker {
    client: Shared,
    number: u64,
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.client.0.borrow_mut().network.work.take_if(|work| work.number == self.number);
    }
}

type Run = Pin<Box<dyn Future<Output = End>>>;
type Alarm = Pin<Box<dyn Future<Output = ()>>>;

/// What goes on beside the engine, from its beginning to its end.
struct Line {
    name: Name,
    wire: Rc<RefCell<Wire>>,
    /// Whoever works may have it.
    run: Option<Run>,
}

/// All lines of a client.
#[derive(Default)]
struct Lines {
    /// Too few for a map.
    open: Vec<Line>,
    /// Ended, and not to be dropped while the client is borrowed.
    old: Vec<Run>,
}

impl Lines {
    fn begin<R: Future<Output = End> + 'static>(&mut self, name: Name, run: impl FnOnce(Rc<RefCell<Wire>>) -> R) {
        self.end(name);
        let wire = Rc::<RefCell<Wire>>::default();
        let run: Run = Box::pin(run(wire.clone()));
        self.open.push(Line { name, wire, run: Some(run) });
    }

    fn get(&mut self, name: Name) -> Option<&mut Line> {
        self.open.iter_mut().find(|line| line.name == name)
    }

    fn end(&mut self, name: Name) {
        let ended = self.open.extract_if(.., |line| line.name == name);
        self.old.extend(ended.filter_map(|line| line.run));
    }

    fn lend(&mut self, name: Name) -> Option<(Rc<RefCell<Wire>>, Run)> {
        let line = self.get(name)?;
        Some((line.wire.clone(), line.run.take()?))
    }

    /// Whether it has not been ended meanwhile.
    fn give_back(&mut self, name: Name, wire: &Rc<RefCell<Wire>>, run: Run) -> bool {
        match self.get(name) {
            Some(line) if Rc::ptr_eq(&line.wire, wire) => line.run = Some(run),
            _ => {
                self.old.push(run);
                return false;
            }
        }
        true
    }

    fn may_rest(&self) -> bool {
        self.open.iter().all(|line| line.run.is_some() && line.wire.borrow().may_rest())
    }
}

/// The lines of a client, and whoever waits.
#[derive(Default)]
pub(crate) struct Network {
    means: Means,
    lines: Lines,
    waits: BTreeMap<u64, Wait>,
    work: Option<Work>,
    alarms: Vec<(Time, Alarm)>,
    /// The wait that ended last in the call that runs.
    returning: Option<u64>,
    last_number: u64,
}

impl Network {
    pub(crate) fn new(means: Means) -> Self {
        Network { means, ..Network::default() }
    }

    fn begin_wait(&mut self) -> u64 {
        self.returning = None;
        self.next_number()
    }

    fn next_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    fn wake_worker(&mut self) {
        if let Some(waker) = self.work.as_mut().and_then(|work| work.waker.take()) {
            waker.wake();
        }
    }

    /// What came was heard when it came; only time may have passed.
    pub(crate) fn hear(&mut self, engine: &mut Engine) -> Time {
        let at = now();
        engine.look(at);
        at
    }

    /// Does what the engine wants done.
    fn perform(&mut self, engine: &mut Engine) {
        while let Some(action) = engine.next_action() {
            self.act(engine, action);
        }
    }

    /// Whether nothing is held, asked or awaited.
    fn may_rest(&self, engine: &Engine) -> bool {
        self.waits.is_empty() && engine.is_over() && self.lines.may_rest()
    }

    /// When to look again.
    fn due(&self, engine: &Engine) -> Option<Time> {
        let limits = self.waits.values().filter_map(|wait| wait.limit);
        engine.next_look().into_iter().chain(limits).min()
    }
}

/// Reads until the other side ends, or what it says is of no use.
async fn read(wire: &RefCell<Wire>, input: &mut StreamReader<u8>) -> io::Result<()> {
    loop {
        poll_fn(|_| if wire.borrow().rests { Poll::Pending } else { Poll::Ready(()) }).await;
        let mut reading = pin!(input.read(Vec::with_capacity(ROOM)));
        let (result, bytes) = poll_fn(|cx| {
            let rests = wire.borrow().rests;
            if rests { Poll::Ready(reading.as_mut().cancel()) } else { reading.as_mut().poll(cx) }
        })
        .await;
        wire.borrow_mut().hear(bytes)?;
        if matches!(result, StreamResult::Dropped) {
            return Ok(());
        }
    }
}
