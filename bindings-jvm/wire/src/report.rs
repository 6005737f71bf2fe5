//! What the core tells of itself, and asks of the program: distributions of times, events, user and password.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use lockwright::Result;
use lockwright::binding::report::{quantile, tell};
use lockwright::binding::{Broker, Value, lost_track};
use lockwright::events::{Events, Level};
use lockwright::options::{Credentials, CredentialsSource};

use crate::agenda::{Message, post, post_news};
use crate::reply::Reply;
use crate::table;
use crate::verb::{done, span};
use crate::wire::Request;

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

static EVENTS: OnceLock<Result<Arc<Events>>> = OnceLock::new();

/// Has events told, of a level (0, errors, to 4, traces; above, none) from now on.
pub(crate) fn listen(request: &mut Request<'_>) -> Result<Reply> {
    let events = EVENTS.get_or_init(|| tell(None, CAPACITY, post_news)).clone()?;
    events.set_level(Level::numbered(request.byte()?));
    Ok(done())
}

/// Tells none any more.
pub(crate) fn end() {
    if let Some(Ok(events)) = EVENTS.get() {
        events.close();
    }
}

/// Where the driver's threads wait for user and password.
fn broker() -> &'static Broker {
    static BROKER: OnceLock<Broker> = OnceLock::new();
    BROKER.get_or_init(Broker::default)
}

/// Has Java ask the source of that number, and waits for at most so long.
pub(crate) fn source(whom: u64, limit: Duration) -> CredentialsSource {
    let post = move |question| post(Message::Asked { whom, question });
    Arc::new(move || broker().ask("source of credentials", limit, post))
}

/// Question, user, password, or why there are none.
pub(crate) fn give(request: &mut Request<'_>) -> Result<Reply> {
    let question = request.count()?;
    let (user, password) = (request.optional(Request::text)?, request.optional(Request::text)?);
    let found = match (user, password) {
        (Some(user), Some(password)) => Ok(Credentials { user, password }),
        _ => Err(request.text()?),
    };
    broker().give(question, found);
    Ok(done())
}
