//! What is posted to the gateway, and what has come of it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use lockwright_machines::stores::etcd::lease::Lease;
use lockwright_machines::time::Time;

/// A request of HTTP, whose answer is told by its number.
#[derive(Debug, PartialEq, Eq)]
pub struct Post {
    /// Its number.
    pub number: u64,
    /// The member that is asked, as the authority of a URL.
    pub member: Arc<str>,
    /// Where.
    pub path: &'static str,
    /// What says who asks, for the header `authorization`.
    pub token: Option<Arc<str>>,
    /// What, in JSON.
    pub body: String,
}

/// What is to be done outside.
#[derive(Debug, PartialEq, Eq)]
pub enum Action {
    /// Post this, tell whatever comes of its answer, and that it ended.
    Post(Post),
    /// Nobody wants to know any more what comes of that.
    Drop(u64),
}

/// What a post is for.
#[derive(Debug)]
pub(super) enum For {
    /// A token.
    Login,
    /// A lease.
    Grant,
    /// Its first fence; when it was asked for.
    Fence(Arc<Lease>, Time),
    /// A sign of life of it.
    Beat(Arc<Lease>),
    /// What became of the request of this write.
    Write(u64, Terms),
    /// What is deleted below this lock.
    Watch(Arc<str>),
    /// What is broken of all that the lease holds, as its fence tells.
    Breaks,
    /// That a lease is given back.
    Revoke,
}

impl For {
    /// Its answer goes on and on.
    pub(super) fn is_stream(&self) -> bool {
        matches!(self, For::Watch(_) | For::Breaks)
    }

    /// By itself it keeps nobody waiting, and ends with the client.
    pub(super) fn is_aside(&self) -> bool {
        self.is_stream() || matches!(self, For::Beat(_))
    }
}

/// What a request was asked under.
#[derive(Debug, Default)]
pub(super) struct Terms {
    /// The client's lease then, where it needs one: another one may be there when it is answered.
    pub(super) lease: Option<Arc<Lease>>,
    /// Where its fence was known to be.
    pub(super) fence: i64,
}

/// A post that has not ended.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) what: For,
    /// Which member is asked, and by whose word.
    pub(super) member: usize,
    pub(super) token: Option<Arc<str>>,
    pub(super) sent: Time,
    /// By when it has to have been answered; a stream has no end once it stands.
    pub(super) by: Option<Time>,
    pub(super) status: u16,
    pub(super) body: Vec<u8>,
}

/// All that have not ended, by their numbers.
#[derive(Debug, Default)]
pub(super) struct Posts {
    open: BTreeMap<u64, Open>,
    last: u64,
}

impl Posts {
    /// A number, and what is posted under it from now on.
    pub(super) fn begin(&mut self, open: Open) -> u64 {
        self.last += 1;
        self.open.insert(self.last, open);
        self.last
    }

    pub(super) fn get_mut(&mut self, number: u64) -> Option<&mut Open> {
        self.open.get_mut(&number)
    }

    pub(super) fn end(&mut self, number: u64) -> Option<Open> {
        self.open.remove(&number)
    }

    pub(super) fn any(&self, is: impl Fn(&For) -> bool) -> bool {
        self.open.values().any(|open| is(&open.what))
    }

    pub(super) fn due(&self) -> Option<Time> {
        self.open.values().filter_map(|open| open.by).min()
    }

    /// One of those that should have been answered by `now`.
    pub(super) fn take_late(&mut self, now: Time) -> Option<(u64, Open)> {
        let late = self.open.iter().find(|(_, open)| open.by.is_some_and(|by| by <= now));
        let number = *late?.0;
        Some((number, self.end(number)?))
    }

    /// Nobody wants to know what comes of any of these.
    pub(super) fn drop_all(&mut self, actions: &mut VecDeque<Action>, is: impl Fn(&For) -> bool) {
        let dropped = self.open.extract_if(.., |_, open| is(&open.what));
        actions.extend(dropped.map(|(number, _)| Action::Drop(number)));
    }
}
