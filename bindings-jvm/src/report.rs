//! What the core tells of itself, and asks of the program: distributions of times, events, user and password.

use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use lockwright::Result;
use lockwright::binding::report::{quantile, tell};
use lockwright::binding::{Numbered, Value, lost_track};
use lockwright::events::{Events, Level};
use lockwright::options::Credentials;

use crate::agenda::{Message, post, post_news};
use crate::reply::Reply;
use crate::verb::{done, span};
use crate::wire::Request;
use crate::{locked, table};

/// Of a distribution: how many, how long together and at most, or a quantile, or how many up to a bound, or its
/// buckets.
pub(crate) fn histogram(request: &mut Request<'_>) -> Result<Reply> {
    let of = table::histogram(request.number()?)?;
    Ok(match request.byte()? {
        0 => Reply::told(vec![Value::Count(of.count()), Value::Span(of.sum()), Value::Span(of.max())]),
        1 => Reply::told(quantile(&of, request.fraction()?)?),
        2 => Reply::told(of.at_most(span(request, "metrics", "bound")?)),
        3 => {
            let bucket = |(bound, count)| Value::List(vec![Value::Span(bound), Value::Count(count)]);
            Reply::told(of.buckets().map(bucket).collect::<Vec<_>>())
        }
        _ => return Err(lost_track("metrics")),
    })
}

/// How many events wait in the core, and as many for Java.
pub(crate) const CAPACITY: usize = 10_000;

/// Has events told, of a level (0, errors, to 4, traces; above, none) from now on.
pub(crate) fn listen(request: &mut Request<'_>) -> Result<Reply> {
    static EVENTS: OnceLock<Result<Arc<Events>>> = OnceLock::new();
    let events = EVENTS.get_or_init(|| tell(None, CAPACITY, post_news)).clone()?;
    events.set_level(Level::numbered(request.byte()?));
    Ok(done())
}

/// Where the driver's threads wait for user and password.
#[derive(Default)]
struct Questions {
    open: Mutex<Numbered<Option<Found>>>,
    answered: Condvar,
}

type Found = std::result::Result<Credentials, String>;

fn questions() -> &'static Questions {
    static QUESTIONS: OnceLock<Questions> = OnceLock::new();
    QUESTIONS.get_or_init(Questions::default)
}

/// Has Java ask the source of that number, and waits for `limit` at most.
pub(crate) fn credentials(
    whom: u64,
    limit: Duration,
) -> std::result::Result<Credentials, Box<dyn std::error::Error + Send + Sync>> {
    let Questions { open, answered } = questions();
    let question = locked(open).keep(None);
    post(Message::Asked { whom, question });
    let unanswered = |open: &mut Numbered<Option<Found>>| matches!(open.get(question), Some(None));
    let waited = answered.wait_timeout_while(locked(open), limit, unanswered);
    let found = waited.unwrap_or_else(PoisonError::into_inner).0.remove(question).flatten();
    Ok(found.unwrap_or_else(|| Err(format!("the source of credentials did not answer within {limit:?}")))?)
}

/// Question, user, password, or why there are none.
pub(crate) fn give(request: &mut Request<'_>) -> Result<Reply> {
    let question = request.count()?;
    let (user, password) = (request.optional(Request::text)?, request.optional(Request::text)?);
    let found = match (user, password) {
        (Some(user), Some(password)) => Ok(Credentials { user, password }),
        _ => Err(request.text()?),
    };
    // Nobody waits for an answer that comes late.
    if let Some(open) = locked(&questions().open).get(question) {
        *open = Some(found);
    }
    questions().answered.notify_all();
    Ok(done())
}
