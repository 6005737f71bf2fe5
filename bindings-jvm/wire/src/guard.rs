//! What is held: each verb in the caller's thread, and as a job.

use std::sync::Arc;

use lockwright::Result;
use lockwright::binding::held::Group;
use lockwright::binding::{Held, Standing, Value};

use crate::agenda::{Message, agenda, post};
use crate::reply::Reply;
use crate::table;
use crate::verb::{done, span};
use crate::wire::Request;

fn held(request: &mut Request<'_>, operation: &'static str) -> Result<Arc<Held>> {
    table::held(operation, request.number()?)
}

pub(crate) fn release(request: &mut Request<'_>) -> Result<Reply> {
    Ok(Reply::ending(&held(request, "release")?.release()?))
}

pub(crate) fn begin_release(request: &mut Request<'_>) -> Result<Reply> {
    let work = held(request, "release")?.begin_release(false)?;
    Ok(agenda()?.begin(work))
}

/// Guards, and whether they are of a block.
fn group(request: &mut Request<'_>) -> Result<(Vec<Arc<Held>>, bool)> {
    let of_block = request.flag()?;
    Ok((request.list(|request| held(request, "release"))?, of_block))
}

pub(crate) fn release_all(request: &mut Request<'_>) -> Result<Reply> {
    let (all, of_block) = group(request)?;
    Ok(Reply::all_ended(Group::release(&all, of_block)))
}

pub(crate) fn begin_release_all(request: &mut Request<'_>) -> Result<Reply> {
    let (all, of_block) = group(request)?;
    Ok(agenda()?.begin(Group::begin_release(all, of_block)))
}

pub(crate) fn export(request: &mut Request<'_>) -> Result<Reply> {
    let held = held(request, "export")?;
    let ttl = span(request, "export", "ttl")?;
    Ok(Reply::told(held.export(ttl)?.into_string()))
}

pub(crate) fn begin_export(request: &mut Request<'_>) -> Result<Reply> {
    let held = held(request, "export")?;
    let ttl = span(request, "export", "ttl")?;
    Ok(agenda()?.begin(held.begin_export(ttl)?))
}

pub(crate) fn extend(request: &mut Request<'_>) -> Result<Reply> {
    let held = held(request, "extend")?;
    let ttl = span(request, "extend", "ttl")?;
    held.extend(ttl).map(|()| done())
}

pub(crate) fn begin_extend(request: &mut Request<'_>) -> Result<Reply> {
    let held = held(request, "extend")?;
    let ttl = span(request, "extend", "ttl")?;
    Ok(agenda()?.begin(held.begin_extend(ttl)?))
}

pub(crate) fn change(request: &mut Request<'_>) -> Result<Reply> {
    let held = held(request, "change")?;
    Ok(Reply::told(held.change(request.flag()?)?))
}

pub(crate) fn begin_change(request: &mut Request<'_>) -> Result<Reply> {
    let held = held(request, "change")?;
    Ok(agenda()?.begin(held.begin_change(request.flag()?)?))
}

pub(crate) fn hold_at_least_for(request: &mut Request<'_>) -> Result<Reply> {
    let held = held(request, "hold_at_least_for")?;
    let span = span(request, "hold_at_least_for", "span")?;
    held.hold_at_least_for(span).map(|()| done())
}

/// Whether it is held, for how long certainly, why it was lost, its token, and whether it was given back.
pub(crate) fn state(request: &mut Request<'_>) -> Result<Reply> {
    let held = held(request, "state")?;
    Ok(Reply::told(vec![
        Value::Flag(held.is_held()),
        Value::Span(held.remaining().unwrap_or_default()),
        Value::from(held.why().map(|why| why.code())),
        Value::Token(held.token()),
        Value::Flag(held.standing() != Standing::Open),
    ]))
}

/// Has its loss told; whether it was not given back yet.
pub(crate) fn watch(request: &mut Request<'_>) -> Result<Reply> {
    let number = request.number()?;
    let held = table::held("lost", number)?;
    let tell = move |why| post(Message::Lost(number, why));
    Ok(Reply::told(held.on_lost(Box::new(tell))))
}

/// Lets the lease of a guard that was collected run out. For how much longer it was still held, if it was.
pub(crate) fn abandon(request: &mut Request<'_>) -> Result<Reply> {
    let number = request.number()?;
    let held = table::held("abandon", number)?;
    table::forget(number);
    Ok(Reply::told(held.abandon()))
}
