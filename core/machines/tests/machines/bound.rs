//! Rules 1 to 4 for a lock that lasts as long as a session of its client, as Curator's on ZooKeeper does: what happens
//! to it when that session ends, is cut off, or was another one when something was asked.

use lockwright_machines::stores::zookeeper::layouts::line::Line;
use lockwright_machines::stores::zookeeper::layouts::recipe::Recipe;

use super::process::{Effects, Part, Process, Settled};
use super::*;

const MINE: &str = "/lk/_c_00000000-0000-0000-0000-000000000001-lock-0000000002";
const OTHER: &str = "/lk/_c_00000000-0000-0000-0000-000000000009-lock-0000000001";

/// A contender whose client's session lives until second 12, and whose first request has left.
fn asking() -> Rig {
    asking_as(SERVICE)
}

fn asking_as(service: Service) -> Rig {
    asking_until(12_000, service)
}

fn asking_until(alive: u64, service: Service) -> Rig {
    let session = Session::new(Box::new(Line::new("/lk".into(), Recipe::Mutex)), Duration::from_secs(5));
    let mut rig = Rig { session, sent: Vec::new(), said: Vec::new(), learnt: Vec::new() };
    rig.tell(0, Event::Alive(at(alive)));
    rig.tell(0, Event::Acquire { terms: terms(1), wait: true, service, inbox: Inbox::Closed });
    rig
}

fn made(session: i64) -> Reply {
    Reply::List(vec![Reply::Int(session), Reply::Text(MINE.into()), Reply::Int(100), Reply::Int(session)])
}

fn listed(session: i64, paths: &[&str]) -> Reply {
    let names = paths.iter().map(|path| Reply::Text(path.strip_prefix("/lk/").expect("a child").into()));
    Reply::List([Reply::Int(session)].into_iter().chain(names).collect())
}

fn stat(session: i64, czxid: i64, owner: i64) -> Reply {
    Reply::List([session, czxid, owner].map(Reply::Int).into())
}

impl Rig {
    /// The last write is answered by these.
    fn answers(&mut self, now: u64, replies: &[Reply]) {
        let (id, _) = self.sent.last().cloned().expect("something was sent");
        self.tell(now, Event::Reply { id, sent: at(now), answer: Answer::Replies(replies) });
    }

    fn op(&self) -> (Op, &'static str) {
        let (id, request) = self.sent.last().expect("something was sent");
        (id.op, request.call.name)
    }
}

fn holding_as(service: Service) -> Rig {
    let mut rig = asking_as(service);
    rig.answers(1, &[made(7), listed(7, &[MINE])]);
    assert_eq!(rig.hears(), ["granted 100..=100"]);
    rig
}

/// It stands behind another, whose node it watches.
fn waiting() -> Rig {
    let mut rig = asking();
    rig.answers(1, &[made(7), listed(7, &[MINE, OTHER])]);
    rig.answers(2, &[Reply::Nil, stat(7, 50, 8)]);
    assert!(rig.session.is_waiting());
    rig
}

fn gone() -> StoreEvent {
    StoreEvent::Gone { path: OTHER.into() }
}

#[test]
fn rule_1_a_lock_lives_as_long_as_its_session_and_is_not_renewed() {
    let mut rig = holding_as(SERVICE);
    assert_eq!((rig.session.valid_until(), rig.session.poll_timeout()), (Some(at(12_000)), Some(at(12_000))));
    let sent = rig.sent.len();
    for second in 1..60 {
        rig.tell(second * 1000, Event::Alive(at(second * 1000 + 12_000)));
        rig.tick(second * 1000);
        assert_eq!(rig.session.valid_until(), Some(at(second * 1000 + 12_000)));
    }
    assert_eq!(rig.sent.len(), sent, "the session's life is the lock's");
    // What was told earlier and comes late shortens nothing.
    rig.tell(60_000, Event::Alive(at(61_000)));
    assert_eq!(rig.session.poll_timeout(), Some(at(71_000)));
}

#[test]
fn rule_1_a_session_nobody_hears_of_is_over_at_its_deadline() {
    let mut rig = holding_as(SERVICE);
    rig.tick(11_999);
    assert!(rig.hears().is_empty());
    rig.tick(12_000);
    assert_eq!((rig.hears(), rig.op()), (vec!["lost: expired".to_owned()], (Op::Undo, "delete")));
}

#[test]
fn rule_1_a_session_that_ends_takes_its_locks_with_it_at_once() {
    let mut rig = holding_as(SERVICE);
    rig.tell(3_000, Event::Over);
    // The server may be told of the end late, so what is there is taken away.
    assert_eq!((rig.hears(), rig.op()), (vec!["lost: expired".to_owned()], (Op::Undo, "delete")));
}

#[test]
fn rule_1_a_grant_is_only_believed_while_the_session_lives() {
    let mut rig = asking_until(100, SERVICE);
    rig.answers(100, &[made(7), listed(7, &[MINE])]);
    assert_eq!((rig.hears().len(), rig.op()), (0, (Op::Acquire, "create")), "it asks again after a pause");
    rig.tell(101, Event::Alive(at(24_000)));
    rig.tick(120);
    rig.answers(121, &[Reply::Nil, listed(7, &[MINE])]);
    rig.answers(122, &[Reply::Nil, stat(7, 100, 7)]);
    assert_eq!((rig.hears(), rig.session.valid_until()), (vec!["granted 100..=100".to_owned()], Some(at(24_000))));
}

#[test]
fn rule_14_a_store_that_keeps_no_session_alive_is_unavailable() {
    let mut rig = asking();
    rig.tell(1, Event::Over);
    rig.answers(2, &[made(7), listed(7, &[MINE])]);
    let mut now = 3;
    while rig.said.is_empty() {
        assert!(now < 60_000, "it is told");
        rig.answers(now, &[Reply::Nil, listed(7, &[MINE])]);
        rig.answers(now, &[Reply::Nil, stat(7, 100, 7)]);
        now = rig.session.poll_timeout().map_or(60_000, |due| due.since(at(0)).as_millis() as u64 + 1);
        rig.tick(now);
    }
    assert_eq!(rig.said.first().map(String::as_str), Some("failed: unavailable"));
}

#[test]
fn rule_6_whoever_waits_asks_again_when_its_session_ends() {
    let mut rig = waiting();
    let sent = rig.sent.len();
    rig.tell(3_000, Event::Over);
    assert_eq!((rig.sent.len(), rig.op()), (sent + 1, (Op::Acquire, "sync")));
    // What the old watch tells grants nothing any more.
    rig.tell(3_001, Event::Push(&gone()));
    rig.tell(3_002, Event::Alive(at(15_000)));
    assert!(rig.hears().is_empty());
    let no_node = Reply::Error { code: "NoNode".into(), message: String::new() };
    rig.answers(3_003, &[Reply::Nil, no_node.clone(), no_node]);
    rig.answers(3_004, &[Reply::Nil, listed(8, &[])]);
    assert_eq!(rig.op(), (Op::Acquire, "create"), "its node is gone, so it takes a place anew");
}

#[test]
fn rule_1_an_old_watch_does_not_grant_after_the_sessions_deadline() {
    let mut rig = waiting();
    // Stopped for long; the watch told in time, and is only read now.
    rig.tell(12_001, Event::Push(&gone()));
    assert!(rig.hears().is_empty() && rig.session.valid_until().is_none());
    let mut rig = waiting();
    rig.tell(11_999, Event::Push(&gone()));
    assert_eq!(rig.hears(), ["granted 100..=100"]);
}

#[test]
fn rule_3_an_answer_from_a_session_that_is_over_grants_nothing() {
    let mut rig = asking();
    rig.tell(1, Event::Over);
    rig.tell(2, Event::Alive(at(14_000)));
    // It was on its way when the session ended.
    rig.answers(3, &[made(7), listed(7, &[MINE])]);
    assert_eq!((rig.hears().len(), rig.op()), (0, (Op::Acquire, "sync")));
    // The node of the old session is still there: the server has not noticed.
    rig.answers(4, &[Reply::Nil, listed(8, &[MINE])]);
    rig.answers(5, &[Reply::Nil, stat(8, 100, 7)]);
    assert_eq!((rig.hears().len(), rig.op()), (0, (Op::Acquire, "delete")));
}

#[test]
fn rule_4_a_reply_that_is_lost_before_its_session_ends_leaves_nothing() {
    let mut rig = asking();
    rig.unanswered(1, 500);
    rig.tell(2, Event::Over);
    rig.tell(3, Event::Cancel);
    assert_eq!(rig.op(), (Op::Undo, "sync"));
    rig.answers(4, &[Reply::Nil, listed(8, &[MINE])]);
    assert_eq!(rig.op(), (Op::Undo, "delete"));
    rig.answers(5, &[Reply::Nil]);
    // The create may yet be done, until then.
    rig.tick(500);
    rig.answers(501, &[Reply::Nil, listed(8, &[])]);
    assert_eq!(rig.hears(), ["Ended"]);
}

#[test]
fn rule_4_what_a_living_session_keeps_is_undone_for_as_long_as_it_lives() {
    let mut rig = holding_as(SERVICE);
    rig.tell(1_000, Event::Cancel);
    for second in 1..200 {
        let id = rig.sent.last().unwrap().0;
        let error = Error::new(Kind::Unavailable, "cancel", "no answer");
        let answer = Answer::Unknown { error, void_after: at(second * 1000) };
        rig.tell(second * 1000, Event::Reply { id, sent: at(second * 1000), answer });
        rig.tell(second * 1000 + 1, Event::Alive(at(second * 1000 + 12_000)));
        rig.tick(second * 1000 + 500);
    }
    assert!(rig.session.is_undoing(), "its node would stand as long as the client lives");
}

#[test]
fn rule_4_a_release_is_tried_again_for_as_long_as_its_session_lives() {
    let mut rig = holding_as(SERVICE);
    rig.tell(60_000, Event::Alive(at(72_000)));
    rig.tell(60_001, Event::Release { used: 100 });
    rig.answers(60_002, &[Reply::Error { code: "ConnectionLoss".into(), message: String::new() }]);
    rig.tick(60_020);
    assert_eq!((rig.hears().len(), rig.op()), (0, (Op::Release, "delete")));
}

#[test]
fn rule_4_what_a_client_slept_over_is_undone_unless_its_session_is_over() {
    let lost = || [Reply::Error { code: "ConnectionLoss".into(), message: String::new() }];
    for is_over in [false, true] {
        let mut rig = holding_as(SERVICE);
        rig.tell(1_000, Event::Release { used: 100 });
        assert_eq!(rig.op(), (Op::Release, "delete"));
        // Longer than the lease, and yet the server may have kept the session.
        rig.answers(40_000, &lost());
        if is_over {
            rig.tell(40_000, Event::Over);
        }
        rig.tick(40_000);
        assert_eq!(
            (rig.hears().first().map(String::as_str), rig.session.is_undoing()),
            (Some("released: unknown"), !is_over)
        );
    }
    let mut rig = holding_as(SERVICE);
    rig.tell(1_000, Event::Cancel);
    rig.answers(100_000, &lost());
    rig.tick(100_000);
    assert!(rig.session.is_undoing(), "its node stands as long as its session does, and that may go on");
    rig.tell(100_001, Event::Over);
    rig.tick(100_002);
    assert_eq!(rig.hears(), ["Ended"]);
}

#[test]
fn rule_4_what_was_asked_in_the_next_session_does_not_end_with_the_one_before() {
    let mut rig = waiting();
    rig.tell(3_000, Event::Over);
    assert_eq!(rig.op(), (Op::Acquire, "sync"));
    rig.tell(3_001, Event::Cancel);
    rig.tick(100_000);
    assert!(rig.session.is_undoing());
}

#[test]
fn rule_1_a_limit_of_the_holder_ends_before_the_session() {
    let limited = Service { ttl: Duration::from_secs(2), max_hold: Some(Duration::from_secs(3)), ..SERVICE };
    let unrenewed = Service { ttl: Duration::from_secs(5), renew: false, ..SERVICE };
    for (service, ends, why) in [(limited, 5_001, "max_hold"), (unrenewed, 5_001, "not_renewed")] {
        let mut rig = holding_as(service);
        rig.tell(4_000, Event::Alive(at(16_000)));
        rig.tick(ends - 1);
        assert!(rig.hears().is_empty());
        rig.tick(ends);
        assert_eq!((rig.hears(), rig.op()), (vec![format!("lost: {why}")], (Op::Undo, "delete")));
    }
}

#[test]
fn rule_7_what_is_extended_lives_no_longer_than_its_session() {
    let mut rig = holding_as(SERVICE);
    rig.tell(1_000, Event::Extend(TTL));
    assert_eq!(rig.op(), (Op::Renew, "sync"));
    rig.answers(1_001, &[Reply::Nil, stat(7, 100, 7)]);
    assert_eq!((rig.hears(), rig.session.valid_until()), (vec!["Extended(true)".to_owned()], Some(at(12_000))));
    // The timer is late, and so is the answer.
    rig.tell(2_000, Event::Extend(TTL));
    rig.answers(12_001, &[Reply::Nil, stat(7, 100, 7)]);
    assert!(rig.hears().is_empty());
    rig.tick(12_002);
    assert_eq!(rig.hears(), ["lost: expired", "Extended(false)"]);
}

#[test]
fn rule_4_what_was_on_its_way_when_the_session_ended_does_not_end_with_it() {
    let mut rig = asking();
    let create = rig.sent.last().unwrap().0;
    rig.tell(1, Event::Cancel);
    rig.tell(2, Event::Over);
    rig.tick(100_000);
    // It left in the next session, by a driver that kept it for that.
    let lost =
        Answer::Unknown { error: Error::new(Kind::Unavailable, "acquire", "no answer"), void_after: at(100_001) };
    rig.tell(100_001, Event::Reply { id: create, sent: at(3), answer: lost });
    rig.tick(200_000);
    assert!(rig.session.is_undoing());
}

#[test]
fn rule_4_an_acquire_that_is_answered_after_its_undo_is_undone_again() {
    let mut rig = asking();
    let create = rig.sent.last().unwrap().0;
    rig.tell(1, Event::Cancel);
    rig.answers(2, &[Reply::Nil, listed(7, &[])]);
    assert!(rig.session.is_undoing());
    let made = [made(7), listed(7, &[MINE])];
    rig.tell(3, Event::Reply { id: create, sent: at(0), answer: Answer::Replies(&made) });
    assert_eq!(rig.op(), (Op::Undo, "sync"));
    rig.answers(4, &[Reply::Nil, listed(7, &[MINE])]);
    rig.answers(5, &[Reply::Nil]);
    assert_eq!(rig.hears(), ["Ended"]);
}

/// What a server with one lock and one session answers: the node is made, and is the first.
fn answered(process: &mut Process, effects: &mut Effects) {
    while let Some(send) = effects.sends.pop() {
        let replies = match send.requests[0].call.name {
            "create" => {
                let Some(name) = send.requests[0].key.strip_prefix("/lk/") else { panic!("{:?}", send.requests) };
                let path = format!("/lk/{name}0000000002");
                let node = [Reply::Int(7), Reply::Text(path.clone()), Reply::Int(100), Reply::Int(7)];
                vec![Reply::List(node.into()), listed(7, &[&path])]
            }
            _ => send.requests.iter().map(|_| Reply::Nil).collect(),
        };
        let answer = Answer::Replies(&replies);
        let event =
            lockwright_machines::machine::Event::Answered { slot: send.slot, id: send.id, sent: effects.at, answer };
        process.handle(event, effects);
    }
}

#[test]
fn rule_12_a_session_that_ends_is_told_to_whoever_holds_and_the_next_one_begins_with_what_is_known() {
    let speaks = || Box::new(Line::new("/lk".into(), Recipe::Mutex)) as Box<dyn Protocol>;
    let part = Part { id: 1, salt: 0, speaks, store_timeout: Duration::from_secs(5), shares: false };
    let mut process = Process::new(part, Inbox::Closed);
    let acquire = |process: &mut Process, task| {
        let mut effects = Effects::at(at(0));
        process.acquire(ask(task), None, &mut effects);
        assert!(effects.open_session);
        answered(process, &mut effects);
        effects
    };
    let mut effects = Effects::at(at(0));
    process.lives(Some(at(12_000)), &mut effects);
    let granted = acquire(&mut process, 1);
    assert!(matches!(granted.settled[..], [(_, Settled::Granted { .. })]), "{granted:?}");
    assert_eq!(process.valid_until(HoldId(1)), Some(at(12_000)));
    let mut effects = Effects::at(at(5));
    process.lives(None, &mut effects);
    assert_eq!(effects.lost.len(), 1);
    assert_eq!(process.valid_until(HoldId(1)), None);
    effects.sends.clear();
    // Of another session nothing is known yet, so its grant is not believed.
    assert!(acquire(&mut process, 2).settled.is_empty());
}

#[test]
fn rule_12_a_session_that_ends_while_nothing_is_held_is_not_believed_in_later() {
    let speaks = || Box::new(Line::new("/lk".into(), Recipe::Mutex)) as Box<dyn Protocol>;
    let part = Part { id: 1, salt: 0, speaks, store_timeout: Duration::from_secs(5), shares: false };
    let mut process = Process::new(part, Inbox::Closed);
    let mut effects = Effects::at(at(0));
    process.lives(Some(at(12_000)), &mut effects);
    process.acquire(ask(1), None, &mut effects);
    answered(&mut process, &mut effects);
    let waiter = super::process::Call::Release(TaskId(1));
    process.handle(lockwright_machines::machine::Event::Release { hold: HoldId(1), token: None, waiter }, &mut effects);
    answered(&mut process, &mut effects);
    assert!(process.is_idle());
    process.lives(None, &mut effects);
    effects.settled.clear();
    process.acquire(ask(2), None, &mut effects);
    answered(&mut process, &mut effects);
    assert!(effects.settled.is_empty(), "{effects:?}");
}

#[test]
fn rule_6_a_look_that_an_event_led_to_is_asked_again_until_it_is_answered() {
    let mut rig = waiting();
    let changed = StoreEvent::Changed { path: OTHER.into() };
    rig.tell(3_000, Event::Push(&changed));
    let asked = rig.sent.len();
    let (id, _) = rig.sent.last().cloned().expect("it looks");
    let error = Error::new(Kind::Unavailable, "acquire", "the server restarts");
    rig.tell(3_010, Event::Reply { id, sent: at(3_000), answer: Answer::NotSent(error) });
    // Nobody tells once more of what it would have seen.
    let again = rig.session.poll_timeout().expect("it asks again");
    assert!(again < at(3_100), "{again:?}");
    rig.tick(3_100);
    assert_eq!((rig.sent.len(), rig.op().0), (asked + 1, Op::Acquire));
    // It waits on where the answer says so.
    rig.answers(3_110, &[Reply::Nil, listed(7, &[MINE, OTHER])]);
    rig.answers(3_120, &[Reply::Nil, stat(7, 100, 7), stat(7, 50, 8)]);
    assert!(rig.session.is_waiting());
}

fn changed() -> StoreEvent {
    StoreEvent::Changed { path: MINE.into() }
}

fn data(session: i64, text: &str) -> Reply {
    Reply::List(vec![Reply::Int(session), Reply::Int(100), Reply::Int(session), Reply::Text(text.into())])
}

#[test]
fn whoever_heeds_is_told_that_its_lock_is_asked_back_and_goes_on_holding() {
    let mut rig = holding_as(SERVICE);
    let sent = rig.sent.len();
    rig.tell(10, Event::Push(&changed()));
    assert_eq!(rig.sent.len(), sent, "nobody wants to know");
    rig.tell(11, Event::Heed);
    assert_eq!((rig.sent.len(), rig.op()), (sent + 1, (Op::Renew, "sync")));
    rig.answers(12, &[Reply::Nil, stat(7, 100, 7), data(7, "me")]);
    rig.tell(13, Event::Heed);
    assert_eq!((rig.hears().len(), rig.sent.len()), (0, sent + 1), "it heeds already");
    rig.tell(14, Event::Push(&changed()));
    // What is changed while that is read is read again.
    rig.tell(15, Event::Push(&changed()));
    assert_eq!(rig.sent.len(), sent + 2);
    rig.answers(16, &[Reply::Nil, stat(7, 100, 7), data(7, "me")]);
    assert_eq!((rig.hears().len(), rig.sent.len()), (0, sent + 3));
    rig.answers(17, &[Reply::Nil, stat(7, 100, 7), data(7, "__REVOKE__")]);
    assert_eq!(rig.hears(), ["Wanted"]);
    assert_eq!(rig.session.valid_until(), Some(at(12_000)));
}

#[test]
fn whether_a_lock_is_asked_back_is_asked_until_it_is_known() {
    let mut rig = holding_as(SERVICE);
    rig.tell(10, Event::Heed);
    let sent = rig.sent.len();
    rig.unanswered(11, 11);
    // The session's life is no answer to that.
    rig.tell(12, Event::Alive(at(20_000)));
    rig.tick(40);
    assert_eq!((rig.sent.len(), rig.op()), (sent + 1, (Op::Renew, "sync")));
    rig.answers(41, &[Reply::Nil, stat(7, 100, 7), data(7, "__REVOKE__")]);
    assert_eq!(rig.hears(), ["Wanted"]);
    // The connection may have been another one meanwhile, and the watch with it.
    rig.tell(42, Event::Verify);
    assert_eq!(rig.op(), (Op::Renew, "sync"));
}
