//! The layout `native`: one hash per lock, changed by scripts alone.
//!
//! The semantics are those of [`crate::lock_cell`], told there and checked against these scripts on random commands. A
//! lock `name` is kept under `lw:{name}` (with `{`, `}` and `%` written as `%7B`, `%7D`, `%25`), so that everything
//! about it lies in one slot of a cluster. Times are microseconds of the server's clock.
//!
//! | field | holds |
//! |---|---|
//! | `v` | version of the layout: `2` |
//! | `r` | the record, one text, which a lock that nobody waits for is read from and written to at once |
//! | `q<n>` | a waiter's claimant, followed by its card |
//! | `a<attempt>` | that waiter's sequence number |
//! | `x<n>` | of the first and the last of the numbers that nobody has between two waiters, as those who left leave them: the other one |
//!
//! | characters of `r` | hold |
//! |---|---|
//! | 1 | `F`: it is free, and nobody waits; `H`: it is held, and nobody waits; `Q`: somebody waits |
//! | 2 to 17 | first fencing token of its block of 64; while the lock is free, the highest token used |
//! | 18 to 33 | the key itself goes 400 s after this: always later than the lease's end, by 5 minutes |
//! | 34 to 89 | not where it is `F`: the holder as a [`Claimant`](crate::lock_cell::Claimant), or as many `-` |
//! | 90 to 105 | when its lease began |
//! | from 106 | how long the lease lasts, below zero while nobody renewed what was handed over; how many wait; sequence numbers of the queue's head and of the next to come; the holder's card; with a space between each |
//!
//! A hand-off is published to `lwi:<inbox>`; see [`parse_push`].

use std::sync::Arc;

use crate::guarantee::{ExclusiveUntil, Guarantees, TokenRises};
use crate::lock_cell::BLOCK;
use crate::name;
use crate::native_machine::{self, Calls, NativeLayout, OwnCalls};
use crate::protocol::{AttemptId, Call, InboxId, StoreEvent};
use crate::time::StoreTime;

/// The scripts.
pub static CALLS: Calls = Calls {
    acquire: Call {
        name: "acquire",
        body: script!("read" "time" "acquire" "check" "hand_on" "acquire_held" "record" "line" "queue" "acquire_queued"),
        batch: false,
    },
    renew: Call { name: "renew", body: script!("time" "renew"), batch: true },
    release: Call {
        name: "release",
        body: script!("read" "check" "release" "time" "hand_on" "release_next" "record" "line" "queue" "release_queued"),
        batch: false,
    },
    undo: Call {
        name: "undo",
        body: script!("read" "check" "undo" "time" "record" "line" "queue" "undo_queued"),
        batch: false,
    },
    inspect: Call {
        name: "inspect",
        body: &[
            "local function lock(KEYS, ARGV)\n",
            part!("read"),
            part!("check"),
            part!("time"),
            part!("record"),
            part!("line"),
            part!("queue"),
            part!("inspect"),
            "end\nlocal function shared(KEYS)\n",
            part!("time"),
            part!("shared/record"),
            part!("line"),
            part!("shared/inspect"),
            "end\nlocal function latch(KEYS)\n",
            part!("latch/kind"),
            part!("latch/record"),
            part!("latch/inspect"),
            "end\nlocal function barrier(KEYS)\n",
            part!("barrier/kind"),
            part!("time"),
            part!("latch/record"),
            part!("barrier/places"),
            part!("barrier/inspect"),
            "end\n",
            part!("inspect_any"),
        ],
        batch: false,
    },
    break_hold: Call {
        name: "break",
        body: script!("read" "check" "time" "record" "line" "queue" "break"),
        batch: false,
    },
    list: Call { name: "list", body: script!("list" "page"), batch: false },
};

/// The scripts that no other layout has.
pub static OWN: OwnCalls = OwnCalls {
    pass: Call { name: "pass", body: script!("read" "check" "time" "record" "line" "queue" "pass"), batch: false },
    raise: Some(Call { name: "raise", body: script!("quorum/raise"), batch: false }),
    together: Some(Call {
        name: "together",
        body: &[
            "local function acquire(KEYS, ARGV)\n",
            part!("read"),
            part!("time"),
            part!("acquire"),
            part!("check"),
            part!("hand_on"),
            part!("acquire_held"),
            part!("record"),
            part!("line"),
            part!("queue"),
            part!("acquire_queued"),
            "end\nlocal function undo(KEYS, ARGV)\n",
            part!("read"),
            part!("check"),
            part!("undo"),
            part!("time"),
            part!("record"),
            part!("line"),
            part!("queue"),
            part!("undo_queued"),
            "end\n",
            part!("time"),
            part!("together"),
        ],
        batch: false,
    }),
};

/// The same in a cluster, where several locks are in several slots and no script can try them together.
pub static ON_CLUSTER: OwnCalls = OwnCalls {
    pass: Call { name: "pass", body: script!("read" "check" "time" "record" "line" "queue" "pass"), batch: false },
    raise: None,
    together: None,
};

/// The layout for locks in a cluster, whose names get `prefix` put before them.
pub fn on_cluster(prefix: impl Into<String>) -> NativeLayout {
    NativeLayout { own: &ON_CLUSTER, ..layout(prefix) }
}

/// The layout for locks whose names get `prefix` put before them.
pub fn layout(prefix: impl Into<String>) -> NativeLayout {
    let (own, shared, latch, barrier) =
        (&OWN, &super::shared_scripts::CALLS, &super::latch_scripts::CALLS, &super::barrier_scripts::CALLS);
    NativeLayout { calls: &CALLS, own, shared, latch, barrier, guarantees, key, name_of, prefix: prefix.into() }
}

fn guarantees() -> Guarantees {
    let notes = &super::notes::NOTES;
    native_machine::guarantees("redis", ExclusiveUntil::StoreFailover, TokenRises::WithStoreClock, notes)
}

pub(super) fn key(prefix: &str, name: &str) -> String {
    format!("lw:{{{}{}}}", name::escape(prefix, &['{', '}']), name::escape(name, &['{', '}']))
}

fn name_of(prefix: &str, key: &str) -> Option<String> {
    let escaped = key.strip_prefix("lw:{")?.strip_suffix('}')?;
    let name = name::unescape(escaped)?.strip_prefix(prefix)?.to_owned();
    // Somebody else may have written a name in another way: that key is no lock of ours.
    (self::key(prefix, &name) == key).then_some(name)
}

/// The channel that an inbox is.
pub fn channel(inbox: InboxId) -> String {
    format!("lwi:{inbox}")
}

/// Reads what a script published: `granted <attempt> <first token> <now> <key>`, the same with `taken` where no block
/// of tokens goes with it, `broken <attempt> <key>`, `next <tail of the attempt> <key>` or `dropped <key>`. `None` for
/// anything else, since whoever may publish to the channel may write what they like.
pub fn parse_push(text: &str) -> Option<(Arc<str>, StoreEvent)> {
    let (kind, rest) = text.split_once(' ')?;
    if kind == "dropped" {
        return Some((rest.into(), StoreEvent::Dropped));
    }
    let (attempt, rest) = rest.split_once(' ')?;
    if kind == "next" {
        let tail = u32::from_str_radix(attempt, 16).ok()?;
        return Some((rest.into(), StoreEvent::Next { tail }));
    }
    let attempt = match attempt.len() {
        32 => AttemptId(u128::from_str_radix(attempt, 16).ok()?),
        _ => return None,
    };
    match kind {
        "granted" | "taken" => {
            let mut parts = rest.splitn(3, ' ');
            let first: u64 = parts.next()?.parse().ok().filter(|first| *first > 0)?;
            let last = if kind == "taken" { first } else { first.checked_add(BLOCK - 1)? };
            let at = StoreTime(parts.next()?.parse().ok()?);
            Some((parts.next()?.into(), StoreEvent::Granted { attempt, first, last, at }))
        }
        "broken" => Some((rest.into(), StoreEvent::Broken { attempt })),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{Input, Layout, Step, Verdict};
    use crate::share::Share;

    #[test]
    fn names_and_keys_are_one_to_one() {
        for (prefix, name, expected) in [
            ("", "orders:42", "lw:{orders:42}"),
            ("app:", "a{b}%c", "lw:{app:a%7Bb%7D%25c}"),
            ("{p", "\u{1F512} x", "lw:{%7Bp\u{1F512} x}"),
        ] {
            assert_eq!(key(prefix, name), expected);
            assert_eq!(name_of(prefix, expected).as_deref(), Some(name));
        }
        for foreign in ["orders", "lw:orders", "lw:{%zz}", "lw:{other}"] {
            assert_eq!(name_of("app:", foreign), None);
        }
    }

    #[test]
    fn a_pushed_token_far_ahead_of_the_stores_clock_is_asked_about() {
        let at = 1_800_000_000_000_000;
        let lock = layout("");
        let reader = lock.shared(Share::READ).unwrap();
        for mut protocol in [lock.protocol("x".into()), reader.protocol("x".into())] {
            for (first, is_believed) in [(at as u64, true), (9_000_000_000_000_000_000, false), (u64::MAX - 63, false)]
            {
                let push = StoreEvent::Granted { attempt: AttemptId(1), first, last: first + 63, at: StoreTime(at) };
                let step = protocol.step(Input::Event(&push));
                assert_eq!(matches!(step, Step::Done(Verdict::Granted(_))), is_believed, "{first}: {step:?}");
                assert_eq!(matches!(step, Step::Done(Verdict::Implausible)), !is_believed, "{first}: {step:?}");
            }
        }
    }

    #[test]
    fn a_push_is_read_or_ignored() {
        let attempt = AttemptId(7);
        assert_eq!(
            parse_push(&format!("granted {attempt} 10 99 lw:{{a b}}")),
            Some(("lw:{a b}".into(), StoreEvent::Granted { attempt, first: 10, last: 73, at: StoreTime(99) }))
        );
        assert_eq!(parse_push(&format!("broken {attempt} k")), Some(("k".into(), StoreEvent::Broken { attempt })));
        assert_eq!(parse_push("next 0000002a k"), Some(("k".into(), StoreEvent::Next { tail: 42 })));
        assert_eq!(parse_push("dropped lw:{a b}"), Some(("lw:{a b}".into(), StoreEvent::Dropped)));
        for garbage in [
            "",
            "granted",
            "dropped",
            "next",
            "next 2a",
            "next zz k",
            "granted 7 1 1 1 k",
            "broken zz k",
            "\u{1F512} \u{1F512} \u{1F512}",
        ] {
            assert_eq!(parse_push(garbage), None, "{garbage}");
        }
        for tokens in ["0 99", "-1 99", "1e3 99", "10", "10 x", "18446744073709551615 99", "99999999999999999999 99"] {
            assert_eq!(parse_push(&format!("granted {attempt} {tokens} k")), None, "{tokens}");
        }
    }
}
