//! What comes to pass between clients and servers, and when, by numbers from a seed: messages take their time, some
//! very long, and the machine of the clients is suspended while the servers go on.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Notify;

use super::random::Random;
use crate::platform::mutex::locked;
use crate::platform::{clock, simulated};
use crate::time::Time;

/// No message is under way for longer.
pub(crate) const LONGEST: Duration = Duration::from_secs(3);

/// See the [module](self).
pub(crate) struct Network {
    random: Mutex<Random>,
    /// What comes to pass, by when, in the order in which it was said.
    events: Mutex<BTreeMap<(Time, u64), (At, Event)>>,
    said: Notify,
    is_bad: Mutex<bool>,
}

type Event = Box<dyn FnOnce() + Send>;

/// Where something comes to pass.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum At {
    Server,
    Client,
}

impl Network {
    /// One on which things go wrong.
    pub(crate) fn new(seed: u64) -> Arc<Self> {
        Arc::new(Network {
            random: Mutex::new(Random(seed)),
            events: Mutex::default(),
            said: Notify::new(),
            is_bad: Mutex::new(true),
        })
    }

    pub(crate) fn after(&self, delay: Duration, at: At, event: impl FnOnce() + Send + 'static) -> Time {
        let due = clock::now().after(delay);
        self.say(due, at, event);
        due
    }

    pub(crate) fn say(&self, due: Time, at: At, event: impl FnOnce() + Send + 'static) {
        let mut events = locked(&self.events);
        let number = events.range((due, 0)..=(due, u64::MAX)).next_back().map_or(0, |((_, last), _)| last + 1);
        events.insert((due, number), (at, Box::new(event)));
        drop(events);
        self.said.notify_one();
    }

    /// How long a message takes.
    pub(crate) fn delay(&self) -> Duration {
        let bad = *locked(&self.is_bad);
        Duration::from_nanos(locked(&self.random).delay_if(bad)).min(LONGEST)
    }

    pub(crate) fn chance(&self, per_thousand: u64) -> bool {
        *locked(&self.is_bad) && locked(&self.random).chance(per_thousand)
    }

    pub(crate) fn below(&self, end: u64) -> Duration {
        Duration::from_nanos(locked(&self.random).below(end))
    }

    /// The place of one among so many: the first also where there is none.
    pub(crate) fn one_of(&self, count: usize) -> usize {
        self.below(count.max(1) as u64).as_nanos() as usize
    }

    /// The next that is due by `end`, there or anywhere.
    fn next(&self, end: Time, there: Option<At>) -> Option<(Time, Event)> {
        let mut events = locked(&self.events);
        let is_due = |(_, (at, _)): &(&(Time, u64), &(At, Event))| there.is_none_or(|there| *at == there);
        let key = *events.range(..=(end, u64::MAX)).find(is_due)?.0;
        events.remove(&key).map(|(_, event)| (key.0, event))
    }

    /// Lets come to pass what does, and looks at the world after each.
    pub(crate) async fn run(self: Arc<Self>, look: impl Fn()) {
        loop {
            while let Some((_, event)) = self.next(clock::now(), None) {
                event();
            }
            look();
            let next = locked(&self.events).first_key_value().map(|((due, _), _)| *due);
            let due = async {
                match next {
                    Some(due) => simulated::sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = due => {}
                () = self.said.notified() => {}
            }
        }
    }

    /// The clients' machine is suspended for so long, and the server is not.
    pub(crate) fn suspend(&self, span: Duration) {
        let end = clock::now().after(span);
        while let Some((due, event)) = self.next(end, Some(At::Server)) {
            simulated::leap(due.since(clock::now()));
            event();
        }
        simulated::leap(end.since(clock::now()));
    }

    /// Nothing goes wrong any more.
    pub(crate) fn calm_down(&self) {
        *locked(&self.is_bad) = false;
    }
}

impl std::fmt::Debug for Network {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Network")
    }
}
