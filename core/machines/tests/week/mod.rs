//! One lock, held and renewed for as long as is wanted.

use std::collections::VecDeque;
use std::time::Duration;

use lockwright_machines::by_rank::ByRank;
use lockwright_machines::cell::{Cell, Runs};
use lockwright_machines::error::{Error, Kind};
use lockwright_machines::lock_cell::{LockCell, Surroundings};
use lockwright_machines::native_machine::{Calls, NativeMachine};
use lockwright_machines::options::Retry;
use lockwright_machines::protocol::{AttemptId, InboxId, Reply, Request, Terms};
use lockwright_machines::rank::Rank;
use lockwright_machines::session::{Action, Answer, Event, Inbox, Service, Session, claim, margin};
use lockwright_machines::store_clock::StoreClock;
use lockwright_machines::time::{StoreTime, Time};

/// True time, in nanoseconds.
pub const DAY: u64 = 86_400 * SECOND;
const SECOND: u64 = 1_000_000_000;
const RESPONSE_TIMEOUT: Duration = Duration::from_millis(200);
static CALLS: Calls = Calls::of_cell();

/// A lock that is held, seen from outside.
pub struct Week {
    ttl: Duration,
    /// By how many parts in a million the client's clock is fast.
    drift: i64,
    /// One answer in so many is lost.
    loses: Option<u64>,
    now: u64,
    random: u64,
    session: Session,
    record: LockCell,
    clock: StoreClock,
    asked: u64,
    lost: u64,
    /// How far behind the estimate of the store's clock ever was, in microseconds, day by day.
    behind: VecDeque<i64>,
}

impl Week {
    pub fn new(ttl: Duration, drift: i64) -> Self {
        let session = Session::new(Box::new(NativeMachine::new(&CALLS, "week".into(), true)), Duration::from_secs(5));
        let (name, card) = ("week".into(), "".into());
        let terms = Terms {
            name,
            attempt: AttemptId(7),
            inbox: InboxId(1),
            ttl,
            claim: claim(ttl),
            card,
            fair: false,
            rank: Rank::LOWEST,
        };
        let mut week = Week {
            ttl,
            drift,
            loses: None,
            now: 0,
            random: 1,
            session,
            record: LockCell::default(),
            clock: StoreClock::default(),
            asked: 0,
            lost: 0,
            behind: VecDeque::from([0]),
        };
        week.clock.learn(week.local(), week.store());
        let service = Service { ttl, renew: true, max_hold: None, retry: Retry::DEFAULT };
        week.tell(Event::Acquire { terms, wait: true, service, inbox: Inbox::Live });
        week
    }

    pub fn losing_one_in(self, answers: u64) -> Self {
        Week { loses: Some(answers), ..self }
    }

    /// Holds the lock for `span` of true time, and checks all that was promised.
    pub fn lasts(mut self, span: u64) {
        let mut resident = None;
        while self.now < span {
            let due = self.session.poll_timeout().expect("a held lock is renewed");
            self.now = self.true_time(due).max(self.now) + self.below(self.latency());
            self.tell(Event::Tick);
            let believed = self.session.valid_until().expect("it is held");
            assert!(believed > self.local(), "{:?} after {} s nobody believes to hold it", self.ttl, self.now / SECOND);
            if self.now > span / 7 && resident.is_none() {
                resident = Some(resident_bytes());
            }
            if self.now / (span / 7) >= self.behind.len() as u64 {
                self.behind.push_back(0);
            }
        }
        self.check_requests(span);
        self.check_clock();
        let grown = resident_bytes().saturating_sub(resident.unwrap_or_default());
        assert!(grown < 4 << 20, "{grown} bytes more than after the first day");
        println!(
            "{:?}, clock {:+.2} %: {} renewals, {} answers lost, estimate of the store's clock at most {} us behind",
            self.ttl,
            self.drift as f64 / 10_000.0,
            self.asked,
            self.lost,
            self.behind.iter().max().unwrap_or(&0)
        );
    }

    /// One request a third of the lease, an eighth earlier at most; and another for each answer that was lost.
    fn check_requests(&self, span: u64) {
        let third = self.ttl.as_nanos() as u64 / 3;
        let stretch = third / 100 + 3 * self.latency();
        let (least, most) = (span / (third + stretch), span / (third - third / 100 - third / 8) + 2);
        let retries = self.lost * 8;
        assert!(
            (least..=most + retries).contains(&self.asked),
            "{:?}: {} renewals, not {least}..={most}",
            self.ttl,
            self.asked
        );
    }

    /// The estimate of the last day is as good as that of the first.
    fn check_clock(&self) {
        let allowed = 10_000_000 * 2 / 100 + self.ttl.as_micros() as i64 / 100 + 2 * self.latency() as i64 / 1000;
        for (day, behind) in self.behind.iter().enumerate() {
            assert!(*behind <= allowed, "day {day}: {behind} us behind, at most {allowed} allowed");
        }
    }

    /// How long a message or a timer takes at most.
    fn latency(&self) -> u64 {
        (self.ttl.as_nanos() as u64 / 50).min(5_000_000)
    }

    fn below(&mut self, end: u64) -> u64 {
        // Xorshift: the same numbers everywhere, and cheap.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % end
    }

    fn local(&self) -> Time {
        Time::from_nanos((1_000_000 * SECOND as i128 + self.stretched(self.now)) as u64)
    }

    fn stretched(&self, now: u64) -> i128 {
        i128::from(now) * (1_000_000 + i128::from(self.drift)) / 1_000_000
    }

    /// The earliest true time at which our clock has reached `at`.
    fn true_time(&self, at: Time) -> u64 {
        let local = i128::from(at.as_nanos()) - 1_000_000 * SECOND as i128;
        (local * 1_000_000 / (1_000_000 + i128::from(self.drift))) as u64 + 1
    }

    fn store(&self) -> StoreTime {
        StoreTime((1_700_000_000 * SECOND + self.now) as i64 / 1000)
    }

    fn tell(&mut self, event: Event<'_>) {
        self.session.handle(self.local(), event);
        while let Some(action) = self.session.poll_action() {
            match action {
                Action::Send { id, requests } => {
                    let sent = self.local();
                    self.estimate(sent);
                    self.now += self.below(self.latency());
                    let reply = self.execute(&requests[0]);
                    let at = self.store();
                    self.now += self.below(self.latency());
                    if self.clock.is_old(sent) {
                        self.clock.learn(self.local(), at);
                    }
                    if self.loses.is_some_and(|one_in| self.below(one_in) == 0) {
                        self.lost += 1;
                        self.now += RESPONSE_TIMEOUT.as_nanos() as u64;
                        let error = Error::new(Kind::Unavailable, "renew", "no answer");
                        let void_after = self.local().after(margin(RESPONSE_TIMEOUT));
                        self.answered(id, sent, Answer::Unknown { error, void_after });
                    } else {
                        self.answered(id, sent, Answer::Replies(&[reply]));
                    }
                }
                Action::Granted { .. } | Action::Learn { .. } => {}
                other => panic!("{:?} after {} s: {other:?}", self.ttl, self.now / SECOND),
            }
        }
    }

    fn answered(&mut self, id: lockwright_machines::session::RequestId, sent: Time, answer: Answer<'_>) {
        self.session.handle(self.local(), Event::Reply { id, sent, answer });
        if let Some(until) = self.session.valid_until() {
            let left = until.since(self.local()).as_nanos() as i128;
            let expires = self.record.hold.as_ref().map_or(0, |hold| hold.expires.micros_since(self.store())) as i128;
            let by_store = left * 1_000_000 / (1_000_000 + i128::from(self.drift)) / 1000;
            assert!(by_store <= expires, "believed for {by_store} us, the store says {expires} us");
        }
    }

    /// Never ahead; how far behind is noted.
    fn estimate(&mut self, sent: Time) {
        let behind = self.store().micros_since(self.clock.at(sent));
        // What was learnt longer ago than an estimate holds is asked for with this very request.
        assert!(behind >= -1, "the estimate is {} us ahead of the store's clock", -behind);
        if !self.clock.is_old(sent)
            && let Some(most) = self.behind.back_mut()
        {
            *most = behind.max(*most);
        }
    }

    fn execute(&mut self, request: &Request) -> Reply {
        let now = self.store();
        let env = &mut Surroundings { now, token_floor: 1, alive: &|_| true, pushes: Vec::new() };
        if request.call.name == "renew" {
            self.asked += 1;
            let held = self.record.hold.as_ref().is_some_and(|hold| hold.expires > now);
            assert!(held, "{:?} after {} s the lease had run out", self.ttl, self.now / SECOND);
        }
        let procedure = LockCell::read(request).expect("one of the layout's");
        // Nobody else wants the lock.
        let Ok(reply) = self.record.run(procedure, &mut ByRank::default(), env);
        reply
    }
}

/// What this process keeps in memory; zero where the system does not say.
fn resident_bytes() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    pages.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0) * 4096
}
