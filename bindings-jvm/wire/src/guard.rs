//! What is held: each verb in the caller's thread, and as a job.

use std::sync::Arc;

use lockwright::Result;
use lockwright::binding::held::Group;
use lockwright::binding::{Held, Standing, Value};

use crate::agenda::{Finish, Message, agenda, post};
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
    let held = held(request, "release")?;
    let mut taken = held.take("release")?;
    let guard = held.sole(&mut taken, "release")?;
    agenda()?.begin(Finish::Release(held, taken), |jobs| Ok(jobs.release(guard)))
}

/// Guards, and whether they are of a block.
fn group(request: &mut Request<'_>) -> Result<(Vec<Arc<Held>>, Group)> {
    let of_block = request.flag()?;
    let all = request.list(|request| held(request, "release"))?;
    let group = Group::take(all.iter().map(|held| &**held), of_block);
    Ok((all, group))
}

pub(crate) fn release_all(request: &mut Request<'_>) -> Result<Reply> {
    let (all, group) = group(request)?;
    Ok(Reply::all_ended(group.release(all.iter().map(|held| &**held))))
}

pub(crate) fn begin_release_all(request: &mut Request<'_>) -> Result<Reply> {
    let (all, mut group) = group(request)?;
    let guards = group.guards(all.iter().map(|held| &**held));
    agenda()?.begin(Finish::ReleaseAll(all, group), |jobs| Ok(jobs.release_all(guards)))
}

pub(crate) fn export(request: &mut Request<'_>) -> Result<Reply> {
    let held = held(request, "export")?;
    let ttl = span(request, "export", "ttl")?;
    Ok(Reply::told(held.export(ttl)?.into_string()))
}

pub(crate) fn begin_export(request: &mut Request<'_>) -> Result<Reply> {
    let held = held(request, "export")?;
    let ttl = span(request, "export", "ttl")?;
    let mut taken = held.take("export")?;
    let guard = held.sole(&mut taken, "export")?;
    agenda()?.begin(Finish::Export(held, taken), |jobs| Ok(jobs.export(guard, ttl)))
}

pub(crate) fn extend(request: &mut Request<'_>) -> Result<Reply> {
    let held = held(request, "extend")?;
    let ttl = span(request, "extend", "ttl")?;
    held.extend(ttl).map(|()| done())
}

pub(crate) fn begin_extend(request: &mut Request<'_>) -> Result<Reply> {
    let held = held(request, "extend")?;
    let ttl = span(request, "extend", "ttl")?;
    agenda()?.begin_work(held.begin_extend(ttl)?)
}

pub(crate) fn change(request: &mut Request<'_>) -> Result<Reply> {
    let held = held(request, "change")?;
    Ok(Reply::told(held.change(request.flag()?)?))
}

pub(crate) fn begin_change(request: &mut Request<'_>) -> Result<Reply> {
    let held = held(request, "change")?;
    let work = held.begin_change(request.flag()?)?;
    agenda()?.begin(Finish::Change(held), |jobs| Ok(jobs.begin(work)))
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
    let Ok(mut taken) = held.take("abandon") else { return Ok(done()) };
    let guard = held.sole(&mut taken, "abandon")?;
    let left = guard.remaining();
    guard.abandon();
    Ok(Reply::told(left))
}
