//! One connection that every task of a runtime or foreign event loop shares: what they ask is gathered, sent in one
//! write by the task that drives the connection, and answered in the order of asking.

use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use redis::Value;
use smallvec::SmallVec;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

use super::input::Input;
use super::outgoing::{Combined, Outgoing};
use super::shortcut::ShortcutProbe;
use super::wake_queue::{WakeQueue, Wakers};
use super::wire::{Broken, REDIS, lost};
use crate::error::{Error, Result};
use crate::platform::clock;
use crate::platform::mutex::locked;
use crate::time::Time;

/// The values that one write is answered; none where it was asked along with others, and nothing was done.
pub(super) type Values = SmallVec<[Value; 1]>;

/// How much memory is kept for what is sent.
const KEPT: usize = 64 << 10;
/// Timers go by this.
const GRAIN: Duration = Duration::from_millis(1);

/// What tasks have of a connection. Once all of them are gone it is closed.
#[derive(Clone)]
pub(super) struct SharedConnection(Arc<Wanted>);

/// What tasks share with the one that drives the connection.
struct Line {
    state: Mutex<State>,
    /// Nobody asks any more: the connection has ended, or will once all are answered.
    retired: AtomicBool,
}

struct State {
    /// What is known of the server.
    known: ShortcutProbe,
    /// What is to be sent.
    out: Outgoing,
    /// What was asked and whose answer is not taken yet, in order; the first has the number `first`.
    asked: VecDeque<Asked>,
    first: u64,
    /// How many of those have all their replies.
    answered: usize,
    /// The task that drives the connection, while it sleeps.
    driver: Option<Waker>,
    /// Nobody may be left to wait past this without being looked for.
    look_at: Option<Time>,
    unwanted: bool,
    end: Option<End>,
}

/// One write that was asked.
struct Asked {
    missing: usize,
    /// The command that it and those behind it are asked by.
    combined: Option<Combined>,
    values: Values,
    waker: Option<Waker>,
    deadline: Time,
    fate: Fate,
}

#[derive(Clone, Copy, PartialEq)]
enum Fate {
    /// Somebody waits for it.
    Awaited,
    /// Somebody waits for it, in vain: it is too late.
    Overdue,
    /// Its answer was taken, or nobody wants it.
    Forgotten,
}

/// Why a connection ended.
#[derive(Clone)]
enum End {
    /// The other side does not speak the protocol.
    Broken(Broken),
    Lost(Arc<io::Error>),
}

impl SharedConnection {
    /// A connection over `stream` to a server of which this is known, whose commands gather in `out`, and what drives
    /// it.
    pub(super) fn over<S>(stream: S, known: ShortcutProbe, out: Outgoing, answered: WakeQueue) -> (Self, Driver<S>) {
        let state = Mutex::new(State::new(known, out));
        let line = Arc::new(Line { state, retired: AtomicBool::default() });
        let driver = Driver {
            line: line.clone(),
            stream,
            input: Input::default(),
            answered,
            sending: Vec::new(),
            sent: 0,
            alarm: None,
        };
        (SharedConnection(Arc::new(Wanted(line))), driver)
    }

    /// Has what `write` writes for a server of which this is known sent, and awaits as many values as it says until
    /// `deadline`. Where `waker` is that of the task which awaits them at once, it need not say so once more.
    ///
    /// # Errors
    /// Why there are none; whether what was written is executed is then unknown. After one that is too late the
    /// connection serves nobody else.
    pub(super) fn ask<T>(
        &self,
        deadline: Time,
        waker: Option<&Waker>,
        write: impl FnOnce(&mut ShortcutProbe, &mut Outgoing) -> (usize, T),
    ) -> (Answer<'_>, T) {
        let line = self.line();
        let mut state = locked(&line.state);
        // On one that has ended nobody is woken any more.
        let waker = waker.filter(|_| state.end.is_none());
        let (number, driver, written) = state.ask(deadline, waker, write);
        drop(state);
        if let Some(driver) = driver {
            driver.wake();
        }
        (Answer { line, number, taken: false, is_known: waker.is_some() }, written)
    }

    /// What comes of an answer for what is known of the server.
    pub(super) fn learn<T>(&self, learn: impl FnOnce(&mut ShortcutProbe) -> T) -> T {
        learn(&mut locked(&self.line().state).known)
    }

    /// Has nobody ask any more; what was asked is answered.
    pub(super) fn retire(&self) {
        self.line().retire();
    }

    pub(super) fn is_usable(&self) -> bool {
        !self.line().retired.load(Ordering::Acquire)
    }

    fn line(&self) -> &Line {
        &self.0.0
    }
}

impl State {
    fn new(known: ShortcutProbe, out: Outgoing) -> Self {
        State {
            known,
            out,
            asked: VecDeque::new(),
            first: 0,
            answered: 0,
            driver: None,
            look_at: None,
            unwanted: false,
            end: None,
        }
    }

    fn ask<T>(
        &mut self,
        deadline: Time,
        waker: Option<&Waker>,
        write: impl FnOnce(&mut ShortcutProbe, &mut Outgoing) -> (usize, T),
    ) -> (u64, Option<Waker>, T) {
        let (missing, written) = write(&mut self.known, &mut self.out);
        self.note_combined();
        let number = self.first + self.asked.len() as u64;
        let (values, waker, fate) = (Values::new(), waker.cloned(), Fate::Awaited);
        self.asked.push_back(Asked { missing, combined: None, values, waker, deadline, fate });
        if self.look_at.is_none_or(|at| deadline < at) {
            self.look_at = Some(deadline);
        }
        (number, self.driver.take(), written)
    }

    /// How many answers are still to come.
    fn awaited(&self) -> usize {
        self.asked.len() - self.answered
    }

    /// The last of those who asked may have one command.
    fn note_combined(&mut self) {
        if let Some(combined) = self.out.ended()
            && let Some(first) =
                self.asked.len().checked_sub(combined.count).and_then(|first| self.asked.get_mut(first))
        {
            first.combined = Some(combined);
        }
    }

    /// What is to be sent goes to `sending`, which is empty.
    fn take_out(&mut self, sending: &mut Vec<u8>) {
        self.out.take(sending);
        self.note_combined();
    }

    /// Gives a value to whoever is next, or to all who asked by one command; who then has all is woken.
    fn answer(&mut self, value: Value, woken: &mut Wakers) -> io::Result<()> {
        let Some(next) = self.asked.get_mut(self.answered) else { return Err(io::ErrorKind::InvalidData.into()) };
        let Some(Combined { call, count }) = next.combined.take() else {
            self.give(Some(value), woken);
            return Ok(());
        };
        match value {
            Value::Array(values) if values.len() == count => {
                let mut missing = 0;
                for value in values {
                    let value = Some(value).filter(|value| *value != Value::Nil);
                    missing += usize::from(value.is_none());
                    self.give(value, woken);
                }
                self.out.answered(count, missing);
            }
            Value::ServerError(error) => {
                self.out.refused(call, error.code());
                (0..count).for_each(|_| self.give(None, woken));
            }
            _ => return Err(io::ErrorKind::InvalidData.into()),
        }
        Ok(())
    }

    /// Gives whoever is next a value, or nothing at all.
    fn give(&mut self, value: Option<Value>, woken: &mut Wakers) {
        let Some(next) = self.asked.get_mut(self.answered) else { return };
        if next.fate == Fate::Awaited {
            next.values.extend(value);
        }
        next.missing -= 1;
        if next.missing == 0 {
            woken.extend(next.waker.take());
            self.answered += 1;
            self.forget();
        }
    }

    /// Drops those at the front whose replies came and whom nobody waits for.
    fn forget(&mut self) {
        let is_over = |asked: &Asked| asked.missing == 0 && asked.fate == Fate::Forgotten;
        while self.asked.front().is_some_and(is_over) {
            self.asked.pop_front();
            self.first += 1;
            self.answered -= 1;
        }
    }

    /// Who waits in vain at `now` is told so; whether there is anybody, and whom to wake.
    fn give_up(&mut self, now: Time) -> (bool, Wakers) {
        let (mut any, mut woken) = (false, Wakers::new());
        self.look_at = None;
        for asked in self.asked.iter_mut().skip(self.answered).filter(|asked| asked.fate == Fate::Awaited) {
            if asked.deadline <= now {
                asked.fate = Fate::Overdue;
                any = true;
                woken.extend(asked.waker.take());
            } else {
                self.look_at = Some(self.look_at.map_or(asked.deadline, |at| at.min(asked.deadline)));
            }
        }
        (any, woken)
    }

    /// The connection is no more. What would wake the task that drove it goes, too: a foreign event loop, with its
    /// descriptors, lives as long as that does.
    fn end(&mut self, end: End) -> Wakers {
        self.end.get_or_insert(end);
        self.out.clear();
        self.asked.iter_mut().filter_map(|asked| asked.waker.take()).chain(self.driver.take()).collect()
    }
}

impl Asked {
    /// Nobody waits for it any more; what it had.
    fn leave(&mut self) -> (Option<Waker>, Values) {
        self.fate = Fate::Forgotten;
        (self.waker.take(), std::mem::take(&mut self.values))
    }
}

fn with_number(asked: &mut VecDeque<Asked>, first: u64, number: u64) -> Option<&mut Asked> {
    asked.get_mut(usize::try_from(number.checked_sub(first)?).ok()?)
}

/// What somebody waits for who asked.
pub(super) struct Answer<'a> {
    line: &'a Line,
    number: u64,
    taken: bool,
    /// The task that polls it next is known already, and woken.
    is_known: bool,
}

impl Future for Answer<'_> {
    type Output = Result<Values>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if std::mem::take(&mut self.is_known) {
            return Poll::Pending;
        }
        let line = self.line;
        let mut state = locked(&line.state);
        let State { asked, first, end, .. } = &mut *state;
        let Some(asked) = with_number(asked, *first, self.number) else {
            return Poll::Ready(Err(lost(io::ErrorKind::NotFound.into())));
        };
        if asked.missing == 0 && asked.fate == Fate::Awaited {
            let (_, values) = asked.leave();
            state.forget();
            self.taken = true;
            return Poll::Ready(Ok(values));
        }
        if asked.fate == Fate::Overdue {
            return Poll::Ready(Err(lost(io::ErrorKind::TimedOut.into())));
        }
        if let Some(end) = end {
            return Poll::Ready(Err(end.explain()));
        }
        if asked.waker.as_ref().is_none_or(|waker| !waker.will_wake(context.waker())) {
            asked.waker = Some(context.waker().clone());
        }
        Poll::Pending
    }
}

impl Drop for Answer<'_> {
    fn drop(&mut self) {
        if self.taken {
            return;
        }
        let mut state = locked(&self.line.state);
        let State { asked, first, .. } = &mut *state;
        if let Some(asked) = with_number(asked, *first, self.number) {
            let left = asked.leave();
            state.forget();
            drop(state);
            drop(left);
        }
    }
}

impl End {
    fn explain(&self) -> Error {
        match self {
            End::Broken(broken) => broken.explain(REDIS, ""),
            End::Lost(error) => lost(io::Error::new(error.kind(), error.clone())),
        }
    }
}

/// Somebody may ask yet.
struct Wanted(Arc<Line>);

impl Drop for Wanted {
    fn drop(&mut self) {
        let mut state = locked(&self.0.state);
        state.unwanted = true;
        let driver = state.driver.take();
        drop(state);
        if let Some(driver) = driver {
            driver.wake();
        }
    }
}

/// Sends and reads, as a task of the connection's home.
pub(super) struct Driver<S> {
    line: Arc<Line>,
    stream: S,
    input: Input,
    answered: WakeQueue,
    /// What is being sent, and how much of it was.
    sending: Vec<u8>,
    sent: usize,
    alarm: Option<Pin<Box<Sleep>>>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Future for Driver<S> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let ended = ready!(self.drive(context));
        let end = match &self.input.watch.broken {
            Some((broken, _)) => End::Broken(*broken),
            None => End::Lost(Arc::new(ended)),
        };
        self.line.end(end);
        Poll::Ready(())
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Driver<S> {
    /// Why the connection ended, when it has.
    fn drive(&mut self, context: &mut Context<'_>) -> Poll<io::Error> {
        // What is read may let somebody ask again, who then wakes this task.
        match self.receive(context).and_then(|()| self.send(context)) {
            Ok(true) => self.look_after_time(context),
            Ok(false) => return Poll::Ready(io::ErrorKind::NotConnected.into()),
            Err(error) => return Poll::Ready(error),
        }
        Poll::Pending
    }

    /// Sends what there is to send; whether anybody may ask for more.
    fn send(&mut self, context: &mut Context<'_>) -> io::Result<bool> {
        loop {
            if self.sent == self.sending.len() {
                self.sending.clear();
                self.sending.shrink_to(KEPT);
                self.sent = 0;
                let mut state = locked(&self.line.state);
                state.take_out(&mut self.sending);
                if self.sending.is_empty() {
                    state.driver = Some(context.waker().clone());
                    return Ok(!state.unwanted);
                }
            }
            while self.sent < self.sending.len() {
                match Pin::new(&mut self.stream).poll_write(context, &self.sending[self.sent..])? {
                    Poll::Ready(0) => return Err(io::ErrorKind::WriteZero.into()),
                    Poll::Ready(count) => self.sent += count,
                    Poll::Pending => return Ok(true),
                }
            }
            // What is left of it goes out with the next write, or when there is room.
            let _ = Pin::new(&mut self.stream).poll_flush(context)?;
        }
    }

    /// Reads what there is to read.
    fn receive(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        loop {
            if self.answered.wake() {
                // Behind those that were woken.
                context.waker().wake_by_ref();
                return Ok(());
            }
            let mut room = ReadBuf::new(self.input.room());
            match Pin::new(&mut self.stream).poll_read(context, &mut room)? {
                Poll::Ready(()) => {
                    let count = room.filled().len();
                    self.input.came(count)?;
                    self.line.answer(&mut self.input, &mut self.answered)?;
                }
                Poll::Pending => return Ok(()),
            }
        }
    }

    /// Sees to it that nobody waits too long.
    fn look_after_time(&mut self, context: &mut Context<'_>) {
        loop {
            let look_at = locked(&self.line.state).look_at;
            let Some(at) = look_at else { return };
            // What was set before the machine was suspended goes off later than it was to, by as much as that took.
            let left = at.since(clock::now());
            let latest = Instant::now() + left + GRAIN;
            let alarm = match self.alarm.take() {
                Some(alarm) if alarm.deadline() <= latest => self.alarm.insert(alarm),
                _ => self.alarm.insert(Box::pin(sleep(left))),
            };
            if alarm.as_mut().poll(context).is_pending() {
                return;
            }
            self.alarm = None;
            self.line.give_up(clock::now());
        }
    }
}

impl<S> Drop for Driver<S> {
    /// A runtime that shuts down drops its tasks.
    fn drop(&mut self) {
        self.line.end(End::Lost(Arc::new(io::ErrorKind::ConnectionAborted.into())));
    }
}

impl Line {
    /// Gives all replies that `input` has to those who wait for them, who are then to be woken.
    fn answer(&self, input: &mut Input, queue: &mut WakeQueue) -> io::Result<()> {
        let mut answered = Wakers::new();
        let mut state = locked(&self.state);
        let awaited = state.awaited();
        let mut next = || {
            let Some(value) = input.value()? else { return Ok(false) };
            state.answer(value, &mut answered).map(|()| true)
        };
        let ended = loop {
            match next() {
                Ok(true) => {}
                Ok(false) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        let came_whole = state.awaited() == 0;
        drop(state);
        queue.came(answered, awaited, came_whole);
        ended
    }

    /// Whoever waits in vain is told so, and nobody else is served.
    fn give_up(&self, now: Time) {
        let (any, woken) = locked(&self.state).give_up(now);
        if any {
            self.retire();
        }
        woken.into_iter().for_each(Waker::wake);
    }

    fn retire(&self) {
        self.retired.store(true, Ordering::Release);
    }

    fn end(&self, end: End) {
        self.retire();
        let woken = locked(&self.state).end(end);
        woken.into_iter().for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
    use tokio::task::JoinHandle;
    use tokio::time::timeout;

    use super::super::layouts;
    use super::super::wire::{Given, Scripts};
    use super::*;
    use crate::error::Kind;
    use crate::platform::simulated;
    use crate::protocol::Request;
    use crate::time::StoreTime;

    const SOON: Duration = Duration::from_secs(20);

    fn connection() -> (SharedConnection, JoinHandle<()>, DuplexStream) {
        let (ours, theirs) = duplex(64 << 10);
        let (connection, driver) =
            SharedConnection::over(ours, ShortcutProbe::default(), outgoing(), WakeQueue::default());
        (connection, tokio::spawn(driver), theirs)
    }

    fn outgoing() -> Outgoing {
        Outgoing::new(Arc::new(Scripts::new(layouts::by_digest())))
    }

    fn say(out: &mut Outgoing, word: &str) {
        out.alone().1.extend_from_slice(word.as_bytes());
    }

    fn later() -> Time {
        clock::now().after(SOON)
    }

    fn ask<'a>(connection: &'a SharedConnection, word: &str) -> Answer<'a> {
        asking(connection, 1, later(), word)
    }

    fn asking<'a>(connection: &'a SharedConnection, expected: usize, deadline: Time, word: &str) -> Answer<'a> {
        let write = |_: &mut ShortcutProbe, out: &mut Outgoing| (expected, say(out, word));
        connection.ask(deadline, None, write).0
    }

    /// As a task asks that awaits the answer at once.
    async fn at_once(connection: &SharedConnection, word: &str) -> Result<Values> {
        let write = |_: &mut ShortcutProbe, out: &mut Outgoing| (1, say(out, word));
        let asked = |context: &mut Context<'_>| connection.ask(later(), Some(context.waker()), write).0;
        let answer = std::future::poll_fn(|context| Poll::Ready(asked(context))).await;
        timeout(SOON, answer).await.expect("whoever asked is woken")
    }

    fn number(values: Values) -> i64 {
        let [Value::Int(number)] = values[..] else { panic!("{values:?}") };
        number
    }

    async fn heard(server: &mut DuplexStream, bytes: usize) -> String {
        let mut all = vec![0; bytes];
        server.read_exact(&mut all).await.unwrap();
        String::from_utf8(all).unwrap()
    }

    #[tokio::test]
    async fn what_is_asked_together_is_sent_together_and_answered_in_order() {
        let (connection, _driver, mut server) = connection();
        let asked = ["one,", "two,", "three"].map(|word| ask(&connection, word));
        let mut bytes = [0; 64];
        let count = timeout(SOON, server.read(&mut bytes)).await.unwrap().unwrap();
        assert_eq!(&bytes[..count], b"one,two,three", "in one write");
        for part in [":1\r\n:", "2", "\r\n:3\r\n"] {
            server.write_all(part.as_bytes()).await.unwrap();
            tokio::task::yield_now().await;
        }
        let [one, two, three] = asked;
        let (at_once, ()) = tokio::join!(at_once(&connection, "four"), async {
            assert_eq!(heard(&mut server, 4).await, "four");
            server.write_all(b":4\r\n").await.unwrap();
        });
        assert_eq!(number(at_once.unwrap()), 4);
        // Whoever looks late finds its answer, too.
        assert_eq!([number(three.await.unwrap()), number(one.await.unwrap()), number(two.await.unwrap())], [3, 1, 2]);
        assert!(locked(&connection.line().state).asked.is_empty());
    }

    #[tokio::test]
    async fn what_some_ask_is_sent_before_others_that_were_answered_with_them_go_on() {
        let (connection, _driver, mut server) = connection();
        let start = || {
            let connection = connection.clone();
            tokio::spawn(async move { (ask(&connection, "1").await.is_ok(), ask(&connection, "2").await.is_ok()) })
        };
        let tasks = Vec::from_iter(std::iter::repeat_with(start).take(16));
        assert_eq!(heard(&mut server, 16).await, "1".repeat(16));
        server.write_all(":1\r\n".repeat(16).as_bytes()).await.unwrap();
        // A task like the others, which goes on among them.
        let reading = tokio::spawn(async move {
            let count = server.read(&mut [0; 64]).await.unwrap();
            (server, count)
        });
        let (mut server, first) = timeout(SOON, reading).await.unwrap().unwrap();
        assert!(first < 16, "{first} are sent together");
        assert_eq!(heard(&mut server, 16 - first).await, "2".repeat(16 - first));
        server.write_all(":1\r\n".repeat(16).as_bytes()).await.unwrap();
        for task in tasks {
            assert_eq!(timeout(SOON, task).await.unwrap().unwrap(), (true, true));
        }
    }

    #[tokio::test]
    async fn one_write_may_have_several_answers() {
        let (connection, _driver, mut server) = connection();
        let (two, one) = (asking(&connection, 2, later(), "2"), ask(&connection, "1"));
        server.write_all(b":1\r\n:2\r\n:3\r\n").await.unwrap();
        assert_eq!(two.await.unwrap()[..], [Value::Int(1), Value::Int(2)]);
        assert_eq!(number(one.await.unwrap()), 3);
    }

    /// What four who ask the same of a lock each are answered, the third of whom does not wait for it.
    async fn four(connection: &SharedConnection, server: &mut DuplexStream, answer: &str) -> [Result<Values>; 3] {
        let release = |key: &str| {
            let request = Request::new(&layouts::native_scripts::CALLS.release, key.into(), []);
            let given = Given { not_after: StoreTime(0), run: "" };
            connection.ask(later(), None, |_, out| (1, out.ask(&request, given))).0
        };
        let [a, b, forgotten, d] = ["a", "b", "c", "d"].map(release);
        drop(forgotten);
        let mut bytes = vec![0; 64 << 10];
        let count = timeout(SOON, server.read(&mut bytes)).await.unwrap().unwrap();
        let sent = String::from_utf8_lossy(&bytes[..count]);
        assert!(sent.ends_with("$1\r\n4\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\nc\r\n$1\r\nd\r\n"), "{sent}");
        server.write_all(answer.as_bytes()).await.unwrap();
        [a.await, b.await, d.await]
    }

    #[tokio::test]
    async fn who_are_asked_for_by_one_command_have_an_answer_each() {
        let (connection, _driver, mut server) = connection();
        let before = ask(&connection, "x");
        assert_eq!(heard(&mut server, 1).await, "x");
        let answers = four(&connection, &mut server, ":7\r\n*4\r\n:1\r\n-OOM full\r\n:3\r\n$-1\r\n").await;
        let [Ok(a), Ok(b), Ok(d)] = answers else { panic!("{answers:?}") };
        assert_eq!([number(before.await.unwrap()), number(a)], [7, 1]);
        let refused = |value: &Value| matches!(value, Value::ServerError(error) if error.code() == "OOM");
        assert!(refused(&b[0]) && d.is_empty(), "{b:?}, and who is told nothing asks alone: {d:?}");
        assert!(locked(&connection.line().state).asked.is_empty());
        let (next, ()) = tokio::join!(at_once(&connection, "y"), async {
            assert_eq!(heard(&mut server, 1).await, "y");
            server.write_all(b":8\r\n").await.unwrap();
        });
        assert_eq!(number(next.unwrap()), 8);
    }

    #[tokio::test]
    async fn who_are_refused_together_are_told_nothing_and_a_list_of_another_length_is_no_answer() {
        let (connection, _driver, mut server) = connection();
        let answers = four(&connection, &mut server, "-NOPERM one of the keys\r\n").await;
        assert!(answers.iter().all(|answer| matches!(answer, Ok(values) if values.is_empty())), "{answers:?}");
        assert!(connection.is_usable() && locked(&connection.line().state).asked.is_empty());
        for answer in ["*3\r\n:1\r\n:2\r\n:3\r\n", "*5\r\n:1\r\n:2\r\n:3\r\n:4\r\n:5\r\n", ":1\r\n", "$-1\r\n"] {
            let (connection, _driver, mut server) = self::connection();
            let answers = four(&connection, &mut server, answer).await;
            let is_lost = |answer: &Result<Values>| matches!(answer, Err(error) if error.kind() == Kind::Protocol);
            assert!(answers.iter().all(is_lost) && !connection.is_usable(), "{answer:?}: {answers:?}");
        }
    }

    #[tokio::test]
    async fn an_answer_that_nobody_waits_for_is_nobody_elses() {
        let (connection, _driver, mut server) = connection();
        let (given_up, one) = (ask(&connection, "x"), ask(&connection, "y"));
        drop(given_up);
        assert_eq!(heard(&mut server, 2).await, "xy");
        server.write_all(b":1\r\n:2\r\n").await.unwrap();
        assert_eq!(number(one.await.unwrap()), 2);
        assert!(locked(&connection.line().state).asked.is_empty() && connection.is_usable());
    }

    #[tokio::test]
    async fn who_waits_too_long_is_told_and_the_others_are_answered() {
        let (connection, _driver, mut server) = connection();
        let patient = ask(&connection, "x");
        let hasty = asking(&connection, 1, clock::now().after(Duration::from_millis(20)), "y");
        assert!(connection.is_usable());
        let error = timeout(SOON / 2, hasty).await.expect("its time is over").unwrap_err();
        assert!(error.kind() == Kind::Unavailable && error.to_string().contains("in time"), "{error}");
        assert!(!connection.is_usable(), "nobody asks there any more");
        let next = ask(&connection, "z");
        server.write_all(b":1\r\n:2\r\n:3\r\n").await.unwrap();
        assert_eq!([number(patient.await.unwrap()), number(next.await.unwrap())], [1, 3]);
    }

    #[tokio::test]
    async fn the_timer_is_for_whoever_is_the_first_to_give_up() {
        let (connection, _driver, mut server) = connection();
        // The timer is set for this one; what is asked meanwhile has less time.
        let patient = ask(&connection, "x");
        assert_eq!(heard(&mut server, 1).await, "x");
        let hasty = asking(&connection, 1, clock::now().after(Duration::from_millis(20)), "y");
        assert!(timeout(SOON / 2, hasty).await.expect("its time is over").is_err());
        drop(patient);
    }

    #[test]
    fn the_timer_is_not_late_for_having_been_set_before_the_machine_was_suspended() {
        simulated::run(async {
            let (connection, _driver, mut server) = connection();
            let second = Duration::from_secs(1);
            let patient = asking(&connection, 1, clock::now().after(4 * second), "x");
            assert_eq!(heard(&mut server, 1).await, "x");
            simulated::leap(3 * second);
            let (began, limit) = (Instant::now(), second + second / 2);
            let hasty = asking(&connection, 1, clock::now().after(limit), "y");
            assert!(hasty.await.is_err());
            assert!(began.elapsed() <= limit + 2 * GRAIN, "{:?}", began.elapsed());
            drop(patient);
        });
    }

    #[tokio::test]
    async fn an_end_is_told_to_everybody_who_waits() {
        for (sent, kind, said) in [
            ("", Kind::Unavailable, "ended"),
            (":1\r\n:2\r\n:3\r\n", Kind::Protocol, "not a reply"),
            ("HTTP/1.1 400", Kind::Protocol, "not a reply"),
            ("\u{15}", Kind::Protocol, "TLS"),
        ] {
            let (connection, driver, mut server) = connection();
            let (first, asked) = (ask(&connection, "x"), [ask(&connection, "y")]);
            server.write_all(sent.as_bytes()).await.unwrap();
            if sent.is_empty() {
                drop(server);
            }
            timeout(SOON, driver).await.expect("it has ended").unwrap();
            let is_answered = sent.starts_with(':');
            assert_eq!(first.await.is_ok(), is_answered, "{sent:?}");
            for answer in asked {
                match answer.await {
                    Ok(values) => assert!(is_answered && number(values) == 2),
                    Err(error) => assert!(error.kind() == kind && error.to_string().contains(said), "{error}"),
                }
            }
            let error = ask(&connection, "z").await.unwrap_err();
            assert!(!connection.is_usable() && error.kind() == kind, "{sent:?}: {error}");
            // Nobody would wake it.
            let (mut at_once, ()) = connection.ask(later(), Some(Waker::noop()), |_, _| (1, ()));
            assert!(Pin::new(&mut at_once).poll(&mut Context::from_waker(Waker::noop())).is_ready(), "{sent:?}");
        }
    }

    #[tokio::test]
    async fn a_runtime_that_drops_its_tasks_leaves_nobody_waiting() {
        let (connection, driver, mut server) = connection();
        let answer = ask(&connection, "x");
        heard(&mut server, 1).await;
        assert!(locked(&connection.line().state).driver.is_some(), "it sleeps");
        driver.abort();
        assert_eq!(timeout(SOON, answer).await.unwrap().unwrap_err().kind(), Kind::Unavailable);
        assert!(!connection.is_usable());
        assert!(locked(&connection.line().state).driver.is_none(), "nothing of the runtime is kept");
    }

    #[tokio::test]
    async fn it_is_closed_once_nobody_may_ask() {
        let (connection, driver, mut server) = connection();
        let other = connection.clone();
        drop(ask(&connection, "bye"));
        drop(connection);
        assert_eq!(heard(&mut server, 3).await, "bye", "what was asked is sent");
        assert!(!driver.is_finished());
        drop(other);
        timeout(SOON, driver).await.expect("it has ended").unwrap();
        assert_eq!(server.read(&mut [0]).await.unwrap(), 0);
    }
}
