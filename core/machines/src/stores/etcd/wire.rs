//! What is said to a server and what it answers, as etcd's own `rpc.proto` has it and without any of its two ways
//! there: the drivers make gRPC of it, or JSON for the server's gateway.

/// What is done at one moment: the one where all compare, else the other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transaction {
    /// What is to be so.
    pub compares: Vec<Compare>,
    /// What is done where it is.
    pub success: Vec<Op>,
    /// What is done where it is not.
    pub failure: Vec<Op>,
}

impl Transaction {
    /// Where all of these compare.
    pub fn when(compares: impl IntoIterator<Item = Compare>) -> Self {
        Transaction { compares: compares.into_iter().collect(), ..Transaction::default() }
    }

    /// This is done.
    #[must_use]
    pub fn then(self, success: impl IntoIterator<Item = Op>) -> Self {
        Transaction { success: success.into_iter().collect(), ..self }
    }

    /// Else that.
    #[must_use]
    pub fn or_else(self, failure: impl IntoIterator<Item = Op>) -> Self {
        Transaction { failure: failure.into_iter().collect(), ..self }
    }

    /// This is done in any case.
    pub fn of(success: impl IntoIterator<Item = Op>) -> Self {
        Transaction::default().then(success)
    }
}

/// One key, or all from one on to before another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keys {
    /// The first.
    pub from: Vec<u8>,
    /// What comes after the last; nothing for one key alone, a zero for all there are.
    pub end: Vec<u8>,
}

impl Keys {
    /// This key.
    pub fn one(key: &str) -> Self {
        Keys { from: key.into(), end: Vec::new() }
    }

    /// Those that begin so.
    pub fn beginning(prefix: &str) -> Self {
        Keys::beginning_from(prefix, "")
    }

    /// The same, from that one on.
    pub fn beginning_from(prefix: &str, from: &str) -> Self {
        // The first key that begins otherwise; after all keys where no byte can be counted up. An empty key is none.
        let mut end = prefix.as_bytes().to_vec();
        while end.pop_if(|byte| *byte == u8::MAX).is_some() {}
        match end.last_mut() {
            Some(last) => *last += 1,
            None => end.push(0),
        }
        let from = [from, prefix, "\0"].into_iter().find(|from| !from.is_empty()).unwrap_or_default();
        Keys { from: from.into(), end }
    }
}

/// What has to be so of each of these keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compare {
    /// The keys.
    pub keys: Keys,
    /// What they are.
    pub is: Is,
}

impl Compare {
    /// Of one key.
    pub fn key(key: &str, is: Is) -> Self {
        Compare { keys: Keys::one(key), is }
    }
}

/// What a key is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Is {
    /// Created at this revision; never, where that is 0.
    CreatedAt(i64),
    /// Created before it.
    CreatedBefore(i64),
    /// Written at this revision last; never, where that is 0.
    WrittenAt(i64),
    /// There, with this value.
    Value(String),
}

/// What is done in a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// Reads.
    Get(Get),
    /// Writes a key.
    Put {
        /// The key.
        key: String,
        /// What is to stand in it.
        value: String,
        /// With which lease it ends.
        lease: i64,
    },
    /// Deletes a key.
    Delete(String),
}

/// A read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Get {
    /// Of these keys.
    pub keys: Keys,
    /// Of so many at most; of all, where that is 0.
    pub limit: i64,
    /// Of those that were created first, or last; by their names, where nothing is said.
    pub first: Option<First>,
    /// None that were created after this revision, unless it is 0.
    pub created_until: i64,
    /// What of them.
    pub of: Shown,
}

/// Which keys come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum First {
    /// Those that were created first.
    Oldest,
    /// Those that were created last.
    Newest,
}

/// What is read of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// Its value, too.
    All,
    /// All but its value.
    Keys,
    /// How many there are.
    Count,
}

impl Get {
    /// All that there is to these keys.
    pub fn all(keys: Keys) -> Self {
        Get { keys, limit: 0, first: None, created_until: 0, of: Shown::All }
    }

    /// All but their values.
    pub fn keys(keys: Keys) -> Self {
        Get { of: Shown::Keys, ..Get::all(keys) }
    }
}

/// What became of a transaction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Response {
    /// As of which revision.
    pub revision: i64,
    /// Whether all compared.
    pub succeeded: bool,
    /// What became of each that was done.
    pub done: Vec<Done>,
}

/// What became of what was done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Done {
    /// What was read.
    Got(Got),
    /// It was written.
    Put,
    /// So many were deleted.
    Deleted(i64),
}

/// What was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Got {
    /// The keys.
    pub kvs: Vec<KeyValue>,
    /// How many there are, also of those that were not to be told.
    pub count: i64,
    /// Not all of them are told.
    pub more: bool,
}

/// A key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyValue {
    /// Its name.
    pub key: Vec<u8>,
    /// What stands in it.
    pub value: Vec<u8>,
    /// At which revision it was created.
    pub created: i64,
    /// At which it was written last, or deleted.
    pub written: i64,
    /// With which lease it ends; with none, where that is 0.
    pub lease: i64,
}

impl KeyValue {
    /// Its name; bytes that are not UTF-8 are replaced, since no layout of ours writes any.
    pub fn name(&self) -> String {
        String::from_utf8_lossy(&self.key).into_owned()
    }

    /// What stands in it, in the same way.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.value).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_ends_before_the_first_key_that_begins_otherwise() {
        for (prefix, cursor, from, end) in [
            ("a/", "", &b"a/"[..], &b"a0"[..]),
            ("a/", "a/b\0", b"a/b\0", b"a0"),
            ("", "", b"\0", b"\0"),
            ("", "x", b"x", b"\0"),
        ] {
            let keys = Keys::beginning_from(prefix, cursor);
            assert_eq!((&keys.from[..], &keys.end[..]), (from, end), "{prefix:?} {cursor:?}");
        }
    }
}
