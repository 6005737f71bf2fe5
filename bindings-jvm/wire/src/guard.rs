//! What is held: each verb in the caller's thread, and as a job.

use std::sync::Arc;

use lockwright::Result;
use lockwright::binding::held::Group;
use lockwright::binding::{Ending, Held, Outcome, Road, Value, lost_track};
use lockwright::lease::ReleaseOutcome;

use crate::agenda::{Message, agenda, post};
use crate::reply::Reply;
use crate::table;
use crate::verb::{done, span};
use crate::wire::Request;

fn held(request: &mut Request<'_>, operation: &'static str) -> Result<Arc<Held>> {
    table::held(operation, request.number()?)
}

/// What was released has no number any more: Java knows by itself how it ended.
pub(crate) fn release(request: &mut Request<'_>) -> Result<Reply> {
    let number = request.number()?;
    let ending = table::held("release", number)?.release()?;
    table::forget(number);
    Ok(Reply::ending(&ending))
}

pub(crate) fn begin_release(request: &mut Request<'_>) -> Result<Reply> {
    let number = request.number()?;
    let work = table::held("release", number)?.begin_release(Road::Task, false)?;
    Ok(agenda()?.begin(async move {
        let ending = work.await?;
        table::forget(number);
        Ok(ending)
    }))
}

/// Several that are given back together.
struct Several {
    /// The number of each, and whether it was given back already.
    numbers: Vec<(u64, bool)>,
    of_block: bool,
}

impl Several {
    /// With those that were not given back, in their order.
    fn read(request: &mut Request<'_>) -> Result<(Self, Vec<Arc<Held>>)> {
        let of_block = request.flag()?;
        let mut open = Vec::new();
        let numbers = request.list(|request| {
            let number = request.number()?;
            let held = table::held("release", number).ok();
            let is_over = held.is_none();
            open.extend(held);
            Ok((number, is_over))
        })?;
        Ok((Several { numbers, of_block }, open))
    }

    /// What became of each, where `ended` is what became of those that were not given back.
    fn told(self, ended: Vec<Result<Ending>>) -> Vec<Result<Ending>> {
        let mut ended = ended.into_iter();
        let told = |(number, is_over)| match (is_over, self.of_block) {
            (true, true) => Ok(Ending { outcome: ReleaseOutcome::Released, why: None }),
            (true, false) => Err(table::released("release")),
            (false, _) => {
                let ending = ended.next().unwrap_or_else(|| Err(lost_track("release")))?;
                table::forget(number);
                Ok(ending)
            }
        };
        self.numbers.into_iter().map(told).collect()
    }
}

pub(crate) fn release_all(request: &mut Request<'_>) -> Result<Reply> {
    let (several, open) = Several::read(request)?;
    let ended = Group::release(&open, several.of_block);
    Ok(Reply::all_ended(several.told(ended)))
}

pub(crate) fn begin_release_all(request: &mut Request<'_>) -> Result<Reply> {
    let (several, open) = Several::read(request)?;
    let work = Group::begin_release(Road::Task, open, several.of_block);
    Ok(agenda()?.begin(async move {
        Ok(match work.await? {
            Outcome::AllEnded(ended) => Outcome::AllEnded(several.told(ended)),
            other => other,
        })
    }))
}

pub(crate) fn export(request: &mut Request<'_>) -> Result<Reply> {
    let held = held(request, "export")?;
    let ttl = span(request, "export", "ttl")?;
    Ok(Reply::told(held.export(ttl)?.into_string()))
}

pub(crate) fn begin_export(request: &mut Request<'_>) -> Result<Reply> {
    let held = held(request, "export")?;
    let ttl = span(request, "export", "ttl")?;
    Ok(agenda()?.begin(held.begin_export(Road::Task, ttl)?))
}

pub(crate) fn extend(request: &mut Request<'_>) -> Result<Reply> {
    let held = held(request, "extend")?;
    let ttl = span(request, "extend", "ttl")?;
    held.extend(ttl).map(|()| done())
}

pub(crate) fn begin_extend(request: &mut Request<'_>) -> Result<Reply> {
    let held = held(request, "extend")?;
    let ttl = span(request, "extend", "ttl")?;
    Ok(agenda()?.begin(held.begin_extend(Road::Task, ttl)?))
}

pub(crate) fn change(request: &mut Request<'_>) -> Result<Reply> {
    let held = held(request, "change")?;
    Ok(Reply::told(held.change(request.flag()?)?))
}

pub(crate) fn begin_change(request: &mut Request<'_>) -> Result<Reply> {
    let held = held(request, "change")?;
    Ok(agenda()?.begin(held.begin_change(Road::Task, request.flag()?)?))
}

pub(crate) fn hold_at_least_for(request: &mut Request<'_>) -> Result<Reply> {
    let held = held(request, "hold_at_least_for")?;
    let span = span(request, "hold_at_least_for", "span")?;
    held.hold_at_least_for(span).map(|()| done())
}

/// Whether it is held, for how long certainly, why it was lost, its token, and whether it is asked back; nothing where
/// it was released.
pub(crate) fn state(request: &mut Request<'_>) -> Result<Reply> {
    let Ok(held) = table::held("state", request.number()?) else { return Ok(done()) };
    Ok(Reply::told(vec![
        Value::Flag(held.is_held()),
        Value::Span(held.remaining().unwrap_or_default()),
        Value::from(held.why().map(|why| why.code())),
        Value::Token(held.token()),
        Value::Flag(held.release_requested()),
    ]))
}

/// Has its loss told; whether it was not given back yet.
pub(crate) fn watch(request: &mut Request<'_>) -> Result<Reply> {
    let number = request.number()?;
    let Ok(held) = table::held("lost", number) else { return Ok(Reply::told(false)) };
    let tell = move |why| post(Message::Lost(number, why));
    Ok(Reply::told(held.on_lost(Box::new(tell))))
}

/// Has it told when somebody asks for it back; whether it was not given back yet.
pub(crate) fn heed(request: &mut Request<'_>) -> Result<Reply> {
    let number = request.number()?;
    let Ok(held) = table::held("on_release_requested", number) else { return Ok(Reply::told(false)) };
    Ok(Reply::told(held.on_release_requested(Box::new(move || post(Message::Wanted(number))))))
}

/// Lets the lease of a guard that was collected run out. For how much longer it was still held, if it was.
pub(crate) fn abandon(request: &mut Request<'_>) -> Result<Reply> {
    let number = request.number()?;
    let held = table::held("abandon", number)?;
    table::forget(number);
    Ok(Reply::told(held.abandon()))
}

#[cfg(test)]
mod tests {
    use lockwright::Client;
    use lockwright::options::ConnectOptions;

    use super::*;

    #[test]
    fn one_that_was_released_before_keeps_no_other_from_it() -> Result<()> {
        let client: lockwright::blocking::Client = Client::open(Some("memory://several"), ConnectOptions::default())?;
        let held = |name| Ok(table::keep_held(Held::new(client.lock(name).acquire()?.into_face())));
        let numbers: [u64; 2] = [held("a")?, held("b")?];
        release(&mut Request::new(&numbers[0].to_be_bytes()))?;
        let mut asked = vec![0, 0, 0, 0, 2];
        numbers.iter().for_each(|number| asked.extend(number.to_be_bytes()));
        let (several, open) = Several::read(&mut Request::new(&asked))?;
        let ended = several.told(Group::release(&open, false));
        assert!(ended[0].is_err() && ended[1].is_ok());
        assert!(client.lock("b").try_acquire()?.is_some());
        Ok(())
    }
}
