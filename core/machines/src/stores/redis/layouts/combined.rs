//! One script for what several callers ask of a lock each, made of the script that does it for one.
//!
//! It answers a list of what that script answers for each key, and nothing for a key under which nothing lies: there it
//! does nothing, and whoever is answered nothing asks alone. So a lock is never granted by it where it does not lie,
//! whoever stands before the server; and only layouts whose records stay where a lock is free have such a script.

use super::native_scripts::CALLS;
use crate::protocol::Call;

/// What a script learns the server's time by.
const TIME: &str = part!("time");
/// What a script reads a lock's record by.
const READ: &str = part!("read");

/// Whether several callers who ask by `call` may be served by one command.
pub fn is_for(call: &Call) -> bool {
    may_create(call) || std::ptr::eq(call, &raw const CALLS.release)
}

/// Whether somebody asks by `call` for what may be under no key yet.
pub fn may_create(call: &Call) -> bool {
    std::ptr::eq(call, &raw const CALLS.acquire)
}

/// The script that does for each of several keys what that of `call` does for one, with the time asked for once.
pub fn script(call: &Call) -> impl Iterator<Item = &'static str> {
    let rest = call.body.iter().copied().filter(|part| ![TIME, READ].contains(part));
    let one = ["local function one(KEYS, ARGV)\n", READ, part!("combined/known")];
    std::iter::once(TIME).chain(one).chain(rest).chain(["end\n", part!("combined/each")])
}
