//! Looking at those who stand below a name, whatever they want of it.
//!
//! ```text
//! inspect  first                      nobody there: free
//!          lives: the holders' leases  who they are, and for how long yet
//! break    first                      a holder was created at that token: break it; else nobody held it so
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::part::{Part, holding};
use super::seat;
use super::{BREAK, FIRST, LIVES, first, garbled, int, list, number};
use crate::error::{Error, Kind, Result};
use crate::gate::Answer;
use crate::lease::{BARRIER, Card, Counting, Holder, Inspection, LATCH, Part as HeldPart, Sharing, TOLD, Waiting};
use crate::protocol::{Arg, Inquiry, Reply, Request};

/// How many of a line are read for a look at it.
const SEEN: i64 = 1000;
/// Of how many clients it is asked who they are.
const ASKED: usize = 64;

/// What somebody looks for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    /// Whatever is there.
    Any,
    /// What is called by this word; anything else is in its place.
    One(&'static str),
}

/// One who stands in line.
struct Standing {
    key: Arc<str>,
    create: u64,
    lease: i64,
    label: String,
    part: Part,
}

impl Standing {
    /// What it says of itself, with what its client does. Another library's client says nothing but what it leads with.
    fn card(&self, client: Card) -> Card {
        Card { label: self.label.clone(), ..client }
    }
}

/// Those who want the same of a name as the first of them, in the order in which they came.
struct Line {
    stand: Vec<Standing>,
    /// How many are not shown.
    beyond: u64,
}

impl Line {
    /// How a latch stands, if it is one.
    fn latch(&self) -> Option<Counting> {
        let first = self.stand.first().filter(|first| first.part.word() == LATCH)?;
        let count = self.stand.iter().find(|one| Part::of_count(&one.key).is_some());
        let count = count.unwrap_or(first).label.split(' ').next().and_then(|count| count.parse().ok());
        Some(Counting { count: count.unwrap_or(0) })
    }

    /// How many stand there, if it is a barrier.
    fn standing(&self) -> Option<u32> {
        self.stand.first().filter(|first| first.part.word() == BARRIER)?;
        let mut places = self.stand.iter().map(|one| one.part).filter(|part| matches!(part, Part::Party { .. }));
        let Some(first) = places.next() else { return Some(0) };
        u32::try_from(1 + places.filter(|part| *part == first).count()).ok()
    }

    /// Those who hold.
    fn holders(&self) -> &[Standing] {
        if self.latch().is_some() || self.standing().is_some() {
            return &[];
        }
        &self.stand[..holding(self.stand.iter().map(|one| one.part))]
    }

    /// Those who wait to hold, of whatever several may hold.
    fn waiting(&self) -> impl Iterator<Item = &Standing> {
        self.stand[self.holders().len()..].iter()
    }
}

/// What there is under `name`, kept under `key`.
pub(super) fn inspect<'a>(
    layout: &'static str,
    name: &'a str,
    key: Arc<str>,
    wanted: Wanted,
) -> Inquiry<'a, Inspection> {
    let nothing = Inspection::of_nothing(layout, name);
    look("inspect", key.clone(), wanted, move |line| {
        if let Some(latch) = line.latch() {
            let waiters = line.stand.iter().filter(|one| one.part == Part::Wait).count() as u64 + line.beyond;
            let seen = Inspection { waiters, primitive: Some(LATCH), latch: Some(latch), ..nothing };
            return Inquiry::Done(Ok(seen));
        }
        if let Some(standing) = line.standing() {
            return Inquiry::Done(Ok(Inspection { waiters: standing.into(), primitive: Some(BARRIER), ..nothing }));
        }
        let mut asked = BTreeSet::new();
        let clients = line.holders().iter().chain(line.waiting().take(TOLD)).map(|one| one.lease);
        let leases: Vec<_> = clients.filter(|lease| asked.insert(*lease)).take(ASKED).collect();
        if leases.is_empty() {
            return Inquiry::Done(Ok(nothing));
        }
        let asks = leases.iter().map(|lease| Request::new(&LIVES, key.clone(), [Arg::Int(*lease)]));
        Inquiry::ask(asks.collect::<Vec<_>>(), move |replies| {
            let lives: Result<BTreeMap<_, _>> =
                leases.iter().zip(replies).map(|(lease, reply)| Ok((*lease, client(reply)?))).collect();
            Inquiry::Done(lives.map(|lives| seen(nothing, &line, &lives)))
        })
    })
}

/// How many stand at the barrier kept under `key`.
pub(super) fn standing<'a>(key: Arc<str>) -> Inquiry<'a, Answer> {
    look("barrier", key, Wanted::One(BARRIER), |line| Inquiry::Done(Ok(Answer::Standing(line.standing().unwrap_or(0)))))
}

/// Ends the hold that was created at `token`.
pub(super) fn break_hold<'a>(key: Arc<str>, token: u64, wanted: Wanted) -> Inquiry<'a, bool> {
    look("break", key.clone(), wanted, move |line| {
        let Some(holder) = line.holders().iter().find(|holder| holder.create == token) else {
            return Inquiry::Done(Ok(false));
        };
        let (create, lease) = (Arg::Int(i64::try_from(token).unwrap_or(i64::MAX)), Arg::Int(holder.lease));
        let request = Request::new(&BREAK, key, [Arg::Key(holder.key.clone()), create, lease]);
        Inquiry::of(request, |reply| match reply {
            // Its lease ended meanwhile, and the hold with it.
            Reply::Error { code, .. } if code == "LeaseNotFound" => Ok(false),
            other => Ok(int("break", other)? == 1),
        })
    })
}

/// Finds out who stands there, and goes on with that.
fn look<'a, T: 'a>(
    doing: &'static str,
    key: Arc<str>,
    wanted: Wanted,
    next: impl FnOnce(Line) -> Inquiry<'a, T> + Send + 'a,
) -> Inquiry<'a, T> {
    Inquiry::ask([Request::new(&FIRST, key.clone(), [Arg::Int(SEEN)])], move |replies| {
        match line(doing, &key, first(replies), wanted) {
            Ok(line) => next(line),
            Err(error) => Inquiry::Done(Err(error)),
        }
    })
}

fn line(doing: &'static str, name: &str, reply: &Reply, wanted: Wanted) -> Result<Line> {
    let [Reply::Int(count), entries @ ..] = list(doing, reply)? else { return Err(garbled(doing)) };
    let beyond = number(doing, *count)?.saturating_sub(entries.len() as u64);
    let mut line = Line { stand: Vec::new(), beyond };
    for entry in entries {
        let Reply::List(parts) = entry else { return Err(garbled(doing)) };
        let [Reply::Text(key), Reply::Int(create), Reply::Int(lease), Reply::Text(label)] = &parts[..] else {
            return Err(garbled(doing));
        };
        let Some(part) = Part::of_key(name, key) else { continue };
        let error = |message: String| Err(Error::new(Kind::ForeignLayout, doing, message));
        match (line.stand.first(), wanted) {
            (Some(first), _) if first.part.word() != part.word() => continue,
            (None, _) if *lease == 0 => {
                return error(format!("the key {key} is kept by no lease, as a lock's are: it is something else"));
            }
            (None, Wanted::One(wanted)) if part.word() != wanted => {
                return error(format!("a {} is called so; choose another name", part.word()));
            }
            _ => {}
        }
        let (key, create, label) = (key.as_str().into(), number(doing, *create)?, seat::label(label).to_owned());
        line.stand.push(Standing { key, create, lease: *lease, label, part });
    }
    Ok(line)
}

/// For how long a client's lease lasts yet, and who it is.
fn client(reply: &Reply) -> Result<(Duration, Card)> {
    Ok(match reply {
        Reply::Nil => (Duration::ZERO, Card::default()),
        other => match list("inspect", other)? {
            [Reply::Int(lives), Reply::Text(card)] => {
                (Duration::from_millis(number("inspect", *lives)?), Card::decode(card))
            }
            _ => return Err(garbled("inspect")),
        },
    })
}

fn seen(nothing: Inspection, line: &Line, lives: &BTreeMap<i64, (Duration, Card)>) -> Inspection {
    let holders = line.holders();
    let known = holders.iter().filter_map(|holder| {
        let (remaining, client) = lives.get(&holder.lease)?;
        let part = HeldPart { holder: shown(holder, *remaining, client.clone()), units: holder.part.units() };
        Some(part)
    });
    let known: Vec<_> = known.collect();
    let waiters = (line.stand.len() - holders.len()) as u64 + line.beyond;
    let Some(first) = line.stand.first() else { return nothing };
    let queue = line.waiting().take(TOLD).map(|one| waiting(one, lives)).collect();
    let Some(primitive) = first.part.primitive() else {
        let holder = known.into_iter().next().map(|part| part.holder);
        return Inspection { holder, waiters, queue, ..nothing.of_lock() };
    };
    let permits = match first.part {
        Part::Permits { permits, .. } => Some(permits),
        _ => None,
    };
    let held = holders.iter().map(|holder| u64::from(holder.part.units())).sum();
    let unlisted = (holders.len() - known.len()) as u64;
    Inspection {
        holder: known.first().map(|part| part.holder.clone()),
        waiters,
        queue,
        primitive: Some(primitive.name()),
        shared: Some(Sharing { primitive, permits, holders: known, unlisted, held }),
        ..nothing
    }
}

fn waiting(one: &Standing, lives: &BTreeMap<i64, (Duration, Card)>) -> Waiting {
    let client = lives.get(&one.lease).map(|(_, card)| card.clone()).unwrap_or_default();
    Waiting { card: one.card(client), units: one.part.units(), ..Waiting::default() }
}

fn shown(holder: &Standing, remaining: Duration, client: Card) -> Holder {
    Holder {
        owner: crate::replies::shown(&holder.key),
        card: holder.card(client),
        held_for: None,
        remaining,
        first_token: holder.create,
        last_token: holder.create,
    }
}
