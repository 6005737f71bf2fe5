//! A write to several nodes, each of which is a store: it goes out to all at once, and one that does not answer is no
//! failure of the others.

#![cfg_attr(not(feature = "unstable-store"), allow(unreachable_pub))]

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use super::{Answered, BoxFuture, Outcome, Store, not_sent};
use crate::error::{Error, Kind};
use crate::platform::clock;
use crate::protocol::{Arg, Node, Reply, Request, Requests};
use crate::time::Time;

/// Performs `requests` on `nodes`, each on the one that it [is for](Request::at), or on the first; what
/// [`Store::call_async`] of a store does that has several.
pub async fn on_nodes(nodes: &[Arc<dyn Store>], requests: &Requests, limit: Time) -> Answered {
    let mut parts: Vec<(Node, Requests)> = Vec::new();
    for request in requests {
        let node = request.node().unwrap_or_default();
        let at = parts.iter().position(|(of, _)| *of == node).unwrap_or_else(|| {
            parts.push((node, Requests::new()));
            parts.len() - 1
        });
        parts[at].1.push(plain(request));
    }
    let mut calls: Vec<Call<'_>> = parts.iter().map(|part| Call::of(nodes, part, limit)).collect();
    poll_fn(|context| {
        let mut is_over = true;
        for call in &mut calls {
            if call.answered.is_none() {
                match call.future.as_mut().poll(context) {
                    Poll::Ready(answered) => call.answered = Some(answered),
                    Poll::Pending => is_over = false,
                }
            }
        }
        if is_over { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    joined(requests, calls)
}

/// What one node is asked, and its answer.
struct Call<'a> {
    node: Node,
    future: BoxFuture<'a, Answered>,
    answered: Option<Answered>,
}

impl<'a> Call<'a> {
    fn of(nodes: &'a [Arc<dyn Store>], (node, requests): &'a (Node, Requests), limit: Time) -> Self {
        let future: BoxFuture<'a, Answered> = match nodes.get(usize::from(node.0)) {
            Some(store) => store.call_async(requests, limit),
            None => Box::pin(std::future::ready(not_sent(nowhere(*node)))),
        };
        Call { node: *node, future, answered: None }
    }
}

/// The request as its node knows it.
fn plain(request: &Request) -> Request {
    let mut plain = request.clone();
    plain.args.pop_if(|last| matches!(last, Arg::Node(_)));
    plain
}

/// The answer of all nodes. Leases count from when the first was asked.
fn joined(requests: &Requests, calls: Vec<Call<'_>>) -> Answered {
    let mut sent: Option<Time> = None;
    let (mut why, mut void_after) = (None, None);
    let mut replies: Vec<(Node, std::vec::IntoIter<Reply>)> = Vec::new();
    for Call { node, answered, .. } in calls {
        let Some(Answered { sent: left, outcome }) = answered else { continue };
        sent = Some(sent.map_or(left, |sent| sent.min(left)));
        match outcome {
            Outcome::Replies(all) => replies.push((node, all.into_iter())),
            Outcome::NotSent(error) => why = why.or(Some(error)),
            Outcome::Unknown { error, void_after: until } => {
                (why, void_after) = (why.or(Some(error)), void_after.max(Some(until)));
            }
            Outcome::Partly { replies: some, error, void_after: until } => {
                (why, void_after) = (why.or(Some(error)), void_after.max(until));
                replies.push((node, some.into_iter()));
            }
        }
    }
    let mut reply_to = |request: &Request| {
        let node = request.node().unwrap_or_default();
        replies.iter_mut().find(|(of, _)| *of == node).and_then(|(_, left)| left.next()).unwrap_or(Reply::Silent)
    };
    let replies = requests.iter().map(&mut reply_to).collect();
    Answered { sent: sent.unwrap_or_else(clock::now), outcome: Outcome::of(replies, why, void_after) }
}

fn nowhere(node: Node) -> Error {
    Error::new(Kind::Internal, "connect", format!("there is no node {}; please report this", node.0))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::sync::Barrier;

    use super::*;
    use crate::protocol::Layout;

    static CALL: crate::protocol::Call = crate::protocol::Call { name: "ask", body: "", batch: false };

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
            assert_eq!((replies, void_after), (silent_or([Some(0), None, Some(22), Some(3), None, Some(25)]), until));
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
