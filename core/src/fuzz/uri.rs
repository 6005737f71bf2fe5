//! Addresses.

use super::{Feed, SECRET, is_readable};
use crate::options::{ConnectOptions, MAX_TIMEOUT};
use crate::stores;
use crate::uri::{Uri, span};

/// Where a password may stand in what people write, well or not so well.
const FRAMES: [(&str, &str); 12] = [
    ("", ""),
    ("redis://user:", "@host:6379/0"),
    ("redis://:", "@host"),
    ("redis:user:", "@host"),
    ("redis:///user:", "@host"),
    ("redis+unix://user:", "@localhost/path"),
    ("redis+unix:user:", "@localhost/path"),
    ("memory://user:", "@name"),
    ("memory:user:", "@name"),
    ("sqlite://user:", "@host/path"),
    ("nonesuch://user:", "@host/path?ttl=1s"),
    ("etcd:user:", "@host"),
];

/// How often the password is in `text` once parsing dropped what is no letter: one that is there again proves nothing.
fn times_written(text: &str) -> usize {
    let letters: String = text.chars().filter(char::is_ascii_alphanumeric).collect();
    (0..letters.len()).filter(|at| letters[*at..].starts_with(SECRET)).count()
}

/// An address is accepted or refused, and neither shows its password, wherever that was written.
pub fn uri(data: &[u8]) {
    let mut feed = Feed(data);
    let (before, after) = FRAMES[usize::from(feed.byte()) % FRAMES.len()];
    let (start, middle) = (feed.text(), feed.text());
    let rest = String::from_utf8_lossy(feed.0);
    // Who writes it where no password belongs is told so by its place.
    let (text, meant) = match before {
        "" => (rest.into_owned(), 0),
        _ => (format!("{before}{start}{SECRET}{middle}{after}{rest}"), 1),
    };
    if times_written(&text) > meant {
        return;
    }
    if let Ok(span) = span("it", &text) {
        assert!(span <= MAX_TIMEOUT, "{span:?}");
    }
    if let Ok(uri) = Uri::parse(&text, ConnectOptions::default()) {
        let again = Uri::parse(uri.url().as_str(), ConnectOptions::default()).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!((&again.lock, &again.rest, again.url()), (&uri.lock, &uri.rest, uri.url()));
    }
    match Uri::parse(&text, ConnectOptions::default()).and_then(|mut uri| stores::open(&mut uri)) {
        Ok(store) => {
            let shown = format!("{} {store:?}", store.address());
            assert!(!shown.contains(SECRET), "{shown}");
        }
        Err(error) => is_readable(&error),
    }
}
