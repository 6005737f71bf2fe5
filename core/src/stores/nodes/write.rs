//! A write to several nodes, each of which is a store: it goes out to all at once, and one that does not answer is no
//! failure of the others.
#![cfg_attr(not(feature = "unstable-store"), allow(unreachable_pub))]

use std::future::poll_fn;
#[cfg(any(feature = "unstable-store", test))]
use std::sync::Arc;
use std::task::Poll;

use crate::error::{Error, Kind};
use crate::platform::clock;
use crate::protocol::{Arg, Node, Reply, Request, Requests};
use crate::stores::{Answered, BoxFuture, Outcome};
#[cfg(any(feature = "unstable-store", test))]
use crate::stores::{Store, not_sent};
use crate::time::Time;

/// Performs `requests` on `nodes`, each on the one that it [is for](Request::at), or on the first; what
/// [`Store::call_async`] of a store does that has several.
#[cfg(any(feature = "unstable-store", test))]
pub async fn on_nodes(nodes: &[Arc<dyn Store>], requests: &Requests, limit: Time) -> Answered {
    let parts = parts(requests);
    let answers = all_at_once(&parts, |node, part| match nodes.get(usize::from(node.0)) {
        Some(store) => store.call_async(part, limit),
        None => Box::pin(std::future::ready(not_sent(nowhere(node)))),
    });
    joined(requests, answers.await)
}

/// What each node is asked.
pub(super) fn parts(requests: &Requests) -> Vec<(Node, Requests)> {
    let mut parts: Vec<(Node, Requests)> = Vec::new();
    for request in requests {
        let node = request.node().unwrap_or_default();
        let at = parts.iter().position(|(of, _)| *of == node).unwrap_or_else(|| {
            parts.push((node, Requests::new()));
            parts.len() - 1
        });
        parts[at].1.push(plain(request));
    }
    parts
}

/// What comes of asking every node its part, all of them at once.
pub(super) async fn all_at_once<'a>(
    parts: &'a [(Node, Requests)],
    ask: impl Fn(Node, &'a Requests) -> BoxFuture<'a, Answered>,
) -> Vec<(Node, Answered)> {
    let mut asked: Vec<_> = parts.iter().map(|(node, part)| (*node, ask(*node, part))).collect();
    let mut answers: Vec<Option<Answered>> = parts.iter().map(|_| None).collect();
    poll_fn(|context| {
        let mut is_over = true;
        for ((_, call), answer) in asked.iter_mut().zip(&mut answers) {
            if answer.is_none() {
                match call.as_mut().poll(context) {
                    Poll::Ready(answered) => *answer = Some(answered),
                    Poll::Pending => is_over = false,
                }
            }
        }
        if is_over { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    asked.iter().map(|(node, _)| *node).zip(answers.into_iter().flatten()).collect()
}

/// The request as its node knows it.
fn plain(request: &Request) -> Request {
    let mut plain = request.clone();
    plain.args.pop_if(|last| matches!(last, Arg::Node(_)));
    plain
}

/// The answer of all nodes. Leases count from when the first was asked.
pub(super) fn joined(requests: &Requests, answers: Vec<(Node, Answered)>) -> Answered {
    let mut sent: Option<Time> = None;
    let (mut why, mut void_after) = (None, None);
    let mut replies: Vec<(Node, std::vec::IntoIter<Reply>, Reply)> = Vec::new();
    for (node, Answered { sent: left, outcome }) in answers {
        sent = Some(sent.map_or(left, |sent| sent.min(left)));
        let (some, else_) = match outcome {
            Outcome::Replies(all) => (all, Reply::Silent),
            Outcome::NotSent(error) => {
                let turned_away = turned_away(&error);
                why = why.or(Some(error));
                (Vec::new(), turned_away)
            }
            Outcome::Unknown { error, void_after: until } => {
                (why, void_after) = (why.or(Some(error)), void_after.max(Some(until)));
                (Vec::new(), Reply::Silent)
            }
            Outcome::Partly { replies, error, void_after: until } => {
                (why, void_after) = (why.or(Some(error)), void_after.max(until));
                (replies, Reply::Silent)
            }
        };
        replies.push((node, some.into_iter(), else_));
    }
    let mut reply_to = |request: &Request| {
        let node = request.node().unwrap_or_default();
        let of = replies.iter_mut().find(|(of, ..)| *of == node);
        of.map_or(Reply::Silent, |(_, left, else_)| left.next().unwrap_or_else(|| else_.clone()))
    };
    let replies = requests.iter().map(&mut reply_to).collect();
    Answered { sent: sent.unwrap_or_else(clock::now), outcome: Outcome::of(replies, why, void_after) }
}

/// What a node answered that was not asked, for this reason: to be refused at its door is an answer.
fn turned_away(error: &Error) -> Reply {
    let code = match error.kind() {
        Kind::Auth => "NOAUTH",
        Kind::Protocol | Kind::InvalidConfig | Kind::Unsupported => "ERR",
        _ => return Reply::Unsent,
    };
    Reply::Error { code: code.into(), message: error.context().into() }
}

#[cfg(any(feature = "unstable-store", test))]
fn nowhere(node: Node) -> Error {
    Error::new(Kind::Internal, "connect", format!("there is no node {}; please report this", node.0))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::sync::Barrier;

    use super::*;
    use crate::protocol::Layout;

    static CALL: crate::protocol::Call = crate::protocol::Call { name: "ask", body: &[], batch: false };

    /// Answers with its number and that of the request, once everybody was asked; or not at all.
    #[derive(Debug)]
    struct One {
        number: i64,
        address: Arc<str>,
        all: Arc<Barrier>,
        fails: Option<fn() -> Outcome>,
    }

    impl Store for One {
        fn address(&self) -> &Arc<str> {
            &self.address
        }

        fn layouts(&self) -> &[Arc<dyn Layout>] {
            &[]
        }

        fn call_async<'a>(&'a self, requests: &'a Requests, _: Time) -> BoxFuture<'a, Answered> {
            Box::pin(async move {
                let all = tokio::time::timeout(Duration::from_secs(10), self.all.wait()).await;
                all.expect("all are asked at once");
                assert!(requests.iter().all(|request| request.node().is_none()));
                let reply = |request: &Request| match request.args[..] {
                    [Arg::Int(asked)] => Reply::Int(10 * self.number + asked),
                    _ => Reply::Nil,
                };
                let outcome =
                    self.fails.map_or_else(|| Outcome::Replies(requests.iter().map(reply).collect()), |fails| fails());
                Answered { sent: Time::from_nanos(100 - self.number as u64), outcome }
            })
        }

        fn void_after(&self, given_up: Time, _: Time) -> Time {
            given_up
        }
    }

    /// Three of them as one.
    #[derive(Debug)]
    struct Three(Vec<Arc<dyn Store>>);

    impl Store for Three {
        fn address(&self) -> &Arc<str> {
            self.0[0].address()
        }

        fn layouts(&self) -> &[Arc<dyn Layout>] {
            &[]
        }

        fn call_async<'a>(&'a self, requests: &'a Requests, limit: Time) -> BoxFuture<'a, Answered> {
            Box::pin(on_nodes(&self.0, requests, limit))
        }

        fn void_after(&self, given_up: Time, limit: Time) -> Time {
            self.0.iter().map(|node| node.void_after(given_up, limit)).max().unwrap_or(given_up)
        }
    }

    fn error() -> Error {
        Error::new(Kind::Unavailable, "connect", "not there")
    }

    /// What a thread is answered that asks each of three nodes twice, by turns.
    fn answered(fails: [Option<fn() -> Outcome>; 3]) -> Answered {
        let all = Arc::new(Barrier::new(3));
        let one = |(number, fails)| -> Arc<dyn Store> {
            Arc::new(One { number, address: "one://".into(), all: all.clone(), fails })
        };
        let store = Three((0..).zip(fails).map(one).collect());
        let request = |n: i64| Request::new(&CALL, "x".into(), [Arg::Int(n)]).at(Node((n % 3) as u16));
        let requests = Requests::from_vec((0..6).map(request).collect());
        let limit = clock::now().after(Duration::from_secs(10));
        // None of them answers before all are asked; a thread asks.
        store.call(&requests, limit)
    }

    fn silent_or(replies: [Option<i64>; 6]) -> Vec<Reply> {
        replies.map(|reply| reply.map_or(Reply::Silent, Reply::Int)).to_vec()
    }

    #[test]
    fn a_write_goes_to_all_nodes_at_once_and_is_answered_in_its_order() {
        let Answered { sent, outcome } = answered([None; 3]);
        let Outcome::Replies(replies) = outcome else { panic!("{outcome:?}") };
        assert_eq!(replies, silent_or([0, 11, 22, 3, 14, 25].map(Some)));
        assert_eq!(sent, Time::from_nanos(98), "leases count from the first");
    }

    #[test]
    fn a_node_that_does_not_answer_is_no_failure_of_the_others() {
        let lost: fn() -> Outcome = || Outcome::Unknown { error: error(), void_after: Time::from_nanos(7) };
        let away: fn() -> Outcome = || Outcome::NotSent(error());
        for (fails, until) in [(lost, Some(Time::from_nanos(7))), (away, None)] {
            let outcome = answered([None, Some(fails), None]).outcome;
            let Outcome::Partly { replies, void_after, .. } = outcome else { panic!("{outcome:?}") };
            let mut expected = silent_or([Some(0), None, Some(22), Some(3), None, Some(25)]);
            if until.is_none() {
                (expected[1], expected[4]) = (Reply::Unsent, Reply::Unsent);
            }
            assert_eq!((replies, void_after), (expected, until));
        }
        let nobody = answered([Some(away), Some(lost), Some(away)]).outcome;
        assert!(
            matches!(nobody, Outcome::Unknown { void_after, .. } if void_after == Time::from_nanos(7)),
            "{nobody:?}"
        );
        let nobody = answered([Some(away); 3]).outcome;
        assert!(matches!(nobody, Outcome::NotSent(_)), "{nobody:?}");
    }
}
