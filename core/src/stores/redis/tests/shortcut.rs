//! Releases on a server that is newer than the one installed: before a real one stands what answers in its place
//! whatever that one does not know, and writes down what it was sent.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::super::super::layouts::string::{FAMILY, REDIS_PY};
use super::super::super::wire::Frames;
use super::super::Redis;
use super::{ONE, Server, replies, store, terms, unknown};
use crate::lease::ReleaseOutcome;
use crate::platform::clock;
use crate::platform::mutex::locked;
use crate::protocol::{Input, Intent, Layout, Op, Reply, Requests, Step, Verdict};
use crate::stores::{Answered, Store};

/// What the newer server does, as far as it differs from the one behind it.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Newer {
    /// It has the command of this name.
    Has(&'static str),
    /// The same, and refuses its use with these words.
    Refuses(&'static str, &'static str),
    /// The same, and ends the connection when it has run it.
    HangsUp(&'static str),
    /// Nobody may ask it which commands it has.
    KeepsItsCommands,
    /// It is as old as the one behind it.
    Not,
}

impl Newer {
    fn command(self) -> &'static str {
        match self {
            Newer::Has(name) | Newer::Refuses(name, _) | Newer::HangsUp(name) => name,
            Newer::KeepsItsCommands => "DELEX",
            Newer::Not => "",
        }
    }
}

/// See the [module](self).
struct Front {
    server: Server,
    newer: Arc<Mutex<Newer>>,
    /// Every command since the greeting, byte for byte.
    heard: Arc<Mutex<Vec<String>>>,
    port: u16,
}

impl Front {
    fn start(newer: Newer) -> Self {
        let server = Server::start("");
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let front = Front { server, newer: Arc::new(Mutex::new(newer)), heard: Arc::default(), port };
        let (behind, newer, heard) = (front.server.port, front.newer.clone(), front.heard.clone());
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let (newer, heard) = (newer.clone(), heard.clone());
                std::thread::spawn(move || serve(client, behind, &newer, &heard));
            }
        });
        front
    }

    fn store(&self) -> Arc<Redis> {
        store(&format!("redis://127.0.0.1:{}", self.port))
    }

    /// What was heard since the last look.
    fn heard(&self) -> Vec<String> {
        std::mem::take(&mut *locked(&self.heard))
    }

    /// The names of what was heard since the last look.
    fn verbs(&self) -> Vec<String> {
        self.heard().iter().map(|command| words(command.as_bytes()).swap_remove(0)).collect()
    }

    /// What lies under the lock's key becomes this.
    fn plant(&self, words: &[&str]) {
        self.server.run(&["DEL", "x"]);
        if !words.is_empty() {
            self.server.run(words);
        }
    }
}

/// The words of a command.
fn words(bytes: &[u8]) -> Vec<String> {
    let mut rest = bytes;
    let redis::Value::Array(words) = redis::Parser::new().parse_value(&mut rest).unwrap() else { panic!("a command") };
    words.into_iter().map(|word| redis::from_redis_value(word).unwrap()).collect()
}

/// The next whole command or reply from `stream`; `None` when it ended. `ahead` is what came after it.
fn next(stream: &mut TcpStream, ahead: &mut Vec<u8>) -> Option<Vec<u8>> {
    loop {
        if let Some(end) = Frames::default().end(ahead).unwrap() {
            let rest = ahead.split_off(end);
            return Some(std::mem::replace(ahead, rest));
        }
        let mut bytes = [0; 4096];
        match stream.read(&mut bytes) {
            Ok(count @ 1..) => ahead.extend(&bytes[..count]),
            _ => return None,
        }
    }
}

fn packed(words: &[&str]) -> Vec<u8> {
    redis::Cmd::new().arg(words).get_packed_command()
}

fn serve(mut client: TcpStream, behind: u16, newer: &Mutex<Newer>, heard: &Mutex<Vec<String>>) {
    let mut server = TcpStream::connect(("127.0.0.1", behind)).unwrap();
    client.set_nodelay(true).and_then(|()| server.set_nodelay(true)).unwrap();
    let (mut from_client, mut from_server) = (Vec::new(), Vec::new());
    while let Some(command) = next(&mut client, &mut from_client) {
        let (words, newer) = (words(&command), *locked(newer));
        if !matches!(words[0].as_str(), "CLIENT" | "TIME" | "INFO") {
            locked(heard).push(String::from_utf8(command.clone()).unwrap());
        }
        let mut behind = |command: &[u8]| {
            server.write_all(command).ok()?;
            next(&mut server, &mut from_server)
        };
        // As the two commands are documented.
        let deletes = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";
        let answer = match (words[0].as_str(), newer) {
            ("COMMAND", Newer::KeepsItsCommands) => {
                Some(b"-NOPERM no permissions to run the 'command|info' command\r\n".to_vec())
            }
            ("COMMAND", newer) => {
                // What the server behind says of GET is what the newer one says of its own.
                let known = words[2..].iter().map(|name| if name == newer.command() { "GET" } else { name.as_str() });
                behind(&packed(&["COMMAND", "INFO"].into_iter().chain(known).collect::<Vec<_>>()))
            }
            (name, Newer::Refuses(refused, why)) if name == refused => Some(format!("-{why}\r\n").into_bytes()),
            (name @ ("DELIFEQ" | "DELEX"), newer) if name == newer.command() => {
                behind(&packed(&["EVAL", deletes, "1", &words[1], &words[words.len() - 1]]))
            }
            _ => behind(&command),
        };
        let hangs_up = matches!(newer, Newer::HangsUp(name) if name == words[0]);
        match answer {
            Some(answer) if !hangs_up && client.write_all(&answer).is_ok() => {}
            _ => return,
        }
    }
}

/// Who asks, as a thread or as a task.
struct Caller {
    store: Arc<Redis>,
    runtime: Option<tokio::runtime::Runtime>,
}

impl Caller {
    fn call(&self, requests: &Requests) -> Answered {
        let limit = clock::now().after(Duration::from_secs(5));
        match &self.runtime {
            Some(runtime) => runtime.block_on(self.store.call_async(requests, limit)),
            None => self.store.call(requests, limit),
        }
    }

    #[track_caller]
    fn acquire(&self, key: &str, who: u128) {
        let intent = Intent::Acquire { terms: terms(who, ONE), wait: false, prev: None };
        assert!(matches!(replies(self.call(&asked(key, intent)))[..], [Reply::Int(_)]));
    }

    #[track_caller]
    fn release(&self, who: u128) -> ReleaseOutcome {
        let replies = replies(self.call(&asked("x", release(who))));
        match FAMILY.layout(&REDIS_PY, "").protocol("x".into()).step(Input::Reply(Op::Release, &replies)) {
            Step::Done(Verdict::Released(outcome)) => outcome,
            other => panic!("{other:?}"),
        }
    }

    /// Takes and releases the lock `x`, so that the connection knows what it may send.
    #[track_caller]
    fn warm_up(&self) {
        self.acquire("x", 1);
        assert_eq!(self.release(1), ReleaseOutcome::Released);
    }
}

fn release(who: u128) -> Intent {
    Intent::Release { terms: terms(who, ONE), used: 0 }
}

/// What the layout `string` asks for the lock `key`.
fn asked(key: &str, intent: Intent) -> Requests {
    match FAMILY.layout(&REDIS_PY, "").protocol(key.into()).step(Input::Begin(intent)) {
        Step::Ask(requests) => requests,
        other => panic!("{other:?}"),
    }
}

/// Plays `story` with a thread and with a task, each before a server of its own.
fn each(newer: Newer, story: impl Fn(&Front, &Caller)) {
    for is_task in [false, true] {
        let front = Front::start(newer);
        let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        story(&front, &Caller { store: front.store(), runtime: is_task.then(runtime) });
    }
}

const QUESTION: &str = "*4\r\n$7\r\nCOMMAND\r\n$4\r\nINFO\r\n$7\r\nDELIFEQ\r\n$5\r\nDELEX\r\n";

/// What is sent for a release by owner 1, besides scripts.
const SENT: [(&str, &str); 2] = [
    ("DELIFEQ", "*3\r\n$7\r\nDELIFEQ\r\n$1\r\nx\r\n$32\r\n00000000000000000000000000000001\r\n"),
    ("DELEX", "*4\r\n$5\r\nDELEX\r\n$1\r\nx\r\n$4\r\nIFEQ\r\n$32\r\n00000000000000000000000000000001\r\n"),
];

#[test]
fn a_release_is_the_server_s_own_command_from_the_second_on() {
    for (name, sent) in SENT {
        each(Newer::Has(name), |front, caller| {
            caller.acquire("x", 1);
            assert!(front.heard().iter().all(|command| command.contains("\nEVAL")), "whoever acquires asks nothing");
            assert_eq!(caller.release(1), ReleaseOutcome::Released);
            let first = front.heard();
            assert_eq!(first[0], QUESTION);
            assert!(first[1..].iter().all(|command| command.contains("\nEVAL")), "{first:?}");
            for _ in 0..2 {
                caller.acquire("x", 1);
                front.heard();
                assert_eq!(caller.release(1), ReleaseOutcome::Released);
                assert_eq!(front.heard(), [sent]);
                assert_eq!(front.server.run(&["EXISTS", "x"]), redis::Value::Int(0));
            }
        });
    }
}

#[test]
fn what_the_command_does_not_delete_the_script_explains_as_it_always_did() {
    let tried = |name| ["", name, "EVALSHA"];
    for (newer, sent) in
        [(Newer::Has("DELEX"), tried("DELEX")), (Newer::Has("DELIFEQ"), tried("DELIFEQ")), (Newer::Not, tried(""))]
    {
        each(newer, |front, caller| {
            caller.warm_up();
            let stolen = || ReleaseOutcome::StolenBy(String::new());
            let stories: [(&[&str], ReleaseOutcome); 3] = [
                (&["HSET", "x", "a", "b"], stolen()),
                (&[], ReleaseOutcome::Expired),
                (&["SET", "x", "another"], stolen()),
            ];
            for (planted, expected) in stories {
                front.plant(planted);
                front.heard();
                assert_eq!(caller.release(1), expected, "{planted:?}");
                assert_eq!(front.verbs(), sent.into_iter().filter(|verb| !verb.is_empty()).collect::<Vec<_>>());
                assert_eq!(front.server.run(&["EXISTS", "x"]), redis::Value::Int(i64::from(!planted.is_empty())));
            }
            front.plant(&[]);
            caller.acquire("x", 2);
            assert_eq!(caller.release(1), ReleaseOutcome::StolenBy("card".into()));
        });
    }
}

#[test]
fn a_command_that_is_refused_is_not_tried_again_on_its_connection() {
    let denied = "NOPERM this user has no permissions to run the 'delex' command";
    let unknown = "ERR unknown command 'DELEX', with args beginning with: 'x' 'IFEQ'";
    let busy = "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk";
    for (why, later) in [(denied, &["EVALSHA"][..]), (unknown, &["EVALSHA"]), (busy, &["DELEX", "EVALSHA"])] {
        each(Newer::Refuses("DELEX", why), |front, caller| {
            caller.warm_up();
            for expected in [&["DELEX", "EVALSHA"], later, later] {
                caller.acquire("x", 1);
                front.heard();
                assert_eq!(caller.release(1), ReleaseOutcome::Released, "{why}");
                assert_eq!(front.verbs(), expected, "{why}");
            }
        });
    }
}

#[test]
fn a_server_that_has_no_such_command_or_does_not_say_is_asked_once() {
    for newer in [Newer::Not, Newer::KeepsItsCommands] {
        each(newer, |front, caller| {
            for questions in [1, 0, 0] {
                caller.warm_up();
                let verbs = front.verbs();
                assert_eq!(verbs.iter().filter(|verb| *verb == "COMMAND").count(), questions, "{newer:?}: {verbs:?}");
                assert!(verbs.iter().all(|verb| matches!(verb.as_str(), "COMMAND" | "EVAL" | "EVALSHA")), "{verbs:?}");
            }
        });
    }
}

#[test]
fn a_new_connection_asks_anew() {
    each(Newer::Refuses("DELEX", "NOPERM no"), |front, caller| {
        caller.warm_up();
        caller.warm_up();
        *locked(&front.newer) = Newer::Has("DELEX");
        front.server.run(&["CLIENT", "KILL", "TYPE", "normal"]);
        // Whichever request finds the connection ended; the next has another.
        caller.call(&asked("x", release(1)));
        front.heard();
        caller.warm_up();
        assert_eq!(front.verbs().iter().filter(|verb| *verb == "COMMAND").count(), 1);
        caller.acquire("x", 1);
        front.heard();
        assert_eq!(caller.release(1), ReleaseOutcome::Released);
        assert_eq!(front.verbs(), ["DELEX"]);
    });
}

#[test]
fn a_release_whose_answer_is_lost_is_answered_as_after_a_script() {
    for (newer, last) in [(Newer::Has("DELEX"), "DELEX"), (Newer::Not, "EVALSHA")] {
        each(newer, |front, caller| {
            caller.warm_up();
            caller.acquire("x", 1);
            front.heard();
            *locked(&front.newer) = Newer::HangsUp(last);
            unknown(caller.call(&asked("x", release(1))));
            assert_eq!(front.verbs(), [last]);
            assert_eq!(front.server.run(&["EXISTS", "x"]), redis::Value::Int(0));
            *locked(&front.newer) = newer;
            assert_eq!(caller.release(1), ReleaseOutcome::Expired);
            assert_eq!(front.verbs(), ["COMMAND", "EVALSHA"]);
        });
    }
}

#[test]
fn what_was_not_deleted_of_many_is_asked_about_in_one_write() {
    each(Newer::Has("DELEX"), |front, caller| {
        caller.warm_up();
        let all: Requests = ["x", "y", "z"].iter().flat_map(|key| asked(key, release(1))).collect();
        for (held, answers, sent) in [
            (&["x", "z"][..], [1, 0, 1], &["DELEX", "DELEX", "DELEX", "EVALSHA"][..]),
            (&["x", "y", "z"], [1, 1, 1], &["DELEX", "DELEX", "DELEX"]),
            (&[], [0, 0, 0], &["DELEX", "DELEX", "DELEX", "EVALSHA", "EVALSHA", "EVALSHA"]),
        ] {
            held.iter().for_each(|key| caller.acquire(key, 1));
            front.heard();
            assert_eq!(replies(caller.call(&all)), answers.map(Reply::Int));
            assert_eq!(front.verbs(), sent);
        }
        front.server.run(&["SCRIPT", "FLUSH"]);
        assert_eq!(replies(caller.call(&all)), [0, 0, 0].map(Reply::Int), "though the scripts are not known either");
    });
}

#[test]
fn whatever_does_more_than_delete_asks_nothing_and_is_a_script() {
    each(Newer::Has("DELEX"), |front, caller| {
        let others = caller.store.layouts().iter().filter(|layout| layout.name() != "string").map(|layout| {
            let key = layout.key("orders:x").unwrap();
            match layout.protocol(key).step(Input::Begin(release(1))) {
                Step::Ask(requests) => requests,
                other => panic!("{other:?}"),
            }
        });
        let undo = asked("x", Intent::Undo { terms: terms(1, ONE), prev: None });
        for requests in others.chain([undo]) {
            for _ in 0..2 {
                replies(caller.call(&requests));
            }
        }
        assert!(front.verbs().iter().all(|verb| matches!(verb.as_str(), "EVAL" | "EVALSHA")));
    });
}
