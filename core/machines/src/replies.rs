//! What the answers of a store have in common, whatever the layout: numbers, refusals, and what makes no sense.

use std::time::Duration;

use crate::error::{Error, Kind, Result, with_not_yet};
use crate::protocol::{Op, Page, Reply, Step, Verdict};
use crate::time::StoreTime;

/// A span in microseconds; none when it is below zero.
pub(crate) fn duration(micros: i64) -> Duration {
    Duration::from_micros(u64::try_from(micros).unwrap_or(0))
}

/// The number that a reply is.
pub(crate) fn int(reply: &Reply) -> Option<i64> {
    match reply {
        Reply::Int(value) => Some(*value),
        _ => None,
    }
}

/// The reply that is a list of these.
pub(crate) fn numbers(values: &[i64]) -> Reply {
    Reply::List(values.iter().map(|value| Reply::Int(*value)).collect())
}

/// The page of a list that a reply is: where the next one begins, and names.
pub(crate) fn listed(reply: &Reply) -> Result<&[Reply]> {
    match reply {
        Reply::List(list) if !list.is_empty() => Ok(list),
        Reply::Error { code, message } => Err(refusal("list", code, message)),
        other => Err(nonsense("list", std::slice::from_ref(other))),
    }
}

/// An owner as others see it: enough to tell two apart, and no credential.
pub(crate) fn shown(owner: &str) -> String {
    sha1_smol::Sha1::from(owner).digest().to_string()[..12].to_owned()
}

/// Whether a token that is the store's clock, or a little more, cannot have been given out when that stood `at`: it
/// would outrank those of all who come later, and whoever may publish may say so. Where the clock really stepped back
/// by a day, asking costs a request.
pub(crate) fn is_far(token: u64, at: StoreTime) -> bool {
    const FAR: Duration = Duration::from_secs(24 * 60 * 60);
    i64::try_from(token).map_or(true, |token| StoreTime(token) > at.after(FAR))
}

/// The same of locks, whose names `name_of` finds in what is listed.
pub(crate) fn names(reply: &Reply, name_of: impl Fn(&str) -> Option<String>) -> Result<Page<String>> {
    let mut texts = listed(reply)?.iter().filter_map(|item| match item {
        Reply::Text(text) => Some(text.as_str()),
        _ => None,
    });
    let next = texts.next().filter(|cursor| !cursor.is_empty()).map(str::to_owned);
    Ok((texts.filter_map(name_of).collect(), next))
}

/// Whether something was done, as 1 or 0 says; `refused` makes the error of a code and a message.
pub(crate) fn done(
    operation: &'static str,
    reply: &Reply,
    refused: impl FnOnce(&'static str, &str, &str) -> Error,
) -> Result<bool> {
    match reply {
        Reply::Int(0) => Ok(false),
        Reply::Int(1) => Ok(true),
        Reply::Error { code, message } => Err(refused(operation, code, message)),
        other => Err(nonsense(operation, std::slice::from_ref(other))),
    }
}

/// What a machine of one request a conversation says to its reply: as `read` reads it, or that it makes no sense.
pub(crate) fn answered(op: Op, replies: &[Reply], read: impl FnOnce(&Reply) -> Option<Step>) -> Step {
    let step = replies.first().and_then(read);
    step.unwrap_or_else(|| Step::Done(Verdict::Failed(nonsense(operation(op), replies))))
}

/// What an error says was being done.
pub(crate) fn operation(op: Op) -> &'static str {
    match op {
        Op::Acquire => "acquire",
        Op::Renew => "renew",
        Op::Release => "release",
        Op::Undo => "cancel",
    }
}

/// The code by which a driver refuses what a server may have granted that has not been the one that grants for long
/// enough; the message begins with how many milliseconds are left until it has, and says all there is to say.
pub const YOUNG: &str = "YOUNG";
/// The same for a server whose other users keep to leases of other lengths.
pub const OTHER_LEASES: &str = "OTHERLEASES";

/// [`YOUNG`] with its message, where `left` is left until the server has been that for long enough.
pub fn young(left: Duration, why: &str) -> (String, String) {
    (YOUNG.to_owned(), format!("{} {why}", left.as_millis()))
}

/// The error for a store that answered `code` and `message`.
pub(crate) fn refusal(operation: &'static str, code: &str, message: &str) -> Error {
    match code {
        YOUNG => {
            let (left, message) = message.split_once(' ').unwrap_or(("0", message));
            let left = Duration::from_millis(left.parse().unwrap_or(0));
            return with_not_yet(Error::new(Kind::Unavailable, operation, message.to_owned()), left);
        }
        OTHER_LEASES => return Error::new(Kind::InvalidConfig, operation, message.to_owned()),
        _ => {}
    }
    let kind = match code {
        // How Redis 7.0 tells that the user of a script lacks a right; later versions say NOPERM.
        "ERR" if message.starts_with("The user executing the script can't") => Kind::Auth,
        "FOREIGN" | "WRONGTYPE" => Kind::ForeignLayout,
        "TOOMANY" => Kind::InvalidConfig,
        "NOPERM" | "NOAUTH" | "WRONGPASS" | "PermissionDenied" | "Unauthenticated" => Kind::Auth,
        "MOVED" | "ASK" | "CROSSSLOT" => Kind::Unsupported,
        "OOM" | "READONLY" | "LOADING" | "BUSY" | "MISCONF" | "MASTERDOWN" | "CLUSTERDOWN" | "NOREPLICAS" | "FULL"
        | "NoSpace" | "LeaseNotFound" => Kind::Unavailable,
        _ => Kind::Protocol,
    };
    let advice = match kind {
        _ if code == "READONLY" => "give the address of the primary, which can be written",
        _ if code == "OOM" => "raise its maxmemory, or free some",
        _ if code == "NOREPLICAS" => "too few of its replicas are there for it to take writes",
        _ if code == "LOADING" => "it will serve once its data is loaded",
        Kind::InvalidConfig => "ask for fewer, or resize it",
        Kind::ForeignLayout => "something else lies under this name; choose another name, prefix or layout",
        Kind::Auth => "check the user, the password and the user's rights",
        _ if code == "CROSSSLOT" => "do it on a single server, or lock by lock",
        Kind::Unsupported => "it is a node of a cluster; write redis+cluster:// for redis://",
        Kind::Unavailable => "it may pass by itself; see the store's log",
        _ => "see whether this is the right store, and its version",
    };
    if code == "FOREIGN" {
        return Error::new(kind, operation, foreign(message));
    }
    // Redis adds the digest of the script and a line in it.
    let message = message.split(" script: ").next().unwrap_or_default().trim_end_matches('.');
    Error::new(kind, operation, format!("the store refused: {code} {message}; {advice}"))
}

/// What to say where something else than was meant lies under a name: a record of ours, whose kind the store says, or
/// not.
fn foreign(message: &str) -> String {
    let used = message.strip_prefix("this name is a ").and_then(|rest| rest.strip_suffix("'s"));
    match used {
        Some("rwlock") => "this name is a read/write lock's; use it as one, or choose another name".into(),
        Some(kind) => format!("this name is a {kind}'s; use it as one, or choose another name"),
        None => {
            "what lies under this name is not a lock of this version of Lockwright; choose another name, prefix or layout"
                .into()
        }
    }
}

/// The error for replies that no such layout gives. Texts in it are counted, not quoted: one of them may be an owner,
/// which releases a lock.
pub(crate) fn nonsense(operation: &'static str, replies: &[Reply]) -> Error {
    let mut shown = shape(replies);
    shown.truncate(shown.floor_char_boundary(200));
    let message =
        format!("the store's reply makes no sense for this layout: {shown}; see what answers at that address");
    Error::new(Kind::Protocol, operation, message)
}

fn shape(replies: &[Reply]) -> String {
    let one = |reply: &Reply| match reply {
        Reply::Nil => "nothing".to_owned(),
        Reply::Int(number) => number.to_string(),
        Reply::Text(text) => format!("a text of {} bytes", text.len()),
        Reply::List(list) => shape(list),
        Reply::Shared(reply) => shape(std::slice::from_ref(reply)),
        Reply::Error { code, .. } => format!("an error {code}"),
        Reply::Silent => "no answer".to_owned(),
        Reply::Unsent => "nobody asked".to_owned(),
    };
    // More of it is not shown.
    format!("[{}]", replies.iter().take(100).map(one).collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_makes_no_sense_is_told_without_an_owner() {
        let owner = Reply::Text("0123456789abcdef0123456789abcdef".into());
        let error = Reply::Error { code: "ERR".into(), message: "0123456789abcdef".into() };
        let told = nonsense("acquire", &[Reply::List(vec![Reply::Int(-5), owner, Reply::Nil]), error]).to_string();
        assert!(told.contains("[[-5, a text of 32 bytes, nothing], an error ERR]") && !told.contains("0123"), "{told}");
    }
}
