//! The layout `getset`: the oldest recipe, `SETNX name end` and, once that is past, `GETSET name end`.
//!
//! The key holds a number, when the hold ends by the wall clock of whoever wrote it, in the [`Format`]'s unit; whoever
//! finds it in the past takes the lock. The recipe has no owner, so our [record](super::joined) says which attempt
//! wrote which number: `<attempt>/<number>` stands there as the owner. We read the server's clock, give the key a time
//! to live that lies 10 minutes after its end, and take what we did not write for somebody else's.
//!
//! ```text
//!   acquire .. unit-us,  release .. unit-us,  undo .. unit-us,  inspect .. unit-us,  break .. unit-us
//!   renew    record owner ttl-ms unit-us
//! ```
//!
//! What the recipe cannot give, we cannot either:
//! - Clocks that disagree make two holders; so the guarantee is `clock skew`.
//! - Two that find an old number both write theirs, and only the first has the lock: its end is written over by the
//!   loser's. We take our hold for lost then, since others may go by that end.
//! - Who deletes without looking frees whatever lies there.
//!
//! Sources: the `SETNX` page of the Redis documentation with its `GETSET`; two articles on locks by Redis, in seconds
//! and in milliseconds.

use super::joined::calls;
use super::recipe::{Family, Format, notes};
use super::shapes::Shape;
use super::string;
use crate::guarantee::ExclusiveUntil;
use crate::native_machine::Calls;
use crate::protocol::{Arg, Call};

/// The scripts.
pub static CALLS: Calls = calls!(clock "getset/read", "getset/free", "getset/renew", "joined/no_queue");

/// The layout.
pub static FAMILY: Family = Family {
    name: "getset",
    calls: &CALLS,
    formats: &FORMATS,
    exclusive_until: ExclusiveUntil::ClockSkew,
    renews_record: true,
    notes: &notes([
        "Unsafe when clocks differ: the other programs compare the end with their own wall clock, and a fast one takes a held lock.",
        "The key does not say who holds it: other programs delete it whoever holds the lock, and Lockwright knows its own hold by the number alone.",
        "When several find an expired hold, each writes its own end over it; if the first was ours, it is told `lost` at its next renewal.",
    ]),
};

/// Every format.
pub const FORMATS: [Format; 2] = [SECONDS, MILLISECONDS];

/// The end in whole seconds of Unix time, as the Redis documentation has it.
pub const SECONDS: Format =
    Format { name: "seconds", library: "getset in seconds", rest: |_, _| Some(Arg::Int(1_000_000)), ..MILLISECONDS };

/// The end in milliseconds of Unix time.
pub const MILLISECONDS: Format = Format {
    name: "milliseconds",
    library: "getset in milliseconds",
    before: "",
    owner: string::hex,
    writes: &[Shape::Number],
    writes_endless: &[],
    rest: |_, _| Some(Arg::Int(1_000)),
};
