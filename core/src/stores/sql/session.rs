//! The session of a client: a connection of its own, on which the database keeps what that took.
//!
//! One task has the connection, and does in their order what is asked of it: all that is there goes out at once, but of
//! what concerns one key one thing after the other. Which attempt a key is kept for is known here alone, since the
//! database would give a connection again what it has.

use std::collections::{HashMap, HashSet, VecDeque};
use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex, Weak};
use std::task::Poll;
use std::time::Duration;

use lockwright_machines::stores::sql::of_connection::{UNSAID, Wanted};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

use super::database::Database;
use super::patience::silent;
use super::pinned::Pinned;
use super::table::Failure;
use crate::error::Error;
use crate::platform::clock;
use crate::platform::mutex::locked;
use crate::protocol::{Arg, Reply, Request};
use crate::session::margin;
use crate::stores::adapter::{Answered, Closing, Outcome, Sink, not_sent};
use crate::time::Time;

/// How many parts of its ttl a connection is silent for at most.
const BEATS: u32 = 4;
/// What goes out at once.
const BATCH: usize = 256;

/// See the [module](self).
pub(super) struct Session<D> {
    database: D,
    sink: Mutex<Option<Weak<dyn Sink>>>,
    queue: UnboundedSender<Asked>,
    asked: tokio::sync::Mutex<UnboundedReceiver<Asked>>,
    closing: Closing,
}

/// What somebody waits for.
struct Asked {
    wanted: Wanted,
    request: Request,
    answer: oneshot::Sender<Result<Reply, Unanswered>>,
}

/// Why there is no answer, and whether it may have been done.
#[derive(Clone)]
struct Unanswered {
    error: Error,
    may_be_done: bool,
}

impl<D: Database> Session<D> {
    pub(super) fn new(database: D) -> Self {
        let (queue, asked) = unbounded_channel();
        Session { database, sink: Mutex::default(), queue, asked: asked.into(), closing: Closing::default() }
    }

    /// Whoever is told of the session's life.
    pub(super) fn tell(&self, sink: Weak<dyn Sink>) {
        *locked(&self.sink) = Some(sink);
    }

    /// The connection ends.
    pub(super) fn close(&self) {
        self.closing.close();
    }

    /// Does as the requests say, and gives up at `limit`. What was not sent by then will not be, and nothing else comes
    /// behind its undo.
    pub(super) async fn perform(&self, requests: &[Request], limit: Time) -> Answered {
        let sent = clock::now();
        let (mut replies, mut trouble) = (Vec::with_capacity(requests.len()), None);
        for answer in requests.iter().map(|request| self.ask(request)).collect::<Vec<_>>() {
            match timeout(limit.since(clock::now()), answer).await {
                Ok(Ok(Ok(reply))) => replies.push(reply),
                Ok(Ok(Err(unanswered))) => trouble = Some(unanswered),
                Ok(Err(_)) | Err(_) => trouble = Some(Unanswered { error: silent(), may_be_done: true }),
            }
        }
        match trouble {
            None => Answered { sent, outcome: Outcome::Replies(replies) },
            Some(Unanswered { error, may_be_done: false }) if replies.is_empty() => not_sent(error),
            Some(Unanswered { error, .. }) => {
                Answered { sent, outcome: Outcome::Unknown { error, void_after: clock::now() } }
            }
        }
    }

    fn ask(&self, request: &Request) -> oneshot::Receiver<Result<Reply, Unanswered>> {
        let (answer, answered) = oneshot::channel();
        if let Some((_, wanted)) = Wanted::of(request) {
            // Nobody takes it where the client is closed.
            let _ = self.queue.send(Asked { wanted, request: request.clone(), answer });
        }
        answered
    }

    /// Has a connection as long as somebody is told of it, from the first request on.
    pub(super) async fn run(&self) {
        self.closing.cuts_short(self.connect_again()).await;
    }

    async fn connect_again(&self) {
        let mut asked = self.asked.lock().await;
        let mut waiting = VecDeque::new();
        while self.sink().is_some() {
            if waiting.is_empty() {
                let Some(first) = asked.recv().await else { return };
                waiting.push_back(first);
            }
            match self.database.pin().await {
                Ok(connection) => {
                    Life { session: self, connection, holds: Holds::default(), sent: clock::now() }
                        .last(&mut waiting, &mut asked)
                        .await;
                    self.told(|sink| sink.session_over());
                }
                Err(error) => {
                    take_all(&mut asked, &mut waiting);
                    let unanswered = Unanswered { error, may_be_done: false };
                    waiting.drain(..).for_each(|asked| asked.answered(Err(unanswered.clone())));
                }
            }
        }
    }

    fn sink(&self) -> Option<Arc<dyn Sink>> {
        locked(&self.sink).as_ref().and_then(Weak::upgrade)
    }

    fn told(&self, what: impl FnOnce(&dyn Sink)) {
        if let Some(sink) = self.sink() {
            what(&*sink);
        }
    }
}

impl Asked {
    fn answered(self, answer: Result<Reply, Unanswered>) {
        // Whoever asked may have given up.
        let _ = self.answer.send(answer);
    }

    /// What is sent of it: the database knows no attempts.
    fn sends(&self) -> Request {
        Request::new(self.request.call, self.request.key.clone(), [])
    }
}

fn take_all(asked: &mut UnboundedReceiver<Asked>, waiting: &mut VecDeque<Asked>) {
    while let Ok(more) = asked.try_recv() {
        waiting.push_back(more);
    }
}

/// One connection, and what it has.
struct Life<'a, D> {
    session: &'a Session<D>,
    connection: Box<dyn Pinned>,
    holds: Holds,
    /// When something left last that was answered.
    sent: Time,
}

/// Why there is something to do.
enum Woken {
    Asked(Asked),
    /// It was silent for long.
    Silent,
    Ended,
}

impl<D: Database> Life<'_, D> {
    /// Does what is asked until the connection ends.
    async fn last(mut self, waiting: &mut VecDeque<Asked>, asked: &mut UnboundedReceiver<Asked>) {
        loop {
            take_all(asked, waiting);
            if waiting.is_empty() {
                match self.woken(asked).await {
                    Woken::Asked(first) => {
                        waiting.push_back(first);
                        continue;
                    }
                    Woken::Silent if self.session.sink().is_some() => {}
                    Woken::Silent | Woken::Ended => return,
                }
            }
            if self.exchange(Batch::of(waiting, &self.holds)).await.is_err() {
                return;
            }
        }
    }

    async fn woken(&mut self, asked: &mut UnboundedReceiver<Asked>) -> Woken {
        let silent = (self.ttl() / BEATS).saturating_sub(clock::now().since(self.sent));
        let (mut asked, mut silent) = (pin!(asked.recv()), pin!(sleep(silent)));
        let mut ended = self.connection.ended();
        poll_fn(|context| {
            if let Poll::Ready(first) = asked.as_mut().poll(context) {
                return Poll::Ready(first.map_or(Woken::Ended, Woken::Asked));
            }
            if ended.as_mut().poll(context).is_ready() {
                return Poll::Ready(Woken::Ended);
            }
            silent.as_mut().poll(context).map(|()| Woken::Silent)
        })
        .await
    }

    fn ttl(&self) -> Duration {
        self.session.database.config().ttl
    }

    /// How long an answer is waited for: what is had is not given up for a database that is slow.
    fn patience(&self, now: Time) -> Duration {
        let lasts = if self.holds.0.is_empty() { Duration::ZERO } else { self.sent.after(self.ttl()).since(now) };
        self.session.database.config().response_timeout.max(lasts)
    }

    /// Has the batch done, or only asks for a sign of life; fails where the connection is of no use any more.
    async fn exchange(&mut self, batch: Batch) -> Result<(), ()> {
        let mut requests: Vec<_> = batch.sent.iter().map(Asked::sends).collect();
        if requests.is_empty() {
            requests.push(Request::new(D::CLOCK, "".into(), []));
        }
        let sent = clock::now();
        let answered = timeout(self.patience(sent), self.connection.ask(&requests)).await;
        let error = match answered {
            Ok(Ok(replies)) if replies.len() == requests.len() => {
                self.sent = sent;
                self.session.told(|sink| sink.session(sent.after(self.ttl()).before(margin(self.ttl()))));
                self.answer(batch, &replies);
                return Ok(());
            }
            Ok(Err(Failure::NotDone(error) | Failure::Unknown(error))) => error,
            Ok(Ok(_) | Err(Failure::Again)) | Err(_) => silent(),
        };
        let unanswered = Unanswered { error, may_be_done: true };
        let all = batch.sent.into_iter().chain(batch.known.into_iter().map(|(asked, _)| asked));
        all.for_each(|asked| asked.answered(Err(unanswered.clone())));
        Err(())
    }

    fn answer(&mut self, batch: Batch, replies: &[Reply]) {
        for (asked, reply) in batch.sent.into_iter().zip(replies) {
            let said = said(reply);
            if let Reply::Int(did) = said {
                self.holds.learn(asked.wanted, &asked.request, did);
            }
            asked.answered(Ok(said));
        }
        batch.known.into_iter().for_each(|(asked, did)| asked.answered(Ok(Reply::Int(did))));
    }
}

/// The number that a row begins with, or why there is none.
fn said(reply: &Reply) -> Reply {
    match reply {
        Reply::List(row) => match row.as_slice() {
            [Reply::Text(did), ..] => did.parse().map_or_else(|_| unsaid("it said no number"), Reply::Int),
            _ => unsaid("it said neither yes nor no"),
        },
        other => other.clone(),
    }
}

/// The answer of a database that said only this.
pub(super) fn unsaid(message: &str) -> Reply {
    Reply::Error { code: UNSAID.into(), message: message.into() }
}

/// What goes out at once, and what is answered without.
#[derive(Default)]
struct Batch {
    sent: Vec<Asked>,
    known: Vec<(Asked, i64)>,
}

impl Batch {
    /// As much of what is waiting as can be done at once. What nobody waits for any more is left out.
    fn of(waiting: &mut VecDeque<Asked>, holds: &Holds) -> Self {
        let (mut batch, mut busy, mut later) = (Batch::default(), HashSet::new(), VecDeque::new());
        while let Some(asked) = waiting.pop_front() {
            if asked.answer.is_closed() {
                continue;
            }
            if batch.sent.len() == BATCH || busy.contains(&asked.request.key) {
                // Whatever concerns this key stays behind it.
                busy.insert(asked.request.key.clone());
                later.push_back(asked);
                continue;
            }
            match holds.answer(asked.wanted, &asked.request) {
                Some(did) => batch.known.push((asked, did)),
                None => {
                    busy.insert(asked.request.key.clone());
                    batch.sent.push(asked);
                }
            }
        }
        *waiting = later;
        batch
    }
}

/// For which attempt the connection has each key, and since when.
#[derive(Debug, Default)]
struct Holds(HashMap<Arc<str>, (Arc<str>, i64)>);

impl Holds {
    /// What is known without asking the database.
    fn answer(&self, wanted: Wanted, request: &Request) -> Option<i64> {
        let had = self.0.get(&request.key);
        let own = had.filter(|(holder, _)| attempt(request) == Some(holder));
        match (wanted, own) {
            (Wanted::Take, None) if had.is_none() => None,
            (Wanted::Give, Some(_)) => None,
            (Wanted::Take, Some((_, since))) => Some(*since),
            (Wanted::Holds, own) => Some(own.is_some().into()),
            (Wanted::Take | Wanted::Give, None) => Some(0),
        }
    }

    /// What the database said to that.
    fn learn(&mut self, wanted: Wanted, request: &Request, did: i64) {
        match (wanted, attempt(request)) {
            (Wanted::Take, Some(attempt)) if did > 0 => {
                self.0.insert(request.key.clone(), (attempt.clone(), did));
            }
            (Wanted::Give, _) => {
                self.0.remove(&request.key);
            }
            _ => {}
        }
    }
}

/// For which attempt a lock is wanted.
pub(super) fn attempt(request: &Request) -> Option<&Arc<str>> {
    match request.args.first() {
        Some(Arg::Text(attempt)) => Some(attempt),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Call;

    static TAKE: Call = Call { name: "take", body: &["SELECT"], batch: true };
    static HOLDS: Call = Call { name: "holds", body: &[], batch: true };
    static GIVE: Call = Call { name: "give", body: &["SELECT"], batch: true };

    fn request(call: &'static Call, key: &str, attempt: &str) -> Request {
        Request::new(call, key.into(), [attempt.into()])
    }

    type Answer = oneshot::Receiver<Result<Reply, Unanswered>>;

    fn asked(call: &'static Call, key: &str, attempt: &str) -> (Asked, Answer) {
        let (request, (answer, answered)) = (request(call, key, attempt), oneshot::channel());
        (Asked { wanted: Wanted::of(&request).unwrap().1, request, answer }, answered)
    }

    fn holding() -> Holds {
        let mut holds = Holds::default();
        holds.learn(Wanted::Take, &request(&TAKE, "k", "a"), 7);
        holds
    }

    #[test]
    fn a_key_is_kept_for_one_attempt() {
        let mut holds = holding();
        let known = |holds: &Holds, call, attempt| {
            let request = request(call, "k", attempt);
            holds.answer(Wanted::of(&request).unwrap().1, &request)
        };
        assert_eq!((known(&holds, &TAKE, "a"), known(&holds, &TAKE, "b")), (Some(7), Some(0)));
        assert_eq!((known(&holds, &HOLDS, "a"), known(&holds, &HOLDS, "b")), (Some(1), Some(0)));
        assert_eq!((known(&holds, &GIVE, "a"), known(&holds, &GIVE, "b")), (None, Some(0)));
        holds.learn(Wanted::Give, &request(&GIVE, "k", "a"), 1);
        assert_eq!((known(&holds, &TAKE, "b"), known(&holds, &HOLDS, "a")), (None, Some(0)));
        holds.learn(Wanted::Take, &request(&TAKE, "k", "b"), 0);
        assert_eq!(known(&holds, &HOLDS, "b"), Some(0));
    }

    #[test]
    fn of_one_key_one_thing_is_done_after_the_other_and_what_nobody_waits_for_is_not() {
        let all = [
            asked(&GIVE, "k", "a"),
            asked(&TAKE, "k", "b"),
            asked(&TAKE, "other", "c"),
            asked(&GIVE, "k", "b"),
            asked(&HOLDS, "third", "d"),
            asked(&TAKE, "fourth", "e"),
        ];
        let (waits, mut answers): (VecDeque<_>, Vec<_>) = all.into_iter().unzip();
        let mut waiting = waits;
        drop(answers.pop());
        let of = |asked: &Asked| format!("{} {}", asked.request.call.name, asked.request.key);
        let batch = Batch::of(&mut waiting, &holding());
        assert_eq!(batch.sent.iter().map(of).collect::<Vec<_>>(), ["give k", "take other"]);
        assert_eq!(
            batch.known.iter().map(|(asked, did)| (of(asked), *did)).collect::<Vec<_>>(),
            [("holds third".into(), 0)]
        );
        assert_eq!(waiting.iter().map(of).collect::<Vec<_>>(), ["take k", "give k"]);
        let batch = Batch::of(&mut waiting, &Holds::default());
        assert_eq!((batch.sent.iter().map(of).collect::<Vec<_>>(), waiting.len()), (vec!["take k".to_owned()], 1));
    }

    #[test]
    fn an_answer_that_is_no_number_is_none() {
        let row = |value| Reply::List(vec![value]);
        assert_eq!(said(&row(Reply::Text("17".into()))), Reply::Int(17));
        for strange in [row(Reply::Nil), row(Reply::Text("x".into())), Reply::List(Vec::new())] {
            assert!(matches!(said(&strange), Reply::Error { code, .. } if code == UNSAID), "{strange:?}");
        }
    }
}
