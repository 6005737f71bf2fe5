//! One script for what several callers ask of a lock each, made of the script that does it for one.

use super::{FAMILIES, native_scripts, redisson, redisson_fenced, redisson_shared, shared_scripts, spring};
use crate::native_machine::Calls;
use crate::protocol::{Arg, Call, Request};
use crate::shared_machine::SharedCalls;

/// What a script learns the server's time by.
const TIME: &str = part!("time");

/// The procedures of which several callers may be served by one command: those of every day.
pub fn calls() -> impl Iterator<Item = &'static Call> + Clone {
    let all: [&'static Calls; 4] = [&native_scripts::CALLS, &redisson::CALLS, &redisson_fenced::CALLS, &spring::CALLS];
    let shared: [&'static SharedCalls; 3] =
        [&shared_scripts::CALLS, &redisson_shared::RWLOCK, &redisson_shared::PERMITS];
    let exclusive = all.into_iter().chain(FAMILIES.map(|family| family.calls));
    exclusive
        .flat_map(|calls| [&calls.acquire, &calls.release])
        .chain(shared.into_iter().flat_map(|calls| [&calls.acquire, &calls.release]))
}

/// Whether `request` is about one key alone, as all must be that one command is to ask for.
pub fn has_one_key(request: &Request) -> bool {
    !request.args.iter().any(|arg| matches!(arg, Arg::Key(_)))
}

/// The script that answers a list of what that of `call` answers for each key, with the time asked for once.
pub fn script(call: &Call) -> impl Iterator<Item = &'static str> {
    let time = call.body.contains(&TIME).then_some(TIME);
    let rest = call.body.iter().copied().filter(|part| *part != TIME);
    time.into_iter().chain(["local function one(KEYS, ARGV)\n"]).chain(rest).chain(["end\n", part!("combined")])
}
