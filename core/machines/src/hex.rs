//! Numbers in hexadecimal digits, which are in every request: `format!` would cost more than the rest of a machine.

use std::ops::Deref;

/// The eight digits of a number of 32 bits. Each is a byte of one word, and what is done is done with all of them.
fn of_u32(number: u32) -> [u8; 8] {
    let mut digits = u64::from(number);
    digits = (digits << 16 | digits) & 0x0000_ffff_0000_ffff;
    digits = (digits << 8 | digits) & 0x00ff_00ff_00ff_00ff;
    digits = (digits << 4 | digits) & 0x0f0f_0f0f_0f0f_0f0f;
    let each = |byte: u8| u64::from_ne_bytes([byte; 8]);
    let are_letters = (digits + each(6)) >> 4 & each(1);
    (digits + each(b'0') + are_letters * u64::from(b'a' - 10 - b'0')).to_be_bytes()
}

/// The 16 digits of a number of 64 bits.
pub(crate) fn of_u64(number: u64) -> [u8; 16] {
    let (mut digits, parts) = ([0; 16], [(number >> 32) as u32, number as u32]);
    for (place, part) in digits.chunks_exact_mut(8).zip(parts) {
        place.copy_from_slice(&of_u32(part));
    }
    digits
}

/// The 32 digits of a number of 128 bits.
pub(crate) fn of_u128(number: u128) -> [u8; 32] {
    let (mut digits, words) = ([0; 32], [(number >> 64) as u64, number as u64]);
    for (place, part) in digits.chunks_exact_mut(16).zip(words) {
        place.copy_from_slice(&of_u64(part));
    }
    digits
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
        Hex(of_u128(bits))
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
