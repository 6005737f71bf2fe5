//! What a server may send, whatever it is.

use super::wire::{self, Who};
use crate::fuzz::is_readable;

/// What a server says first, to a login and to a statement is understood or refused.
pub fn mysql_answer(data: &[u8]) {
    for is_secure in [false, true] {
        let who = Who { user: "user", password: "hunter2", database: "locks", is_secure };
        match wire::greeting(data) {
            Ok(Ok(greeting)) => {
                let sent = who.logs_in(&greeting).expect("there is always one way");
                assert!(is_secure || !sent.windows(7).any(|part| part == b"hunter2"));
            }
            Ok(Err(said)) => assert!(said.message.len() < 2000 && !said.message.contains('\n')),
            Err(error) => is_readable(&error),
        }
        match who.goes_on(data) {
            Ok(wire::Login::Sends(sent)) => assert!(is_secure || !sent.windows(7).any(|part| part == b"hunter2")),
            Ok(_) => {}
            Err(error) => is_readable(&error),
        }
    }
    if let Err(error) = wire::first(data) {
        is_readable(&error);
    }
    if let Err(error) = wire::prepared(data) {
        is_readable(&error);
    }
    match wire::next(data, 5) {
        Ok(wire::Next::Row(values)) => assert_eq!(values.len(), 5),
        Ok(_) => {}
        Err(error) => is_readable(&error),
    }
}
