//! How states are told apart: relative to the present, and whoever they happen to.

use std::hash::Hasher;

use lockwright_machines::protocol::AttemptId;
use lockwright_machines::relative::Relative;
use lockwright_machines::time::{StoreTime, Time};

/// What is more ticks ahead than this is not met any more.
const NEVER: u64 = 8;

/// One client's view of the world. No client is named in it, so that clients which want the same are interchangeable.
#[derive(Clone, Copy)]
pub struct View {
    /// Nanoseconds.
    pub now: u64,
    pub tick: u64,
    /// Ages above this many ticks behave alike: what is as old as the longest lease is over.
    pub horizon: u64,
    /// The highest token that the store set aside, and how many go with one grant.
    pub last: u64,
    pub block: u64,
    /// The attempt that this client minted last.
    pub newest: u32,
}

impl View {
    pub fn ahead_at_store(&self, at: StoreTime) -> u64 {
        self.ahead(Time::from_nanos(at.0 as u64 * 1000))
    }

    pub fn ago_at_store(&self, at: StoreTime) -> u64 {
        self.ago(Time::from_nanos(at.0 as u64 * 1000))
    }

    /// A span that a reply tells, in ticks.
    pub fn span(&self, micros: i64) -> u64 {
        (micros as u64 * 1000).div_ceil(self.tick).min(self.horizon)
    }
}

impl Relative for View {
    fn ahead(&self, at: Time) -> u64 {
        at.as_nanos().saturating_sub(self.now).div_ceil(self.tick).min(NEVER)
    }

    fn ago(&self, at: Time) -> u64 {
        (self.now.saturating_sub(at.as_nanos()) / self.tick).min(self.horizon)
    }

    fn lag(&self, sent: Time, at: StoreTime) -> u64 {
        ((at.0 as u64 * 1000).saturating_sub(sent.as_nanos()) / self.tick).min(self.horizon)
    }

    fn attempt(&self, attempt: AttemptId) -> u64 {
        u64::from(self.newest.wrapping_sub(attempt.0 as u32))
    }

    fn token(&self, token: u64) -> u64 {
        (self.last + self.block).saturating_sub(token).min(2 * self.block + 1)
    }
}

/// A quick hash of good quality: the whole space is recognised by it.
pub struct Mix(u64);

impl Mix {
    pub fn new() -> Self {
        Mix(0x243F_6A88_85A3_08D3)
    }
}

impl Hasher for Mix {
    fn finish(&self) -> u64 {
        let x = u128::from(self.0 ^ 0x9E37_79B9_7F4A_7C15) * 0xD6E8_FEB8_6659_FD93;
        x as u64 ^ (x >> 64) as u64
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u8(&mut self, value: u8) {
        self.write_u64(value.into());
    }

    fn write_u32(&mut self, value: u32) {
        self.write_u64(value.into());
    }

    fn write_u64(&mut self, value: u64) {
        let x = u128::from(self.0 ^ value) * 0xA076_1D64_78BD_642F;
        self.0 = (x as u64 ^ (x >> 64) as u64).wrapping_add(0x1357_9BDF_0246_8ACE);
    }

    fn write_u128(&mut self, value: u128) {
        self.write_u64(value as u64);
        self.write_u64((value >> 64) as u64);
    }

    fn write_usize(&mut self, value: usize) {
        self.write_u64(value as u64);
    }
}
