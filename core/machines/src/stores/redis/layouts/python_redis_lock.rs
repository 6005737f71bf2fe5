//! The layout `python_redis_lock`: the locks of python-redis-lock, which wakes its waiters through a list.
//!
//! | key | holds |
//! |---|---|
//! | `lock:`, the connection's prefix and the name | the holder's id |
//! | `lock-signal:` and the same | for a second after a release: one element, which one of those who wait by `BLPOP` takes |
//!
//! Whatever frees the lock for us signals as the library's own release does. Our own waiters do not wait by `BLPOP`:
//! they ask by a timer, and leave the signal to the others. All else is told in [`joined`](super::joined).
//!
//! Source: python-redis-lock 4.0.1 `redis_lock/__init__.py`.

use super::joined::{Verb, calls};
use super::recipe::{Family, Format, notes};
use super::string::{ANY, base64_of};
use crate::guarantee::ExclusiveUntil;
use crate::native_machine::Calls;
use crate::protocol::{Arg, Call};

const LOCK: &str = "lock:";
const SIGNAL: &str = "lock-signal:";

/// The scripts: those of the layout `string`, but for what frees the lock.
pub static CALLS: Calls = calls!("string/read", "python_redis_lock/free", "string/holds", "joined/no_queue");

/// The layout.
pub static FAMILY: Family = Family {
    name: "python_redis_lock",
    calls: &CALLS,
    formats: &[FORMAT],
    exclusive_until: ExclusiveUntil::StoreFailover,
    renews_record: false,
    notes: &notes([
        "A release of ours wakes one waiter of python-redis-lock at once; ours poll, so there is no order.",
        "When a holder dies, waiters of python-redis-lock look again only after their own expire or timeout.",
        "A lock that python-redis-lock took without expire never expires, and its reset() takes the lock from any holder.",
    ]),
};

/// Its only format: 18 bytes in base64, or whatever id the program gave.
pub const FORMAT: Format = Format {
    name: "",
    library: "python-redis-lock",
    before: LOCK,
    owner: base64_of::<18>,
    writes: &ANY,
    writes_endless: &ANY,
    rest: |wanted, key| matches!(wanted, Verb::Free).then(|| signal(key)),
};

/// What a waiter of theirs is woken by when the lock `key` is free.
fn signal(key: &str) -> Arg {
    Arg::Key(format!("{SIGNAL}{}", key.strip_prefix(LOCK).unwrap_or(key)).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{AttemptId, Layout as _};

    #[test]
    fn keys_and_owners_are_byte_for_byte_what_the_library_finds() {
        let layout = FAMILY.layout(&FORMAT, "app:");
        let key = layout.key("orders").unwrap();
        assert_eq!(&*key, "lock:app:orders");
        assert_eq!(signal(&key), Arg::Key("lock-signal:app:orders".into()));
        assert_eq!((FORMAT.owner)(AttemptId(0xdead_beef_0001_0203_0405_0607_0809_0a0b)), "3q2+7wABAgMEBQYHCAkKCwAA");
    }
}
