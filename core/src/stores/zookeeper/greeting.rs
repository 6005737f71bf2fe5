//! The first words on a connection: a session, a new one or one that is to go on.

use std::time::Duration;

use super::wire::{Reader, garbled};
use crate::error::{Error, Kind, Result};

/// A session of this client at the ensemble.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Session {
    pub(super) id: i64,
    pub(super) password: Vec<u8>,
    /// How long the ensemble keeps it without a word.
    pub(super) timeout: Duration,
}

/// What the server answers to the greeting: nothing for a session that is over.
///
/// # Errors
/// `unavailable` for a server that cannot change anything, `protocol` for what no ZooKeeper answers.
pub(super) fn answer(from: &mut Reader<'_>) -> Result<Option<Session>> {
    let (_version, timeout, id, password) = (from.int()?, from.int()?, from.long()?, from.buffer()?.to_vec());
    if from.flag() {
        let message = "the server lost the majority of the others and only shows what it has; see to the others";
        return Err(Error::new(Kind::Unavailable, "connect", message));
    }
    if timeout <= 0 || id == 0 {
        return Ok(None);
    }
    if password.is_empty() {
        return Err(garbled());
    }
    let timeout = Duration::from_millis(u64::from(timeout.unsigned_abs()));
    Ok(Some(Session { id, password, timeout }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> Result<Option<Session>> {
        answer(&mut Reader(bytes))
    }

    #[test]
    fn a_session_is_given_is_over_or_is_of_no_use() {
        let given = b"\0\0\0\0\0\0\x0f\xa0\0\0\0\0\0\0\0\x07\0\0\0\x02pw\0";
        let session = read(given).unwrap().unwrap();
        assert_eq!((session.id, session.timeout, &*session.password), (7, Duration::from_secs(4), b"pw".as_slice()));
        assert_eq!(read(&given[..given.len() - 1]).unwrap(), Some(session), "servers before 3.4 say no more");
        assert_eq!(read(b"\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x02\0\0\0").unwrap(), None);
        let read_only = [&given[..given.len() - 1], b"\x01"].concat();
        assert_eq!(read(&read_only).unwrap_err().kind(), Kind::Unavailable);
        assert_eq!(read(&given[..20]).unwrap_err().kind(), Kind::Protocol);
    }
}
