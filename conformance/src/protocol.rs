//! The commands a shim obeys; `README.md` says what each of them does.

/// A command: its name and the arguments that scenarios may give it. The runner adds `client` where none is given, the
/// files of `work`, and `guard` where a guard is made.
#[derive(Debug)]
pub struct Command {
    pub name: &'static str,
    pub args: &'static [&'static str],
}

/// How a lock is to be acquired.
const LOCK: &[&str] = &[
    "lock",
    "with",
    "timeout",
    "ttl",
    "renew",
    "max_hold",
    "at_least_for",
    "fair",
    "rank",
    "revocable",
    "owner",
    "label",
    "layout",
    "format",
    "share",
    "permits",
    "take",
    "cancellable",
];

/// Every command that a scenario may give.
pub const COMMANDS: &[Command] = &[
    Command { name: "open", args: &["uri"] },
    Command { name: "guarantees", args: &[] },
    Command { name: "require", args: &["wants"] },
    Command { name: "acquire", args: LOCK },
    Command { name: "try", args: LOCK },
    Command { name: "cancel", args: &["command"] },
    Command { name: "release", args: &["guard"] },
    Command { name: "extend", args: &["guard", "ttl"] },
    Command { name: "export", args: &["guard", "ttl"] },
    Command { name: "resume", args: &["secret", "lock", "ttl", "renew", "max_hold", "label", "layout", "format"] },
    Command { name: "hold_at_least_for", args: &["guard", "span"] },
    Command { name: "ping", args: &[] },
    Command { name: "drain", args: &["limit"] },
    Command { name: "downgrade", args: &["guard"] },
    Command { name: "upgrade", args: &["guard"] },
    Command { name: "resize", args: &["lock", "permits"] },
    Command { name: "state", args: &["guard"] },
    Command { name: "lost", args: &["guard"] },
    Command { name: "drop", args: &["guard"] },
    Command { name: "abandon", args: &["guard"] },
    Command { name: "inspect", args: &["lock"] },
    Command { name: "list", args: &[] },
    Command { name: "break", args: &["lock", "token"] },
    Command { name: "request_release", args: &["lock", "token"] },
    Command { name: "requested", args: &["guard"] },
    Command { name: "close", args: &[] },
    Command { name: "fork", args: &["guard", "lock", "other", "times", "busy"] },
    Command { name: "prefork", args: &["children", "increments", "lock", "ttl", "fair"] },
    Command {
        name: "work",
        args: &[
            "tasks",
            "increments",
            "own_clients",
            "lock",
            "with",
            "ttl",
            "fair",
            "layout",
            "format",
            "share",
            "permits",
            "take",
        ],
    },
    Command { name: "count", args: &["guard"] },
    Command { name: "segment", args: &["lock", "segments", "key", "timeout", "ttl"] },
    Command { name: "sold_out", args: &["guard"] },
    Command { name: "restock", args: &["lock", "segments"] },
    Command { name: "once", args: &["lock", "gate", "waits", "timeout", "ttl"] },
    Command { name: "campaign", args: &["lock", "proclaims", "timeout", "ttl"] },
    Command { name: "lead", args: &["lock", "proclaims", "gate", "ttl"] },
    Command { name: "leader", args: &["lock"] },
    Command { name: "changed", args: &["lock", "known", "every"] },
    Command { name: "latch", args: &["lock", "count", "asks", "to", "timeout"] },
    Command { name: "barrier", args: &["lock", "parties", "ttl", "asks", "times", "timeout"] },
];

/// The command called `name`.
pub fn command(name: &str) -> Option<&'static Command> {
    COMMANDS.iter().find(|command| command.name == name)
}

impl Command {
    /// Whether it makes a guard, which is then called as the step that made it.
    pub fn makes_a_guard(&self) -> bool {
        matches!(self.name, "acquire" | "try" | "resume" | "segment" | "campaign")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_readme_describes_every_command_and_argument() {
        let readme = include_str!("../README.md");
        for Command { name, args } in COMMANDS {
            let row = readme.lines().find(|line| line.starts_with(&format!("| `{name}` |")));
            let row = row.unwrap_or_else(|| panic!("no row for {name}"));
            for arg in args.iter().filter(|arg| !LOCK.contains(arg) || row.contains("lock options")) {
                assert!(row.contains(&format!("`{arg}`")) || LOCK.contains(arg), "{name}: {arg}");
            }
        }
    }
}
