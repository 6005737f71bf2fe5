//! The layout `symfony`: the exclusive locks of Symfony's `RedisStore`, from 5.2 on.
//!
//! The key is a sorted set. Its members are the holders' tokens, 32 bytes in base64, with the end of each hold as
//! score, in milliseconds of the server's clock; a member `__write__` says that the only holder is exclusive. Read
//! locks of Symfony exclude us, and we exclude them. All else is told in [`joined`](super::joined).
//!
//! Source: symfony/lock 7.1 `Store/RedisStore.php`.

use super::joined::calls;
use super::recipe::{Family, Format, notes};
use super::shapes::Shape;
use super::string::base64_of;
use crate::guarantee::ExclusiveUntil;
use crate::native_machine::Calls;
use crate::protocol::Call;

/// The scripts.
pub static CALLS: Calls = calls!(clock "symfony/read", "string/free", "symfony/renew", "joined/no_queue");

/// The layout.
pub static FAMILY: Family = Family {
    name: "symfony",
    calls: &CALLS,
    formats: &[FORMAT],
    exclusive_until: ExclusiveUntil::StoreFailover,
    renews_record: false,
    notes: &notes([
        "Symfony's read locks and our exclusive locks exclude one another; a steady stream of readers can keep us out.",
        "Waiters poll (Symfony's too), in no order: with several processes, one of them may wait long.",
        "Symfony before 5.2 used another type of key under the same name: the two refuse each other's locks.",
    ]),
};

/// Its only format.
pub const FORMAT: Format = Format {
    name: "",
    library: "symfony",
    before: "",
    owner: base64_of::<32>,
    writes: &[Shape::Base64Of32],
    writes_endless: &[],
    rest: |_, _| None,
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::AttemptId;

    #[test]
    fn an_owner_is_a_token_as_symfony_makes_one() {
        let written = (FORMAT.owner)(AttemptId(0xdead_beef_0001_0203_0405_0607_0809_0a0b));
        assert_eq!(written, "3q2+7wABAgMEBQYHCAkKCwAAAAAAAAAAAAAAAAAAAAA=");
        assert_eq!(Shape::of(&written), Shape::Base64Of32);
    }
}
