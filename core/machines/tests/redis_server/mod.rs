//! A real Redis server that runs the shipped scripts under a clock that the test sets.

#![allow(unreachable_pub, dead_code, unused_imports, reason = "the module is shared, and each test uses its part")]

#[path = "../requests/mod.rs"]
pub mod requests;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lockwright_machines::protocol::{Arg, Call, InboxId, Layout, Reply, Request, StoreEvent};
use lockwright_machines::stores::redis::layouts::native_scripts::{channel, parse_push};
use lockwright_machines::stores::redis::layouts::{combined, tokenless};
use lockwright_machines::time::StoreTime;
use proptest::strategy::Strategy;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
pub use requests::{asked, begun, dated};

/// Has the script behind it touch only keys that it was given, as servers want that have the locks of a script before
/// they run it; whatever else it touches is an error.
///
/// Two things are let through. A read/write lock of Redisson's names its readers in its hash, and a reader's lease lies
/// under a key that has its name in it: those of others cannot be known before, and Redisson's own scripts make them up
/// as well. And a survey looks at what it finds.
const DECLARED: &str = "
local redis = (function(real)
  local keyless = {TIME = true, PUBLISH = true, SPUBLISH = true, PUBSUB = true, SCAN = true, INFO = true}
  local several = {DEL = true, EXISTS = true}
  local declared = {}
  for _, key in ipairs(KEYS) do declared[key] = true end
  local function look(command, ...)
    if keyless[command] then return end
    local given = {...}
    for i = 1, several[command] and #given or 1 do
      local key = tostring(given[i])
      if not declared[key] and not key:find(':rwlock_timeout:%d+$') then
        error('UNDECLARED ' .. command .. ' ' .. key)
      end
    end
  end
  return setmetatable({
    call = function(...) look(...) return real.call(...) end,
    pcall = function(...) look(...) return real.pcall(...) end,
  }, {__index = real})
end)(redis)
";

/// Replaces the server's clock for the script behind it by the last two arguments.
const CLOCK: &str = "
local real, at = redis, {ARGV[#ARGV - 1], ARGV[#ARGV]}
ARGV[#ARGV], ARGV[#ARGV - 1] = nil, nil
local redis = setmetatable({
  call = function(command, ...) return command == 'TIME' and at or real.call(command, ...) end
}, {__index = real})
";

/// Counts what the script behind it asks of the server.
const COUNT: &str = "
local real, given = redis, 0
local function counted(how) return function(...) given = given + 1 return real[how](...) end end
local redis = setmetatable({call = counted('call'), pcall = counted('pcall')}, {__index = real})
";

/// A connection to the server that tests use.
pub fn connection() -> redis::Connection {
    let Ok(url) = std::env::var("LOCKWRIGHT_TEST_REDIS") else {
        panic!(
            "these tests need a Redis server: run `conformance/services/redis.sh start` and set \
             LOCKWRIGHT_TEST_REDIS to the address it prints"
        );
    };
    let client = redis::Client::open(url).expect("LOCKWRIGHT_TEST_REDIS is a redis:// address");
    client.get_connection().expect("the server of LOCKWRIGHT_TEST_REDIS answers")
}

pub struct Server {
    pub connection: redis::Connection,
    /// Their digests, and of which of them that is the script for several callers.
    scripts: Vec<(&'static Call, bool, String)>,
    /// How many were asked for that could be the script for several callers.
    combinable: usize,
}

impl Server {
    pub fn connect() -> Self {
        Server { connection: connection(), scripts: Vec::new(), combinable: 0 }
    }

    /// A time that lies ahead of the server's, so that no key's own end ever comes.
    pub fn later(&mut self) -> StoreTime {
        StoreTime((self.number(&["TIME"]).expect("the time") + 90 * 24 * 3600) * 1_000_000)
    }

    pub fn ask(&mut self, request: &Request, now: StoreTime) -> Reply {
        if let Some((owner, ttl)) = tokenless::set(request) {
            return self.plain(&["SET", &request.key, owner, "NX", "PX", &ttl.to_string()]);
        }
        let may_combine = combined::is_for(request.call);
        self.combinable += usize::from(may_combine);
        // Both forms of a script do the same. One in three, so that whoever acquires and releases by turns has both
        // of both.
        self.ask_as(request, now, may_combine && self.combinable.is_multiple_of(3))
    }

    fn ask_as(&mut self, request: &Request, now: StoreTime, is_combined: bool) -> Reply {
        let sha = self.digest(request.call, is_combined);
        let beside = request.args.iter().filter_map(|arg| match arg {
            Arg::Key(key) => Some(&**key),
            _ => None,
        });
        let keys: Vec<&str> = std::iter::once(&*request.key).chain(beside).collect();
        let mut command = redis::cmd("EVALSHA");
        command.arg(sha).arg(keys.len()).arg(&keys);
        for arg in &request.args {
            match arg {
                Arg::Key(_) => continue,
                Arg::Int(number) => command.arg(*number),
                Arg::Text(text) => command.arg(&**text),
                Arg::Nothing | Arg::Run | Arg::Node(_) => command.arg(""),
                Arg::NotAfter => command.arg(i64::MAX),
            };
        }
        command.arg(now.0 / 1_000_000).arg(now.0 % 1_000_000);
        let reply = self.run(&command);
        assert!(
            !format!("{reply:?}").contains("UNDECLARED"),
            "{} touches a key that it does not name: {reply:?}",
            request.call.name
        );
        match reply {
            Reply::List(list) if is_combined && list == [Reply::Nil] => self.ask_as(request, now, false),
            Reply::List(mut list) if request.call.batch || is_combined => list.remove(0),
            reply => reply,
        }
    }

    fn digest(&mut self, call: &'static Call, is_combined: bool) -> String {
        let is_known = |(known, combined, _): &&(&'static Call, bool, String)| {
            std::ptr::eq(*known, call) && *combined == is_combined
        };
        if let Some((_, _, sha)) = self.scripts.iter().find(is_known) {
            return sha.clone();
        }
        let script = match is_combined {
            true => combined::script(call).collect(),
            false => call.body.concat(),
        };
        let body = format!("{DECLARED}{CLOCK}{script}");
        let sha: String =
            redis::cmd("SCRIPT").arg("LOAD").arg(body).query(&mut self.connection).expect("a good script");
        self.scripts.push((call, is_combined, sha.clone()));
        sha
    }

    /// How many commands the script of `request` gives, under the server's own clock.
    pub fn commands_of(&mut self, request: &Request) -> i64 {
        let body = format!("{COUNT}local function whole()\n{}\nend\nwhole()\nreturn given", request.call.body.concat());
        let mut command = redis::cmd("EVAL");
        command.arg(body).arg(1).arg(&*request.key);
        for arg in &request.args {
            match arg {
                Arg::Int(number) => command.arg(*number),
                Arg::Text(text) => command.arg(&**text),
                Arg::NotAfter => command.arg(i64::MAX),
                Arg::Key(_) | Arg::Nothing | Arg::Run | Arg::Node(_) => command.arg(""),
            };
        }
        match self.run(&command) {
            Reply::Int(given) => given,
            other => panic!("{other:?}"),
        }
    }

    pub fn run(&mut self, command: &redis::Cmd) -> Reply {
        use redis::ConnectionLike;
        reply(self.connection.req_command(command).expect("an answer"))
    }

    /// Every name that the layout lists, page by page.
    pub fn list(&mut self, layout: &dyn Layout) -> Vec<String> {
        let listed = layout.list().conclude(|requests| Ok(vec![self.ask(&requests[0], StoreTime(1))]));
        let mut found = listed.expect("pages");
        found.sort();
        found.dedup();
        found
    }

    pub fn plain(&mut self, words: &[&str]) -> Reply {
        let mut command = redis::cmd(words[0]);
        command.arg(&words[1..]);
        self.run(&command)
    }

    pub fn number(&mut self, words: &[&str]) -> Option<i64> {
        match self.plain(words) {
            Reply::Int(number) => Some(number),
            Reply::Text(text) => text.parse().ok(),
            Reply::List(list) => match list.first()? {
                Reply::Text(text) => text.parse().ok(),
                _ => None,
            },
            _ => None,
        }
    }
}

pub fn reply(value: redis::Value) -> Reply {
    match value {
        redis::Value::Int(number) => Reply::Int(number),
        redis::Value::BulkString(bytes) => Reply::Text(String::from_utf8_lossy(&bytes).into_owned()),
        redis::Value::SimpleString(text) => Reply::Text(text),
        redis::Value::Okay => Reply::Text("OK".into()),
        redis::Value::Array(values) => Reply::List(values.into_iter().map(reply).collect()),
        redis::Value::ServerError(error) => {
            Reply::Error { code: error.code().into(), message: error.details().unwrap_or_default().into() }
        }
        _ => Reply::Nil,
    }
}

/// What is pushed to inbox 1, which one test of a program listens to at a time.
pub struct Inbox(redis::Connection, MutexGuard<'static, ()>);

static LISTENS: Mutex<()> = Mutex::new(());

impl Inbox {
    pub fn open() -> Self {
        let alone = LISTENS.lock().unwrap_or_else(PoisonError::into_inner);
        let mut inbox = connection();
        inbox.set_read_timeout(Some(Duration::from_secs(5))).expect("a timeout");
        redis::cmd("SUBSCRIBE").arg(channel(InboxId(1))).exec(&mut inbox).expect("subscribed");
        Inbox(inbox, alone)
    }

    /// Everything pushed up to now.
    pub fn pushed(&mut self, server: &mut Server) -> Vec<(Arc<str>, StoreEvent)> {
        server.plain(&["PUBLISH", &channel(InboxId(1)), "mark"]);
        let mut events = Vec::new();
        loop {
            let Reply::List(parts) = reply(self.0.recv_response().expect("a message")) else {
                panic!("a message is a list")
            };
            let Some(Reply::Text(text)) = parts.get(2) else { panic!("a message is a text: {parts:?}") };
            match &**text {
                "mark" => return events,
                text => events.push(parse_push(text).unwrap_or_else(|| panic!("a push: {text:?}"))),
            }
        }
    }
}

/// When the key goes, as it says itself: in a lock's record, or in a field of its own.
pub fn goes(server: &mut Server, key: &str) -> Option<i64> {
    let said = server.number(&["HGET", key, "g"]);
    said.or_else(|| Some(number_at(&record(server, key)?, 17..33) + 400_000_000))
}

/// The text that a lock's record is.
pub fn record(server: &mut Server, key: &str) -> Option<String> {
    match server.plain(&["HGET", key, "r"]) {
        Reply::Text(record) => Some(record),
        _ => None,
    }
}

/// The number at a place of a lock's record.
pub fn number_at(record: &str, place: std::ops::Range<usize>) -> i64 {
    record[place].parse().expect("a number")
}

/// When the key goes: what it says itself in microseconds, and what the server says in milliseconds.
pub fn lifetime(server: &mut Server, key: &str) -> (i64, i64) {
    let goes = goes(server, key).expect("a hash that goes");
    (goes, server.number(&["PEXPIRETIME", key]).expect("a key that goes"))
}

/// The fields of the hash under `key`; none where there is nothing.
pub fn hash(server: &mut Server, key: &str) -> BTreeMap<String, String> {
    let Reply::List(all) = server.plain(&["HGETALL", key]) else { panic!("{key} is no hash") };
    let text = |part: &Reply| if let Reply::Text(text) = part { text.to_string() } else { panic!("{part:?}") };
    all.chunks_exact(2).map(|pair| (text(&pair[0]), text(&pair[1]))).collect()
}

/// What lies in the queue under `key` is whole: as many seats and attempts as wait in each line, somebody on the first
/// and the last seat, and every gap between them known by both of its ends.
pub fn check_queue(server: &mut Server, key: &str) {
    let hash = hash(server, key);
    let fields: BTreeMap<&str, &str> = hash.iter().map(|(field, text)| (&**field, &**text)).collect();
    let kind = |letter: char| fields.iter().filter_map(move |(field, text)| Some((field.strip_prefix(letter)?, *text)));
    let of_seats = |letter| kind(letter).filter_map(|(at, text)| Some((seat(at)?, text))).collect();
    let seats: BTreeMap<Seat, &str> = of_seats('q');
    let marks: BTreeMap<Seat, &str> = of_seats('x');
    let known: BTreeMap<Seat, &str> = kind('a').map(|(attempt, at)| (seat(at).expect("a seat"), attempt)).collect();
    let stand: BTreeMap<Seat, &str> = seats.iter().map(|(seat, entry)| (*seat, &entry[..32])).collect();
    assert_eq!(known, stand, "{fields:?}");
    let lines = lines(&fields);
    let mut gaps = BTreeMap::new();
    for rank in 0..10 {
        let taken: Vec<i64> = seats.keys().filter(|(of, _)| *of == rank).map(|(_, number)| *number).collect();
        let [count, head, tail] = lines.get(&rank).copied().unwrap_or_default();
        assert_eq!(count, taken.len() as i64, "{fields:?}");
        assert!(taken.first().is_none_or(|first| *first == head), "{fields:?}");
        assert!(taken.last().is_none_or(|last| *last == tail - 1), "{fields:?}");
        for pair in taken.windows(2).filter(|pair| pair[1] > pair[0] + 1) {
            gaps.extend([((rank, pair[0] + 1), pair[1] - 1), ((rank, pair[1] - 1), pair[0] + 1)]);
        }
    }
    let marked: BTreeMap<Seat, i64> = marks.into_iter().map(|(at, other)| (at, number(other))).collect();
    assert_eq!(marked, gaps, "{fields:?}");
}

/// A rank, and a number in its line.
type Seat = (i64, i64);

fn seat(text: &str) -> Option<Seat> {
    let (rank, number) = text.split_once('.').unwrap_or(("0", text));
    Some((rank.parse().ok()?, number.parse().ok()?))
}

fn number(text: &str) -> i64 {
    text.parse().expect("a number")
}

/// Of each rank how many wait, the first seat, and the one behind the last.
fn lines(fields: &BTreeMap<&str, &str>) -> BTreeMap<i64, [i64; 3]> {
    let Some(record) = fields.get("r") else {
        let numbers = ["w", "h", "n"].map(|field| fields.get(field).map_or(0, |text| number(text)));
        return BTreeMap::from([(0, numbers)]);
    };
    let numbers = |text: &str| text.split_whitespace().map(number).collect::<Vec<_>>();
    let higher = numbers(fields.get("k").copied().unwrap_or_default());
    let mut lines: BTreeMap<_, _> = higher.chunks_exact(4).map(|line| (line[0], [line[1], line[2], line[3]])).collect();
    let ranked: i64 = lines.values().map(|[count, ..]| count).sum();
    let lowest: Vec<&str> = record.get(105..).unwrap_or("0 0 0 0").split(' ').collect();
    lines.insert(0, [number(lowest[1]) - ranked, number(lowest[2]), number(lowest[3])]);
    assert_eq!(ranked > 0, record.starts_with('R'), "{fields:?}");
    lines
}

/// Plays random `commands` on one server, so many times over, and shrinks what fails.
pub fn compare<C: Debug>(
    sequences: u32,
    commands: &impl Strategy<Value = Vec<C>>,
    play: impl Fn(&mut Server, &mut Inbox, &[C]) -> Result<(), TestCaseError>,
) {
    let both = RefCell::new((Server::connect(), Inbox::open()));
    let config = Config { cases: sequences, failure_persistence: None, max_shrink_iters: 2_000, ..Config::default() };
    let outcome = TestRunner::new(config).run(commands, |commands| {
        let (server, inbox) = &mut *both.borrow_mut();
        play(server, inbox, &commands)
    });
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
}
