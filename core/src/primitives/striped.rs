//! A hot lock cut into segments: [`Client::striped`](crate::Client::striped).
//!
//! **When to use.** Many want the same thing, and it can be cut up: a stock of a million in 32 parts, each sold under a
//! lock of its own, so that 32 sell at once ([`Striped::any`]). Or many keys are to share a bounded number of locks
//! ([`Striped::for_key`]).
//!
//! **When not.** Where the whole must be seen at once, such as to say whether anything is left at this very moment.
//! Where one segment does, since nobody waits.
//!
//! Segment `i` of `n` is the lock `{name}#{i}`. `any` tries all that are not known to be sold out by one request (where
//! the layout can; one after the other elsewhere), beginning at a segment that moves on with each call, and takes the
//! first that is free; if none is, it waits in the queue of one of them, and looks for a free one again every 250 ms.
//! Whoever finds its segment empty says so ([`Segment::sold_out`]), and this object offers that segment no more; once
//! all are, `any` gives `None`. What is sold out is the caller's to know, and remembered here only: another process
//! finds out by itself.
//!
//! The segments may lie with several servers, so that no one of them has all the load ([`Striped::across`]). `any` then
//! asks one after the other, each by one request, and a server that cannot be reached is left out for ten seconds: its
//! segments wait, the others go on selling.
//!
//! The segment of a key is the first 8 bytes of the SHA-1 of its UTF-8, as a big-endian number, modulo `n`: the same in
//! every language and version.
//!
//! ```no_run
//! # async fn stock(segment: usize) -> u32 { 0 }
//! # async fn sell(segment: usize) {}
//! # async fn example(client: lockwright::Client) -> lockwright::Result<()> {
//! let sale = client.striped("sale:10001", 32)?;
//! while let Some(segment) = sale.any().await? {
//!     if stock(segment.index()).await > 0 {
//!         sell(segment.index()).await;
//!         let _ = segment.into_guard().release().await?;
//!         break;
//!     }
//!     segment.sold_out().await?;
//! }
//! # Ok(())
//! # }
//! ```

mod stores;

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use self::stores::{Found, Look, Part, Stores};
use crate::Async;
use crate::blocking::{Acquiring, Wait};
use crate::client::{Blocking, Client, Face, Guard, Lock, free, left};
use crate::driver::engine::Trial;
use crate::error::{Error, Kind, Result};
use crate::lease::ReleaseOutcome;
use crate::name;
use crate::options::AcquireOptions;
use crate::platform::clock;
use crate::platform::random;
use crate::protocol::Policy;
use crate::time::Time;
use crate::together::{MOST, Taken, Trying, try_together};

/// How long to wait in the queue of one segment.
const PATIENCE: Duration = Duration::from_millis(250);

/// A lock in segments. Cheap to clone; clones share what is known to be sold out.
pub struct Striped<F: Face = Async> {
    segments: Arc<[Lock<F>]>,
    hints: Arc<SegmentHints>,
}

struct SegmentHints {
    stores: Arc<Stores>,
    sold_out: Vec<AtomicBool>,
    next: AtomicUsize,
}

/// That a lock may be cut into so many segments, 1 to 256.
///
/// # Errors
/// `invalid_config`.
pub(crate) fn check_segments(segments: usize) -> Result<()> {
    if segments == 0 || segments > MOST {
        let message = format!("{segments} segments are wanted; it must be 1 to {MOST}");
        return Err(Error::invalid("lock", message));
    }
    Ok(())
}

impl<F: Face> Client<F> {
    /// The lock `name` cut into `segments`, 1 to 256, with this client's options.
    ///
    /// # Errors
    /// `invalid_config` for another number of segments and a name that is none; else as
    /// [`LockBuilder::build`](crate::LockBuilder::build).
    pub fn striped(&self, name: &str, segments: usize) -> Result<Striped<F>> {
        self.striped_with(name, segments, &self.options())
    }

    /// The same with other options, which every segment gets.
    ///
    /// # Errors
    /// As there; `unsupported` for `reentrant`.
    pub fn striped_with(&self, name: &str, segments: usize, options: &AcquireOptions) -> Result<Striped<F>> {
        check_segments(segments)?;
        if options.reentrant {
            return Err(Error::unsupported("lock", "a segment cannot be reentrant; leave it out"));
        }
        name::check(name)?;
        let segment = |i: usize| self.lock(&format!("{name}#{i}")).options(options.clone()).build();
        // Processes that start together are not to begin at the same segment.
        let start = random::number()? as usize % segments;
        let segments = (0..segments).map(segment).collect::<Result<_>>()?;
        Ok(Striped::new(segments, 1, start))
    }
}

impl<F: Face> Striped<F> {
    fn new(segments: Arc<[Lock<F>]>, stores: usize, start: usize) -> Self {
        let sold_out = segments.iter().map(|_| AtomicBool::new(false)).collect();
        let hints = SegmentHints { stores: Arc::new(Stores::new(stores)), sold_out, next: AtomicUsize::new(start) };
        Striped { segments, hints: Arc::new(hints) }
    }

    /// The same segments, with the same options, at more stores: segment `i` lies with number `i` modulo how many there
    /// are, of those of this one and of `others` in their order. Every process must name the same stores in the same
    /// order, since one that does not has other locks. Nothing is known to be sold out.
    ///
    /// # Errors
    /// `invalid_config` for more stores than segments; `unsupported` where another store cannot do what the options ask
    /// for; else as [`LockBuilder::build`](crate::LockBuilder::build).
    pub fn across(&self, others: &[Client<F>]) -> Result<Self> {
        let ours = self.segments[..self.hints.stores.count()].iter().map(Lock::client);
        let clients: Vec<_> = ours.chain(others).collect();
        if clients.len() > self.count() {
            let (segments, stores) = (self.count(), clients.len());
            let message = format!("{segments} segments cannot be at {stores} stores; there must be one for each");
            return Err(Error::invalid("lock", message));
        }
        let build =
            |(lock, client): (&Lock<F>, &&Client<F>)| client.lock(lock.name()).options(lock.options().clone()).build();
        let segments = self.segments.iter().zip(clients.iter().cycle()).map(build).collect::<Result<_>>()?;
        Ok(Striped::new(segments, clients.len(), self.hints.next.load(Ordering::Relaxed)))
    }

    /// How many segments there are.
    pub fn count(&self) -> usize {
        self.segments.len()
    }

    /// The segment that `key` belongs to.
    pub fn index_for(&self, key: &str) -> usize {
        let digest = sha1_smol::Sha1::from(key).digest().bytes();
        let first = digest.iter().take(8).fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
        (first % self.count() as u64) as usize
    }

    /// The lock of the segment that `key` belongs to.
    pub fn for_key(&self, key: &str) -> &Lock<F> {
        self.segment(self.index_for(key))
    }

    /// The lock of segment `index`.
    ///
    /// # Panics
    /// For an index that is not below [`count`](Self::count).
    pub fn segment(&self, index: usize) -> &Lock<F> {
        &self.segments[index]
    }

    /// Nothing is left in segment `index`: it will not be offered again.
    ///
    /// # Panics
    /// For an index that is not below [`count`](Self::count).
    pub fn mark_sold_out(&self, index: usize) {
        self.hints.sold_out[index].store(true, Ordering::Relaxed);
    }

    /// The same segments for callers that wait in another way; what is sold out is known to both.
    pub fn into_face<G: Face>(self) -> Striped<G> {
        let segments = self.segments.iter().map(|lock| lock.clone().into_face()).collect();
        Striped { segments, hints: self.hints }
    }

    /// Forgets what is sold out: there is something again.
    pub fn restock(&self) {
        self.hints.sold_out.iter().for_each(|segment| segment.store(false, Ordering::Relaxed));
    }

    /// The options of each segment.
    pub fn options(&self) -> &AcquireOptions {
        self.segments[0].options()
    }

    /// A look at the segments that are not sold out, from another one on at each call.
    fn look(&self, timeout: Option<Duration>, deadline: Option<Time>) -> Look<F> {
        let (count, start) = (self.count(), self.hints.next.fetch_add(1, Ordering::Relaxed));
        let in_turn = (0..count).map(|i| start.wrapping_add(i) % count);
        let open = in_turn.filter(|i| !self.hints.sold_out[*i].load(Ordering::Relaxed));
        Look::new(self.hints.stores.clone(), open.map(|i| (i, self.segment(i).clone())), timeout, deadline)
    }

    fn chosen(&self, index: usize, guard: Guard<F>) -> Segment<F> {
        Segment { striped: self.clone(), index, guard }
    }
}

/// Which of some segments was had, by its place among them.
type Place<F> = Option<(usize, Guard<F>)>;

/// The first of what was granted and is still held: one may be over by the time another one is answered. The rest is
/// given back.
fn first<F: Face>(granted: Taken<F>) -> Place<F> {
    granted.into_iter().find(|(_, guard)| guard.is_held())
}

impl Striped {
    /// A free segment, or the first to be had where none is free, as long as the options say; `None` once all are sold
    /// out.
    ///
    /// # Errors
    /// As [`Lock::acquire`].
    pub async fn any(&self) -> Result<Option<Segment>> {
        self.any_within(self.options().timeout).await
    }

    /// The same with a waiting time of its own: `None` waits for ever, zero only tries.
    ///
    /// # Errors
    /// As there.
    pub async fn any_within(&self, timeout: Option<Duration>) -> Result<Option<Segment>> {
        let deadline = timeout.map(|timeout| clock::now().after(timeout));
        loop {
            match self.find(timeout, deadline).await? {
                Found::SoldOut => return Ok(None),
                Found::Free(index, guard) => return Ok(Some(self.chosen(index, guard))),
                Found::Taken(index, lock) => {
                    let patience = patience(&lock, timeout, deadline)?;
                    match lock.quietly().acquire_within(Some(patience)).await {
                        Err(error) if may_go_on(&error) && !is_over(deadline) => {}
                        result => return Ok(Some(self.chosen(index, result?))),
                    }
                }
            }
        }
    }

    async fn find(&self, timeout: Option<Duration>, deadline: Option<Time>) -> Result<Found<Async>> {
        let mut look = self.look(timeout, deadline);
        while let Some((part, trial)) = look.next() {
            let result = first_free(&part.locks, trial).await;
            if let Some((index, guard)) = look.answered(&part, trial, result)? {
                return Ok(Found::Free(index, guard));
            }
        }
        look.end()
    }
}

/// The first of `locks` that is free, and its place among them.
async fn first_free(locks: &[Lock], trial: Trial) -> Result<Place<Async>> {
    if let Some(granted) = try_together(locks, Policy::Any, trial).await? {
        return Ok(first(granted));
    }
    for (place, lock) in locks.iter().enumerate() {
        if let Some(guard) = lock.try_as(trial).await? {
            return Ok(Some((place, guard)));
        }
        if is_over(trial.until) {
            break;
        }
    }
    Ok(None)
}

/// How long to wait in the queue of one segment before looking for a free one again: others may have been given back.
/// Who had time and has none any more does not try it, which would be to wait for an answer.
fn patience<F: Face>(lock: &Lock<F>, timeout: Option<Duration>, deadline: Option<Time>) -> Result<Duration> {
    match timeout.filter(|limit| !limit.is_zero() && is_over(deadline)) {
        Some(limit) => Err(lock.explain(Error::timeout(limit))),
        None => Ok(deadline.map_or(PATIENCE, |deadline| left(deadline).min(PATIENCE))),
    }
}

/// Whether the next look decides: in the queue of one segment only this short while passed.
fn may_go_on(error: &Error) -> bool {
    matches!(error.kind(), Kind::Timeout | Kind::Unavailable)
}

fn is_over(deadline: Option<Time>) -> bool {
    deadline.is_some_and(|deadline| left(deadline).is_zero())
}

impl Striped<Blocking> {
    /// See the async [`any`](crate::striped::Striped::any).
    ///
    /// # Errors
    /// As there.
    pub fn any(&self) -> Result<Option<Segment<Blocking>>> {
        self.any_within(self.options().timeout)
    }

    /// The same with a waiting time of its own: `None` waits for ever, zero only tries.
    ///
    /// # Errors
    /// As there.
    pub fn any_within(&self, timeout: Option<Duration>) -> Result<Option<Segment<Blocking>>> {
        let mut choosing = self.begin_any(timeout);
        loop {
            if let Some(result) = choosing.wait(Duration::MAX) {
                return result;
            }
        }
    }

    /// Begins to look for a segment, for callers that wait in slices to look at signals in between. Nothing is sent
    /// yet.
    pub fn begin_any(&self, timeout: Option<Duration>) -> Choosing {
        let deadline = timeout.map(|timeout| clock::now().after(timeout));
        Choosing { striped: self.clone(), timeout, deadline, looks: None, waits: None }
    }
}

/// A segment being looked for. Dropping it gives up.
pub struct Choosing {
    striped: Striped<Blocking>,
    timeout: Option<Duration>,
    deadline: Option<Time>,
    /// A look that is under way, and at what.
    looks: Option<Box<(Look<Blocking>, Option<FirstFree>)>>,
    /// Which segment is waited for.
    waits: Option<(usize, Acquiring)>,
}

impl Choosing {
    /// Waits as `how` says; `None` when there is no result yet. Call it no more after a result.
    pub fn wait<'a>(&mut self, how: impl Into<Wait<'a>>) -> Option<Result<Option<Segment<Blocking>>>> {
        let how = how.into();
        loop {
            if let Some((index, acquiring)) = &mut self.waits {
                let (index, result) = (*index, acquiring.wait(how)?);
                self.waits = None;
                match result {
                    Err(error) if may_go_on(&error) && !is_over(self.deadline) => {}
                    result => return Some(result.map(|guard| Some(self.striped.chosen(index, guard)))),
                }
            }
            match self.find(how)? {
                Ok(Found::SoldOut) => return Some(Ok(None)),
                Ok(Found::Free(index, guard)) => return Some(Ok(Some(self.striped.chosen(index, guard)))),
                Ok(Found::Taken(index, lock)) => {
                    let patience = patience(&lock, self.timeout, self.deadline);
                    match patience.and_then(|patience| lock.quietly().begin(Some(patience))) {
                        Ok(acquiring) => self.waits = Some((index, acquiring)),
                        Err(error) => return Some(Err(error)),
                    }
                }
                Err(error) => return Some(Err(error)),
            }
        }
    }

    /// What a look finds, while this thread waits as `how` says.
    fn find(&mut self, how: Wait<'_>) -> Option<Result<Found<Blocking>>> {
        let begin = || Box::new((self.striped.look(self.timeout, self.deadline), None));
        let (look, tries) = &mut **self.looks.get_or_insert_with(begin);
        let found = loop {
            if tries.is_none() {
                *tries = look.next().map(|(part, trial)| FirstFree { part, trial, tried: 0, attempt: None });
            }
            let Some(first) = tries else { break None };
            let result = first.wait(how)?;
            let found = look.answered(&first.part, first.trial, result);
            *tries = None;
            if let Some(found) = found.transpose() {
                break Some(found);
            }
        };
        let (look, _) = *self.looks.take()?;
        Some(match found {
            Some(found) => found.map(|(index, guard)| Found::Free(index, guard)),
            None => look.end(),
        })
    }
}

/// The first of `part` that is free, being looked for by a thread.
struct FirstFree {
    part: Part<Blocking>,
    trial: Trial,
    /// How many were tried one by one and are taken.
    tried: usize,
    attempt: Option<Attempt>,
}

enum Attempt {
    All(Trying),
    One(Acquiring),
}

impl FirstFree {
    /// Its place, if there is one; `None` when there is no result yet.
    fn wait(&mut self, how: Wait<'_>) -> Option<Result<Place<Blocking>>> {
        loop {
            let attempt = match &mut self.attempt {
                Some(attempt) => attempt,
                None => match self.begin() {
                    Ok(Some(attempt)) => self.attempt.insert(attempt),
                    Ok(None) => return Some(Ok(None)),
                    Err(error) => return Some(Err(error)),
                },
            };
            match attempt {
                Attempt::All(trying) => return Some(trying.wait(how)?.map(first)),
                Attempt::One(acquiring) => match free(acquiring.wait(how)?) {
                    Ok(None) => (self.attempt, self.tried) = (None, self.tried + 1),
                    result => return Some(result.map(|guard| guard.map(|guard| (self.tried, guard)))),
                },
            }
        }
    }

    fn begin(&self) -> Result<Option<Attempt>> {
        if self.tried == 0
            && let Some(trying) = Trying::begin(&self.part.locks, Policy::Any, self.trial)?
        {
            return Ok(Some(Attempt::All(trying)));
        }
        let next = self.part.locks.get(self.tried).filter(|_| self.tried == 0 || !is_over(self.trial.until));
        next.map(|lock| Ok(Attempt::One(lock.begin_trying(self.trial)?))).transpose()
    }
}

impl std::fmt::Debug for Choosing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Choosing(of {:?})", self.striped)
    }
}

/// A segment that is held. It is a guard besides.
#[must_use = "the segment is released when this is dropped"]
pub struct Segment<F: Face = Async> {
    striped: Striped<F>,
    index: usize,
    guard: Guard<F>,
}

impl<F: Face> Segment<F> {
    /// Which segment it is, from 0.
    pub fn index(&self) -> usize {
        self.index
    }

    /// The client that it was had through: that of its store.
    pub fn client(&self) -> &Client<F> {
        self.striped.segment(self.index).client()
    }

    /// The guard of its lock, to be released, exported or kept.
    pub fn into_guard(self) -> Guard<F> {
        self.guard
    }

    /// Nothing is left in it: it will not be offered again. The guard is still to be released.
    pub fn mark_sold_out(&self) {
        self.striped.mark_sold_out(self.index);
    }
}

impl Segment {
    /// Nothing is left in it: it is given back, and not offered again.
    ///
    /// # Errors
    /// As [`Guard::release`].
    pub async fn sold_out(self) -> Result<ReleaseOutcome> {
        self.mark_sold_out();
        self.guard.release().await
    }
}

impl Segment<Blocking> {
    /// See the async [`sold_out`](crate::striped::Segment::sold_out).
    ///
    /// # Errors
    /// As there.
    pub fn sold_out(self) -> Result<ReleaseOutcome> {
        self.mark_sold_out();
        self.guard.release()
    }
}

impl<F: Face> Deref for Segment<F> {
    type Target = Guard<F>;

    fn deref(&self) -> &Guard<F> {
        &self.guard
    }
}

impl<F: Face> Clone for Striped<F> {
    fn clone(&self) -> Self {
        Striped { segments: self.segments.clone(), hints: self.hints.clone() }
    }
}

impl<F: Face> std::fmt::Debug for Striped<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Striped({:?}, {} segments)", self.segments[0].name().trim_end_matches("#0"), self.count())
    }
}

impl<F: Face> std::fmt::Debug for Segment<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Segment({}, {:?})", self.index, self.guard)
    }
}

#[cfg(all(test, feature = "memory"))]
mod tests {
    use super::*;
    use crate::options::ConnectOptions;
    use crate::platform::simulated;

    #[test]
    fn who_has_no_time_left_does_not_wait_for_an_answer_once_more() {
        let client = Client::<Blocking>::open(Some("memory://no-time-left"), ConnectOptions::default()).unwrap();
        let lock = client.lock("x").build().unwrap();
        let (limit, over) = (Duration::from_secs(7), Some(clock::now()));
        let error = patience(&lock, Some(limit), over).unwrap_err();
        assert!(error.kind() == Kind::Timeout && error.to_string().contains("not ours within 7"), "{error}");
        assert_eq!(patience(&lock, Some(Duration::ZERO), over).unwrap(), Duration::ZERO, "who only tries does");
        assert_eq!(patience(&lock, None, None).unwrap(), PATIENCE);
    }

    #[test]
    fn a_segment_whose_lease_was_over_before_another_was_answered_is_not_chosen() {
        simulated::run(async {
            let client = Client::<Async>::open(Some("memory://over-before"), ConnectOptions::default()).unwrap();
            let unrenewed = AcquireOptions { renew: false, ..AcquireOptions::default() };
            let of = async |name, ttl| {
                let options = AcquireOptions { ttl, ..unrenewed.clone() };
                client.lock(name).options(options).acquire().await.unwrap()
            };
            let (soon, later) = (Duration::from_secs(1), Duration::from_secs(3));
            let granted = vec![(0, of("x#0", soon).await), (1, of("x#1", later).await)];
            let over = vec![(0, of("x#2", soon).await)];
            tokio::time::sleep(2 * soon).await;
            assert_eq!(first(granted).map(|(place, _)| place), Some(1));
            assert!(first(over).is_none());
        });
    }

    #[test]
    fn a_store_that_cannot_be_reached_is_why_where_no_other_one_answered_in_time() {
        let open = |name| Client::<Blocking>::open(Some(name), ConnectOptions::default()).unwrap();
        let striped = open("memory://reached").striped("x", 2).unwrap().across(&[open("memory://silent")]).unwrap();
        let ends = |until| {
            let limit = Duration::from_secs(7);
            let mut look = striped.look(Some(limit), Some(clock::now()));
            let trial = Trial { until, hurries: true };
            for result in [Err(Error::new(Kind::Unavailable, "acquire", "nobody is there")), Ok(None)] {
                let (part, _) = look.next().unwrap();
                assert!(look.answered(&part, trial, result).unwrap().is_none());
            }
            look.end().map(|found| matches!(found, Found::Taken(..)))
        };
        assert_eq!(ends(Some(clock::now())).unwrap_err().kind(), Kind::Unavailable);
        assert!(ends(None).unwrap(), "a store that says so is as good an answer");
    }

    #[test]
    fn a_thread_whose_time_is_over_tries_no_further_segment() {
        let client = Client::<Blocking>::open(Some("memory://no-further"), ConnectOptions::default()).unwrap();
        let begins = |tried, after| {
            let (part, _) = client.striped("x", 2).unwrap().look(None, None).next().unwrap();
            let trial = Trial { until: Some(clock::now().after(Duration::from_secs(after))), hurries: true };
            FirstFree { part, trial, tried, attempt: None }.begin().unwrap().is_some()
        };
        assert_eq!([begins(0, 0), begins(1, 0), begins(1, 60), begins(2, 60)], [true, false, true, false]);
    }
}
