//! Golden traces: what each lock layout sends, waits for and decides, as text that needs no Rust to read.
//!
//! One file per layout in `tests/traces/`. A file is a dialogue with a machine, in the manner of CockroachDB's
//! `datadriven`:
//!
//! ```text
//! # a comment
//! begin acquire 1 wait                 <- a command
//! ----
//! ask create /lk/_c_<uuid:1>-lock-     <- what the machine must say
//! ask children /lk
//!
//! reply acquire                        <- a command with input lines, one answer for each request
//! create: [7 "/lk/_c_<uuid:1>-lock-0000000000" 21 7]
//! children: [7 "_c_<uuid:1>-lock-0000000000"]
//! ----
//! granted token 21, counted from the answered request
//! ```
//!
//! | command | tells the machine |
//! |---|---|
//! | `new [name=lk] [ttl=30s] [claim=1s] [card=-] [format=..]` | nothing: it starts a fresh one, on these terms |
//! | `begin acquire ATTEMPT wait\|try [prev=ATTEMPT used=N]` | `Begin(Acquire)` |
//! | `begin renew ATTEMPT [ttl=30s]` | `Begin(Renew)` |
//! | `begin change ATTEMPT token=N units=N` | `change`, to be answered as a renewal |
//! | `begin release ATTEMPT used=N` | `Begin(Release)` |
//! | `begin export ATTEMPT to=SECRET [ttl=30s]`, `begin resume ATTEMPT from=SECRET` | to pass the lock on |
//! | `begin undo ATTEMPT [prev=ATTEMPT used=N]` | `Begin(Undo)` |
//! | `reply acquire\|renew\|release\|undo` | the answers below, each as `call: value` |
//! | `listen ATTEMPT` | nothing: the answer is the channel that its waiter listens on |
//! | `event gone\|changed PATH`, `event broken ATTEMPT`, `event granted ATTEMPT FIRST LAST AT` | a push |
//!
//! A value is `nil`, `silent` or `unsent` (of a node), a number, `"text"`, `[value value ...]` or an error `!CODE` or
//! `!CODE "message"`. The call before it must be the one that was asked, in order; `?` stands for whatever a hostile
//! store makes of it. Attempts are numbers from 1: `<id:1>` is the first one's id in hexadecimal, `<uuid:1>` the same
//! as a uuid, `<inbox:1>` the client's inbox.
//!
//! `LOCKWRIGHT_REWRITE_TRACES=1 cargo test --test traces` writes down what the machines say now; read the difference
//! before committing it. Every step is also taken by a duplicate, which must say the same and end in the same state.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hasher};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use std::{env, fs};

use lockwright_machines::gate::{BarrierPlan, Gate, LatchPlan, MAX_IDLE};
use lockwright_machines::lease::ReleaseOutcome;
use lockwright_machines::protocol::{
    AttemptId, Change, InboxId, Input, Intent, Layout, Op, Previous, Protocol, Reply, Request, Step, StoreEvent, Term,
    Terms, Verdict,
};
use lockwright_machines::quorum::{Leases, Member, QuorumLayout};
use lockwright_machines::rank::Rank;
use lockwright_machines::share::Share;
use lockwright_machines::stores::{etcd, memcached, mysql, postgres, redis, zookeeper};
use lockwright_machines::time::StoreTime;

/// A file, and what makes the machine of the lock that it is about, in a format where there are several.
type Traced = (&'static str, fn(&str) -> Box<dyn Protocol>);

/// A new layout is one line here and one file of the same name.
const LAYOUTS: &[Traced] = &[
    ("etcd_barrier", |_| {
        let plan = BarrierPlan::new(2, Duration::from_secs(30), Duration::from_secs(70)).expect("in range");
        Box::new(etcd::layouts::barrier::Barrier::new("orders".into(), plan))
    }),
    ("etcd_concurrency", |_| {
        Box::new(etcd::layouts::concurrency::Concurrency::new("orders".into(), Duration::from_secs(30)))
    }),
    ("etcd_latch", |_| {
        let plan = LatchPlan::new(3, Duration::from_secs(60)).expect("in range");
        Box::new(etcd::layouts::concurrency::Concurrency::waiting("orders".into(), Duration::from_secs(30), plan))
    }),
    ("etcd_shared", etcd_shared),
    ("memcached_add", |_| Box::new(memcached::layouts::add::AddLock::new("orders".into()))),
    ("redis_barrier", redis_barrier),
    ("redis_getset", |format| by_recipe(&redis::layouts::getset::FAMILY, format)),
    ("redis_latch", redis_latch),
    ("redis_native", |_| redis::layouts::native_scripts::layout("").protocol("lw:{orders}".into())),
    ("redis_python_redis_lock", |format| by_recipe(&redis::layouts::python_redis_lock::FAMILY, format)),
    ("redis_quorum", |_| redis_quorum()),
    ("redis_quorum_tokenless", |_| redis_quorum_tokenless()),
    ("redis_redisson", |_| redis::layouts::redisson::layout("").protocol("orders".into())),
    ("redis_redisson_fenced", |_| redis::layouts::redisson_fenced::layout("").protocol("orders".into())),
    ("redis_redisson_permits", redisson_permits),
    ("redis_redisson_rwlock", redisson_rwlock),
    ("redis_shared", redis_shared),
    ("redis_spring", redis_spring),
    ("redis_string", |format| by_recipe(&redis::layouts::string::FAMILY, format)),
    ("redis_string_tokenless", |_| tokenless().protocol("orders".into())),
    ("redis_symfony", |format| by_recipe(&redis::layouts::symfony::FAMILY, format)),
    ("sql_advisory", |_| mysql::layouts::advisory::layout("", Duration::from_secs(30)).protocol("orders".into())),
    ("sql_for_update", |_| postgres::layouts::for_update::layout("").protocol("orders".into())),
    ("sql_int_lock", |_| {
        let layout = mysql::layouts::int_lock::layout("");
        layout.protocol(layout.key("orders").expect("it has one"))
    }),
    ("sql_shedlock", |_| postgres::layouts::shedlock::layout("").protocol("orders".into())),
    ("sql_symfony", |_| postgres::layouts::symfony::layout("").protocol("orders".into())),
    ("sql_unique_index", |_| mysql::layouts::unique_index::layout("").protocol("orders".into())),
    ("zookeeper_barrier", |_| {
        let plan = BarrierPlan::new(2, Duration::from_secs(30), Duration::from_secs(70)).expect("in range");
        Box::new(zookeeper::layouts::barrier::Barrier::new("/locks/orders".into(), plan))
    }),
    ("zookeeper_curator", zookeeper_line),
    ("zookeeper_kazoo", zookeeper_line),
    ("zookeeper_kazoo_permits", |_| {
        Box::new(zookeeper::layouts::kazoo_permits::KazooPermits::new("/locks/orders".into(), 1, 2))
    }),
    ("zookeeper_latch", |_| {
        let plan = LatchPlan::new(3, Duration::from_secs(60)).expect("in range");
        Box::new(zookeeper::layouts::latch::Latch::new("/locks/orders".into(), plan))
    }),
    ("zookeeper_permits", |take| {
        let take = take.parse().unwrap_or(1);
        Box::new(zookeeper::layouts::permits::Permits::new("/locks/orders".into(), take, 3))
    }),
    ("zookeeper_rwlock", zookeeper_line),
];

fn etcd_shared(share: &str) -> Box<dyn Protocol> {
    let share = match share {
        "read" => Share::READ,
        "write" => Share::WRITE,
        _ => Share::permits(2, 3, false).expect("in range"),
    };
    let ttl = Duration::from_secs(30);
    let locks = etcd::layouts::concurrency_layout::ConcurrencyLayout::new("", ttl, Arc::new(()));
    locks.shared(share).expect("there is one").protocol("orders".into())
}

fn zookeeper_line(recipe: &str) -> Box<dyn Protocol> {
    use zookeeper::layouts::line::Line;
    use zookeeper::layouts::recipe::Recipe;
    let recipe = match recipe {
        "read" => Recipe::Read,
        "write" => Recipe::Write,
        "leader-latch" => Recipe::LeaderLatch,
        "kazoo" => Recipe::KazooLock,
        "kazoo-read" => Recipe::KazooRead,
        _ => Recipe::Mutex,
    };
    Box::new(Line::new("/locks/orders".into(), recipe))
}

/// On three nodes, with leases of a minute at most.
fn redis_quorum() -> Box<dyn Protocol> {
    on_three_nodes(&|| Arc::new(redis::layouts::native_scripts::layout(""))).protocol("lw:{orders}".into())
}

fn redis_quorum_tokenless() -> Box<dyn Protocol> {
    on_three_nodes(&|| Arc::new(tokenless())).protocol("orders".into())
}

/// In the format of redis-py.
fn tokenless() -> redis::layouts::tokenless::TokenlessLayout {
    let of = redis::layouts::string::FAMILY.layout(&redis::layouts::string::REDIS_PY, "");
    redis::layouts::tokenless::TokenlessLayout { of }
}

fn on_three_nodes(layout: &dyn Fn() -> Arc<dyn Layout>) -> QuorumLayout {
    let member = |number| Member {
        address: format!("redis://{number}").into(),
        layout: layout(),
        marker: redis::layouts::marker::marker(""),
    };
    let leases = Leases { max_ttl: Duration::from_secs(60), node_timeout: Duration::from_millis(250) };
    let members = ["a", "b", "c"].map(member).into();
    QuorumLayout::new(members, leases, Arc::new(AtomicBool::new(false))).expect("three nodes")
}

fn redis_shared(share: &str) -> Box<dyn Protocol> {
    let share = match share {
        "read" => Share::READ,
        "write" => Share::WRITE,
        _ => Share::permits(2, 5, false).expect("in range"),
    };
    let layout = redis::layouts::native_scripts::layout("").shared(share).expect("there is one");
    layout.protocol("lw:{orders}".into())
}

fn redisson_rwlock(share: &str) -> Box<dyn Protocol> {
    let share = if share == "write" { Share::WRITE } else { Share::READ };
    redis::layouts::redisson::layout("").shared(share).expect("there is one").protocol("orders".into())
}

fn redisson_permits(format: &str) -> Box<dyn Protocol> {
    let counted = format == "counted";
    let layout = if counted { redis::layouts::redisson::counted("") } else { redis::layouts::redisson::layout("") };
    let share = Share::permits(2, 5, false).expect("in range");
    layout.shared(share).expect("there is one").protocol("orders".into())
}

fn redis_latch(_: &str) -> Box<dyn Protocol> {
    let plan = LatchPlan::new(3, MAX_IDLE).expect("in range");
    let layout = redis::layouts::native_scripts::layout("").gate(Gate::Latch(plan)).expect("there is one");
    layout.protocol("lw:{orders}".into())
}

fn redis_barrier(_: &str) -> Box<dyn Protocol> {
    let plan = BarrierPlan::new(3, Duration::from_secs(30), Duration::from_secs(70)).expect("in range");
    let layout = redis::layouts::native_scripts::layout("").gate(Gate::Barrier(plan)).expect("there is one");
    layout.protocol("lw:{orders}".into())
}

fn redis_spring(format: &str) -> Box<dyn Protocol> {
    use redis::layouts::spring::{Format, layout};
    let format = Format::ALL.into_iter().find(|known| known.name() == format).unwrap_or(Format::PubSub);
    layout(format, "shop:").protocol("shop:orders".into())
}

/// The machine of the lock `orders` in a layout told by a table; in its first format where none is said.
fn by_recipe(family: &'static redis::layouts::recipe::Family, format: &str) -> Box<dyn Protocol> {
    let format = family.formats.iter().find(|known| known.name == format).unwrap_or(&family.formats[0]);
    let layout = family.layout(format, "");
    layout.protocol(layout.key("orders").expect("a name"))
}

#[test]
fn machines_say_what_their_traces_say() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/traces");
    let rewrite = env::var_os("LOCKWRIGHT_REWRITE_TRACES").is_some();
    let mut wrong = String::new();
    for (name, fresh) in LAYOUTS {
        let path = folder.join(format!("{name}.txt"));
        let golden = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let actual = replay(name, &golden, *fresh);
        if rewrite && actual != golden {
            fs::write(&path, &actual).unwrap();
        } else if let Some(at) = golden.lines().zip(actual.lines()).position(|(a, b)| a != b) {
            let line = |text: &str| text.lines().nth(at).unwrap_or_default().to_owned();
            writeln!(wrong, "{name}.txt:{}\n  golden: {}\n  actual: {}", at + 1, line(&golden), line(&actual)).unwrap();
        } else if actual != golden {
            writeln!(wrong, "{name}.txt: one of the two goes on after the other has ended").unwrap();
        }
    }
    assert!(wrong.is_empty(), "{wrong}If the change is wanted: LOCKWRIGHT_REWRITE_TRACES=1 cargo test --test traces");
}

#[test]
fn every_trace_is_replayed() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/traces");
    for file in fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        assert!(LAYOUTS.iter().any(|(name, _)| *name == stem), "{} has no line in LAYOUTS", path.display());
    }
}

/// The file with every expectation replaced by what the machine says.
fn replay(file: &str, golden: &str, fresh: fn(&str) -> Box<dyn Protocol>) -> String {
    let mut out = String::new();
    let mut player = Player::new(fresh, HashMap::new());
    let mut lines = golden.lines().enumerate().peekable();
    while let Some((at, line)) = lines.next() {
        writeln!(out, "{line}").unwrap();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let mut input = Vec::new();
        loop {
            let Some((_, line)) = lines.next() else { panic!("{file}.txt:{}: a command without ----", at + 1) };
            writeln!(out, "{line}").unwrap();
            if line == "----" {
                break;
            }
            input.push(line);
        }
        while lines.next_if(|(_, line)| !line.is_empty()).is_some() {}
        let answer = player.play(line, &input).unwrap_or_else(|e| panic!("{file}.txt:{}: {line}: {e}", at + 1));
        writeln!(out, "{answer}").unwrap();
    }
    out
}

struct Player {
    fresh: fn(&str) -> Box<dyn Protocol>,
    machine: Box<dyn Protocol>,
    /// What `new` said, by key.
    settings: HashMap<String, String>,
    /// The calls last asked in each conversation.
    asked: HashMap<Op, Vec<&'static str>>,
}

impl Player {
    fn new(fresh: fn(&str) -> Box<dyn Protocol>, settings: HashMap<String, String>) -> Self {
        let machine = fresh(settings.get("format").map_or("", |format| format));
        Player { fresh, machine, settings, asked: HashMap::new() }
    }

    fn play(&mut self, command: &str, input: &[&str]) -> Result<String, String> {
        let command = expand(command)?;
        let words: Vec<&str> = command.split(' ').filter(|word| !word.contains('=')).collect();
        let settings = command.split(' ').filter_map(|word| word.split_once('='));
        let options: HashMap<String, String> = settings.map(|(key, value)| (key.into(), value.into())).collect();
        match words[..] {
            ["new"] => {
                *self = Player::new(self.fresh, options);
                let traits = self.machine.traits();
                let yes = |yes| if yes { "yes" } else { "no" };
                Ok(format!("block {}, yields {}, push {:?}", traits.block, yes(traits.yields), traits.push))
            }
            ["begin", "acquire", attempt, mode @ ("wait" | "try")] => {
                let (terms, prev) = (self.terms(attempt)?, self.previous(&options)?);
                Ok(self.step(Op::Acquire, || Input::Begin(acquire(&terms, mode == "wait", &prev))))
            }
            ["begin", "renew", attempt] => {
                let terms = self.terms(attempt)?;
                let ttl = options.get("ttl").map_or(Ok(terms.ttl), |text| duration(text))?;
                Ok(self.step(Op::Renew, || Input::Begin(Intent::Renew { terms: terms.clone(), ttl })))
            }
            ["heed"] => {
                self.machine.heed();
                Ok("heeds".into())
            }
            ["begin", "change", attempt] => {
                let terms = self.terms(attempt)?;
                let number = |key: &str| number(options.get(key).ok_or(format!("{key}=N is missing"))?);
                let (token, units) = (number("token")?, number("units")? as u32);
                let change = || Change { ttl: terms.ttl, terms: terms.clone(), token, units };
                let mut twin = self.machine.duplicate();
                let step = self.machine.change(change());
                assert_eq!(show(&step), show(&twin.change(change())), "a duplicate says something else");
                Ok(self.said(Op::Renew, &step))
            }
            ["begin", "release", attempt] => {
                let terms = self.terms(attempt)?;
                let used = number(options.get("used").ok_or("used=N is missing")?)?;
                Ok(self.step(Op::Release, || Input::Begin(Intent::Release { terms: terms.clone(), used })))
            }
            ["begin", "export", attempt] => {
                let secret = options.get("to").ok_or("to=N is missing")?;
                let (from, to) = (self.terms(attempt)?, self.secret(secret, &options)?);
                self.pass(Op::Release, &from, &to)
            }
            ["begin", "resume", attempt] => {
                let secret = options.get("from").ok_or("from=N is missing")?;
                let (from, to) = (self.secret(secret, &options)?, self.terms(attempt)?);
                self.pass(Op::Acquire, &from, &to)
            }
            ["begin", "undo", attempt] => {
                let (terms, prev) = (self.terms(attempt)?, self.previous(&options)?);
                let intent = || Intent::Undo { terms: terms.clone(), prev: prev.clone() };
                Ok(self.step(Op::Undo, || Input::Begin(intent())))
            }
            ["listen", attempt] => {
                let channel = self.machine.channel(&self.terms(attempt)?).ok_or("there is no channel")?;
                Ok(abbreviate(&format!("listens on {channel}")))
            }
            ["reply", op] => {
                let op = conversation(op)?;
                let replies = self.replies(op, input)?;
                Ok(self.step(op, || Input::Reply(op, &replies)))
            }
            ["event", ref event @ ..] => {
                let event = match event {
                    ["gone", path] => StoreEvent::Gone { path: (*path).into() },
                    ["changed", path] => StoreEvent::Changed { path: (*path).into() },
                    ["broken", attempt] => StoreEvent::Broken { attempt: id(attempt)? },
                    ["granted", attempt, first, last, at] => StoreEvent::Granted {
                        attempt: id(attempt)?,
                        first: number(first)?,
                        last: number(last)?,
                        at: StoreTime(number(at)?),
                    },
                    _ => return Err("no such event".into()),
                };
                Ok(self.step(Op::Acquire, || Input::Event(&event)))
            }
            _ => Err("no such command".into()),
        }
    }

    fn step<'a>(&mut self, op: Op, input: impl Fn() -> Input<'a>) -> String {
        let mut twin = self.machine.duplicate();
        let step = self.machine.step(input());
        let said = abbreviate(&show(&step));
        assert_eq!(said, abbreviate(&show(&twin.step(input()))), "a duplicate says something else");
        assert_eq!(print(&*self.machine), print(&*twin), "a duplicate ends in another state");
        self.said(op, &step)
    }

    fn said(&mut self, op: Op, step: &Step) -> String {
        if let Step::Ask(requests) = step {
            self.asked.insert(op, requests.iter().map(|request| request.call.name).collect());
        }
        abbreviate(&show(step))
    }

    fn pass(&mut self, op: Op, from: &Terms, to: &Terms) -> Result<String, String> {
        let requests = self.machine.pass(from, to).ok_or("this layout passes nothing on")?;
        self.asked.insert(op, requests.iter().map(|request| request.call.name).collect());
        Ok(abbreviate(&show(&Step::Ask(requests))))
    }

    fn secret(&self, attempt: &str, options: &HashMap<String, String>) -> Result<Terms, String> {
        let Terms { name, ttl, card, .. } = self.terms(attempt)?;
        let ttl = options.get("ttl").map_or(Ok(ttl), |text| duration(text))?;
        Ok(Terms::of_secret(name, id(attempt)?, ttl, card))
    }

    fn terms(&self, attempt: &str) -> Result<Terms, String> {
        let text = |key: &str, default: &str| self.settings.get(key).map_or(default, |value| value).to_owned();
        Ok(Terms {
            name: text("name", "lk").into(),
            attempt: id(attempt)?,
            inbox: InboxId(1),
            ttl: duration(&text("ttl", "30s"))?,
            claim: duration(&text("claim", "1s"))?,
            card: text("card", "").into(),
            fair: self.settings.contains_key("fair"),
            rank: Rank::new(text("rank", "0").parse().unwrap_or_default()).unwrap_or_default(),
        })
    }

    fn previous(&self, options: &HashMap<String, String>) -> Result<Option<Previous>, String> {
        let Some(attempt) = options.get("prev") else { return Ok(None) };
        let used = number(options.get("used").ok_or("used=N is missing")?)?;
        Ok(Some(Previous { terms: self.terms(attempt)?, used }))
    }

    fn replies(&self, op: Op, input: &[&str]) -> Result<Vec<Reply>, String> {
        let asked = self.asked.get(&op).map_or(&[][..], |asked| asked);
        let mut calls = Vec::new();
        let mut replies = Vec::new();
        for line in input {
            let line = expand(line)?;
            let (call, text) = line.split_once(": ").ok_or_else(|| format!("{line:?} is not `call: value`"))?;
            let (reply, rest) = value(text)?;
            if !rest.is_empty() {
                return Err(format!("{rest:?} is left over"));
            }
            calls.push(call.to_owned());
            replies.push(reply);
        }
        if !calls.iter().any(|call| call == "?") && calls != asked {
            return Err(format!("answers {calls:?}, but {asked:?} was asked"));
        }
        Ok(replies)
    }
}

fn acquire(terms: &Terms, wait: bool, prev: &Option<Previous>) -> Intent {
    Intent::Acquire { terms: terms.clone(), wait, prev: prev.clone() }
}

fn print(machine: &dyn Protocol) -> u64 {
    let mut state = DefaultHasher::new();
    machine.fingerprint(&mut state);
    state.finish()
}

fn show(step: &Step) -> String {
    match step {
        Step::Ask(requests) if requests.is_empty() => "ask nothing, which no driver can answer".into(),
        Step::Ask(requests) => requests.iter().map(ask).collect::<Vec<_>>().join("\n"),
        Step::Ignore => "ignored".into(),
        Step::Wait(wait) => {
            let (position, remaining) = (wait.position, wait.remaining);
            format!("wait at position {position}, {remaining:?} at most{}{}", at(wait.at), ended(&wait.prev))
        }
        Step::Done(verdict) => match verdict {
            Verdict::Granted(grant) => {
                let tokens = match grant.tokens.map(|tokens| (tokens.first(), tokens.last())) {
                    None => "no token".into(),
                    Some((first, last)) if first == last => format!("token {first}"),
                    Some((first, last)) => format!("tokens {first} to {last}"),
                };
                let term = match grant.term {
                    Term::FromRequest => "counted from the answered request".into(),
                    Term::ForGood => "for good".into(),
                    Term::Pushed(time) => format!("only a claim, counted from store time {}", time.0),
                };
                format!("granted {tokens}, {term}{}", ended(&grant.prev))
            }
            Verdict::Held { remaining, at: time, prev } => {
                let left = match *remaining {
                    Duration::MAX => "without an end".into(),
                    left => format!("{left:?} left"),
                };
                format!("held by another, {left}{}{}", at(*time), ended(prev))
            }
            Verdict::Implausible => "implausible".into(),
            Verdict::Late { at } => format!("late, store time {}", at.0),
            Verdict::NotYet(error) => format!("not yet: {error}"),
            Verdict::Spent(error) => format!("spent: {error}"),
            Verdict::Renewed => "renewed".into(),
            Verdict::Wanted => "renewed, and asked back".into(),
            Verdict::Changed(Some(token)) => format!("renewed and changed, token {token}"),
            Verdict::Changed(None) => "renewed, but not changed: others hold what is wanted".into(),
            Verdict::Gone(outcome) => format!("gone: {}", word(outcome)),
            Verdict::Released(outcome) => format!("release: {}", word(outcome)),
            Verdict::Undone => "undone".into(),
            Verdict::Failed(error) => {
                let again = if error.retryable() { " (may be asked again)" } else { "" };
                format!("failed{again}: {error}")
            }
        },
    }
}

fn ask(request: &Request) -> String {
    format!("ask {request}")
}

fn at(time: Option<StoreTime>) -> String {
    time.map(|time| format!(", store time {}", time.0)).unwrap_or_default()
}

fn ended(prev: &Option<ReleaseOutcome>) -> String {
    prev.as_ref().map(|outcome| format!(", the previous one: {}", word(outcome))).unwrap_or_default()
}

fn word(outcome: &ReleaseOutcome) -> String {
    match outcome {
        ReleaseOutcome::StolenBy(card) if !card.is_empty() => format!("stolen by {card:?}"),
        ReleaseOutcome::Kept(levels) => format!("kept {levels} deep"),
        outcome => outcome.code().into(),
    }
}

const ATTEMPTS: std::ops::RangeInclusive<u128> = 1..=9;

/// Long forms of the ids that traces may use, longest first so that none is taken for a part of another.
fn ids() -> impl Iterator<Item = (String, String)> {
    let uuid = |n| {
        let hex = AttemptId(n).to_string();
        format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
    };
    let uuids = ATTEMPTS.map(move |n| (uuid(n), format!("<uuid:{n}>")));
    let hexes = ATTEMPTS.map(|n| (AttemptId(n).to_string(), format!("<id:{n}>")));
    uuids.chain(hexes).chain([(InboxId(1).to_string(), "<inbox:1>".into())])
}

fn abbreviate(text: &str) -> String {
    ids().fold(text.to_owned(), |text, (long, short)| text.replace(&long, &short))
}

fn expand(text: &str) -> Result<String, String> {
    let text = ids().fold(text.to_owned(), |text, (long, short)| text.replace(&short, &long));
    match ["<uuid:", "<id:", "<inbox:"].iter().find(|short| text.contains(**short)) {
        None => Ok(text),
        Some(short) => Err(format!("{short}...> goes from 1 to 9 (inbox: 1)")),
    }
}

fn id(attempt: &str) -> Result<AttemptId, String> {
    let n = number(attempt)?;
    ATTEMPTS.contains(&n).then_some(AttemptId(n)).ok_or_else(|| "attempts go from 1 to 9".into())
}

fn conversation(word: &str) -> Result<Op, String> {
    match word {
        "acquire" => Ok(Op::Acquire),
        "renew" => Ok(Op::Renew),
        "release" => Ok(Op::Release),
        "undo" => Ok(Op::Undo),
        _ => Err(format!("{word:?} is no conversation")),
    }
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("{text:?} is not a number that fits"))
}

fn duration(text: &str) -> Result<Duration, String> {
    match (text.strip_suffix("ms"), text.strip_suffix('s')) {
        (Some(millis), _) => Ok(Duration::from_millis(number(millis)?)),
        (_, Some(seconds)) => Ok(Duration::from_secs(number(seconds)?)),
        _ => Err(format!("{text:?} is not a time such as 30s or 500ms")),
    }
}

/// Reads one value; returns what follows it.
fn value(text: &str) -> Result<(Reply, &str), String> {
    if let Some(rest) = text.strip_prefix('"') {
        let (text, rest) = rest.split_once('"').ok_or("a text without its end")?;
        return Ok((Reply::Text(text.into()), rest));
    }
    if let Some(mut rest) = text.strip_prefix('[') {
        let mut list = Vec::new();
        loop {
            rest = rest.trim_start();
            if let Some(rest) = rest.strip_prefix(']') {
                return Ok((Reply::List(list), rest));
            }
            let (item, after) = value(rest)?;
            list.push(item);
            rest = after;
        }
    }
    let (word, rest) = text.split_at(text.find([' ', ']']).unwrap_or(text.len()));
    match word {
        "nil" => return Ok((Reply::Nil, rest)),
        "silent" => return Ok((Reply::Silent, rest)),
        "unsent" => return Ok((Reply::Unsent, rest)),
        _ => {}
    }
    let Some(code) = word.strip_prefix('!') else { return Ok((Reply::Int(number(word)?), rest)) };
    let (message, rest) = match rest.strip_prefix(" \"") {
        Some(quoted) => quoted.split_once('"').ok_or("a text without its end")?,
        None => ("", rest),
    };
    Ok((Reply::Error { code: code.into(), message: message.into() }, rest))
}
