//! A held lock is passed to a secret, and from it to whoever knows it.

use super::*;
use lockwright_machines::lock_cell::{Acquire, LockCell, Pass, Passed, Surroundings, Waiter};
use lockwright_machines::native_machine::OwnCalls;
use lockwright_machines::rank::Rank;

static OWN: OwnCalls = OwnCalls::of_cell();
const SECRET: AttemptId = AttemptId(77);

fn secret() -> Terms {
    Terms::of_secret("x".into(), SECRET, TTL, "".into())
}

fn native() -> Box<dyn Protocol> {
    Box::new(NativeMachine::new(&CALLS, "x".into(), true).with(&OWN))
}

fn exporting() -> Rig {
    let mut rig = Rig::speaking(native(), SERVICE, Inbox::Live);
    rig.replied(0, 0, Reply::Int(100));
    rig.hears();
    rig.tell(1, Event::Export { secret: secret(), used: 100 });
    assert_eq!((rig.asks(), rig.valid_until()), ("pass", None));
    rig
}

fn resuming() -> Rig {
    let session = Session::new(native(), Duration::from_secs(5));
    let mut rig = Rig { session, sent: Vec::new(), said: Vec::new(), learnt: Vec::new() };
    rig.tell(0, Event::Resume { terms: terms(1), secret: secret(), service: SERVICE });
    assert_eq!(rig.asks(), "pass");
    rig
}

/// The claimants that the last write names.
fn named(rig: &Rig) -> Vec<AttemptId> {
    let args = rig.sent.last().unwrap().1.args.iter();
    let text = |arg: &Arg| match arg {
        Arg::Text(text) => Claimant::parse(text),
        _ => None,
    };
    args.filter_map(text).map(|claimant| claimant.attempt).collect()
}

#[test]
fn rule_7_an_exported_hold_is_over_and_nothing_of_it_is_renewed() {
    let mut rig = exporting();
    assert_eq!(named(&rig), [SECRET, AttemptId(1)]);
    rig.replied(2, 1, Reply::Int(164));
    assert_eq!(rig.hears(), ["released: released", "Ended"]);
    assert_eq!(rig.session.poll_timeout(), None);
}

#[test]
fn rule_3_an_export_is_asked_for_again_and_tells_the_same() {
    let mut rig = exporting();
    rig.unanswered(2, 10);
    rig.tick(100);
    assert_eq!((rig.asks(), named(&rig)), ("pass", vec![SECRET, AttemptId(1)]));
    rig.replied(101, 100, Reply::Int(164));
    assert_eq!(rig.hears(), ["released: released", "Ended"]);
}

#[test]
fn rule_4_a_secret_that_was_never_told_is_undone() {
    let mut rig = exporting();
    for now in (1..5_100).step_by(50) {
        if rig.sent.last().is_some_and(|(id, _)| rig.session.awaits(*id)) {
            rig.unanswered(now, now + 10);
        }
        rig.tick(now + 49);
    }
    assert_eq!(rig.hears(), ["released: unknown"]);
    assert_eq!((rig.asks(), named(&rig)), ("undo", vec![AttemptId(1), SECRET]));
    rig.replied(5_200, 5_190, Reply::Int(1));
    assert_eq!(rig.hears(), ["Ended"]);
}

#[test]
fn rule_4_a_secret_that_the_store_refused_to_say_anything_of_is_undone() {
    let mut rig = exporting();
    rig.replied(2, 1, Reply::Error { code: "NOPERM".into(), message: "no".into() });
    assert_eq!(rig.hears(), ["released: unknown"]);
    assert_eq!((rig.asks(), named(&rig)), ("undo", vec![AttemptId(1), SECRET]));
}

#[test]
fn rule_7_an_export_of_what_is_not_held_any_more_says_so() {
    let mut rig = exporting();
    rig.replied(2, 1, Reply::Int(0));
    assert_eq!(rig.hears(), ["released: expired", "Ended"]);
}

#[test]
fn rule_1_a_resumed_lease_counts_from_the_sending() {
    let mut rig = resuming();
    rig.replied(5_000, 0, Reply::Int(164));
    assert_eq!(rig.hears(), ["granted 164..=227"]);
    assert_eq!(rig.valid_until(), Some(at(30_000 - 300 - 2)));
}

#[test]
fn rule_3_a_secret_that_somebody_else_resumed_is_not_owned() {
    let mut rig = resuming();
    rig.replied(1, 0, Reply::Int(0));
    assert_eq!(rig.hears(), ["failed: not_owned", "Ended"]);
}

#[test]
fn rule_3_a_resumption_is_asked_for_again_under_the_same_attempt() {
    let mut rig = resuming();
    rig.unanswered(1, 10);
    rig.tick(100);
    assert_eq!((rig.asks(), named(&rig)), ("pass", vec![AttemptId(1), SECRET]));
    rig.replied(101, 100, Reply::Int(164));
    assert_eq!(rig.hears(), ["granted 164..=227"]);
}

#[test]
fn rule_4_a_resumption_that_came_late_learns_the_time_and_asks_again() {
    let mut rig = resuming();
    rig.replied(1, 0, Reply::List(vec![Reply::Int(2), Reply::Int(99)]));
    assert_eq!((rig.learnt.as_slice(), rig.asks()), ([StoreTime(99)].as_slice(), "pass"));
}

#[test]
fn rule_8_who_gives_up_resuming_undoes_its_own_attempt_and_leaves_the_secret_alone() {
    let mut rig = resuming();
    rig.tell(1, Event::Cancel);
    assert_eq!((rig.asks(), named(&rig)), ("undo", vec![AttemptId(1)]));
}

#[test]
fn rule_7_what_a_layout_cannot_pass_is_unsupported() {
    let session = Session::new(Box::new(NativeMachine::new(&CALLS, "x".into(), true)), Duration::from_secs(5));
    let mut rig = Rig { session, sent: Vec::new(), said: Vec::new(), learnt: Vec::new() };
    assert!(!rig.session.can_pass());
    rig.tell(0, Event::Resume { terms: terms(1), secret: secret(), service: SERVICE });
    assert_eq!(rig.hears(), ["failed: unsupported", "Ended"]);
}

#[test]
fn rule_3_a_record_passes_a_lock_on_from_its_holder_alone_and_once() {
    let mut cell = LockCell::default();
    let [holder, one, other] = [terms(1), terms(2), terms(3)];
    let at = |now: i64| Surroundings { now: StoreTime(now), token_floor: 1, alive: &|_| true, pushes: vec![] };
    let pass = |from: &Terms, to: &Terms| Pass {
        to: Waiter { owner: Claimant::of(to), card: String::new() },
        from: Claimant::of(from),
        ttl: TTL,
        not_after: StoreTime(9),
    };
    let asker = Waiter { owner: Claimant::of(&holder), card: String::new() };
    let ask = Acquire { asker, ttl: TTL, not_after: StoreTime(9), wait: false, rank: Rank::LOWEST, prev: None };
    cell.acquire(&mut line::Queued::default(), &mut at(1), ask).unwrap();
    assert_eq!(cell.pass(&at(2), &pass(&one, &other)), Passed::Gone);
    assert_eq!(cell.pass(&at(10), &pass(&holder, &secret())), Passed::Late);
    let told = cell.pass(&at(2), &pass(&holder, &secret()));
    assert_eq!((&told, cell.pass(&at(3), &pass(&holder, &secret()))), (&Passed::Granted { first: 65 }, told.clone()));
    assert_eq!(cell.pass(&at(4), &pass(&secret(), &one)), Passed::Granted { first: 129 });
    assert_eq!(cell.pass(&at(5), &pass(&secret(), &other)), Passed::Gone);
}

fn said(queue: &mut Queue, event: queue::Event) -> Vec<queue::Action> {
    queue.handle(at(0), event);
    std::iter::from_fn(|| queue.poll_action()).collect()
}

#[test]
fn rule_9_an_export_ends_the_hold_here_and_whoever_waits_contends_again() {
    let mut queue = Queue::new(64);
    said(&mut queue, queue::Event::Acquire(ask(1)));
    said(&mut queue, queue::Event::Granted { contender: ContenderId(0), tokens: Tokens::new(100, 163) });
    said(&mut queue, queue::Event::Acquire(ask(2)));
    let wrong = said(&mut queue, queue::Event::Export { hold: HoldId(9), secret: SECRET, ttl: TTL });
    assert!(matches!(wrong[..], [queue::Action::Released { hold: HoldId(9), .. }]), "{wrong:?}");
    let done = said(&mut queue, queue::Event::Export { hold: HoldId(1), secret: SECRET, ttl: TTL });
    assert!(
        matches!(
            done[..],
            [
                queue::Action::Export { contender: ContenderId(0), hold: HoldId(1), used: 100, secret: SECRET, .. },
                queue::Action::Contend { .. }
            ]
        ),
        "{done:?}"
    );
    assert_eq!(queue.held_token(), None);
}

#[test]
fn rule_10_an_inner_level_is_not_exported() {
    let mut queue = Queue::new(64);
    let mine = Ask { owner: Some(queue::OwnerId(1)), ..ask(1) };
    said(&mut queue, queue::Event::Acquire(mine));
    said(&mut queue, queue::Event::Granted { contender: ContenderId(0), tokens: Tokens::new(100, 163) });
    said(&mut queue, queue::Event::Acquire(Ask { task: TaskId(2), ..mine }));
    let kept = said(&mut queue, queue::Event::Export { hold: HoldId(1), secret: SECRET, ttl: TTL });
    let outcome = lockwright_machines::lease::ReleaseOutcome::Kept(2);
    assert!(matches!(&kept[..], [queue::Action::Released { outcome: told, .. }] if *told == outcome), "{kept:?}");
    assert_eq!(queue.held_token(), Some(100));
}

#[test]
fn rule_9_what_is_resumed_is_for_its_task_alone_though_others_wait_or_hold() {
    let mut queue = Queue::new(64);
    said(&mut queue, queue::Event::Acquire(ask(1)));
    let sent = said(&mut queue, queue::Event::Resume { ask: ask(2), secret: SECRET });
    assert!(matches!(sent[..], [queue::Action::Resume { contender: ContenderId(1), secret: SECRET, .. }]), "{sent:?}");
    assert_eq!(queue.waiting_fairly().count(), 0);
    let granted = said(&mut queue, queue::Event::Granted { contender: ContenderId(1), tokens: Tokens::new(100, 163) });
    assert!(matches!(granted[..], [queue::Action::Grant { task: TaskId(2), hold: HoldId(2), .. }]), "{granted:?}");
    let released = said(&mut queue, queue::Event::Release { hold: HoldId(2), left: Some(TTL) });
    assert!(matches!(released[..], [queue::Action::GiveBack { contender: ContenderId(1), .. }]), "{released:?}");
    let mut queue = Queue::new(64);
    said(&mut queue, queue::Event::Acquire(ask(1)));
    said(&mut queue, queue::Event::Resume { ask: ask(2), secret: SECRET });
    let left = said(&mut queue, queue::Event::Cancel(TaskId(1)));
    assert!(
        matches!(left[..], [queue::Action::Withdraw(ContenderId(0))]),
        "nobody else wants what it asks for: {left:?}"
    );
    let mut queue = Queue::new(64);
    said(&mut queue, queue::Event::Acquire(ask(1)));
    said(&mut queue, queue::Event::Resume { ask: ask(2), secret: SECRET });
    let left = said(&mut queue, queue::Event::Cancel(TaskId(2)));
    assert!(
        matches!(left[..], [queue::Action::Withdraw(ContenderId(1))]),
        "nobody else wants what it resumes: {left:?}"
    );
}
