//! The server on a disk in memory, told bytes as its connections would bring them.

use lockwright_lock_server::{Connection, IDLE, InMemory, Sent, Server};
use lockwright_machines::name::MAX_BYTES;
use lockwright_machines::protocol::{AttemptId, InboxId};
use lockwright_machines::stores::redis::layouts::native_scripts::channel;
use lockwright_machines::time::StoreTime;
use proptest::prelude::*;

const NOW: StoreTime = StoreTime(1_800_000_000_000_000);

fn command(words: &[&str]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len());
    words.iter().for_each(|word| bytes.push_str(&format!("${}\r\n{word}\r\n", word.len())));
    bytes.into_bytes()
}

struct World {
    server: Server,
    disk: InMemory,
}

impl World {
    fn new() -> Self {
        World { server: Server::new(), disk: InMemory::default() }
    }

    fn sent(&mut self, connection: Connection, words: &[&str], now: StoreTime) -> Vec<Sent> {
        self.server.came(connection, &command(words), now, &mut self.disk).unwrap()
    }

    /// The answer alone.
    fn ask(&mut self, words: &[&str]) -> String {
        let sent = self.sent(1, words, NOW);
        String::from_utf8(sent[0].1.clone()).unwrap()
    }
}

/// Who asks, as clients write it.
fn claimant(attempt: u128, inbox: u64) -> String {
    format!("{}{}{:08}", AttemptId(attempt), InboxId(inbox), 1_000)
}

fn acquire(name: &str, claimant: &str, now: StoreTime) -> Vec<String> {
    let not_after = (now.0 + 1_000_000).to_string();
    ["acquire", name, claimant, "2000000", &not_after, "", "1"].map(str::to_owned).to_vec()
}

fn words(all: &[String]) -> Vec<&str> {
    all.iter().map(String::as_str).collect()
}

#[test]
fn a_release_is_told_to_whoever_waits_on_its_inbox_and_to_nobody_else() {
    let mut world = World::new();
    let (first, second) = (claimant(1, 1), claimant(2, 2));
    world.ask(&["SUBSCRIBE", "lwi:elsewhere"]);
    world.sent(2, &["SUBSCRIBE", &channel(InboxId(2))], NOW);
    assert_eq!(world.ask(&["listeners", "inbox", &channel(InboxId(2))]), ":1\r\n");
    world.sent(1, &words(&acquire("k", &first, NOW)), NOW);
    world.sent(3, &words(&acquire("k", &second, NOW)), NOW);
    let sent = world.sent(1, &["release", "k", &first, "0"], NOW);
    let pushed: Vec<_> = sent[1..].iter().map(|(to, bytes)| (*to, String::from_utf8_lossy(bytes))).collect();
    let [(2, text)] = &pushed[..] else { panic!("{pushed:?}") };
    assert!(text.contains("\r\nmessage\r\n") && text.contains("granted"), "{text}");
    world.server.ended(2);
    assert_eq!(world.ask(&["listeners", "inbox", &channel(InboxId(2))]), ":0\r\n");
}

#[test]
fn what_was_kept_is_there_for_a_server_that_begins_again() {
    let mut world = World::new();
    let (first, second) = (claimant(1, 1), claimant(2, 2));
    world.sent(1, &["SUBSCRIBE", &channel(InboxId(2))], NOW);
    world.sent(2, &words(&acquire("k", &first, NOW)), NOW);
    let channels: Vec<_> = world.server.channels(1).map(str::to_owned).collect();
    world.server = Server::new();
    channels.iter().for_each(|channel| world.server.listens(1, channel));
    let waits = world.sent(3, &words(&acquire("k", &second, NOW)), NOW);
    assert!(!String::from_utf8_lossy(&waits[0].1).contains("-ERR"), "{waits:?}");
    let sent = world.sent(2, &["release", "k", &first, "0"], NOW);
    assert_eq!(sent.iter().map(|(to, _)| *to).collect::<Vec<_>>(), [2, 1]);
}

#[test]
fn names_are_listed_page_by_page_and_none_of_another_prefix() {
    let mut world = World::new();
    for i in 0..1_200 {
        world.sent(1, &words(&acquire(&format!("a:{i:04}"), &claimant(i + 1, 0), NOW)), NOW);
    }
    world.sent(1, &words(&acquire("b:1", &claimant(9_999, 0), NOW)), NOW);
    let (mut cursor, mut seen, mut pages) = (String::new(), 0, 0);
    loop {
        let page = world.ask(&["list", "a:*", &cursor]);
        let texts: Vec<_> =
            page.split("\r\n").filter(|line| line.starts_with("a:") || line.starts_with("b:")).collect();
        assert!(!page.contains("b:1"), "{page}");
        let has_more = !page.contains("$0\r\n");
        seen += texts.len() - usize::from(has_more);
        pages += 1;
        if !has_more {
            break;
        }
        cursor = texts[0].to_owned();
    }
    assert_eq!((seen, pages), (1_200, 3));
}

#[test]
fn what_nobody_used_for_long_is_removed_and_a_lease_that_runs_is_not() {
    let mut world = World::new();
    world.sent(1, &words(&acquire("k", &claimant(1, 0), NOW)), NOW);
    assert!(world.server.sweep(NOW, &mut world.disk));
    let later = StoreTime(NOW.0 + IDLE.as_micros() as i64);
    assert!(world.server.sweep(later, &mut world.disk), "its lease ended just now");
    assert!(!world.server.sweep(StoreTime(later.0 + 3_000_000), &mut world.disk));
    assert_eq!(world.disk.keys().next(), None);
}

#[test]
fn a_connection_listens_on_few_channels_with_short_names() {
    let mut world = World::new();
    for i in 0..16 {
        assert!(world.ask(&["SUBSCRIBE", &format!("lwi:{i}")]).starts_with("*3\r\n"));
    }
    assert!(world.ask(&["SUBSCRIBE", "lwi:more"]).starts_with("-ERR "));
    world.ask(&["UNSUBSCRIBE", "lwi:1"]);
    assert!(world.ask(&["SUBSCRIBE", &"x".repeat(65)]).starts_with("-ERR "));
    assert!(world.ask(&["SUBSCRIBE", "lwi:more"]).starts_with("*3\r\n"));
    assert_eq!(world.server.channels(1).count(), 16);
}

#[test]
fn a_request_that_comes_too_late_takes_nothing() {
    let mut world = World::new();
    let late = acquire("k", &claimant(1, 0), StoreTime(NOW.0 - 2_000_000));
    world.ask(&words(&late));
    assert_eq!(world.disk.keys().next(), None);
}

#[test]
fn what_is_no_request_is_refused_and_leaves_nothing() {
    let (long, me, later) = ("x".repeat(2 * MAX_BYTES + 1), claimant(1, 0), NOW.0.to_string());
    for refused in [
        &["AUTH", "secret"][..],
        &["SELECT", "1"],
        &["EVALSHA", "0000", "1", "k"],
        &["GET", "k"],
        &["FLUSHALL"],
        &["acquire", ""],
        &["acquire", "k"],
        &["acquire", "k", "nobody", "1000", &later, "", "1"],
        &["acquire", "k", &me, "long", &later, "", "1"],
        &["acquire", "k", &me, "1000", "later", "", "1"],
        &["acquire", "k", &me, "1000", &later, "", ""],
        &["renew", &long, "x", "1"],
    ] {
        let mut world = World::new();
        let answer = world.ask(refused);
        assert!(answer.starts_with("-ERR ") && !answer.contains("secret"), "{refused:?}: {answer}");
        assert_eq!(world.disk.keys().next(), None);
    }
    for garbled in
        [&b"GET k\r\n"[..], b"*1\r\n$4\r\nPI", b"*0\r\n", b":1\r\n", b"*1\r\n:1\r\n", b"\xff", b"*1\r\n$1\r\n\xff\r\n"]
    {
        let mut world = World::new();
        assert!(world.server.came(1, garbled, NOW, &mut world.disk).is_err(), "{:?}", garbled.escape_ascii());
    }
}

proptest! {
    #[test]
    fn no_words_and_no_bytes_make_it_panic(
        commands in prop::collection::vec(prop::collection::vec("[a-z.*]{0,9}|-?[0-9]{1,19}|acquire|undo|list|shared.acquire|barrier.arrive|latch.change|\\PC{0,60}", 0..9), 0..20),
        bytes in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let mut world = World::new();
        for words in commands.iter().filter(|words| !words.is_empty()) {
            let words: Vec<_> = words.iter().map(String::as_str).collect();
            world.sent(1, &words, NOW);
        }
        let _ = world.server.came(1, &bytes, NOW, &mut world.disk);
    }
}
