//! Since when a node has had what it keeps.

use std::sync::Arc;
use std::time::Duration;

use crate::arguments::micros;
use crate::protocol::{Arg, Call, Reply, Request};

/// What is kept on a node to say since when it has been the one that it is: its run, the longest lease, and when it was
/// first met.
///
/// ```text
///   mark  run max_ttl-us   ->  text         it counts; the same text for as long as it is the same
///                          |   left-us      it counts in so many microseconds
///                          |   [max_ttl-us] those who use it keep to other leases
/// ```
///
/// Who finds none, or one of another run, makes it: from then on the node is young.
#[derive(Clone, Debug)]
pub struct Marker {
    /// The procedure that looks at it, and makes it.
    pub call: &'static Call,
    /// The key that it is kept under.
    pub key: Arc<str>,
}

/// What a node's marker says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Age {
    /// It counts.
    Known,
    /// It counts in a while.
    Young(Duration),
    /// Its leases may last for so long.
    OtherTtl(Duration),
}

impl Marker {
    /// The look, with leases of `max_ttl` at most.
    pub fn look(&self, max_ttl: Duration) -> Request {
        Request::new(self.call, self.key.clone(), [Arg::Run, micros(max_ttl)])
    }
}

impl Age {
    /// What the answer to a look says; none where it makes no sense.
    pub fn read(reply: &Reply) -> Option<Self> {
        let span = |micros: &i64| Some(Duration::from_micros(u64::try_from(*micros).ok()?));
        Some(match reply {
            Reply::Text(_) => Age::Known,
            Reply::Int(left) => Age::Young(span(left)?),
            Reply::List(list) => match list.as_slice() {
                [Reply::Int(other)] => Age::OtherTtl(span(other)?),
                _ => return None,
            },
            _ => return None,
        })
    }
}
