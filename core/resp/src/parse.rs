//! A whole reply as a value.
//!
//! To read a reply where it lies takes a hundred instructions; the crate's parser, made for what may come in pieces and
//! in any version of the protocol, takes thousands, and is a tenth of a WebAssembly component. Both read the same: the
//! fuzz target compares them.

use std::io;

use redis::{ServerError, Value, make_extension_error};

/// The value of `reply`, whose end and depth [`Frames`](crate::wire::Frames) found.
///
/// # Errors
/// `InvalidData`: it is none, though it ends where one would.
pub fn value(reply: &[u8]) -> io::Result<Value> {
    match first(reply) {
        Some((value, [])) => Ok(value),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// The value that `bytes` begin with, and what comes after it.
fn first(bytes: &[u8]) -> Option<(Value, &[u8])> {
    let (kind, bytes) = bytes.split_first()?;
    let at = bytes.windows(2).position(|two| two == b"\r\n")?;
    let (line, mut rest) = (std::str::from_utf8(&bytes[..at]).ok()?, &bytes[at + 2..]);
    let value = match (kind, line) {
        (b':', number) => Value::Int(number.parse().ok()?),
        (b'+', "OK") => Value::Okay,
        (b'+', text) => Value::SimpleString(text.into()),
        (b'-', line) => Value::ServerError(refusal(line)?),
        (b'$' | b'*', length) if length.parse() == Ok(-1) => Value::Nil,
        (b'$', length) => {
            let (text, after) = rest.split_at_checked(length.parse().ok()?)?;
            rest = after.strip_prefix(b"\r\n")?;
            Value::BulkString(text.into())
        }
        (b'*', length) => {
            let length: usize = length.parse().ok()?;
            // What is said may be more than there is.
            let mut values = Vec::with_capacity(length.min(rest.len()));
            for _ in 0..length {
                let (value, after) = first(rest)?;
                values.push(value);
                rest = after;
            }
            Value::Array(values)
        }
        _ => return None,
    };
    Some((value, rest))
}

/// What a server says in place of an answer: a code, and what that means.
fn refusal(line: &str) -> Option<ServerError> {
    let (code, details) = match line.split_once(' ') {
        Some((code, details)) => (code, Some(details.to_owned())),
        None => (line, None),
    };
    make_extension_error(code.to_owned(), details).try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The value, with errors as texts: two that say the same may be of other kinds.
    fn told(value: Value) -> Value {
        match value {
            Value::ServerError(error) => {
                Value::SimpleString(format!("-{} {}", error.code(), error.details().unwrap_or("without details")))
            }
            Value::Array(values) => Value::Array(values.into_iter().map(told).collect()),
            value => value,
        }
    }

    #[test]
    fn replies_are_read_as_the_crate_reads_them() {
        for reply in [
            b":0\r\n".as_slice(),
            b":-9223372036854775808\r\n",
            b":9223372036854775807\r\n",
            b"+OK\r\n",
            b"+OK\n\r\r\n",
            b"+\r\n",
            b"$-1\r\n",
            b"$-01\r\n",
            b"$0\r\n\r\n",
            b"$5\r\na\r\nbc\r\n",
            b"$3\r\n\xff\x00\r\r\n",
            b"*-1\r\n",
            b"*0\r\n",
            b"*3\r\n*2\r\n:1\r\n$1\r\nx\r\n$-1\r\n+OK\r\n",
            b"-ERR a b\r\n",
            b"-OOM\r\n",
            b"-MOVED 7 other:6379\r\n",
            b"-\r\n",
            b"- a\r\n",
            b"*2\r\n:1\r\n-NOSCRIPT no\r\n",
        ] {
            let ours = value(reply).unwrap_or_else(|_| panic!("{:?}", reply.escape_ascii()));
            assert_eq!(told(ours), told(redis::parse_redis_value(reply).unwrap()));
        }
    }

    #[test]
    fn what_the_crate_takes_for_no_reply_is_none() {
        for reply in [
            b":9223372036854775808\r\n".as_slice(),
            b":-\r\n",
            b"+\xff\r\n",
            b"-ERR \xff\r\n",
            b"$\r\n\r\n",
            b"$1\r\nabc",
            b"*1-\r\n",
            b":1\r\n:2\r\n",
        ] {
            let ours = value(reply).map_err(|error| error.kind());
            assert_eq!(ours, Err(io::ErrorKind::InvalidData), "{:?}", reply.escape_ascii());
        }
    }
}
