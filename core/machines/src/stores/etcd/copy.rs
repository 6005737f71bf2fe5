//! A copy of a long line, kept up to date by what its watch tells: the server reads the whole line whenever somebody
//! looks at it, so a client with many in it reads it once for all of them.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::layouts::part::Part;

/// A key that stands there or does not any more, as of a revision.
#[derive(Debug)]
pub struct News {
    /// The key.
    pub key: Arc<str>,
    /// As of when.
    pub revision: i64,
    /// When it was created, and its lease; none if it is deleted.
    pub stands: Option<(i64, i64)>,
}

/// See the [module](self).
#[derive(Debug)]
pub struct Copy {
    lock: Arc<str>,
    /// As of when.
    revision: i64,
    /// Whose keys stand there, by when they were created, with their lease.
    line: BTreeMap<(i64, Arc<str>), i64>,
    created: HashMap<Arc<str>, i64>,
}

impl Copy {
    /// All that was `read` below `lock` at that revision.
    pub fn of(lock: Arc<str>, revision: i64, read: impl Iterator<Item = News>) -> Self {
        let mut copy = Copy { lock, revision, line: BTreeMap::new(), created: HashMap::new() };
        read.for_each(|news| copy.note(news));
        copy
    }

    /// As of when it is.
    pub fn revision(&self) -> i64 {
        self.revision
    }

    /// This happened, in this order; what the copy has already may be told once more.
    pub fn follow(&mut self, events: impl Iterator<Item = News>) {
        let had = self.revision;
        for news in events.filter(|news| news.revision > had) {
            self.revision = self.revision.max(news.revision);
            self.note(news);
        }
    }

    fn note(&mut self, News { key, stands, .. }: News) {
        if let Some(create) = self.created.remove(&key) {
            self.line.remove(&(create, key.clone()));
        }
        // Those of locks below this one come and go without it.
        if let Some((create, lease)) = stands.filter(|_| Part::of_key(&self.lock, &key).is_some()) {
            self.created.insert(key.clone(), create);
            self.line.insert((create, key), lease);
        }
    }

    /// When that key was created, and its lease.
    pub fn own(&self, key: &Arc<str>) -> Option<(i64, i64)> {
        let create = *self.created.get(key)?;
        self.line.get(&(create, key.clone())).map(|lease| (create, *lease))
    }

    /// The last `limit` keys that begin so, up to those that were created then, in the order of their creation.
    pub fn ahead(&self, begins: &str, until: Option<i64>, limit: i64) -> Vec<(&Arc<str>, i64, i64)> {
        let end = (until.map_or(i64::MAX, |create| create.saturating_add(1)), Arc::from(""));
        let last = self.line.range(..end).rev().filter(|((_, key), _)| key.starts_with(begins));
        let last = last.take(usize::try_from(limit).unwrap_or(usize::MAX));
        let mut ahead: Vec<_> = last.map(|((create, key), lease)| (key, *create, *lease)).collect();
        ahead.reverse();
        ahead
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn news(key: &str, revision: i64, stands: Option<(i64, i64)>) -> News {
        News { key: key.into(), revision, stands }
    }

    fn shown(copy: &Copy, begins: &str, until: Option<i64>, limit: i64) -> Vec<String> {
        copy.ahead(begins, until, limit).into_iter().map(|(key, create, _)| format!("{key}@{create}")).collect()
    }

    #[test]
    fn a_line_is_shown_as_the_server_would_show_it() {
        let read = [("x/b", 5), ("x/a", 9), ("x/y/1f", 6), ("x/write/1700000000123456789", 7)];
        let read = read.map(|(key, create)| news(key, create, Some((create, 77))));
        let mut copy = Copy::of("x".into(), 10, read.into_iter());
        let rw = "x/write/1700000000123456789@7";
        // No key of a lock below it.
        assert_eq!(shown(&copy, "x/", None, 32), ["x/b@5", rw, "x/a@9"]);
        assert_eq!(shown(&copy, "x/", Some(9), 2), [rw, "x/a@9"]);
        assert_eq!(shown(&copy, "x/", Some(8), 32), ["x/b@5", rw]);
        assert_eq!(shown(&copy, "x/write/", None, 32), [rw]);
        // What it read already.
        copy.follow([news("x/b", 8, None)].into_iter());
        assert_eq!((copy.own(&"x/b".into()), copy.revision()), (Some((5, 77)), 10));
        // What is new: deleted, created, put again under another lease, created anew.
        let told = [
            news("x/a", 11, None),
            news("x/c", 12, Some((12, 78))),
            news("x/b", 13, Some((5, 79))),
            news("x/a", 14, Some((14, 77))),
        ];
        copy.follow(told.into_iter());
        assert_eq!((copy.revision(), shown(&copy, "x/", None, 2)), (14, vec!["x/c@12".into(), "x/a@14".into()]));
        assert_eq!([copy.own(&"x/b".into()), copy.own(&"x/d".into())], [Some((5, 79)), None]);
        copy.follow([news("x/b", 15, None)].into_iter());
        assert_eq!((copy.own(&"x/b".into()), shown(&copy, "x/", Some(12), 32).len()), (None, 2));
    }
}
