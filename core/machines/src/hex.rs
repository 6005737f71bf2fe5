//! Numbers in hexadecimal digits, which are in every request: `format!` would cost more than the rest of a machine.

use std::ops::Deref;

/// Each byte as its two digits.
const PAIRS: [[u8; 2]; 256] = {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let (mut all, mut byte) = ([[0; 2]; 256], 0);
    while byte < 256 {
        all[byte] = [DIGITS[byte >> 4], DIGITS[byte & 15]];
        byte += 1;
    }
    all
};

/// Puts the digits of `bytes` at the beginning of `text`, which has room for them.
pub(crate) fn write(bytes: impl IntoIterator<Item = u8>, text: &mut [u8]) {
    for (pair, byte) in text.chunks_exact_mut(2).zip(bytes) {
        pair.copy_from_slice(&PAIRS[usize::from(byte)]);
    }
}

/// The number that these digits are, which are none that is written in another way.
pub(crate) fn read(digits: &[u8]) -> Option<u128> {
    let digit = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    };
    let fits = (1..=32).contains(&digits.len());
    // By parts of a word, which is cheaper than all of it digit by digit.
    let word = |part: &[u8]| part.iter().try_fold(0_u64, |word, next| Some(word << 4 | u64::from(digit(*next)?)));
    let parts = digits.chunks(16).map(|part| Some((word(part)?, part.len())));
    let join =
        |bits: u128, part: Option<(u64, usize)>| part.map(|(word, length)| bits << (4 * length) | u128::from(word));
    parts.into_iter().try_fold(0, join).filter(|_| fits)
}

/// A number of 128 bits, as its 32 digits.
pub(crate) struct Hex([u8; 32]);

impl Hex {
    pub(crate) fn of(bits: u128) -> Self {
        let mut digits = [b'0'; 32];
        write(bits.to_be_bytes(), &mut digits);
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
            let digits = format!("{bits:032x}");
            assert_eq!((&*Hex::of(bits), read(digits.as_bytes())), (&*digits, Some(bits)));
        }
        assert_eq!(
            ["a", "0102030405060708090a"].map(|text| read(text.as_bytes())),
            [Some(10), Some(0x0102_0304_0506_0708_090a)]
        );
        for wrong in ["", "A", "+1", "g", "-1", &"0".repeat(33)] {
            assert_eq!(read(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
