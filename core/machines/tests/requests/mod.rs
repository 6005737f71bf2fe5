//! What a machine asks first, for tests that play the store.

#![allow(unreachable_pub, dead_code, reason = "the module is shared, and each test uses its part")]

use lockwright_machines::protocol::{Arg, Input, Intent, Protocol, Request, Step};

/// The first request of a step that asks.
pub fn asked(step: Step) -> Request {
    match step {
        Step::Ask(mut requests) => requests.remove(0),
        other => panic!("{other:?}"),
    }
}

/// The first request by which `machine` begins to do what is intended.
pub fn begun(machine: &mut dyn Protocol, intent: Intent) -> Request {
    asked(machine.step(Input::Begin(intent)))
}

/// The request as it is sent, to be done no later than that.
pub fn dated(mut request: Request, not_after: i64) -> Request {
    for arg in request.args.iter_mut().filter(|arg| **arg == Arg::NotAfter) {
        *arg = Arg::Int(not_after);
    }
    request
}
