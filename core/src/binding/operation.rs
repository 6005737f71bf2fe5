//! Operations by name, for whatever is not asked often enough to need a way of its own.
//!
//! [`ALL`] is the only list of them. A binding finds one by name, makes arguments of what its program gave as
//! [`takes`](Operation::takes) says, and begins it as a job ([`run`](Operation::run)) or has its own thread do it
//! ([`here`](Operation::here)).

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use super::held::Ending;
use super::lost_track;
use super::record::{Record, Value};
use crate::blocking::{Acquiring, Blocking, Wait};
use crate::client::{Client, Guard, Lock};
use crate::error::{Error, Kind, Result};
use crate::export::Secret;
use crate::multi::{AcquiringAll, MultiLock};
use crate::platform::runtime;
use crate::primitives::barrier::{Arrival, Barrier};
use crate::primitives::latch::Latch;
use crate::queue::OwnerId;
use crate::striped::{Choosing, Striped};
use crate::token::Token;

/// What an operation is asked of. A binding keeps one in each object that its program has.
#[derive(Clone, Debug)]
pub enum Handle {
    /// A client.
    Client(Client),
    /// A lock, a part of a read/write lock, or a semaphore.
    Lock(Lock),
    /// Several locks.
    Locks(MultiLock),
    /// The segments of a striped lock.
    Segments(Striped),
    /// A latch.
    Latch(Latch),
    /// A barrier.
    Barrier(Barrier),
}

/// Of what kind a [`Handle`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Of {
    /// A client.
    Client,
    /// A lock.
    Lock,
    /// Several locks.
    Locks,
    /// The segments of a striped lock.
    Segments,
    /// A latch.
    Latch,
    /// A barrier.
    Barrier,
}

/// An argument of an operation.
#[derive(Clone, Debug)]
pub enum Argument {
    /// How long to wait for others; `None` for as long as it takes.
    Limit(Option<Duration>),
    /// A span of time.
    Span(Duration),
    /// A name or a secret.
    Text(String),
    /// A fencing token.
    Token(u64),
    /// How many.
    Count(u32),
}

/// What kind of [`Argument`] an operation takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// [`Argument::Limit`].
    Limit,
    /// [`Argument::Span`].
    Span,
    /// [`Argument::Text`].
    Text,
    /// [`Argument::Token`].
    Token,
    /// [`Argument::Count`].
    Count,
}

/// What came of an operation.
#[derive(Debug)]
pub enum Outcome {
    /// Something to be told; [`Value::Nothing`] where it was only to be done.
    Told(Value),
    /// A lock is held.
    Granted(Guard),
    /// Several are.
    AllGranted(Vec<Guard>),
    /// The segment of that index is held, at the store of this client.
    Segment(usize, Guard, Client),
    /// A hold was left to this secret.
    Secret(Secret),
    /// Why the guard of that number was not; it may still hold it.
    NotExported(Box<(u32, Guard, Error)>),
    /// How a hold ended.
    Ended(Ending),
    /// How each of several holds ended, in their order.
    AllEnded(Vec<Result<Ending>>),
}

/// An operation under way as a job. Dropping it gives it up.
pub type Work = Pin<Box<dyn Future<Output = Result<Outcome>> + Send>>;

/// How a thread of the program's does an operation, or begins to.
type Here = fn(Handle, Vec<Argument>) -> Result<Waiting>;

/// An operation of a handle.
#[derive(Debug)]
pub struct Operation {
    /// What it is asked of.
    pub of: Of,
    /// Its name, in snake case: that of a method of every language.
    pub name: &'static str,
    /// What errors call it.
    pub operation: &'static str,
    /// Its arguments by name.
    pub takes: &'static [(&'static str, Takes)],
    run: fn(Handle, Vec<Argument>) -> Work,
    /// `None` for what lasts.
    here: Option<Here>,
}

/// An operation that asks the store something: a method of the same name of both faces.
macro_rules! asks {
    ($of:ident.$method:ident($($what:ident: $takes:ident),*) as $operation:literal, ($($pass:expr),*) => $told:expr) => {
        waits!($of.$method($($what: $takes),*) as $operation,
            |on| Ok(Outcome::Told($told(on.$method($($pass),*).await?))),
            |on| Ok(Waiting::done(Outcome::Told($told(on.$method($($pass),*)?)))))
    };
}

/// One that may wait for others, and how either face does it.
macro_rules! waits {
    ($of:ident.$method:ident($($what:ident: $takes:ident),*) as $operation:literal, |$on:ident| $run:expr, |$here:ident| $begin:expr) => {
        Operation {
            here: Some(|handle, _given| {
                let Handle::$of($here) = handle else { return Err(lost_track($operation)) };
                let $here = $here.into_face::<Blocking>();
                let mut _given = _given.into_iter();
                $(let Some(Argument::$takes($what)) = _given.next() else { return Err(lost_track($operation)) };)*
                $begin
            }),
            ..lasts!($of.$method($($what: $takes),*) as $operation, |$on| $run)
        }
    };
}

/// One that goes on for a while though it waits for nothing that others hold: for a thread it is a job as well, which
/// looks at signals in between.
macro_rules! lasts {
    ($of:ident.$method:ident($($what:ident: $takes:ident),*) as $operation:literal, |$on:ident| $run:expr) => {
        Operation {
            of: Of::$of,
            name: stringify!($method),
            operation: $operation,
            takes: &[$((stringify!($what), Takes::$takes)),*],
            run: |handle, _given| {
                Box::pin(async move {
                    let Handle::$of($on) = handle else { return Err(lost_track($operation)) };
                    let mut _given = _given.into_iter();
                    $(let Some(Argument::$takes($what)) = _given.next() else { return Err(lost_track($operation)) };)*
                    $run
                })
            },
            here: None,
        }
    };
}

/// Every operation of a handle. Those of guards are methods of [`Jobs`](super::Jobs) and [`Held`](super::Held).
pub static ALL: [Operation; 20] = [
    asks!(Client.inspect(name: Text) as "inspect", (&name) => record),
    asks!(Client.list() as "list", () => Value::from),
    asks!(Client.break_lock(name: Text, expected_token: Token) as "break", (&name, Token::new(expected_token)) => Value::from),
    lasts!(Client.ping() as "ping", |on| Ok(Outcome::Told(record(on.ping().await?)))),
    lasts!(Client.drain(limit: Span) as "drain", |on| Ok(Outcome::Told(on.drain(limit).await?.into()))),
    lasts!(Client.close() as "close", |on| {
        on.close().await;
        Ok(Outcome::DONE)
    }),
    waits!(Lock.acquire(timeout: Limit) as "acquire",
        |on| on.acquire_within(timeout).await.map(Outcome::Granted),
        |on| on.begin(timeout).map(Waiting::Lock)),
    waits!(Lock.resume(secret: Text) as "resume",
        |on| on.resume(&secret).await.map(Outcome::Granted),
        |on| on.begin_resume(&secret).map(Waiting::Lock)),
    asks!(Lock.inspect() as "inspect", () => record),
    asks!(Lock.break_lock(expected_token: Token) as "break", (Token::new(expected_token)) => Value::from),
    asks!(Lock.request_release(expected_token: Token) as "request_release", (Token::new(expected_token)) => Value::from),
    asks!(Lock.resize(permits: Count) as "resize", (permits) => done),
    waits!(Locks.acquire(timeout: Limit) as "acquire",
        |on| on.acquire_within(timeout).await.map(|all| Outcome::AllGranted(all.into_guards())),
        |on| Ok(Waiting::Locks { looks: on.names().count(), acquiring: on.begin(timeout)? })),
    waits!(Segments.any(timeout: Limit) as "acquire",
        |on| on.any_within(timeout).await.map(segment),
        |on| Ok(Waiting::Segment(on.begin_any(timeout)))),
    waits!(Latch.wait(timeout: Limit) as "latch",
        |on| on.wait_within(timeout).await.map(|is_open| Outcome::Told(is_open.into())),
        |on| Ok(Waiting::Gate { acquiring: on.gate().begin(timeout)?, passed: is_open })),
    asks!(Latch.count_down() as "latch", () => Value::from),
    asks!(Latch.count() as "latch", () => Value::from),
    asks!(Latch.try_set_count(count: Count) as "latch", (count) => Value::from),
    waits!(Barrier.wait(timeout: Limit) as "barrier",
        |on| on.wait_within(timeout).await.map(|arrival| Outcome::Told(arrival.map(Record::from).into())),
        |on| Ok(Waiting::Gate { acquiring: on.gate().begin(timeout)?, passed: arrival })),
    asks!(Barrier.waiting() as "barrier", () => Value::from),
];

fn record(of: impl Into<Record>) -> Value {
    Value::Record(of.into())
}

fn done((): ()) -> Value {
    Value::Nothing
}

fn is_open(passed: Option<Token>) -> Value {
    passed.is_some().into()
}

fn arrival(passed: Option<Token>) -> Value {
    passed.map(|token| Record::from(Arrival::from(token))).into()
}

fn segment<F: crate::Face>(found: Option<crate::striped::Segment<F>>) -> Outcome {
    match found {
        Some(segment) => {
            let (index, client) = (segment.index(), segment.client().clone().into_face());
            Outcome::Segment(index, segment.into_guard().into_face(), client)
        }
        None => Outcome::DONE,
    }
}

impl Outcome {
    /// It was only to be done, or there is nothing.
    pub const DONE: Outcome = Outcome::Told(Value::Nothing);
}

impl Operation {
    /// The operation of that name, in snake case.
    pub fn find(of: Of, name: &str) -> Option<&'static Operation> {
        ALL.iter().find(|operation| operation.of == of && operation.name == name)
    }

    /// The operation as a job, which begins when it is polled first. It ends as `internal` where `with` is not what it
    /// [takes](Self::takes).
    pub fn run(&self, on: Handle, with: Vec<Argument>) -> Work {
        (self.run)(on, with)
    }

    /// Does it in this thread, or begins to: what waits for others is to be waited for, and so is what lasts.
    ///
    /// # Errors
    /// Those of the operation; `internal` where `with` is not what it [takes](Self::takes).
    pub fn here(&self, on: Handle, with: Vec<Argument>) -> Result<Waiting> {
        match self.here {
            Some(here) => here(on, with),
            None => Ok(Waiting::Job(self.run(on, with))),
        }
    }
}

/// What a handle is, for what is asked of one kind alone.
macro_rules! kinds {
    ($($method:ident: $kind:ident($of:ty)),* $(,)?) => {
        impl Handle {
            /// Of what kind it is.
            pub fn of(&self) -> Of {
                match self {
                    $(Handle::$kind(_) => Of::$kind,)*
                }
            }

            $(
                /// What it is, where it is of this kind.
                ///
                /// # Errors
                /// `internal` for another kind.
                pub fn $method(&self) -> Result<&$of> {
                    if let Handle::$kind(of) = self { Ok(of) } else { Err(lost_track("call")) }
                }
            )*
        }
    };
}

kinds! {
    client: Client(Client),
    lock: Lock(Lock),
    locks: Locks(MultiLock),
    segments: Segments(Striped),
    latch: Latch(Latch),
    barrier: Barrier(Barrier),
}

impl Handle {
    /// Its name; that of the first of several locks, and none of a client's or of a striped lock's.
    pub fn name(&self) -> &str {
        match self {
            Handle::Client(_) | Handle::Segments(_) => "",
            Handle::Lock(lock) => lock.name(),
            Handle::Locks(locks) => locks.names().next().unwrap_or_default(),
            Handle::Latch(latch) => latch.name(),
            Handle::Barrier(barrier) => barrier.name(),
        }
    }

    /// What `owner` is to acquire, where that is somebody's.
    #[must_use]
    pub fn for_owner(self, owner: Option<OwnerId>) -> Self {
        match (self, owner) {
            (Handle::Lock(lock), Some(owner)) => Handle::Lock(lock.for_owner(owner)),
            (Handle::Locks(locks), Some(owner)) => Handle::Locks(locks.for_owner(owner)),
            (other, _) => other,
        }
    }

    /// Whether its store did not answer when this client last asked it: whoever asks again in a thread of its own may
    /// have to wait for as long.
    pub fn is_unanswered(&self) -> bool {
        match self {
            Handle::Client(client) => client.is_unanswered(),
            Handle::Lock(lock) => lock.client().is_unanswered(),
            Handle::Locks(locks) => locks.client().is_some_and(Client::is_unanswered),
            Handle::Segments(segments) => segments.segment(0).client().is_unanswered(),
            Handle::Latch(latch) => latch.gate().client().is_unanswered(),
            Handle::Barrier(barrier) => barrier.gate().client().is_unanswered(),
        }
    }

    /// How long it is waited for where the caller does not say.
    pub fn own_limit(&self) -> Option<Duration> {
        match self {
            Handle::Lock(lock) => lock.options().timeout,
            Handle::Locks(locks) => locks.options().timeout,
            Handle::Segments(segments) => segments.options().timeout,
            Handle::Client(_) | Handle::Latch(_) | Handle::Barrier(_) => None,
        }
    }
}

/// Looks whether a job is done, for a thread that waits as `how` says.
fn look(work: &mut Work, how: Wait<'_>) -> Option<Result<Outcome>> {
    match how {
        Wait::Park(slice) => runtime::park_on(work.as_mut(), slice),
        Wait::Wake(waker) => match work.as_mut().poll(&mut Context::from_waker(waker)) {
            Poll::Ready(done) => Some(done),
            Poll::Pending => None,
        },
    }
}

/// Something waited for by a thread of the program's own, in slices, so that it may look at signals in between.
/// Dropping it gives up, which may take a moment.
pub enum Waiting {
    /// Nothing: it is done, and this came of it.
    Done(Option<Outcome>),
    /// Whatever a job does, which this thread polls.
    Job(Work),
    /// A lock.
    Lock(Acquiring),
    /// Several locks, each of which is one look where a store takes them one by one.
    Locks {
        /// What is waited for.
        acquiring: AcquiringAll,
        /// How many looks have all of them tried.
        looks: usize,
    },
    /// A segment.
    Segment(Choosing),
    /// A latch or a barrier.
    Gate {
        /// What is waited for. Nobody holds it.
        acquiring: Acquiring,
        /// What is told of the token it was passed with, or of none: the time limit was over.
        passed: fn(Option<Token>) -> Value,
    },
}

impl std::fmt::Debug for Waiting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Waiting::Done(_) => "Done",
            Waiting::Job(_) => "Job",
            Waiting::Lock(_) => "Lock",
            Waiting::Locks { .. } => "Locks",
            Waiting::Segment(_) => "Segment",
            Waiting::Gate { .. } => "Gate",
        })
    }
}

impl Waiting {
    fn done(outcome: Outcome) -> Self {
        Waiting::Done(Some(outcome))
    }

    /// What came of it without waiting for others.
    pub fn at_once(&mut self) -> Option<Result<Outcome>> {
        let looks = if let Waiting::Locks { looks, .. } = self { *looks } else { 1 };
        (0..looks).find_map(|_| self.wait(Wait::Park(Duration::ZERO)))
    }

    /// Waits as `how` says; `None` when there is no result yet. Call it no more after a result.
    pub fn wait(&mut self, how: Wait<'_>) -> Option<Result<Outcome>> {
        Some(match self {
            Waiting::Done(outcome) => outcome.take().ok_or_else(|| lost_track("call")),
            Waiting::Job(work) => look(work, how)?,
            Waiting::Lock(acquiring) => acquiring.wait(how)?.map(|guard| Outcome::Granted(guard.into_face())),
            Waiting::Locks { acquiring, .. } => {
                acquiring.wait(how)?.map(|all| Outcome::AllGranted(all.into_face().into_guards()))
            }
            Waiting::Segment(choosing) => choosing.wait(how)?.map(segment),
            Waiting::Gate { acquiring, passed } => match acquiring.wait(how)? {
                Ok(pass) => Ok(Outcome::Told(passed(Some(pass.token())))),
                Err(error) if error.kind() == Kind::Timeout => Ok(Outcome::Told(passed(None))),
                Err(error) => Err(error),
            },
        })
    }
}

#[cfg(all(test, feature = "memory"))]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::task::{Wake, Waker};

    use super::super::client_of_test;
    use super::*;

    fn handle(of: Of) -> Handle {
        let client: Client = client_of_test();
        match of {
            Of::Client => Handle::Client(client),
            Of::Lock => Handle::Lock(client.lock("x").build().unwrap()),
            Of::Locks => Handle::Locks(client.multi_lock(["x", "y"]).unwrap()),
            Of::Segments => Handle::Segments(client.striped("x", 2).unwrap()),
            Of::Latch => Handle::Latch(client.latch("x", 1).build().unwrap()),
            Of::Barrier => Handle::Barrier(client.barrier("x", 1).build().unwrap()),
        }
    }

    fn argument(takes: Takes) -> Argument {
        match takes {
            Takes::Limit => Argument::Limit(Some(Duration::ZERO)),
            Takes::Span => Argument::Span(Duration::ZERO),
            Takes::Text => Argument::Text("x".into()),
            Takes::Token => Argument::Token(1),
            Takes::Count => Argument::Count(1),
        }
    }

    fn arguments(operation: &Operation) -> Vec<Argument> {
        operation.takes.iter().map(|(_, takes)| argument(*takes)).collect()
    }

    fn ended(here: Result<Waiting>) -> Result<Outcome> {
        here?.at_once().unwrap()
    }

    fn told(result: &Result<Outcome>) -> String {
        match result {
            Ok(Outcome::Told(value)) => format!("{value:?}").split(['(', '{']).next().unwrap().trim().to_owned(),
            Ok(outcome) => format!("{outcome:?}").split('(').next().unwrap().to_owned(),
            Err(error) => error.code().to_owned(),
        }
    }

    #[tokio::test]
    async fn every_operation_ends_alike_as_a_job_and_here() {
        for operation in &ALL {
            let job = told(&operation.run(handle(operation.of), arguments(operation)).await);
            let here = told(&ended(operation.here(handle(operation.of), arguments(operation))));
            assert_eq!(job, here, "{operation:?}");
            assert_ne!(job, "internal", "{operation:?}");
            assert!(std::ptr::eq(operation, Operation::find(operation.of, operation.name).unwrap()));
        }
    }

    #[test]
    fn a_thread_looks_whether_a_job_is_done() {
        let mut never: Work = Box::pin(std::future::pending());
        assert!(look(&mut never, Wait::Park(Duration::ZERO)).is_none());
        assert!(look(&mut never, Wait::Wake(Waker::noop())).is_none());
        let done = || -> Work { Box::pin(async { Ok(Outcome::DONE) }) };
        assert!(look(&mut done(), Wait::Park(Duration::MAX)).is_some());
        assert!(look(&mut done(), Wait::Wake(Waker::noop())).is_some());
    }

    #[derive(Default)]
    struct Bell(AtomicBool);

    impl Wake for Bell {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Ordering::SeqCst);
        }
    }

    impl Bell {
        fn await_ring(&self) {
            let began = std::time::Instant::now();
            while !self.0.swap(false, Ordering::SeqCst) {
                assert!(began.elapsed() < Duration::from_secs(10), "nobody rang");
                std::thread::yield_now();
            }
        }
    }

    /// What is waited for without an end.
    fn begun(handle: Handle, name: &str) -> Waiting {
        let operation = Operation::find(handle.of(), name).unwrap();
        operation.here(handle, vec![Argument::Limit(None)]).unwrap()
    }

    #[test]
    fn a_thread_looks_in_between_whether_what_lasts_is_done() {
        let client: crate::blocking::Client = client_of_test();
        let taken = client.lock("x").acquire().unwrap();
        let drain = Operation::find(Of::Client, "drain").unwrap();
        let mut waiting = drain.here(Handle::Client(client.into_face()), vec![Argument::Span(Duration::MAX)]).unwrap();
        assert!(waiting.at_once().is_none());
        let _ = taken.release().unwrap();
        assert!(matches!(waiting.at_once(), Some(Ok(Outcome::Told(_)))));
    }

    #[test]
    fn whoever_is_woken_for_several_locks_is_woken_for_each() {
        let client: crate::blocking::Client = client_of_test();
        let taken: Vec<_> = ["x", "y"].map(|name| client.lock(name).acquire().unwrap()).into();
        let mut waiting = begun(Handle::Locks(client.multi_lock(["x", "y"]).unwrap().into_face()), "acquire");
        assert!(waiting.at_once().is_none());
        let bell = Arc::new(Bell::default());
        let mut look = || waiting.wait(Wait::Wake(&Waker::from(bell.clone())));
        for guard in taken {
            assert!(look().is_none());
            let _ = guard.release().unwrap();
            bell.await_ring();
        }
        assert!(matches!(look(), Some(Ok(Outcome::AllGranted(guards))) if guards.len() == 2));
    }

    #[test]
    fn whoever_is_woken_for_a_segment_is_woken_for_the_first_that_is_waited_for() {
        let client: crate::blocking::Client = client_of_test();
        let stock = client.striped("x", 1).unwrap();
        let taken = stock.any().unwrap().unwrap();
        let mut waiting = begun(Handle::Segments(stock.into_face()), "any");
        let bell = Arc::new(Bell::default());
        let mut look = || waiting.wait(Wait::Wake(&Waker::from(bell.clone())));
        assert!(look().is_none());
        let _ = taken.into_guard().release().unwrap();
        bell.await_ring();
        assert!(matches!(look(), Some(Ok(Outcome::Segment(0, ..)))));
    }

    #[tokio::test]
    async fn what_an_operation_does_not_take_is_an_error_and_no_panic() {
        for operation in &ALL {
            let other = if operation.of == Of::Client { Of::Latch } else { Of::Client };
            assert_eq!(told(&operation.run(handle(other), arguments(operation)).await), "internal");
            assert_eq!(told(&ended(operation.here(handle(other), arguments(operation)))), "internal");
            if !operation.takes.is_empty() {
                assert_eq!(told(&operation.run(handle(operation.of), Vec::new()).await), "internal");
                assert_eq!(told(&ended(operation.here(handle(operation.of), Vec::new()))), "internal");
            }
        }
    }
}
