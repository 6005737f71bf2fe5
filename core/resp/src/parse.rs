//! A whole reply as a value.
//!
//! Nearly every reply is a number, a text or a list of those: to read one where it lies takes a hundred instructions,
//! and the crate's parser, made for what may come in pieces and be anything, takes thousands. Both read the same; the
//! fuzz target compares them.

use redis::{RedisResult, Value};

/// The value of `reply`, whose end and depth [`Frames`](crate::wire::Frames) found.
///
/// # Errors
/// It is none, though it ends where one would.
pub fn value(reply: &[u8]) -> RedisResult<Value> {
    match everyday(reply) {
        Some((value, [])) => Ok(value),
        _ => redis::parse_redis_value(reply),
    }
}

/// The value that `bytes` begin with, and what comes after it. None of an error, or of what would need a second look.
fn everyday(bytes: &[u8]) -> Option<(Value, &[u8])> {
    let (kind, bytes) = bytes.split_first()?;
    let at = bytes.windows(2).position(|two| two == b"\r\n")?;
    let (line, mut rest) = (std::str::from_utf8(&bytes[..at]).ok()?, &bytes[at + 2..]);
    let value = match (kind, line) {
        (b':', number) => Value::Int(number.parse().ok()?),
        (b'+', "OK") => Value::Okay,
        (b'+', text) => Value::SimpleString(text.into()),
        (b'$' | b'*', "-1") => Value::Nil,
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
                let (value, after) = everyday(rest)?;
                values.push(value);
                rest = after;
            }
            Value::Array(values)
        }
        _ => return None,
    };
    Some((value, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_here_is_what_the_crate_would_read() {
        for reply in [
            b":0\r\n".as_slice(),
            b":-9223372036854775808\r\n",
            b":9223372036854775807\r\n",
            b"+OK\r\n",
            b"+OK\n\r\r\n",
            b"+\r\n",
            b"$-1\r\n",
            b"$0\r\n\r\n",
            b"$5\r\na\r\nbc\r\n",
            b"$3\r\n\xff\x00\r\r\n",
            b"*-1\r\n",
            b"*0\r\n",
            b"*3\r\n*2\r\n:1\r\n$1\r\nx\r\n$-1\r\n+OK\r\n",
        ] {
            let (value, rest) = everyday(reply).unwrap_or_else(|| panic!("{:?}", reply.escape_ascii()));
            assert_eq!(value, redis::parse_redis_value(reply).unwrap());
            assert!(rest.is_empty());
        }
    }

    #[test]
    fn whatever_is_not_read_here_is_left_to_the_crate() {
        for (reply, is_one) in [
            (b"-ERR a b\r\n".as_slice(), true),
            (b"*2\r\n:1\r\n-NOSCRIPT no\r\n", true),
            (b":9223372036854775808\r\n", false),
            (b":-\r\n", false),
            (b"+\xff\r\n", false),
            (b"$\r\n\r\n", false),
            (b"$1\r\nabc", false),
            (b"*1-\r\n", false),
        ] {
            assert_eq!(everyday(reply), None, "{:?}", reply.escape_ascii());
            assert_eq!(value(reply).is_ok(), is_one, "{:?}", reply.escape_ascii());
        }
    }
}
