//! Each script names the keys that it touches; see `DECLARED` in `redis_server/mod.rs`, under which the other tests of
//! scripts run theirs, too. Here it is every script once, and where a layout may lie in a cluster, one slot.

mod redis_server;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use lockwright_machines::gate::{BarrierPlan, CountOperation, Gate, LatchPlan};
use lockwright_machines::protocol::{
    Arg, AttemptId, Change, InboxId, Input, Inquiry, Intent, Layout, Policy, Protocol, Question, Request, Step, Terms,
};
use lockwright_machines::rank::Rank;
use lockwright_machines::share::Share;
use lockwright_machines::stores::redis::layouts::{self, marker, tokenless};
use lockwright_machines::time::StoreTime;
use redis_server::Server;

const TTL: Duration = Duration::from_secs(20);

/// Asks, and remembers what.
struct Played {
    server: Server,
    now: StoreTime,
    calls: BTreeSet<&'static str>,
    bodies: BTreeSet<&'static [&'static str]>,
    /// Whether all keys of each request have to be in one slot.
    in_one_slot: bool,
}

impl Played {
    fn ask(&mut self, request: &Request) -> lockwright_machines::protocol::Reply {
        let reply = self.server.ask(request, self.now);
        let keys: Vec<&str> = std::iter::once(&*request.key)
            .chain(request.args.iter().filter_map(|arg| match arg {
                Arg::Key(key) => Some(&**key),
                _ => None,
            }))
            .collect();
        let slots: BTreeSet<u16> = keys.iter().map(|key| slot(key)).collect();
        assert!(!self.in_one_slot || slots.len() == 1, "{}: {keys:?}", request.call.name);
        self.calls.insert(request.call.name);
        self.bodies.insert(request.call.body);
        reply
    }

    fn step(&mut self, step: Step) {
        if let Step::Ask(requests) = step {
            requests.iter().for_each(|request| drop(self.ask(request)));
        }
    }

    fn begin(&mut self, machine: &mut dyn Protocol, intent: Intent) {
        let step = machine.step(Input::Begin(intent));
        self.step(step);
    }

    /// What it ends with is of no interest.
    fn inquire<T>(&mut self, inquiry: Inquiry<'_, T>) {
        let _ = inquiry.conclude(|requests| Ok(requests.iter().map(|request| self.ask(request)).collect()));
    }

    /// Everything that can be asked of one lock of a layout.
    fn play(&mut self, layout: &dyn Layout, name: &str) {
        let Ok(key) = layout.key(name) else { return };
        let mut machine = layout.protocol(key.clone());
        let terms = |attempt| Terms {
            name: name.into(),
            attempt: AttemptId(attempt),
            inbox: InboxId::NONE,
            ttl: TTL,
            claim: Duration::from_secs(1),
            card: "host\t1\trust\t".into(),
            fair: false,
            rank: Rank::LOWEST,
        };
        let acquire =
            |attempt, wait, fair| Intent::Acquire { terms: Terms { fair, ..terms(attempt) }, wait, prev: None };
        for fair in [false, true] {
            self.begin(&mut *machine, acquire(1, false, fair));
            self.begin(&mut *machine, acquire(2, true, fair));
            self.begin(&mut *machine, Intent::Renew { terms: terms(1), ttl: TTL });
            if let Some(raise) = machine.raise(&terms(1), 5) {
                self.ask(&raise);
            }
            if layout.share().is_some_and(|share| share.primitive == Share::READ.primitive) {
                let change = Change { terms: terms(1), token: 1, ttl: TTL, units: 1 };
                let step = machine.change(change);
                self.step(step);
            }
            self.inquire(layout.inspect(name, key.clone()));
            self.inquire(layout.identify(name, key.clone()));
            if let Some(pass) = machine.pass(&terms(1), &terms(3)) {
                pass.iter().for_each(|request| drop(self.ask(request)));
            }
            self.begin(&mut *machine, Intent::Release { terms: terms(3), used: 1 });
            self.begin(&mut *machine, Intent::Release { terms: terms(1), used: 1 });
            self.begin(&mut *machine, acquire(2, false, fair));
            self.inquire(layout.break_hold(key.clone(), 1));
            self.begin(&mut *machine, Intent::Undo { terms: terms(2), prev: None });
        }
        if let Some(resized) = layout.resize(key.clone(), 3) {
            self.inquire(resized);
        }
        let plan = LatchPlan::new(2, Duration::from_secs(60)).unwrap();
        for question in [
            Question::Change { attempt: AttemptId(9), copies: TTL, operation: CountOperation::Down, plan },
            Question::Look,
        ] {
            if let Some(asked) = layout.question(key.clone(), question) {
                self.inquire(asked);
            }
        }
        self.inquire(layout.list());
        if layout.tries_together() {
            let tries = || match layout.protocol(key.clone()).step(Input::Begin(acquire(7, false, false))) {
                Step::Ask(mut requests) => requests.remove(0),
                other => panic!("{other:?}"),
            };
            let (one, other) = (tries(), tries());
            for policy in [Policy::All, Policy::Any] {
                if let Some(request) = layout.together(policy, &[&one, &other]) {
                    self.ask(&request);
                }
            }
        }
    }

    /// The same of what several hold, and of what is waited for.
    fn play_all(&mut self, layout: &Arc<dyn Layout>, name: &str) {
        self.play(&**layout, name);
        let permits = Share::permits(1, 3, false).unwrap();
        for (number, share) in
            [Share::READ, Share::WRITE, permits, Share { in_order: true, ..permits }].iter().enumerate()
        {
            if let Some(shared) = layout.shared(*share) {
                self.play(&*shared, &format!("{name} shared {number}"));
            }
        }
        let latch = Gate::Latch(LatchPlan::new(2, Duration::from_secs(60)).unwrap());
        let barrier = Gate::Barrier(BarrierPlan::new(2, TTL, TTL).unwrap());
        for gate in [latch, barrier] {
            if let Some(layout) = layout.gate(gate) {
                self.play(&*layout, &format!("{name} {}", gate.name()));
            }
        }
    }
}

/// CRC-16/XMODEM of what is in the first braces, if anything is, else of all of it.
fn slot(key: &str) -> u16 {
    let tag = key.split_once('{').and_then(|(_, rest)| rest.split_once('}')).map(|(tag, _)| tag);
    let hashed = tag.filter(|tag| !tag.is_empty()).unwrap_or(key);
    let crc = hashed.bytes().fold(0u16, |crc, byte| {
        (0..8)
            .fold(crc ^ (u16::from(byte) << 8), |crc, _| if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 })
    });
    crc % 16384
}

#[test]
fn every_script_touches_only_keys_that_it_names() {
    let mut server = Server::connect();
    let now = server.later();
    let (calls, bodies) = (BTreeSet::new(), BTreeSet::new());
    let mut played = Played { server, now, calls, bodies, in_one_slot: false };
    let prefix = format!("keys {}:", std::process::id());
    let on_cluster: Vec<_> = layouts::of_cluster(&prefix);
    let without_tokens = tokenless::layouts(&prefix, true);
    for (layouts, in_one_slot) in [(layouts::all(&prefix), false), (on_cluster, true), (without_tokens, true)] {
        played.in_one_slot = in_one_slot;
        let mut known = "";
        for layout in &layouts {
            // Formats differ in what is written, and not in the keys.
            let names = if known == layout.name() { &["x"][..] } else { &["x", "of {a tag}", "{}x", "a}{b"] };
            known = layout.name();
            for name in names {
                let format = layout.format().unwrap_or_default();
                played.play_all(layout, &format!("{name} {} {format} {in_one_slot}", layout.name()));
            }
        }
    }
    let look = Request::new(&marker::MARK, format!("lwq:{{{prefix}}}").into(), ["run".into(), Arg::Int(1)]);
    played.ask(&look);
    played.inquire(layouts::survey::eviction(&prefix));
    played.inquire(layouts::examination::examine(&prefix, 0, u64::default));
    let missed: Vec<_> =
        layouts::by_digest().filter(|call| !played.bodies.contains(call.body)).map(|call| call.name).collect();
    assert!(missed.is_empty(), "no key of these was looked at: {missed:?}");
    println!("{} scripts: {:?}", played.bodies.len(), played.calls);
}
