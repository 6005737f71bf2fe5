//! The dispatcher: one Python thread per process, through which the driver's thread reaches Python without entering it.
//!
//! The driver leaves a [`Message`] in the mailbox; the thread, which waits there without the GIL, takes it up as one of
//! Python's own. `lockwright._dispatcher` starts it at first need and sends it home when the interpreter exits.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;

use lockwright::binding::{Broker, Generational, broker};
use lockwright::fork_generation;
use lockwright::options::Credentials;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::error::Raised;
use crate::green::{self, Hub};
use crate::guard::Callbacks;
use crate::{is_outside, locked, outside};

/// What the driver has to say. It must own no Python object: the driver's thread may be the one that drops it.
pub(crate) enum Message {
    Lost(Weak<Callbacks>, &'static str),
    Wanted(Weak<Callbacks>),
    Credentials(Weak<Py<PyAny>>, u32),
}

/// How long the thread waits in one piece; as good as for ever.
const ROUND: Duration = Duration::from_secs(3600);

#[derive(Default)]
pub(crate) struct Messages {
    state: Mutex<State>,
    arrived: Condvar,
    broker: Arc<Broker>,
}

#[derive(Default)]
struct State {
    messages: VecDeque<Message>,
    /// The dispatcher was started.
    is_attended: bool,
    closed: bool,
}

impl Messages {
    pub(crate) fn post(&self, message: Message) {
        let mut state = locked(&self.state);
        if !state.closed {
            state.messages.push_back(message);
            self.arrived.notify_one();
        }
    }

    /// The next message, or that there will be none; `None` when neither is so within `limit`.
    fn wait(&self, limit: Duration) -> Option<Option<Message>> {
        let quiet = |state: &mut State| !state.closed && state.messages.is_empty();
        let state = locked(&self.state);
        let waited = self.arrived.wait_timeout_while(state, limit, quiet);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner).0;
        if state.closed { Some(None) } else { state.messages.pop_front().map(Some) }
    }
}

/// A forked child never touches its parent's: somebody may have been using that.
static MESSAGES: OnceLock<Generational<Messages>> = OnceLock::new();

/// The mailbox of this process, with somebody at it.
pub(crate) fn started(py: Python<'_>) -> PyResult<&'static Arc<Messages>> {
    let messages = MESSAGES.get_or_init(|| Generational::new(Arc::default())).get_or_make(Arc::default);
    if !std::mem::replace(&mut locked(&messages.state).is_attended, true) {
        let mailbox = Mailbox { messages: messages.clone(), generation: fork_generation() };
        let start = || py.import("lockwright._dispatcher")?.call_method1("start", (mailbox,));
        start().inspect_err(|_| locked(&messages.state).is_attended = false)?;
    }
    Ok(messages)
}

type Call = (Py<PyAny>, Py<PyTuple>, Option<Py<Answer>>);

/// The dispatcher's end of the mailbox.
#[pyclass(frozen, module = "lockwright._lockwright")]
pub(crate) struct Mailbox {
    messages: Arc<Messages>,
    generation: u64,
}

#[pymethods]
impl Mailbox {
    /// What is to be called, with what, and who wants the result; `None` when the dispatcher may go. Python calls it:
    /// no Rust frame may lie below code that the interpreter's exit can cut short.
    fn next(&self, py: Python<'_>) -> PyResult<Option<Vec<Call>>> {
        let hub = green::hub(py)?;
        let limit = if hub.is_some() { Duration::ZERO } else { ROUND };
        loop {
            match outside(py, || Ok(self.messages.wait(limit))).map_err(Raised)? {
                Some(Some(message)) => return calls(py, message, &self.messages.broker).map(Some),
                Some(None) => return Ok(None),
                None => hub.as_ref().map_or(Ok(()), Hub::pause)?,
            }
        }
    }

    fn close(&self) {
        if self.generation == fork_generation() {
            locked(&self.messages.state).closed = true;
            self.messages.broker.close(EXITING);
            self.messages.arrived.notify_all();
        }
    }
}

fn calls(py: Python<'_>, message: Message, broker: &Arc<Broker>) -> PyResult<Vec<Call>> {
    match message {
        Message::Lost(callbacks, why) => {
            let callbacks = callbacks.upgrade().map(|callbacks| callbacks.take()).unwrap_or_default();
            let call = |callback| Ok((callback, (why,).into_pyobject(py)?.unbind(), None));
            callbacks.into_iter().map(call).collect()
        }
        Message::Wanted(callbacks) => {
            let callbacks = callbacks.upgrade().map(|callbacks| callbacks.take()).unwrap_or_default();
            Ok(callbacks.into_iter().map(|callback| (callback, PyTuple::empty(py).unbind(), None)).collect())
        }
        Message::Credentials(callable, question) => {
            let Some(callable) = callable.upgrade() else {
                broker.give(question, Err(GONE.into()));
                return Ok(Vec::new());
            };
            let ask = py.import("lockwright._dispatcher")?.getattr("ask")?.unbind();
            let answer = Answer { broker: broker.clone(), question };
            Ok(vec![(ask, (&*callable,).into_pyobject(py)?.unbind(), Some(Py::new(py, answer)?))])
        }
    }
}

/// Takes what a call returned.
#[pyclass(frozen, module = "lockwright._lockwright")]
pub(crate) struct Answer {
    broker: Arc<Broker>,
    question: u32,
}

#[pymethods]
impl Answer {
    fn __call__(&self, found: Found) {
        self.broker.give(self.question, found.into());
    }
}

/// User and password, or why there are none.
#[derive(FromPyObject)]
pub(crate) enum Found {
    Pair((String, String)),
    Why(String),
}

impl From<Found> for broker::Found {
    fn from(found: Found) -> Self {
        match found {
            Found::Pair((user, password)) => Ok(Credentials { user, password }),
            Found::Why(why) => Err(why),
        }
    }
}

/// The user and password that Python gives, asked for on whatever thread makes a connection.
///
/// # Errors
/// Why it gives none within `limit`.
pub(crate) fn credentials(
    callable: &Weak<Py<PyAny>>,
    limit: Duration,
) -> Result<Credentials, Box<dyn std::error::Error + Send + Sync>> {
    if is_outside() && Python::attach(green::is_patched).map_err(|error| error.to_string())? {
        // Other greenlets must not run here, in the middle of a call: a thread of its own asks.
        let broker = Arc::<Broker>::default();
        let beside = |question| {
            Python::attach(|py| {
                let answer = Py::new(py, Answer { broker: broker.clone(), question })?;
                green::beside(py, callable.upgrade().as_deref(), answer)
            })
        };
        let or_refused = |question| {
            beside(question).unwrap_or_else(|error| broker.give(question, Err(error.to_string())));
        };
        return broker.ask(CALLABLE, limit, or_refused);
    }
    if is_outside() {
        let found = Python::attach(|py| {
            let callable = callable.upgrade().ok_or(GONE)?;
            let ask = py.import("lockwright._dispatcher").and_then(|dispatcher| dispatcher.getattr("ask"));
            let asked = ask.and_then(|ask| ask.call1((&*callable,))?.extract::<Found>());
            asked.map_err(|error| error.to_string())
        })?;
        return Ok(broker::Found::from(found)?);
    }
    let messages = MESSAGES.get().and_then(Generational::current).ok_or(EXITING)?;
    messages.broker.ask(CALLABLE, limit, |question| messages.post(Message::Credentials(callable.clone(), question)))
}

/// What Python calls whoever gives user and password.
const CALLABLE: &str = "credentials callable";

const GONE: &str = "the client is gone";

const EXITING: &str = "Python is exiting";
