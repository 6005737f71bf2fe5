//! Requests on records in a [`Table`]: read, run, write if unchanged; again where somebody else was faster.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lockwright_machines::cell_layout;
use lockwright_machines::push;
use lockwright_machines::store_clock::StoreClock;
use lockwright_machines::written::{Computed, compute, is_idle, is_over};
use smallvec::SmallVec;
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
struct Part {
    /// Where they stand in the write.
    places: SmallVec<[usize; 1]>,
    /// The row, as this client knew it once, or as the database told it just now. No row is as good a guess as any
    /// where nothing is known: a wrong one is answered by the row.
    known: Entry,
    is_fresh: bool,
    /// What is asked of the database.
    change: Change,
    /// What the requests come to if that is done; nothing where it is only asked what the row is.
    computed: Option<Computed>,
}

/// What a write came to so far.
struct Answers {
    replies: Vec<Reply>,
    /// From when on leases count that are granted in it.
    sent: Time,
    /// Whether some of it is done.
    is_begun: bool,
}

impl Answers {
    fn to(requests: &[Request]) -> Self {
        let replies = vec![Reply::Nil; requests.len()];
        Answers { replies, sent: Time::from_nanos(u64::MAX - 1), is_begun: false }
    }

    /// That part is done, and was at the earliest `as_of`.
    fn take(&mut self, part: &mut Part, as_of: Time) {
        let replies = part.computed.take().map(|computed| computed.replies);
        for (place, reply) in part.places.iter().zip(replies.into_iter().flatten()) {
            self.replies[*place] = reply;
        }
        self.sent = self.sent.min(as_of);
        self.is_begun = true;
    }
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
            [only] => self.turn(&only.change.key, limit).await,
            _ => Ok(None),
        };
        let Ok(_turn) = turn else { return not_sent(silent()) };
        // Not the database was silent while others of this client had their turn.
        let limit = limit.after(clock::now().since(began));
        let mut answers = Answers::to(requests);
        let mut moment = None;
        loop {
            match self.round(&mut parts, requests, moment, limit, &mut answers).await {
                Ok(said) => moment = Some(said),
                Err(Failure::Again) => {
                    tracing::debug!(target: "lockwright::store", "the database undid a statement in favour of others; it is asked again");
                }
                Err(Failure::NotDone(error)) if !answers.is_begun => return not_sent(error),
                Err(Failure::NotDone(error) | Failure::Unknown(error)) => {
                    parts.iter().for_each(|part| locked(&self.known).forget(&part.change.key));
                    let now = clock::now();
                    return Answered {
                        sent: began,
                        outcome: Outcome::Unknown { error, void_after: self.patience.void_after(now) },
                    };
                }
            }
            if parts.is_empty() {
                return Answered { sent: answers.sent, outcome: Outcome::Replies(answers.replies) };
            }
        }
    }

    /// One statement for all parts that are left, of which those that are done are taken out and answered. A `moment`
    /// is what the database's clock said, and when that was at the earliest by ours; so is what is returned.
    async fn round(
        &self,
        parts: &mut Vec<Part>,
        requests: &[Request],
        moment: Option<Moment>,
        limit: Time,
        answers: &mut Answers,
    ) -> Result<Moment, Failure> {
        let asked = clock::now();
        let patience = self.patience.until(limit, asked)?;
        let is_unsure = moment.is_none() && self.clock.is_old(asked);
        let from = moment.map_or_else(|| self.clock.at(asked), |moment| moment.at);
        for part in &mut *parts {
            part.plan(requests, from, is_unsure).map_err(Failure::NotDone)?;
        }
        parts.retain_mut(|part| {
            let is_settled = part.is_settled();
            if is_settled {
                answers.take(part, moment.map_or(asked, |moment| moment.asked));
            }
            !is_settled
        });
        if parts.is_empty() {
            return Ok(Moment { at: from, asked });
        }
        // The database's clock as it certainly stands by now.
        let until = moment.map_or(from, |_| self.clock.at(asked).max(from)).after(patience);
        let Exchanged { seen, now } = self.exchange(parts, Window { from, until, patience }).await?;
        self.clock.learn(clock::now(), now);
        // Leases count from the moment that was written, which is so much before the database's answer.
        let behind = Duration::from_micros(u64::try_from(now.micros_since(from)).unwrap_or(0));
        let as_of = if is_unsure { asked } else { asked.before(behind + behind / DRIFT_DIVISOR) };
        let mut known = locked(&self.known);
        let mut seen = seen.into_iter();
        parts.retain_mut(|part| match seen.next() {
            Some(Seen::Done) if part.computed.is_some() => {
                if let Some(row) = part.change.write.take() {
                    known.learn(part.change.key.clone(), part.known.written(row));
                    self.writes.fetch_add(1, Ordering::Relaxed);
                }
                answers.take(part, as_of);
                false
            }
            Some(Seen::Done) | None => true,
            Some(Seen::Other(row)) => {
                (part.known, part.is_fresh) = (Entry::read(row), true);
                known.learn(part.change.key.clone(), part.known.clone());
                true
            }
        });
        Ok(Moment { at: now, asked })
    }

    /// A row that is ours is written without being read: only where it was not as expected after all is it asked for
    /// what it is.
    async fn exchange(&self, parts: &[Part], window: Window) -> Result<Exchanged, Failure> {
        if let [part] = parts
            && part.known.is_ours()
            && let Some(update) = part.change.as_update()
            && let Some(now) = self.table.update(update, window).await?
        {
            return Ok(Exchanged { seen: vec![Seen::Done], now });
        }
        let changes: Vec<_> = parts.iter().map(|part| &part.change).collect();
        self.table.exchange(&changes, window).await
    }

    fn parts(&self, requests: &[Request]) -> Vec<Part> {
        // In one order, so that no two statements wait for each other's rows if the database keeps to it.
        let places = requests.iter().enumerate().map(|(place, request)| (&request.key, place));
        let mut places: SmallVec<[_; 1]> = places.collect();
        places.sort_unstable();
        let known = locked(&self.known);
        let mut parts = Vec::with_capacity(places.len());
        for part in places.chunk_by(|(key, _), (next, _)| key == next) {
            let (key, places) = (part[0].0, part.iter().map(|(_, place)| *place).collect());
            parts.push(Part::new(key.clone(), places, known.get(key)));
        }
        parts
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

impl Part {
    fn new(key: Arc<str>, places: SmallVec<[usize; 1]>, known: Entry) -> Self {
        let change = Change { key, expected: Expected::Unknown, write: None, pushes: Vec::new() };
        Part { places, known, is_fresh: false, change, computed: None }
    }

    /// Works out what is to be asked for, as the row is known.
    fn plan(&mut self, requests: &[Request], now: StoreTime, is_unsure: bool) -> crate::Result<()> {
        let Part { places, known, change, computed, .. } = self;
        (change.expected, change.write, *computed) = (Expected::Unknown, None, None);
        change.pushes.clear();
        if is_unsure {
            return Ok(());
        }
        let mine = places.iter().filter_map(|place| requests.get(*place));
        let mut done = compute(known.row.as_ref().map(|row| &row.written), mine, now, &|_| true);
        change.expected = known.row.as_ref().map_or(Expected::Nothing, |row| Expected::Version(row.version));
        if let Some(written) = done.kept.take() {
            change.write = Some(Row { version: unique()?, written });
            let told = done.pushes.iter();
            change.pushes.extend(told.filter_map(|(inbox, event)| Some((*inbox, push::encode(&change.key, event)?))));
        }
        *computed = Some(done);
        Ok(())
    }

    /// Whether it needs no statement more: it was read just now, and stays as it is.
    fn is_settled(&self) -> bool {
        self.is_fresh && self.computed.is_some() && self.change.write.is_none()
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

    use lockwright_machines::cell_layout::LOCK;
    use lockwright_machines::lock_cell::Claimant;

    use super::*;
    use crate::protocol::{Arg, AttemptId, InboxId};
    use crate::stores::sql::table::{Listed, Update};

    const TTL: i64 = 10_000_000;

    /// A database that does as it is told, or fails as it is to fail next, if it is.
    #[derive(Debug, Default)]
    struct Played {
        rows: std::sync::Mutex<BTreeMap<Arc<str>, Row>>,
        failures: std::sync::Mutex<VecDeque<Option<Failure>>>,
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

        fn play(&self, changes: &[&Change], window: Window) -> Result<Exchanged, Failure> {
            self.asked.fetch_add(1, Ordering::Relaxed);
            if let Some(failure) = locked(&self.failures).pop_front().flatten() {
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
        async fn exchange(&self, changes: &[&Change], window: Window) -> Result<Exchanged, Failure> {
            self.play(changes, window)
        }

        async fn update(
            &self,
            Update { key, expected, row }: Update<'_>,
            window: Window,
        ) -> Result<Option<StoreTime>, Failure> {
            self.updated.fetch_add(1, Ordering::Relaxed);
            let expected = Expected::Version(expected);
            let change = Change { key: key.clone(), expected, write: Some(row.clone()), pushes: Vec::new() };
            let told = self.play(&[&change], window)?;
            Ok(matches!(told.seen[..], [Seen::Done]).then_some(told.now))
        }

        async fn page(&self, range: Range<'_>, _: Duration) -> Result<(Vec<Listed>, StoreTime), Failure> {
            let rows = locked(&self.rows);
            let listed = rows.iter().filter(|(key, _)| &***key > range.after && &***key <= range.to);
            let listed = listed.take(range.count).map(|(key, row)| (key.clone(), row.clone())).collect();
            Ok((listed, self.now()))
        }

        async fn remove(&self, rows: &[(Arc<str>, i64)], _: Duration) -> Result<(), Failure> {
            let mut kept = locked(&self.rows);
            for (key, version) in rows {
                if kept.get(key).is_some_and(|row| row.version == *version) {
                    kept.remove(key);
                }
            }
            Ok(())
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
        locked(&table.failures).extend([const { Some(Failure::Again) }; 3]);
        ask(&client(&table), acquire(1)).await.0.unwrap();
        assert_eq!(table.asked.load(Ordering::Relaxed), 5);
    }

    /// A part that was read just now is answered without a statement more, though that of the others is undone.
    #[tokio::test]
    async fn what_is_answered_stays_so_when_the_statement_for_the_others_is_undone() {
        let table = Arc::new(Played::default());
        let (first, second) = (client(&table), client(&table));
        let on_other = |request: Request| Request { key: "l".into(), ..request };
        for (client, who) in [(&first, 1), (&second, 2)] {
            ask(client, acquire(who)).await.0.unwrap();
            ask(client, on_other(acquire(who))).await.0.unwrap();
            ask(client, on_other(release(who))).await;
            if who == 1 {
                ask(client, release(who)).await;
            }
        }
        locked(&table.failures).extend([None, Some(Failure::Again)]);
        let both = [acquire(3), on_other(acquire(3))];
        let answered = first.perform(&both, clock::now().after(Duration::from_secs(5))).await;
        let Outcome::Replies(replies) = answered.outcome else { panic!("{answered:?}") };
        assert!(locked(&table.failures).is_empty() && !replies.contains(&Reply::Nil), "{replies:?}");
    }

    #[tokio::test]
    async fn what_may_have_been_done_is_said_to_be_unknown_and_nothing_is_believed_of_the_row() {
        let table = Arc::new(Played::default());
        let client = client(&table);
        ask(&client, acquire(1)).await.0.unwrap();
        locked(&table.failures).push_back(Some(Failure::Unknown(silent())));
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
