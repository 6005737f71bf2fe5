//! What is asked by name: in the caller's thread, or as a job.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::task::{Wake, Waker};

use lockwright::binding::operation::{Operation, Takes};
use lockwright::binding::{Argument, Handle, Waiting, lost_track};
use lockwright::blocking::Wait;
use lockwright::{Error, Result};

use crate::agenda::{Message, agenda, post};
use crate::reply::Reply;
use crate::wire::Request;
use crate::{JAVA, locked, table, verb};

/// What waits in threads that Java parked, by number.
fn waiting() -> &'static Mutex<HashMap<u64, Arc<Mutex<Waiting>>>> {
    static WAITING: OnceLock<Mutex<HashMap<u64, Arc<Mutex<Waiting>>>>> = OnceLock::new();
    WAITING.get_or_init(Mutex::default)
}

/// Has Java's thread look.
struct Bell(u64);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        post(Message::Rang(self.0));
    }
}

/// Handle, name, owner, arguments.
fn asked(request: &mut Request<'_>) -> Result<(&'static Operation, Handle, Vec<Argument>)> {
    let handle = table::handle(request.number()?)?;
    let name = request.word()?;
    let owner = request.owner()?;
    let operation = Operation::find(handle.of(), name).ok_or_else(|| lost_track("call"))?;
    let argument = |(what, takes): &(&'static str, Takes)| {
        Ok(match takes {
            Takes::Limit => Argument::Limit(match request.optional(Request::given)? {
                Some(given) => {
                    JAVA.limit(operation.operation, what, &given).map_err(|error| on_lock(error, &handle))?
                }
                None => handle.own_limit(),
            }),
            Takes::Span => Argument::Span(JAVA.span(operation.operation, what, &request.given()?)?),
            Takes::Text => Argument::Text(request.text()?),
            Takes::Token => Argument::Token(request.number()?),
            Takes::Count => Argument::Count(request.count()?),
        })
    };
    let arguments = operation.takes.iter().map(argument).collect::<Result<_>>()?;
    Ok((operation, handle.for_owner(owner), arguments))
}

fn on_lock(error: Error, of: &Handle) -> Error {
    if let Handle::Lock(lock) = of { error.on_lock(lock.name()) } else { error }
}

/// Does it in this thread; what waits for others is to be looked at. A store that was silent may be so for seconds, in
/// which no interrupt would be heard here: it is asked by a job.
pub(crate) fn here(request: &mut Request<'_>) -> Result<Reply> {
    let (operation, handle, arguments) = asked(request)?;
    if handle.is_unanswered() {
        return Ok(agenda()?.begin(operation.run(handle, arguments)));
    }
    let limit = arguments.iter().find_map(|argument| match argument {
        Argument::Limit(limit) => Some(*limit),
        _ => None,
    });
    let mut waits = operation.here(handle, arguments)?;
    match waits.at_once() {
        Some(result) => Ok(Reply::result(result)),
        None => {
            static NEXT: AtomicU64 = AtomicU64::new(1);
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            locked(waiting()).insert(number, Arc::new(Mutex::new(waits)));
            Ok(Reply::waits(number, limit.flatten()))
        }
    }
}

pub(crate) fn job(request: &mut Request<'_>) -> Result<Reply> {
    let (operation, handle, arguments) = asked(request)?;
    Ok(agenda()?.begin(operation.run(handle, arguments)))
}

/// Looks at what waits under that number, which rings when it is worth another look.
pub(crate) fn look(request: &mut Request<'_>) -> Result<Reply> {
    let number = request.number()?;
    let waits = locked(waiting()).get(&number).cloned().ok_or_else(|| lost_track("acquire"))?;
    let waker = Waker::from(Arc::new(Bell(number)));
    let result = locked(&waits).wait(Wait::Wake(&waker));
    match result {
        Some(result) => {
            locked(waiting()).remove(&number);
            Ok(Reply::result(result))
        }
        None => Ok(Reply::waits(number, None)),
    }
}

/// Gives up what waits under that number, unless it has a result already.
pub(crate) fn give_up(request: &mut Request<'_>) -> Result<Reply> {
    let waits = locked(waiting()).remove(&request.number()?).ok_or_else(|| lost_track("acquire"))?;
    let result = locked(&waits).wait(Wait::Wake(Waker::noop()));
    drop(waits);
    Ok(result.map_or_else(verb::done, Reply::result))
}
