//! A layout on several nodes.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::inquiries;
use super::machine::{QuorumMachine, Shape, ttl_above};
use super::marker::Marker;
use super::nodes::MOST;
use crate::error::{Error, Result};
use crate::guarantee::{ExclusiveUntil, Guarantees, TokenRises};
use crate::lease::Inspection;
use crate::options::AcquireOptions;
use crate::protocol::{AttemptId, Inquiry, Layout, Protocol, Terms};
use crate::share::{Primitive, Share};
use crate::span::written;

/// One node, as a quorum knows it.
#[derive(Clone, Debug)]
pub struct Member {
    /// Its address without credentials, for errors.
    pub address: Arc<str>,
    /// The layout that its locks lie in.
    pub layout: Arc<dyn Layout>,
    /// By which it says how long it has had what it keeps.
    pub marker: Marker,
}

/// How long things may take on the nodes of a quorum.
#[derive(Clone, Copy, Debug)]
pub struct Leases {
    /// The longest lease there may be: for so long a node that has forgotten what it granted does not count.
    pub max_ttl: Duration,
    /// How long a node may take to answer.
    pub node_timeout: Duration,
}

/// The locks of a layout, each on all of several nodes.
#[derive(Clone)]
pub struct QuorumLayout {
    shape: Arc<Shape>,
    node_timeout: Duration,
    /// That of each node; the same, but for what is put before a name.
    each: Vec<Arc<dyn Layout>>,
    /// Somebody insists on tokens that rise.
    fenced: Arc<AtomicBool>,
    /// Whoever holds is known to everybody by one token.
    agreed: bool,
}

impl QuorumLayout {
    /// That of these members.
    ///
    /// # Errors
    /// `invalid_config` for too many or too few members, `unsupported` for a layout that is no good on several nodes.
    pub fn new(members: Vec<Member>, leases: Leases, fenced: Arc<AtomicBool>) -> Result<Self> {
        if !(2..=MOST).contains(&members.len()) {
            let message = format!("a quorum has 2 to {MOST} nodes, best 3 or 5; these are {}", members.len());
            return Err(Error::invalid("connect", message));
        }
        let (mut addresses, mut markers, mut each) = (Vec::new(), Vec::new(), Vec::new());
        for Member { address, layout, marker } in members {
            addresses.push(address);
            markers.push(marker);
            each.push(layout);
        }
        let Leases { max_ttl, node_timeout } = leases;
        Ok(QuorumLayout {
            shape: Arc::new(Shape { addresses, markers, max_ttl }),
            node_timeout,
            each,
            fenced,
            agreed: false,
        })
    }

    fn one(&self) -> &dyn Layout {
        &*self.each[0]
    }

    /// The key on each node; see [`key`](Layout::key).
    fn keys(&self, key: &Arc<str>) -> Vec<Arc<str>> {
        match key.contains(BETWEEN) {
            true => key.split(BETWEEN).map(Arc::from).collect(),
            false => vec![key.clone(); self.each.len()],
        }
    }

    fn can_raise(&self) -> bool {
        let anybody = Terms::of_secret("".into(), AttemptId(1), Duration::from_secs(1), "".into());
        self.one().protocol("".into()).raise(&anybody, 1).is_some()
    }

    fn each_at(&self, key: &Arc<str>) -> Vec<(&dyn Layout, Arc<str>)> {
        self.each.iter().map(|layout| &**layout).zip(self.keys(key)).collect()
    }
}

/// Stands between the keys of a lock where they are not the same on all nodes; no name has it.
const BETWEEN: char = '\n';

/// The store's name where locks lie on several of it.
fn quorum_of(store: &'static str) -> &'static str {
    match store {
        "redis" => "redis quorum",
        "sqlite" => "sqlite quorum",
        _ => "quorum",
    }
}

/// What holds where each node has tokens.
const NOTES: &[&str] = &[
    AGE,
    CLOCKS,
    "Tokens rise over all holders if every client requires fenced, which takes one more round to the nodes; else they rise as far as the nodes' clocks agree.",
    POLLS,
    SEMAPHORES,
];

/// What holds where none has.
const WITHOUT_TOKENS: &[&str] = &[
    AGE,
    CLOCKS,
    "No holder has a fencing token.",
    "A node may take the lock for a try that it executes after nobody waits for the answer any more: it keeps it there until its ttl ends.",
    POLLS,
    SEMAPHORES,
];

const AGE: &str = "A node counts once what it keeps is older than max_ttl: one that was restarted, emptied, promoted or is new is out for so long.";
const CLOCKS: &str = "A node whose clock is stepped forward frees what it granted early; where a lock is held on a bare majority, another holder is possible then.";
const POLLS: &str = "Waiters poll, in no order: with several processes, one of them may wait long.";
const SEMAPHORES: &str =
    "Semaphores are refused: of more than one permit, majorities of the nodes could grant more than there are.";

impl Layout for QuorumLayout {
    fn name(&self) -> &'static str {
        self.one().name()
    }

    fn format(&self) -> Option<&'static str> {
        self.one().format()
    }

    fn guarantees(&self) -> Guarantees {
        let one = self.one().guarantees();
        let token = if self.can_raise() { TokenRises::WithStoreClock } else { TokenRises::Never };
        let notes = if one.token == TokenRises::Never { WITHOUT_TOKENS } else { NOTES };
        Guarantees {
            store: quorum_of(one.store),
            exclusive_until: ExclusiveUntil::NodeClock,
            token,
            fair: false,
            push: false,
            notes,
            ..one
        }
    }

    /// Where nodes have different prefixes, the keys of all of them, one a line.
    fn key(&self, name: &str) -> Result<Arc<str>> {
        let keys = self.each.iter().map(|layout| layout.key(name)).collect::<Result<Vec<_>>>()?;
        Ok(match keys.iter().all(|key| *key == keys[0]) {
            true => keys[0].clone(),
            false => keys.join(&BETWEEN.to_string()).into(),
        })
    }

    fn check(&self, options: &AcquireOptions) -> Result<()> {
        if options.ttl > self.shape.max_ttl {
            return Err(ttl_above("lock", options.ttl, self.shape.max_ttl));
        }
        if options.ttl < self.node_timeout * 2 {
            let message = format!(
                "ttl is {}, of which a node that does not answer may take {} (node_timeout); make the ttl longer, or \
                 node_timeout shorter",
                written(options.ttl),
                written(self.node_timeout)
            );
            return Err(Error::invalid("lock", message));
        }
        self.one().check(options)
    }

    fn protocol(&self, key: Arc<str>) -> Box<dyn Protocol> {
        let each = self.each_at(&key).into_iter().map(|(layout, key)| layout.protocol(key)).collect();
        let fences = self.agreed || self.fenced.load(Ordering::Relaxed);
        Box::new(QuorumMachine::new(self.shape.clone(), each, fences))
    }

    fn agreed(&self) -> Option<Arc<dyn Layout>> {
        self.can_raise().then(|| -> Arc<dyn Layout> { Arc::new(QuorumLayout { agreed: true, ..self.clone() }) })
    }

    fn is_agreed(&self) -> bool {
        self.agreed
    }

    /// A reader and a writer cannot both have a majority, since one node would have to grant both. Of a semaphore with
    /// more than one permit, more than there are could have one each.
    fn shared(&self, share: Share) -> Option<Arc<dyn Layout>> {
        if share.primitive != Primitive::RwLock || self.name() != "native" {
            return None;
        }
        let each = self.each.iter().map(|layout| layout.shared(share)).collect::<Option<Vec<_>>>()?;
        Some(Arc::new(QuorumLayout { each, ..self.clone() }))
    }

    fn share(&self) -> Option<Share> {
        self.one().share()
    }

    fn inspect<'a>(&'a self, name: &'a str, key: Arc<str>) -> Inquiry<'a, Inspection> {
        let each = self.each_at(&key);
        let looks = each.into_iter().map(|(layout, key)| layout.inspect(name, key)).collect();
        inquiries::inspect(&self.shape, self.agreed, looks)
    }

    fn identify<'a>(&'a self, name: &'a str, key: Arc<str>) -> Inquiry<'a, Inspection> {
        let each = self.each_at(&key);
        let looks = each.into_iter().map(|(layout, key)| layout.identify(name, key)).collect();
        inquiries::inspect(&self.shape, self.agreed, looks)
    }

    fn break_hold(&self, key: Arc<str>, token: u64) -> Inquiry<'_, bool> {
        inquiries::break_hold(&self.shape, self.each_at(&key), token)
    }

    fn list(&self) -> Inquiry<'static, Vec<String>> {
        inquiries::list(&self.shape, self.each.iter().map(|layout| layout.list()).collect())
    }
}

impl fmt::Debug for QuorumLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "QuorumLayout({:?} x {})", self.one(), self.each.len())
    }
}
