//! Numbers in hexadecimal digits. They are in every request: formatting them would cost more than the rest of a machine.

use std::ops::Deref;

/// Each byte as its two digits.
pub(crate) const PAIRS: [[u8; 2]; 256] = {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let (mut all, mut byte) = ([[0; 2]; 256], 0);
    while byte < 256 {
        all[byte] = [DIGITS[byte >> 4], DIGITS[byte & 15]];
        byte += 1;
    }
    all
};

/// A number of 128 bits, as its 32 digits.
pub(crate) struct Hex([u8; 32]);

impl Hex {
    pub(crate) fn of(bits: u128) -> Self {
        let mut digits = [b'0'; 32];
        for (pair, byte) in digits.chunks_exact_mut(2).zip(bits.to_be_bytes()) {
            pair.copy_from_slice(&PAIRS[usize::from(byte)]);
        }
        Hex(digits)
    }
}

impl Deref for Hex {
    type Target = str;

    fn deref(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_as_they_are_formatted() {
        for bits in [0, 1, u128::MAX, 0x0123_4567_89ab_cdef_0f1e_2d3c_4b5a_6978] {
            assert_eq!(*Hex::of(bits), format!("{bits:032x}"));
        }
    }
}
