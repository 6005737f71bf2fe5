//! Records that are read and written as texts for every request do what the reference does.

mod comparison;
mod requests;

use std::sync::Arc;

use comparison::{Compared, LISTENS, Model, Store, play};
use lockwright_machines::barrier_cell::BarrierCell;
use lockwright_machines::latch_cell::LatchCell;
use lockwright_machines::lock_cell::LockCell;
use lockwright_machines::native_machine::NativeLayout;
use lockwright_machines::protocol::{Reply, Request, StoreEvent};
use lockwright_machines::shared_cell::SharedCell;
use lockwright_machines::stores::memory::layouts::native;
use lockwright_machines::text;
use lockwright_machines::time::StoreTime;
use lockwright_machines::written::{Written, compute};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};

/// A record that is read and written for every request, and what was pushed to the inbox where somebody listens.
#[derive(Default)]
struct InText {
    written: Option<Written>,
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
        let computed = compute(self.written.as_ref(), [request].into_iter(), now, &|inbox| inbox == LISTENS);
        self.written = computed.kept.or(self.written.take());
        let heard = computed.pushes.into_iter().filter(|(inbox, _)| *inbox == LISTENS);
        self.pushed.extend(heard.map(|(_, event)| (request.key.clone(), event)));
        let [reply] = computed.replies.try_into().unwrap();
        reply
    }

    fn pushed(&mut self) -> Vec<(Arc<str>, StoreEvent)> {
        std::mem::take(&mut self.pushed)
    }

    fn is_there(&mut self, _: &str) -> bool {
        self.written.is_some()
    }

    fn forgets(&mut self, _: &str, _: StoreTime) -> bool {
        false
    }

    fn comparable(&self, _: &Model<C>, _: &Request, _: &Reply, reply: Reply) -> Reply {
        reply
    }

    fn check(&mut self, _: &Model<C>) -> Result<(), TestCaseError> {
        let text = self.written.as_ref().map(|it| it.record.clone());
        let again = text.as_deref().map(|text| text::write(&text::read(text).unwrap(), 0));
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
