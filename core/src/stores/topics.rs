//! What a client listens to at its server, on one connection: its own inbox, and channels that tell of locks. Who has
//! the connection says the [words](Topics::words) that are due, and tells what came of them.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::adapter::{Ends, Sink, Subscription};
use crate::platform::mutex::locked;
use crate::protocol::Channel;
use crate::session::Inbox;

/// How long a channel that nobody listens on is still listened to: a lock that is waited for will soon be waited for
/// again.
const LINGER: Duration = Duration::from_secs(1);

/// See the [module](self). There may be several ways `W` in which a server tells what is said on a channel.
pub(super) struct Topics<W> {
    all: Mutex<All<W>>,
    are_kept: AtomicBool,
    /// There is something new to say to the server.
    pub(super) changed: Notify,
}

struct All<W> {
    by_channel: BTreeMap<Arc<str>, Topic<W>>,
    /// Channels that the server is to be asked for.
    fresh: Vec<Arc<str>>,
    /// Channels that nobody listened on when they were put here, and until when they may stay.
    leaving: VecDeque<(Instant, Arc<str>)>,
    /// The server lets this client listen to nothing, as far as is known.
    barred: bool,
    /// When to try again what was refused.
    again_at: Option<Instant>,
}

struct Topic<W> {
    /// Told when one who listens does no more.
    listener: Arc<Listener<W>>,
    /// The lock it tells of; none for the client's own inbox.
    key: Option<Arc<str>>,
    /// How many listen.
    listeners: usize,
    /// How long it may stay once nobody does.
    until: Option<Instant>,
    state: Inbox,
    /// In which way the server was asked for it on the present connection.
    asked: Option<W>,
}

/// One of those who listen on a channel.
struct Listener<W> {
    topics: Weak<Topics<W>>,
    channel: Arc<str>,
    /// Nobody else will ever listen there.
    own: bool,
}

impl<W: Copy + Send + Sync + 'static> Ends for Listener<W> {
    fn ended(&self) {
        if let Some(topics) = self.topics.upgrade() {
            topics.forget(&self.channel, self.own);
        }
    }
}

/// Whoever has the connection, or is about to, until this is dropped.
pub(super) struct Keeper<W>(Arc<Topics<W>>);

impl<W> Drop for Keeper<W> {
    fn drop(&mut self) {
        self.0.are_kept.store(false, Ordering::Release);
    }
}

/// A topic whose state changed.
pub(super) struct Changed {
    channel: Arc<str>,
    key: Option<Arc<str>>,
    state: Inbox,
}

impl Changed {
    pub(super) fn tell(self, sink: &dyn Sink) {
        match self.key {
            Some(key) => sink.channel(&key, &self.channel, self.state),
            None => sink.inbox(self.state),
        }
    }
}

/// What is said to the server about a channel.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Word<W> {
    Subscribe(W, Arc<str>),
    Unsubscribe(W, Arc<str>),
}

impl<W> Default for Topics<W> {
    fn default() -> Self {
        let (by_channel, fresh, leaving) = Default::default();
        let all = All { by_channel, fresh, leaving, barred: false, again_at: None };
        Topics { all: Mutex::new(all), are_kept: AtomicBool::new(false), changed: Notify::new() }
    }
}

impl<W: Copy + Send + Sync + 'static> Topics<W> {
    /// Has them kept by whoever asks, unless somebody does already.
    pub(super) fn keep(self: &Arc<Self>) -> Option<Keeper<W>> {
        let is_first = !self.are_kept.swap(true, Ordering::AcqRel);
        is_first.then(|| Keeper(self.clone()))
    }

    /// Waits until something is listened to.
    pub(super) async fn are_wanted(&self) {
        while self.is_empty() {
            self.changed.notified().await;
        }
    }

    /// One more listens on `channel`, which tells of the lock `key`, or of none.
    pub(super) fn hear(self: &Arc<Self>, channel: Channel<'_>, key: Option<&Arc<str>>) -> Subscription {
        let Channel { name, own, .. } = channel;
        let mut all = locked(&self.all);
        let state = if all.barred { Inbox::Unavailable } else { Inbox::Closed };
        let topic = all.by_channel.entry(name.clone()).or_insert_with(|| {
            let listener = Arc::new(Listener { topics: Arc::downgrade(self), channel: name.clone(), own });
            Topic { listener, key: key.cloned(), listeners: 0, until: None, state, asked: None }
        });
        let (is_asked, subscription) = (topic.asked.is_some(), topic.listened());
        if !is_asked {
            all.fresh.push(name.clone());
            self.changed.notify_one();
        }
        subscription
    }

    /// The same, but only if the channel is listened to.
    pub(super) fn overhear(&self, channel: &str) -> Subscription {
        let mut all = locked(&self.all);
        let topic = all.by_channel.get_mut(channel).filter(|topic| topic.state == Inbox::Live);
        topic.map_or_else(|| Subscription::of(Inbox::Closed), Topic::listened)
    }

    /// One listens on `channel` no more.
    fn forget(&self, channel: &Arc<str>, own: bool) {
        let mut all = locked(&self.all);
        let Some(topic) = all.by_channel.get_mut(channel) else { return };
        topic.listeners = topic.listeners.saturating_sub(1);
        if topic.listeners > 0 {
            return;
        }
        let until = Instant::now() + if own { Duration::ZERO } else { LINGER };
        topic.until = Some(until);
        // Where others leave already, it is looked at when they are.
        if all.leaving.is_empty() {
            self.changed.notify_one();
        }
        all.leaving.push_back((until, channel.clone()));
    }

    pub(super) fn is_empty(&self) -> bool {
        locked(&self.all).by_channel.is_empty()
    }

    /// What to say to the server now, in which `way` what tells of the lock of a key or of none is told, and when to
    /// look again at the latest.
    pub(super) fn words(&self, now: Instant, way: impl Fn(Option<&Arc<str>>) -> W) -> (Vec<Word<W>>, Option<Instant>) {
        let mut all = locked(&self.all);
        let mut words = Vec::new();
        while all.leaving.front().is_some_and(|(until, _)| *until <= now) {
            let Some((_, channel)) = all.leaving.pop_front() else { break };
            let is_over = |topic: &Topic<W>| topic.listeners == 0 && topic.until.is_some_and(|until| until <= now);
            if all.by_channel.get(&channel).is_some_and(is_over)
                && let Some(asked) = all.by_channel.remove(&channel).and_then(|topic| topic.asked)
            {
                words.push(Word::Unsubscribe(asked, channel));
            }
        }
        if all.again_at.take_if(|at| *at <= now).is_some() {
            all.ask_for_all();
        }
        for channel in std::mem::take(&mut all.fresh) {
            if let Some(topic) = all.by_channel.get_mut(&channel).filter(|topic| topic.asked.is_none()) {
                let asked = way(topic.key.as_ref());
                topic.asked = Some(asked);
                words.push(Word::Subscribe(asked, channel));
            }
        }
        let next = all.leaving.front().map(|(until, _)| *until);
        (words, next.into_iter().chain(all.again_at).min())
    }

    /// A new connection knows of no channel.
    pub(super) fn connected(&self) {
        locked(&self.all).again_at = None;
        self.ask_anew(|_| true);
    }

    /// The server is asked again for what it was asked for in such a way.
    pub(super) fn ask_anew(&self, which: impl Fn(W) -> bool) {
        let mut all = locked(&self.all);
        let concerned = all.by_channel.values_mut().filter(|topic| topic.asked.is_some_and(&which));
        concerned.for_each(|topic| topic.asked = None);
        all.ask_for_all();
    }

    /// The server tells what comes on the channel.
    pub(super) fn subscribed(&self, channel: &str) -> Option<Changed> {
        let mut all = locked(&self.all);
        all.barred = false;
        all.change(channel, Inbox::Live)
    }

    /// The connection is gone, and what was subscribed with it.
    pub(super) fn disconnected(&self) -> Vec<Changed> {
        locked(&self.all).change_all(|topic| topic.state == Inbox::Live, Inbox::Closed)
    }

    /// Whom a message on `channel` is for: nobody any more, the client's inbox, or a lock.
    pub(super) fn recipient(&self, channel: &str) -> Option<Option<Arc<str>>> {
        let all = locked(&self.all);
        all.by_channel.get(channel).filter(|topic| topic.listeners > 0).map(|topic| topic.key.clone())
    }
}

/// Of servers that do not let everybody listen to everything.
#[cfg(feature = "redis")]
impl<W: Copy + Send + Sync + 'static> Topics<W> {
    /// The server refused it; it is asked again then.
    pub(super) fn refused(&self, channel: &str, again_at: Instant) -> Option<Changed> {
        let mut all = locked(&self.all);
        let known = all.by_channel.get(channel)?.state == Inbox::Unavailable;
        all.again(channel, again_at);
        all.change(channel, Inbox::Unavailable).filter(|_| !known)
    }

    /// The server has it no more; it is asked again then.
    pub(super) fn ended(&self, channel: &str, again_at: Instant) -> Option<Changed> {
        let mut all = locked(&self.all);
        all.again(channel, again_at);
        all.change(channel, Inbox::Closed)
    }

    /// The server lets this client listen to nothing.
    pub(super) fn bar(&self) -> Vec<Changed> {
        let mut all = locked(&self.all);
        all.barred = true;
        all.change_all(|topic| topic.state != Inbox::Unavailable, Inbox::Unavailable)
    }
}

impl<W> Topic<W>
where
    Listener<W>: Ends + 'static,
{
    /// One more listens.
    fn listened(&mut self) -> Subscription {
        self.listeners += 1;
        Subscription::of(self.state).until(self.listener.clone())
    }
}

impl<W> All<W> {
    fn ask_for_all(&mut self) {
        self.fresh =
            self.by_channel.iter().filter(|(_, topic)| topic.asked.is_none()).map(|(name, _)| name.clone()).collect();
    }

    #[cfg(feature = "redis")]
    fn again(&mut self, channel: &str, at: Instant) {
        self.again_at = Some(self.again_at.map_or(at, |known| known.min(at)));
        if let Some(topic) = self.by_channel.get_mut(channel) {
            topic.asked = None;
        }
    }

    fn change(&mut self, channel: &str, state: Inbox) -> Option<Changed> {
        let (channel, _) = self.by_channel.get_key_value(channel)?;
        let channel = channel.clone();
        let topic = self.by_channel.get_mut(&channel)?;
        topic.state = state;
        Some(Changed { key: topic.key.clone(), channel, state })
    }

    fn change_all(&mut self, which: impl Fn(&Topic<W>) -> bool, state: Inbox) -> Vec<Changed> {
        let concerned = self.by_channel.iter_mut().filter(|(_, topic)| which(topic));
        let change = |(channel, topic): (&Arc<str>, &mut Topic<W>)| {
            topic.state = state;
            Changed { channel: channel.clone(), key: topic.key.clone(), state }
        };
        concerned.map(change).collect()
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::*;

    const ONLY: fn(Option<&Arc<str>>) = |_| ();

    #[test]
    fn a_channel_is_listened_to_while_somebody_does_and_for_a_moment_after() {
        let topics = Arc::new(Topics::default());
        let (name, key) = (Arc::from("of a lock"), Arc::from("key"));
        let hear = || topics.hear(Channel { name: &name, own: false, overheard: false }, Some(&key));
        let now = Instant::now();
        assert_eq!(topics.overhear(&name).state(), Inbox::Closed);
        assert_eq!(topics.words(now, ONLY), (vec![], None), "what is overheard is not asked for");
        let (one, other) = (hear(), hear());
        assert_eq!(topics.words(now, ONLY), (vec![Word::Subscribe((), name.clone())], None));
        topics.subscribed(&name).unwrap();
        assert_eq!((topics.words(now, ONLY), hear().state()), ((vec![], None), Inbox::Live));
        drop(one);
        assert_eq!(topics.words(now + 2 * LINGER, ONLY), (vec![], None));
        drop(other);
        let (words, next) = topics.words(now, ONLY);
        assert_eq!((words, next.is_some()), (vec![], true));
        assert_eq!(topics.words(now + 2 * LINGER, ONLY), (vec![Word::Unsubscribe((), name.clone())], None));
        assert_eq!(topics.words(now, ONLY), (vec![], None));
        assert!(topics.is_empty());
    }

    #[tokio::test]
    async fn whoever_has_the_connection_is_woken_for_the_first_that_leaves() {
        let topics = Arc::new(Topics::<()>::default());
        let is_woken = async || timeout(Duration::from_millis(1), topics.changed.notified()).await.is_ok();
        let hear = |name: &str| topics.hear(Channel { name: &name.into(), own: false, overheard: false }, None);
        let (one, other) = (hear("one"), hear("other"));
        assert!(is_woken().await);
        drop(one);
        assert!(is_woken().await);
        drop(other);
        assert!(!is_woken().await, "it looks soon, anyway");
    }
}
