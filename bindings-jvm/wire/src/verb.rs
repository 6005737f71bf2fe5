//! What Java may ask, by the first byte of a request; `Verb` of the Java side has the same list in the same order.

use lockwright::Result;
use lockwright::binding::{Value, lost_track, manifest};

use crate::reply::Reply;
use crate::wire::Request;
use crate::{JAVA, agenda, ask, guard, kit, open, report, table};

type Obeys = fn(&mut Request<'_>) -> Result<Reply>;

const ALL: [Obeys; 48] = [
    |_| Ok(Reply::told(env!("CARGO_PKG_VERSION"))),
    |_| Ok(Reply::told(manifest::manifest())),
    forget,
    open::client,
    open::lock,
    open::multi_lock,
    open::striped,
    open::latch,
    open::barrier,
    open::exported,
    open::for_election,
    open::segment,
    open::index_for,
    open::mark_sold_out,
    open::restock,
    open::require,
    open::guarantees,
    open::metrics,
    ask::here,
    ask::job,
    ask::look,
    ask::give_up,
    guard::release,
    guard::begin_release,
    guard::release_all,
    guard::begin_release_all,
    guard::export,
    guard::begin_export,
    guard::extend,
    guard::begin_extend,
    guard::change,
    guard::begin_change,
    guard::hold_at_least_for,
    guard::state,
    guard::watch,
    guard::heed,
    guard::abandon,
    agenda::take,
    agenda::nudge,
    agenda::forget,
    report::listen,
    report::histogram,
    report::give,
    kit::kit,
    |_| {
        lockwright::restored();
        Ok(done())
    },
    open::check_name,
    open::check_permits,
    open::check_segments,
];

pub(crate) fn obey(asked: u8, request: &mut Request<'_>) -> Result<Reply> {
    let obeys = ALL.get(usize::from(asked)).ok_or_else(|| lost_track("call"))?;
    obeys(request)
}

fn forget(request: &mut Request<'_>) -> Result<Reply> {
    table::forget(request.number()?);
    Ok(done())
}

pub(crate) fn done() -> Reply {
    Reply::told(Value::Nothing)
}

/// A span of time that was given for `what`.
pub(crate) fn span(request: &mut Request<'_>, operation: &'static str, what: &str) -> Result<std::time::Duration> {
    JAVA.span(operation, what, &request.given()?)
}
