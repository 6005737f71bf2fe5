//! What the layouts of SQL databases have in common.

pub mod examination;
pub mod of_connection;

use crate::guarantee::{ExclusiveUntil, Guarantees, TokenRises};
use crate::native_machine;
use crate::protocol::{Call, Inquiry, Request};

/// What the records of a database promise.
pub(super) fn guarantees(store: &'static str, notes: &'static [&'static str]) -> Guarantees {
    native_machine::guarantees(store, ExclusiveUntil::StoreFailover, TokenRises::WithStoreClock, notes)
}

/// Has what `call` says made where there is none.
pub fn make<'a>(call: &'static Call) -> Inquiry<'a, ()> {
    Inquiry::of(Request::new(call, "".into(), []), |_| Ok(()))
}

/// The call that makes what `schema` says.
pub const fn making(schema: &'static [&'static str]) -> Call {
    Call { name: "make", body: schema, batch: false }
}

/// The call that asks what the clock says, by this statement.
pub const fn telling_time(statement: &'static [&'static str]) -> Call {
    Call { name: "clock", body: statement, batch: false }
}
