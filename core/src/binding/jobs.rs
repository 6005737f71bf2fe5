//! Jobs by number: what a program's event loop asked for, until it took what came of it or gave it up.

use std::collections::VecDeque;
use std::future::Future;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::held::{Ending, part};
use super::numbered::Numbered;
use super::operation::Outcome;
use super::panicked;
use crate::client::{Guard, Lock};
use crate::driver::road::Road;
use crate::error::Result;
use crate::event_loop::{EventLoop, JobId, Reader, Seen, Watch};
use crate::platform::mutex::locked;
use crate::platform::portions::Portions;

/// The jobs of one event loop that is not Rust's. All of it belongs to the loop's own thread; see [`EventLoop`].
#[derive(Debug)]
pub struct Jobs {
    events: EventLoop,
    open: Mutex<Numbered<JobId>>,
    ended: Arc<Mutex<Vec<Ended>>>,
    untold: Mutex<Untold>,
}

/// Jobs that ended, of which a portion is told at a time.
#[derive(Debug)]
struct Untold {
    portions: Portions,
    waiting: VecDeque<Ended>,
    /// How many were told last.
    told: usize,
}

/// The number of a job, and what came of it.
pub type Ended = (u32, Result<Outcome>);

/// How an event loop sends what its tasks ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sends {
    /// In turns, each time all that was asked.
    InTurns,
    /// As it is asked, but for what several ask in the same moment.
    AtOnce,
}

/// Where a job leaves its result. Dropping it, as a job that panics does, reports the job as ended without one.
struct Delivery {
    number: u32,
    ended: Arc<Mutex<Vec<Ended>>>,
    result: Option<Result<Outcome>>,
}

impl Delivery {
    fn leave(&mut self, result: Result<Outcome>) {
        self.result = Some(result);
    }
}

impl Drop for Delivery {
    fn drop(&mut self) {
        let result = self.result.take().unwrap_or_else(|| Err(panicked()));
        locked(&self.ended).push((self.number, result));
    }
}

impl Jobs {
    /// Those of a new event loop that `sends` so, and whose sockets `reader` reads, if there is one.
    ///
    /// # Errors
    /// `internal` when the operating system refuses a thread or a descriptor.
    pub fn new(reader: Option<Arc<dyn Reader>>, sends: Sends) -> Result<Self> {
        let events = reader.map_or_else(EventLoop::new, EventLoop::with_reader)?;
        let portions = match sends {
            Sends::InTurns => Portions::default(),
            Sends::AtOnce => Portions::of_slow_tasks(),
        };
        let untold = Mutex::new(Untold { portions, waiting: VecDeque::new(), told: 0 });
        Ok(Jobs { events, open: Mutex::default(), ended: Arc::default(), untold })
    }

    /// Readable whenever [`turn`](Self::turn) has something to do.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.events.descriptor()
    }

    /// As [`EventLoop::watch`].
    ///
    /// # Errors
    /// As there.
    pub fn watch(&self, ready: impl Fn() + Send + 'static) -> Result<Watch> {
        self.events.watch(ready)
    }

    /// Whether it was made before a fork, by the parent: then nothing of it is to be touched in this process.
    pub fn is_forked(&self) -> bool {
        self.events.is_forked()
    }

    /// Whether nobody waits for anything.
    pub fn is_idle(&self) -> bool {
        locked(&self.open).is_empty()
    }

    /// Begins an operation, to be followed by [`go_on`](Self::go_on); its number, which is another's once it has ended
    /// or was [forgotten](Self::forget).
    pub fn begin(&self, work: impl Future<Output = Result<Outcome>> + Send + 'static) -> u32 {
        let mut open = locked(&self.open);
        let number = open.unused();
        let mut delivery = Delivery { number, ended: self.ended.clone(), result: None };
        let job = self.events.spawn(async move {
            let result = work.await;
            delivery.leave(result);
        });
        open.put(number, job);
        number
    }

    /// Begins to acquire a lock; what `Lock.acquire` does, without a step in between.
    pub fn acquire(&self, lock: Lock, limit: Option<Duration>) -> u32 {
        self.begin(async move { lock.acquire_within(limit).await.map(Outcome::Granted) })
    }

    /// Begins to give a lock back.
    pub fn release(&self, guard: Guard) -> u32 {
        self.begin(async move { Ending::of(Road::Task, guard).await.map(Outcome::Ended) })
    }

    /// Begins to give several back in one write.
    pub fn release_all(&self, guards: Vec<Guard>) -> u32 {
        self.begin(async move { Ok(Outcome::AllEnded(Ending::of_all(Road::Task, guards).await)) })
    }

    /// Begins to leave the lock of the guard of that `number` to a secret.
    pub fn export(&self, number: u32, mut guard: Guard, ttl: Duration) -> u32 {
        self.begin(async move {
            Ok(match guard.export(ttl).await {
                Ok(secret) => Outcome::Secret(secret),
                Err(error) => Outcome::NotExported(Box::new((number, guard, error))),
            })
        })
    }

    /// Begins to make a lease last `ttl` from now on.
    ///
    /// # Errors
    /// As [`Guard::begin_extend`].
    pub fn extend(&self, guard: &Guard, ttl: Duration) -> Result<u32> {
        let begun = guard.begin_extend(ttl)?;
        Ok(self.begin(async move { begun.await.map(|()| Outcome::DONE) }))
    }

    /// Begins to have a read/write lock's writer go on as a reader, or with `writes` a reader become the writer;
    /// whether it did.
    ///
    /// # Errors
    /// As [`Guard::begin_change`].
    pub fn change(&self, guard: &Guard, writes: bool) -> Result<u32> {
        let begun = guard.begin_change(part(writes))?;
        Ok(self.begin(async move { begun.await.map(|did| Outcome::Told(did.into())) }))
    }

    /// Nobody wants what comes of a job any more: what it was about is given up, or given back where it has come
    /// already. Whoever asked for it may ask again before others are told what came with it.
    pub fn forget(&self, job: u32) {
        let known = locked(&self.open).remove(job);
        known.into_iter().for_each(|known| self.events.abandon(known));
        drop(self.take_untold(job));
    }

    fn take_untold(&self, job: u32) -> Option<Ended> {
        let mut untold = locked(&self.untold);
        let is_its = |(number, _): &Ended| *number == job;
        let place = untold.waiting.iter().position(is_its);
        let waiting = place.and_then(|at| untold.waiting.remove(at));
        waiting.or_else(|| locked(&self.ended).extract_if(.., |ended| is_its(ended)).next())
    }

    /// Begins what nobody waits for.
    pub fn spawn_aside(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.events.spawn(work);
        self.events.go_on();
    }

    /// Polls what can go on, without blocking.
    pub fn turn(&self) {
        self.events.turn();
    }

    /// As [`EventLoop::wait`].
    pub fn wait(&self) -> Seen {
        self.events.wait()
    }

    /// As [`EventLoop::ring`].
    pub fn ring(&self) {
        self.events.ring();
    }

    /// As [`EventLoop::turn_to`].
    pub fn turn_to(&self, seen: Seen) {
        self.events.turn_to(seen);
    }

    /// As [`EventLoop::go_on`], after something was begun.
    pub fn go_on(&self) {
        self.events.go_on();
    }

    /// The same at once, where nobody else will ask in the same moment: one job was told last, and none waits but the
    /// one that was begun now. Whether it was done, and nothing is to be told.
    pub fn go_on_alone(&self) -> bool {
        let is_alone = locked(&self.open).len() == 1 && locked(&self.untold).told == 1;
        if is_alone {
            self.events.go_on();
        }
        is_alone && locked(&self.ended).is_empty()
    }

    /// Takes what was read from a socket, and polls what can go on then; see [`EventLoop::feed`].
    pub fn feed(&self, socket: usize, bytes: &[u8]) {
        self.events.feed(socket, bytes);
    }

    /// The jobs that ended since the last call. What came of forgotten ones is given back, in the background.
    pub fn ended(&self) -> Vec<Ended> {
        let ended = std::mem::take(&mut *locked(&self.ended));
        self.wanted(ended)
    }

    /// The next to be told of those that ended together, and whether there are more: what these ask is to be sent
    /// before others are told, so that the store has something to do meanwhile. There are none only where there are no
    /// more. [`ended`](Self::ended) has none of those that wait for that.
    pub fn ended_portion(&self) -> (Vec<Ended>, bool) {
        loop {
            let (portion, are_more) = self.next_portion();
            let wanted = self.wanted(portion);
            if !(wanted.is_empty() && are_more) {
                locked(&self.untold).told = wanted.len();
                return (wanted, are_more);
            }
        }
    }

    fn next_portion(&self) -> (Vec<Ended>, bool) {
        let mut untold = locked(&self.untold);
        let Untold { portions, waiting, .. } = &mut *untold;
        let came = std::mem::take(&mut *locked(&self.ended));
        let awaited = locked(&self.open).len().saturating_sub(waiting.len());
        portions.came(came.len(), awaited, came.len() >= awaited);
        waiting.extend(came);
        let portion = waiting.drain(..portions.next(waiting.len())).collect();
        (portion, !waiting.is_empty())
    }

    /// Those of `ended` that nobody forgot.
    fn wanted(&self, mut ended: Vec<Ended>) -> Vec<Ended> {
        let mut open = locked(&self.open);
        let forgotten: Vec<Ended> = ended.extract_if(.., |(number, _)| open.remove(*number).is_none()).collect();
        drop(open);
        drop(forgotten);
        ended
    }
}

#[cfg(all(test, feature = "memory"))]
mod tests {
    use super::super::client_of_test;
    use super::*;

    fn lock() -> Lock {
        client_of_test().lock("x").build().unwrap()
    }

    fn one(jobs: &Jobs) -> Ended {
        jobs.turn();
        let mut ended = jobs.ended();
        assert_eq!(ended.len(), 1);
        ended.remove(0)
    }

    /// What comes of a lock that is free in a moment.
    fn in_time(jobs: &Jobs, lock: Lock) -> Ended {
        jobs.acquire(lock, Some(Duration::from_secs(20)));
        loop {
            jobs.turn();
            if let Some(ended) = jobs.ended().pop() {
                return ended;
            }
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_job_ends_under_its_number() {
        let (jobs, lock) = (Jobs::new(None, Sends::InTurns).unwrap(), lock());
        assert!(jobs.is_idle());
        let number = jobs.acquire(lock.clone(), None);
        assert!(!jobs.is_idle());
        let (ended, Ok(Outcome::Granted(guard))) = one(&jobs) else { panic!("not granted") };
        assert_eq!(ended, number);
        assert!(jobs.is_idle());
        jobs.release(guard);
        let (_, Ok(Outcome::Ended(ending))) = one(&jobs) else { panic!("not released") };
        assert_eq!((ending.outcome.code(), ending.why), ("released", None));
    }

    #[test]
    fn what_nobody_wants_any_more_is_given_back() {
        let (jobs, lock) = (Jobs::new(None, Sends::InTurns).unwrap(), lock());
        let number = jobs.acquire(lock.clone(), None);
        jobs.turn();
        jobs.forget(number);
        assert!(jobs.is_idle() && jobs.ended().is_empty());
        assert!(matches!(in_time(&jobs, lock), (_, Ok(Outcome::Granted(_)))));
    }

    /// How many were told at a time.
    fn portions(jobs: &Jobs) -> Vec<usize> {
        let mut portions = Vec::new();
        loop {
            let (ended, are_more) = jobs.ended_portion();
            portions.push(ended.len());
            if !are_more {
                return portions;
            }
        }
    }

    #[test]
    fn of_many_that_ended_together_a_portion_is_told_at_a_time() {
        for (together, told) in [(5, vec![5]), (6, vec![4, 2]), (16, vec![8, 8]), (40, vec![20, 20])] {
            let jobs = Jobs::new(None, Sends::InTurns).unwrap();
            for _ in 0..together {
                jobs.begin(std::future::pending());
                jobs.begin(async { Ok(Outcome::DONE) });
            }
            jobs.turn();
            assert_eq!((portions(&jobs), jobs.is_idle()), (told, false));
        }
    }

    #[test]
    fn what_nobody_wants_any_more_is_given_back_although_its_portion_is_not_told() {
        let (jobs, lock) = (Jobs::new(None, Sends::InTurns).unwrap(), lock());
        for _ in 0..15 {
            jobs.begin(async { Ok(Outcome::DONE) });
        }
        let last = jobs.acquire(lock.clone(), None);
        jobs.turn();
        assert!(jobs.ended_portion().1);
        jobs.forget(last);
        // Whoever asked for it asks again: it does not wait for itself.
        assert!(matches!(in_time(&Jobs::new(None, Sends::InTurns).unwrap(), lock), (_, Ok(Outcome::Granted(_)))));
        assert_eq!(portions(&jobs), [4, 4, 3]);
    }

    /// Begins a job that nobody wants any more while it is polled, which no loop can drop then.
    fn begin_forgotten(jobs: &Arc<Jobs>, work: impl Future<Output = Result<Outcome>> + Send + 'static) {
        let (forgetful, mine) = (jobs.clone(), Arc::new(Mutex::new(0)));
        let number = mine.clone();
        let job = jobs.begin(async move {
            forgetful.forget(*locked(&number));
            work.await
        });
        *locked(&mine) = job;
    }

    #[test]
    fn what_nobody_wants_any_more_while_it_is_polled_is_given_back_and_not_told() {
        let (jobs, lock) = (Arc::new(Jobs::new(None, Sends::InTurns).unwrap()), lock());
        for place in 0..16 {
            match place {
                4 => {
                    let lock = lock.clone();
                    let acquired = async move { lock.acquire().await.map(Outcome::Granted) };
                    begin_forgotten(&jobs, acquired);
                }
                5..8 => begin_forgotten(&jobs, async { Ok(Outcome::DONE) }),
                _ => _ = jobs.begin(async { Ok(Outcome::DONE) }),
            }
        }
        jobs.turn();
        let told = portions(&jobs);
        assert!(
            told.iter().sum::<usize>() == 12 && !told.contains(&0),
            "a portion that nobody wants is none: {told:?}"
        );
        assert!(jobs.is_idle() && matches!(in_time(&jobs, lock), (_, Ok(Outcome::Granted(_)))));
    }

    #[test]
    fn what_nobody_wants_any_more_before_its_portion_is_told_is_given_back() {
        let (jobs, lock) = (Jobs::new(None, Sends::InTurns).unwrap(), lock());
        let others: Vec<u32> = (0..15).map(|_| jobs.begin(async { Ok(Outcome::DONE) })).collect();
        let last = jobs.acquire(lock.clone(), None);
        jobs.turn();
        assert!(jobs.ended_portion().1);
        others[4..8].iter().for_each(|other| jobs.forget(*other));
        jobs.forget(last);
        assert_eq!(
            (portions(&jobs), jobs.is_idle()),
            (vec![4, 3], true),
            "a portion of which nobody wants any is none"
        );
        assert!(matches!(in_time(&jobs, lock), (_, Ok(Outcome::Granted(_)))));
    }

    #[test]
    fn whoever_asks_alone_again_and_again_is_sent_at_once() {
        let jobs = Jobs::new(None, Sends::InTurns).unwrap();
        let polled = Arc::new(Mutex::new(0));
        let begin = |ends: bool| {
            let polled = polled.clone();
            jobs.begin(async move {
                *locked(&polled) += 1;
                if ends { Ok(Outcome::DONE) } else { std::future::pending().await }
            })
        };
        let tell = |told: usize| {
            jobs.go_on();
            assert_eq!(jobs.ended_portion().0.len(), told);
        };
        begin(true);
        assert!(!jobs.go_on_alone() && *locked(&polled) == 0, "others may ask with whoever is the first");
        tell(1);
        begin(true);
        assert!(!jobs.go_on_alone() && *locked(&polled) == 2, "it is to be told");
        tell(1);
        let waits = begin(false);
        assert!(jobs.go_on_alone() && *locked(&polled) == 3);
        begin(true);
        assert!(!jobs.go_on_alone() && *locked(&polled) == 3, "another waits");
        tell(1);
        jobs.forget(waits);
        begin(true);
        begin(true);
        tell(2);
        begin(false);
        assert!(!jobs.go_on_alone() && *locked(&polled) == 6, "the other that was told may ask, too");
    }

    #[test]
    fn a_job_that_panics_ends_as_an_error() {
        let jobs = Jobs::new(None, Sends::InTurns).unwrap();
        jobs.begin(async { panic!("a defect") });
        let (_, Err(error)) = one(&jobs) else { panic!("no error") };
        assert_eq!(error.code(), "internal");
    }
}
