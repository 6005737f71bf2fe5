//! What a connection reads, from threads and from tasks: bytes become replies once all of one is there.

use std::io;
use std::ops::Range;

use redis::Value;

use crate::parse;
use crate::wire::Watch;

/// What has come and was not taken yet: mostly nothing, or a part of the next reply.
#[derive(Debug, Default)]
pub struct Input {
    /// Memory to read into, of which the range `here` is what has come.
    bytes: Vec<u8>,
    here: Range<usize>,
    /// How much of that was looked at: no reply ends in it.
    looked: usize,
    pub watch: Watch,
}

/// How much is read at a time. A longer reply has more while it arrives.
const ROOM: usize = 8 << 10;

impl Input {
    /// The next reply, if all of it is here. Every byte is looked at before anything is made of it.
    ///
    /// # Errors
    /// What came is none.
    pub fn value(&mut self) -> io::Result<Option<Value>> {
        let come = &self.bytes[self.here.clone()];
        let Some(end) = self.watch.end(&come[self.looked..])? else {
            self.looked = come.len();
            return Ok(None);
        };
        let end = self.looked + end;
        let value = parse::value(&come[..end]);
        self.looked = 0;
        self.here.start += end;
        if self.here.is_empty() {
            self.here = 0..0;
            self.bytes.truncate(ROOM);
            self.bytes.shrink_to(ROOM);
        }
        value.map(Some)
    }

    /// Where to read more of it into.
    pub fn room(&mut self) -> &mut [u8] {
        if self.here.end == self.bytes.len() {
            self.bytes.drain(..self.here.start);
            self.here = 0..self.here.len();
            self.bytes.resize(ROOM.max(2 * self.here.end), 0);
        }
        &mut self.bytes[self.here.end..]
    }

    /// These bytes came, where they are brought and not read.
    pub fn brought(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let room = self.room();
            let count = room.len().min(bytes.len());
            room[..count].copy_from_slice(&bytes[..count]);
            self.here.end += count;
            bytes = &bytes[count..];
        }
    }

    /// So many bytes were read into the [room](Self::room); none when the other side has ended.
    ///
    /// # Errors
    /// It has.
    pub fn came(&mut self, count: usize) -> io::Result<()> {
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.here.end += count;
        Ok(())
    }

    /// Whether everything that came was taken.
    pub fn is_empty(&self) -> bool {
        self.here.is_empty()
    }
}
