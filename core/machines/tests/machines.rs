//! One test for each rule that the machines keep, told by the failing run that made it a rule. `scripts/mutate` takes
//! the guards out one by one and requires these to fail.

#[path = "machines/barrier.rs"]
mod barrier;
#[path = "machines/bound.rs"]
mod bound;
#[path = "machines/hinted.rs"]
mod hinted;
#[path = "machines/joined.rs"]
mod joined;
#[path = "machines/latch.rs"]
mod latch;
#[path = "explore/layout/line.rs"]
#[allow(unreachable_pub, reason = "shared with the explorer")]
mod line;
#[path = "machines/line_up.rs"]
mod line_up;
#[path = "machines/nodes.rs"]
mod nodes;
#[path = "machines/passing.rs"]
mod passing;
#[path = "machines/plain.rs"]
mod plain;
#[allow(unreachable_pub, dead_code, reason = "shared with others, and this uses its part")]
mod process;
#[path = "machines/quorum.rs"]
mod quorum;
#[path = "machines/resting.rs"]
mod resting;
#[path = "machines/shared.rs"]
mod shared;
#[path = "machines/tasks.rs"]
mod tasks;
#[path = "machines/tokenless.rs"]
mod tokenless;
#[path = "machines/waiting.rs"]
mod waiting;

use std::time::Duration;

use lockwright_machines::lease::LossReason;
use lockwright_machines::lock_cell::Claimant;
use lockwright_machines::native_machine::{Calls, NativeMachine};
use lockwright_machines::options::Retry;
use lockwright_machines::protocol::{Arg, AttemptId, InboxId, Op, Protocol, Reply, Request, StoreEvent, Terms};
use lockwright_machines::queue::{self, Ask, ContenderId, HoldId, Queue, TaskId};
use lockwright_machines::rank::Rank;
use lockwright_machines::session::{Action, Answer, Event, Inbox, RequestId, Service, Session, claim};
use lockwright_machines::time::{StoreTime, Time};
use lockwright_machines::token::Tokens;
use lockwright_machines::{Error, Kind};

const TTL: Duration = Duration::from_secs(30);
const SERVICE: Service = Service { ttl: TTL, renew: true, max_hold: None, retry: Retry::DEFAULT };
static CALLS: Calls = Calls::of_cell();

fn at(millis: u64) -> Time {
    Time::from_nanos((1_000_000 + millis) * 1_000_000)
}

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn terms(attempt: u128) -> Terms {
    let (name, card) = ("x".into(), "".into());
    Terms {
        name,
        attempt: AttemptId(attempt),
        inbox: InboxId(7),
        ttl: TTL,
        claim: claim(TTL),
        card,
        fair: false,
        rank: Rank::LOWEST,
    }
}

/// A session under test; whatever it says gathers here.
struct Rig {
    session: Session,
    sent: Vec<(RequestId, Request)>,
    said: Vec<String>,
    learnt: Vec<StoreTime>,
}

impl Rig {
    fn asking(service: Service) -> Self {
        Rig::asking_over(service, Inbox::Live)
    }

    fn asking_over(service: Service, inbox: Inbox) -> Self {
        Rig::speaking(Box::new(NativeMachine::new(&CALLS, "x".into(), true)), service, inbox)
    }

    fn speaking(protocol: Box<dyn Protocol>, service: Service, inbox: Inbox) -> Self {
        let session = Session::new(protocol, Duration::from_secs(5));
        let mut rig = Rig { session, sent: Vec::new(), said: Vec::new(), learnt: Vec::new() };
        let terms = Terms { ttl: service.ttl, claim: claim(service.ttl), ..terms(1) };
        rig.tell(0, Event::Acquire { terms, wait: true, service, inbox });
        rig
    }

    fn holding() -> Self {
        let mut rig = Rig::asking(SERVICE);
        rig.replied(0, 0, Reply::Int(100));
        assert_eq!(rig.hears(), ["granted 100..=163"]);
        rig
    }

    fn tell(&mut self, now: u64, event: Event<'_>) {
        self.session.handle(at(now), event);
        while let Some(action) = self.session.poll_action() {
            match action {
                Action::Send { id, requests } => self.sent.push((id, requests[0].clone())),
                Action::Granted { tokens } => {
                    self.said.push(match tokens {
                        Some(tokens) => format!("granted {}..={}", tokens.first(), tokens.last()),
                        None => "granted".to_owned(),
                    });
                }
                Action::Released(outcome) => self.said.push(format!("released: {}", outcome.code())),
                Action::Lost(reason) => self.said.push(format!("lost: {}", reason.code())),
                Action::Failed(error) => self.said.push(format!("failed: {}", error.code())),
                Action::Learn { at, .. } => self.learnt.push(at),
                other => self.said.push(format!("{other:?}")),
            }
        }
    }

    /// The last write is answered: it left at `sent`, the answer is here at `now`.
    fn replied(&mut self, now: u64, sent: u64, reply: Reply) {
        let (id, _) = self.sent.last().cloned().unwrap();
        self.replied_to(id, now, sent, reply);
    }

    fn replied_to(&mut self, id: RequestId, now: u64, sent: u64, reply: Reply) {
        self.tell(now, Event::Reply { id, sent: at(sent), answer: Answer::Replies(&[reply]) });
    }

    /// The last write got no answer, and may be executed until `void_after`.
    fn unanswered(&mut self, now: u64, void_after: u64) {
        let (id, _) = self.sent.last().cloned().unwrap();
        let error = Error::new(Kind::Unavailable, "acquire", "no answer");
        let answer = Answer::Unknown { error, void_after: at(void_after) };
        self.tell(now, Event::Reply { id, sent: at(now), answer });
    }

    fn pushed(&mut self, now: u64, store_micros: i64) {
        let event = StoreEvent::Granted { attempt: AttemptId(1), first: 200, last: 263, at: StoreTime(store_micros) };
        self.tell(now, Event::Push(&event));
    }

    fn tick(&mut self, now: u64) {
        self.tell(now, Event::Tick);
    }

    /// What was said since the last time.
    fn hears(&mut self) -> Vec<String> {
        std::mem::take(&mut self.said)
    }

    /// The call of the last write.
    fn asks(&self) -> &str {
        self.sent.last().unwrap().1.call.name
    }

    fn valid_until(&self) -> Option<Time> {
        self.session.valid_until()
    }
}

fn queued(store_micros: i64, position: i64) -> Reply {
    Reply::List([1, store_micros, 30_000_000, position, 0].map(Reply::Int).to_vec())
}

#[test]
fn rule_1_the_deadline_counts_from_the_sending_less_drift() {
    let mut rig = Rig::asking(SERVICE);
    rig.replied(5_000, 0, Reply::Int(100));
    assert_eq!(rig.valid_until(), Some(at(30_000 - 300 - 2)));
}

#[test]
fn rule_1_an_answer_that_took_longer_than_the_lease_is_no_grant() {
    let mut rig = Rig::asking(SERVICE);
    rig.replied(29_800, 0, Reply::Int(100));
    assert_eq!((rig.hears().len(), rig.valid_until(), rig.asks()), (0, None, "acquire"));
}

#[test]
fn rule_1_a_lease_half_over_is_renewed_before_it_is_believed() {
    let mut rig = Rig::asking(SERVICE);
    rig.replied(20_000, 0, Reply::Int(100));
    assert_eq!((rig.hears().len(), rig.asks()), (0, "renew"));
    rig.replied(20_010, 20_000, Reply::Int(1));
    assert_eq!(rig.hears(), ["granted 100..=163"]);
    assert_eq!(rig.valid_until(), Some(at(20_000 + 30_000 - 300 - 2)));
}

#[test]
fn rule_1_loss_is_told_at_the_deadline_though_no_command_failed() {
    let mut rig = Rig::holding();
    rig.tick(29_697);
    assert!(rig.hears().is_empty());
    rig.tick(29_698);
    assert_eq!(rig.hears(), ["lost: expired"]);
}

#[test]
fn rule_2_a_pushed_grant_is_dated_by_the_stores_clock_and_lasts_a_claim() {
    let mut rig = Rig::asking(SERVICE);
    rig.replied(10, 0, queued(1_000_000, 0));
    rig.pushed(500, 1_400_000);
    assert_eq!(rig.hears(), ["granted 200..=263"]);
    // 400 ms after the queued request was sent, less 1 % of the distance; a second, less 1 % and 2 ms.
    assert_eq!(rig.valid_until(), Some(at(0).after(Duration::from_micros(396_000 + 1_000_000 - 12_000))));
}

#[test]
fn rule_2_a_push_read_after_its_claim_is_no_grant() {
    let mut rig = Rig::asking(SERVICE);
    rig.replied(10, 0, queued(1_000_000, 0));
    rig.pushed(1_500, 1_400_000);
    assert_eq!((rig.hears().len(), rig.asks()), (0, "acquire"));
}

#[test]
fn rule_2_a_push_older_than_its_anchor_is_dated_before_it() {
    let mut rig = Rig::asking(SERVICE);
    rig.replied(10_000, 9_990, queued(11_000_000, 0));
    // Granted three seconds before the request that was last answered.
    rig.pushed(10_001, 8_000_000);
    assert_eq!((rig.hears().len(), rig.asks()), (0, "acquire"));
}

#[test]
fn rule_2_a_push_that_overtakes_the_reply_counts_from_the_first_sending() {
    let mut rig = Rig::asking(SERVICE);
    rig.pushed(300, 77_000_000);
    assert_eq!(rig.hears(), ["granted 200..=263"]);
    assert_eq!(rig.valid_until(), Some(at(1_000 - 12)));
}

#[test]
fn rule_3_a_late_renewal_reply_of_one_attempt_is_not_taken_by_the_next() {
    let mut rig = Rig::holding();
    rig.tick(10_000);
    let renewal = rig.sent.last().unwrap().0;
    assert_eq!(rig.asks(), "renew");
    rig.tell(10_001, Event::Yield { attempt: AttemptId(2), used: 100, service: SERVICE });
    rig.replied(10_002, 10_001, Reply::Int(300));
    rig.tick(20_100);
    assert_eq!(rig.asks(), "renew");
    let believed = rig.valid_until();
    rig.replied_to(renewal, 25_000, 24_999, Reply::Int(1));
    assert_eq!(rig.valid_until(), believed);
}

#[test]
fn rule_3_a_push_for_another_attempt_is_ignored() {
    let mut rig = Rig::asking(SERVICE);
    rig.replied(10, 0, queued(1_000_000, 0));
    let event = StoreEvent::Granted { attempt: AttemptId(9), first: 1, last: 64, at: StoreTime(1_000_100) };
    rig.tell(11, Event::Push(&event));
    assert!(rig.hears().is_empty());
}

#[test]
fn rule_3_a_release_that_may_have_been_executed_before_does_not_claim_to_know() {
    let mut rig = Rig::holding();
    rig.tell(100, Event::Release { used: 100 });
    rig.unanswered(200, 1_300);
    rig.tick(300);
    assert_eq!((rig.asks(), rig.sent.len()), ("release", 3));
    rig.replied(301, 300, Reply::Text("somebody".into()));
    assert_eq!(rig.hears()[0], "released: unknown");
}

#[test]
fn rule_4_what_may_still_be_executed_is_undone_at_once_and_again_when_it_no_longer_can() {
    let mut rig = Rig::asking(SERVICE);
    rig.unanswered(100, 1_200);
    rig.tell(150, Event::Cancel);
    assert_eq!(rig.asks(), "undo");
    rig.replied(160, 150, Reply::Int(1));
    assert!(rig.hears().is_empty(), "it may be executed yet");
    let writes = rig.sent.len();
    rig.tick(1_200);
    assert_eq!((rig.asks(), rig.sent.len()), ("undo", writes + 1));
    rig.replied(1_210, 1_200, Reply::Int(1));
    assert_eq!(rig.hears(), ["Ended"]);
}

#[test]
fn rule_4_a_cancel_waits_for_the_acquire_in_flight_and_undoes_what_it_did() {
    let mut rig = Rig::asking(SERVICE);
    let acquire = rig.sent[0].0;
    rig.tell(1, Event::Cancel);
    rig.replied(2, 1, Reply::Int(1));
    assert!(rig.hears().is_empty(), "the acquire is not answered");
    rig.replied_to(acquire, 3, 0, Reply::Int(100));
    assert_eq!((rig.asks(), rig.sent.len()), ("undo", 3));
    rig.replied(4, 3, Reply::Int(1));
    assert_eq!(rig.hears(), ["Ended"]);
}

#[test]
fn rule_4_every_acquire_carries_the_time_after_which_it_does_nothing() {
    let rig = Rig::asking(SERVICE);
    assert!(rig.sent[0].1.to_string().contains("<not-after>"), "{}", rig.sent[0].1);
}

#[test]
fn rule_4_a_late_acquire_is_asked_again_under_the_same_attempt() {
    let mut rig = Rig::asking(SERVICE);
    rig.replied(10, 0, Reply::List(vec![Reply::Int(2), Reply::Int(99)]));
    assert_eq!((rig.asks(), rig.sent[1].0.attempt), ("acquire", AttemptId(1)));
}

#[test]
fn rule_5_a_claim_is_lifted_to_the_ttl_by_its_first_renewal() {
    let mut rig = Rig::asking(SERVICE);
    rig.replied(0, 0, queued(1_000_000, 0));
    rig.pushed(1, 1_000_000);
    rig.hears();
    let due = rig.session.poll_timeout().unwrap();
    assert!(due <= at(334) && due > at(290), "{due:?}");
    rig.tick(334);
    assert_eq!(rig.asks(), "renew");
    rig.replied(335, 334, Reply::Int(1));
    assert_eq!(rig.valid_until(), Some(at(334 + 30_000 - 300 - 2)));
}

#[test]
fn rule_5_without_renewal_a_claim_is_lifted_at_once() {
    let mut rig = Rig::asking(Service { renew: false, ..SERVICE });
    rig.replied(0, 0, queued(1_000_000, 0));
    rig.pushed(1, 1_000_000);
    assert_eq!((rig.hears(), rig.asks()), (vec!["granted 200..=263".to_owned()], "renew"));
}

#[test]
fn rule_7_a_renewal_never_shortens_what_was_promised() {
    let mut rig = Rig::holding();
    let promised = rig.valid_until();
    rig.tell(10, Event::Extend(millis(1_000)));
    rig.replied(11, 10, Reply::Int(1));
    assert_eq!(rig.valid_until(), promised);
}

#[test]
fn rule_7_max_hold_ends_renewal_and_says_so() {
    let service = Service { max_hold: Some(millis(12_000)), ..SERVICE };
    let mut rig = Rig::asking(service);
    rig.replied(0, 0, Reply::Int(100));
    rig.hears();
    rig.tick(10_000);
    rig.replied(10_001, 10_000, Reply::Int(1));
    rig.tick(20_000);
    assert_eq!(rig.sent.iter().filter(|(id, _)| id.op == Op::Renew).count(), 1);
    rig.tick(40_000);
    assert_eq!(rig.hears()[0], format!("lost: {}", LossReason::MaxHold.code()));
}

#[test]
fn rule_7_a_renewal_whose_answer_is_late_is_the_last_of_a_hold_that_runs_out_meanwhile() {
    let mut rig = Rig::holding();
    rig.tick(10_000);
    rig.tell(25_000, Event::Serve(Service::that_runs_out(millis(5_000))));
    rig.replied(25_001, 10_000, Reply::Int(1));
    rig.tick(25_002);
    assert_eq!(rig.sent.iter().filter(|(id, _)| id.op == Op::Renew).count(), 1);
    rig.tick(40_000);
    assert_eq!(rig.hears()[0], format!("lost: {}", LossReason::MaxHold.code()));
}

#[test]
fn rule_8_a_cancel_after_a_yield_names_both_attempts() {
    let mut rig = Rig::holding();
    rig.tell(10, Event::Yield { attempt: AttemptId(2), used: 100, service: SERVICE });
    rig.unanswered(20, 1_100);
    rig.tell(30, Event::Cancel);
    let undo = rig.sent.last().unwrap().1.to_string();
    for attempt in [1, 2] {
        assert!(undo.contains(&Claimant::of(&terms(attempt)).to_string()), "{undo}");
    }
}

#[test]
fn rule_8_a_lease_in_doubt_is_released_not_yielded() {
    let mut rig = Rig::asking(SERVICE);
    rig.unanswered(100, 1_200);
    rig.tick(200);
    rig.replied(210, 200, Reply::Int(100));
    rig.tell(220, Event::Yield { attempt: AttemptId(2), used: 100, service: SERVICE });
    assert_eq!(rig.asks(), "release");
    rig.replied(221, 220, Reply::Int(1));
    assert_eq!((rig.hears().pop().unwrap().as_str(), rig.asks()), ("released: released", "undo"));
}

fn ask(task: u64) -> Ask {
    Ask {
        task: TaskId(task),
        owner: None,
        fair: false,
        rank: Rank::LOWEST,
        tries: false,
        deadline: None,
        service: SERVICE,
    }
}

fn drain(queue: &mut Queue) -> Vec<String> {
    std::iter::from_fn(|| queue.poll_action()).map(|action| format!("{action:?}")).collect()
}

/// A queue whose contender was granted 100..=163 while tasks 1 to `waiting` waited; the first of them holds.
fn granted_queue(waiting: u64) -> Queue {
    let mut queue = Queue::new(64);
    for task in 1..=waiting {
        queue.handle(at(0), queue::Event::Acquire(ask(task)));
    }
    queue.handle(at(0), queue::Event::Granted { contender: ContenderId(0), tokens: Tokens::new(100, 163) });
    drain(&mut queue);
    queue
}

fn give_back(queue: &mut Queue, now: Time, hold: u64) -> String {
    queue.handle(now, queue::Event::Release { hold: HoldId(hold), left: Some(TTL) });
    drain(queue).join(" ")
}

#[test]
fn rule_9_a_late_release_does_not_free_the_next_holder() {
    let mut queue = granted_queue(2);
    queue.handle(at(1), queue::Event::Lost(ContenderId(0)));
    queue.handle(at(1), queue::Event::Granted { contender: ContenderId(1), tokens: Tokens::new(200, 263) });
    drain(&mut queue);
    assert!(give_back(&mut queue, at(2), 1).contains("Expired"));
    assert_eq!(queue.held_token(), Some(200));
}

#[test]
fn rule_9_after_a_loss_those_who_wait_contend_again_at_once() {
    let mut queue = granted_queue(2);
    queue.handle(at(1), queue::Event::Lost(ContenderId(0)));
    let said = drain(&mut queue).join(" ");
    assert!(
        said.contains("Lost { hold: HoldId(1) }") && said.contains("Contend { contender: ContenderId(1)"),
        "{said}"
    );
}

#[test]
fn rule_9_a_turn_ends_after_as_many_as_waited_when_it_began() {
    let mut queue = granted_queue(3);
    queue.handle(at(0), queue::Event::Acquire(ask(4)));
    assert!(give_back(&mut queue, at(0), 1).contains("token: Some(101)"));
    assert!(give_back(&mut queue, at(0), 2).contains("token: Some(102)"));
    assert!(give_back(&mut queue, at(0), 3).contains("Yield"));
}

#[test]
fn rule_9_a_turn_ends_with_its_slice() {
    let mut queue = granted_queue(3);
    assert!(give_back(&mut queue, at(1), 1).contains("Yield"));
}

#[test]
fn rule_9_a_lease_nearly_over_or_in_doubt_is_not_handed_on() {
    let given_back = |left| {
        let mut queue = granted_queue(3);
        queue.handle(at(0), queue::Event::Release { hold: HoldId(1), left });
        drain(&mut queue).join(" ")
    };
    assert!(given_back(Some(millis(499))).starts_with("Yield"));
    // The session of what is in doubt ends late: those who wait need another contender.
    let in_doubt = given_back(None);
    assert!(in_doubt.starts_with("GiveBack { contender: ContenderId(0)"), "{in_doubt}");
    assert!(in_doubt.contains("Contend { contender: ContenderId(1)"), "{in_doubt}");
}

#[test]
fn rule_9_the_last_to_cancel_withdraws_the_contender() {
    let mut queue = Queue::new(64);
    for task in 1..=2 {
        queue.handle(at(0), queue::Event::Acquire(ask(task)));
    }
    drain(&mut queue);
    queue.handle(at(1), queue::Event::Cancel(TaskId(1)));
    assert!(drain(&mut queue).is_empty());
    queue.handle(at(1), queue::Event::Cancel(TaskId(2)));
    assert!(drain(&mut queue).join(" ").contains("Withdraw"));
}

/// The reference record with its queue, at a store's clock that the test sets.
mod record {
    use lockwright_machines::by_rank::ByRank;
    use lockwright_machines::lock_cell::{
        Acquire, Acquired, Claimant, Given, LockCell, LockStorage, Place, Release, Surroundings, Waiter,
    };
    use lockwright_machines::protocol::{AttemptId, InboxId, StoreEvent};
    use lockwright_machines::rank::Rank;
    use lockwright_machines::time::StoreTime;

    use super::line::Queued;
    use super::{TTL, terms};

    #[derive(Default)]
    struct Record {
        cell: LockCell,
        line: Queued,
    }

    fn claimant(attempt: u128) -> Claimant {
        Claimant { inbox: InboxId(attempt as u64), ..Claimant::of(&terms(attempt)) }
    }

    /// Runs `act` at `now` microseconds; what it answered, and which attempts were pushed a grant.
    fn with<T>(now: i64, act: impl FnOnce(&mut Surroundings<'_>) -> T) -> (T, Vec<u128>) {
        let mut env =
            Surroundings { now: StoreTime(now), token_floor: 1, alive: &|inbox| inbox.0 < 100, pushes: vec![] };
        let answer = act(&mut env);
        let granted = env.pushes.iter().filter_map(|(_, event)| match event {
            StoreEvent::Granted { attempt, .. } => Some(attempt.0),
            _ => None,
        });
        (answer, granted.collect())
    }

    impl Record {
        fn acquire(&mut self, now: i64, attempt: u128, not_after: i64, prev: Option<u128>) -> Acquired {
            let asker = Waiter { owner: claimant(attempt), card: String::new() };
            let prev = prev.map(|attempt| (claimant(attempt), 1));
            let ask =
                Acquire { asker, ttl: TTL, not_after: StoreTime(not_after), wait: true, rank: Rank::LOWEST, prev };
            with(now, |env| self.cell.acquire(&mut self.line, env, ask).unwrap()).0
        }

        fn release(&mut self, now: i64, attempt: u128) -> (Release, Vec<u128>) {
            let last = self.cell.last;
            with(now, |env| self.cell.release(&mut self.line, env, &claimant(attempt), last).unwrap())
        }

        fn holder(&self) -> Option<u128> {
            self.cell.hold.as_ref().map(|hold| hold.owner.attempt.0)
        }
    }

    #[test]
    fn rule_4_an_acquire_that_arrives_too_late_does_nothing() {
        let mut record = Record::default();
        assert_eq!(record.acquire(11, 1, 10, None), Acquired::Late);
        assert_eq!(record.holder(), None);
    }

    #[test]
    fn rule_3_an_acquire_sent_again_answers_granted_or_keeps_its_place() {
        let mut record = Record::default();
        let first = record.acquire(1, 1, 9, None);
        assert_eq!(record.acquire(2, 1, 9, None), first);
        assert!(matches!(record.acquire(3, 2, 9, None), Acquired::Queued { position: 0, .. }));
        assert!(matches!(record.acquire(4, 3, 9, None), Acquired::Queued { position: 1, .. }));
        assert!(matches!(record.acquire(5, 2, 9, None), Acquired::Queued { position: 0, .. }));
    }

    #[test]
    fn rule_7_only_the_holder_renews_and_releases() {
        let mut record = Record::default();
        record.acquire(1, 1, 9, None);
        assert!(!with(2, |env| record.cell.renew(env, &claimant(2), TTL)).0);
        assert_eq!(record.release(3, 2).0, Release::Stolen(String::new()));
        assert_eq!(record.holder(), Some(1));
        assert_eq!(record.release(4, 1).0, Release::Released);
        assert_eq!(record.release(5, 1).0, Release::Expired);
    }

    #[test]
    fn rule_7_a_shorter_renewal_that_comes_late_does_not_cut_the_lease() {
        let mut record = Record::default();
        record.acquire(1, 1, 9, None);
        let before = record.cell.remaining(StoreTime(1));
        assert!(with(2, |env| record.cell.renew(env, &claimant(1), TTL / 10)).0);
        assert_eq!(record.cell.remaining(StoreTime(1)), before);
    }

    #[test]
    fn a_live_lease_is_nobody_elses_and_one_that_ran_out_is() {
        let mut record = Record::default();
        record.acquire(1, 1, i64::MAX, None);
        assert!(matches!(record.acquire(30_000_000, 2, i64::MAX, None), Acquired::Queued { .. }));
        assert_eq!(record.holder(), Some(1));
        let granted = record.acquire(30_000_002, 2, i64::MAX, None);
        assert!(matches!(granted, Acquired::Granted { first: 65, .. }), "tokens rise by a block: {granted:?}");
    }

    #[test]
    fn a_release_hands_the_lock_to_the_first_in_line_for_its_claim_and_skips_the_dead() {
        let mut record = Record::default();
        for (now, attempt) in [(1, 1), (2, 100), (3, 2), (4, 3)] {
            record.acquire(now, attempt, 9, None);
        }
        assert_eq!(record.release(5, 1), (Release::Released, vec![2]));
        assert_eq!(record.cell.remaining(StoreTime(5)), claimant(2).claim);
    }

    #[test]
    fn a_claim_that_ran_out_unrenewed_takes_its_inbox_out_of_the_line() {
        let mut record = Record::default();
        for (now, attempt) in [(1, 1), (2, 2), (3, 3)] {
            record.acquire(now, attempt, i64::MAX, None);
        }
        record.line.0[0].waiter.owner.inbox = InboxId(50);
        let waiter = Waiter { owner: Claimant { inbox: InboxId(50), ..claimant(4) }, card: String::new() };
        record.line.0.insert(1, Place { waiter, ..record.line.0[0].clone() });
        record.release(4, 1);
        record.acquire(2_000_000, 5, i64::MAX, None);
        assert_eq!(record.holder(), Some(3));
    }

    #[test]
    fn rule_3_a_holder_that_asks_again_late_goes_on_under_new_tokens_while_nobody_else_was_granted() {
        let mut record = Record::default();
        let first = record.acquire(1, 1, i64::MAX, None);
        record.acquire(2, 2, i64::MAX, None);
        assert_eq!(record.acquire(29_000_000, 1, i64::MAX, None), first, "its lease lasts");
        let late = record.acquire(60_000_000, 1, i64::MAX, None);
        assert_eq!((late, record.holder()), (Acquired::Granted { first: 65, prev: Given::Back }, Some(1)));
    }

    #[test]
    fn nobody_overtakes_those_who_wait() {
        let mut record = Record::default();
        for (now, attempt) in [(1, 1), (2, 2)] {
            record.acquire(now, attempt, i64::MAX, None);
        }
        // The holder is gone without a word; a newcomer asks first.
        let newcomer = record.acquire(31_000_000, 3, i64::MAX, None);
        assert!(matches!(newcomer, Acquired::Queued { .. }), "{newcomer:?}");
        assert_eq!(record.holder(), Some(2));
    }

    /// Both queues of this many who came at these seconds with these ranks, and in which order they are served.
    fn served(came: &[(i64, u8)]) -> Vec<u128> {
        let (mut shipped, mut model) = (ByRank::default(), Queued::default());
        for ((seconds, rank), attempt) in came.iter().zip(1..) {
            let waiter = Waiter { owner: claimant(attempt), card: String::new() };
            let place = Place { waiter, rank: Rank::new(*rank).unwrap(), since: StoreTime(seconds * 1_000_000) };
            assert_eq!(shipped.join(&place), model.join(&place));
        }
        let mut order = Vec::new();
        while let Some(first) = shipped.first().unwrap() {
            assert_eq!(Some(&first), model.first().unwrap().as_ref());
            assert_eq!(Some(&first), shipped.pop().unwrap().as_ref());
            assert_eq!(Some(&first), model.pop().unwrap().as_ref());
            order.push(first.owner.attempt.0);
        }
        assert!(shipped.is_empty());
        order
    }

    #[test]
    fn a_higher_rank_goes_first_until_the_other_has_waited_ten_seconds_longer_for_each_between() {
        assert_eq!(served(&[(0, 0), (1, 0), (2, 0)]), [1, 2, 3], "by arrival alone");
        assert_eq!(served(&[(0, 0), (1, 3), (2, 9)]), [3, 2, 1], "by rank");
        assert_eq!(served(&[(0, 0), (9, 1), (10, 1), (11, 1)]), [2, 3, 1, 4], "of equals the higher rank");
        assert_eq!(served(&[(0, 0), (31, 3), (31, 4), (100, 9)]), [3, 1, 2, 4], "nobody waits for ever");
        assert_eq!(served(&[(0, 5), (1, 5), (0, 5)]), [1, 2, 3], "within a rank by arrival, whatever the clock says");
    }

    #[test]
    fn who_waits_with_a_rank_keeps_it_and_its_place() {
        let mut line = ByRank::default();
        let mut join = |attempt, rank| {
            let waiter = Waiter { owner: claimant(attempt), card: String::new() };
            line.join(&Place { waiter, rank: Rank::new(rank).unwrap(), since: StoreTime(attempt as i64) }).unwrap()
        };
        assert_eq!([join(1, 0), join(2, 4), join(3, 4), join(4, 0)], [0, 1, 2, 3]);
        assert_eq!([join(3, 0), join(1, 9), join(2, 4)], [3, 2, 2], "those of its rank ahead of it, and all others");
        assert_eq!(line.len(), 4);
        line.leave(AttemptId(2)).unwrap();
        assert_eq!(line.first().unwrap().unwrap().owner.attempt, AttemptId(3));
        line.drop_inbox(claimant(3).inbox).unwrap();
        assert_eq!((line.len(), line.contains(AttemptId(3))), (2, Ok(false)));
        assert_eq!(line.pop().unwrap().unwrap().owner.attempt, AttemptId(1));
    }

    #[test]
    fn whoever_asks_as_the_first_in_line_gets_an_answer_and_the_whole_ttl() {
        let mut record = Record::default();
        for (now, attempt) in [(1, 1), (2, 2)] {
            record.acquire(now, attempt, i64::MAX, None);
        }
        let asker = Waiter { owner: claimant(2), card: String::new() };
        let ask =
            Acquire { asker, ttl: TTL, not_after: StoreTime(i64::MAX), wait: true, rank: Rank::LOWEST, prev: None };
        let (answer, pushed) = with(31_000_000, |env| record.cell.acquire(&mut record.line, env, ask).unwrap());
        assert!(matches!(answer, Acquired::Granted { .. }) && pushed.is_empty(), "{answer:?} {pushed:?}");
        assert_eq!(record.cell.remaining(StoreTime(31_000_000)), TTL);
    }

    #[test]
    fn rule_5_a_claim_that_was_renewed_is_no_claim() {
        let mut record = Record::default();
        for (now, attempt) in [(1, 1), (2, 2), (3, 3)] {
            record.acquire(now, attempt, i64::MAX, None);
        }
        record.line.0[1].waiter.owner.inbox = claimant(2).inbox;
        record.release(4, 1);
        assert!(with(5, |env| record.cell.renew(env, &claimant(2), TTL)).0);
        record.acquire(40_000_000, 4, i64::MAX, None);
        assert_eq!(record.holder(), Some(3), "the other waiter of its inbox keeps its place");
    }

    #[test]
    fn rule_16_tokens_rise_though_the_record_was_forgotten() {
        let mut record = Record::default();
        let asker = Waiter { owner: claimant(1), card: String::new() };
        let ask = Acquire { asker, ttl: TTL, not_after: StoreTime(9), wait: true, rank: Rank::LOWEST, prev: None };
        let mut env = Surroundings { now: StoreTime(1), token_floor: 5_000, alive: &|_| true, pushes: vec![] };
        let granted = record.cell.acquire(&mut record.line, &mut env, ask).unwrap();
        assert!(matches!(granted, Acquired::Granted { first: 5_000, .. }), "{granted:?}");
    }

    #[test]
    fn rule_16_a_release_gives_back_unused_tokens_and_no_others() {
        let mut record = Record::default();
        record.acquire(1, 1, 9, None);
        with(2, |env| record.cell.release(&mut record.line, env, &claimant(1), 0).unwrap());
        assert_eq!(record.cell.last, 1, "the first was used");
        record.acquire(3, 2, 9, None);
        with(4, |env| record.cell.release(&mut record.line, env, &claimant(2), 9_999).unwrap());
        assert_eq!(record.cell.last, 2 + 63);
    }

    #[test]
    fn rule_4_an_undo_leaves_the_line() {
        let mut record = Record::default();
        for (now, attempt) in [(1, 1), (2, 2)] {
            record.acquire(now, attempt, 9, None);
        }
        with(3, |env| record.cell.undo(&mut record.line, env, &claimant(2)).unwrap());
        assert_eq!((record.line.0.len(), record.holder()), (0, Some(1)));
        with(3, |env| record.cell.undo(&mut record.line, env, &claimant(1)).unwrap());
        assert_eq!(record.holder(), None);
    }

    #[test]
    fn rule_2_only_a_token_of_its_block_breaks_a_hold() {
        let mut record = Record::default();
        record.acquire(1, 1, 9, None);
        for (token, breaks) in [(0, false), (65, false), (64, true)] {
            let (broken, _) = with(2, |env| record.cell.break_hold(&mut record.line, env, token).unwrap());
            assert_eq!(broken, breaks, "{token}");
        }
    }

    #[test]
    fn rule_3_a_yield_sent_again_does_not_claim_to_know() {
        let mut record = Record::default();
        for (now, attempt) in [(1, 1), (2, 2)] {
            record.acquire(now, attempt, 9, None);
        }
        assert!(matches!(record.acquire(3, 3, 9, Some(1)), Acquired::Queued { prev: Given::Back, .. }));
        assert!(matches!(record.acquire(4, 3, 9, Some(1)), Acquired::Queued { prev: Given::Unknown, .. }));
    }

    #[test]
    fn a_yield_gives_back_only_what_is_held() {
        let mut record = Record::default();
        record.acquire(1, 1, 9, None);
        record.acquire(2, 2, 9, None);
        assert!(matches!(record.acquire(3, 3, 9, Some(1)), Acquired::Queued { prev: Given::Back, .. }));
        assert_eq!(record.holder(), Some(2));
        assert!(matches!(record.acquire(4, 4, 9, Some(1)), Acquired::Queued { prev: Given::Stolen, .. }));
        assert_eq!(record.holder(), Some(2));
    }
}

/// What `Extend` promises: each is answered once, and by the truth.
mod extension {
    use super::*;

    fn extending() -> (Rig, RequestId) {
        let mut rig = Rig::holding();
        rig.tell(1_000, Event::Extend(millis(60_000)));
        let (renewal, _) = rig.sent.last().cloned().unwrap();
        assert_eq!((rig.hears().len(), rig.asks()), (0, "renew"));
        assert!(rig.sent.last().unwrap().1.to_string().contains(" 60000000"), "{}", rig.sent.last().unwrap().1);
        (rig, renewal)
    }

    #[test]
    fn an_extension_is_answered_when_the_store_has_it_and_lasts_from_then_on() {
        let (mut rig, renewal) = extending();
        rig.replied_to(renewal, 1_010, 1_000, Reply::Int(1));
        assert_eq!(rig.hears(), ["Extended(true)"]);
        assert_eq!(rig.valid_until(), Some(at(1_000 + 60_000 - 600 - 2)));
        rig.tick(21_000);
        assert!(rig.sent.last().unwrap().1.to_string().contains(" 60000000"), "the next renewal asks for as much");
    }

    #[test]
    fn an_extension_of_what_is_gone_is_answered_no() {
        let (mut rig, renewal) = extending();
        rig.replied_to(renewal, 1_010, 1_000, Reply::Int(0));
        assert_eq!(rig.hears(), ["lost: gone", "Extended(false)", "Ended"]);
        rig.tell(1_020, Event::Extend(TTL));
        assert_eq!(rig.hears(), ["Extended(false)"]);
    }

    #[test]
    fn an_extension_without_an_answer_is_asked_for_again() {
        let (mut rig, _) = extending();
        rig.unanswered(1_500, 1_600);
        rig.tick(1_600);
        assert!(rig.sent.last().unwrap().1.to_string().contains(" 60000000"));
        rig.replied(1_610, 1_600, Reply::Int(1));
        assert_eq!(rig.hears(), ["Extended(true)"]);
    }

    #[test]
    fn an_extension_that_the_store_refuses_for_good_is_answered_no_and_the_hold_goes_on() {
        let (mut rig, _) = extending();
        rig.replied(1_010, 1_000, Reply::Error { code: "NOPERM".into(), message: "no".into() });
        assert_eq!(rig.hears(), ["Extended(false)"]);
        assert!(rig.valid_until().is_some());
    }

    #[test]
    fn what_a_renewal_failed_with_is_known_until_one_is_done() {
        let (mut rig, _) = extending();
        let why = |rig: &Rig| rig.session.not_renewed().map(Error::kind);
        assert_eq!(why(&rig), None);
        rig.replied(1_010, 1_000, Reply::Error { code: "LOADING".into(), message: "no".into() });
        assert_eq!((why(&rig), rig.session.refusal().is_some()), (Some(Kind::Unavailable), false));
        rig.tick(1_100);
        rig.replied(1_110, 1_100, Reply::Error { code: "NOPERM".into(), message: "no".into() });
        assert_eq!((why(&rig), rig.session.refusal().is_some()), (Some(Kind::Auth), true));
        rig.tick(1_300);
        rig.unanswered(1_400, 1_500);
        assert_eq!((why(&rig), rig.session.refusal().is_some()), (Some(Kind::Unavailable), false));
        rig.tick(1_800);
        rig.replied(1_810, 1_800, Reply::Int(1));
        assert_eq!(why(&rig), None);
    }

    #[test]
    fn extensions_that_overlap_are_answered_together_with_the_longest() {
        for (second, longest) in [(40_000, 60_000), (90_000, 90_000)] {
            let (mut rig, first) = extending();
            rig.tell(1_001, Event::Extend(millis(second)));
            rig.replied_to(first, 1_010, 1_000, Reply::Int(1));
            assert!(rig.hears().is_empty(), "the first one's reply answers nobody");
            rig.replied(1_011, 1_001, Reply::Int(1));
            assert_eq!(rig.hears(), ["Extended(true)"]);
            assert_eq!(rig.valid_until(), Some(at(1_001 + longest - longest / 100 - 2)));
        }
    }

    #[test]
    fn a_hold_that_ends_answers_its_extension_first() {
        for end in [Event::Release { used: 100 }, Event::Cancel, Event::Serve(SERVICE)] {
            let (mut rig, _) = extending();
            rig.tell(1_005, end);
            assert_eq!(rig.hears(), ["Extended(false)"]);
        }
    }

    #[test]
    fn a_hold_handed_on_is_not_renewed_for_as_long_as_the_one_before_was_extended() {
        let (mut rig, renewal) = extending();
        rig.replied_to(renewal, 1_010, 1_000, Reply::Int(1));
        rig.tell(1_020, Event::Serve(SERVICE));
        rig.tick(21_000);
        assert!(rig.sent.last().unwrap().1.to_string().contains(" 30000000"), "{}", rig.sent.last().unwrap().1);
    }

    #[test]
    fn every_hand_on_tells_the_session_whom_it_serves() {
        let mut queue = granted_queue(2);
        let said = give_back(&mut queue, at(0), 1);
        assert!(said.contains("Serve") && said.contains("token: Some(101)"), "{said}");
    }
}

/// The claims of these tests: what the explorer and the simulation found in these machines, as its shortest run.
mod found {
    use super::*;

    const ANOTHER: Service = Service { ttl: Duration::from_secs(90), ..SERVICE };

    #[test]
    fn a_release_in_the_moment_of_the_loss_is_answered() {
        let mut rig = Rig::holding();
        rig.tell(31_000, Event::Tick);
        rig.tell(31_000, Event::Release { used: 100 });
        assert_eq!(rig.hears(), ["lost: expired", "released: expired"]);
    }

    #[test]
    fn a_yield_in_the_moment_of_the_loss_is_answered() {
        let mut rig = Rig::holding();
        rig.tell(31_000, Event::Tick);
        rig.tell(31_000, Event::Yield { attempt: AttemptId(2), used: 100, service: SERVICE });
        assert_eq!(rig.hears(), ["lost: expired", "released: expired"]);
    }

    #[test]
    fn the_release_after_a_yield_is_answered_too() {
        let mut rig = Rig::holding();
        rig.tell(10, Event::Yield { attempt: AttemptId(2), used: 100, service: SERVICE });
        rig.replied(20, 10, Reply::Int(101));
        assert_eq!(rig.hears(), ["released: released", "granted 101..=164"]);
        rig.tell(30, Event::Release { used: 101 });
        rig.replied(40, 30, Reply::Int(1));
        assert!(rig.hears().contains(&"released: released".to_owned()));
    }

    /// What is heard of a hold yielded at 10, when the push of the next turn overtakes the answer and is read at
    /// `read`.
    fn heard_first(broken: bool, read: u64) -> Vec<String> {
        let mut rig = Rig::holding();
        let attempt = AttemptId(2);
        rig.tell(10, Event::Yield { attempt, used: 100, service: SERVICE });
        if broken {
            rig.tell(12, Event::Push(&StoreEvent::Broken { attempt: AttemptId(1) }));
        }
        let push = StoreEvent::Granted { attempt, first: 200, last: 263, at: StoreTime(1_010_000) };
        rig.tell(read, Event::Push(&push));
        rig.hears()
    }

    #[test]
    fn a_push_that_overtakes_the_answer_to_a_yield_proves_what_became_of_the_hold() {
        assert_eq!(heard_first(false, 15), ["released: released", "granted 200..=263"]);
        assert_eq!(heard_first(true, 15)[0], "released: unknown");
        assert_eq!(heard_first(false, 29_950)[0], "released: unknown");
    }

    /// What is heard of a hold yielded at 10 by whom nobody waits any more when the answer comes: at once when the undo
    /// is answered first, and in the end.
    fn heard_though_cancelled(answer: Option<Reply>) -> [Vec<String>; 2] {
        let mut rig = Rig::holding();
        rig.tell(10, Event::Yield { attempt: AttemptId(2), used: 100, service: SERVICE });
        let (yielded, _) = rig.sent.last().cloned().unwrap();
        rig.tell(12, Event::Cancel);
        let (undo, _) = rig.sent.last().cloned().unwrap();
        rig.replied_to(undo, 14, 12, Reply::Int(1));
        let at_once = rig.hears();
        match answer {
            Some(reply) => rig.replied_to(yielded, 20, 10, reply),
            None => {
                let error = Error::new(Kind::Unavailable, "acquire", "no answer");
                let answer = Answer::Unknown { error, void_after: at(1_100) };
                rig.tell(20, Event::Reply { id: yielded, sent: at(10), answer });
            }
        }
        [at_once, rig.hears()]
    }

    #[test]
    fn the_answer_to_a_yield_that_is_being_undone_still_says_what_became_of_the_hold() {
        let told = |outcome: &str| [vec![], vec![format!("released: {outcome}")]];
        assert_eq!(heard_though_cancelled(Some(queued(1_000_000, 0))), told("released"));
        assert_eq!(heard_though_cancelled(Some(Reply::Int(101))), told("released"));
        let expired = Reply::List([3, 101, 1].map(Reply::Int).into());
        assert_eq!(heard_though_cancelled(Some(expired)), told("unknown"), "the undo may have given it back before");
        assert_eq!(heard_though_cancelled(None), told("unknown"));
    }

    #[test]
    fn a_renewal_counts_for_what_it_asked_though_the_lease_passed_to_another() {
        let mut rig = Rig::holding();
        rig.tell(10_000, Event::Tick);
        rig.tell(10_001, Event::Serve(ANOTHER));
        rig.replied(10_002, 10_000, Reply::Int(1));
        assert!(rig.session.valid_until().unwrap() <= at(40_000));
    }

    #[test]
    fn nothing_is_due_while_a_renewal_is_unanswered() {
        let mut rig = Rig::holding();
        rig.tell(10_000, Event::Tick);
        rig.tell(10_001, Event::Serve(Service { renew: false, ..ANOTHER }));
        assert!(rig.session.poll_timeout().unwrap() > at(10_001));
    }

    /// A waiter that asked again, and was granted the lock by push before that was answered.
    fn overtaken() -> (Rig, RequestId) {
        let mut rig = Rig::asking(SERVICE);
        rig.replied(0, 0, queued(1_000_000, 0));
        rig.tell(1100, Event::Verify);
        let (again, _) = rig.sent.last().cloned().unwrap();
        let attempt = AttemptId(1);
        let push = StoreEvent::Granted { attempt, first: 200, last: 263, at: StoreTime(2_100_000) };
        rig.tell(1110, Event::Push(&push));
        assert_eq!(rig.hears(), ["granted 200..=263"]);
        (rig, again)
    }

    #[test]
    fn a_push_that_is_over_waits_for_the_acquire_in_flight() {
        let mut rig = Rig::asking(SERVICE);
        rig.replied(0, 0, queued(1_000_000, 0));
        rig.tell(1100, Event::Verify);
        let asked = rig.sent.len();
        let push = StoreEvent::Granted { attempt: AttemptId(1), first: 200, last: 263, at: StoreTime(1_010_000) };
        rig.tell(1200, Event::Push(&push));
        assert_eq!(rig.sent.len(), asked, "two acquires of one attempt are under way");
        rig.replied(1300, 1100, queued(2_100_000, 0));
        assert_eq!(rig.sent.len(), asked + 1, "nobody asked again");
    }

    #[test]
    fn a_place_that_was_dropped_is_asked_for_again_once_the_acquire_in_flight_is_answered() {
        let mut rig = Rig::asking(SERVICE);
        rig.replied(0, 0, queued(1_000_000, 0));
        rig.tell(1100, Event::Verify);
        let asked = rig.sent.len();
        rig.tell(1200, Event::Push(&StoreEvent::Dropped));
        assert_eq!(rig.sent.len(), asked, "two acquires of one attempt are under way");
        rig.replied(1300, 1100, queued(2_100_000, 0));
        assert_eq!(rig.sent.len(), asked + 1, "nobody asked again");
    }

    #[test]
    fn an_acquire_answered_during_the_release_is_undone() {
        let (mut rig, again) = overtaken();
        rig.tell(1120, Event::Release { used: 200 });
        let (release, _) = rig.sent.last().cloned().unwrap();
        rig.replied_to(again, 1130, 1100, queued(2_125_000, 0));
        rig.replied_to(release, 1140, 1120, Reply::Int(1));
        assert_eq!(rig.sent.last().unwrap().0.op, Op::Undo);
    }

    #[test]
    fn a_hold_lost_while_its_place_was_taken_again_leaves_no_place() {
        let (mut rig, again) = overtaken();
        rig.tell(1500, Event::Tick);
        let (renewal, _) = rig.sent.last().cloned().unwrap();
        assert_eq!(renewal.op, Op::Renew);
        rig.replied_to(again, 1510, 1100, queued(2_490_000, 0));
        rig.replied_to(renewal, 1520, 1500, Reply::Int(0));
        assert_eq!(rig.sent.last().unwrap().0.op, Op::Undo);
    }

    #[test]
    fn a_release_is_retried_for_as_long_as_a_late_grant_may_have_made_the_lease_last() {
        let (mut rig, again) = overtaken();
        rig.replied_to(again, 1120, 1100, Reply::Int(200));
        rig.tell(1130, Event::Release { used: 200 });
        let error = || Error::new(Kind::Unavailable, "test", "no answer");
        let (release, _) = rig.sent.last().cloned().unwrap();
        let answer = Answer::Unknown { error: error(), void_after: at(1700) };
        rig.tell(4000, Event::Reply { id: release, sent: at(1130), answer });
        rig.tell(4400, Event::Tick);
        assert!(rig.sent.last().unwrap().0 != release, "the claim is over, but not what the late answer made of it");
    }
}
