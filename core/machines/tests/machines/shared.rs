//! The rules as read/write locks and semaphores keep them: several holders, each a contender of its own.

use std::convert::Infallible;

use lockwright_machines::lock_cell::{Surroundings, Waiter};
use lockwright_machines::protocol::{Input, Step, Verdict};
use lockwright_machines::share::{ALL, Share};
use lockwright_machines::shared_cell::{Acquire, Acquired, Change, Changed, LOOK, Seeker, SharedCell, SharedInMemory};
use lockwright_machines::shared_machine::{SharedCalls, SharedMachine};

use super::*;

static CALLS: SharedCalls = SharedCalls::of_cell();

fn asking(share: Share) -> Rig {
    Rig::speaking(Box::new(SharedMachine::new(&CALLS, "x".into(), share, true)), SERVICE, Inbox::Live)
}

fn reading() -> Rig {
    let mut rig = asking(Share::READ);
    rig.replied(0, 0, Reply::Int(100));
    assert_eq!(rig.hears(), ["granted 100..=100"]);
    rig
}

fn numbers(numbers: &[i64]) -> Reply {
    Reply::List(numbers.iter().map(|number| Reply::Int(*number)).collect())
}

#[test]
fn a_grant_is_one_token_answered_or_pushed() {
    reading();
    let mut rig = asking(Share::WRITE);
    rig.replied(10, 0, numbers(&[1, 1_000_000, 30_000_000, 0]));
    rig.pushed(20, 1_005_000);
    assert_eq!(rig.hears(), ["granted 200..=200"]);
}

#[test]
fn a_place_before_the_first_is_no_answer() {
    let reply = numbers(&[1, 1_000_000, 30_000_000, -12]);
    let step = SharedMachine::new(&CALLS, "x".into(), Share::READ, true).step(Input::Reply(Op::Acquire, &[reply]));
    assert!(matches!(&step, Step::Done(Verdict::Failed(error)) if error.kind() == Kind::Protocol), "{step:?}");
}

#[test]
fn a_change_renews_and_says_the_new_token() {
    let mut rig = reading();
    rig.tell(1_000, Event::Change(ALL));
    assert_eq!(rig.asks(), "shared.change");
    rig.replied(1_010, 1_000, numbers(&[1, 300]));
    assert_eq!(rig.hears(), ["Changed(Some(300))"]);
    assert_eq!(rig.valid_until(), Some(at(1_000 + 30_000 - 300 - 2)));
    rig.tell(2_000, Event::Change(1));
    assert_eq!(rig.sent.last().unwrap().1.args[1], 300.into(), "it names the token it has now");
}

#[test]
fn rule_12_a_change_that_left_before_a_hold_was_broken_does_not_prove_the_hold() {
    let mut rig = reading();
    rig.tell(1_000, Event::Change(ALL));
    rig.tell(1_005, Event::Push(&StoreEvent::Broken { attempt: AttemptId(1) }));
    assert_eq!(rig.sent.len(), 2, "two changes under way could not be told apart");
    rig.replied(1_010, 1_000, numbers(&[1, 300]));
    assert_eq!((rig.sent.len(), rig.asks()), (3, "shared.renew"));
    rig.replied(1_012, 1_010, Reply::Int(0));
    assert!(rig.hears().contains(&"lost: broken".to_owned()));
}

#[test]
fn a_change_that_is_refused_is_told_at_once_and_renews_all_the_same() {
    let mut rig = reading();
    rig.tell(1_000, Event::Change(ALL));
    rig.replied(1_010, 1_000, numbers(&[0]));
    assert_eq!(rig.hears(), ["Changed(None)"]);
    assert_eq!(rig.valid_until(), Some(at(1_000 + 30_000 - 300 - 2)));
    rig.tick(11_000);
    assert_eq!(rig.asks(), "shared.renew");
}

#[test]
fn a_refusal_counts_only_when_no_earlier_copy_can_run_any_more() {
    let mut rig = reading();
    rig.tell(1_000, Event::Change(ALL));
    rig.unanswered(2_000, 2_020);
    rig.tick(2_010);
    assert_eq!((rig.sent.len(), rig.asks()), (3, "shared.change"));
    rig.replied(2_015, 2_010, numbers(&[0]));
    assert!(rig.hears().is_empty(), "the first may yet make it the writer");
    rig.tick(2_020);
    assert_eq!(rig.sent.len(), 4);
    rig.replied(2_030, 2_020, numbers(&[0]));
    assert_eq!(rig.hears(), ["Changed(None)"]);
}

#[test]
fn two_changes_are_never_under_way_at_once() {
    let mut rig = reading();
    rig.tell(1_000, Event::Change(ALL));
    let sent = rig.sent.len();
    rig.tell(1_001, Event::Verify);
    rig.tell(1_002, Event::Extend(TTL * 2));
    rig.tell(1_003, Event::Change(1));
    assert_eq!((rig.sent.len(), rig.hears()), (sent, vec!["Changed(None)".to_owned()]));
    rig.replied(1_010, 1_000, numbers(&[1, 300]));
    assert_eq!((rig.hears(), rig.asks()), (vec!["Changed(Some(300))".to_owned()], "shared.renew"));
    rig.replied(1_020, 1_010, Reply::Int(1));
    assert_eq!(rig.hears(), ["Extended(true)"]);
}

#[test]
fn a_change_that_came_too_late_is_sent_again() {
    let mut rig = reading();
    rig.tell(1_000, Event::Change(ALL));
    rig.replied(1_010, 1_000, numbers(&[2, 9_000_000]));
    assert_eq!((rig.hears().len(), rig.learnt.len()), (0, 1));
    rig.tick(1_020);
    assert_eq!((rig.sent.len(), rig.asks()), (3, "shared.change"));
}

#[test]
fn a_change_that_is_answered_after_the_lease_s_end_makes_nobody_the_writer() {
    let mut rig = reading();
    rig.tell(1_000, Event::Change(ALL));
    let late = 1_000 + 30_000 - 300 - 2;
    rig.replied(late, 1_000, numbers(&[1, 300]));
    assert!(rig.hears().is_empty());
    rig.tick(late);
    assert_eq!(rig.hears()[..2], ["lost: expired", "Changed(None)"]);
}

#[test]
fn an_extension_that_is_answered_after_the_lease_s_end_is_refused_with_the_loss() {
    let mut rig = reading();
    rig.tell(1_000, Event::Extend(TTL));
    let late = 1_000 + 30_000 - 300 - 2;
    rig.replied(late, 1_000, Reply::Int(1));
    assert!(rig.hears().is_empty());
    rig.tick(late);
    assert_eq!(rig.hears()[..2], ["lost: expired", "Extended(false)"]);
}

#[test]
fn whoever_waits_for_a_change_hears_of_the_loss() {
    let mut rig = reading();
    rig.tell(1_000, Event::Change(ALL));
    rig.replied(1_010, 1_000, Reply::Int(0));
    assert_eq!(rig.hears(), ["lost: gone", "Changed(None)", "Ended"]);
}

#[test]
fn more_than_there_is_is_refused_for_good() {
    let mut rig = asking(Share::permits(3, 5, false).unwrap());
    let (code, message) = ("TOOMANY".into(), "it has 2 permits".into());
    rig.replied(10, 0, Reply::Error { code, message });
    assert_eq!(rig.hears()[0], "failed: invalid_config");
}

#[derive(Default)]
struct Record {
    cell: SharedCell,
    kept: SharedInMemory,
}

fn claimant(attempt: u128) -> Claimant {
    Claimant { inbox: InboxId(attempt as u64), ..Claimant::of(&terms(attempt)) }
}

/// Runs `act` at `now` microseconds; what it answered, and which attempts were pushed a grant.
fn with<T>(now: i64, act: impl FnOnce(&mut Surroundings<'_>) -> Result<T, Infallible>) -> (T, Vec<u128>) {
    let mut env = Surroundings { now: StoreTime(now), token_floor: 1, alive: &|inbox| inbox.0 < 100, pushes: vec![] };
    let Ok(answer) = act(&mut env);
    let granted = env.pushes.iter().filter_map(|(_, event)| match event {
        StoreEvent::Granted { attempt, .. } => Some(attempt.0),
        _ => None,
    });
    (answer, granted.collect())
}

const GRANTED: fn(&Acquired) -> bool = |answer| matches!(answer, Acquired::Granted(_));

impl Record {
    fn asked(&mut self, now: i64, attempt: u128, share: Share, wait: bool, not_after: i64) -> Acquired {
        let Share { primitive, units, capacity, in_order } = share;
        let who = Waiter { owner: claimant(attempt), card: String::new() };
        let asker = Seeker { who, units, in_order };
        let ask = Acquire { asker, primitive, capacity, ttl: TTL, not_after: StoreTime(not_after), wait };
        with(now, |env| self.cell.acquire(&mut self.kept, env, &ask)).0
    }

    fn acquire(&mut self, now: i64, attempt: u128, share: Share) -> Acquired {
        self.asked(now, attempt, share, true, i64::MAX)
    }

    fn release(&mut self, now: i64, attempt: u128) -> (bool, Vec<u128>) {
        with(now, |env| self.cell.release(&mut self.kept, env, &claimant(attempt)))
    }

    fn change(&mut self, now: i64, attempt: u128, token: u64, units: u32) -> (Changed, Vec<u128>) {
        let (owner, not_after) = (claimant(attempt), StoreTime(1_000));
        let change = Change { owner, token, units, ttl: TTL, not_after };
        with(now, |env| self.cell.change(&mut self.kept, env, &change))
    }

    fn holders(&self) -> Vec<u128> {
        self.kept.holders.keys().map(|attempt| attempt.0).collect()
    }
}

fn permits(take: u32, in_order: bool) -> Share {
    Share::permits(take, 3, in_order).unwrap()
}

#[test]
fn rule_4_an_acquire_or_a_change_that_arrives_too_late_does_nothing() {
    let mut record = Record::default();
    assert_eq!(record.asked(11, 1, Share::READ, true, 10), Acquired::Late);
    assert!(record.holders().is_empty());
    record.acquire(12, 1, Share::WRITE);
    assert_eq!(record.change(1_001, 1, 1, 1).0, Changed::Late);
    assert!(!GRANTED(&record.acquire(1_002, 2, Share::READ)));
}

#[test]
fn a_read_waits_for_an_earlier_write_and_a_write_for_anything_earlier() {
    let mut record = Record::default();
    assert!(GRANTED(&record.acquire(1, 1, Share::READ)) && GRANTED(&record.acquire(2, 2, Share::READ)));
    assert!(matches!(record.acquire(3, 3, Share::WRITE), Acquired::Queued { position: 0, .. }));
    assert!(matches!(record.acquire(4, 4, Share::READ), Acquired::Queued { position: 1, .. }));
    assert!(matches!(record.asked(5, 5, Share::READ, false, 9), Acquired::Held(_)), "who only tries does too");
    assert_eq!(record.release(6, 1), (true, vec![]));
    assert_eq!(record.release(7, 2), (true, vec![3]));
    assert!(matches!(record.acquire(8, 6, Share::READ), Acquired::Queued { position: 1, .. }));
    assert_eq!(record.release(9, 3), (true, vec![4, 6]), "all who read come in at once");
}

#[test]
fn a_writer_that_gave_up_or_is_not_there_keeps_nobody_waiting() {
    let mut record = Record::default();
    for (now, attempt, share) in [(1, 1, Share::READ), (2, 2, Share::WRITE), (3, 3, Share::READ)] {
        record.acquire(now, attempt, share);
    }
    assert_eq!(with(4, |env| record.cell.undo(&mut record.kept, env, &claimant(2))).1, vec![3]);
    record.acquire(5, 100, Share::WRITE);
    assert!(GRANTED(&record.acquire(6, 4, Share::READ)), "nobody listens there");
}

#[test]
fn each_reader_has_a_lease_of_its_own() {
    let mut record = Record::default();
    record.acquire(0, 1, Share::READ);
    record.acquire(20_000_000, 2, Share::READ);
    record.acquire(20_000_001, 3, Share::WRITE);
    assert!(!GRANTED(&record.acquire(30_000_001, 3, Share::WRITE)));
    assert_eq!(record.holders(), [2], "only the first is over");
    assert!(GRANTED(&record.acquire(50_000_001, 3, Share::WRITE)));
}

#[test]
fn a_lease_that_ran_out_may_be_renewed_until_somebody_needs_the_room() {
    let mut record = Record::default();
    record.acquire(0, 1, Share::READ);
    assert!(with(31_000_000, |env| record.cell.renew(&mut record.kept, env, &claimant(1), TTL)).0);
    record.acquire(62_000_000, 2, Share::READ);
    assert!(!with(62_000_001, |env| record.cell.renew(&mut record.kept, env, &claimant(1), TTL)).0);
}

#[test]
fn rule_7_only_a_holder_renews_releases_and_changes_and_a_late_renewal_does_not_cut_the_lease() {
    let mut record = Record::default();
    record.acquire(1, 1, Share::READ);
    assert!(!with(2, |env| record.cell.renew(&mut record.kept, env, &claimant(2), TTL)).0);
    assert_eq!((record.release(3, 2).0, record.change(4, 2, 1, ALL).0), (false, Changed::Gone));
    let before = record.kept.holders.clone();
    assert!(with(5, |env| record.cell.renew(&mut record.kept, env, &claimant(1), TTL / 10)).0);
    assert_eq!(record.kept.holders, before);
    assert_eq!((record.release(6, 1).0, record.release(7, 1).0), (true, false));
}

#[test]
fn the_writer_becomes_a_reader_and_lets_readers_in_but_no_writer() {
    let mut record = Record::default();
    record.acquire(1, 1, Share::WRITE);
    for (now, attempt, share) in [(2, 2, Share::READ), (3, 3, Share::WRITE), (4, 4, Share::READ)] {
        record.acquire(now, attempt, share);
    }
    assert_eq!(record.change(5, 1, 1, 1), (Changed::Done(1), vec![2]));
    assert_eq!(record.change(6, 1, 1, 1), (Changed::Done(1), vec![]), "sent again");
}

#[test]
fn only_the_sole_reader_becomes_the_writer_with_a_token_above_all() {
    let mut record = Record::default();
    record.acquire(1, 1, Share::READ);
    record.acquire(2, 2, Share::READ);
    record.acquire(3, 3, Share::WRITE);
    assert_eq!((record.change(4, 1, 1, ALL).0, record.change(5, 2, 2, ALL).0), (Changed::Refused, Changed::Refused));
    record.release(6, 2);
    assert_eq!(record.change(7, 1, 1, ALL).0, Changed::Done(3));
    assert_eq!(record.change(8, 1, 1, ALL).0, Changed::Done(3), "sent again");
    assert_eq!(record.cell.used, ALL);
}

#[test]
fn a_change_that_comes_late_names_a_token_that_is_no_more() {
    let mut record = Record::default();
    record.acquire(1, 1, Share::WRITE);
    record.change(2, 1, 1, 1);
    assert_eq!(record.change(3, 1, 1, ALL).0, Changed::Done(2));
    // A copy of the first change arrives: it must not make a reader of who believes to be alone.
    assert_eq!(record.change(4, 1, 1, 1).0, Changed::Refused);
    assert!(!GRANTED(&record.acquire(5, 2, Share::READ)));
}

#[test]
fn a_reader_whose_lease_is_over_does_not_keep_another_from_writing() {
    let mut record = Record::default();
    record.acquire(-40_000_000, 1, Share::READ);
    record.acquire(0, 2, Share::READ);
    assert_eq!(record.change(1, 2, 2, ALL).0, Changed::Done(3));
}

#[test]
fn permits_that_are_too_few_are_passed_by_unless_they_are_wanted_in_order() {
    for in_order in [false, true] {
        let mut record = Record::default();
        record.acquire(1, 1, permits(2, false));
        record.acquire(2, 2, permits(2, in_order));
        let one = record.acquire(3, 3, permits(1, false));
        assert_eq!(GRANTED(&one), !in_order, "{one:?}");
        let (_, granted) = record.release(4, 1);
        assert_eq!(granted, if in_order { vec![2, 3] } else { vec![2] });
        assert_eq!(record.cell.used, 3);
    }
}

#[test]
fn of_those_who_are_passed_by_only_the_first_are_looked_at() {
    let mut record = Record::default();
    record.acquire(1, 1, permits(2, false));
    for n in 0..=u128::from(LOOK) {
        record.acquire(2, 10 + n, permits(2, false));
    }
    assert!(!GRANTED(&record.acquire(3, 2, permits(1, false))));
    for (attempt, granted) in [(10, vec![]), (11, vec![2])] {
        assert_eq!(with(4, |env| record.cell.undo(&mut record.kept, env, &claimant(attempt))).1, granted);
    }
}

#[test]
fn the_first_user_says_how_many_permits_there_are_until_it_is_resized() {
    let mut record = Record::default();
    record.acquire(1, 1, permits(1, false));
    let more = Share::permits(4, 9, false).unwrap();
    assert_eq!(record.acquire(2, 2, more), Acquired::TooMany(3));
    record.release(3, 1);
    assert!(GRANTED(&record.acquire(4, 2, more)), "nobody used it any more");
    let resize = |record: &mut Record, permits| {
        with(5, |env| record.cell.resize(&mut record.kept, env, more.primitive, permits)).1
    };
    record.acquire(5, 3, Share { units: 9, in_order: true, ..more });
    record.acquire(6, 4, permits(1, false));
    assert_eq!(resize(&mut record, 5), [4], "what can never be had keeps nobody waiting");
    assert_eq!(resize(&mut record, 2), Vec::<u128>::new());
    assert_eq!(record.holders(), [2, 4], "nobody loses what it holds");
    record.release(7, 2);
    record.release(8, 4);
    record.acquire(9, 5, permits(2, false));
    assert_eq!((record.cell.capacity, record.cell.used), (2, 2));
}

#[test]
fn a_claim_that_ran_out_unrenewed_takes_its_inbox_out_of_the_line() {
    let mut record = Record::default();
    record.acquire(1, 1, Share::WRITE);
    record.acquire(2, 2, Share::WRITE);
    record.acquire(3, 3, Share::WRITE);
    let mut sibling = record.kept.line.get(1).unwrap().clone();
    sibling.who.owner.inbox = claimant(2).inbox;
    record.kept.line.leave(sibling.who.owner.attempt);
    record.kept.line.join(&sibling);
    assert_eq!(record.release(4, 1).1, [2]);
    assert!(GRANTED(&record.acquire(2_000_000, 4, Share::WRITE)));
    assert!(record.kept.line.is_empty());
}

#[test]
fn rule_3_an_acquire_sent_again_answers_granted_or_keeps_its_place() {
    let mut record = Record::default();
    let first = record.acquire(1, 1, Share::WRITE);
    assert_eq!(record.acquire(2, 1, Share::WRITE), first);
    for (now, attempt, position) in [(3, 2, 0), (4, 3, 1), (5, 2, 0)] {
        let queued = record.acquire(now, attempt, Share::WRITE);
        assert!(matches!(queued, Acquired::Queued { position: at, .. } if at == position), "{queued:?}");
    }
    // Whoever asks as the first in line gets an answer, and the whole ttl.
    record.kept.holders.clear();
    record.cell.used = 0;
    assert!(GRANTED(&record.acquire(6, 2, Share::WRITE)));
    assert_eq!(record.cell.remaining(StoreTime(6)), TTL);
}

#[test]
fn rule_2_only_its_token_breaks_a_hold() {
    let mut record = Record::default();
    record.acquire(1, 1, Share::READ);
    record.acquire(2, 2, Share::READ);
    for (token, breaks) in [(3, false), (2, true), (2, false)] {
        assert_eq!(with(3, |env| record.cell.break_hold(&mut record.kept, env, token)).0, breaks, "{token}");
    }
    assert_eq!(record.holders(), [1]);
}
