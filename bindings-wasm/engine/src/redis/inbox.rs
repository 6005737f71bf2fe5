//! The line on which the server pushes: the client's own inbox, and channels that tell of joined locks.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use lockwright_machines::protocol::{Channel, StoreEvent};
use lockwright_machines::session::Inbox as State;
use lockwright_machines::time::Time;
use lockwright_resp::Value;
use lockwright_resp::greeting::Welcome;
use lockwright_resp::wire::Commands;

use super::config::Config;
use super::line::{Action, Came, Line, Which};

/// How long nothing may be heard before the other side is asked whether it is still there.
const QUIET: Duration = Duration::from_secs(5);
/// How long it may take to say so.
const PATIENCE: Duration = Duration::from_secs(2);
/// First and longest pause before dialling again.
const PAUSE: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(1));
/// How long after a refusal it is tried again: rights may be given meanwhile.
const REFUSED: Duration = Duration::from_secs(60);

/// What was heard.
pub(super) enum Heard {
    /// A connection greeted.
    Met(Welcome),
    /// The client's own inbox is so.
    Inbox(State),
    /// A channel that tells of the lock under `key` is so.
    Channel { key: Arc<str>, channel: Arc<str>, state: State },
    /// It is subscribed; what is to be known is whether scripts find it there.
    Subscribed(Subscribed),
    /// Something was pushed for the lock under this key.
    Pushed(Arc<str>, StoreEvent),
}

/// The client's own inbox on one line.
#[derive(Clone, Debug)]
pub(super) struct Subscribed {
    pub(super) channel: Arc<str>,
    line: u64,
}

struct Topic {
    /// The lock it tells of; none for the client's own inbox.
    key: Option<Arc<str>>,
    slots: Vec<u64>,
    state: State,
    /// The server was asked for it on the present line.
    asked: bool,
}

impl Topic {
    fn tell(&mut self, channel: &Arc<str>, state: State) -> Heard {
        self.state = state;
        match &self.key {
            Some(key) => Heard::Channel { key: key.clone(), channel: channel.clone(), state },
            None => Heard::Inbox(state),
        }
    }
}

/// What was said and is not answered yet, in this order.
#[derive(PartialEq)]
enum Said {
    Subscribe(Arc<str>),
    Unsubscribe(Arc<str>),
    Ping,
    /// A ping whose answer says that scripts do not find whoever listens on this channel, and not that the line had
    /// ended by then.
    Confirm(Arc<str>),
}

/// See the [module](self).
pub(super) struct Inbox {
    line: Line,
    topics: HashMap<Arc<str>, Topic>,
    /// Nobody listens there any more.
    left: Vec<Arc<str>>,
    /// The channel on which scripts did not find it.
    unfound: Option<Arc<str>>,
    said: VecDeque<Said>,
    /// How many lines ended before this one.
    ended: u64,
    /// When something was heard last, or said to which an answer is due.
    since: Time,
    pause: Duration,
    /// Not to be dialled before.
    dial_at: Time,
    /// When to ask again for what was refused.
    again_at: Option<Time>,
    pub(super) heard: VecDeque<Heard>,
}

impl Inbox {
    pub(super) fn new() -> Self {
        Inbox {
            line: Line::new(Which::Inbox),
            topics: HashMap::new(),
            left: Vec::new(),
            unfound: None,
            ended: 0,
            said: VecDeque::new(),
            since: Time::ZERO,
            pause: PAUSE.0,
            dial_at: Time::ZERO,
            again_at: None,
            heard: VecDeque::new(),
        }
    }

    /// Listens on the client's own channel, for as long as there is a client.
    pub(super) fn open(&mut self, channel: &str) {
        let topic = || Topic { key: None, slots: Vec::new(), state: State::Closed, asked: false };
        self.topics.entry(channel.into()).or_insert_with(topic);
    }

    /// Listens on a channel of the lock under `key`, for the contender in `slot`; how that stands.
    pub(super) fn hear(&mut self, slot: u64, channel: Channel<'_>, key: &Arc<str>) -> State {
        let state = self.topics.get(channel.name).map_or(State::Closed, |topic| topic.state);
        if channel.overheard && state != State::Live {
            return state;
        }
        let topic = || Topic { key: Some(key.clone()), slots: Vec::new(), state: State::Closed, asked: false };
        self.topics.entry(channel.name.clone()).or_insert_with(topic).slots.push(slot);
        state
    }

    /// The contender in `slot` listens no more.
    pub(super) fn forget(&mut self, slot: u64) {
        let left = &mut self.left;
        self.topics.retain(|channel, topic| {
            let before = topic.slots.len();
            topic.slots.retain(|known| *known != slot);
            let stays = topic.key.is_none() || !topic.slots.is_empty() || before == 0;
            if !stays && topic.asked {
                left.push(channel.clone());
            }
            stays
        });
    }

    pub(super) fn due(&self) -> Option<Time> {
        if self.topics.is_empty() {
            return self.line.due();
        }
        match () {
            () if self.line.is_closed() => Some(self.dial_at),
            () if self.line.is_open() => self.again_at.into_iter().chain([self.silent_at()]).min(),
            () => self.line.due(),
        }
    }

    fn silent_at(&self) -> Time {
        self.since.after(if self.said.is_empty() { QUIET } else { PATIENCE })
    }

    /// What there is to do at `now`.
    pub(super) fn look(&mut self, config: &Config, now: Time, actions: &mut VecDeque<Action>) {
        if self.line.is_closed() {
            if !self.topics.is_empty() && self.dial_at <= now {
                actions.push_back(self.line.dial(config, now));
            }
            return;
        }
        if !self.line.is_open() {
            if self.line.due().is_some_and(|due| due <= now) {
                self.give_up(now, actions);
            }
            return;
        }
        if self.again_at.take_if(|at| *at <= now).is_some() {
            self.topics.values_mut().filter(|topic| topic.state != State::Live).for_each(|topic| topic.asked = false);
        }
        let mut words: Vec<Said> = self.left.drain(..).map(Said::Unsubscribe).collect();
        words.extend(self.unfound.take().map(Said::Confirm));
        for (channel, topic) in &mut self.topics {
            if !std::mem::replace(&mut topic.asked, true) {
                words.push(Said::Subscribe(channel.clone()));
            }
        }
        if self.silent_at() <= now {
            if !self.said.is_empty() {
                return self.give_up(now, actions);
            }
            words.push(Said::Ping);
        }
        self.say(words, now, actions);
    }

    fn say(&mut self, words: Vec<Said>, now: Time, actions: &mut VecDeque<Action>) {
        let mut out = Vec::new();
        for said in words {
            match &said {
                Said::Subscribe(channel) => out.command(&["SUBSCRIBE", channel]),
                Said::Unsubscribe(channel) => out.command(&["UNSUBSCRIBE", channel]),
                Said::Ping | Said::Confirm(_) => out.command(&["PING"]),
            }
            if self.said.is_empty() {
                self.since = now;
            }
            self.said.push_back(said);
        }
        if !out.is_empty() {
            actions.push_back(Action::Send(Which::Inbox, out));
        }
    }

    pub(super) fn dialled(&mut self, config: &Config, actions: &mut VecDeque<Action>) {
        actions.extend(self.line.dialled(config));
    }

    pub(super) fn came(&mut self, config: &Config, now: Time, bytes: &[u8], actions: &mut VecDeque<Action>) {
        self.line.came(bytes);
        self.since = now;
        loop {
            match self.line.next() {
                Ok(None) => break,
                Ok(Some(Came::Welcome(welcome))) => self.heard.push_back(Heard::Met(welcome)),
                Ok(Some(Came::Value(value))) if self.take(config, now, &value) => {}
                Ok(Some(Came::Value(_))) | Err(_) => return self.give_up(now, actions),
            }
        }
        self.look(config, now, actions);
    }

    /// Whether `value` is something that a server may push.
    fn take(&mut self, config: &Config, now: Time, value: &Value) -> bool {
        let parts = match value {
            Value::Array(parts) => parts.as_slice(),
            Value::ServerError(_) => return self.refused(now),
            _ => return self.ponged(now),
        };
        let text = |at: usize| match parts.get(at) {
            Some(Value::BulkString(bytes)) => std::str::from_utf8(bytes).ok(),
            _ => None,
        };
        let channel: Arc<str> = text(1).unwrap_or_default().into();
        match text(0) {
            Some("subscribe") => {
                self.pause = PAUSE.0;
                self.subscribed(channel)
            }
            Some("unsubscribe") => self.answered(&Said::Unsubscribe(channel)),
            Some("pong") => self.ponged(now),
            Some("message") => {
                match self.topics.get(&channel).map(|topic| topic.key.clone()) {
                    Some(Some(key)) => {
                        self.heard.push_back(Heard::Pushed(key, StoreEvent::Changed { path: channel }));
                    }
                    Some(None) => {
                        let pushed = text(2).and_then(|text| config.server.read_push(text));
                        self.heard.extend(pushed.map(|(key, event)| Heard::Pushed(key, event)));
                    }
                    None => {}
                }
                true
            }
            _ => true,
        }
    }

    fn subscribed(&mut self, channel: Arc<str>) -> bool {
        if !self.answered(&Said::Subscribe(channel.clone())) {
            return false;
        }
        match self.topics.get_mut(&channel) {
            Some(Topic { key: None, .. }) => {
                self.heard.push_back(Heard::Subscribed(Subscribed { channel, line: self.ended }));
            }
            Some(topic) => self.heard.push_back(topic.tell(&channel, State::Live)),
            None => {}
        }
        true
    }

    /// Scripts find whoever listens there, or not: behind a proxy that spreads clients over servers, and where the line
    /// has ended.
    pub(super) fn is_found(&mut self, Subscribed { channel, line }: Subscribed, found: bool) {
        if line != self.ended {
            return;
        }
        match self.topics.get_mut(&channel) {
            Some(topic) if found => self.heard.push_back(topic.tell(&channel, State::Live)),
            Some(_) => self.unfound = Some(channel),
            None => {}
        }
    }

    /// Whether that was asked.
    fn ponged(&mut self, now: Time) -> bool {
        match self.said.pop_front() {
            Some(Said::Confirm(channel)) => {
                self.is_refused(&channel, now);
                true
            }
            said => said == Some(Said::Ping),
        }
    }

    fn is_refused(&mut self, channel: &Arc<str>, now: Time) {
        self.again_at.get_or_insert(now.after(REFUSED));
        if let Some(topic) = self.topics.get_mut(channel) {
            self.heard.push_back(topic.tell(channel, State::Unavailable));
        }
    }

    fn answered(&mut self, said: &Said) -> bool {
        let is = self.said.front() == Some(said);
        if is {
            self.said.pop_front();
        }
        is
    }

    /// The server refuses what was said first.
    fn refused(&mut self, now: Time) -> bool {
        let Some(Said::Subscribe(channel)) = self.said.pop_front() else { return false };
        self.is_refused(&channel, now);
        true
    }

    /// The host says that the line ended, or could not be made.
    pub(super) fn ended(&mut self, now: Time, error: io::Error) {
        if !self.line.is_closed() {
            let _ = self.line.ended(error);
            self.lost(now);
        }
    }

    fn give_up(&mut self, now: Time, actions: &mut VecDeque<Action>) {
        actions.extend(self.line.hang_up());
        self.lost(now);
    }

    /// What was subscribed went with the line.
    fn lost(&mut self, now: Time) {
        self.said.clear();
        self.left.clear();
        self.unfound = None;
        self.ended += 1;
        self.dial_at = now.after(self.pause);
        self.pause = (self.pause * 2).min(PAUSE.1);
        for (channel, topic) in &mut self.topics {
            topic.asked = false;
            if topic.state == State::Live {
                self.heard.push_back(topic.tell(channel, State::Closed));
            }
        }
    }

    /// Ends the line, for good.
    pub(super) fn hang_up(&mut self) -> Option<Action> {
        self.topics.clear();
        self.line.hang_up()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lockwright_machines::error::{Error, Kind, Result};

    const WELCOME: &[u8] =
        b"+OK\r\n-ERR unknown\r\n-ERR unknown\r\n*2\r\n$10\r\n1900000000\r\n$1\r\n0\r\n-NOPERM no\r\n-NOPERM no\r\n";
    const SUBSCRIBED: &[u8] = b"*3\r\n$9\r\nsubscribe\r\n$3\r\nlwi\r\n:1\r\n";
    const PONG: &[u8] = b"*2\r\n$4\r\npong\r\n$0\r\n\r\n";

    /// An inbox with its server.
    struct Played {
        inbox: Inbox,
        config: Config,
        now: Time,
    }

    impl Played {
        fn new() -> Result<Self> {
            let mut inbox = Inbox::new();
            inbox.open("lwi");
            Ok(Played { inbox, config: Config::read("redis://h", "wasm")?, now: Time::ZERO.after(QUIET) })
        }

        /// What is sent once so much time has passed.
        fn look(&mut self, after: Duration) -> String {
            self.now = self.now.after(after);
            let mut actions = VecDeque::new();
            self.inbox.look(&self.config, self.now, &mut actions);
            sent(&actions)
        }

        fn came(&mut self, bytes: &[u8]) -> String {
            let mut actions = VecDeque::new();
            self.inbox.came(&self.config, self.now, bytes, &mut actions);
            sent(&actions)
        }

        /// Another line, on which it was subscribed.
        fn subscribe(&mut self) -> Result<Subscribed> {
            self.look(PAUSE.1);
            self.inbox.dialled(&self.config, &mut VecDeque::new());
            assert!(self.came(WELCOME).contains("SUBSCRIBE"), "a new line is asked anew");
            self.came(SUBSCRIBED);
            self.is_subscribed()
        }

        /// The same, where scripts do not find it: what is sent then, and which line that was.
        fn subscribe_in_vain(&mut self) -> Result<(String, Subscribed)> {
            let subscribed = self.subscribe()?;
            self.inbox.is_found(subscribed.clone(), false);
            Ok((self.look(Duration::ZERO), subscribed))
        }

        fn is_subscribed(&mut self) -> Result<Subscribed> {
            let found = self.inbox.heard.drain(..).find_map(|heard| match heard {
                Heard::Subscribed(subscribed) => Some(subscribed),
                _ => None,
            });
            found.ok_or_else(|| Error::new(Kind::Internal, "subscribe", "scripts are not asked for it"))
        }

        fn lose(&mut self) {
            self.inbox.ended(self.now, io::ErrorKind::ConnectionReset.into());
        }

        fn state(&self) -> State {
            self.inbox.topics["lwi"].state
        }
    }

    fn sent(actions: &VecDeque<Action>) -> String {
        let sent = actions.iter().filter_map(|action| match action {
            Action::Send(_, bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
            _ => None,
        });
        sent.collect()
    }

    #[test]
    fn whoever_is_not_found_is_refused_once_its_line_is_known_to_stand_and_asks_again() -> Result<()> {
        let mut played = Played::new()?;
        let (sent, _) = played.subscribe_in_vain()?;
        assert!(sent.contains("PING") && played.state() == State::Closed);
        played.came(PONG);
        assert_eq!(played.state(), State::Unavailable);
        assert!(played.look(REFUSED).contains("SUBSCRIBE"), "rights may be given meanwhile");
        played.came(SUBSCRIBED);
        let subscribed = played.is_subscribed()?;
        played.inbox.is_found(subscribed, true);
        assert_eq!(played.state(), State::Live);
        Ok(())
    }

    #[test]
    fn a_line_that_ended_says_nothing_of_the_next() -> Result<()> {
        let mut played = Played::new()?;
        let (_, before) = played.subscribe_in_vain()?;
        played.lose();
        assert_eq!(played.state(), State::Closed, "it had ended when scripts looked for it");
        let subscribed = played.subscribe()?;
        for found in [true, false] {
            played.inbox.is_found(before.clone(), found);
            assert!(played.look(Duration::ZERO).is_empty() && played.state() == State::Closed);
        }
        played.inbox.is_found(subscribed, true);
        assert_eq!(played.state(), State::Live);
        Ok(())
    }

    #[test]
    fn what_was_refused_is_asked_for_on_the_next_line() -> Result<()> {
        let mut played = Played::new()?;
        played.subscribe_in_vain()?;
        played.came(PONG);
        played.lose();
        let subscribed = played.subscribe()?;
        played.inbox.is_found(subscribed, true);
        assert_eq!(played.state(), State::Live);
        Ok(())
    }
}
