//! What the core tells of locks and of itself, as records of named values, each of which a language makes an object of
//! its own of.
//!
//! A record's fields are named here and nowhere else in the core; the class of that name in each language is compared
//! with [`samples`] by a test of that language.

use std::borrow::Cow;
use std::time::Duration;

use crate::client::Health;
use crate::events::{Event, Value as Field};
use crate::guarantee::{ExclusiveUntil, Guarantees, TokenRises};
use crate::lease::{Card, Counting, Holder, Inspection, Part, Sharing, Waiting};
use crate::metrics::{Histogram, Metrics};
use crate::primitives::barrier::Arrival;
use crate::share::Primitive;

/// A value that a language is told.
#[derive(Clone, Debug)]
pub enum Value {
    /// There is none.
    Nothing,
    /// Yes or no.
    Flag(bool),
    /// How many, at most 2^53.
    Count(u64),
    /// A fencing token or a generation, which may be any 64 bits.
    Token(u64),
    /// A span of time; [`Duration::MAX`] has no end.
    Span(Duration),
    /// A number that is no span of time.
    Number(f64),
    /// A text.
    Text(Cow<'static, str>),
    /// Values of one kind.
    List(Vec<Value>),
    /// A record of its own.
    Record(Record),
    /// How long something took.
    Histogram(Histogram),
}

/// Named values.
#[derive(Clone, Debug)]
pub struct Record {
    /// What every language calls it.
    pub class: &'static str,
    /// Its fields by name, in snake case.
    pub fields: Vec<(&'static str, Value)>,
}

macro_rules! record {
    ($class:literal { $($field:ident: $value:expr),* $(,)? }) => {
        Record { class: $class, fields: vec![$((stringify!($field), Value::from($value))),*] }
    };
}

impl From<Guarantees> for Record {
    fn from(promised: Guarantees) -> Self {
        record!("Guarantees" {
            store: promised.store,
            layout: promised.layout,
            exclusive_until: promised.exclusive_until.to_string(),
            token: promised.token.to_string(),
            fair: promised.fair,
            reentrant: promised.reentrant,
            shared: promised.shared,
            push: promised.push,
            survives_disconnect: promised.survives_disconnect,
            incarnation: promised.incarnation,
            notes: promised.notes.to_vec(),
        })
    }
}

impl From<Inspection> for Record {
    fn from(seen: Inspection) -> Self {
        let primitive = seen.shared.as_ref().map(|shared| shared.primitive);
        let queue: Vec<Record> = seen.queue.into_iter().map(|one| waiting(one, primitive)).collect();
        record!("Inspection" {
            name: seen.name,
            layout: seen.layout,
            holder: seen.holder.map(Record::from),
            waiters: seen.waiters,
            ahead: seen.ahead,
            queue: queue,
            primitive: seen.primitive,
            shared: seen.shared.map(Record::from),
            latch: seen.latch.map(Record::from),
        })
    }
}

fn waiting(one: Waiting, primitive: Option<Primitive>) -> Record {
    record!("Waiting" {
        host: one.card.host.clone(),
        pid: one.card.pid,
        language: one.card.language.clone(),
        label: one.card.label.clone(),
        waited: one.waited,
        rank: u32::from(one.rank),
        wants: primitive.map(|primitive| one.describe(primitive)),
    })
}

impl From<Holder> for Record {
    fn from(holder: Holder) -> Self {
        record!("Holder" {
            owner: holder.owner,
            host: holder.card.host,
            pid: holder.card.pid,
            language: holder.card.language,
            label: holder.card.label,
            held_for: holder.held_for,
            remaining: holder.remaining,
            first_token: Value::Token(holder.first_token),
            last_token: Value::Token(holder.last_token),
        })
    }
}

impl From<Sharing> for Record {
    fn from(Sharing { primitive, permits, holders, unlisted, .. }: Sharing) -> Self {
        let part = |part: Part| record!("Part" { holds: part.describe(primitive), holder: Record::from(part.holder) });
        let holders: Vec<Record> = holders.into_iter().map(part).collect();
        record!("Sharing" { primitive: primitive.name(), permits: permits, holders: holders, unlisted: unlisted })
    }
}

impl From<Counting> for Record {
    fn from(latch: Counting) -> Self {
        record!("Counting" { count: latch.count })
    }
}

impl From<Health> for Record {
    fn from(health: Health) -> Self {
        let may_evict = health.may_evict();
        record!("Health" { took: health.took, eviction: health.eviction, may_evict: may_evict })
    }
}

impl From<Arrival> for Record {
    fn from(Arrival { index, generation }: Arrival) -> Self {
        record!("Arrival" { index: index, generation: Value::Token(generation) })
    }
}

impl From<Metrics> for Record {
    fn from(did: Metrics) -> Self {
        let lost = did.lost.each().map(|(reason, count)| (reason.code(), count.into())).collect();
        record!("Metrics" {
            held: did.held,
            waiting: did.waiting,
            acquired: did.acquired,
            reentered: did.reentered,
            hand_offs: did.hand_offs,
            contended: did.contended,
            refused: did.refused,
            timeouts: did.timeouts,
            cancelled: did.cancelled,
            failed: did.failed,
            renewals: did.renewals,
            renewal_failures: did.renewal_failures,
            requests: did.requests,
            round_trips: did.round_trips,
            reconnects: did.reconnects,
            lost: Record { class: "", fields: lost },
            wait: Value::Histogram(did.wait),
            hold: Value::Histogram(did.hold),
        })
    }
}

/// What an event has besides its message. Its spans of time are seconds in every language, as in the core's own log.
pub fn fields(event: &mut Event) -> Vec<(&'static str, Value)> {
    let field = |field| match field {
        Field::Text(text) => text.into(),
        Field::Seconds(seconds) => Value::Number(seconds),
        Field::Number(number) => u64::try_from(number).map_or(Value::Number(number as f64), Value::Count),
        Field::Flag(flag) => flag.into(),
    };
    event.fields.drain(..).map(|(name, value)| (name, field(value))).collect()
}

/// A record of each class, with a value in each field, for tests that compare them with what a language has.
pub fn samples() -> Vec<Record> {
    let holder = || Holder {
        owner: String::new(),
        card: Card::default(),
        held_for: Some(Duration::ZERO),
        remaining: Duration::MAX,
        first_token: 1,
        last_token: 1,
    };
    let part = Part { holder: holder(), units: 1 };
    let sharing =
        Sharing { primitive: Primitive::Semaphore, permits: Some(1), holders: vec![part], unlisted: 0, held: 1 };
    let seen = Inspection {
        holder: Some(holder()),
        ahead: vec![0],
        queue: vec![Waiting { waited: Some(Duration::ZERO), ..Waiting::default() }],
        primitive: Some("semaphore"),
        ..Inspection::of_nothing("", "")
    };
    let promised = Guarantees {
        store: "",
        layout: "",
        exclusive_until: ExclusiveUntil::Deadline,
        token: TokenRises::Always,
        fair: true,
        reentrant: true,
        shared: true,
        push: true,
        survives_disconnect: true,
        incarnation: true,
        notes: &[""],
    };
    let mut known = vec![
        promised.into(),
        Inspection { shared: Some(sharing), latch: Some(Counting { count: 1 }), ..seen }.into(),
        Health { took: Duration::ZERO, eviction: Some(String::new()) }.into(),
        Arrival { index: 0, generation: 1 }.into(),
        Metrics::default().into(),
    ];
    let mut at = 0;
    // Those within others, too.
    while at < known.len() {
        let Record { fields, .. } = &known[at];
        let inner: Vec<Record> = fields.iter().flat_map(|(_, value)| value.records()).cloned().collect();
        known.extend(inner);
        at += 1;
    }
    known.retain(|record| !record.class.is_empty());
    known.sort_by_key(|record| record.class);
    known.dedup_by_key(|record| record.class);
    known
}

impl Value {
    fn records(&self) -> Vec<&Record> {
        match self {
            Value::Record(record) => vec![record],
            Value::List(values) => values.iter().flat_map(Value::records).collect(),
            _ => Vec::new(),
        }
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Value::Nothing, T::into)
    }
}

impl<T: Into<Value>> From<Vec<T>> for Value {
    fn from(values: Vec<T>) -> Self {
        Value::List(values.into_iter().map(T::into).collect())
    }
}

macro_rules! value {
    ($($from:ty => |$value:ident| $into:expr),* $(,)?) => {
        $(impl From<$from> for Value {
            fn from($value: $from) -> Self {
                $into
            }
        })*
    };
}

value! {
    bool => |flag| Value::Flag(flag),
    u32 => |count| Value::Count(count.into()),
    u64 => |count| Value::Count(count),
    Duration => |span| Value::Span(span),
    String => |text| Value::Text(text.into()),
    &'static str => |text| Value::Text(text.into()),
    Record => |record| Value::Record(record),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_a_sample_of_each_class() {
        let samples = samples();
        let classes: Vec<_> = samples.iter().map(|record| record.class).collect();
        let looked_at = ["Arrival", "Counting", "Guarantees", "Health", "Holder", "Inspection"];
        assert_eq!(classes, [&looked_at[..], &["Metrics", "Part", "Sharing", "Waiting"]].concat());
        let empty = |(_, value): &(&str, Value)| matches!(value, Value::Nothing);
        assert!(!samples.iter().flat_map(|record| &record.fields).any(empty), "{samples:?}");
    }

    #[test]
    fn health_says_what_the_policy_means() {
        let may_evict = |policy: Option<&str>| {
            let health = Health { took: Duration::ZERO, eviction: policy.map(str::to_owned) };
            matches!(Record::from(health).fields.last(), Some(("may_evict", Value::Flag(true))))
        };
        assert_eq!([Some("allkeys-lru"), Some("noeviction"), None].map(may_evict), [true, false, false]);
    }
}
