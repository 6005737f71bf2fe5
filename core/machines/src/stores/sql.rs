//! What the layouts of SQL databases have in common.

use crate::protocol::{Call, Inquiry, Request};

/// Has what `call` says made where there is none.
pub fn make<'a>(call: &'static Call) -> Inquiry<'a, ()> {
    Inquiry::of(Request::new(call, "".into(), []), |_| Ok(()))
}

/// The call that makes what `schema` says.
pub const fn making(schema: &'static [&'static str]) -> Call {
    Call { name: "make", body: schema, batch: false }
}
