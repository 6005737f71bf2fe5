//! The layout `string` without tokens: a lock that is free is taken by a plain command, which is executed however late
//! it comes.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use lockwright_machines::guarantee::TokenRises;
use lockwright_machines::protocol::{Call, Input, Intent, Layout, Step, Verdict};
use lockwright_machines::quorum::{Leases, Marker, Member, QuorumLayout};
use lockwright_machines::stores::redis::layouts::string::{FAMILY, REDSYNC};
use lockwright_machines::stores::redis::layouts::tokenless::{TokenlessLayout, TokenlessLock, has_tokens};
use lockwright_machines::uri::Uri;

use super::*;

const THEIRS: &str = "3q2+7wABAgMEBQYHCAkKCw==";

fn machine() -> Box<dyn Protocol> {
    Box::new(TokenlessLock::new(FAMILY.layout(&REDSYNC, "").manner, "x".into()))
}

fn asking() -> Rig {
    Rig::speaking(machine(), SERVICE, Inbox::Closed)
}

fn ok() -> Reply {
    Reply::Text("OK".into())
}

fn held(left: i64) -> Reply {
    let numbers = [Reply::Int(0), Reply::Int(5_000_000), Reply::Int(left)];
    Reply::List(numbers.into_iter().chain([Reply::Text(THEIRS.into())]).collect())
}

#[test]
fn rule_1_a_free_lock_is_one_command_and_its_lease_counts_from_the_sending() {
    let mut rig = asking();
    assert_eq!(rig.asks(), "set");
    rig.replied(5, 0, ok());
    assert_eq!((rig.hears(), rig.sent.len()), (vec!["granted".to_owned()], 1));
    assert_eq!(rig.valid_until(), Some(at(30_000 - 300 - 2)));
}

#[test]
fn rule_1_an_answer_that_took_longer_than_the_lease_is_no_grant() {
    let mut rig = asking();
    rig.replied(29_800, 0, ok());
    assert_eq!((rig.hears().len(), rig.valid_until(), rig.asks()), (0, None, "acquire"));
}

#[test]
fn rule_2_whoever_does_not_get_it_hears_for_how_long_and_waits() {
    let mut rig = asking();
    rig.replied(5, 0, Reply::Nil);
    assert_eq!(rig.asks(), "acquire");
    rig.replied(10, 5, held(800));
    assert_eq!((rig.hears().len(), rig.sent.len()), (0, 2));
    rig.tick(1_000);
    assert_eq!((rig.asks(), rig.sent.len()), ("acquire", 3), "one request, now that it is known to be held");
    rig.replied(1_010, 1_000, Reply::Int(1));
    assert_eq!(rig.hears(), ["granted"]);
    assert_eq!(rig.valid_until(), Some(at(1_000 + 30_000 - 300 - 2)));
}

#[test]
fn rule_2_the_question_for_whose_it_is_may_be_answered_by_a_grant() {
    let mut rig = asking();
    rig.replied(5, 0, Reply::Nil);
    rig.replied(10, 5, Reply::Int(1));
    assert_eq!((rig.hears(), rig.valid_until()), (vec!["granted".to_owned()], Some(at(5 + 30_000 - 300 - 2))));
}

#[test]
fn rule_3_an_attempt_that_got_no_answer_asks_on_by_what_knows_its_own_owner() {
    let mut rig = asking();
    let owner = rig.sent[0].1.args[0].clone();
    rig.unanswered(1_000, 1_100);
    rig.tick(1_050);
    let again = rig.sent.last().unwrap().1.clone();
    assert_eq!((again.call.name, &again.args[0]), ("acquire", &owner));
    assert!(again.args.contains(&Arg::NotAfter));
    rig.replied(1_060, 1_050, Reply::Int(1));
    assert_eq!(rig.hears(), ["granted"]);
}

#[test]
fn rule_4_what_is_executed_late_is_undone_for_as_long_as_an_answer_may_be_expected() {
    let mut rig = asking();
    assert!(!rig.sent[0].1.args.contains(&Arg::NotAfter));
    rig.unanswered(1_000, 2_000);
    rig.tell(1_005, Event::Cancel);
    assert_eq!(rig.asks(), "undo");
    rig.replied(1_010, 1_005, Reply::Int(1));
    let undone = rig.sent.len();
    rig.tick(1_030);
    assert_eq!((rig.sent.len(), rig.asks()), (undone + 1, "undo"), "it may have been executed after the first undo");
    rig.replied(1_040, 1_030, Reply::Int(1));
    rig.tick(2_000);
    rig.replied(2_010, 2_000, Reply::Int(1));
    assert_eq!(rig.hears(), ["Ended"]);
}

#[test]
fn rule_4_whoever_gave_up_does_not_ask_whose_it_is() {
    let mut rig = asking();
    let set = rig.sent[0].0;
    rig.tell(5, Event::Cancel);
    rig.replied(10, 5, Reply::Int(1));
    rig.replied_to(set, 15, 0, Reply::Nil);
    assert!(rig.sent[1..].iter().all(|(_, request)| request.call.name == "undo"));
    rig.replied(20, 15, Reply::Int(1));
    assert_eq!(rig.hears(), ["Ended"]);
}

#[test]
fn rule_4_a_release_while_a_try_may_still_be_executed_is_followed_by_an_undo() {
    let mut rig = asking();
    rig.unanswered(1_000, 2_000);
    rig.tick(1_050);
    rig.replied(1_060, 1_050, Reply::Int(1));
    rig.tell(1_070, Event::Release { used: 0 });
    assert_eq!(rig.asks(), "release");
    rig.replied(1_080, 1_070, Reply::Int(1));
    assert_eq!((rig.hears(), rig.asks()), (vec!["granted".to_owned(), "released: released".to_owned()], "undo"));
}

#[test]
fn rule_5_a_lock_of_another_kind_is_refused_and_nonsense_is_no_grant() {
    let foreign = Reply::Error { code: "FOREIGN".into(), message: "hash uuid:1".into() };
    let mut rig = asking();
    rig.replied(5, 0, Reply::Nil);
    rig.replied(10, 5, foreign);
    assert_eq!(rig.hears()[0], "failed: foreign_layout");
    for (first, then) in
        [(Reply::Int(1), None), (Reply::Text("QUEUED".into()), None), (Reply::Nil, Some(Reply::Int(7)))]
    {
        let mut rig = asking();
        rig.replied(5, 0, first);
        if let Some(then) = then {
            rig.replied(10, 5, then);
        }
        assert_eq!(rig.hears()[0], "failed: protocol");
    }
}

#[test]
fn each_attempt_asks_by_the_command_once() {
    let mut rig = asking();
    rig.replied(0, 0, ok());
    rig.tell(10, Event::Release { used: 0 });
    rig.replied(20, 10, Reply::Int(1));
    rig.tell(30, Event::Acquire { terms: terms(2), wait: false, service: SERVICE, inbox: Inbox::Live });
    assert_eq!(rig.asks(), "set");
}

static MARK: Call = Call { name: "mark", body: &[], batch: false };

fn on_nodes() -> QuorumLayout {
    let member = |number| Member {
        address: format!("node{number}").into(),
        layout: Arc::new(TokenlessLayout { of: FAMILY.layout(&REDSYNC, "") }),
        marker: Marker { call: &MARK, key: "marker".into() },
    };
    let leases = Leases { max_ttl: Duration::from_secs(60), node_timeout: millis(100) };
    QuorumLayout::new((0..5).map(member).collect(), leases, Arc::new(AtomicBool::new(true))).unwrap()
}

fn asked(step: &Step) -> Vec<(&'static str, u16)> {
    let Step::Ask(requests) = step else { panic!("{step:?}") };
    requests.iter().map(|request| (request.call.name, request.node().unwrap().0)).collect()
}

fn tried(machine: &mut dyn Protocol, says: [Reply; 5], age: &Reply) -> Step {
    let replies: Vec<_> = says.into_iter().flat_map(|reply| [reply, age.clone()]).collect();
    machine.step(Input::Reply(Op::Acquire, &replies))
}

#[test]
fn on_nodes_each_is_asked_by_the_command_and_behind_it_how_old_it_is() {
    let mut machine = on_nodes().protocol("x".into());
    let acquire = || Input::Begin(Intent::Acquire { terms: terms(1), wait: true, prev: None });
    let step = machine.step(acquire());
    assert_eq!(asked(&step), (0..5).flat_map(|node| [("set", node), ("mark", node)]).collect::<Vec<_>>());
    let known = Reply::Text("run 60000000 1".into());
    // Of two that had it first nobody asks whose it is: what they granted is given back before anything else.
    let step = tried(&mut *machine, [ok(), Reply::Nil, Reply::Nil, Reply::Nil, ok()], &known);
    assert_eq!(asked(&step), [("release", 0), ("release", 4)]);
    let Step::Done(Verdict::Held { remaining, .. }) =
        machine.step(Input::Reply(Op::Acquire, &[Reply::Int(1), Reply::Int(1)]))
    else {
        panic!("others have it")
    };
    assert!(remaining >= millis(1) && remaining < millis(10), "{remaining:?}");
    let step = machine.step(acquire());
    assert_eq!(asked(&step), (0..5).flat_map(|node| [("acquire", node), ("mark", node)]).collect::<Vec<_>>());
    let step = tried(&mut *machine, [Reply::Int(1), held(7), held(7), Reply::Int(1), Reply::Int(1)], &known);
    let Step::Done(Verdict::Granted(grant)) = step else { panic!("{step:?}") };
    assert_eq!(grant.tokens, None);
}

#[test]
fn on_nodes_that_are_young_what_was_set_is_given_back() {
    let mut machine = on_nodes().protocol("x".into());
    machine.step(Input::Begin(Intent::Acquire { terms: terms(1), wait: true, prev: None }));
    let step = tried(&mut *machine, [ok(), ok(), ok(), Reply::Nil, Reply::Nil], &Reply::Int(1_500_000));
    assert_eq!(asked(&step), [("release", 0), ("release", 1), ("release", 2)]);
    let step = machine.step(Input::Reply(Op::Acquire, &[Reply::Int(1), Reply::Int(1), Reply::Int(1)]));
    assert!(matches!(step, Step::Done(Verdict::NotYet(_))), "{step:?}");
}

#[test]
fn it_is_said_that_there_are_no_tokens() {
    let one = TokenlessLayout { of: FAMILY.layout(&REDSYNC, "") };
    for layout in [&one as &dyn Layout, &on_nodes()] {
        let promised = layout.guarantees();
        assert_eq!((promised.layout, promised.token), ("string", TokenRises::Never));
        assert!(promised.notes.iter().any(|note| note.contains("No holder has a fencing token")));
        assert!(promised.notes.iter().any(|note| note.contains("until its ttl ends")));
        assert!(!promised.notes.iter().any(|note| note.contains("Tokens rise")));
    }
    let list = one.list().answered(&Reply::Nil).unwrap_err();
    assert_eq!(list.kind(), Kind::Unsupported);
    assert_eq!(one.break_hold("x".into(), 7).answered(&Reply::Int(1)).unwrap_err().kind(), Kind::Unsupported);
}

#[test]
fn the_option_goes_with_the_layout_that_can_do_without_tokens() {
    let read = |text: &str| has_tokens(&mut Uri::parse(text, Default::default()).unwrap());
    assert!(read("redis://h").unwrap() && read("redis://h?tokens=true").unwrap());
    assert!(!read("redis://h?layout=string&format=redsync&tokens=false").unwrap());
    for (text, kind) in [
        ("redis://h?tokens=maybe", Kind::InvalidConfig),
        ("redis://h?tokens=false", Kind::Unsupported),
        ("redis://h?layout=redisson&tokens=no", Kind::Unsupported),
    ] {
        assert_eq!(read(text).unwrap_err().kind(), kind, "{text}");
    }
}
