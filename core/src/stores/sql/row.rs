//! What a request makes of a row: its record is read, the cell runs, and what became of it is written.

use std::convert::Infallible;
use std::sync::Arc;

use lockwright_machines::cell::foreign;
use lockwright_machines::engine::{Backend, Found, Procedure, Record, RecordKind, execute};
use lockwright_machines::lock_cell::Surroundings;

use super::text;
use crate::protocol::{InboxId, Reply, Request, StoreEvent};
use crate::time::StoreTime;

/// A row but for its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    /// A number of this one write, which no other write of the row has: whoever knows it knows the whole row.
    pub(crate) version: i64,
    /// The word for what lies there.
    pub(crate) kind: Arc<str>,
    /// See [`text`].
    pub(crate) record: Arc<str>,
}

/// What requests come to that concern one row.
#[derive(Debug)]
pub(super) struct Computed {
    pub(super) replies: Vec<Reply>,
    /// What is to be told once it is kept.
    pub(super) pushes: Vec<(InboxId, StoreEvent)>,
    /// What lies there then, as a word and a text; none where nothing changed.
    pub(super) kept: Option<(Arc<str>, Arc<str>)>,
}

/// Runs `requests`, one after the other, on what `row` has at `now`. Whether somebody listens at an inbox is `alive`'s
/// to say.
pub(super) fn compute<'a>(
    row: Option<&Row>,
    requests: impl Iterator<Item = &'a Request>,
    now: StoreTime,
    alive: &dyn Fn(InboxId) -> bool,
) -> Computed {
    let mut key = Key::of(row, now);
    let (mut replies, mut pushes) = (Vec::new(), Vec::new());
    for request in requests {
        let Some(procedure) = Procedure::read(request) else {
            let message = format!("the request `{}` is none of this layout's", request.call.name);
            replies.push(Reply::Error { code: "ERR".into(), message });
            continue;
        };
        let token_floor = u64::try_from(now.0).unwrap_or(0);
        let mut around = Surroundings { now, token_floor, alive, pushes: Vec::new() };
        let Ok(reply) = execute(&mut key, procedure, &mut around);
        replies.push(reply);
        pushes.append(&mut around.pushes);
    }
    Computed { replies, pushes, kept: key.kept(row) }
}

/// Whether nothing would be different if there were no such row.
pub(super) fn is_idle(row: &Row, now: StoreTime) -> bool {
    text::read(&row.record).is_some_and(|record| !record.is_in_use(now))
}

/// Whether nobody needs it who used it last: what leases there are ended before `then`, and whoever waits would have
/// asked since.
pub(super) fn is_over(row: &Row, then: StoreTime) -> bool {
    match text::read(&row.record) {
        Some(Record::Lock(cell, _)) => cell.hold.is_none_or(|hold| hold.expires < then),
        Some(Record::Shared(cell, beside)) => {
            !cell.resized && beside.holders.values().all(|holder| holder.expires < then)
        }
        Some(gate) => !gate.is_in_use(then),
        None => false,
    }
}

/// One key, at one moment.
struct Key {
    lies: Lies,
    /// The highest token of what lay there and went.
    gone: u64,
    now: StoreTime,
}

enum Lies {
    Nothing,
    Record(Record),
    /// What this version cannot read, by its word.
    Unknown(Arc<str>),
}

impl Key {
    fn of(row: Option<&Row>, now: StoreTime) -> Self {
        let lies = match row {
            None => Lies::Nothing,
            Some(row) => text::read(&row.record).map_or_else(|| Lies::Unknown(row.kind.clone()), Lies::Record),
        };
        Key { lies, gone: 0, now }
    }

    fn kept(&self, before: Option<&Row>) -> Option<(Arc<str>, Arc<str>)> {
        let Lies::Record(record) = &self.lies else { return None };
        let text = text::write(record);
        if before.is_some_and(|row| *row.record == *text) || (before.is_none() && !record.is_in_use(self.now)) {
            return None;
        }
        Some((record.found(self.now).word.into(), text.into()))
    }
}

impl Backend for Key {
    type Error = Infallible;

    fn found(&mut self, _: RecordKind) -> Result<Option<Found>, Infallible> {
        Ok(match &self.lies {
            Lies::Nothing => None,
            Lies::Unknown(word) => Some(Found { kind: None, word: word.to_string().into(), in_use: true }),
            // A latch or a barrier that is over is not there any more.
            Lies::Record(record @ (Record::Latch(..) | Record::Barrier(..))) => {
                Some(record.found(self.now)).filter(|found| found.in_use)
            }
            Lies::Record(record) => Some(record.found(self.now)),
        })
    }

    fn make_room(&mut self, _: RecordKind) -> Result<(), Infallible> {
        if let Lies::Record(record) = &self.lies {
            self.gone = record.last();
            self.lies = Lies::Nothing;
        }
        Ok(())
    }

    fn run(&mut self, procedure: Procedure, env: &mut Surroundings<'_>) -> Result<Reply, Infallible> {
        let kind = procedure.kind();
        let is_other = |record: &Record| record.found(self.now).kind != Some(kind);
        if let Lies::Unknown(word) = &self.lies {
            return Ok(foreign(word));
        }
        if !matches!(&self.lies, Lies::Record(record) if !is_other(record)) {
            let fresh = Record::new(kind);
            if procedure.only_looks() {
                // What lies there in nobody's use is not taken away by a look.
                return Ok(fresh.clone().run(procedure, env));
            }
            if let Lies::Record(other) = &self.lies {
                self.gone = other.last();
            }
            env.token_floor = env.token_floor.max(self.gone + 1);
            self.lies = Lies::Record(fresh);
        }
        let Lies::Record(record) = &mut self.lies else { return Ok(Reply::Nil) };
        Ok(record.run(procedure, env))
    }
}

#[cfg(test)]
mod tests {
    use lockwright_machines::barrier_cell::BarrierCell;
    use lockwright_machines::latch_cell::LatchCell;
    use lockwright_machines::lock_cell::LockCell;
    use lockwright_machines::native_machine::NativeLayout;
    use lockwright_machines::shared_cell::SharedCell;
    use lockwright_machines::stores::memory::layouts::native;
    use proptest::prelude::*;
    use proptest::test_runner::{Config, TestCaseError, TestRunner};

    use super::*;
    use crate::stores::comparison::{Compared, LISTENS, Model, Store, play};

    /// A row that is read and written for every request, and what was pushed to the inbox where somebody listens.
    #[derive(Default)]
    struct InText {
        row: Option<Row>,
        pushed: Vec<(Arc<str>, StoreEvent)>,
    }

    impl<C: Compared> Store<C> for InText {
        const CLOCK_STEPS_BACK: bool = true;

        fn layout(&self) -> NativeLayout {
            native::layout("")
        }

        fn begin(&mut self, _: &str) -> StoreTime {
            StoreTime(1_700_000_000_000_000)
        }

        fn ask(&mut self, request: &Request, now: StoreTime) -> Reply {
            let computed = compute(self.row.as_ref(), [request].into_iter(), now, &|inbox| inbox == LISTENS);
            if let Some((kind, record)) = computed.kept {
                self.row = Some(Row { version: 1, kind, record });
            }
            let heard = computed.pushes.into_iter().filter(|(inbox, _)| *inbox == LISTENS);
            self.pushed.extend(heard.map(|(_, event)| (request.key.clone(), event)));
            let [reply] = computed.replies.try_into().unwrap();
            reply
        }

        fn pushed(&mut self) -> Vec<(Arc<str>, StoreEvent)> {
            std::mem::take(&mut self.pushed)
        }

        fn is_there(&mut self, _: &str) -> bool {
            self.row.is_some()
        }

        fn forgets(&mut self, _: &str, _: StoreTime) -> bool {
            false
        }

        fn comparable(&self, _: &Model<C>, _: &Request, _: &Reply, reply: Reply) -> Reply {
            reply
        }

        fn check(&mut self, _: &Model<C>) -> Result<(), TestCaseError> {
            let text = self.row.as_ref().map(|row| row.record.clone());
            let again = text.as_deref().map(|text| text::write(&text::read(text).unwrap()));
            prop_assert_eq!(again.as_deref(), text.as_deref());
            Ok(())
        }
    }

    fn compare<C: Compared>() {
        let config = Config { failure_persistence: None, ..Config::default() };
        let outcome =
            TestRunner::new(config).run(&C::commands(), |commands| play::<C, _>(&mut InText::default(), &commands));
        outcome.unwrap_or_else(|failure| panic!("{failure}"));
    }

    #[test]
    fn texts_of_locks_do_what_the_reference_does() {
        compare::<LockCell>();
    }

    #[test]
    fn texts_of_what_is_shared_do_what_the_reference_does() {
        compare::<SharedCell>();
    }

    #[test]
    fn texts_of_latches_do_what_the_reference_does() {
        compare::<LatchCell>();
    }

    #[test]
    fn texts_of_barriers_do_what_the_reference_does() {
        compare::<BarrierCell>();
    }
}
