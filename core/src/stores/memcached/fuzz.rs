//! What a server may send, whatever it is.

use lockwright_machines::stores::memcached::layouts::{ACQUIRE, DELETE, LOOK, RENEW, STATS};

use super::wire::{self, Dialect, Expected, Sending, Written};
use crate::fuzz::is_readable;
use crate::protocol::{Arg, Reply, Request};

/// How the answers to every request are read.
fn expected() -> Vec<Expected> {
    let key = || "x".into();
    let requests = [
        Request::new(&ACQUIRE, key(), [Arg::from("value"), Arg::Int(30), Arg::NotAfter]),
        Request::new(&RENEW, key(), [Arg::Int(7), Arg::Int(1), Arg::from("value"), Arg::Int(30), Arg::NotAfter]),
        Request::new(&LOOK, key(), []),
        Request::new(&DELETE, key(), [Arg::Int(7), Arg::Int(1)]),
        Request::new(&STATS, key(), []),
    ];
    let of = |dialect| {
        let sending = Sending { dialect, connection: 1, end: 1 };
        let written = |request| wire::write(&mut Vec::new(), request, sending).expect("a request of ours");
        let expected = requests.iter().filter_map(move |request| match written(request) {
            Written::Asked(expected) => Some(expected),
            Written::Answered(_) => None,
        });
        expected.collect::<Vec<_>>()
    };
    [of(Dialect::Meta), of(Dialect::Text)].concat()
}

/// An answer is read once it is whole and not before, whatever comes behind it, or refused.
pub fn memcached_answer(data: &[u8]) {
    for logged_in in ["", "user"] {
        if let Err(error) = wire::greeting(&mut Vec::new(), logged_in, logged_in).read(data) {
            is_readable(&error);
        }
    }
    for expected in expected() {
        match wire::read(expected, data) {
            Ok(Some((length, reply))) => {
                assert!(length > 0 && length <= data.len());
                assert!(matches!(wire::read(expected, &data[..length - 1]), Ok(None)));
                assert!(matches!(reply, Reply::Int(_) | Reply::List(_) | Reply::Error { .. }));
                let more = [&data[..length], b"EN\r\n"].concat();
                assert_eq!(wire::read(expected, &more).ok().flatten(), Some((length, reply)));
            }
            Ok(None) => {}
            Err(error) => is_readable(&error),
        }
    }
}
