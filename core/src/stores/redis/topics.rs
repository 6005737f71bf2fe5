//! In which ways a Redis server tells what is published on a channel, and what is said to it about one.

use std::sync::Arc;
use std::time::Duration;

use crate::stores::topics;

/// What a client listens to at such a server.
pub(super) type Topics = topics::Topics<Told>;
/// What is said to it about a channel.
pub(super) type Word = topics::Word<Told>;

/// How long after a refusal it is tried again: rights may be given meanwhile.
pub(super) const REFUSED: Duration = Duration::from_millis(if cfg!(test) { 500 } else { 60_000 });
/// How long until a channel is asked for again that is in another shard, as the server said; its slot may come back.
pub(super) const MOVED: Duration = Duration::from_millis(100);

/// Who tells what is published on a channel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Told {
    /// Every server, those of a cluster one another.
    ByAll,
    /// Those that have the channel's slot.
    InShard,
}

impl Told {
    /// Of what tells of the lock under `key`, or of none, where a server tells `in_shards` what concerns them or does
    /// not.
    pub(super) fn of(key: Option<&Arc<str>>, in_shards: bool) -> Self {
        if in_shards && key.is_some() { Told::InShard } else { Told::ByAll }
    }
}

/// How it is said.
pub(super) fn command(word: &Word) -> [&str; 2] {
    match word {
        Word::Subscribe(Told::ByAll, channel) => ["SUBSCRIBE", channel],
        Word::Subscribe(Told::InShard, channel) => ["SSUBSCRIBE", channel],
        Word::Unsubscribe(Told::ByAll, channel) => ["UNSUBSCRIBE", channel],
        Word::Unsubscribe(Told::InShard, channel) => ["SUNSUBSCRIBE", channel],
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;
    use crate::protocol::Channel;
    use crate::stores::Subscription;

    /// A lock's channel and the inbox are listened to.
    fn listened() -> (Arc<Topics>, [Subscription; 2]) {
        let topics = Arc::new(Topics::default());
        let hear = |name: &str, key| topics.hear(Channel { name: &name.into(), own: false, overheard: false }, key);
        let both = [hear("of a lock", Some(&"key".into())), hear("inbox", None)];
        (topics, both)
    }

    fn said(topics: &Topics, now: Instant, in_shards: bool) -> Vec<String> {
        let (words, _) = topics.words(now, |key| Told::of(key, in_shards));
        words.iter().map(|word| command(word).join(" ")).collect()
    }

    #[test]
    fn what_tells_of_a_lock_is_subscribed_in_its_shard_and_plainly_where_there_are_none() {
        let (topics, _both) = listened();
        let now = Instant::now();
        assert_eq!(said(&topics, now, true), ["SSUBSCRIBE of a lock", "SUBSCRIBE inbox"]);
        topics.ask_anew(|told| told == Told::InShard);
        assert_eq!(said(&topics, now, false), ["SUBSCRIBE of a lock"]);
        // Another connection may lead to a server that was renewed.
        topics.connected();
        let mut all = said(&topics, now, true);
        all.sort();
        assert_eq!(all, ["SSUBSCRIBE of a lock", "SUBSCRIBE inbox"]);
    }

    #[test]
    fn a_channel_that_moved_is_closed_and_asked_for_again_a_moment_later() {
        let (topics, both) = listened();
        let now = Instant::now();
        assert_eq!(said(&topics, now, true).len(), 2);
        topics.subscribed("of a lock");
        assert!(topics.ended("of a lock", now + MOVED).is_some());
        assert!(topics.overhear("of a lock").state() == crate::session::Inbox::Closed);
        assert_eq!(said(&topics, now, true), [""; 0]);
        assert_eq!(said(&topics, now + MOVED, true), ["SSUBSCRIBE of a lock"]);
        drop(both);
        let later = Instant::now() + Duration::from_secs(2);
        assert_eq!(said(&topics, later, true), ["SUNSUBSCRIBE of a lock", "UNSUBSCRIBE inbox"]);
    }
}
