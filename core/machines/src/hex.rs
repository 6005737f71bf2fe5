//! Numbers in hexadecimal digits, which are in every request: `format!` would cost more than the rest of a machine.

use std::ops::Deref;

/// The digits of a number. Each is a byte of one word, and what is done is done with all of them.
fn digits(number: u32) -> [u8; 8] {
    let mut digits = u64::from(number);
    digits = (digits << 16 | digits) & 0x0000_ffff_0000_ffff;
    digits = (digits << 8 | digits) & 0x00ff_00ff_00ff_00ff;
    digits = (digits << 4 | digits) & 0x0f0f_0f0f_0f0f_0f0f;
    let each = |byte: u8| u64::from_ne_bytes([byte; 8]);
    let are_letters = (digits + each(6)) >> 4 & each(1);
    (digits + each(b'0') + are_letters * u64::from(b'a' - 10 - b'0')).to_be_bytes()
}

/// Puts the digits of `bytes`, four at a time, at the beginning of `text`, which has room for them.
pub(crate) fn write(bytes: &[u8], text: &mut [u8]) {
    for (place, four) in text.as_chunks_mut().0.iter_mut().zip(bytes.as_chunks().0) {
        *place = digits(u32::from_be_bytes(*four));
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
        write(&bits.to_be_bytes(), &mut digits);
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
