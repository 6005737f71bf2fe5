//! How a contender asks, waits and gives up: rules 4, 6, 12 and 14.

use super::*;

fn waiting() -> Rig {
    let mut rig = Rig::asking(SERVICE);
    rig.replied(0, 0, queued(1_000_000, 0));
    rig
}

#[test]
fn rule_3_a_renewal_unanswered_at_the_yield_does_not_stop_the_next_holds_renewal() {
    let mut rig = Rig::holding();
    rig.tick(10_000);
    rig.tell(10_001, Event::Yield { attempt: AttemptId(2), used: 100, service: SERVICE });
    rig.replied(10_002, 10_001, Reply::Int(300));
    rig.tick(20_001);
    assert_eq!((rig.asks(), rig.sent.last().unwrap().0.attempt), ("renew", AttemptId(2)));
}

#[test]
fn rule_3_a_grant_pushed_while_it_is_undone_is_given_back() {
    let mut rig = waiting();
    rig.tell(10, Event::Cancel);
    rig.replied(20, 10, Reply::Int(1));
    assert_eq!(rig.hears(), ["Ended"]);
    let mut rig = waiting();
    rig.tell(10, Event::Cancel);
    rig.pushed(15, 1_010_000);
    rig.replied(20, 10, Reply::Int(1));
    assert_eq!((rig.hears().len(), rig.asks(), rig.sent.len()), (0, "undo", 3));
}

#[test]
fn rule_4_a_doubt_that_is_over_is_no_doubt() {
    let mut rig = Rig::asking(SERVICE);
    rig.unanswered(100, 1_200);
    rig.tick(200);
    rig.replied(210, 200, Reply::Int(100));
    rig.tell(1_200, Event::Yield { attempt: AttemptId(2), used: 100, service: SERVICE });
    assert_eq!(rig.asks(), "acquire");
}

#[test]
fn rule_4_an_answer_that_comes_too_late_teaches_the_stores_clock() {
    let mut rig = Rig::asking(SERVICE);
    rig.replied(10, 0, Reply::List(vec![Reply::Int(2), Reply::Int(99)]));
    assert_eq!(rig.learnt, [StoreTime(99)]);
    rig.replied(20, 10, queued(1_000, 0));
    assert_eq!(rig.learnt, [StoreTime(99), StoreTime(1_000)]);
}

#[test]
fn rule_4_a_place_told_after_the_undo_is_undone_again() {
    let mut rig = Rig::asking(SERVICE);
    let acquire = rig.sent[0].0;
    rig.tell(1, Event::Cancel);
    rig.replied(2, 1, Reply::Int(1));
    rig.replied_to(acquire, 3, 0, queued(1_000, 0));
    assert_eq!((rig.asks(), rig.sent.len()), ("undo", 3));
}

#[test]
fn rule_4_an_acquire_whose_connection_breaks_after_the_undo_is_undone_again() {
    let mut rig = Rig::asking(SERVICE);
    let (acquire, _) = rig.sent[0];
    rig.tell(1, Event::Cancel);
    rig.replied(2, 1, Reply::Int(1));
    let error = Error::new(Kind::Unavailable, "acquire", "no answer");
    let answer = Answer::Unknown { error, void_after: at(900) };
    rig.tell(500, Event::Reply { id: acquire, sent: at(0), answer });
    assert_eq!((rig.asks(), rig.sent.len()), ("undo", 3));
    rig.replied(501, 500, Reply::Int(1));
    assert!(rig.hears().is_empty(), "it may be executed yet");
    assert_eq!(rig.session.poll_timeout(), Some(at(541)), "and most often is in a moment");
    rig.tick(541);
    rig.replied(542, 541, Reply::Int(1));
    assert_eq!((rig.asks(), rig.sent.len(), rig.session.poll_timeout()), ("undo", 4, Some(at(702))));
    rig.tick(900);
    rig.replied(901, 900, Reply::Int(1));
    assert_eq!(rig.hears(), ["Ended"]);
}

/// The acquire `id` never left, which comes to be known at `now`.
fn never_left(rig: &mut Rig, now: u64, id: RequestId) {
    let answer = Answer::NotSent(Error::new(Kind::Unavailable, "acquire", "nothing listens there"));
    rig.tell(now, Event::Reply { id, sent: at(now), answer });
}

#[test]
fn rule_4_whose_only_acquire_never_left_has_nothing_to_undo() {
    let mut rig = Rig::asking(SERVICE);
    let (acquire, _) = rig.sent[0];
    rig.tell(1, Event::Cancel);
    assert_eq!((rig.hears().len(), rig.asks()), (0, "undo"));
    never_left(&mut rig, 2, acquire);
    assert_eq!(rig.hears(), ["Ended"]);
}

#[test]
fn rule_4_a_place_is_undone_though_the_acquire_after_it_never_left() {
    let mut rig = waiting();
    rig.tell(1_000, Event::Verify);
    let (acquire, _) = rig.sent[1];
    rig.tell(1_001, Event::Cancel);
    never_left(&mut rig, 1_002, acquire);
    rig.replied(1_003, 1_001, Reply::Int(1));
    assert_eq!((rig.hears().len(), rig.asks(), rig.sent.len()), (0, "undo", 4), "asked once more, to be sure");
    rig.replied(1_004, 1_003, Reply::Int(1));
    assert_eq!(rig.hears(), ["Ended"]);
}

#[test]
fn rule_4_what_was_lost_at_its_deadline_or_cancelled_is_given_back() {
    let mut rig = Rig::holding();
    rig.tick(29_698);
    assert_eq!((rig.hears(), rig.asks()), (vec!["lost: expired".to_owned()], "undo"));
    let mut rig = Rig::holding();
    rig.tell(5, Event::Cancel);
    assert_eq!(rig.asks(), "undo");
}

#[test]
fn rule_4_an_undo_that_nobody_answers_ends_once_the_store_has_forgotten() {
    let mut rig = Rig::holding();
    rig.tell(5, Event::Cancel);
    for now in [6, 10_000, 20_000] {
        rig.unanswered(now, now + 1_000);
        rig.tick(now + 1_000);
        assert!(rig.hears().is_empty());
    }
    rig.tick(40_000);
    assert_eq!(rig.hears(), ["Ended"]);
}

#[test]
fn rule_6_a_waiter_asks_again_by_a_timer() {
    let mut rig = waiting();
    let wake = rig.session.poll_timeout().unwrap();
    assert!(
        wake >= at(30_000) && wake <= at(30_125),
        "the end of the holder's lease, or the longest patience: {wake:?}"
    );
    rig.tick(30_125);
    assert_eq!((rig.asks(), rig.sent.len(), rig.sent[1].0.attempt), ("acquire", 2, AttemptId(1)));
}

#[test]
fn rule_6_whoever_waits_asks_again_when_the_inbox_is_subscribed_anew() {
    let mut rig = waiting();
    rig.tell(5, Event::Inbox(Inbox::Closed));
    assert_eq!(rig.sent.len(), 1);
    rig.tell(6, Event::Inbox(Inbox::Live));
    assert_eq!((rig.asks(), rig.sent.len()), ("acquire", 2));
}

#[test]
fn rule_6_a_place_told_while_the_inbox_was_subscribed_is_asked_for_again() {
    let mut rig = Rig::asking(SERVICE);
    rig.tell(1, Event::Inbox(Inbox::Live));
    rig.replied(2, 0, queued(1_000, 0));
    assert_eq!((rig.asks(), rig.sent.len()), ("acquire", 2));
}

#[test]
fn rule_6_without_an_inbox_nobody_queues_and_everybody_polls() {
    let mut rig = Rig::asking_over(SERVICE, Inbox::Unavailable);
    assert!(rig.sent[0].1.to_string().ends_with(" 0"), "it does not queue: {}", rig.sent[0].1);
    rig.replied(1, 0, Reply::List([0, 1_000, 20_000_000, 0].map(Reply::Int).to_vec()));
    assert!(rig.session.poll_timeout().unwrap() <= at(1 + 2));
    let mut rig = Rig::asking_over(SERVICE, Inbox::Closed);
    rig.replied(1, 0, Reply::List([0, 1_000, 20_000_000, 0].map(Reply::Int).to_vec()));
    assert_eq!(rig.hears(), ["OpenInbox"]);
}

#[test]
fn rule_12_what_a_restarted_store_may_have_forgotten_is_asked_for_at_once() {
    let mut rig = Rig::holding();
    rig.tell(5, Event::Verify);
    assert_eq!(rig.asks(), "renew");
    rig.replied(6, 5, Reply::Int(0));
    assert_eq!(rig.hears()[0], "lost: gone");
    let mut rig = waiting();
    rig.tell(5, Event::Verify);
    assert_eq!((rig.asks(), rig.sent.len()), ("acquire", 2));
}

#[test]
fn rule_12_a_hold_that_is_said_to_be_broken_is_asked_for_and_lost_at_once_if_it_is() {
    let mut rig = Rig::holding();
    rig.tell(5, Event::Push(&StoreEvent::Broken { attempt: AttemptId(9) }));
    assert_eq!(rig.sent.len(), 1, "another attempt's");
    rig.tell(5, Event::Push(&StoreEvent::Broken { attempt: AttemptId(1) }));
    assert_eq!((rig.hears().len(), rig.asks()), (0, "renew"));
    rig.replied(6, 5, Reply::Int(0));
    assert_eq!(rig.hears()[0], "lost: broken");
}

#[test]
fn rule_12_a_hold_that_is_wrongly_said_to_be_broken_goes_on() {
    let mut rig = Rig::holding();
    rig.tell(5, Event::Push(&StoreEvent::Broken { attempt: AttemptId(1) }));
    rig.replied(6, 5, Reply::Int(1));
    assert!(rig.hears().is_empty() && rig.valid_until().is_some());
    rig.tell(7, Event::Verify);
    rig.replied(8, 7, Reply::Int(0));
    assert_eq!(rig.hears()[0], "lost: gone", "whoever said so before was wrong");
}

#[test]
fn rule_5_only_the_first_push_to_an_attempt_is_believed() {
    let mut rig = waiting();
    rig.pushed(2_000, 1_010_000);
    assert_eq!((rig.hears().len(), rig.asks(), rig.sent.len()), (0, "acquire", 2), "its claim is over");
    rig.replied(2_001, 2_000, queued(3_000_000, 0));
    rig.pushed(2_002, 3_000_000);
    assert_eq!(
        (rig.hears().len(), rig.asks(), rig.sent.len()),
        (0, "acquire", 3),
        "whoever heard the first may send another"
    );
    rig.replied(2_004, 2_002, Reply::Int(200));
    assert_eq!(rig.hears(), ["granted 200..=263"]);
}

#[test]
fn a_push_from_the_far_future_is_asked_about() {
    let day = 24 * 60 * 60 * 1_000_000;
    let mut rig = waiting();
    rig.pushed(5, 2 * day);
    assert_eq!((rig.hears().len(), rig.asks(), rig.sent.len()), (0, "acquire", 2));
}

#[test]
fn whoever_lost_its_places_asks_at_once() {
    let mut rig = waiting();
    rig.tell(5, Event::Push(&StoreEvent::Dropped));
    assert_eq!((rig.asks(), rig.sent.len()), ("acquire", 2));
}

#[test]
fn whose_turn_it_may_be_asks_at_once_and_nobody_else_does() {
    let mut rig = waiting();
    rig.tell(5, Event::Push(&StoreEvent::Turn { attempt: AttemptId(2) }));
    assert_eq!((rig.hears().len(), rig.sent.len()), (0, 1));
    rig.tell(5, Event::Push(&StoreEvent::Turn { attempt: AttemptId(1) }));
    assert_eq!((rig.hears().len(), rig.asks(), rig.sent.len()), (0, "acquire", 2));
}

#[test]
fn whoever_is_next_looks_when_the_claim_is_over() {
    let mut rig = waiting();
    rig.tell(5, Event::Push(&StoreEvent::Next { tail: 2 }));
    assert!(rig.session.poll_timeout() >= Some(at(30_000)), "another one is");
    rig.tell(5, Event::Push(&StoreEvent::Next { tail: 1 }));
    assert_eq!(rig.sent.len(), 1);
    let wake = rig.session.poll_timeout().unwrap();
    assert!(wake >= at(1_005) && wake <= at(1_200), "{wake:?}");
}

#[test]
fn rule_14_a_store_that_stays_silent_is_unavailable_after_store_timeout() {
    let mut rig = Rig::asking(SERVICE);
    assert_eq!(rig.session.poll_timeout(), Some(at(5_000)));
    rig.tick(4_999);
    assert!(rig.hears().is_empty());
    rig.tick(5_000);
    assert_eq!((rig.hears()[0].as_str(), rig.asks()), ("failed: unavailable", "undo"));
}

#[test]
fn rule_14_waiting_for_a_holder_is_not_silence() {
    let mut rig = waiting();
    for round in 1..20 {
        rig.tell(round * 1_000, Event::Verify);
        rig.tick(round * 1_000 + 1);
        rig.replied(round * 1_000 + 2, round * 1_000, queued(round as i64 * 1_000_000, 0));
    }
    assert!(rig.hears().is_empty());
}

#[test]
fn rule_14_a_refusal_for_good_is_told_at_once_and_one_that_may_pass_is_asked_again() {
    let refused = |code: &str| {
        let mut rig = Rig::asking(SERVICE);
        rig.replied(1, 0, Reply::Error { code: code.into(), message: "no".into() });
        rig.hears().first().cloned()
    };
    assert_eq!(refused("WRONGTYPE").as_deref(), Some("failed: foreign_layout"));
    assert_eq!(refused("NOPERM").as_deref(), Some("failed: auth"));
    assert_eq!(refused("LOADING"), None);
}

#[test]
fn rule_14_a_release_that_nobody_answers_is_unknown_after_store_timeout_and_told_once() {
    let mut rig = Rig::holding();
    rig.tell(0, Event::Release { used: 100 });
    let release = rig.sent.last().unwrap().0;
    rig.tick(5_000);
    assert_eq!(rig.hears(), ["released: unknown"]);
    rig.replied_to(release, 5_001, 0, Reply::Int(1));
    assert_eq!(rig.hears(), ["Ended"]);
}

#[test]
fn rule_14_a_release_that_went_with_the_next_ones_request_waits_no_longer_than_that_one() {
    let mut rig = Rig::holding();
    rig.tell(10, Event::Yield { attempt: AttemptId(2), used: 100, service: SERVICE });
    let asked = rig.sent.last().unwrap().0;
    rig.tick(5_010);
    assert_eq!(rig.hears(), ["released: unknown", "failed: unavailable"]);
    rig.replied_to(asked, 5_011, 10, Reply::Int(164));
    assert!(!rig.hears().iter().any(|told| told.starts_with("released")));
}

#[test]
fn rule_1_without_renewal_the_deadline_wakes_the_session() {
    let mut rig = Rig::asking(Service { renew: false, ..SERVICE });
    rig.replied(0, 0, Reply::Int(100));
    assert_eq!(rig.session.poll_timeout(), rig.valid_until());
    assert!(rig.valid_until().is_some());
}

#[test]
fn rule_1_a_grant_that_ran_out_while_it_was_confirmed_is_asked_for_again() {
    let mut rig = Rig::asking(SERVICE);
    rig.replied(20_000, 0, Reply::Int(100));
    assert_eq!(rig.asks(), "renew");
    rig.tick(29_698);
    assert_eq!((rig.hears().len(), rig.asks()), (0, "acquire"));
}

#[test]
fn rule_7_a_longer_lease_of_the_next_task_is_asked_for_in_time() {
    let mut rig = Rig::asking(Service { ttl: millis(3_000), ..SERVICE });
    rig.replied(0, 0, Reply::Int(100));
    rig.tell(0, Event::Serve(SERVICE));
    assert!(rig.session.poll_timeout().unwrap() < at(1_000));
    rig.tick(1_000);
    assert!(rig.sent.last().unwrap().1.to_string().contains(" 30000000"));
}
