//! The machine of one lock on several nodes: that of its layout once for each node, and what the nodes' answers come
//! to.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use super::ballot::{Ballot, Outcome, Said};
use super::marker::{Age, Marker};
use super::nodes::Nodes;
use crate::error::{Error, Kind};
use crate::lease::ReleaseOutcome;
use crate::protocol::{
    Grant, Input, Intent, Node, Op, Protocol, Push, Reply, Request, Requests, Step, Term, Terms, Traits, Verdict,
};
use crate::replies::{nonsense, operation, refusal};
use crate::span::written;
use crate::token::Tokens;

/// What the machines of all locks on the same nodes have in common.
#[derive(Debug)]
pub(super) struct Shape {
    pub(super) addresses: Vec<Arc<str>>,
    pub(super) markers: Vec<Marker>,
    /// The longest lease there may be.
    pub(super) max_ttl: Duration,
}

/// How far an acquisition is.
#[derive(Clone, Debug)]
enum Stage {
    /// The nodes are asked.
    Asking,
    /// What was granted is given back, before this is said.
    GivingBack(Verdict),
    /// The highest token is written to those who granted.
    Fencing(Tokens),
}

/// See the [module](super).
pub struct QuorumMachine {
    shape: Arc<Shape>,
    /// The layout's own machine, for each node.
    each: Vec<Box<dyn Protocol>>,
    /// Whether the highest token is written to a majority before anybody is told.
    fences: bool,
    /// Those of the attempt that is served.
    terms: Option<Terms>,
    /// Where it is ours, as the node said last.
    held: Nodes,
    /// Where it may be, since a request was not answered.
    doubtful: Nodes,
    /// Who was asked for it and has not answered yet.
    trying: Nodes,
    /// Who gave it back.
    released: Nodes,
    /// Whose try was not answered when it was undone: which of the two came first is not known.
    crossed: Nodes,
    /// Who was told to give it back and did not answer. What it does late would free a grant of later, so this attempt
    /// does not ask it again.
    owing: Nodes,
    /// Who was asked last, in each conversation.
    asked: [Nodes; 4],
    stage: Stage,
    /// How often it was asked for in vain.
    rounds: u32,
}

impl QuorumMachine {
    pub(super) fn new(shape: Arc<Shape>, each: Vec<Box<dyn Protocol>>, fences: bool) -> Self {
        QuorumMachine {
            shape,
            each,
            fences,
            terms: None,
            held: Nodes::NONE,
            doubtful: Nodes::NONE,
            trying: Nodes::NONE,
            released: Nodes::NONE,
            crossed: Nodes::NONE,
            owing: Nodes::NONE,
            asked: [Nodes::NONE; 4],
            stage: Stage::Asking,
            rounds: 0,
        }
    }

    fn begin(&mut self, intent: Intent) -> Step {
        match intent {
            Intent::Acquire { terms, .. } => self.acquire(terms),
            Intent::Renew { ref terms, ttl } => match self.too_long(Op::Renew, ttl) {
                Some(refused) => refused,
                None => {
                    self.remember(terms);
                    self.ask(Op::Renew, self.held, &intent)
                }
            },
            Intent::Release { .. } => match self.where_it_may_be() {
                Nodes::NONE => Step::Done(Verdict::Released(ReleaseOutcome::Expired)),
                nodes => self.ask(Op::Release, nodes, &intent),
            },
            Intent::Undo { terms, .. } => match self.where_it_may_be() {
                Nodes::NONE => Step::Done(Verdict::Undone),
                nodes => {
                    self.crossed = self.trying;
                    self.ask(Op::Undo, nodes, &Intent::Undo { terms, prev: None })
                }
            },
        }
    }

    fn acquire(&mut self, terms: Terms) -> Step {
        if let Some(refused) = self.too_long(Op::Acquire, terms.ttl) {
            return refused;
        }
        self.remember(&terms);
        // What was not answered at all may be done yet.
        self.doubtful = self.doubtful.and(self.trying);
        if matches!(std::mem::replace(&mut self.stage, Stage::Asking), Stage::GivingBack(_)) {
            self.asked[Op::Acquire as usize].each().for_each(|node| self.owes(node));
        }
        self.trying = Nodes::first(self.each.len()).without(self.owing);
        if self.trying == Nodes::NONE {
            return self.tried(&[]);
        }
        let intent = Intent::Acquire { terms, wait: false, prev: None };
        match self.ask(Op::Acquire, self.trying, &intent) {
            Step::Ask(tries) => Step::Ask(self.with_looks(tries)),
            other => other,
        }
    }

    /// What an earlier attempt left is undone or forgotten.
    fn remember(&mut self, terms: &Terms) {
        if self.terms.as_ref().is_none_or(|known| known.attempt != terms.attempt) {
            (self.held, self.doubtful, self.trying, self.released, self.owing) = Default::default();
            self.crossed = Nodes::NONE;
            self.stage = Stage::Asking;
            self.rounds = 0;
        }
        self.terms = Some(terms.clone());
    }

    /// Behind each try the look at the node's marker: no loss can lie between the two.
    fn with_looks(&self, tries: Requests) -> Requests {
        let look = |node: Node| self.shape.markers[usize::from(node.0)].look(self.shape.max_ttl).at(node);
        let followed = |request: Request| {
            let look = look(request.node().unwrap_or_default());
            [request, look]
        };
        tries.into_iter().flat_map(followed).collect()
    }

    fn where_it_may_be(&self) -> Nodes {
        self.held.and(self.doubtful).and(self.trying)
    }

    /// Refuses a lease that a node could have forgotten before it counts again.
    fn too_long(&self, op: Op, ttl: Duration) -> Option<Step> {
        let longest = self.shape.max_ttl;
        (ttl > longest).then(|| Step::Done(Verdict::Failed(ttl_above(operation(op), ttl, longest))))
    }

    /// Asks these nodes for what is wanted, all in one write.
    fn ask(&mut self, op: Op, nodes: Nodes, intent: &Intent) -> Step {
        self.asked[op as usize] = nodes;
        let mut requests = Requests::new();
        for node in nodes.each() {
            match self.each[node].step(Input::Begin(intent.clone())) {
                Step::Ask(own) => requests.extend(own.into_iter().take(1).map(|request| request.at(Node(node as u16)))),
                Step::Done(verdict) => return Step::Done(verdict),
                Step::Wait(_) | Step::Ignore => return Step::Done(Verdict::Failed(unheard_of(op))),
            }
        }
        Step::Ask(requests)
    }

    fn answered(&mut self, op: Op, replies: &[Reply]) -> Step {
        match op {
            Op::Acquire => match std::mem::replace(&mut self.stage, Stage::Asking) {
                Stage::Asking => self.tried(replies),
                Stage::GivingBack(verdict) => {
                    self.hear(op, Op::Release, replies);
                    Step::Done(verdict)
                }
                Stage::Fencing(tokens) => self.fenced(replies, tokens),
            },
            Op::Renew => self.renewed(replies),
            Op::Release => self.gave_back(replies),
            Op::Undo => self.undone(replies),
        }
    }

    /// What the nodes asked in conversation `op` say, each as its own machine reads it as an answer of `kind`.
    fn hear(&mut self, op: Op, kind: Op, replies: &[Reply]) -> Vec<Said> {
        let asked = self.asked[op as usize];
        asked.each().zip(replies).map(|(node, reply)| self.hear_at(node, kind, reply)).collect()
    }

    fn hear_at(&mut self, node: usize, kind: Op, reply: &Reply) -> Said {
        if kind == Op::Acquire {
            self.trying.remove(node);
        }
        match reply {
            Reply::Unsent => return Said::Down,
            Reply::Silent => {
                match kind {
                    Op::Acquire => self.doubtful.add(node),
                    Op::Release => self.owes(node),
                    Op::Renew | Op::Undo => {}
                }
                return Said::Down;
            }
            _ => {}
        }
        match self.each[node].step(Input::Reply(kind, std::slice::from_ref(reply))) {
            Step::Done(Verdict::Granted(grant)) => {
                self.held.add(node);
                Said::Yes(grant.tokens)
            }
            Step::Done(Verdict::Held { remaining, .. }) => {
                self.held.remove(node);
                Said::No(remaining)
            }
            // It would ask on for whose it is. Nothing here depends on that before it is asked for again.
            Step::Ask(_) if kind == Op::Acquire => Said::No(Duration::MAX),
            Step::Done(Verdict::Renewed) => Said::Yes(None),
            Step::Done(Verdict::Released(ReleaseOutcome::Released)) => {
                self.held.remove(node);
                self.released.add(node);
                Said::Yes(None)
            }
            Step::Done(Verdict::Undone) if self.crossed.has(node) => Said::No(Duration::ZERO),
            Step::Done(Verdict::Gone(_) | Verdict::Released(_) | Verdict::Undone) => {
                self.held.remove(node);
                Said::No(Duration::ZERO)
            }
            Step::Done(Verdict::Late { .. }) => Said::Late,
            Step::Done(Verdict::Failed(error)) => {
                if kind == Op::Acquire {
                    self.doubtful.add(node);
                }
                Said::Refuses(error)
            }
            _ => Said::Refuses(nonsense(operation(kind), std::slice::from_ref(reply))),
        }
    }

    /// Whether it is given back there is not known, so that it counts no more.
    fn owes(&mut self, node: usize) {
        self.held.remove(node);
        self.doubtful.add(node);
        self.owing.add(node);
    }

    /// The answers to a try, each followed by what the node's marker says.
    fn tried(&mut self, replies: &[Reply]) -> Step {
        let answers: Vec<Reply> = replies.iter().step_by(2).cloned().collect();
        let looks = replies.iter().skip(1).step_by(2);
        let said = self.hear(Op::Acquire, Op::Acquire, &answers);
        let mut counted = said.into_iter().zip(looks).map(|(said, look)| counted(said, look));
        let all = Nodes::first(self.each.len());
        let owes = |node| self.owing.has(node);
        let said = all.each().map(|node| if owes(node) { Said::Owes } else { counted.next().unwrap_or(Said::Down) });
        let ballot = Ballot { said: said.collect(), asked: all, shape: self.shape.clone() };
        if ballot.yes() >= ballot.need() {
            return match ballot.tokens() {
                Some(tokens) if self.fences => self.fence(tokens),
                tokens => granted(tokens),
            };
        }
        let verdict = match ballot.refused("acquire") {
            Outcome::Held(longest) => Verdict::Held { remaining: self.pause(longest), at: None, prev: None },
            Outcome::NotYet(error) => Verdict::NotYet(error),
            Outcome::Hopeless(error) if self.owing != Nodes::NONE => Verdict::Spent(error),
            Outcome::Hopeless(error) => Verdict::Failed(error),
        };
        self.rounds = self.rounds.saturating_add(1);
        self.give_back(verdict)
    }

    /// Gives back what was granted, and says `verdict` then: what a minority granted keeps everybody else from a
    /// majority.
    fn give_back(&mut self, verdict: Verdict) -> Step {
        let Some(terms) = self.terms.clone().filter(|_| self.held != Nodes::NONE) else { return Step::Done(verdict) };
        self.stage = Stage::GivingBack(verdict);
        self.ask(Op::Acquire, self.held, &Intent::Release { terms, used: 0 })
    }

    /// Has those who granted keep the highest token, so that whoever holds it later has a higher one, and renews it
    /// there: the lease counts from the last write.
    fn fence(&mut self, tokens: Tokens) -> Step {
        let Some(terms) = self.terms.clone() else { return Step::Done(Verdict::Failed(unheard_of(Op::Acquire))) };
        let renew = Intent::Renew { ttl: terms.ttl, terms };
        let renewals = match self.ask(Op::Acquire, self.held, &renew) {
            Step::Ask(renewals) => renewals,
            other => return other,
        };
        let mut requests = Requests::new();
        for renewal in renewals {
            let node = renewal.node().unwrap_or_default();
            let Some(raise) = self.each[usize::from(node.0)].raise(renew.terms(), tokens.first()) else {
                let message = "this layout cannot write a fencing token back to the nodes; do not require it";
                return self.give_back(Verdict::Failed(Error::unsupported("acquire", message)));
            };
            requests.extend([raise.at(node), renewal]);
        }
        self.stage = Stage::Fencing(tokens);
        Step::Ask(requests)
    }

    /// The answers to that: a node that kept the token and renewed counts.
    fn fenced(&mut self, replies: &[Reply], tokens: Tokens) -> Step {
        let renewals: Vec<Reply> = replies.iter().skip(1).step_by(2).cloned().collect();
        let said = self.hear(Op::Acquire, Op::Renew, &renewals).into_iter().zip(replies.iter().step_by(2));
        let kept = |(said, raised): (Said, &Reply)| match (said, raised) {
            (said @ Said::Yes(_), Reply::Int(1)) => said,
            (Said::Yes(_), Reply::Error { code, message }) => Said::Refuses(refusal("acquire", code, message)),
            (Said::Yes(_), _) => Said::No(Duration::ZERO),
            (said, _) => said,
        };
        let ballot = self.ballot(Op::Acquire, said.map(kept).collect());
        if ballot.yes() >= ballot.need() {
            return granted(Some(tokens));
        }
        let error = ballot.error("acquire");
        self.give_back(Verdict::Failed(error))
    }

    fn renewed(&mut self, replies: &[Reply]) -> Step {
        let silent = |said: &Said| !matches!(said, Said::Yes(_) | Said::No(_));
        let said = self.hear(Op::Renew, Op::Renew, replies);
        let ballot = self.ballot(Op::Renew, said);
        Step::Done(match ballot.yes() {
            yes if yes >= ballot.need() => Verdict::Renewed,
            yes if yes + ballot.count(silent) >= ballot.need() => Verdict::Failed(ballot.error("renew")),
            _ => Verdict::Gone(ReleaseOutcome::Expired),
        })
    }

    fn gave_back(&mut self, replies: &[Reply]) -> Step {
        let silent = |said: &Said| !matches!(said, Said::Yes(_) | Said::No(_));
        let said = self.hear(Op::Release, Op::Release, replies);
        let ballot = self.ballot(Op::Release, said);
        Step::Done(match self.released.len() {
            yes if yes >= ballot.need() => Verdict::Released(ReleaseOutcome::Released),
            yes if yes + ballot.count(silent) >= ballot.need() => Verdict::Failed(ballot.error("release")),
            _ => Verdict::Released(ReleaseOutcome::Expired),
        })
    }

    fn undone(&mut self, replies: &[Reply]) -> Step {
        let said = self.hear(Op::Undo, Op::Undo, replies);
        let ballot = self.ballot(Op::Undo, said);
        // What a silent node may have is undone once it is heard, or ends by itself.
        Step::Done(match ballot.count(|said| matches!(said, Said::Down | Said::Refuses(_))) {
            0 => Verdict::Undone,
            _ => Verdict::Failed(ballot.error("cancel")),
        })
    }

    fn ballot(&self, op: Op, said: Vec<Said>) -> Ballot {
        Ballot { said, asked: self.asked[op as usize], shape: self.shape.clone() }
    }

    /// How long to wait before the next try: apart from those who try at the same time, so that the nodes are not
    /// divided among them once more. Sources of the spread: the attempt, which is random, and the number of the try.
    fn pause(&self, longest: Duration) -> Duration {
        const UNIT: Duration = Duration::from_millis(1);
        let attempt = self.terms.as_ref().map_or(0, |terms| terms.attempt.0);
        let mixed = (attempt as u64 ^ u64::from(self.rounds)).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56;
        let most = UNIT * (1 << self.rounds.min(6));
        (UNIT + most * mixed as u32 / 256).min(longest.max(UNIT))
    }
}

/// What a node that said this counts as, by its marker.
fn counted(said: Said, look: &Reply) -> Said {
    match (said, Age::read(look)) {
        (said @ (Said::Yes(_) | Said::No(_)), Some(Age::Known)) => said,
        (Said::Yes(_) | Said::No(_), Some(Age::Young(left))) => Said::Young(left),
        (Said::Yes(_) | Said::No(_), Some(Age::OtherTtl(other))) => Said::OtherTtl(other),
        (Said::Yes(_) | Said::No(_), None) => match look {
            Reply::Silent | Reply::Unsent => Said::Down,
            Reply::Error { code, message } => Said::Refuses(refusal("acquire", code, message)),
            other => Said::Refuses(nonsense("acquire", std::slice::from_ref(other))),
        },
        (said, _) => said,
    }
}

fn granted(tokens: Option<Tokens>) -> Step {
    Step::Done(Verdict::Granted(Grant { tokens, term: Term::FromRequest, prev: None }))
}

/// Why a lease of `ttl` is refused.
pub(super) fn ttl_above(operation: &'static str, ttl: Duration, longest: Duration) -> Error {
    let message = format!(
        "ttl is {}, and no lease on these nodes may be longer than max_ttl, {}: so long a node that has forgotten what \
         it granted does not count",
        written(ttl),
        written(longest)
    );
    Error::invalid(operation, message)
}

fn unheard_of(op: Op) -> Error {
    Error::new(Kind::Internal, operation(op), "the layout's machine did what none does on a node; please report this")
}

impl Protocol for QuorumMachine {
    fn step(&mut self, input: Input<'_>) -> Step {
        match input {
            Input::Begin(intent) => self.begin(intent),
            Input::Reply(op, replies) => self.answered(op, replies),
            Input::Event(_) => Step::Ignore,
        }
    }

    fn traits(&self) -> Traits {
        let block = self.each.first().map_or(1, |first| first.traits().block);
        Traits { block, yields: false, push: Push::None, bound: false }
    }

    fn duplicate(&self) -> Box<dyn Protocol> {
        Box::new(QuorumMachine {
            shape: self.shape.clone(),
            each: self.each.iter().map(|each| each.duplicate()).collect(),
            terms: self.terms.clone(),
            stage: self.stage.clone(),
            ..*self
        })
    }

    fn fingerprint(&self, mut state: &mut dyn Hasher) {
        self.each.iter().for_each(|each| each.fingerprint(state));
        (self.held, self.doubtful, self.trying, self.released, self.owing, self.crossed).hash(&mut state);
        (self.asked, self.rounds.min(6)).hash(&mut state);
        std::mem::discriminant(&self.stage).hash(&mut state);
    }
}

impl fmt::Debug for QuorumMachine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QuorumMachine")
            .field("each", &self.each.first())
            .field("held", &self.held)
            .finish_non_exhaustive()
    }
}
