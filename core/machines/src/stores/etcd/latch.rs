//! A latch: its count as one key, which is changed by comparing at which revision it was written last, and a key that
//! stands there while it is shut, so that whoever waits is told when that goes. Both are kept by a lease of the latch's
//! own, which lasts for as long as nobody uses it.
//!
//! What a client counted down last lies beside it, in the same transaction: a request that is sent again, since its
//! answer was lost, is answered as if it were the first.
//!
//! That takes several calls, of which each says what the next one is. The drivers do them and tell what they came to.
//!
//! ```text
//! Looking        there is a latch             its lease is kept alive: KeepingAlive
//!                that is to last longer,      a lease is granted: Granting
//!                or none
//! KeepingAlive   it lasts                     the latch is there
//! Granting       a lease                      the latch is written under it: Writing
//! Writing        done                         the latch is there
//!                somebody was faster          the lease is given back: GivingBack
//! -- the latch is there: whoever waits may ask; whoever changes it goes on
//! Counting       what this client counted     the count is written: Changing
//! Changing       done                         the answer
//! anything       somebody was faster          rests, and looks again: Resting
//! ```

use std::mem;
use std::sync::Arc;
use std::time::Duration;

use super::layouts::part::Part;
use super::transactions::below;
use super::wire::{Compare, Done, Get, Is, KeyValue, Keys, Op, Response, Transaction};
use crate::cell::foreign;
use crate::protocol::{Arg, AttemptId, Reply, Request};

/// How many keys below a name are looked at for what is no latch.
const OTHERS: i64 = 32;
/// How many of its own count-downs a client remembers for each latch: more than it asks for at the same time.
const REMEMBERED: usize = 64;
/// How often a change that others were faster than is tried before somebody else's turn is waited for.
const TRIES: u32 = 64;
/// The first rest, which grows with each until it is so many times as long.
const REST: Duration = Duration::from_micros(200);
const LONGEST_REST: u32 = 20;
/// Clients rest for so many different times.
const SPREAD: u128 = 8;

/// What is to be done now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// This transaction: [`Came::Response`].
    Ask(Transaction),
    /// A lease of so many seconds is granted: [`Came::Granted`].
    Grant(i64),
    /// A lease lasts for its whole time from now on: [`Came::Alive`].
    KeepAlive(i64),
    /// A lease is given back; if it cannot be it ends with its time: [`Came::Nothing`].
    Revoke(i64),
    /// Nothing, for so long: [`Came::Nothing`].
    Rest(Duration),
    /// The latch is there, and what waits for it can be asked.
    Kept,
    /// This is the answer.
    Answer(Reply),
    /// Others were faster each time: there is no answer.
    TooLate,
}

/// What a step came to.
#[derive(Clone, Debug)]
pub enum Came {
    /// What became of a transaction.
    Response(Response),
    /// A lease of that number.
    Granted(i64),
    /// Whether the lease is there.
    Alive(bool),
    /// It is done, or cannot be.
    Nothing,
}

/// What a request says of the latch.
#[derive(Clone, Copy, Debug)]
struct Plan {
    count: i64,
    idle: i64,
}

/// A latch as it was read or written.
#[derive(Clone, Copy, Debug)]
struct Latch {
    count: i64,
    idle: i64,
    lease: i64,
    /// At which revision its count was written last.
    written: i64,
    /// It was made just now.
    is_new: bool,
}

impl Latch {
    fn of(kv: &KeyValue) -> Option<Self> {
        let value = std::str::from_utf8(&kv.value).ok()?;
        let (count, idle) = value.split_once(' ')?;
        let (count, idle) = (count.parse().ok()?, idle.parse().ok()?);
        Some(Latch { count, idle, lease: kv.lease, written: kv.written, is_new: false })
    }

    fn put(&self, name: &str) -> Op {
        let value = format!("{} {}", self.count, self.idle);
        Op::Put { key: Part::count_key(name), value, lease: self.lease }
    }

    fn put_shut(&self, name: &str) -> Op {
        Op::Put { key: Part::shut_key(name), value: String::new(), lease: self.lease }
    }
}

/// By which attempt the latch is changed.
#[derive(Clone, Debug)]
struct Change {
    attempt: Arc<str>,
    /// It sets the count, and counts not down.
    sets: bool,
}

/// What was asked last.
#[derive(Clone, Debug)]
enum State {
    Looking,
    KeepingAlive(Latch),
    /// What is written under the lease, where this is so.
    Granting(Latch, Compare),
    Writing(Latch),
    GivingBack,
    Counting(Latch),
    Changing(i64),
    Resting,
}

/// What a request about a latch takes, step by step: each says what is to be done, and goes on with what that came to.
#[derive(Clone, Debug)]
pub struct Steps {
    name: Arc<str>,
    client: AttemptId,
    plan: Plan,
    change: Option<Change>,
    tries: u32,
    state: State,
}

impl Steps {
    /// What comes before `request`, or in the place of it where it changes a latch; none where it is about no latch.
    /// What `client` counted down is remembered as its own.
    pub fn of(request: &Request, client: AttemptId) -> Option<Self> {
        let plan = plan(request)?;
        let change = match (request.call.name, &request.args[..]) {
            ("latch.change", [Arg::Text(attempt), Arg::Text(does), ..]) => {
                Some(Change { attempt: attempt.clone(), sets: &**does == "set" })
            }
            ("acquire" | "try" | "look", _) => None,
            _ => return None,
        };
        Some(Steps { name: request.key.clone(), client, plan, change, tries: 0, state: State::Resting })
    }

    /// The first of them.
    pub fn begin(&mut self) -> Step {
        self.state = State::Looking;
        Step::Ask(look(&self.name))
    }

    /// The next, after the last one came to this.
    pub fn go_on(&mut self, came: Came) -> Step {
        match (mem::replace(&mut self.state, State::Resting), came) {
            (State::Looking, Came::Response(seen)) => self.seen(&seen),
            (State::KeepingAlive(latch), Came::Alive(true)) => self.is_there(latch),
            (State::Granting(latch, same), Came::Granted(lease)) => self.write(Latch { lease, ..latch }, same),
            (State::Writing(latch), Came::Response(Response { succeeded: true, revision, .. })) => {
                self.is_there(Latch { written: revision, ..latch })
            }
            (State::Writing(latch), _) => {
                self.state = State::GivingBack;
                Step::Revoke(latch.lease)
            }
            (State::Counting(latch), Came::Response(seen)) => self.change(latch, &seen),
            (State::Changing(left), Came::Response(Response { succeeded: true, .. })) => answer(left),
            (State::Resting, _) => self.begin(),
            _ => self.rest(),
        }
    }

    fn seen(&mut self, seen: &Response) -> Step {
        let (name, plan) = (&*self.name, self.plan);
        match found(seen, 0).first().and_then(Latch::of) {
            Some(latch) if latch.idle >= plan.idle => {
                self.state = State::KeepingAlive(latch);
                Step::KeepAlive(latch.lease)
            }
            // The longest that anybody says counts.
            Some(latch) => {
                let same = Compare::key(&Part::count_key(name), Is::WrittenAt(latch.written));
                self.grant(Latch { idle: plan.idle, ..latch }, same)
            }
            None => {
                if let Some(other) = another(name, found(seen, 1)) {
                    return Step::Answer(other);
                }
                // Nobody came meanwhile.
                let same = Compare { keys: Keys::beginning(&below(name)), is: Is::CreatedBefore(seen.revision + 1) };
                let Plan { count, idle } = plan;
                self.grant(Latch { count, idle, lease: 0, written: 0, is_new: true }, same)
            }
        }
    }

    fn grant(&mut self, latch: Latch, same: Compare) -> Step {
        self.state = State::Granting(latch, same);
        Step::Grant(latch.idle)
    }

    fn write(&mut self, latch: Latch, same: Compare) -> Step {
        let name = &*self.name;
        let shut = (latch.count > 0).then(|| latch.put_shut(name));
        // Where all that it wants is a new latch, nothing is left to be changed.
        let made = self.change.as_ref().filter(|change| change.sets && latch.is_new).map(|change| Op::Put {
            key: self.counted_key(),
            value: change.attempt.to_string(),
            lease: latch.lease,
        });
        self.state = State::Writing(latch);
        Step::Ask(Transaction::when([same]).then([latch.put(name)].into_iter().chain(shut).chain(made)))
    }

    fn is_there(&mut self, latch: Latch) -> Step {
        match &self.change {
            None => Step::Kept,
            Some(change) if change.sets && latch.is_new => answer(latch.count),
            Some(_) => {
                let counted = read(&self.counted_key());
                self.state = State::Counting(latch);
                Step::Ask(Transaction::of([counted]))
            }
        }
    }

    /// Counts it down or sets its count, once for each attempt.
    fn change(&mut self, latch: Latch, seen: &Response) -> Step {
        let Some(Change { attempt, sets }) = &self.change else { return Step::Kept };
        let counted = found(seen, 0).first();
        let known = counted.and_then(|kv| std::str::from_utf8(&kv.value).ok()).unwrap_or_default();
        let known: Vec<_> = known.split_whitespace().collect();
        let count = match sets {
            _ if known.contains(&&**attempt) => return answer(latch.count),
            false if latch.count == 0 => return answer(0),
            false => latch.count - 1,
            true if latch.count > 0 => return Step::Answer(Reply::List(vec![Reply::Int(0)])),
            true => self.plan.count,
        };
        let (name, counted_key) = (&*self.name, self.counted_key());
        let compares = [
            Compare::key(&Part::count_key(name), Is::WrittenAt(latch.written)),
            Compare::key(&counted_key, Is::WrittenAt(counted.map_or(0, |kv| kv.written))),
        ];
        let forgotten = known.len().saturating_sub(REMEMBERED - 1);
        let known = [&known[forgotten..], &[&**attempt]].concat().join(" ");
        let latch = Latch { count, ..latch };
        let puts = [
            latch.put(name),
            Op::Put { key: counted_key, value: known, lease: latch.lease },
            if count == 0 { Op::Delete(Part::shut_key(name)) } else { latch.put_shut(name) },
        ];
        self.state = State::Changing(count);
        Step::Ask(Transaction::when(compares).then(puts))
    }

    /// Others were faster: the more often, the longer.
    fn rest(&mut self) -> Step {
        self.tries += 1;
        if self.tries == TRIES {
            return Step::TooLate;
        }
        let spread = u32::try_from(self.client.0 % SPREAD).unwrap_or_default();
        Step::Rest(REST * (self.tries - 1).min(LONGEST_REST) * (1 + spread))
    }

    /// Where it lies what this client counted down last.
    fn counted_key(&self) -> String {
        Part::Latch.own_key(&self.name, self.client).to_string()
    }
}

/// The plan in a request by somebody who waits, or counts.
fn plan(request: &Request) -> Option<Plan> {
    let at = match request.call.name {
        "acquire" | "try" => 5,
        "look" => 4,
        _ => 2,
    };
    match request.args.get(at..at + 2) {
        Some([Arg::Int(count), Arg::Int(idle)]) => Some(Plan { count: *count, idle: *idle }),
        _ => None,
    }
}

fn answer(left: i64) -> Step {
    Step::Answer(Reply::List([1, left].map(Reply::Int).into()))
}

fn read(key: &str) -> Op {
    Op::Get(Get::all(Keys::one(key)))
}

/// What a get of a transaction found.
fn found(response: &Response, at: usize) -> &[KeyValue] {
    match response.done.get(at) {
        Some(Done::Got(got)) => &got.kvs,
        _ => &[],
    }
}

/// Reads the latch and what else lies below its name.
pub fn look(name: &str) -> Transaction {
    let others = Get { limit: OTHERS, ..Get::keys(Keys::beginning(&below(name))) };
    Transaction::of([read(&Part::count_key(name)), Op::Get(others)])
}

/// The answer to [`look`]: how many are to come yet.
pub fn looked(name: &str, seen: &Response) -> Reply {
    let latch = found(seen, 0).first().and_then(Latch::of).map(|latch| Reply::Int(latch.count));
    latch.or_else(|| another(name, found(seen, 1))).unwrap_or(Reply::Nil)
}

/// What else than a latch is called so, as a refusal.
fn another(name: &str, below: &[KeyValue]) -> Option<Reply> {
    let parts = below.iter().filter_map(|kv| Part::of_key(name, std::str::from_utf8(&kv.key).ok()?));
    parts.into_iter().find(|part| !matches!(part, Part::Latch | Part::Wait)).map(|part| foreign(part.word()))
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;
    use crate::protocol::Call;
    use crate::stores::etcd::layouts::{ACQUIRE, LATCH_CHANGE};
    use crate::stores::etcd::wire::{Got, Shown};

    const NAME: &str = "app/done";
    const COUNT: i64 = 3;
    const IDLE: i64 = 60;

    /// A cluster that does one call at a time.
    #[derive(Clone, Default)]
    struct Cluster {
        revision: i64,
        keys: BTreeMap<Vec<u8>, KeyValue>,
        leases: BTreeSet<i64>,
        granted: i64,
    }

    impl Cluster {
        fn of<'a>(&'a self, keys: &'a Keys) -> impl Iterator<Item = &'a KeyValue> {
            let is_meant = |key: &[u8]| match &keys.end[..] {
                [] => key == keys.from,
                end => key >= &keys.from[..] && key < end,
            };
            self.keys.values().filter(move |kv| is_meant(&kv.key))
        }

        fn compares(&self, Compare { keys, is }: &Compare) -> bool {
            let known = || self.of(keys);
            match is {
                Is::WrittenAt(0) | Is::CreatedAt(0) => known().next().is_none(),
                Is::WrittenAt(revision) => known().next().is_some_and(|kv| kv.written == *revision),
                Is::CreatedBefore(revision) => known().all(|kv| kv.created < *revision),
                other => panic!("a latch compares no {other:?}"),
            }
        }

        fn ask(&mut self, asked: &Transaction) -> Response {
            let succeeded = asked.compares.iter().all(|compare| self.compares(compare));
            let ops = if succeeded { &asked.success } else { &asked.failure };
            if ops.iter().any(|op| !matches!(op, Op::Get(_))) {
                self.revision += 1;
            }
            let done = ops.iter().map(|op| self.perform(op)).collect();
            Response { revision: self.revision, succeeded, done }
        }

        fn perform(&mut self, op: &Op) -> Done {
            match op {
                Op::Get(get) => {
                    let shown = |kv: &KeyValue| match get.of {
                        Shown::All => kv.clone(),
                        _ => KeyValue { value: Vec::new(), ..kv.clone() },
                    };
                    Done::Got(Got { kvs: self.of(&get.keys).map(shown).collect(), ..Got::default() })
                }
                Op::Put { key, value, lease } => {
                    assert!(self.leases.contains(lease), "it is kept by a lease that is there");
                    let (key, value, written) = (key.as_bytes().to_vec(), value.as_bytes().to_vec(), self.revision);
                    let created = self.keys.get(&key).map_or(written, |kv| kv.created);
                    self.keys.insert(key.clone(), KeyValue { key, value, created, written, lease: *lease });
                    Done::Put
                }
                Op::Delete(key) => Done::Deleted(self.keys.remove(key.as_bytes()).is_some().into()),
            }
        }

        fn end(&mut self, lease: i64) {
            self.leases.remove(&lease);
            self.keys.retain(|_, kv| kv.lease != lease);
            self.revision += 1;
        }

        /// Does a step; none where it is the last.
        fn does(&mut self, step: &Step) -> Option<Came> {
            Some(match step {
                Step::Ask(asked) => Came::Response(self.ask(asked)),
                Step::Grant(_) => {
                    self.granted += 1;
                    self.leases.insert(self.granted);
                    Came::Granted(self.granted)
                }
                Step::KeepAlive(lease) => Came::Alive(self.leases.contains(lease)),
                Step::Revoke(lease) => {
                    self.end(*lease);
                    Came::Nothing
                }
                Step::Rest(_) => Came::Nothing,
                Step::Kept | Step::Answer(_) | Step::TooLate => return None,
            })
        }

        fn left(&mut self) -> Reply {
            let seen = self.ask(&look(NAME));
            looked(NAME, &seen)
        }

        fn is_shut(&self) -> bool {
            self.keys.contains_key(Part::shut_key(NAME).as_bytes())
        }
    }

    /// Somebody who asks something.
    #[derive(Clone)]
    struct Caller {
        request: Request,
        client: u128,
        steps: Steps,
        next: Step,
    }

    impl Caller {
        fn new(client: u128, call: &'static Call, args: &[Arg]) -> Self {
            let mut request = Request::new(call, NAME.into(), []);
            request.args.extend(args.iter().cloned());
            let mut steps = Steps::of(&request, AttemptId(client)).unwrap();
            let next = steps.begin();
            Caller { request, client, steps, next }
        }

        fn changes(client: u128, attempt: &str, does: &str) -> Self {
            Self::new(client, &LATCH_CHANGE, &[attempt.into(), does.into(), Arg::Int(COUNT), Arg::Int(IDLE)])
        }

        fn waits(client: u128, idle: i64) -> Self {
            let own = Arg::Key(format!("{NAME}/latch/{client}.wait").into());
            let queue = Arg::Key(format!("{NAME}/latch/state").into());
            let plan = [Arg::Int(COUNT), Arg::Int(idle)];
            let args: Vec<_> =
                [own, Arg::Nothing, Arg::Int(32), Arg::NotAfter, queue].into_iter().chain(plan).collect();
            Self::new(client, &ACQUIRE, &args)
        }

        /// Whether there was something left to do.
        fn goes_on(&mut self, cluster: &mut Cluster) -> bool {
            let came = cluster.does(&self.next);
            came.map(|came| self.next = self.steps.go_on(came)).is_some()
        }

        /// The same, of which it is not told: it asks again.
        fn is_not_told(&mut self, cluster: &mut Cluster) -> bool {
            let was_done = cluster.does(&self.next).is_some();
            self.steps = Steps::of(&self.request, AttemptId(self.client)).unwrap();
            self.next = self.steps.begin();
            was_done
        }

        fn until_done(mut self, cluster: &mut Cluster) -> Step {
            while self.goes_on(cluster) {}
            self.next
        }
    }

    /// All orders in which these can go on, where so many answers are lost at most.
    fn in_every_order(cluster: &Cluster, callers: &[Caller], losses: u32, ends: &mut dyn FnMut(Cluster, &[Caller])) {
        let mut ended = true;
        for at in 0..callers.len() {
            for loses in 0..=losses.min(1) {
                let (mut cluster, mut callers) = (cluster.clone(), callers.to_vec());
                let goes = match loses {
                    0 => callers[at].goes_on(&mut cluster),
                    _ => callers[at].is_not_told(&mut cluster),
                };
                if goes {
                    ended = false;
                    in_every_order(&cluster, &callers, losses - loses, ends);
                }
            }
        }
        if ended {
            ends(cluster.clone(), callers);
        }
    }

    #[test]
    fn in_every_order_each_counts_once_also_where_an_answer_is_lost() {
        let callers = [Caller::changes(1, "a", "down"), Caller::changes(2, "b", "down")];
        for is_made in [false, true] {
            for losses in [0, 1] {
                let mut cluster = Cluster::default();
                if is_made {
                    assert_eq!(Caller::waits(3, IDLE).until_done(&mut cluster), Step::Kept);
                }
                let mut ends = 0;
                in_every_order(&cluster, &callers, losses, &mut |mut cluster, callers| {
                    ends += 1;
                    assert_eq!((cluster.left(), cluster.is_shut()), (Reply::Int(1), true));
                    assert!(callers.iter().any(|caller| caller.next == answer(1)));
                    if losses == 0 {
                        assert!(callers.iter().any(|caller| caller.next == answer(2)));
                        assert_eq!(cluster.leases.len(), 1, "who made one too many gave it back");
                    }
                });
                assert!(ends > 20, "{ends} orders");
            }
        }
    }

    #[test]
    fn in_every_order_one_sets_the_count_of_an_open_latch() {
        let mut cluster = Cluster::default();
        for (attempt, left) in [("a", 2), ("b", 1), ("c", 0), ("d", 0)] {
            assert_eq!(Caller::changes(1, attempt, "down").until_done(&mut cluster), answer(left));
        }
        let callers = [Caller::changes(1, "e", "set"), Caller::changes(2, "f", "set")];
        in_every_order(&cluster, &callers, 0, &mut |mut cluster, callers| {
            let refused = Step::Answer(Reply::List(vec![Reply::Int(0)]));
            let mut said = callers.iter().map(|caller| caller.next.clone()).collect::<Vec<_>>();
            said.sort_by_key(|said| *said == refused);
            assert_eq!(said, [answer(COUNT), refused]);
            assert_eq!((cluster.left(), cluster.is_shut()), (Reply::Int(COUNT), true));
        });
        // Who sets the count of none has made it, which is all that was wanted, also when it asks again.
        let mut empty = Cluster::default();
        for _ in 0..2 {
            assert_eq!(Caller::changes(1, "g", "set").until_done(&mut empty), answer(COUNT));
        }
    }

    #[test]
    fn it_is_kept_for_as_long_as_anybody_says_and_another_one_after_it_ended() {
        let mut cluster = Cluster::default();
        assert_eq!(Caller::changes(1, "a", "down").until_done(&mut cluster), answer(2));
        let mut longer = Caller::waits(2, 2 * IDLE);
        longer.goes_on(&mut cluster);
        assert_eq!(longer.next, Step::Grant(2 * IDLE));
        assert_eq!(longer.until_done(&mut cluster), Step::Kept);
        assert_eq!((cluster.left(), cluster.is_shut()), (Reply::Int(2), true));
        // The first lease ends, under which nothing of the latch is kept any more.
        cluster.end(1);
        assert_eq!((cluster.left(), cluster.is_shut()), (Reply::Int(2), true));
        let mut shorter = Caller::waits(3, IDLE);
        shorter.goes_on(&mut cluster);
        assert_eq!(shorter.next, Step::KeepAlive(2));
        // It ends just before that.
        cluster.end(2);
        assert_eq!(shorter.until_done(&mut cluster), Step::Kept);
        assert_eq!((cluster.left(), cluster.is_shut()), (Reply::Int(COUNT), true));
    }

    #[test]
    fn what_is_called_so_already_is_told() {
        let mut cluster = Cluster { leases: [9].into(), ..Cluster::default() };
        let key = format!("{NAME}/{:032x}", 7);
        cluster.ask(&Transaction::of([Op::Put { key, value: String::new(), lease: 9 }]));
        let is_foreign = |said: &Reply| matches!(said, Reply::Error { code, .. } if code == "FOREIGN");
        for caller in [Caller::changes(1, "a", "down"), Caller::waits(1, IDLE)] {
            let said = caller.until_done(&mut cluster);
            assert!(matches!(&said, Step::Answer(refused) if is_foreign(refused)), "{said:?}");
        }
        assert!(is_foreign(&cluster.left()));
        assert_eq!(cluster.leases.len(), 1);
    }

    #[test]
    fn whoever_is_never_fast_enough_rests_longer_and_longer_and_is_told() {
        let mut cluster = Cluster::default();
        let mut slow = Caller::changes(3, "a", "down");
        let mut rests = Vec::new();
        loop {
            if let State::Changing(_) = slow.steps.state {
                // Somebody else writes the count.
                let KeyValue { value, lease, .. } = cluster.keys[Part::count_key(NAME).as_bytes()].clone();
                let value = String::from_utf8(value).unwrap();
                cluster.ask(&Transaction::of([Op::Put { key: Part::count_key(NAME), value, lease }]));
            }
            if let Step::Rest(time) = slow.next {
                rests.push(time);
            }
            if !slow.goes_on(&mut cluster) {
                break;
            }
        }
        assert_eq!(slow.next, Step::TooLate);
        assert_eq!(rests.len(), 63);
        assert_eq!([rests[0], rests[1], rests[62]], [0, 800, 16_000].map(Duration::from_micros));
        assert!(rests.is_sorted());
    }
}
