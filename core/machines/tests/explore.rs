//! Everything that can happen to two or three clients, one store and one lock, happens here.
//!
//! The shipped Session, local queue and a layout's protocol run against the reference semantics of the store. Every
//! message is its own event: it may be overtaken by any other, and answers may take for ever, but where a space is
//! prompt. A client that is not scheduled while time passes is a paused one. What may go wrong, and how often, is the
//! space's. Time has no end: states are the same when they will behave alike, however late they are.
//!
//! In every state: no grant over a live lease, no shortened lease, tokens rise, nobody believes what the store denies,
//! the store serves in order. From every state: a run in which nothing more goes wrong serves everybody and leaves
//! nothing behind, within the ticks that `Setup::bound` allows. `explore_full` visits larger spaces.

#![allow(unreachable_pub, dead_code, reason = "the modules are shared, and each test uses its part")]

#[path = "explore/layout/mod.rs"]
mod layout;
#[path = "explore/operation.rs"]
mod operation;
mod process;
#[path = "explore/processor.rs"]
mod processor;
#[path = "explore/search.rs"]
mod search;
#[path = "explore/setup.rs"]
mod setup;
#[path = "explore/spaces.rs"]
mod spaces;
#[path = "explore/view.rs"]
mod view;
#[path = "explore/world.rs"]
mod world;

use layout::Role;
use layout::barrier::{self, BarrierRecord, Faulty, ForgetfulRecord, ThreeRecord};
use layout::joined::{self, Counted, FencedRecord, GetsetRecord, Owned, RedissonRecord, StringRecord};
use layout::latch::{self, LatchRecord};
use layout::native::{ENDS_EARLY, RUNS_LATE, RankedRecord, Seeded};
use layout::redisson_shared::{self, CountedRecord, Leased, PermitsRecord, ReadWriteRecord};
use layout::redisson_store::ReadWrite;
use layout::shared::{self, SharedRecord};
use layout::table::{self, TableRecord};
use layout::tokenless::{self, TokenlessRecord};
use search::Explored;
use setup::{Class, Reduced, Setup, Wish};
use spaces::{EARLY, ONE};

#[test]
fn nothing_goes_wrong() {
    Setup::two_clients("nothing goes wrong").check();
}

#[test]
fn one_thing_goes_wrong() {
    Setup::two_clients("one thing goes wrong").with_faults(1).check();
}

#[test]
fn both_may_give_up() {
    let fickle = Wish { may_cancel: true, ..ONE };
    Setup { clients: vec![vec![fickle], vec![fickle]], ..Setup::two_clients("both may give up") }.check();
}

#[test]
fn claims_are_renewed() {
    Setup::claims("claims are renewed").check();
}

#[test]
fn leases_are_not_renewed() {
    Setup { renew: false, ..Setup::two_clients("leases are not renewed") }.check();
}

#[test]
fn two_tasks_take_turns() {
    Setup::yields("two tasks take turns").check();
}

#[test]
fn turns_are_lost_and_given_up() {
    Setup::yields_in_doubt("turns are lost and given up").check();
}

#[test]
fn patience_with_the_store_ends() {
    Setup { store_timeout: 2, ..Setup::two_clients("patience with the store ends") }.check();
}

#[test]
fn three_clients_are_prompt() {
    Setup::three_clients("three prompt clients").check();
}

#[test]
fn three_clients_and_a_pause() {
    Setup::three_clients("three prompt clients, a pause").with_a_pause().check();
}

#[test]
fn three_clients_and_a_fault() {
    Setup::three_clients("three prompt clients, one fault").with_faults(1).check();
}

#[test]
fn holds_are_extended() {
    Setup::extensions("holds are extended").with_faults(1).check();
}

#[test]
fn a_held_lock_is_exported_and_resumed() {
    Setup::exports("a held lock is exported and resumed, one fault").with_faults(1).check();
    let setup = Setup::exports("exported and resumed with any delay, one fault");
    Setup { clients: setup.clients[..2].to_vec(), prompt: false, ..setup }.with_faults(1).check();
}

#[test]
fn several_know_the_secret_and_nobody_renews() {
    let setup = Setup::exports("several know the secret, nobody renews");
    let heirs = vec![setup.clients[1].clone(); 2];
    let clients = [&setup.clients[..1], &heirs].concat();
    Setup { renew: false, clients, ..setup }.with_a_pause().with_faults(1).check();
}

#[test]
fn whoever_gives_up_at_a_time_limit_leaves_no_place() {
    Setup::limited("one gives up at a time limit, one fault", 1, 2).with_faults(1).check();
    Setup::limited("two give up at a time limit", 2, 1).check();
    let limited = Wish { limit: Some(2), ..ONE };
    let clients = vec![vec![EARLY, limited], vec![Wish { fair: true, ..limited }]];
    Setup { clients, ..Setup::limited("a local task and a fair one give up at a time limit", 1, 2) }.check();
}

#[test]
fn a_client_is_closed_at_any_moment() {
    Setup::closed("a client is closed, one fault", ONE).with_faults(1).check();
    let extends = Wish { extends: Some(4), ..EARLY };
    Setup::closed("a client that extends its hold is closed", extends).check();
    let two = Setup::closed("a client of two tasks is closed", EARLY);
    let clients = vec![vec![two.clients[0][0], ONE], vec![ONE]];
    Setup { clients, ..two }.check();
}

#[test]
fn a_hold_that_is_forgotten_ends_with_its_lease() {
    Setup::forgotten("a hold is forgotten, one fault").with_faults(1).check();
    let extends = Wish { forgets: true, extends: Some(4), ..EARLY };
    let of = |name, clients| Setup { clients, ..Setup::forgotten(name) };
    of("a hold is extended and forgotten", vec![vec![extends], vec![ONE]]).check();
    of("a hold is forgotten while another task waits", vec![vec![Wish { forgets: true, ..EARLY }, ONE], vec![]])
        .check();
}

#[test]
fn an_export_is_taken_back() {
    let setup = Setup::exports("exported and taken back, one fault");
    let clients = vec![setup.clients[0].clone(), vec![ONE]];
    let faulty = Setup { clients, retracts: true, ..setup }.with_faults(1);
    // A copy that took a place is passed over by whoever releases next, and here nobody may.
    let faults = faulty.faults.iter().copied().filter(|class| *class != Class::Duplicate).collect();
    Setup { faults, ..faulty }.check();
}

#[test]
fn a_process_hands_on_loses_and_gives_up() {
    let fickle = Wish { may_cancel: true, ..EARLY };
    let clients = vec![vec![EARLY, fickle], vec![ONE]];
    Setup { clients, ..Setup::local_queue("a process hands on, loses and gives up") }.with_faults(1).check();
}

#[test]
fn fair_tasks_queue_by_themselves() {
    Setup::fair("fair tasks queue by themselves").check();
    let alone = Setup::fair("fair tasks of one client, one fault");
    Setup { clients: vec![alone.clients[0].clone(), vec![]], ..alone }.with_faults(1).check();
}

#[test]
fn everybody_may_give_up_and_anything_go_wrong() {
    let fickle = Wish { may_cancel: true, ..ONE };
    let clients = vec![vec![fickle], vec![fickle]];
    Setup { prompt: true, clients, ..Setup::two_clients("two fickle clients, one fault") }.with_faults(1).check();
}

#[test]
fn leases_differ() {
    let of = |ttl| vec![Wish { ttl: Some(ttl), ..ONE }];
    let clients = vec![of(2), of(4)];
    Setup { clients, ..Setup::three_clients("leases of different lengths, one fault") }.with_faults(1).check();
    let clients = vec![of(2), of(3), of(4)];
    Setup { clients, ..Setup::three_clients("three leases of different lengths") }.check();
}

#[test]
fn joined_locks_are_polled_for() {
    let two = |name| Setup { prompt: true, ..Setup::polled(name) };
    two("string: one thing goes wrong, promptly").with_faults(1).check_as::<StringRecord>();
    Setup { renew: false, ..two("string: leases are not renewed, promptly") }.check_as::<StringRecord>();
    two("getset: one thing goes wrong, promptly").with_faults(1).check_as::<GetsetRecord>();
}

#[test]
fn rows_of_other_libraries_are_polled_for() {
    let two = |name| Setup { prompt: true, ..Setup::polled(name) };
    two("table: one thing goes wrong, promptly").with_faults(1).check_as::<TableRecord>();
    Setup { renew: false, ..two("table: leases are not renewed, promptly") }.check_as::<TableRecord>();
    let fickle = Wish { may_cancel: true, ..ONE };
    let clients = vec![vec![fickle], vec![fickle]];
    Setup { clients, ..two("table: two fickle clients, one fault") }.with_faults(1).check_as::<TableRecord>();
    Setup { polls: true, prompt: true, ..Setup::yields("table: two tasks take turns") }.check_as::<TableRecord>();
}

#[test]
fn a_table_with_a_bug_is_found() {
    let ghost = Setup { prompt: true, ttl: 4, ..Setup::two_clients("table: requests run late") };
    let ghost = Setup { faults: vec![Class::Ghost], most_faults: 1, ..ghost };
    let found = ghost.explore::<table::Seeded<{ table::RUNS_LATE }>>().expect_err("it runs late");
    assert!(found.what.contains("only after"), "{}", found.what);
    let late = |name| Setup { renew: false, ..Setup::two_clients(name) };
    let blind = late("table: anybody's lease is ended");
    let found = blind.explore::<table::Seeded<{ table::ENDS_ANYBODYS }>>().expect_err("it ends anybody's");
    assert!(found.what.contains("ends the live lease"), "{}", found.what);
    let same = late("table: tokens are given twice");
    let found = same.explore::<table::Seeded<{ table::REPEATS_TOKENS }>>().expect_err("it repeats tokens");
    assert!(found.what.contains("was used"), "{}", found.what);
}

#[test]
fn joined_locks_are_given_up_and_handed_on() {
    let fickle = Wish { may_cancel: true, ..ONE };
    let clients = vec![vec![fickle], vec![fickle]];
    let two = Setup { clients, prompt: true, ..Setup::polled("string: two fickle clients, one fault") };
    two.with_faults(1).check_as::<StringRecord>();
    Setup { polls: true, prompt: true, ..Setup::yields("string: two tasks take turns") }.check_as::<StringRecord>();
}

#[test]
fn a_joined_store_that_runs_requests_late_or_frees_anybodys_lock_is_found() {
    let ghost = Setup { prompt: true, ttl: 4, ..Setup::two_clients("string: a store that runs requests late") };
    let ghost = Setup { faults: vec![Class::Ghost], most_faults: 1, ..ghost };
    let found = ghost.explore::<joined::Seeded<Owned, { joined::RUNS_LATE }>>().expect_err("it runs late");
    assert!(found.what.contains("only after"), "{}", found.what);
    let blind = Setup { renew: false, ..Setup::two_clients("string: a store that deletes without comparing") };
    let found = blind.explore::<joined::Seeded<Owned, { joined::DELETES_BLINDLY }>>().expect_err("it deletes blindly");
    assert!(found.what.contains("ends the live lease"), "{}", found.what);
}

#[test]
fn joined_locks_without_tokens_are_polled_for() {
    let two = |name| Setup { prompt: true, ..Setup::polled(name) };
    two("tokenless: one thing goes wrong, promptly").with_faults(1).check_as::<TokenlessRecord>();
    Setup { renew: false, ..two("tokenless: leases are not renewed, promptly") }.check_as::<TokenlessRecord>();
    Setup::polled("tokenless: nothing goes wrong, any delay").check_as::<TokenlessRecord>();
    let fickle = Wish { may_cancel: true, ..ONE };
    let clients = vec![vec![fickle], vec![fickle]];
    Setup { clients, ..two("tokenless: two fickle clients, one fault") }.with_faults(1).check_as::<TokenlessRecord>();
    Setup { polls: true, prompt: true, ..Setup::yields("tokenless: two tasks take turns") }
        .check_as::<TokenlessRecord>();
}

/// The cost that `docs/adr/0143` states: where a try is executed late, those who wait look after its lease.
#[test]
fn a_try_without_a_token_that_is_executed_late_keeps_the_lock_for_its_ttl() {
    let ghost =
        |name| Setup { prompt: true, ttl: 6, faults: vec![Class::Ghost], most_faults: 1, ..Setup::polled(name) };
    ghost("string: a try that would be executed late").check_as::<StringRecord>();
    let found = ghost("tokenless: a try that is executed late").explore::<TokenlessRecord>();
    let found = found.expect_err("it is there until its ttl ends");
    assert!(found.what.contains("only after"), "{}", found.what);
}

#[test]
fn a_store_whose_tries_take_the_lock_or_whose_releases_free_anybodys_is_found() {
    let two = |name| Setup { renew: false, ..Setup::polled(name) };
    let taken = two("tokenless: a try takes the lock").explore::<tokenless::Seeded<{ tokenless::TAKES_IT }>>();
    let blind = two("tokenless: a store that deletes without comparing");
    let freed = blind.explore::<tokenless::Seeded<{ tokenless::DELETES_BLINDLY }>>();
    for found in [taken.expect_err("it takes it"), freed.expect_err("it frees anybody's")] {
        assert!(found.what.contains("ends the live lease"), "{}", found.what);
    }
}

#[test]
fn joined_locks_are_hinted_at() {
    let two = |name| Setup { prompt: true, ..Setup::two_clients(name) };
    // An answer that is late tells of a lease that ends meanwhile, and the end of one is told to nobody.
    Setup::polled("redisson: nothing goes wrong").check_as::<RedissonRecord>();
    two("redisson: one thing goes wrong, promptly").with_faults(1).check_as::<RedissonRecord>();
    Setup { renew: false, ..two("redisson: leases are not renewed, promptly") }.check_as::<RedissonRecord>();
    let fickle = Wish { may_cancel: true, ..ONE };
    let clients = vec![vec![fickle], vec![fickle]];
    let of = |name| Setup { clients: clients.clone(), ..two(name) };
    Setup { cold: true, ..of("redisson: two fickle clients that have to subscribe") }.check_as::<RedissonRecord>();
    of("redisson: two fickle clients, one fault").with_faults(1).check_as::<RedissonRecord>();
    Setup { prompt: true, ..Setup::yields("redisson: two tasks take turns") }.check_as::<RedissonRecord>();
    Setup::three_clients("redisson: three prompt clients").check_as::<RedissonRecord>();
}

/// What a connection or an inbox may do, but no client dies: the others wait longer for one that does than they live
/// here.
const CONNECTIONS: [Class; 7] =
    [Class::Refused, Class::Lost, Class::Ghost, Class::ReplyLost, Class::Reset, Class::Blip, Class::PushLost];

#[test]
fn a_joined_fair_lock_keeps_its_order() {
    let fair = Wish { fair: true, ..ONE };
    let fickle = Wish { may_cancel: true, ..fair };
    let of = |name, clients| Setup { clients, prompt: true, ..Setup::two_clients(name) };
    of("redisson: fair tasks", vec![vec![fair, fair], vec![fair]]).check_as::<RedissonRecord>();
    let faulty = of("redisson: two fickle fair clients, one fault", vec![vec![fickle], vec![fickle]]);
    Setup { faults: CONNECTIONS.to_vec(), most_faults: 1, ..faulty }.check_as::<RedissonRecord>();
}

#[test]
fn higher_ranks_are_served_first() {
    let fair = Wish { fair: true, ..ONE };
    let urgent = |rank| Wish { rank, ..fair };
    let of = |name, clients| Setup { clients, prompt: true, ..Setup::two_clients(name) };
    let three = vec![vec![fair], vec![urgent(1)], vec![urgent(9)]];
    of("fair tasks of ranks 0, 1 and 9", three).check_as::<RankedRecord>();
    let two = vec![vec![fair, urgent(2)], vec![Wish { may_cancel: true, ..urgent(9) }]];
    of("fair tasks of ranks 0, 2 and 9, of two clients", two).check_as::<RankedRecord>();
    let two = vec![vec![fair], vec![urgent(9)]];
    of("fair tasks of ranks 0 and 9, one fault", two).with_faults(1).check_as::<RankedRecord>();
}

#[test]
fn a_joined_store_that_tells_nobody_or_ignores_the_line_is_found() {
    let silent = Setup { prompt: true, ..Setup::two_clients("redisson: a store that tells nobody") };
    let found = silent.explore::<joined::Seeded<Counted, { joined::TELLS_NOBODY }>>().expect_err("it tells nobody");
    assert!(found.what.contains("served"), "{}", found.what);
    let fair = Wish { fair: true, ..ONE };
    let clients = vec![vec![fair]; 3];
    let unfair = Setup { clients, ..Setup::three_clients("redisson: a store that ignores the line") };
    let found = unfair.explore::<joined::Seeded<Counted, { joined::IGNORES_THE_LINE }>>().expect_err("it is unfair");
    assert!(found.what.contains("came first"), "{}", found.what);
}

#[test]
fn writers_of_a_read_write_lock_exclude_each_other() {
    let two = |name| Setup { prompt: true, ..Setup::two_clients(name) };
    two("rwlock: one thing goes wrong, promptly").with_faults(1).check_as::<SharedRecord>();
    let fickle = Wish { may_cancel: true, ..ONE };
    let clients = vec![vec![fickle], vec![fickle]];
    Setup { clients, ..two("rwlock: two fickle writers, one fault") }.with_faults(1).check_as::<SharedRecord>();
    Setup::three_clients("rwlock: three prompt writers, a pause").with_a_pause().check_as::<SharedRecord>();
}

#[test]
fn a_store_that_lets_writers_in_late_is_found() {
    let ghost = Setup { prompt: true, ttl: 4, ..Setup::two_clients("rwlock: a store that runs requests late") };
    let ghost = Setup { faults: vec![Class::Ghost], most_faults: 1, ..ghost };
    ghost.explore::<shared::Seeded<{ shared::RUNS_LATE }>>().expect_err("it runs late");
}

#[test]
fn readers_and_writers_share_a_lock() {
    use Role::{Reader, Writer};
    Setup::shared("rwlock: a reader and a writer, one fault", &[Reader, Writer])
        .with_faults(1)
        .check_as::<SharedRecord>();
    Setup::shared("rwlock: two readers and a writer", &[Reader, Reader, Writer]).check_as::<SharedRecord>();
    let slow = Setup::shared("rwlock: a reader and a writer, any delay", &[Reader, Writer]);
    Setup { prompt: false, ..slow }.check_as::<SharedRecord>();
}

#[test]
fn holders_of_a_read_write_lock_change_their_part() {
    use Role::{Reader, Writer};
    let changing = Wish { changes: true, ..ONE };
    let of = |name, roles: &'static [Role]| {
        let clients = vec![vec![changing]; roles.len()];
        Setup { clients, ..Setup::shared(name, roles) }
    };
    of("rwlock: two readers that upgrade, one fault", &[Reader, Reader]).with_faults(1).check_as::<SharedRecord>();
    of("rwlock: a writer that downgrades and a reader that upgrades, one fault", &[Writer, Reader])
        .with_faults(1)
        .check_as::<SharedRecord>();
}

#[test]
fn permits_are_shared() {
    use Role::{One, Two, TwoInOrder};
    Setup::shared("semaphore: 1 and 1 of 2, one fault", &[One, One]).with_faults(1).check_as::<SharedRecord>();
    Setup::shared("semaphore: 1 and 2 of 2, one fault", &[One, Two]).with_faults(1).check_as::<SharedRecord>();
    Setup::shared("semaphore: 1, 1 and 2 of 2 in order", &[One, One, TwoInOrder]).check_as::<SharedRecord>();
}

#[test]
fn a_semaphore_shrinks_while_it_is_held() {
    let of = |name, roles| Setup { resizes: Some(1), ..Setup::shared(name, roles) };
    of("semaphore: 1 and 1 of 2 that become 1, one fault", &[Role::One; 2]).with_faults(1).check_as::<SharedRecord>();
    of("semaphore: three times 1 of 2 that become 1", &[Role::One; 3]).check_as::<SharedRecord>();
}

#[test]
fn a_store_that_gives_more_than_there_is_is_found() {
    use Role::{One, Reader, Two, Writer};
    for roles in [&[Reader, Writer] as &'static [Role], &[One, Two]] {
        let blind = Setup::shared("a store that counts nobody", roles);
        let found = blind.explore::<shared::Seeded<{ shared::COUNTS_NOBODY }>>().expect_err("it counts nobody");
        assert!(found.what.contains("believe to hold"), "{}", found.what);
    }
}

#[test]
fn joined_fenced_locks_count_their_tokens() {
    let two = |name| Setup { prompt: true, ..Setup::two_clients(name) };
    two("fenced: one thing goes wrong, promptly").with_faults(1).check_as::<FencedRecord>();
    let clients = vec![vec![Wish { may_cancel: true, ..ONE }]; 2];
    Setup { clients, ..two("fenced: two fickle clients, one fault") }.with_faults(1).check_as::<FencedRecord>();
    Setup { prompt: true, ..Setup::yields("fenced: two tasks take turns") }.check_as::<FencedRecord>();
}

#[test]
fn a_joined_read_write_lock_is_shared() {
    use Role::{Reader, Writer};
    Setup::hinted("redisson rwlock: a reader and a writer, one fault", &[Reader, Writer])
        .with_faults(1)
        .check_as::<ReadWriteRecord>();
    Setup::hinted("redisson rwlock: two readers and a writer", &[Reader, Reader, Writer]).check_as::<ReadWriteRecord>();
    let clients = vec![vec![Wish { changes: true, ..ONE }]; 2];
    let of = |name, roles| Setup { clients: clients.clone(), ..Setup::hinted(name, roles) };
    of("redisson rwlock: two readers that upgrade", &[Reader, Reader]).check_as::<ReadWriteRecord>();
    of("redisson rwlock: a writer that downgrades and a reader that upgrades", &[Writer, Reader])
        .check_as::<ReadWriteRecord>();
}

#[test]
fn joined_permits_are_shared() {
    use Role::{One, Two};
    Setup::hinted("redisson permits: 1 and 2 of 2, one fault", &[One, Two]).with_faults(1).check_as::<PermitsRecord>();
    Setup::hinted("redisson permits: 1, 1 and 2 of 2", &[One, One, Two]).check_as::<PermitsRecord>();
    Setup::hinted("redisson counted: 1 and 2 of 2, one fault", &[One, Two]).with_faults(1).check_as::<CountedRecord>();
}

#[test]
fn a_joined_store_of_shares_that_tells_nobody_or_runs_requests_late_is_found() {
    type Silent = redisson_shared::Seeded<Leased, { redisson_shared::TELLS_NOBODY }>;
    let silent = Setup::hinted("redisson permits: a store that tells nobody", &[Role::One, Role::Two]);
    let found = silent.explore::<Silent>().expect_err("it tells nobody");
    assert!(found.what.contains("served only after"), "{}", found.what);
    type Late = redisson_shared::Seeded<ReadWrite, { redisson_shared::RUNS_LATE }>;
    let late = Setup::hinted("redisson rwlock: a store that runs requests late", &[Role::Writer; 2]);
    let late = Setup { ttl: 4, faults: vec![Class::Ghost], most_faults: 1, ..late };
    let found = late.explore::<Late>().expect_err("it runs late");
    assert!(found.what.contains("only after"), "{}", found.what);
}

#[test]
fn whoever_waits_for_a_latch_passes_once_all_have_counted_down() {
    let two = Setup::latch("latch: two wait, one fault", 2).with_faults(1);
    two.check_as::<LatchRecord>();
    let fickle = Wish { may_cancel: true, ..ONE };
    let clients = vec![vec![fickle], vec![fickle]];
    Setup { name: "latch: two wait and may give up, one fault", clients, ..two }.check_as::<LatchRecord>();
    let two = |name| Setup::latch(name, 2);
    Setup { cold: true, ..two("latch: two wait that have to subscribe") }.check_as::<LatchRecord>();
    Setup { prompt: false, ..two("latch: two wait, any delay") }.check_as::<LatchRecord>();
    Setup::latch("latch: three wait, a pause", 3).with_a_pause().check_as::<LatchRecord>();
}

#[test]
fn a_latch_that_counts_copies_opens_early_or_tells_nobody_is_found() {
    let faulty = Setup::latch("latch: a store that counts copies", 1).with_faults(1);
    let found = faulty.explore::<latch::Seeded<{ latch::COUNTS_COPIES }>>().expect_err("it counts copies");
    assert!(found.what.contains("are to come"), "{}", found.what);
    let early = Setup::latch("latch: a store that opens it early", 2);
    let found = early.explore::<latch::Seeded<{ latch::OPENS_EARLY }>>().expect_err("it opens early");
    assert!(found.what.contains("are to come"), "{}", found.what);
    let silent = Setup::latch("latch: a store that tells nobody", 1);
    let found = silent.explore::<latch::Seeded<{ latch::TELLS_NOBODY }>>().expect_err("it tells nobody");
    assert!(found.what.contains("served only after"), "{}", found.what);
}

#[test]
fn all_parties_pass_a_barrier_or_none() {
    let two = |name| Setup::barrier(name, 2);
    two("barrier: two of 2, one fault").with_faults(1).check_as::<BarrierRecord>();
    Setup { cold: true, ..two("barrier: two of 2 that have to subscribe, one fault") }
        .with_faults(1)
        .check_as::<BarrierRecord>();
    Setup { prompt: false, ..two("barrier: two of 2, any delay") }.check_as::<BarrierRecord>();
    Setup::barrier("barrier: three of 3, one fault", 3).with_faults(1).check_as::<ThreeRecord>();
    Setup::barrier("barrier: two of three pass, one fault", 3).with_faults(1).check_as::<BarrierRecord>();
    Setup::barrier("barrier: two of three pass, a pause", 3).with_a_pause().check_as::<BarrierRecord>();
}

#[test]
fn parties_that_give_up_are_told_whether_they_passed() {
    Setup::barrier("barrier: two of 2 may give up, one fault", 2).fickle().with_faults(1).check_as::<BarrierRecord>();
    Setup::barrier("barrier: two of three pass or give up", 3).fickle().check_as::<BarrierRecord>();
}

#[test]
fn parties_that_were_silent_for_long_do_not_know() {
    let impatient = |name| Setup { store_timeout: 2, ..Setup::barrier(name, 2).fickle() };
    impatient("barrier: two of 2 may give up, a pause beyond what is remembered")
        .with_a_pause()
        .check_as::<ForgetfulRecord>();
    impatient("barrier: two of 2 may give up and lose patience, one fault")
        .with_faults(1)
        .check_as::<ForgetfulRecord>();
}

#[test]
fn a_barrier_that_forgets_miscounts_or_misleads_is_found() {
    let faulty = |name| Setup::barrier(name, 2).fickle().with_faults(1);
    let what = |found: Result<Explored, search::Violation>| found.expect_err("it is faulty").what;
    let found = what(faulty("barrier: leaving is forgotten").explore::<Faulty<{ barrier::FORGETS_LEAVING }>>());
    assert!(found.contains("again, which was Left"), "{found}");
    let found = what(faulty("barrier: copies are counted").explore::<Faulty<{ barrier::COUNTS_COPIES }>>());
    assert!(found.contains("again, which was"), "{found}");
    let found = what(faulty("barrier: nobody came too late").explore::<Faulty<{ barrier::DENIES_PASSING }>>());
    assert!(found.contains("is told Left"), "{found}");
    let found = what(faulty("barrier: nobody is told").explore::<Faulty<{ barrier::TELLS_NOBODY }>>());
    assert!(found.contains("served only after"), "{found}");
    let found = what(faulty("barrier: opens early").explore::<Faulty<{ barrier::OPENS_EARLY }>>());
    assert!(found.contains("of 2 pass"), "{found}");
}

/// The same space with and without what is left out as saying nothing new.
fn compared(setup: &Setup) -> Vec<Explored> {
    let of = |names, orders| Setup { reduced: Reduced { names, orders }, compared: true, ..setup.clone() }.explored();
    vec![of(false, false), of(true, false), of(false, true), of(true, true)]
}

#[test]
fn what_is_left_out_says_nothing_new() {
    let two = Setup { prompt: true, ..Setup::two_clients("compared: two prompt clients, one fault") }.with_faults(1);
    for setup in [two, Setup::three_clients("compared: three prompt clients")] {
        let all = compared(&setup);
        for reduced in &all[1..] {
            assert!(reduced.states < all[0].states);
            assert_eq!(reduced.outlooks, all[0].outlooks);
            assert_eq!(reduced.recovery, all[0].recovery);
        }
    }
}

#[test]
fn a_bug_is_found_whatever_is_left_out() {
    let ghost = Setup { prompt: true, ttl: 4, ..Setup::two_clients("a store that runs requests late") };
    let ghost = Setup { faults: vec![Class::Ghost], most_faults: 1, ..ghost };
    let early = Setup::three_clients("a store whose leases end early");
    for (names, orders) in [(false, false), (true, false), (false, true), (true, true)] {
        let reduced = Reduced { names, orders };
        let found = Setup { reduced, ..ghost.clone() }.explore::<Seeded<RUNS_LATE>>().expect_err("it runs late");
        assert!(found.what.contains("only after"), "{}", found.what);
        let found = Setup { reduced, ..early.clone() }.explore::<Seeded<ENDS_EARLY>>().expect_err("it ends early");
        assert!(found.what.contains("ends the live lease"), "{}", found.what);
    }
}
