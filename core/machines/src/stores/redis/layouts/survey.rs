//! Looks for locks of other libraries: what lies under a bare name, or anywhere under a prefix, told by its looks.

use std::time::Duration;

use super::shapes;
use crate::error::Result;
use crate::lease::Sighting;
use crate::protocol::{Call, Inquiry, Page, Reply, Request};
use crate::replies::{listed, nonsense};

static EVICTION: Call = Call { name: "eviction", body: script!("eviction"), batch: false };

static SURVEY: Call = Call { name: "survey", body: script!("survey"), batch: false };

/// What the server does when its memory is full; `prefix` routes the request.
pub fn eviction<'a>(prefix: &str) -> Inquiry<'a, Option<String>> {
    Inquiry::of(Request::new(&EVICTION, prefix.into(), []), |reply| match reply {
        Reply::Text(policy) if !policy.is_empty() => Ok(Some(policy.clone())),
        // A user without that right has everything else.
        _ => Ok(None),
    })
}

/// Looks for locks under `name`, or under all that begins with `prefix`.
pub fn others<'a>(prefix: &'a str, name: Option<&'a str>) -> Inquiry<'a, Vec<Sighting>> {
    Inquiry::pages(move |cursor| request(prefix, name, cursor), seen)
}

fn request(prefix: &str, name: Option<&str>, cursor: &str) -> Request {
    let (key, how) = match name {
        Some(name) => (format!("{prefix}{name}"), "one"),
        None => (format!("{prefix}*"), "page"),
    };
    Request::new(&SURVEY, key.into(), [how.into(), cursor.into()])
}

/// What looks like a lock in its reply, and where the next page begins.
fn seen(reply: &Reply) -> Result<Page<Sighting>> {
    let [Reply::Text(next), keys @ ..] = listed(reply)? else {
        return Err(nonsense("list", std::slice::from_ref(reply)));
    };
    let sightings = keys.chunks(4).filter_map(|key| match key {
        [Reply::Text(key), Reply::Text(kind), Reply::Int(left), Reply::Text(text)] => {
            let looks_like = shapes::recognised(kind, text, *left >= 0)?.to_owned();
            let remaining = u64::try_from(*left).ok().map(Duration::from_millis);
            Some(Sighting { key: key.clone(), looks_like, remaining })
        }
        _ => None,
    });
    Ok((sightings.collect(), Some(next.clone()).filter(|next| !next.is_empty())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_looks_like_a_lock_is_told_and_all_else_is_passed_over() {
        let text = |text: &str| Reply::Text(text.into());
        let key = |name, kind, left, inside| [text(name), text(kind), Reply::Int(left), text(inside)];
        let keys = [
            key("a", "hash", 30_000, "9b2e1c3a-0000-4000-8000-0123456789ab:7"),
            key("b", "string", -1, "1700000000"),
            key("c", "string", -1, "0123456789abcdef0123456789abcdef"),
            key("d", "none", -2, ""),
        ];
        let reply = Reply::List([text("17")].into_iter().chain(keys.into_iter().flatten()).collect());
        let (found, next) = seen(&reply).unwrap();
        let found: Vec<_> = found.iter().map(|one| (&*one.key, one.remaining.is_some())).collect();
        assert_eq!((found, next.as_deref()), (vec![("a", true), ("c", false)], Some("17")));
        assert!(seen(&Reply::List(vec![Reply::Int(1)])).is_err() && seen(&Reply::Nil).is_err());
    }
}
