//! Values made of a fuzzer's bytes.

use crate::protocol::Reply;

/// Bytes to be turned into values, from the front; zeros when there are none left.
pub(crate) struct Feed<'a>(pub(crate) &'a [u8]);

impl<'a> Feed<'a> {
    pub(crate) fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    pub(crate) fn is_over(&self) -> bool {
        self.0.is_empty()
    }

    /// Small numbers, the ends of the range, and anything.
    pub(crate) fn int(&mut self) -> i64 {
        match self.byte() {
            0xFF => i64::MAX,
            0xFE => i64::MIN,
            0xFD => i64::from_be_bytes(std::array::from_fn(|_| self.byte())),
            0xFC => i64::from(self.byte()) * 1_000_000,
            small => i64::from(small) - 8,
        }
    }

    pub(crate) fn bytes(&mut self) -> &'a [u8] {
        let length = usize::from(self.byte()).min(self.0.len());
        let (bytes, rest) = self.0.split_at(length);
        self.0 = rest;
        bytes
    }

    pub(crate) fn text(&mut self) -> String {
        String::from_utf8_lossy(self.bytes()).into_owned()
    }

    pub(crate) fn reply(&mut self, depth: u8) -> Reply {
        match self.byte() % 6 {
            0 => Reply::Nil,
            1 => Reply::Int(self.int()),
            2 => Reply::Text(self.text()),
            3 => Reply::Error { code: self.text(), message: self.text() },
            _ if depth == 0 => Reply::List(Vec::new()),
            _ => {
                let count = self.byte() % 9;
                Reply::List((0..count).map(|_| self.reply(depth - 1)).collect())
            }
        }
    }
}
