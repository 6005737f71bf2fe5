//! Replies as bytes, as `Reply` of the Java side reads them.

use std::time::Duration;

use lockwright::Error;
use lockwright::binding::{Ending, Held, Outcome, Record, Value};

use crate::table;

/// The first byte of each.
mod kind {
    pub(super) const FAILED: u8 = 0;
    pub(super) const TOLD: u8 = 1;
    pub(super) const GRANTED: u8 = 2;
    pub(super) const ALL_GRANTED: u8 = 3;
    pub(super) const SEGMENT: u8 = 4;
    pub(super) const ENDED: u8 = 5;
    pub(super) const ALL_ENDED: u8 = 6;
    pub(super) const PENDING: u8 = 7;
    pub(super) const WAITS: u8 = 8;
}

/// The first byte of each value.
mod shape {
    pub(super) const NOTHING: u8 = 0;
    pub(super) const FLAG: u8 = 1;
    pub(super) const COUNT: u8 = 2;
    pub(super) const SPAN: u8 = 3;
    pub(super) const FRACTION: u8 = 4;
    pub(super) const TEXT: u8 = 5;
    pub(super) const LIST: u8 = 6;
    pub(super) const RECORD: u8 = 7;
    pub(super) const HISTOGRAM: u8 = 8;
}

#[derive(Default)]
pub(crate) struct Reply(Vec<u8>);

impl Reply {
    fn of(kind: u8) -> Self {
        // Room for a grant with a name of a usual length, so that it does not move while it is written.
        let mut bytes = Vec::with_capacity(96);
        bytes.push(kind);
        Reply(bytes)
    }

    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    pub(crate) fn failed(error: &Error) -> Self {
        let mut reply = Reply::of(kind::FAILED);
        reply.failure(error);
        reply
    }

    pub(crate) fn told(value: impl Into<Value>) -> Self {
        let mut reply = Reply::of(kind::TOLD);
        reply.value(value.into());
        reply
    }

    /// What is kept under that number from now on.
    pub(crate) fn number(number: u64) -> Self {
        Reply::told(Value::Token(number))
    }

    /// The job goes on; its result is told under that number.
    pub(crate) fn pending(job: u32) -> Self {
        let mut reply = Reply::of(kind::PENDING);
        reply.count(job);
        reply
    }

    /// What waits under that number is to be looked at when it rings, or after `limit`.
    pub(crate) fn waits(number: u64, limit: Option<Duration>) -> Self {
        let mut reply = Reply::of(kind::WAITS);
        reply.long(number);
        reply.span(limit.unwrap_or(Duration::MAX));
        reply
    }

    pub(crate) fn outcome(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Told(value) => Reply::told(value),
            Outcome::Granted(guard) => {
                let mut reply = Reply::of(kind::GRANTED);
                reply.grant(guard);
                reply
            }
            Outcome::AllGranted(guards) => {
                let mut reply = Reply::of(kind::ALL_GRANTED);
                reply.all(guards, Reply::grant);
                reply
            }
            Outcome::Segment(index, guard, _) => {
                let mut reply = Reply::of(kind::SEGMENT);
                reply.count(u32::try_from(index).unwrap_or(u32::MAX));
                reply.grant(guard);
                reply
            }
            Outcome::Ended(ending) => Reply::ending(&ending),
            Outcome::AllEnded(all) => Reply::all_ended(all),
            Outcome::Secret(secret) => Reply::told(secret.into_string()),
            Outcome::NotExported(both) => Reply::failed(&both.2),
        }
    }

    pub(crate) fn result(result: lockwright::Result<Outcome>) -> Self {
        match result {
            Ok(outcome) => Reply::outcome(outcome),
            Err(error) => Reply::failed(&error),
        }
    }

    pub(crate) fn ending(ending: &Ending) -> Self {
        let mut reply = Reply::of(kind::ENDED);
        reply.end(ending);
        reply
    }

    fn end(&mut self, ending: &Ending) {
        self.text(ending.outcome.code());
        self.optional(ending.why.as_ref(), |reply, why| reply.text(why.code()));
    }

    /// How each of several holds ended: what the store found, or what went wrong.
    pub(crate) fn all_ended(told: Vec<lockwright::Result<Ending>>) -> Self {
        let mut reply = Reply::of(kind::ALL_ENDED);
        reply.all(told, |reply, told| match told {
            Ok(ending) => {
                reply.byte(1);
                reply.end(&ending);
            }
            Err(error) => {
                reply.byte(0);
                reply.failure(&error);
            }
        });
        reply
    }

    pub(crate) fn byte(&mut self, byte: u8) {
        self.0.push(byte);
    }

    pub(crate) fn count(&mut self, count: u32) {
        self.0.extend(count.to_be_bytes());
    }

    pub(crate) fn long(&mut self, number: u64) {
        self.0.extend(number.to_be_bytes());
    }

    pub(crate) fn text(&mut self, text: &str) {
        self.count(u32::try_from(text.len()).unwrap_or(u32::MAX));
        self.0.extend(text.as_bytes());
    }

    pub(crate) fn bytes(&mut self, reply: Reply) {
        self.0.extend(reply.0);
    }

    /// In nanoseconds and whole seconds; the longest has no end.
    fn span(&mut self, span: Duration) {
        self.long(i64::try_from(span.as_secs()).map_or(u64::MAX, i64::cast_unsigned));
        self.count(span.subsec_nanos());
    }

    fn optional<T>(&mut self, value: Option<T>, write: impl FnOnce(&mut Self, T)) {
        self.byte(value.is_some().into());
        if let Some(value) = value {
            write(self, value);
        }
    }

    pub(crate) fn all<T>(&mut self, values: Vec<T>, mut write: impl FnMut(&mut Self, T)) {
        self.count(u32::try_from(values.len()).unwrap_or(u32::MAX));
        values.into_iter().for_each(|value| write(self, value));
    }

    fn failure(&mut self, error: &Error) {
        self.text(error.code());
        self.text(&error.to_string());
        self.text(error.operation());
        self.optional(error.lock(), Reply::text);
        self.optional(error.store(), Reply::text);
    }

    /// Keeps what was acquired, and tells of it.
    fn grant(&mut self, guard: lockwright::Guard) {
        let held = Held::new(guard);
        let (name, token, epoch, depth) = (held.name().clone(), held.token(), held.epoch(), held.depth());
        self.long(table::keep_held(held));
        self.text(&name);
        self.long(token);
        self.long(epoch);
        self.count(depth);
    }

    pub(crate) fn value(&mut self, value: Value) {
        match value {
            Value::Nothing => self.byte(shape::NOTHING),
            Value::Flag(flag) => {
                self.byte(shape::FLAG);
                self.byte(flag.into());
            }
            Value::Count(number) | Value::Token(number) => {
                self.byte(shape::COUNT);
                self.long(number);
            }
            Value::Span(span) => {
                self.byte(shape::SPAN);
                self.span(span);
            }
            Value::Number(number) => {
                self.byte(shape::FRACTION);
                self.0.extend(number.to_be_bytes());
            }
            Value::Text(text) => {
                self.byte(shape::TEXT);
                self.text(&text);
            }
            Value::List(values) => {
                self.byte(shape::LIST);
                self.all(values, Reply::value);
            }
            Value::Record(record) => self.record(record),
            Value::Histogram(histogram) => {
                self.byte(shape::HISTOGRAM);
                self.long(table::keep_histogram(histogram));
            }
        }
    }

    /// Its names are those of the core, in snake case.
    fn record(&mut self, Record { class, fields }: Record) {
        self.byte(shape::RECORD);
        self.text(class);
        self.all(fields, |reply, (name, value)| {
            reply.text(name);
            reply.value(value);
        });
    }
}
