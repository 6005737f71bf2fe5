//! A record as it lies in a column: JSON, so that whoever looks into the table can read it.

use std::time::Duration;

use crate::barrier_cell::{BarrierCell, BarrierInMemory, BarrierStorage, Fate, Party, Passage};
use crate::by_rank::ByRank;
use crate::engine::Record;
use crate::latch_cell::{LatchCell, LatchInMemory, LatchStorage};
use crate::lock_cell::{Claimant, Hold, LockCell, LockStorage, Place, Waiter};
use crate::rank::Rank;
use crate::remembered::Remembered;
use crate::shared_cell::{Holder, Seeker, SharedCell, SharedInMemory, SharedStorage};
use serde::{Deserialize, Serialize};

use crate::protocol::{AttemptId, InboxId};
use crate::share::Primitive;
use crate::time::StoreTime;

/// Times are microseconds since 1970, durations microseconds, attempts and inboxes hexadecimal digits.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Text {
    Lock {
        hold: Option<HoldText>,
        last: u64,
        waiting: Vec<PlaceText>,
    },
    Shared {
        primitive: Option<String>,
        capacity: u32,
        resized: bool,
        used: u32,
        last: u64,
        soonest: i64,
        holders: Vec<HolderText>,
        waiting: Vec<SeekerText>,
    },
    Latch {
        count: Option<u32>,
        goes: i64,
        waiting: Vec<(String, String)>,
        counted: Vec<(String, i64)>,
    },
    Barrier {
        parties: u32,
        generation: u64,
        goes: i64,
        waiting: Vec<PartyText>,
        fates: Vec<FateText>,
    },
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct HoldText {
    owner: String,
    since: i64,
    expires: i64,
    first: u64,
    claimed: bool,
    card: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PlaceText {
    owner: String,
    card: String,
    rank: u8,
    since: i64,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct HolderText {
    owner: String,
    units: u32,
    token: u64,
    since: i64,
    expires: i64,
    claimed: bool,
    card: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SeekerText {
    owner: String,
    card: String,
    units: u32,
    in_order: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PartyText {
    attempt: String,
    inbox: String,
    ends: i64,
    memory: u64,
}

/// Whose it is, until when it is remembered, and the index and the generation of whoever passed.
type FateText = (String, i64, Option<(u32, u64)>);

/// Room for what a record may be longer than the one before it.
const ROOM: usize = 128;

/// The text of a record, which is probably about as long as that.
pub fn write(record: &Record, length: usize) -> String {
    let text = match record {
        Record::Lock(cell, line) => lock(cell, line),
        Record::Shared(cell, beside) => shared(cell, beside),
        Record::Latch(cell, beside) => latch(cell, beside),
        Record::Barrier(cell, beside) => barrier(cell, beside),
    };
    let mut written = Vec::with_capacity(length + ROOM);
    // Plain data with text keys always has a text.
    let _ = serde_json::to_writer(&mut written, &text);
    String::from_utf8(written).unwrap_or_default()
}

/// The record of a text; none where another version, or somebody else, wrote it.
pub fn read(text: &str) -> Option<Record> {
    match serde_json::from_str(text).ok()? {
        Text::Lock { hold, last, waiting } => read_lock(hold, last, waiting),
        Text::Shared { primitive, capacity, resized, used, last, soonest, holders, waiting } => {
            let primitive = match primitive {
                Some(name) => Some(Primitive::named(&name)?),
                None => None,
            };
            let cell = SharedCell { primitive, capacity, resized, used, last, soonest: StoreTime(soonest) };
            read_shared(cell, holders, waiting)
        }
        Text::Latch { count, goes, waiting, counted } => {
            read_latch(LatchCell { count, goes: StoreTime(goes) }, waiting, counted)
        }
        Text::Barrier { parties, generation, goes, waiting, fates } => {
            read_barrier(BarrierCell { parties, generation, goes: StoreTime(goes) }, waiting, fates)
        }
    }
}

fn lock(cell: &LockCell, line: &ByRank) -> Text {
    let hold = cell.hold.as_ref().map(|hold| HoldText {
        owner: hold.owner.to_string(),
        since: hold.since.0,
        expires: hold.expires.0,
        first: hold.first,
        claimed: hold.claimed,
        card: hold.card.clone(),
    });
    let place = |place: &Place| PlaceText {
        owner: place.waiter.owner.to_string(),
        card: place.waiter.card.clone(),
        rank: place.rank.get(),
        since: place.since.0,
    };
    Text::Lock { hold, last: cell.last, waiting: line.iter().map(place).collect() }
}

fn read_lock(hold: Option<HoldText>, last: u64, waiting: Vec<PlaceText>) -> Option<Record> {
    let hold = match hold {
        None => None,
        Some(HoldText { owner, since, expires, first, claimed, card }) => Some(Hold {
            owner: Claimant::parse(&owner)?,
            since: StoreTime(since),
            expires: StoreTime(expires),
            first,
            claimed,
            card,
        }),
    };
    let mut line = ByRank::default();
    for PlaceText { owner, card, rank, since } in waiting {
        let waiter = Waiter { owner: Claimant::parse(&owner)?, card };
        let Ok(_) = line.join(&Place { waiter, rank: Rank::new(rank)?, since: StoreTime(since) });
    }
    Some(Record::Lock(LockCell { hold, last }, line))
}

fn shared(cell: &SharedCell, beside: &SharedInMemory) -> Text {
    let holder = |holder: &Holder| HolderText {
        owner: holder.owner.to_string(),
        units: holder.units,
        token: holder.token,
        since: holder.since.0,
        expires: holder.expires.0,
        claimed: holder.claimed,
        card: holder.card.clone(),
    };
    let seeker = |seeker: &Seeker| SeekerText {
        owner: seeker.who.owner.to_string(),
        card: seeker.who.card.clone(),
        units: seeker.units,
        in_order: seeker.in_order,
    };
    Text::Shared {
        primitive: cell.primitive.map(|primitive| primitive.name().to_owned()),
        capacity: cell.capacity,
        resized: cell.resized,
        used: cell.used,
        last: cell.last,
        soonest: cell.soonest.0,
        holders: beside.holders.values().map(holder).collect(),
        waiting: beside.line.iter().map(seeker).collect(),
    }
}

fn read_shared(cell: SharedCell, holders: Vec<HolderText>, waiting: Vec<SeekerText>) -> Option<Record> {
    let mut beside = SharedInMemory::default();
    for HolderText { owner, units, token, since, expires, claimed, card } in holders {
        let (owner, since, expires) = (Claimant::parse(&owner)?, StoreTime(since), StoreTime(expires));
        let Ok(()) = beside.keep(&Holder { owner, units, token, since, expires, claimed, card });
    }
    for SeekerText { owner, card, units, in_order } in waiting {
        let who = Waiter { owner: Claimant::parse(&owner)?, card };
        let Ok(_) = beside.join(&Seeker { who, units, in_order });
    }
    Some(Record::Shared(cell, beside))
}

fn latch(cell: &LatchCell, beside: &LatchInMemory) -> Text {
    Text::Latch {
        count: cell.count,
        goes: cell.goes.0,
        waiting: beside.waiting.iter().map(|(attempt, inbox)| (attempt.to_string(), inbox.to_string())).collect(),
        counted: beside.counted.iter().map(|(attempt, until, ())| (attempt.to_string(), until.0)).collect(),
    }
}

fn read_latch(cell: LatchCell, waiting: Vec<(String, String)>, counted: Vec<(String, i64)>) -> Option<Record> {
    let mut beside = LatchInMemory::default();
    for (attempt, inbox) in waiting {
        let Ok(()) = beside.join(read_attempt(&attempt)?, read_inbox(&inbox)?);
    }
    beside.counted =
        remembered(counted.into_iter().map(|(attempt, until)| Some((read_attempt(&attempt)?, until, ()))))?;
    Some(Record::Latch(cell, beside))
}

fn barrier(cell: &BarrierCell, beside: &BarrierInMemory) -> Text {
    let party = |party: &Party| PartyText {
        attempt: party.attempt.to_string(),
        inbox: party.inbox.to_string(),
        ends: party.ends.0,
        memory: u64::try_from(party.memory.as_micros()).unwrap_or(u64::MAX),
    };
    let fate = |(attempt, until, fate): (AttemptId, StoreTime, Fate)| {
        let passed = match fate {
            Fate::Passed(Passage { index, generation }) => Some((index, generation)),
            Fate::Left => None,
        };
        (attempt.to_string(), until.0, passed)
    };
    Text::Barrier {
        parties: cell.parties,
        generation: cell.generation,
        goes: cell.goes.0,
        waiting: beside.parties.values().map(party).collect(),
        fates: beside.fates.iter().map(fate).collect(),
    }
}

fn read_barrier(cell: BarrierCell, waiting: Vec<PartyText>, fates: Vec<FateText>) -> Option<Record> {
    let mut beside = BarrierInMemory::default();
    for PartyText { attempt, inbox, ends, memory } in waiting {
        let (attempt, inbox) = (read_attempt(&attempt)?, read_inbox(&inbox)?);
        let Ok(()) =
            beside.stand(&Party { attempt, inbox, ends: StoreTime(ends), memory: Duration::from_micros(memory) });
    }
    beside.fates = remembered(fates.into_iter().map(|(attempt, until, passed)| {
        let fate = match passed {
            Some((index, generation)) => Fate::Passed(Passage { index, generation }),
            None => Fate::Left,
        };
        Some((read_attempt(&attempt)?, until, fate))
    }))?;
    Some(Record::Barrier(cell, beside))
}

fn remembered<T: Copy>(kept: impl Iterator<Item = Option<(AttemptId, i64, T)>>) -> Option<Remembered<T>> {
    let mut all = Remembered::default();
    for one in kept {
        let (attempt, until, what) = one?;
        all.remember(attempt, what, StoreTime(until), StoreTime(i64::MIN));
    }
    Some(all)
}

fn read_attempt(text: &str) -> Option<AttemptId> {
    u128::from_str_radix(text, 16).ok().map(AttemptId)
}

fn read_inbox(text: &str) -> Option<InboxId> {
    u64::from_str_radix(text, 16).ok().map(InboxId)
}
