//! Base64 of RFC 4648, with padding.

/// The digits.
pub(crate) const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// `bytes` as text.
pub fn encode(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let at = |i: usize| u32::from(chunk.get(i).copied().unwrap_or(0));
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        for i in 0..4 {
            let digit = usize::try_from(bits >> (18 - 6 * i) & 63).unwrap_or(0);
            out.push(if i <= chunk.len() { char::from(DIGITS[digit]) } else { '=' });
        }
    }
    out
}

/// The bytes that `text` is of; none where it is no base64.
pub fn decode(text: &str) -> Option<Vec<u8>> {
    let digits = text.trim_end_matches('=');
    if !text.len().is_multiple_of(4) || text.len() - digits.len() > 2 {
        return None;
    }
    let mut out = Vec::with_capacity(digits.len() * 3 / 4);
    for chunk in digits.as_bytes().chunks(4) {
        let mut bits = 0;
        for digit in chunk {
            bits = bits << 6 | u32::try_from(DIGITS.iter().position(|known| known == digit)?).ok()?;
        }
        let bytes = (bits << (6 * (4 - chunk.len()))).to_be_bytes();
        out.extend_from_slice(&bytes[1..chunk.len()]);
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_that_of_rfc_4648() {
        for (bytes, text) in [
            (&b""[..], ""),
            (b"f", "Zg=="),
            (b"fo", "Zm8="),
            (b"foo", "Zm9v"),
            (b"foob", "Zm9vYg=="),
            (b"fooba", "Zm9vYmE="),
            (b"foobar", "Zm9vYmFy"),
            (&[0xfb, 0xef, 0xff], "++//"),
            (&[0; 16], "AAAAAAAAAAAAAAAAAAAAAA=="),
            (&[255; 16], "/////////////////////w=="),
            (b"any carnal pleasure", "YW55IGNhcm5hbCBwbGVhc3VyZQ=="),
        ] {
            assert_eq!((encode(bytes), decode(text)), (text.to_owned(), Some(bytes.to_vec())));
        }
        for text in ["Z", "Zg", "Zg=", "Z===", "====", "Zm9v!A==", "Zm9v\n"] {
            assert_eq!(decode(text), None, "{text:?}");
        }
    }
}
