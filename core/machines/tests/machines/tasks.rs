//! How the tasks of one process share a lock: rules 9 and 10.

use lockwright_machines::queue::OwnerId;

use super::*;

fn owned(task: u64, owner: u64) -> Ask {
    Ask { owner: Some(OwnerId(owner)), ..ask(task) }
}

fn told(queue: &mut Queue, event: queue::Event) -> String {
    queue.handle(at(0), event);
    drain(queue).join(" ")
}

/// Task 1 of owner 7 holds under 100.
fn held_by_an_owner() -> Queue {
    let mut queue = Queue::new(64);
    queue.handle(at(0), queue::Event::Acquire(owned(1, 7)));
    queue.handle(at(0), queue::Event::Granted { contender: ContenderId(0), tokens: Tokens::new(100, 163) });
    drain(&mut queue);
    queue
}

#[test]
fn rule_10_only_the_same_owner_enters_again() {
    let mut queue = held_by_an_owner();
    assert_eq!(told(&mut queue, queue::Event::Acquire(owned(2, 8))), "");
    let again = told(&mut queue, queue::Event::Acquire(owned(3, 7)));
    assert!(again.contains("Grant { task: TaskId(3), hold: HoldId(1), token: Some(100), depth: 2"), "{again}");
}

#[test]
fn rule_10_tasks_without_an_owner_never_enter_again() {
    let mut queue = granted_queue(1);
    assert_eq!(told(&mut queue, queue::Event::Acquire(ask(2))), "");
}

#[test]
fn rule_10_a_lock_entered_twice_is_free_after_the_second_release() {
    let mut queue = held_by_an_owner();
    told(&mut queue, queue::Event::Acquire(owned(2, 7)));
    let kept = give_back(&mut queue, at(0), 1);
    assert!(kept.contains("Kept(1)") && queue.held_token() == Some(100), "{kept}");
    assert!(give_back(&mut queue, at(0), 1).contains("GiveBack"));
}

#[test]
fn rule_10_a_hold_lasts_as_long_as_one_of_its_levels_is_not_forgotten() {
    let mut queue = held_by_an_owner();
    told(&mut queue, queue::Event::Acquire(owned(2, 7)));
    let abandon = || queue::Event::Abandon { hold: HoldId(1) };
    assert_eq!(told(&mut queue, abandon()), "");
    // The level that is left is released: nobody will release the other one.
    let kept = give_back(&mut queue, at(0), 1);
    assert!(kept.contains("Kept(1)") && kept.contains("RunOut") && queue.held_token() == Some(100), "{kept}");
    // Its owner comes again, and has it as long as it wants.
    let again = told(&mut queue, queue::Event::Acquire(owned(3, 7)));
    assert!(again.contains("Serve") && again.contains("depth: 2"), "{again}");
    assert!(told(&mut queue, abandon()).contains("RunOut"));
    assert_eq!(told(&mut queue, queue::Event::Abandon { hold: HoldId(9) }), "");
}

#[test]
fn rule_10_a_hold_of_one_level_that_is_forgotten_runs_out() {
    let mut queue = held_by_an_owner();
    assert!(told(&mut queue, queue::Event::Abandon { hold: HoldId(1) }).contains("RunOut"));
    assert_eq!(queue.held_token(), Some(100));
}

#[test]
fn rule_9_a_try_does_not_wait_for_others_of_its_process() {
    let mut queue = granted_queue(1);
    let refused = told(&mut queue, queue::Event::Acquire(Ask { tries: true, ..ask(2) }));
    assert!(refused.contains("Refuse { task: TaskId(2), why: Taken }"), "{refused}");
}

#[test]
fn rule_9_a_refused_try_leaves_the_lock_to_those_who_wait() {
    let mut queue = Queue::new(64);
    queue.handle(at(0), queue::Event::Acquire(Ask { tries: true, ..ask(1) }));
    queue.handle(at(0), queue::Event::Acquire(ask(2)));
    drain(&mut queue);
    let said = told(&mut queue, queue::Event::Ended { contender: ContenderId(0), failure: None });
    assert!(said.contains("Refuse { task: TaskId(1), why: Taken }") && said.contains("Contend"), "{said}");
}

#[test]
fn rule_9_whoever_waits_has_another_contender_where_the_first_one_can_do_no_more() {
    for fair in [false, true] {
        let mut queue = Queue::new(64);
        queue.handle(at(0), queue::Event::Acquire(Ask { fair, ..ask(1) }));
        drain(&mut queue);
        let said = told(&mut queue, queue::Event::Ended { contender: ContenderId(0), failure: None });
        assert!(said.contains("Contend { contender: ContenderId(1), wait: true") && !said.contains("Refuse"), "{said}");
    }
}

#[test]
fn rule_9_a_failure_is_told_to_everybody_it_concerns_and_nobody_else() {
    let mut queue = Queue::new(64);
    for fair in [false, false, true] {
        let task = queue.waiting() as u64 + 1;
        queue.handle(at(0), queue::Event::Acquire(Ask { fair, ..ask(task) }));
    }
    drain(&mut queue);
    let mut fail = |contender, fair| {
        let failure = Some(Error::new(Kind::Auth, "acquire", "no"));
        let said = told(&mut queue, queue::Event::Ended { contender: ContenderId(contender), failure });
        queue.handle(at(0), queue::Event::Acquire(Ask { fair, ..ask(4 + contender) }));
        drain(&mut queue);
        said
    };
    let said = fail(0, false);
    assert!(said.contains("TaskId(1)") && said.contains("TaskId(2)") && !said.contains("TaskId(3)"), "{said}");
    // That of a fair task concerns nobody else: TaskId(4) waits by now.
    let said = fail(1, true);
    assert!(said.contains("TaskId(3)") && !said.contains("TaskId(4)"), "{said}");
}

#[test]
fn rule_9_a_grant_that_nobody_waits_for_is_given_back() {
    let mut queue = Queue::new(64);
    queue.handle(at(0), queue::Event::Acquire(ask(1)));
    queue.handle(at(0), queue::Event::Cancel(TaskId(1)));
    drain(&mut queue);
    let said = told(&mut queue, queue::Event::Granted { contender: ContenderId(0), tokens: Tokens::new(100, 163) });
    assert!(said.contains("GiveBack { contender: ContenderId(0), hold: None, used: 100 }"), "{said}");
}

#[test]
fn rule_9_a_grant_to_another_contender_ends_the_hold_before_it() {
    let mut queue = Queue::new(64);
    for task in 1..=2 {
        queue.handle(at(0), queue::Event::Acquire(Ask { fair: true, ..ask(task) }));
    }
    queue.handle(at(0), queue::Event::Granted { contender: ContenderId(0), tokens: Tokens::new(100, 163) });
    drain(&mut queue);
    let said = told(&mut queue, queue::Event::Granted { contender: ContenderId(1), tokens: Tokens::new(200, 263) });
    assert!(said.contains("Lost { hold: HoldId(1) }") && queue.held_token() == Some(200), "{said}");
}

#[test]
fn rule_9_a_turn_ends_with_its_block_of_tokens() {
    let mut queue = Queue::new(64);
    for task in 1..=2 {
        queue.handle(at(0), queue::Event::Acquire(ask(task)));
    }
    queue.handle(at(0), queue::Event::Granted { contender: ContenderId(0), tokens: Tokens::new(100, 100) });
    drain(&mut queue);
    assert!(give_back(&mut queue, at(0), 1).contains("Yield"));
}

#[test]
fn rule_9_the_last_to_cancel_does_not_withdraw_the_holder() {
    let mut queue = granted_queue(2);
    assert_eq!(told(&mut queue, queue::Event::Cancel(TaskId(2))), "");
    assert_eq!(queue.held_token(), Some(100));
}

#[test]
fn rule_9_fair_tasks_each_contend_and_never_hand_on() {
    let mut queue = Queue::new(64);
    let mut said = String::new();
    for task in 1..=2 {
        said += &told(&mut queue, queue::Event::Acquire(Ask { fair: true, ..ask(task) }));
    }
    assert_eq!(said.matches("Contend").count(), 2 + said.matches("ContenderId").count(), "{said}");
    told(&mut queue, queue::Event::Acquire(ask(3)));
    told(&mut queue, queue::Event::Granted { contender: ContenderId(0), tokens: Tokens::new(100, 163) });
    let said = give_back(&mut queue, at(0), 1);
    assert!(said.contains("GiveBack") && !said.contains("TaskId(3)"), "{said}");
}

#[test]
fn rule_14_a_task_whose_time_is_over_leaves_and_is_told() {
    let mut queue = Queue::new(64);
    queue.handle(at(0), queue::Event::Acquire(Ask { deadline: Some(at(10)), ..ask(1) }));
    drain(&mut queue);
    assert_eq!(queue.poll_timeout(), Some(at(10)));
    queue.handle(at(10), queue::Event::Tick);
    let said = drain(&mut queue).join(" ");
    assert!(said.contains("Withdraw") && said.contains("TimedOut") && queue.is_idle(), "{said}");
}
