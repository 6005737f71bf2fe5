//! What a server may send, whatever it is.

use super::greeting;
use super::wire::{self, Head, Node, Opcode, Reader};
use crate::fuzz::is_readable;
use crate::protocol::Reply;

const OPCODES: [Opcode; 11] = [
    Opcode::Create(Node::Numbered),
    Opcode::Container,
    Opcode::Children { watches: false },
    Opcode::Exists,
    Opcode::Data { watches: true },
    Opcode::Data { watches: false },
    Opcode::Set,
    Opcode::Delete,
    Opcode::Sync,
    Opcode::Directory,
    Opcode::Clock,
];

/// Where the frames in `bytes` end when they arrive in pieces of `step`; none where they are none.
fn ends(bytes: &[u8], step: usize) -> Option<Vec<usize>> {
    let (mut come, mut taken, mut ends) = (Vec::new(), 0, Vec::new());
    for piece in bytes.chunks(step) {
        come.extend_from_slice(piece);
        loop {
            match wire::first_frame(&come) {
                Ok(Some(range)) => {
                    taken += range.end;
                    ends.push(taken);
                    come.drain(..range.end);
                }
                Ok(None) => break,
                Err(error) => {
                    is_readable(&error);
                    return None;
                }
            }
        }
    }
    Some(ends)
}

/// Frames end at the same places however they arrive.
pub fn zookeeper_frames(data: &[u8]) {
    let Some((step, bytes)) = data.split_first() else { return };
    assert_eq!(ends(bytes, bytes.len().max(1)), ends(bytes, usize::from(*step % 16) + 1));
}

/// What answers a request, or the greeting, or tells of a node, is understood or refused.
pub fn zookeeper_answer(data: &[u8]) {
    if let Err(error) = greeting::answer(&mut Reader(data)) {
        is_readable(&error);
    }
    if let Err(error) = wire::news(&mut Reader(data)) {
        is_readable(&error);
    }
    let mut from = Reader(data);
    let Ok(head) = Head::read(&mut from) else { return };
    for opcode in OPCODES {
        match wire::reply(opcode, 7, head.error, &mut Reader(from.0)) {
            Ok(Reply::List(parts)) => assert_eq!(parts[0], Reply::Int(7)),
            Ok(_) => {}
            Err(error) => is_readable(&error),
        }
    }
}
