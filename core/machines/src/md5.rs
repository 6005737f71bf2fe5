//! MD5 (RFC 1321), for those whose logins or keys are made of it. It protects nothing any more.

const SHIFTS: [[u32; 4]; 4] = [[7, 12, 17, 22], [5, 9, 14, 20], [4, 11, 16, 23], [6, 10, 15, 21]];

/// The table of sines.
fn sine(at: usize) -> u32 {
    // |sin| is below 1, so that it fits.
    (f64::from(u32::try_from(at + 1).unwrap_or_default()).sin().abs() * 4_294_967_296.0) as u32
}

/// The digest of `bytes`.
pub fn digest(bytes: &[u8]) -> [u8; 16] {
    let mut padded = bytes.to_vec();
    padded.push(0x80);
    while padded.len() % 64 != 56 {
        padded.push(0);
    }
    padded.extend((bytes.len() as u64).wrapping_mul(8).to_le_bytes());
    let mut state = [0x6745_2301_u32, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476];
    for block in padded.chunks_exact(64) {
        let word = |at: usize| block[4 * at..].first_chunk().map_or(0, |word| u32::from_le_bytes(*word));
        let [mut a, mut b, mut c, mut d] = state;
        for at in 0..64 {
            let (mixed, from) = match at / 16 {
                0 => ((b & c) | (!b & d), at),
                1 => ((d & b) | (!d & c), (5 * at + 1) % 16),
                2 => (b ^ c ^ d, (3 * at + 5) % 16),
                _ => (c ^ (b | !d), (7 * at) % 16),
            };
            let sum = a.wrapping_add(mixed).wrapping_add(sine(at)).wrapping_add(word(from));
            (a, d, c, b) = (d, c, b, b.wrapping_add(sum.rotate_left(SHIFTS[at / 16][at % 4])));
        }
        for (of, more) in state.iter_mut().zip([a, b, c, d]) {
            *of = of.wrapping_add(more);
        }
    }
    let mut digest = [0; 16];
    digest.chunks_exact_mut(4).zip(state).for_each(|(part, word)| part.copy_from_slice(&word.to_le_bytes()));
    digest
}

/// The same as text.
pub fn hex(bytes: &[u8]) -> String {
    digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::hex;

    #[test]
    fn the_digests_are_those_of_the_standard() {
        for (text, digest) in [
            ("", "d41d8cd98f00b204e9800998ecf8427e"),
            ("a", "0cc175b9c0f1b6a831c399e269772661"),
            ("message digest", "f96b697d7cb7938d525a2f31aaf161d0"),
            (
                "12345678901234567890123456789012345678901234567890123456789012345678901234567890",
                "57edf4a22be3c955ac49da2e2107b67a",
            ),
            ("1234567890123456789012345678901234567890123456789012345", "c9ccf168914a1bcfc3229f1948e67da0"),
            ("12345678901234567890123456789012345678901234567890123456", "49f193adce178490e34d1b3a4ec0064c"),
            ("1234567890123456789012345678901234567890123456789012345678901234", "eb6c4179c0a7c82cc2828c1e6338e165"),
        ] {
            assert_eq!(hex(text.as_bytes()), digest, "{text}");
        }
    }
}
