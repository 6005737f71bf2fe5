//! The slots of a cluster: which one a key is in, and where a node says that it is.
//!
//! Source: the [specification](https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/).

use redis::Value;

use crate::place::Endpoint;

/// How many slots there are.
pub const SLOTS: usize = 16384;

/// The slot of `key`: that of what is in its first braces, if anything is, else of all of it.
pub fn of(key: &str) -> u16 {
    let tag = key.split_once('{').and_then(|(_, rest)| rest.split_once('}')).map(|(tag, _)| tag);
    crc16(tag.filter(|tag| !tag.is_empty()).unwrap_or(key).as_bytes()) % SLOTS as u16
}

/// CRC-16/XMODEM.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| {
        (0..8).fold(
            crc ^ (u16::from(*byte) << 8),
            |crc, _| if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 },
        )
    })
}

/// What an answer of `asked` to `CLUSTER SLOTS` says: from where to where whose slots are.
pub fn read(answer: &Value, asked: &Endpoint) -> Option<Vec<(u16, u16, Endpoint)>> {
    let Value::Array(ranges) = answer else { return None };
    ranges.iter().map(|range| range_of(range, asked)).collect()
}

fn range_of(range: &Value, asked: &Endpoint) -> Option<(u16, u16, Endpoint)> {
    let Value::Array(parts) = range else { return None };
    let [Value::Int(first), Value::Int(last), Value::Array(master), ..] = parts.as_slice() else { return None };
    let [host, Value::Int(port), ..] = master.as_slice() else { return None };
    let host = match host {
        Value::BulkString(host) => std::str::from_utf8(host).ok()?,
        Value::Nil => "",
        _ => return None,
    };
    let slot = |number: &i64| u16::try_from(*number).ok().filter(|slot| usize::from(*slot) < SLOTS);
    Some((slot(first)?, slot(last)?, endpoint(host, u16::try_from(*port).ok()?, asked)))
}

/// A node that does not know its own name is where it was asked.
fn endpoint(host: &str, port: u16, asked: &Endpoint) -> Endpoint {
    match (host, asked) {
        ("" | "?", Endpoint::Tcp { host, .. }) => Endpoint::Tcp { host: host.clone(), port },
        _ => Endpoint::Tcp { host: host.to_owned(), port },
    }
}

/// The slot and the node in a redirection by `asked`: `3999 127.0.0.1:6381`.
pub fn redirection(message: &str, asked: &Endpoint) -> Option<(u16, Endpoint)> {
    let (slot, at) = message.split_once(' ')?;
    let (host, port) = at.trim().rsplit_once(':')?;
    let slot = slot.parse().ok().filter(|slot| usize::from(*slot) < SLOTS)?;
    Some((slot, endpoint(host.trim_matches(['[', ']']), port.parse().ok()?, asked)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(host: &str, port: u16) -> Endpoint {
        Endpoint::Tcp { host: host.into(), port }
    }

    #[test]
    fn keys_are_in_the_slots_that_servers_put_them_in() {
        for (key, slot) in [("123456789", 0x31c3), ("foo", 12182), ("lw:{foo}", 12182), ("{}foo", of("{}foo")), ("", 0)]
        {
            assert_eq!(of(key), slot, "{key}");
        }
        assert_eq!(of("{user1000}.following"), of("{user1000}.followers"));
        assert_ne!(of("{}a"), of("{}b"));
        assert_eq!(of("foo{{bar}}zap"), of("{bar"));
    }

    #[test]
    fn a_redirection_names_a_slot_and_a_node() {
        let asked = at("10.0.0.1", 1);
        for (message, expected) in [
            ("3999 127.0.0.1:6381", Some((3999, at("127.0.0.1", 6381)))),
            ("3999 :6381", Some((3999, at("10.0.0.1", 6381)))),
            ("3999 ::1:6381", Some((3999, at("::1", 6381)))),
            ("16384 h:1", None),
            ("x h:1", None),
            ("1 h", None),
            ("1 h:port", None),
        ] {
            assert_eq!(redirection(message, &asked), expected, "{message}");
        }
    }
}
