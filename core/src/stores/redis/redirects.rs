//! One write to a cluster: which node each of its requests goes to, and what is left of it after the answers. Pure;
//! the [cluster](super::cluster) does the sending.
//!
//! | a node answers | it means | and then |
//! |---|---|---|
//! | `MOVED slot node` | the slot is there | it is asked there, and the map of slots learns it |
//! | `ASK slot node` | this key is there already | it is asked there, after `ASKING`; the map stays |
//! | `TRYAGAIN` | keys of one request are at two nodes | again, a moment later |
//! | `CLUSTERDOWN`, `LOADING`, `MASTERDOWN` | it does not serve | as if it had not been reached |
//! | anything else | it did it, or refused it | that is the reply |

use super::config::Endpoint;
use super::slots;
use crate::error::{Error, Kind};
use crate::protocol::{Reply, Request, Requests};
use crate::stores::{Answered, Outcome};
use crate::time::Time;

/// So often may one request be sent elsewhere: nodes that name one another for ever are none of a cluster.
const HOPS: usize = 8;

/// See the [module](self).
pub(super) struct Open {
    each: Vec<Fate>,
    sent: Option<Time>,
    error: Option<Error>,
    void_after: Option<Time>,
    rounds: usize,
    /// Where slots are that were thought to be elsewhere.
    pub(super) moved: Vec<(u16, Endpoint)>,
    /// A node was not reached, or does not serve: the map may be old.
    pub(super) in_trouble: bool,
    /// Something is to be asked again a moment later.
    pub(super) pauses: bool,
}

/// What becomes of a request.
enum Fate {
    /// It goes to whoever has its slot.
    Open,
    /// It goes there, which is to be told so.
    Asking(Endpoint),
    Over(Reply),
}

/// The requests for one node.
pub(super) struct Part {
    pub(super) node: Endpoint,
    pub(super) asking: bool,
    pub(super) requests: Requests,
    /// Their places in the write.
    at: Vec<usize>,
}

impl Open {
    pub(super) fn new(requests: &[Request]) -> Self {
        let each = requests.iter().map(|_| Fate::Open).collect();
        let (moved, in_trouble, pauses) = (Vec::new(), false, false);
        Open { each, sent: None, error: None, void_after: None, rounds: 0, moved, in_trouble, pauses }
    }

    /// What to ask now, and whom: none once it is over. `owner` knows who has a slot.
    pub(super) fn parts(&mut self, requests: &[Request], owner: impl Fn(u16) -> Option<Endpoint>) -> Vec<Part> {
        self.rounds += 1;
        (self.in_trouble, self.pauses) = (false, false);
        let mut open: Vec<(u16, usize)> = Vec::with_capacity(requests.len());
        for (at, (fate, request)) in self.each.iter().zip(requests).enumerate() {
            if !matches!(fate, Fate::Over(_)) {
                open.push((slots::of(&request.key), at));
            }
        }
        // What lies in one slot may travel in one command.
        open.sort_unstable();
        let mut parts: Vec<Part> = Vec::new();
        for (slot, at) in open {
            let (node, asking) = match &self.each[at] {
                Fate::Asking(node) => (Some(node.clone()), true),
                _ => (owner(slot), false),
            };
            let Some(node) = node.filter(|_| self.rounds <= HOPS) else {
                self.give_up(at);
                continue;
            };
            let known = parts.iter().position(|part| part.node == node && part.asking == asking);
            let known = known.unwrap_or_else(|| {
                parts.push(Part { node, asking, requests: Requests::new(), at: Vec::new() });
                parts.len() - 1
            });
            parts[known].requests.push(requests[at].clone());
            parts[known].at.push(at);
        }
        parts
    }

    /// Nobody is to be asked: it was not executed, wherever it was sent.
    fn give_up(&mut self, at: usize) {
        self.each[at] = Fate::Over(Reply::Unsent);
        self.in_trouble = true;
        let message = "no node of the cluster serves the slot of this lock; see CLUSTER INFO and CLUSTER SLOTS";
        self.error.get_or_insert_with(|| Error::new(Kind::Unavailable, "connect", message));
    }

    /// Gives up what is open yet, at the time limit.
    pub(super) fn give_up_all(&mut self) {
        for at in 0..self.each.len() {
            if !matches!(self.each[at], Fate::Over(_)) {
                self.give_up(at);
            }
        }
    }

    /// Takes the answer to a part.
    pub(super) fn take(&mut self, part: Part, Answered { sent, outcome }: Answered) {
        self.sent = Some(self.sent.map_or(sent, |first| first.min(sent)));
        let (replies, silent) = match outcome {
            Outcome::Replies(replies) => (replies, Reply::Silent),
            Outcome::NotSent(error) => (self.fails(error, None), Reply::Unsent),
            Outcome::Unknown { error, void_after } => (self.fails(error, Some(void_after)), Reply::Silent),
            Outcome::Partly { replies, error, void_after } => {
                self.fails(error, void_after);
                (replies, Reply::Silent)
            }
        };
        let mut replies = replies.into_iter();
        for at in part.at {
            self.each[at] = self.fate(replies.next().unwrap_or_else(|| silent.clone()), &part.node);
        }
    }

    fn fails(&mut self, error: Error, void_after: Option<Time>) -> Vec<Reply> {
        self.in_trouble = true;
        self.void_after = self.void_after.max(void_after);
        self.error.get_or_insert(error);
        Vec::new()
    }

    fn fate(&mut self, reply: Reply, asked: &Endpoint) -> Fate {
        let Reply::Error { code, message } = &reply else { return Fate::Over(reply) };
        let redirection = || slots::redirection(message, asked);
        match &**code {
            "MOVED" => match redirection() {
                Some(moved) => {
                    self.moved.push(moved);
                    Fate::Open
                }
                None => Fate::Over(reply),
            },
            "ASK" => redirection().map_or(Fate::Over(reply), |(_, node)| Fate::Asking(node)),
            "TRYAGAIN" => {
                self.pauses = true;
                Fate::Open
            }
            "CLUSTERDOWN" | "LOADING" | "MASTERDOWN" => {
                let message = format!("a node of the cluster does not serve ({code} {message}); it may pass by itself");
                self.fails(Error::new(Kind::Unavailable, "connect", message), None);
                Fate::Over(Reply::Unsent)
            }
            _ => Fate::Over(reply),
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.each.iter().all(|fate| matches!(fate, Fate::Over(_)))
    }

    /// The answer to all of it, once it is over.
    pub(super) fn answered(self, now: Time) -> Answered {
        let replies = self.each.into_iter().map(|fate| match fate {
            Fate::Over(reply) => reply,
            Fate::Open | Fate::Asking(_) => Reply::Unsent,
        });
        let outcome = Outcome::of(replies.collect(), self.error, self.void_after);
        Answered { sent: self.sent.unwrap_or(now), outcome }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Call;

    static CALL: Call = Call { name: "ask", body: &[], batch: true };

    fn node(port: u16) -> Endpoint {
        Endpoint::Tcp { host: "h".into(), port }
    }

    fn requests(keys: &[&str]) -> Vec<Request> {
        keys.iter().map(|key| Request::new(&CALL, (*key).into(), [])).collect()
    }

    fn error(code: &str, message: &str) -> Reply {
        Reply::Error { code: code.into(), message: message.into() }
    }

    fn said(replies: Vec<Reply>) -> Answered {
        Answered { sent: Time::ZERO, outcome: Outcome::Replies(replies) }
    }

    /// What becomes of one request whose nodes answer this, and whom was asked, and whether after `ASKING`.
    fn played(answers: &[Reply]) -> (Outcome, Vec<(Endpoint, bool)>) {
        let requests = requests(&["x"]);
        let mut open = Open::new(&requests);
        let (mut asked, mut answers) = (Vec::new(), answers.iter().cloned());
        let mut owner = node(1);
        while !open.is_over() {
            for part in open.parts(&requests, |_| Some(owner.clone())) {
                asked.push((part.node.clone(), part.asking));
                open.take(part, said(vec![answers.next().unwrap_or(Reply::Int(7))]));
            }
            owner = open.moved.last().map_or(owner, |(_, to)| to.clone());
        }
        (open.answered(Time::ZERO).outcome, asked)
    }

    #[test]
    fn a_request_goes_where_it_is_sent_until_it_is_answered() {
        let (moved, ask) = (error("MOVED", "1 h:2"), error("ASK", "1 h:3"));
        for (answers, asked) in [
            (vec![], vec![(1, false)]),
            (vec![moved.clone()], vec![(1, false), (2, false)]),
            (vec![ask.clone()], vec![(1, false), (3, true)]),
            (vec![ask.clone(), error("TRYAGAIN", "")], vec![(1, false), (3, true), (1, false)]),
            (vec![moved.clone(), ask.clone(), moved.clone()], vec![(1, false), (2, false), (3, true), (2, false)]),
        ] {
            let (outcome, nodes) = played(&answers);
            assert!(matches!(&outcome, Outcome::Replies(replies) if replies[..] == [Reply::Int(7)]), "{outcome:?}");
            assert_eq!(nodes, asked.into_iter().map(|(port, asking)| (node(port), asking)).collect::<Vec<_>>());
        }
        let (outcome, nodes) = played(&vec![moved; 100]);
        assert!(matches!(outcome, Outcome::NotSent(_)) && nodes.len() == HOPS, "{outcome:?}");
        let (outcome, _) = played(&[error("CLUSTERDOWN", "The cluster is down")]);
        assert!(matches!(outcome, Outcome::NotSent(_)), "{outcome:?}");
        let (outcome, _) = played(&[error("WRONGTYPE", "no")]);
        assert!(matches!(outcome, Outcome::Replies(_)), "{outcome:?}");
    }

    #[test]
    fn each_node_is_asked_once_and_replies_are_in_the_order_of_the_requests() {
        let requests = requests(&["{a}1", "{b}1", "{a}2", "{c}1", "{b}2"]);
        let mut open = Open::new(&requests);
        let of_b = slots::of("b");
        let parts = open.parts(&requests, |slot| Some(node(if slot == of_b { 2 } else { 1 })));
        assert_eq!(parts.len(), 2);
        for part in parts {
            let slots: Vec<_> = part.requests.iter().map(|request| slots::of(&request.key)).collect();
            assert!(slots.is_sorted(), "those of one slot are neighbours");
            let reply = |request: &Request| Reply::Text(request.key.to_string());
            let replies = part.requests.iter().map(reply).collect();
            match part.node == node(2) {
                true => open.take(part, said(replies)),
                false => {
                    let error = Error::new(Kind::Unavailable, "connect", "gone");
                    open.take(part, Answered { sent: Time::ZERO, outcome: Outcome::NotSent(error) });
                }
            }
        }
        assert!(open.is_over() && open.in_trouble);
        let Outcome::Partly { replies, void_after: None, .. } = open.answered(Time::ZERO).outcome else { panic!() };
        let text = |text: &str| Reply::Text(text.into());
        assert_eq!(replies, [Reply::Unsent, text("{b}1"), Reply::Unsent, Reply::Unsent, text("{b}2")]);
    }
}
