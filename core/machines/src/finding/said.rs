//! What a server says of itself, line after line: a name, a colon, a value.

/// Such a text.
#[derive(Clone, Copy, Debug)]
pub struct Said<'a>(pub &'a str);

impl<'a> Said<'a> {
    /// The value of that name.
    pub fn of(self, what: &str) -> Option<&'a str> {
        let line = |line: &'a str| line.strip_prefix(what)?.strip_prefix(':');
        self.0.lines().find_map(line).map(str::trim)
    }

    /// The same as a number; 0 where it is none.
    pub fn number(self, what: &str) -> u64 {
        self.of(what).and_then(|text| text.parse().ok()).unwrap_or_default()
    }
}

/// Major, minor and patch of a version such as `15.18 (Debian)` or `3.8.0-1`; 0 for what it does not say.
pub(crate) fn numbers(version: &str) -> (u32, u32, u32) {
    let mut parts = version.split(['.', '-', '+', ' ']).map(|part| part.parse().unwrap_or(0));
    let mut next = || parts.next().unwrap_or(0);
    (next(), next(), next())
}
