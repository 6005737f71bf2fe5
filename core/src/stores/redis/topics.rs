//! What a client listens to at its server: its own inbox, and channels that tell of joined locks. The
//! [listener](super::inbox) keeps them subscribed on one connection.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::platform::mutex::locked;
use crate::protocol::Channel;
use crate::session::Inbox;
use crate::stores::{Ends, Subscription};

/// How long a channel that nobody listens on stays subscribed: a lock that is waited for will soon be waited for again.
const LINGER: Duration = Duration::from_secs(1);
/// How long after a refusal it is tried again: rights may be given meanwhile.
pub(super) const REFUSED: Duration = Duration::from_millis(if cfg!(test) { 500 } else { 60_000 });

/// How long until a channel is asked for again that is in another shard, as the server said; its slot may come back.
const MOVED: Duration = Duration::from_millis(100);

/// See the [module](self).
#[derive(Default)]
pub(super) struct Topics {
    /// The server is one of a cluster, where what tells of a lock is told in the shard of that.
    in_cluster: bool,
    all: Mutex<All>,
    /// There is something new to say to the server.
    pub(super) changed: Notify,
}

#[derive(Default)]
struct All {
    by_channel: HashMap<Arc<str>, Topic>,
    /// Channels that are to be subscribed.
    fresh: Vec<Arc<str>>,
    /// Channels that nobody listened on when they were put here, and until when they may stay.
    leaving: VecDeque<(Instant, Arc<str>)>,
    /// The server lets this client subscribe nothing, as far as is known.
    barred: bool,
    /// The server knows no channels of shards, as far as is known.
    shardless: bool,
    /// When to try again what was refused.
    again_at: Option<Instant>,
}

struct Topic {
    /// Told when one who listens does no more.
    ear: Arc<Ear>,
    /// The lock it tells of; none for the client's own inbox.
    key: Option<Arc<str>>,
    /// How many listen.
    ears: usize,
    /// How long it may stay once nobody does.
    until: Option<Instant>,
    state: Inbox,
    /// Who was to tell of it when the server was asked for it on the present connection.
    asked: Option<Told>,
}

/// Who tells what is published on a channel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Told {
    /// Every server, those of a cluster one another.
    ByAll,
    /// Those that have the channel's slot.
    InShard,
}

/// One of those who listen on a channel.
pub(super) struct Ear {
    topics: Weak<Topics>,
    channel: Arc<str>,
    /// Nobody else will ever listen there.
    own: bool,
}

impl Ends for Ear {
    fn ended(&self) {
        if let Some(topics) = self.topics.upgrade() {
            topics.forget(&self.channel, self.own);
        }
    }
}

/// A topic whose state changed.
pub(super) struct Changed {
    pub(super) channel: Arc<str>,
    pub(super) key: Option<Arc<str>>,
    pub(super) state: Inbox,
}

/// What is said to the server about a channel.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Word {
    Subscribe(Told, Arc<str>),
    Unsubscribe(Told, Arc<str>),
}

impl Topics {
    /// Those of a client at one server.
    pub(super) fn at_server(in_cluster: bool) -> Self {
        Topics { in_cluster, ..Topics::default() }
    }

    /// One more listens on `channel`, which tells of the lock `key`, or of none.
    pub(super) fn hear(self: &Arc<Self>, channel: Channel<'_>, key: Option<&Arc<str>>) -> Subscription {
        let Channel { name, own, .. } = channel;
        let mut all = locked(&self.all);
        let state = if all.barred { Inbox::Unavailable } else { Inbox::Closed };
        let topic = all.by_channel.entry(name.clone()).or_insert_with(|| {
            let ear = Arc::new(Ear { topics: Arc::downgrade(self), channel: name.clone(), own });
            Topic { ear, key: key.cloned(), ears: 0, until: None, state, asked: None }
        });
        let (asked, subscription) = (topic.asked, topic.listened());
        if asked.is_none() {
            all.fresh.push(name.clone());
            self.changed.notify_one();
        }
        subscription
    }

    /// The same, but only if the channel is subscribed.
    pub(super) fn overhear(&self, channel: &str) -> Option<Subscription> {
        let mut all = locked(&self.all);
        let topic = all.by_channel.get_mut(channel).filter(|topic| topic.state == Inbox::Live);
        topic.map(Topic::listened)
    }

    /// One listens on `channel` no more. The listener sees to it when it next looks.
    fn forget(&self, channel: &Arc<str>, own: bool) {
        let mut all = locked(&self.all);
        let Some(topic) = all.by_channel.get_mut(channel) else { return };
        topic.ears = topic.ears.saturating_sub(1);
        if topic.ears == 0 {
            let until = Instant::now() + if own { Duration::ZERO } else { LINGER };
            topic.until = Some(until);
            all.leaving.push_back((until, channel.clone()));
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        locked(&self.all).by_channel.is_empty()
    }

    /// What to say to the server now, and when to look again at the latest.
    pub(super) fn words(&self, now: Instant) -> (Vec<Word>, Option<Instant>) {
        let mut all = locked(&self.all);
        let mut words = Vec::new();
        while all.leaving.front().is_some_and(|(until, _)| *until <= now) {
            let Some((_, channel)) = all.leaving.pop_front() else { break };
            let is_over = |topic: &Topic| topic.ears == 0 && topic.until.is_some_and(|until| until <= now);
            if all.by_channel.get(&channel).is_some_and(is_over)
                && let Some(told) = all.by_channel.remove(&channel).and_then(|topic| topic.asked)
            {
                words.push(Word::Unsubscribe(told, channel));
            }
        }
        if all.again_at.take_if(|at| *at <= now).is_some() {
            all.ask_for_all();
        }
        let in_shards = self.in_cluster && !all.shardless;
        for channel in std::mem::take(&mut all.fresh) {
            if let Some(topic) = all.by_channel.get_mut(&channel).filter(|topic| topic.asked.is_none()) {
                let told = if in_shards && topic.key.is_some() { Told::InShard } else { Told::ByAll };
                topic.asked = Some(told);
                words.push(Word::Subscribe(told, channel));
            }
        }
        let next = all.leaving.front().map(|(until, _)| *until);
        (words, next.into_iter().chain(all.again_at).min())
    }

    /// A new connection knows of no channel.
    pub(super) fn connected(&self) {
        let mut all = locked(&self.all);
        all.by_channel.values_mut().for_each(|topic| topic.asked = None);
        (all.again_at, all.shardless) = (None, false);
        all.ask_for_all();
    }

    /// The server confirmed the subscription.
    pub(super) fn subscribed(&self, channel: &str) -> Option<Changed> {
        let mut all = locked(&self.all);
        all.barred = false;
        all.change(channel, Inbox::Live)
    }

    /// The server refused it; it is asked again later.
    pub(super) fn refused(&self, channel: &str, now: Instant) -> Option<Changed> {
        let mut all = locked(&self.all);
        all.again_at.get_or_insert(now + REFUSED);
        let topic = all.by_channel.get_mut(channel)?;
        topic.asked = None;
        let known = topic.state == Inbox::Unavailable;
        all.change(channel, Inbox::Unavailable).filter(|_| !known)
    }

    /// Another server has the channel's slot, as this one says, and the map of slots may not say so yet.
    pub(super) fn moved(&self, channel: &str, now: Instant) -> Option<Changed> {
        let mut all = locked(&self.all);
        let again_at = now + MOVED;
        all.again_at = Some(all.again_at.map_or(again_at, |known| known.min(again_at)));
        all.by_channel.get_mut(channel)?.asked = None;
        all.change(channel, Inbox::Closed)
    }

    /// The server knows no channels of shards: as before Redis 7, all is told by all.
    pub(super) fn without_shards(&self) {
        let mut all = locked(&self.all);
        all.shardless = true;
        let sharded = |topic: &&mut Topic| topic.asked == Some(Told::InShard);
        all.by_channel.values_mut().filter(sharded).for_each(|topic| topic.asked = None);
        all.ask_for_all();
    }

    /// The connection is gone, and what was subscribed with it.
    pub(super) fn disconnected(&self) -> Vec<Changed> {
        locked(&self.all).change_all(|topic| topic.state == Inbox::Live, Inbox::Closed)
    }

    /// The server lets this client subscribe nothing.
    pub(super) fn bar(&self) -> Vec<Changed> {
        let mut all = locked(&self.all);
        all.barred = true;
        all.change_all(|topic| topic.state != Inbox::Unavailable, Inbox::Unavailable)
    }

    /// Whom a message on `channel` is for: nobody any more, the client's inbox, or a lock.
    pub(super) fn recipient(&self, channel: &str) -> Option<Option<Arc<str>>> {
        let all = locked(&self.all);
        all.by_channel.get(channel).filter(|topic| topic.ears > 0).map(|topic| topic.key.clone())
    }
}

impl Topic {
    /// One more listens.
    fn listened(&mut self) -> Subscription {
        self.ears += 1;
        Subscription::of(self.state).until(self.ear.clone())
    }
}

impl All {
    fn ask_for_all(&mut self) {
        self.fresh =
            self.by_channel.iter().filter(|(_, topic)| topic.asked.is_none()).map(|(name, _)| name.clone()).collect();
    }

    fn change(&mut self, channel: &str, state: Inbox) -> Option<Changed> {
        let (channel, _) = self.by_channel.get_key_value(channel)?;
        let channel = channel.clone();
        let topic = self.by_channel.get_mut(&channel)?;
        topic.state = state;
        Some(Changed { key: topic.key.clone(), channel, state })
    }

    fn change_all(&mut self, which: impl Fn(&Topic) -> bool, state: Inbox) -> Vec<Changed> {
        let concerned = self.by_channel.iter_mut().filter(|(_, topic)| which(topic));
        let change = |(channel, topic): (&Arc<str>, &mut Topic)| {
            topic.state = state;
            Changed { channel: channel.clone(), key: topic.key.clone(), state }
        };
        concerned.map(change).collect()
    }
}

impl Word {
    pub(super) fn parts(&self) -> [&str; 2] {
        match self {
            Word::Subscribe(Told::ByAll, channel) => ["SUBSCRIBE", channel],
            Word::Subscribe(Told::InShard, channel) => ["SSUBSCRIBE", channel],
            Word::Unsubscribe(Told::ByAll, channel) => ["UNSUBSCRIBE", channel],
            Word::Unsubscribe(Told::InShard, channel) => ["SUNSUBSCRIBE", channel],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Those of a server of a cluster, where a lock's channel and the inbox are listened to.
    fn listened() -> (Arc<Topics>, [Subscription; 2]) {
        let topics = Arc::new(Topics::at_server(true));
        let hear = |name: &str, key| topics.hear(Channel { name: &name.into(), own: false, overheard: false }, key);
        let both = [hear("of a lock", Some(&"key".into())), hear("inbox", None)];
        (topics, both)
    }

    fn said(topics: &Topics, now: Instant) -> Vec<String> {
        topics.words(now).0.iter().map(|word| word.parts().join(" ")).collect()
    }

    #[test]
    fn what_tells_of_a_lock_is_subscribed_in_its_shard_and_plainly_where_there_are_none() {
        let (topics, _both) = listened();
        let now = Instant::now();
        assert_eq!(said(&topics, now), ["SSUBSCRIBE of a lock", "SUBSCRIBE inbox"]);
        topics.without_shards();
        assert_eq!(said(&topics, now), ["SUBSCRIBE of a lock"]);
        // Another connection may lead to a server that was renewed.
        topics.connected();
        let mut all = said(&topics, now);
        all.sort();
        assert_eq!(all, ["SSUBSCRIBE of a lock", "SUBSCRIBE inbox"]);
    }

    #[test]
    fn a_channel_that_moved_is_closed_and_asked_for_again_a_moment_later() {
        let (topics, both) = listened();
        let now = Instant::now();
        assert_eq!(said(&topics, now).len(), 2);
        topics.subscribed("of a lock");
        let closed = topics.moved("of a lock", now).unwrap();
        assert_eq!((closed.state, closed.key.as_deref()), (Inbox::Closed, Some("key")));
        assert_eq!(topics.words(now), (vec![], Some(now + MOVED)));
        assert_eq!(said(&topics, now + MOVED), ["SSUBSCRIBE of a lock"]);
        drop(both);
        assert_eq!(said(&topics, Instant::now() + LINGER), ["SUNSUBSCRIBE of a lock", "UNSUBSCRIBE inbox"]);
    }
}
