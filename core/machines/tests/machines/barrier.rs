//! The rules as barriers keep them: all who stand there pass at once, each counted once, and whoever gives up learns
//! whether that came too late.

use std::collections::BTreeMap;

use lockwright_machines::barrier_cell::{Arrive, Arrived, BarrierCell, BarrierInMemory, Passage};
use lockwright_machines::barrier_machine::{BarrierCalls, BarrierMachine, standing};
use lockwright_machines::gate::{BarrierPlan, MOST_PARTIES};
use lockwright_machines::lock_cell::Surroundings;
use lockwright_machines::token::Token;

use super::*;

static CALLS: BarrierCalls = BarrierCalls::of_cell();
const COPIES: Duration = Duration::from_secs(70);

fn machine() -> Box<dyn Protocol> {
    Box::new(BarrierMachine::new(&CALLS, "x".into(), BarrierPlan::new(3, TTL, COPIES).unwrap()))
}

fn waiting(inbox: Inbox) -> Rig {
    Rig::speaking(machine(), SERVICE, inbox)
}

fn numbers(numbers: &[i64]) -> Reply {
    Reply::List(numbers.iter().map(|number| Reply::Int(*number)).collect())
}

/// It stands there since its request of this moment.
fn standing_since(sent: u64) -> Rig {
    let mut rig = waiting(Inbox::Live);
    rig.replied(sent, sent, numbers(&[1, 1_000_000, 2]));
    rig
}

const PASSED: StoreEvent = StoreEvent::Granted { attempt: AttemptId(1), first: 70_001, last: 70_001, at: StoreTime(2) };

#[test]
fn the_last_party_passes_by_one_request_and_gives_nothing_back() {
    let mut rig = waiting(Inbox::Live);
    assert_eq!(rig.asks(), "barrier.arrive");
    rig.replied(5, 0, numbers(&[3, 2, 7]));
    assert_eq!(rig.hears(), ["granted 70002..=70002"]);
    rig.tell(6, Event::Release { used: 70_002 });
    assert_eq!(rig.hears(), ["released: released", "Ended"]);
    assert_eq!(rig.sent.len(), 1);
}

#[test]
fn who_waits_passes_by_push_however_old_the_news_are() {
    for told in [20, 25_000, 9_999_999] {
        let mut rig = standing_since(0);
        rig.tell(told, Event::Push(&PASSED));
        assert_eq!((rig.hears(), rig.sent.len()), (vec!["granted 70001..=70001".to_owned()], 1), "{told}");
    }
}

#[test]
fn a_place_is_renewed_each_third_of_its_ttl() {
    let mut rig = standing_since(0);
    let again = rig.session.poll_timeout().unwrap();
    assert!(again <= at(10_000) && again >= at(8_750), "{again:?}");
    rig.tick(10_000);
    assert_eq!((rig.sent.len(), rig.asks()), (2, "barrier.arrive"));
}

#[test]
fn a_place_that_may_be_forgotten_is_not_asked_for_again() {
    // Twice its ttl, and store_timeout.
    let mut rig = standing_since(0);
    rig.tick(64_999);
    assert_eq!(rig.asks(), "barrier.arrive");
    let mut rig = standing_since(0);
    rig.tick(65_000);
    assert_eq!((rig.hears(), rig.asks()), (vec!["failed: lost".to_owned()], "barrier.leave"));
    // It is remembered for a ttl longer than that, and for as long as a copy may come.
    let Arg::Int(memory) = rig.sent[0].1.args[5] else { panic!("a time") };
    assert_eq!(u128::try_from(memory).unwrap(), (3 * TTL + COPIES).as_micros());
}

#[test]
fn a_place_stands_before_its_party_can_be_told() {
    let mut rig = waiting(Inbox::Closed);
    assert_eq!(rig.sent[0].1.args[2], 1.into());
    rig.replied(5, 0, numbers(&[1, 1_000_000, 1]));
    assert_eq!(rig.hears(), ["OpenInbox"]);
    rig.tell(10, Event::Inbox(Inbox::Live));
    assert_eq!((rig.sent.len(), rig.asks()), (2, "barrier.arrive"), "it may have passed unheard");
}

#[test]
fn who_cannot_be_told_polls_and_keeps_its_place() {
    let mut rig = waiting(Inbox::Unavailable);
    for n in 1..5 {
        assert_eq!((rig.sent.len(), &rig.sent.last().unwrap().1.args[2]), (n, &1.into()));
        rig.replied(100 * n as u64, 100 * n as u64, numbers(&[1, 1_000_000, 2]));
        assert!(rig.session.poll_timeout().unwrap() <= at(100 * n as u64 + 64));
        rig.tick(100 * n as u64 + 64);
    }
    rig.replied(700, 690, numbers(&[3, 0, 7]));
    assert_eq!(rig.hears(), ["granted 70000..=70000"]);
}

#[test]
fn who_gives_up_learns_whether_that_came_too_late() {
    for (reply, parted) in [(Reply::Int(1), "Parted(None)"), (numbers(&[3, 1, 7]), "Parted(Some(70001))")] {
        let mut rig = standing_since(0);
        rig.tell(20, Event::Cancel);
        assert_eq!(rig.asks(), "barrier.leave");
        rig.replied(30, 20, reply);
        assert_eq!(rig.hears(), [parted, "Ended"]);
    }
}

#[test]
fn who_gives_up_after_too_long_a_silence_learns_nothing_that_may_be_wrong() {
    let mut rig = standing_since(0);
    rig.tell(65_000, Event::Cancel);
    rig.replied(65_001, 65_000, Reply::Int(1));
    assert_eq!(rig.hears(), ["Ended"]);
    let mut rig = standing_since(0);
    rig.tell(65_000, Event::Cancel);
    rig.replied(65_001, 65_000, numbers(&[3, 1, 7]));
    assert_eq!(rig.hears(), ["Parted(Some(70001))", "Ended"]);
}

#[test]
fn an_arrival_under_way_is_given_up_for_good_by_the_first_answer() {
    let mut rig = waiting(Inbox::Live);
    let (arrival, _) = rig.sent[0].clone();
    rig.tell(5, Event::Cancel);
    rig.replied(10, 5, Reply::Int(1));
    assert_eq!(rig.hears(), ["Parted(None)"]);
    rig.replied_to(arrival, 20, 0, numbers(&[4]));
    assert_eq!(rig.asks(), "barrier.leave");
    rig.replied(30, 20, Reply::Int(1));
    assert_eq!(rig.hears(), ["Parted(None)", "Ended"]);
}

#[test]
fn who_only_tries_has_no_place_to_give_up() {
    let session = Session::new(machine(), Duration::from_secs(5));
    let mut rig = Rig { session, sent: Vec::new(), said: Vec::new(), learnt: Vec::new() };
    rig.tell(0, Event::Acquire { terms: terms(1), wait: false, service: SERVICE, inbox: Inbox::Live });
    assert_eq!(rig.sent[0].1.args[2], 0.into());
    rig.replied(5, 0, numbers(&[0, 1_000_000, 1]));
    assert_eq!((rig.hears(), rig.sent.len()), (vec!["Refused".to_owned(), "Ended".to_owned()], 1));
}

#[test]
fn whoever_names_another_number_of_parties_is_told_both() {
    let mut rig = waiting(Inbox::Live);
    let (id, _) = rig.sent[0].clone();
    let answer = [numbers(&[5, 4])];
    rig.session.handle(at(5), Event::Reply { id, sent: at(0), answer: Answer::Replies(&answer) });
    let Some(Action::Failed(error)) = rig.session.poll_action() else { panic!("refused") };
    assert_eq!(error.kind(), Kind::InvalidConfig);
    assert!(error.to_string().contains("for 3 parties here, but for 4"), "{error}");
}

#[test]
fn what_makes_no_sense_is_no_passage() {
    let too_many = [3, i64::from(MOST_PARTIES), 7];
    for reply in [
        Reply::Int(1),
        Reply::Nil,
        numbers(&[]),
        numbers(&[1, 5, 0]),
        numbers(&[3, 0, 0]),
        numbers(&[3, -1, 7]),
        numbers(&too_many),
        numbers(&[3, 0, i64::MAX]),
        numbers(&[6]),
    ] {
        let mut rig = waiting(Inbox::Live);
        rig.replied(5, 0, reply.clone());
        assert_eq!(rig.hears(), ["failed: protocol"], "{reply:?}");
    }
    for reply in [Reply::Nil, Reply::Int(-1), Reply::Int(MOST_PARTIES.into()), numbers(&[1])] {
        assert_eq!(standing(&reply).unwrap_err().kind(), Kind::Protocol, "{reply:?}");
    }
    assert_eq!(standing(&Reply::Int(2)).unwrap(), 2);
}

#[test]
fn a_plan_is_in_range() {
    for parties in [0, MOST_PARTIES + 1, u32::MAX] {
        assert_eq!(BarrierPlan::new(parties, TTL, COPIES).unwrap_err().kind(), Kind::InvalidConfig, "{parties}");
    }
    assert!(BarrierPlan::new(1, TTL, COPIES).is_ok() && BarrierPlan::new(MOST_PARTIES, TTL, COPIES).is_ok());
}

#[test]
fn a_passage_is_one_number_and_back() {
    for passage in
        [Passage { index: 0, generation: 1 }, Passage { index: MOST_PARTIES - 1, generation: 1_763_000_000_000 }]
    {
        assert_eq!(Passage::of(passage.token()), passage);
    }
    assert_eq!(Passage { index: 3, generation: 7 }.token(), Token::new(70_003));
}

/// A barrier under test, and what must be true of it, counted in another way.
#[derive(Clone, Default)]
struct World {
    cell: BarrierCell,
    kept: BarrierInMemory,
    now: i64,
    /// Who stands there, in the order of arrival, and until when.
    standing: Vec<(u128, i64)>,
    /// What became of others: how they passed, or that they gave up.
    fates: BTreeMap<u128, Option<Passage>>,
    generation: u64,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Arrive(u128),
    Try(u128),
    Leave(u128),
    /// Two thirds of the ttl pass.
    Pass,
}

const PARTIES: u32 = 3;
const MEMORY: Duration = Duration::from_secs(300);

fn arrival(who: u128, wait: bool, parties: u32) -> Arrive {
    let asker = Claimant { attempt: AttemptId(who), inbox: InboxId(who as u64), claim: millis(1) };
    Arrive { asker, not_after: StoreTime(i64::MAX), wait, ttl: TTL, parties, memory: MEMORY }
}

impl World {
    fn in_it<T>(
        &mut self,
        act: impl FnOnce(&mut BarrierCell, &mut BarrierInMemory, &mut Surroundings<'_>) -> T,
    ) -> (T, Vec<u128>) {
        let alive = |_| true;
        let mut env = Surroundings { now: StoreTime(self.now), token_floor: 0, alive: &alive, pushes: Vec::new() };
        let done = act(&mut self.cell, &mut self.kept, &mut env);
        let told = env.pushes.into_iter().map(|(inbox, event)| match event {
            StoreEvent::Granted { attempt, first, last, .. } if attempt.0 == u128::from(inbox.0) && first == last => {
                let fate = self.fates.get(&attempt.0).copied().flatten();
                assert_eq!(fate.map(Passage::token), Some(Token::new(first)), "{attempt:?}");
                attempt.0
            }
            other => panic!("{other:?} to {inbox:?}"),
        });
        (done, told.collect())
    }

    /// The model goes first: who passes is told to the world by the pushes and the answer.
    fn arrive(&mut self, who: u128, wait: bool) {
        let now = self.now;
        self.standing.retain(|(_, ends)| *ends > now);
        let known = self.fates.get(&who).copied();
        let others = self.standing.iter().filter(|(other, _)| *other != who).count() as u32;
        let opens = known.is_none() && others + 1 == PARTIES;
        let mut told = Vec::new();
        if known.is_none() && (opens || wait) {
            let ends = now + TTL.as_micros() as i64;
            match self.standing.iter_mut().find(|(other, _)| *other == who) {
                Some(place) => place.1 = ends,
                None => self.standing.push((who, ends)),
            }
        }
        if opens {
            self.generation += 1;
            for (index, (party, _)) in (0..).zip(std::mem::take(&mut self.standing)) {
                let passage = Passage { index, generation: self.generation };
                assert_eq!(self.fates.insert(party, Some(passage)), None, "it passes once");
                told.extend((party != who).then_some(party));
            }
        }
        let expected = match self.fates.get(&who) {
            Some(Some(passage)) => Arrived::Passed(*passage),
            Some(None) => Arrived::Gone,
            None if wait => Arrived::Stands(others + 1),
            None => Arrived::Short(others),
        };
        let (arrived, pushes) = self.in_it(|cell, kept, env| cell.arrive(kept, env, &arrival(who, wait, PARTIES)));
        assert_eq!((arrived, pushes), (Ok(expected), told), "{who}");
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Arrive(who) => self.arrive(who, true),
            Step::Try(who) => self.arrive(who, false),
            Step::Leave(who) => {
                self.standing.retain(|(other, _)| *other != who);
                let fate = *self.fates.entry(who).or_insert(None);
                let (left, _) = self.in_it(|cell, kept, env| cell.leave(kept, env, AttemptId(who), MEMORY));
                assert_eq!(left, Ok(fate));
            }
            Step::Pass => self.now += TTL.as_micros() as i64 * 2 / 3,
        }
        let now = self.now;
        let standing = self.standing.iter().filter(|(_, ends)| *ends > now).count() as u32;
        let Ok(seen) = self.cell.look(&mut self.kept, StoreTime(now));
        assert_eq!(seen, standing);
        assert!(standing < PARTIES, "all stand there and do not pass");
    }
}

#[test]
fn whatever_is_asked_in_whatever_order_all_who_stand_there_pass_once_and_at_once() {
    const STEPS: [Step; 8] = [
        Step::Arrive(1),
        Step::Arrive(2),
        Step::Arrive(3),
        Step::Arrive(4),
        Step::Try(5),
        Step::Leave(1),
        Step::Leave(3),
        Step::Pass,
    ];
    fn go(world: &World, deep: u32) {
        if deep > 0 {
            for step in STEPS {
                let mut next = world.clone();
                next.step(step);
                go(&next, deep - 1);
            }
        }
    }
    go(&World { now: 1, ..World::default() }, 6);
}

#[test]
fn an_arrival_that_comes_late_does_nothing() {
    let mut world = World { now: 10, ..World::default() };
    let late = Arrive { not_after: StoreTime(9), ..arrival(1, true, 1) };
    let (arrived, _) = world.in_it(|cell, kept, env| cell.arrive(kept, env, &late));
    assert_eq!(arrived, Ok(Arrived::Late));
    assert_eq!((world.cell, world.kept), (BarrierCell::default(), BarrierInMemory::default()));
}

/// An arrival that the model knows nothing of.
fn arrives(world: &mut World, who: u128, parties: u32, token_floor: u64) -> Arrived {
    let alive = |_| true;
    let mut env = Surroundings { now: StoreTime(world.now), token_floor, alive: &alive, pushes: Vec::new() };
    let Ok(arrived) = world.cell.arrive(&mut world.kept, &mut env, &arrival(who, true, parties));
    arrived
}

#[test]
fn those_who_stand_there_say_how_many_parties_there_are() {
    let mut world = World { now: 1, ..World::default() };
    let mut arrives = |who, parties| arrives(&mut world, who, parties, 0);
    assert_eq!(arrives(1, 2), Arrived::Stands(1));
    assert_eq!(arrives(2, 3), Arrived::Differs(2));
    assert_eq!(arrives(2, 1), Arrived::Differs(2));
    assert_eq!(arrives(2, 2), Arrived::Passed(Passage { index: 1, generation: 1 }));
    assert_eq!(arrives(3, 3), Arrived::Stands(1));
}

#[test]
fn a_barrier_is_forgotten_once_nobody_can_ask_what_became_of_a_party() {
    let mut world = World { now: 1, ..World::default() };
    let arrives = |world: &mut World, who, floor| arrives(world, who, 1, floor);
    let first = Arrived::Passed(Passage { index: 0, generation: 1 });
    assert_eq!(arrives(&mut world, 1, 0), first);
    world.now = MEMORY.as_micros() as i64;
    assert_eq!(arrives(&mut world, 1, 0), first, "a copy of it");
    assert_eq!(arrives(&mut world, 2, 0), Arrived::Passed(Passage { index: 0, generation: 2 }));
    world.now += MEMORY.as_micros() as i64;
    assert!(!world.cell.is_there(StoreTime(world.now)));
    // What is made anew goes on above it: the floor is the store's clock, or the highest token.
    assert_eq!(arrives(&mut world, 3, 8_999), Arrived::Passed(Passage { index: 0, generation: 9 }));
    assert_eq!(world.kept.fates.len(), 1);
}
