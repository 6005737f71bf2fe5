//! Clients, locks, and whatever else is asked something.

use lockwright::binding::options::{CONNECT, LOCK, REQUIRE};
use lockwright::binding::{Handle, Record, Value, lost_track, open};
use lockwright::guarantee::Requirements;
use lockwright::options::{AcquireOptions, ConnectOptions};
use lockwright::queue::OwnerId;
use lockwright::striped::Striped;
use lockwright::{Client, Result, name};

use crate::JAVA;
use crate::reply::Reply;
use crate::report::source;
use crate::table;
use crate::verb::{done, span};
use crate::wire::Request;

/// Address, options, and by what number user and password are asked for. Nothing is sent before the first use.
pub(crate) fn client(request: &mut Request<'_>) -> Result<Reply> {
    let url = request.optional(Request::text)?;
    let mut options = ConnectOptions { language: JAVA.name, ..ConnectOptions::default() };
    request.options(&CONNECT, &mut options, "connect")?;
    if let Some(whom) = request.optional(Request::number)? {
        options.credentials = Some(source(whom, options.connect_timeout));
    }
    let client = Client::open(url.as_deref(), options)?;
    let address = client.address().to_owned();
    let number = table::keep_handle(Handle::Client(client));
    Ok(Reply::told(vec![Value::Token(number), Value::from(address)]))
}

/// Client, a name that something will be made of.
pub(crate) fn check_name(request: &mut Request<'_>) -> Result<Reply> {
    let client = client_of(request)?;
    let checked = name::check(&request.text()?);
    checked.map(|_| done()).map_err(|error| error.on_store(client.address()))
}

/// Client, permits, how many of them are taken together: of a semaphore that will be made.
pub(crate) fn check_permits(request: &mut Request<'_>) -> Result<Reply> {
    let client = client_of(request)?;
    let checked = open::check_permits(request.count()?, request.count()?);
    checked.map(|()| done()).map_err(|error| error.on_store(client.address()))
}

/// Client, segments: of a lock that will be cut into so many.
pub(crate) fn check_segments(request: &mut Request<'_>) -> Result<Reply> {
    let client = client_of(request)?;
    let checked = open::check_segments(request.count()?);
    checked.map(|()| done()).map_err(|error| error.on_store(client.address()))
}

/// What of a name is locked.
mod part {
    pub(super) const ALL: u8 = 0;
    pub(super) const READ: u8 = 1;
    pub(super) const WRITE: u8 = 2;
    pub(super) const PERMITS: u8 = 3;
}

/// Client, name, part, permits, how many to take, options.
pub(crate) fn lock(request: &mut Request<'_>) -> Result<Reply> {
    let client = client_of(request)?;
    let name = request.text()?;
    let (part, permits, take) = (request.byte()?, request.count()?, request.count()?);
    let options = options(request, &client)?;
    let reentrant = options.reentrant;
    let builder = match part {
        part::ALL => client.lock(&name),
        part::READ => client.rwlock(&name).read(),
        part::WRITE => client.rwlock(&name).write(),
        part::PERMITS => client.semaphore(&name, permits).take(take),
        _ => return Err(lost_track("lock")),
    };
    let builder = builder.options(options);
    let builder = if reentrant { builder.reentrant(OwnerId(0)) } else { builder };
    Ok(kept(Handle::Lock(builder.build()?)))
}

/// Client, names, options. The names come back as they are taken.
pub(crate) fn multi_lock(request: &mut Request<'_>) -> Result<Reply> {
    let client = client_of(request)?;
    let names = request.list(Request::text)?;
    let options = options(request, &client)?;
    let locks = client.multi_lock_with(names, &options)?;
    let names = locks.names().map(|name| Value::from(name.to_owned())).collect();
    let number = table::keep_handle(Handle::Locks(locks));
    Ok(Reply::told(vec![Value::Token(number), Value::List(names)]))
}

/// Client, name, segments, options, the other clients.
pub(crate) fn striped(request: &mut Request<'_>) -> Result<Reply> {
    let client = client_of(request)?;
    let (name, segments) = (request.text()?, request.count()?);
    let options = options(request, &client)?;
    let segments = usize::try_from(segments).unwrap_or(usize::MAX);
    let striped = client.striped_with(&name, segments, &options)?;
    Ok(kept(Handle::Segments(striped.across(&request.list(client_of)?)?)))
}

/// Client, name, count, for how long it is remembered.
pub(crate) fn latch(request: &mut Request<'_>) -> Result<Reply> {
    let client = client_of(request)?;
    let (name, count) = (request.text()?, request.count()?);
    let idle = request.optional(|request| span(request, "latch", "idle"))?;
    Ok(kept(Handle::Latch(open::latch(&client, &name, count, idle)?)))
}

/// Client, name, parties, ttl.
pub(crate) fn barrier(request: &mut Request<'_>) -> Result<Reply> {
    let client = client_of(request)?;
    let (name, parties) = (request.text()?, request.count()?);
    let ttl = request.optional(|request| span(request, "barrier", "ttl"))?;
    Ok(kept(Handle::Barrier(open::barrier(&client, &name, parties, ttl)?)))
}

/// The lock that a secret holds: its name.
pub(crate) fn exported(request: &mut Request<'_>) -> Result<Reply> {
    let client = client_of(request)?;
    Ok(Reply::told(client.exported(&request.text()?)?.name().to_owned()))
}

pub(crate) fn for_election(request: &mut Request<'_>) -> Result<Reply> {
    let lock = table::handle(request.number()?)?;
    Ok(kept(Handle::Lock(lock.lock()?.clone().for_election()?)))
}

/// Of a striped lock, by index.
pub(crate) fn segment(request: &mut Request<'_>) -> Result<Reply> {
    on_segment(request, |segments, index| kept(Handle::Lock(segments.segment(index).clone())))
}

pub(crate) fn index_for(request: &mut Request<'_>) -> Result<Reply> {
    let segments = table::handle(request.number()?)?;
    let index = segments.segments()?.index_for(&request.text()?);
    Ok(Reply::told(u64::try_from(index).unwrap_or(u64::MAX)))
}

pub(crate) fn mark_sold_out(request: &mut Request<'_>) -> Result<Reply> {
    on_segment(request, |segments, index| {
        segments.mark_sold_out(index);
        done()
    })
}

pub(crate) fn restock(request: &mut Request<'_>) -> Result<Reply> {
    table::handle(request.number()?)?.segments()?.restock();
    Ok(done())
}

pub(crate) fn require(request: &mut Request<'_>) -> Result<Reply> {
    let client = client_of(request)?;
    let mut wanted = Requirements::default();
    request.options(&REQUIRE, &mut wanted, "require")?;
    client.require(wanted).map(|()| done())
}

/// Of a client, or of a lock.
pub(crate) fn guarantees(request: &mut Request<'_>) -> Result<Reply> {
    let promised = match table::handle(request.number()?)? {
        Handle::Lock(lock) => lock.guarantees(),
        of => of.client()?.guarantees()?,
    };
    Ok(Reply::told(Record::from(promised)))
}

pub(crate) fn metrics(request: &mut Request<'_>) -> Result<Reply> {
    Ok(Reply::told(Record::from(client_of(request)?.metrics())))
}

fn kept(handle: Handle) -> Reply {
    Reply::number(table::keep_handle(handle))
}

fn client_of(request: &mut Request<'_>) -> Result<Client> {
    table::handle(request.number()?)?.client().cloned()
}

/// What is not given stays as the client's address says.
fn options(request: &mut Request<'_>, client: &Client) -> Result<AcquireOptions> {
    let mut options = client.options();
    request.options(&LOCK, &mut options, "lock").map(|()| options)
}

fn on_segment(request: &mut Request<'_>, work: impl FnOnce(&Striped, usize) -> Reply) -> Result<Reply> {
    let of = table::handle(request.number()?)?;
    let (segments, index) = (of.segments()?, usize::try_from(request.count()?).unwrap_or(usize::MAX));
    Ok(work(segments, open::segment(segments, index)?))
}
