//! Requests on records in a [`Table`]: read, run, write if unchanged; again where somebody else was faster.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lockwright_machines::cell_layout;
use lockwright_machines::push;
use lockwright_machines::store_clock::StoreClock;
use lockwright_machines::written::{Computed, compute, is_idle, is_over};
use tokio::sync::MutexGuard;
use tokio::time::timeout;

use super::known::{Entry, Known};
use super::patience::{DRIFT_DIVISOR, Patience, silent};
use super::table::{Change, Exchanged, Expected, Failure, Range, Row, Seen, Table, Window};
use crate::name::MAX_BYTES;
use crate::platform::mutex::locked;
use crate::platform::{clock, random};
use crate::protocol::{Reply, Request};
use crate::stores::{Answered, Outcome, not_sent};
use crate::time::{StoreTime, Time};

/// Keys in one page of `list`.
const PAGE: usize = 500;
/// Requests on one key take turns inside a client, by these: they would only have each other try again.
const TURNS: usize = 64;
/// One in so many writes looks for idle rows, at so many rows.
const SWEEP: (u64, usize) = (512, 256);
/// How long nothing must have happened to a row before it is removed: far longer than any statement can be late.
const IDLE: Duration = Duration::from_secs(600);

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Records<T> {
    pub(crate) table: T,
    pub(crate) patience: Patience,
    known: std::sync::Mutex<Known>,
    clock: Arc<StoreClock>,
    turns: [tokio::sync::Mutex<()>; TURNS],
    writes: AtomicU64,
    /// Where the look for idle rows goes on.
    swept: std::sync::Mutex<Arc<str>>,
}

/// The requests of a write that concern one row, and what is known of it.
struct Part<'a> {
    key: &'a Arc<str>,
    /// Where they stand in the write.
    places: Vec<usize>,
    /// The row, as this client knew it once, or as the database told it just now. No row is as good a guess as any
    /// where nothing is known: a wrong one is answered by the row.
    known: Entry,
    is_fresh: bool,
}

/// What was worked out for a part.
struct Step {
    change: Change,
    computed: Option<Computed>,
}

impl<T: Table> Records<T> {
    pub(crate) fn new(table: T, clock: Arc<StoreClock>, patience: Patience) -> Self {
        Records {
            table,
            patience,
            known: std::sync::Mutex::default(),
            clock,
            turns: std::array::from_fn(|_| tokio::sync::Mutex::default()),
            writes: AtomicU64::new(0),
            swept: std::sync::Mutex::new("".into()),
        }
    }

    /// Does as the requests say, and gives up at `limit`.
    pub(crate) async fn perform(&self, requests: &[Request], limit: Time) -> Answered {
        if let [request] = requests
            && cell_layout::lists(request)
        {
            return self.list(request, limit).await;
        }
        let mut parts = self.parts(requests);
        let began = clock::now();
        let turn = match parts.as_slice() {
            [only] => self.turn(only.key, limit).await,
            _ => Ok(None),
        };
        let Ok(_turn) = turn else { return not_sent(silent()) };
        // Not the database was silent while others of this client had their turn.
        let limit = limit.after(clock::now().since(began));
        let mut replies = vec![Reply::Nil; requests.len()];
        let mut sent = Time::from_nanos(u64::MAX - 1);
        let mut moment = None;
        let mut is_begun = false;
        loop {
            match self.round(&mut parts, requests, moment, limit).await {
                Ok(round) => {
                    for (place, reply) in round.done {
                        is_begun = true;
                        sent = sent.min(round.as_of);
                        replies[place] = reply;
                    }
                    moment = Some(round.moment);
                }
                Err(Failure::Again) => {
                    tracing::debug!(target: "lockwright::store", "the database undid a statement in favour of others; it is asked again");
                }
                Err(Failure::NotDone(error)) if !is_begun => return not_sent(error),
                Err(Failure::NotDone(error) | Failure::Unknown(error)) => {
                    parts.iter().for_each(|part| locked(&self.known).forget(part.key));
                    let now = clock::now();
                    return Answered {
                        sent: began,
                        outcome: Outcome::Unknown { error, void_after: self.patience.void_after(now) },
                    };
                }
            }
            if parts.is_empty() {
                return Answered { sent, outcome: Outcome::Replies(replies) };
            }
        }
    }

    /// One statement for all parts that are left, of which those that are done are taken out. A `moment` is what the
    /// database's clock said, and when that was at the earliest by ours.
    async fn round(
        &self,
        parts: &mut Vec<Part<'_>>,
        requests: &[Request],
        moment: Option<Moment>,
        limit: Time,
    ) -> Result<Round, Failure> {
        let asked = clock::now();
        let patience = self.patience.until(limit, asked)?;
        let is_unsure = moment.is_none() && self.clock.is_old(asked);
        let from = moment.map_or_else(|| self.clock.at(asked), |moment| moment.at);
        let mut done = Vec::new();
        let mut as_of = asked;
        let steps = parts.iter().map(|part| part.step(requests, from, is_unsure));
        let steps = steps.collect::<crate::Result<Vec<_>>>().map_err(Failure::NotDone)?;
        let (mut left, mut changes, mut computed) = (Vec::new(), Vec::new(), Vec::new());
        for (part, step) in std::mem::take(parts).into_iter().zip(steps) {
            match part.settles(step) {
                // What was read just now and stays as it is needs no statement more.
                ControlFlow::Break(replies) => {
                    as_of = as_of.min(moment.map_or(asked, |moment| moment.asked));
                    done.extend(replies);
                }
                ControlFlow::Continue((part, step)) => {
                    left.push(part);
                    changes.push(step.change);
                    computed.push(step.computed);
                }
            }
        }
        if left.is_empty() {
            return Ok(Round { done, moment: Moment { at: from, asked }, as_of });
        }
        // The database's clock as it certainly stands by now.
        let until = moment.map_or(from, |_| self.clock.at(asked).max(from)).after(patience);
        let window = Window { from, until, patience };
        let is_ours = left.iter().all(|part| part.known.is_ours());
        let exchanged = self.exchange(&changes, window, is_ours).await;
        let Exchanged { seen, now } = match exchanged {
            Ok(exchanged) => exchanged,
            Err(failure) => {
                *parts = left;
                return Err(failure);
            }
        };
        self.clock.learn(clock::now(), now);
        // Leases count from the moment that was written, which is so much before the database's answer.
        let behind = Duration::from_micros(u64::try_from(now.micros_since(from)).unwrap_or(0));
        if !is_unsure {
            as_of = as_of.min(asked.before(behind + behind / DRIFT_DIVISOR));
        }
        let mut known = locked(&self.known);
        for (((mut part, change), computed), seen) in left.into_iter().zip(changes).zip(computed).zip(seen) {
            match (seen, computed) {
                (Seen::Done, Some(computed)) => {
                    if let Some(row) = change.write {
                        known.learn(part.key.clone(), part.known.written(row));
                        self.writes.fetch_add(1, Ordering::Relaxed);
                    }
                    done.extend(part.places.into_iter().zip(computed.replies));
                }
                (Seen::Done, None) => parts.push(part),
                (Seen::Other(row), _) => {
                    (part.known, part.is_fresh) = (Entry::read(row), true);
                    known.learn(part.key.clone(), part.known.clone());
                    parts.push(part);
                }
            }
        }
        Ok(Round { done, moment: Moment { at: now, asked }, as_of })
    }

    /// A row that `is_ours` is written without being read: only where it was not as expected after all is it asked for
    /// what it is.
    async fn exchange(&self, changes: &[Change], window: Window, is_ours: bool) -> Result<Exchanged, Failure> {
        if let [change] = changes
            && is_ours
            && let Some(update) = change.as_update()
            && let Some(now) = self.table.update(update, window).await?
        {
            return Ok(Exchanged { seen: vec![Seen::Done], now });
        }
        self.table.exchange(changes, window).await
    }

    fn parts<'a>(&self, requests: &'a [Request]) -> Vec<Part<'a>> {
        // In one order, so that no two statements wait for each other's rows if the database keeps to it.
        let mut places: Vec<_> = requests.iter().enumerate().map(|(place, request)| (&request.key, place)).collect();
        places.sort_unstable();
        let known = locked(&self.known);
        let parts = places.chunk_by(|(key, _), (next, _)| key == next).map(|part| {
            let (key, places) = (part[0].0, part.iter().map(|(_, place)| *place).collect());
            Part { key, places, known: known.get(key), is_fresh: false }
        });
        parts.collect()
    }

    async fn turn(&self, key: &str, limit: Time) -> Result<Option<MutexGuard<'_, ()>>, tokio::time::error::Elapsed> {
        let hash = key.bytes().fold(0_usize, |hash, byte| hash.wrapping_mul(31).wrapping_add(byte.into()));
        let turn = &self.turns[hash % TURNS];
        match turn.try_lock() {
            Ok(turn) => Ok(Some(turn)),
            Err(_) => timeout(limit.since(clock::now()), turn.lock()).await.map(Some),
        }
    }

    /// One page of the keys in use.
    async fn list(&self, request: &Request, limit: Time) -> Answered {
        let (from, after) = cell_layout::page_asked(request);
        // The last key that a name of the greatest length can have behind this prefix.
        let to = &format!("{from}{}", "\u{10FFFF}".repeat(MAX_BYTES / 4));
        let sent = clock::now();
        let range = Range { after, from, to, idle: Duration::ZERO, count: PAGE };
        let page = self.table.page(range, limit.since(sent).min(self.patience.response_timeout)).await;
        let (rows, now) = match page {
            Ok(page) => page,
            Err(Failure::Again) => return not_sent(silent()),
            Err(Failure::NotDone(error) | Failure::Unknown(error)) => return not_sent(error),
        };
        let next = if rows.len() == PAGE { rows.last().map(|(key, _)| key.to_string()) } else { None };
        let used = rows.into_iter().filter(|(_, row)| !is_idle(&row.written, now)).map(|(key, _)| key.to_string());
        Answered { sent, outcome: Outcome::Replies(vec![cell_layout::page(next, used)]) }
    }

    /// Whether somebody should [`sweep`](Self::sweep) now.
    pub(crate) fn is_to_be_swept(&self) -> bool {
        let writes = self.writes.load(Ordering::Relaxed);
        writes >= SWEEP.0 && self.writes.compare_exchange(writes, 0, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Removes a few rows that nobody used for long. What cannot be read stays as it lies.
    pub(crate) async fn sweep(&self) {
        let after = locked(&self.swept).clone();
        let to = "\u{10FFFF}".repeat(MAX_BYTES / 2);
        let range = Range { after: &after, from: "", to: &to, idle: IDLE, count: SWEEP.1 };
        let Ok((rows, now)) = self.table.page(range, self.patience.response_timeout).await else { return };
        let next = if rows.len() == SWEEP.1 { rows.last().map(|(key, _)| key.clone()) } else { None };
        *locked(&self.swept) = next.unwrap_or_else(|| "".into());
        let long_ago = StoreTime(now.0 - IDLE.as_micros() as i64);
        let idle = rows.into_iter().filter(|(_, row)| is_over(&row.written, long_ago));
        let idle: Vec<_> = idle.map(|(key, row)| (key, row.version)).collect();
        if !idle.is_empty() && self.table.remove(&idle, self.patience.response_timeout).await.is_err() {
            tracing::debug!(target: "lockwright::store", "idle rows were not removed; the next to look does it");
        }
    }
}

/// What the database's clock said, and when that was at the earliest by ours.
#[derive(Clone, Copy)]
struct Moment {
    at: StoreTime,
    asked: Time,
}

/// What one statement came to: replies by their places, when that was, and from when on leases count.
struct Round {
    done: Vec<(usize, Reply)>,
    moment: Moment,
    as_of: Time,
}

impl Part<'_> {
    /// What is to be asked for, as the row is known.
    fn step(&self, requests: &[Request], now: StoreTime, is_unsure: bool) -> crate::Result<Step> {
        let change = |expected, write, pushes| Change { key: self.key.clone(), expected, write, pushes };
        if is_unsure {
            return Ok(Step { change: change(Expected::Unknown, None, Vec::new()), computed: None });
        }
        let mine = self.places.iter().filter_map(|place| requests.get(*place));
        let mut computed = compute(self.known.row.as_ref().map(|row| &row.written), mine, now, &|_| true);
        let expected = self.known.row.as_ref().map_or(Expected::Nothing, |row| Expected::Version(row.version));
        let Some(written) = computed.kept.take() else {
            return Ok(Step { change: change(expected, None, Vec::new()), computed: Some(computed) });
        };
        let write = Row { version: unique()?, written };
        let told = computed.pushes.iter();
        let pushes = told.filter_map(|(inbox, event)| Some((*inbox, push::encode(self.key, event)?))).collect();
        Ok(Step { change: change(expected, Some(write), pushes), computed: Some(computed) })
    }

    /// The replies, by their places, where no statement is needed for them; else the part as it was.
    fn settles(self, step: Step) -> ControlFlow<Vec<(usize, Reply)>, (Self, Step)> {
        match step.computed {
            Some(computed) if self.is_fresh && step.change.write.is_none() => {
                ControlFlow::Break(self.places.into_iter().zip(computed.replies).collect())
            }
            computed => ControlFlow::Continue((self, Step { change: step.change, computed })),
        }
    }
}

/// A number that no other has.
pub(crate) fn unique() -> crate::Result<i64> {
    // Of 64 bits, without the sign: a match by chance would take the same row at the same moment.
    Ok(i64::try_from(random::number()? & 0x7FFF_FFFF_FFFF_FFFF).unwrap_or(i64::MAX).max(1))
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, VecDeque};
    use std::future::ready;

    use lockwright_machines::cell_layout::LOCK;
    use lockwright_machines::lock_cell::Claimant;

    use super::*;
    use crate::protocol::{Arg, AttemptId, InboxId};
    use crate::stores::BoxFuture;
    use crate::stores::sql::table::{Listed, Update};

    const TTL: i64 = 10_000_000;

    /// A database that does as it is told, or fails as it is to fail next.
    #[derive(Debug, Default)]
    struct Played {
        rows: std::sync::Mutex<BTreeMap<Arc<str>, Row>>,
        failures: std::sync::Mutex<VecDeque<Failure>>,
        /// How far its clock is ahead of ours, in microseconds.
        ahead: std::sync::atomic::AtomicI64,
        asked: AtomicU64,
        /// How often without being told of the row.
        updated: AtomicU64,
    }

    impl Played {
        fn now(&self) -> StoreTime {
            StoreTime(clock::now().as_nanos() as i64 / 1000 + self.ahead.load(Ordering::Relaxed))
        }

        fn play(&self, changes: &[Change], window: Window) -> Result<Exchanged, Failure> {
            self.asked.fetch_add(1, Ordering::Relaxed);
            if let Some(failure) = locked(&self.failures).pop_front() {
                return Err(failure);
            }
            let now = self.now();
            let mut rows = locked(&self.rows);
            let seen = changes.iter().map(|change| {
                let found = rows.get(&change.key).cloned();
                let is_expected = change.expected.number() == found.as_ref().map_or(0, |row| row.version);
                if !is_expected || now < window.from || now > window.until {
                    return Seen::Other(found);
                }
                rows.extend(change.write.clone().map(|row| (change.key.clone(), row)));
                Seen::Done
            });
            Ok(Exchanged { seen: seen.collect(), now })
        }
    }

    impl Table for Arc<Played> {
        fn exchange<'a>(&'a self, changes: &'a [Change], window: Window) -> BoxFuture<'a, Result<Exchanged, Failure>> {
            Box::pin(ready(self.play(changes, window)))
        }

        fn update<'a>(
            &'a self,
            Update { key, expected, row }: Update<'a>,
            window: Window,
        ) -> BoxFuture<'a, Result<Option<StoreTime>, Failure>> {
            self.updated.fetch_add(1, Ordering::Relaxed);
            let expected = Expected::Version(expected);
            let change = Change { key: key.clone(), expected, write: Some(row.clone()), pushes: Vec::new() };
            let told = self.play(&[change], window);
            Box::pin(ready(told.map(|told| matches!(told.seen[..], [Seen::Done]).then_some(told.now))))
        }

        fn page<'a>(
            &'a self,
            range: Range<'a>,
            _: Duration,
        ) -> BoxFuture<'a, Result<(Vec<Listed>, StoreTime), Failure>> {
            let rows = locked(&self.rows);
            let listed = rows.iter().filter(|(key, _)| &***key > range.after && &***key <= range.to);
            let listed = listed.take(range.count).map(|(key, row)| (key.clone(), row.clone())).collect();
            Box::pin(ready(Ok((listed, self.now()))))
        }

        fn remove<'a>(&'a self, rows: &'a [(Arc<str>, i64)], _: Duration) -> BoxFuture<'a, Result<(), Failure>> {
            let mut kept = locked(&self.rows);
            for (key, version) in rows {
                if kept.get(key).is_some_and(|row| row.version == *version) {
                    kept.remove(key);
                }
            }
            Box::pin(ready(Ok(())))
        }
    }

    fn claimant(who: u128) -> Arc<str> {
        Claimant { attempt: AttemptId(who), inbox: InboxId(1), claim: Duration::from_secs(1) }.text()
    }

    fn acquire(who: u128) -> Request {
        let args = [Arg::Text(claimant(who)), TTL.into(), Arg::NotAfter, "card".into(), 0.into()];
        Request::new(&LOCK.acquire, "k".into(), args)
    }

    fn release(who: u128) -> Request {
        Request::new(&LOCK.release, "k".into(), [Arg::Text(claimant(who)), i64::MAX.into()])
    }

    fn client(table: &Arc<Played>) -> Records<Arc<Played>> {
        let patience = Patience { response_timeout: Duration::from_secs(1), longest: Duration::from_secs(1) };
        Records::new(table.clone(), Arc::default(), patience)
    }

    /// The token that was granted, if one was; and from when on the lease counts.
    async fn ask(client: &Records<Arc<Played>>, request: Request) -> (Option<i64>, Time) {
        let answered = client.perform(&[request], clock::now().after(Duration::from_secs(5))).await;
        let Outcome::Replies(replies) = answered.outcome else { panic!("{answered:?}") };
        let token = match &replies[0] {
            Reply::Int(token) if *token > 1 => Some(*token),
            _ => None,
        };
        (token, answered.sent)
    }

    #[tokio::test]
    async fn whoever_used_a_row_last_needs_one_statement_and_others_two() {
        let table = Arc::new(Played::default());
        let (first, second) = (client(&table), client(&table));
        let asked = || table.asked.swap(0, Ordering::Relaxed);
        ask(&first, acquire(1)).await.0.unwrap();
        assert_eq!(asked(), 2, "the clock is asked for first");
        ask(&first, release(1)).await;
        ask(&first, acquire(2)).await.0.unwrap();
        assert_eq!(asked(), 2);
        assert_eq!(ask(&second, acquire(3)).await.0, None);
        assert_eq!(asked(), 1, "what was read is answered");
        ask(&first, release(2)).await;
        asked();
        ask(&second, acquire(3)).await.0.unwrap();
        assert_eq!(asked(), 2, "its idea of the row was old");
    }

    #[tokio::test]
    async fn a_row_that_nobody_else_uses_is_not_read_and_is_once_somebody_does() {
        let table = Arc::new(Played::default());
        let (first, second) = (client(&table), client(&table));
        let counts = || [&table.asked, &table.updated].map(|count| count.swap(0, Ordering::Relaxed));
        for _ in 0..4 {
            ask(&first, acquire(1)).await.0.unwrap();
            ask(&first, release(1)).await;
        }
        counts();
        ask(&first, acquire(1)).await.0.unwrap();
        assert_eq!(counts(), [1, 1]);
        assert_eq!(ask(&second, acquire(2)).await.0, None);
        ask(&first, release(1)).await;
        ask(&second, acquire(2)).await.0.unwrap();
        counts();
        assert_eq!(ask(&first, acquire(1)).await.0, None);
        assert_eq!(counts(), [2, 1], "its idea of the row was old");
        ask(&second, release(2)).await;
        counts();
        ask(&first, acquire(1)).await.0.unwrap();
        ask(&first, release(1)).await;
        assert_eq!(counts()[1], 0, "somebody else uses it");
    }

    #[tokio::test]
    async fn what_the_database_undid_is_asked_again_and_not_shown() {
        let table = Arc::new(Played::default());
        locked(&table.failures).extend([Failure::Again, Failure::Again, Failure::Again]);
        ask(&client(&table), acquire(1)).await.0.unwrap();
        assert_eq!(table.asked.load(Ordering::Relaxed), 5);
    }

    #[tokio::test]
    async fn what_may_have_been_done_is_said_to_be_unknown_and_nothing_is_believed_of_the_row() {
        let table = Arc::new(Played::default());
        let client = client(&table);
        ask(&client, acquire(1)).await.0.unwrap();
        locked(&table.failures).push_back(Failure::Unknown(silent()));
        let answered = client.perform(&[release(1)], clock::now().after(Duration::from_secs(5))).await;
        let Outcome::Unknown { void_after, .. } = answered.outcome else { panic!("{answered:?}") };
        assert!(void_after.since(clock::now()) > Duration::from_millis(1900));
        assert_eq!(locked(&client.known).get("k"), Default::default());
    }

    #[tokio::test]
    async fn a_lease_counts_from_the_moment_that_was_written() {
        let table = Arc::new(Played::default());
        let client = client(&table);
        ask(&client, acquire(1)).await.0.unwrap();
        ask(&client, release(1)).await;
        // So far behind is the idea of the clock, and so much earlier ends the lease at the database.
        table.ahead.fetch_add(200_000, Ordering::Relaxed);
        let asked = clock::now();
        let (token, sent) = ask(&client, acquire(2)).await;
        assert!(token.is_some() && asked.since(sent) >= Duration::from_millis(200), "{:?}", asked.since(sent));
    }

    #[tokio::test]
    async fn neither_a_clock_that_is_ahead_nor_one_that_is_behind_ends_a_lease_early() {
        for step in [3_600_000_000, -3_600_000_000] {
            let table = Arc::new(Played::default());
            let client = client(&table);
            ask(&client, acquire(1)).await.0.unwrap();
            ask(&client, release(1)).await;
            table.ahead.fetch_add(step, Ordering::Relaxed);
            ask(&client, acquire(2)).await.0.unwrap();
            let rows = locked(&table.rows).clone();
            let (_, from) = rows["k"].written.record.split_once("\"expires\":").unwrap();
            let expires: i64 = from.split(',').next().unwrap().parse().unwrap();
            assert!((1..=TTL).contains(&(expires - table.now().0)), "{rows:?}");
        }
    }

    #[tokio::test]
    async fn rows_in_nobodys_use_are_removed_and_no_others() {
        let table = Arc::new(Played::default());
        let client = client(&table);
        ask(&client, acquire(1)).await.0.unwrap();
        client.sweep().await;
        assert_eq!(locked(&table.rows).len(), 1);
        ask(&client, release(1)).await;
        client.sweep().await;
        assert_eq!(locked(&table.rows).len(), 0);
        // Whoever crashed gives nothing back.
        ask(&client, acquire(2)).await.0.unwrap();
        table.ahead.fetch_add(TTL + IDLE.as_micros() as i64 - 1_000_000, Ordering::Relaxed);
        client.sweep().await;
        assert_eq!(locked(&table.rows).len(), 1);
        table.ahead.fetch_add(2_000_000, Ordering::Relaxed);
        client.sweep().await;
        assert_eq!(locked(&table.rows).len(), 0);
    }
}
