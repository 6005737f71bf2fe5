//! Where a lock lies: the path of its directory, and the name that a path is of.

use std::sync::Arc;

/// The directory of the lock `name` below `root` (an absolute path; `/` is fine).
///
/// The name is one path element, byte for byte, so that other libraries' users find it; only what ZooKeeper or the
/// recipe cannot take becomes `%` and two hex digits for each byte: `/` (a lock below a lock would count as its
/// contender), `%`, private-use characters, those beyond U+FFEF, and the first letter of `.`, `..` and `zookeeper`.
/// Different names stay different.
pub fn directory(root: &str, name: &str) -> Arc<str> {
    let mut path = String::with_capacity(root.len() + name.len() + 1);
    path.push_str(root.trim_end_matches('/'));
    path.push('/');
    let reserved = matches!(name, "." | ".." | "zookeeper");
    for (at, c) in name.char_indices() {
        let refused =
            matches!(c, '/' | '%' | '\0'..='\x1f' | '\x7f'..='\u{9f}' | '\u{e000}'..='\u{f8ff}' | '\u{fff0}'..);
        if refused || (reserved && at == 0) {
            c.encode_utf8(&mut [0; 4]).bytes().for_each(|byte| path.push_str(&format!("%{byte:02X}")));
        } else {
            path.push(c);
        }
    }
    path.into()
}

/// The name of the lock whose directory is called `element`; none where [`directory`] writes none so.
pub fn name_of(element: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(element.len());
    let mut rest = element.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let digits = [rest.next()?, rest.next()?];
                u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
            }
            other => other,
        });
    }
    let name = String::from_utf8(bytes).ok()?;
    (directory("", &name).strip_prefix('/') == Some(element)).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::{directory, name_of};

    #[test]
    fn ordinary_names_are_kept_byte_for_byte() {
        assert_eq!(&*directory("/", "orders:42"), "/orders:42");
        assert_eq!(&*directory("/locks/", "订单 {a}..b"), "/locks/订单 {a}..b");
    }

    #[test]
    fn refused_names_stay_different() {
        let names =
            ["a/b", "a%2Fb", "a", ".", "..", "%2E", "%2E.", "zookeeper", "%7Aookeeper", "\u{1f512}", "%F0%9F%94%92"];
        let mut paths: Vec<_> = names.iter().map(|name| directory("/locks", name)).collect();
        assert!(paths.iter().all(|path| path.matches('/').count() == 2 && !path.ends_with("/.") && path.is_ascii()));
        assert_eq!(&*paths[0], "/locks/a%2Fb");
        assert_eq!(&*paths[9], "/locks/%F0%9F%94%92");
        let back = paths.iter().map(|path| name_of(path.strip_prefix("/locks/").unwrap()).unwrap());
        assert!(back.eq(names.iter().map(|name| (*name).to_owned())));
        assert_eq!(["%2g", "%", "%2", "%41", "zookeeper", "%FF"].map(name_of), [const { None::<String> }; 6]);
        paths.sort();
        paths.dedup();
        assert_eq!(paths.len(), names.len());
    }
}
