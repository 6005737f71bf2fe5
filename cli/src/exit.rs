//! Exit codes: those of sysexits.h where one fits, so that scripts and schedulers can tell "taken" from "broken".

use lockwright::Kind;

pub(crate) const OK: u8 = 0;
pub(crate) const ERROR: u8 = 1;
pub(crate) const USAGE: u8 = 64;
pub(crate) const UNAVAILABLE: u8 = 69;
pub(crate) const INTERNAL: u8 = 70;
pub(crate) const LOST: u8 = 73;
pub(crate) const TAKEN: u8 = 75;
pub(crate) const PROTOCOL: u8 = 76;
pub(crate) const AUTH: u8 = 77;
pub(crate) const NOT_EXECUTABLE: u8 = 126;
pub(crate) const NOT_FOUND: u8 = 127;

/// What `--help` says of them.
pub(crate) const HELP: &str = "\
Exit codes:
   0  done; try: the lock is free; ping: the store serves; doctor: nothing is to be mended
   1  refused; break: the lock is not held with this token; doctor: something is to be mended
  64  wrong name, option or address, or this store cannot do it
  69  the store does not answer
  70  a bug in lockwright, or the operating system refused
  73  run: the lock was lost; the command was ended before the lease could end
  75  the lock is taken (try, run --try), or the --timeout is over
  76  what answers is not the store, or the name is not a Lockwright lock of this kind
  77  the store refused the user, the password or a right
 126  run: the command cannot be executed; 127: there is no such command
 run exits with the command's own code, or 128 + n if signal n ended it or the wait";

pub(crate) fn code_of(kind: Kind) -> u8 {
    match kind {
        Kind::Timeout => TAKEN,
        Kind::InvalidConfig | Kind::Unsupported => USAGE,
        Kind::Unavailable | Kind::Quorum => UNAVAILABLE,
        Kind::Lost => LOST,
        Kind::Protocol | Kind::ForeignLayout => PROTOCOL,
        Kind::Auth => AUTH,
        Kind::Internal => INTERNAL,
        _ => ERROR,
    }
}

/// The shell's code for a program that a signal ended.
pub(crate) fn by_signal(signal: i32) -> u8 {
    u8::try_from(signal).unwrap_or_default().saturating_add(128)
}
