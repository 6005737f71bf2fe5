//! Statements on the tables of other libraries, as their layouts say them.

use std::sync::Arc;
use std::time::Duration;

use lockwright_machines::store_clock::StoreClock;

use super::patience::Patience;
use super::table::Failure;
use crate::error::Error;
use crate::platform::clock;
use crate::protocol::{Arg, Call, Reply, Request};
use crate::stores::{Answered, BoxFuture, Outcome, not_sent};
use crate::time::{StoreTime, Time};

/// Whether a request is a statement by itself; others are on [records](super::records).
pub(super) fn is_statement(request: &Request) -> bool {
    !request.call.body.is_empty()
}

/// A database that executes what layouts say.
pub(crate) trait Executor: Send + Sync + 'static {
    /// Asks what its clock says.
    const CLOCK: &'static Call;

    /// Does as `requests` of one call say, each by itself, but no later than `not_after` where they say so. What is
    /// refused since a table is not as they have it is answered so.
    fn execute<'a>(
        &'a self,
        requests: &'a [Request],
        not_after: StoreTime,
        patience: Duration,
    ) -> BoxFuture<'a, Result<Vec<Reply>, Failure>>;
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Statements<D> {
    database: D,
    clock: Arc<StoreClock>,
    patience: Patience,
}

/// Why a statement has no answer, and whether it may have been done.
struct Unanswered {
    error: Error,
    may_be_done: bool,
}

impl<D: Executor> Statements<D> {
    pub(super) fn new(database: D, clock: Arc<StoreClock>, patience: Patience) -> Self {
        Statements { database, clock, patience }
    }

    /// Does as the requests say, and gives up at `limit`. Those that travel together are done or not together.
    pub(super) async fn perform(&self, requests: &[Request], limit: Time) -> Answered {
        let mut replies = Vec::with_capacity(requests.len());
        let mut sent = None;
        for part in requests.chunk_by(|one, next| one.call.batch && std::ptr::eq(one.call, next.call)) {
            match self.part(part, limit).await {
                Ok((asked, more)) => {
                    sent.get_or_insert(asked);
                    replies.extend(more);
                }
                Err(Unanswered { error, may_be_done: false }) if replies.is_empty() => return not_sent(error),
                Err(Unanswered { error, .. }) => {
                    let now = clock::now();
                    let outcome = Outcome::Unknown { error, void_after: self.patience.void_after(now) };
                    return Answered { sent: sent.unwrap_or(now), outcome };
                }
            }
        }
        Answered { sent: sent.unwrap_or_else(clock::now), outcome: Outcome::Replies(replies) }
    }

    /// The replies to requests of one call, and when they were asked.
    async fn part(&self, requests: &[Request], limit: Time) -> Result<(Time, Vec<Reply>), Unanswered> {
        let is_dated = requests.iter().any(|request| request.args.contains(&Arg::NotAfter));
        let clock = [Request::new(D::CLOCK, "".into(), [])];
        loop {
            let asked = clock::now();
            let tells_time = is_dated && self.clock.is_old(asked);
            let answered = match self.patience.until(limit, asked) {
                Ok(patience) => self.ask(if tells_time { &clock } else { requests }, asked, patience).await,
                Err(failure) => Err(failure),
            };
            match answered {
                Ok(_) if tells_time => {}
                Ok(replies) => return Ok((asked, replies)),
                Err(Failure::Again) => {
                    tracing::debug!(target: "lockwright::store", "the database undid a statement in favour of others; it is asked again");
                }
                Err(Failure::NotDone(error)) => return Err(Unanswered { error, may_be_done: false }),
                Err(Failure::Unknown(error)) => return Err(Unanswered { error, may_be_done: !tells_time }),
            }
        }
    }

    async fn ask(&self, requests: &[Request], asked: Time, patience: Duration) -> Result<Vec<Reply>, Failure> {
        let not_after = self.clock.at(asked).after(patience);
        let replies = self.database.execute(requests, not_after, patience).await?;
        if let Some(now) = replies.iter().find_map(time) {
            self.clock.learn(clock::now(), now);
        }
        Ok(replies)
    }
}

/// Every row begins with what the database's clock says.
fn time(reply: &Reply) -> Option<StoreTime> {
    match reply {
        Reply::List(values) => match values.first() {
            Some(Reply::Text(now)) => now.parse().ok().map(StoreTime),
            _ => None,
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::future::ready;
    use std::sync::Mutex;

    use super::*;
    use crate::error::Kind;
    use crate::platform::mutex::locked;

    static CLOCK: Call = Call { name: "clock", body: &["SELECT now"], batch: false };
    static ACQUIRE: Call = Call { name: "acquire", body: &["INSERT"], batch: false };
    static RENEW: Call = Call { name: "renew", body: &["UPDATE"], batch: true };

    /// A database whose clock stands at ten seconds, and what it was asked.
    #[derive(Debug, Default)]
    struct Played {
        /// How the next ones end: not all of them badly.
        failures: Mutex<VecDeque<Option<Failure>>>,
        asked: Mutex<Vec<(&'static str, usize, StoreTime)>>,
    }

    impl Executor for Arc<Played> {
        const CLOCK: &'static Call = &CLOCK;

        fn execute<'a>(
            &'a self,
            requests: &'a [Request],
            not_after: StoreTime,
            _: Duration,
        ) -> BoxFuture<'a, Result<Vec<Reply>, Failure>> {
            locked(&self.asked).push((requests[0].call.name, requests.len(), not_after));
            let row = |_: &Request| Reply::List(vec![Reply::Text("10000000".into()), Reply::Text("1".into())]);
            Box::pin(ready(match locked(&self.failures).pop_front().flatten() {
                Some(failure) => Err(failure),
                None => Ok(requests.iter().map(row).collect()),
            }))
        }
    }

    fn statements() -> (Arc<Played>, Statements<Arc<Played>>) {
        let played = Arc::new(Played::default());
        let patience = Patience { response_timeout: Duration::from_secs(1), longest: Duration::from_secs(1) };
        (played.clone(), Statements::new(played, Arc::default(), patience))
    }

    fn acquire() -> Request {
        Request::new(&ACQUIRE, "k".into(), ["owner".into(), 30.into(), Arg::NotAfter])
    }

    fn renew(key: &str) -> Request {
        Request::new(&RENEW, key.into(), ["owner".into(), 30.into()])
    }

    async fn ask(statements: &Statements<Arc<Played>>, requests: &[Request]) -> Outcome {
        statements.perform(requests, clock::now().after(Duration::from_secs(5))).await.outcome
    }

    fn names(played: &Played) -> Vec<(&'static str, usize)> {
        locked(&played.asked).drain(..).map(|(name, requests, _)| (name, requests)).collect()
    }

    fn failed() -> Error {
        Error::new(Kind::Unavailable, "connect", "it failed")
    }

    #[tokio::test]
    async fn what_must_not_be_late_is_dated_by_the_databases_clock() {
        let (played, statements) = statements();
        assert!(matches!(ask(&statements, &[acquire()]).await, Outcome::Replies(replies) if replies.len() == 1));
        assert!(matches!(ask(&statements, &[acquire()]).await, Outcome::Replies(_)));
        let asked = locked(&played.asked).clone();
        assert_eq!(asked.iter().map(|(name, ..)| *name).collect::<Vec<_>>(), ["clock", "acquire", "acquire"]);
        for (_, _, not_after) in &asked[1..] {
            assert!((10_900_000..11_500_000).contains(&not_after.0), "{not_after:?}");
        }
    }

    #[tokio::test]
    async fn requests_that_may_travel_together_are_one_statement_and_others_are_not() {
        let (played, statements) = statements();
        let requests = [renew("a"), renew("b"), acquire(), acquire(), renew("c")];
        assert!(matches!(ask(&statements, &requests).await, Outcome::Replies(replies) if replies.len() == 5));
        assert_eq!(names(&played), [("renew", 2), ("acquire", 1), ("acquire", 1), ("renew", 1)]);
    }

    #[tokio::test]
    async fn what_the_database_undid_is_asked_again_and_what_it_may_have_done_is_said() {
        let (played, statements) = statements();
        locked(&played.failures).extend([Some(Failure::Again), Some(Failure::Again)]);
        assert!(matches!(ask(&statements, &[renew("a")]).await, Outcome::Replies(_)));
        locked(&played.failures).push_back(Some(Failure::NotDone(failed())));
        assert!(matches!(ask(&statements, &[renew("a")]).await, Outcome::NotSent(_)));
        locked(&played.failures).push_back(Some(Failure::Unknown(failed())));
        let Outcome::Unknown { void_after, .. } = ask(&statements, &[renew("a")]).await else {
            panic!("it may be done")
        };
        assert!(void_after.since(clock::now()) > Duration::from_millis(1900));
    }

    #[tokio::test]
    async fn behind_what_is_done_nothing_is_said_not_to_be() {
        let (played, statements) = statements();
        locked(&played.failures).extend([None, Some(Failure::NotDone(failed()))]);
        let outcome = ask(&statements, &[renew("a"), Request::new(&ACQUIRE, "k".into(), [])]).await;
        assert!(matches!(outcome, Outcome::Unknown { .. }), "{outcome:?}");
    }
}
