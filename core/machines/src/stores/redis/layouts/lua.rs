//! The pieces of which scripts are made, as they are sent: without the comments and the indentation of their files,
//! which are a fifth of them. Every program carries all of them, and a server keeps those that it was sent.

/// A piece of a script; its name is that of its file in `scripts`.
macro_rules! part {
    ($name:expr) => {{
        const WRITTEN: &[u8] = include_bytes!(concat!("scripts/", $name, ".lua"));
        const LENGTH: usize = $crate::stores::redis::layouts::lua::bare::<0>(WRITTEN).1;
        const BARE: [u8; LENGTH] = $crate::stores::redis::layouts::lua::bare(WRITTEN).0;
        const TEXT: &str = match std::str::from_utf8(&BARE) {
            Ok(text) => text,
            Err(_) => panic!("a script is UTF-8"),
        };
        TEXT
    }};
}

/// The pieces of a script.
macro_rules! script {
    ($($name:literal)+) => { &[$(part!($name)),+] };
}

/// The first bytes of a text without empty lines, lines that are comments and what lines begin with, and how many bytes
/// that has.
pub(super) const fn bare<const ROOM: usize>(text: &[u8]) -> ([u8; ROOM], usize) {
    let (mut kept, mut length, mut at) = ([0; ROOM], 0, 0);
    while at < text.len() {
        while at < text.len() && text[at] == b' ' {
            at += 1;
        }
        let is_comment = at + 1 < text.len() && text[at] == b'-' && text[at + 1] == b'-';
        let is_dropped = is_comment || (at < text.len() && text[at] == b'\n');
        while at < text.len() {
            if !is_dropped {
                if length < ROOM {
                    kept[length] = text[at];
                }
                length += 1;
            }
            at += 1;
            if text[at - 1] == b'\n' {
                break;
            }
        }
    }
    (kept, length)
}

#[cfg(test)]
mod tests {
    use super::bare;

    #[test]
    fn what_only_readers_need_is_left_out() {
        for (written, sent) in [
            ("", ""),
            ("  ", ""),
            ("return 1", "return 1"),
            (
                "-- Why.\nlocal a = 1\n\n  -- More.\n  if a - -1 > 2 then\n    a = '--  x' -- y\n  end\n",
                "local a = 1\nif a - -1 > 2 then\na = '--  x' -- y\nend\n",
            ),
            ("-", "-"),
            ("--", ""),
        ] {
            let (kept, length) = bare::<128>(written.as_bytes());
            assert_eq!(std::str::from_utf8(&kept[..length]), Ok(sent));
            assert_eq!(bare::<0>(written.as_bytes()).1, sent.len());
        }
    }
}
