//! The table at the top of `session.rs` and the code say the same: a session is told everything that it may be, at
//! random, and each step that it takes is looked up.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::Hasher;

use super::*;
use crate::protocol::{Change, Grant, InboxId, Request, Term, Traits, Wait};
use crate::rank::Rank;
use crate::token::Tokens;

/// From a phase by an event to another phase, and what is done on the way.
type Steps = BTreeMap<(String, String, String), BTreeSet<String>>;

/// What may come with any step: the clock of the store that was answered, and answers that somebody still waited for.
const BESIDES: [&str; 4] = ["Learn", "Extended", "Changed", "Released"];
fn documented() -> Steps {
    let lines = include_str!("../session.rs").lines();
    let rows = lines.skip_while(|line| !line.starts_with("//!   -----")).skip(1).take_while(|line| *line != "//! ```");
    let mut steps = Steps::new();
    for row in rows {
        let columns: Vec<&str> = row[3..].split("  ").map(str::trim).filter(|column| !column.is_empty()).collect();
        let [phase, event, next, rest @ ..] = columns.as_slice() else { panic!("{row:?} has no three columns") };
        let events = event.split(':').next().unwrap_or_default();
        let actions = rest.first().unwrap_or(&"-").split(", ").filter(|action| *action != "-");
        for event in events.split('/') {
            let step = (phase.to_string(), event.to_owned(), next.to_string());
            steps.entry(step).or_default().extend(actions.clone().map(str::to_owned));
        }
    }
    steps
}

/// The same numbers everywhere.
#[derive(Clone, Debug)]
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % end
    }

    fn chance(&mut self, one_in: u64) -> bool {
        self.below(one_in) == 0
    }
}

static CALL: crate::protocol::Call = crate::protocol::Call { name: "drawn", body: &[], batch: false };

fn requests() -> Requests {
    Requests::from_iter([Request::new(&CALL, "x".into(), [])])
}

/// A layout whose store answers anything that an operation may be answered with.
#[derive(Clone, Debug)]
struct Drawn {
    random: Random,
    push: Push,
    passes: bool,
    bound: bool,
    now: StoreTime,
}

impl Drawn {
    fn outcome(&mut self) -> ReleaseOutcome {
        if self.random.chance(3) { ReleaseOutcome::Expired } else { ReleaseOutcome::Released }
    }

    fn failed(&mut self) -> Verdict {
        let kind = if self.random.chance(2) { Kind::Unavailable } else { Kind::Unsupported };
        Verdict::Failed(Error::new(kind, "test", "drawn"))
    }

    fn granted(&mut self, term: Term) -> Verdict {
        let prev = Some(self.outcome());
        Verdict::Granted(Grant { tokens: Tokens::new(1, 64), term, prev })
    }

    fn answer(&mut self, op: Op) -> Step {
        let at = self.now;
        let verdict = match (op, self.random.below(6)) {
            (Op::Acquire, 0) => self.granted(Term::FromRequest),
            (Op::Acquire, 1) => {
                let (remaining, prev) = (Duration::from_secs(self.random.below(40)), Some(self.outcome()));
                return Step::Wait(Wait { at: Some(at), remaining, position: 0, prev });
            }
            (Op::Acquire, 2) => {
                let (remaining, prev) = (Duration::from_secs(self.random.below(40)), Some(self.outcome()));
                Verdict::Held { remaining, at: Some(at), prev }
            }
            (Op::Acquire | Op::Renew, 3) => Verdict::Late { at },
            (Op::Acquire, 4) => Verdict::Gone(ReleaseOutcome::Expired),
            (Op::Renew, 0 | 1) => Verdict::Renewed,
            (Op::Renew, 5) => Verdict::Wanted,
            (Op::Renew, 2) => Verdict::Changed(self.random.chance(2).then_some(7)),
            (Op::Renew, 4) => Verdict::Gone(ReleaseOutcome::Expired),
            (Op::Release, 0..4) => Verdict::Released(self.outcome()),
            (Op::Undo, 0 | 1) => Verdict::Undone,
            (Op::Undo, 2) if self.push.is_final() => self.granted(Term::ForGood),
            _ => self.failed(),
        };
        Step::Done(verdict)
    }
}

impl Protocol for Drawn {
    fn step(&mut self, input: Input<'_>) -> Step {
        match input {
            Input::Begin(_) => Step::Ask(requests()),
            Input::Reply(op, _) => self.answer(op),
            Input::Event(StoreEvent::Granted { .. }) if self.random.chance(8) => Step::Done(Verdict::Implausible),
            Input::Event(StoreEvent::Granted { at, .. }) => {
                let verdict = self.granted(Term::Pushed(*at));
                Step::Done(verdict)
            }
            Input::Event(StoreEvent::Changed { .. }) if matches!(self.push, Push::Watch | Push::WatchedPlace) => {
                Step::Ask(requests())
            }
            Input::Event(_) => Step::Ignore,
        }
    }

    fn change(&mut self, _: Change) -> Step {
        Step::Ask(requests())
    }

    fn pass(&self, _: &Terms, _: &Terms) -> Option<Requests> {
        self.passes.then(requests)
    }

    fn traits(&self) -> Traits {
        Traits { block: 64, yields: true, push: self.push, bound: self.bound }
    }

    fn channel(&self, _: &Terms) -> Option<Arc<str>> {
        self.push.is_hint().then(|| "channel".into())
    }

    fn duplicate(&self) -> Box<dyn Protocol> {
        Box::new(self.clone())
    }

    fn fingerprint(&self, _: &mut dyn Hasher) {}
}

/// One session that is told things at random.
struct Walk {
    random: Random,
    session: Session,
    now: Time,
    attempts: u128,
    /// What was sent and is not answered.
    flights: Vec<(RequestId, Time)>,
}

const ATTEMPT_TTL: Duration = Duration::from_secs(10);

impl Walk {
    fn new(seed: u64, push: Push, bound: bool) -> Self {
        let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        let now = Time::from_nanos(1_000_000_000_000);
        let passes = !random.chance(4);
        let drawn = Drawn { random: random.clone(), push, passes, bound, now: StoreTime(1_000_000_000) };
        let session = Session::new(Box::new(drawn), Duration::from_secs(5));
        Walk { random, session, now, attempts: 0, flights: Vec::new() }
    }

    fn terms(&mut self) -> Terms {
        self.attempts += 1;
        let (attempt, inbox, ttl) = (AttemptId(self.attempts), InboxId(1), ATTEMPT_TTL);
        Terms {
            name: "x".into(),
            attempt,
            inbox,
            ttl,
            claim: claim(ttl),
            card: "".into(),
            fair: false,
            rank: Rank::LOWEST,
        }
    }

    fn service(&mut self) -> Service {
        let ttl = Duration::from_secs([3, 10][self.random.below(2) as usize]);
        let max_hold = self.random.chance(4).then_some(Duration::from_secs(4));
        Service { ttl, renew: !self.random.chance(4), max_hold, retry: Retry::DEFAULT }
    }

    /// Lets time pass: none, a little, until something is due, or long.
    fn wait(&mut self) {
        let by = [0, 0, 0, 1, 20, 300, 2_000, 6_000][self.random.below(8) as usize];
        self.now = self.now.after(Duration::from_millis(by));
        if self.random.chance(3) {
            self.now = self.session.poll_timeout().map_or(self.now, |due| due.max(self.now));
        }
    }

    /// Takes one step; which event it was.
    fn step(&mut self) -> &'static str {
        self.wait();
        let now = self.now;
        if self.session.phase == Phase::Idle && self.random.chance(2) {
            let (terms, service) = (self.terms(), self.service());
            if self.random.chance(4) {
                let secret = Terms::of_secret("x".into(), AttemptId(99), ATTEMPT_TTL, "".into());
                self.session.handle(now, Event::Resume { terms, secret, service });
                return "Resume";
            }
            let inbox = [Inbox::Live, Inbox::Closed, Inbox::Unavailable][self.random.below(3) as usize];
            let wait = !self.random.chance(4);
            self.session.handle(now, Event::Acquire { terms, wait, service, inbox });
            return "Acquire";
        }
        if !self.flights.is_empty() && self.random.chance(2) {
            let at = self.random.below(self.flights.len() as u64) as usize;
            let (id, sent) = self.flights.swap_remove(at);
            let error = Error::new([Kind::Unavailable, Kind::Auth][self.random.below(2) as usize], "test", "drawn");
            let answer = match self.random.below(6) {
                0 => Answer::NotSent(error),
                1 => Answer::Unknown { error, void_after: now.after(Duration::from_secs(1)) },
                _ => Answer::Replies(&[]),
            };
            self.session.handle(now, Event::Reply { id, sent, answer });
            return "Reply";
        }
        let attempt = self.session.attempt();
        let at = StoreTime((now.as_nanos() / 1000) as i64 - 1000 * [0, 300, 2_000][self.random.below(3) as usize]);
        let path: Arc<str> = "channel".into();
        let pushed = match self.random.below(8) {
            0 | 1 => StoreEvent::Granted { attempt, first: 1, last: 64, at },
            2 => StoreEvent::Broken { attempt },
            3 => StoreEvent::Next { tail: attempt.tail() },
            4 => StoreEvent::Dropped,
            5 => StoreEvent::Turn { attempt },
            _ => StoreEvent::Changed { path },
        };
        let service = self.service();
        let secret = Terms::of_secret("x".into(), AttemptId(98), ATTEMPT_TTL, "".into());
        let (event, name) = match self.random.below(28) {
            0..4 => (Event::Push(&pushed), "Push"),
            4 => (Event::Inbox([Inbox::Live, Inbox::Closed][self.random.below(2) as usize]), "Inbox"),
            5 => (Event::Serve(service), "Serve"),
            6 => (Event::Extend(service.ttl * 2), "Extend"),
            7 => (Event::Change(1), "Change"),
            8 if self.session.phase == Phase::Held => {
                let attempt = self.terms().attempt;
                (Event::Yield { attempt, used: 1, service }, "Yield")
            }
            9 => (Event::Release { used: 1 }, "Release"),
            10 if self.session.phase == Phase::Held && self.session.can_pass() => {
                (Event::Export { secret, used: 1 }, "Export")
            }
            11 => (Event::Cancel, "Cancel"),
            12 => (Event::Verify, "Verify"),
            13 => (Event::Heed, "Heed"),
            14..18 if self.session.bound => (Event::Alive(now.after(ATTEMPT_TTL)), "Alive"),
            18 if self.session.bound => (Event::Over, "Over"),
            _ => (Event::Tick, "Tick"),
        };
        self.session.handle(now, event);
        name
    }

    fn record(&mut self, steps: &mut Steps) {
        let before = format!("{:?}", self.session.phase);
        let event = self.step();
        let mut actions = BTreeSet::new();
        let mut ended = false;
        while let Some(action) = self.session.poll_action() {
            let text = format!("{action:?}");
            let name = text.split([' ', '(', '{']).next().unwrap_or_default().to_owned();
            match action {
                Action::Send { id, .. } => {
                    self.flights.push((id, self.now));
                    actions.insert(format!("Send({})", format!("{:?}", id.op).to_lowercase()));
                }
                Action::Ended => ended = true,
                _ => _ = actions.insert(name),
            }
        }
        let after = if ended { "Ended".to_owned() } else { format!("{:?}", self.session.phase) };
        // What changes nothing is in no table.
        let is_step = before != after || actions.iter().any(|action| !BESIDES.contains(&action.as_str()));
        if is_step {
            steps.entry((before, event.to_owned(), after)).or_default().extend(actions);
        }
    }
}

fn observed() -> Steps {
    let mut steps = Steps::new();
    let ways = [Push::None, Push::Inbox, Push::Watch, Push::Place, Push::WatchedPlace, Push::Hint, Push::HintOfSome];
    for (seed, push) in ways.into_iter().enumerate() {
        for walk in 0..500 {
            let bound = (push == Push::Watch && walk % 2 == 0) || push == Push::WatchedPlace;
            let mut walk = Walk::new(walk * 5 + seed as u64 + 1, push, bound);
            (0..400).for_each(|_| walk.record(&mut steps));
        }
    }
    steps
}

#[test]
fn the_table_is_what_the_code_does() {
    let (documented, observed) = (documented(), observed());
    let mut wrong = Vec::new();
    for (step, actions) in &observed {
        let Some(known) = documented.get(step) else {
            wrong.push(format!("not in the table: {step:?} {actions:?}"));
            continue;
        };
        let unknown: Vec<_> =
            actions.iter().filter(|a| !BESIDES.contains(&a.as_str())).filter(|a| !known.contains(*a)).collect();
        if !unknown.is_empty() {
            wrong.push(format!("not in the table: {step:?} does {unknown:?}"));
        }
    }
    for (step, actions) in &documented {
        let Some(done) = observed.get(step) else {
            wrong.push(format!("never happens: {step:?} {actions:?}"));
            continue;
        };
        let missing: Vec<_> = actions.difference(done).collect();
        if !missing.is_empty() {
            wrong.push(format!("never happens: {step:?} does {missing:?}"));
        }
    }
    assert!(wrong.is_empty(), "{} differences:\n{}", wrong.len(), wrong.join("\n"));
}
