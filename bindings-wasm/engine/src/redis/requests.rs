//! The line that is asked: writes go out one behind the other, and are answered in that order.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use lockwright_machines::error::Error;
use lockwright_machines::protocol;
use lockwright_machines::session::margin;
use lockwright_machines::store_clock::StoreClock;
use lockwright_machines::stores::redis::layouts;
use lockwright_machines::time::{StoreTime, Time};
use lockwright_resp::Value;
use lockwright_resp::exchange::{Exchange, Manner};
use lockwright_resp::greeting::{self, Welcome};
use lockwright_resp::shortcut::{self, ShortcutProbe};
use lockwright_resp::wire::{Commands, Scripts};

use super::config::Config;
use super::inbox::Subscribed;
use super::line::{Action, Came, Line, Which};
use crate::store::{Answered, Job};

/// Whom an answer is for.
#[derive(Clone, Debug)]
pub(super) enum Asker {
    /// The engine.
    Engine(Job),
    /// The inbox, which wants to know whether scripts find it there.
    Finds(Subscribed),
}

/// A write that ended: whose, when it left, and how.
pub(super) struct Ended {
    pub(super) asker: Asker,
    pub(super) sent: Time,
    pub(super) answered: Answered,
}

struct Flight {
    asker: Asker,
    exchange: Exchange<protocol::Requests>,
    sent: Time,
    not_after: StoreTime,
    deadline: Time,
    /// Asked before the requests: the time, the commands that the server has.
    asks_time: bool,
    asks_commands: bool,
    /// How many values are still to come, and those that did.
    expected: usize,
    answers: Vec<Value>,
}

/// From when on a write sent then cannot be executed any more: the server's clock forbids it.
fn void_after(sent: Time, lasts: Duration) -> Time {
    sent.after(lasts).after(margin(lasts))
}

/// See the [module](self).
pub(super) struct Requests {
    line: Line,
    known: ShortcutProbe,
    scripts: Scripts,
    clock: StoreClock,
    waiting: VecDeque<(Asker, protocol::Requests)>,
    flights: VecDeque<Flight>,
    /// Which run of the server was met last.
    run: Option<String>,
    done: VecDeque<Ended>,
    restarted: bool,
}

impl Requests {
    pub(super) fn new() -> Self {
        Requests {
            line: Line::new(Which::Requests),
            known: ShortcutProbe::default(),
            scripts: Scripts::new(layouts::by_digest()),
            clock: StoreClock::default(),
            waiting: VecDeque::new(),
            flights: VecDeque::new(),
            run: None,
            done: VecDeque::new(),
            restarted: false,
        }
    }

    /// Sends these as soon as that can be.
    pub(super) fn ask(&mut self, asker: Asker, requests: protocol::Requests) {
        self.waiting.push_back((asker, requests));
    }

    /// The next write that ended.
    pub(super) fn next_done(&mut self) -> Option<Ended> {
        self.done.pop_front()
    }

    /// Whether another run of the server was met than before, once.
    pub(super) fn take_restarted(&mut self) -> bool {
        std::mem::take(&mut self.restarted)
    }

    /// Whether nothing is asked and not answered.
    pub(super) fn is_quiet(&self) -> bool {
        self.waiting.is_empty() && self.flights.is_empty()
    }

    pub(super) fn learn(&mut self, now: Time, at: StoreTime) {
        self.clock.learn(now, at);
    }

    /// A connection greeted.
    pub(super) fn meet(&mut self, welcome: &Welcome, now: Time) {
        self.clock.learn(now, welcome.at);
        self.restarted |= welcome.run.is_some() && self.run.is_some() && welcome.run != self.run;
        self.run = welcome.run.clone().or(self.run.take());
    }

    pub(super) fn due(&self) -> Option<Time> {
        self.line.due().into_iter().chain(self.flights.front().map(|flight| flight.deadline)).min()
    }

    /// What there is to do at `now` for what is waiting.
    pub(super) fn go(&mut self, config: &Config, now: Time, actions: &mut VecDeque<Action>) {
        if self.waiting.is_empty() {
            return;
        }
        if self.line.is_closed() {
            actions.push_back(self.line.dial(config, now));
        }
        if !self.line.is_open() {
            return;
        }
        let mut out = Vec::new();
        while let Some((asker, requests)) = self.waiting.pop_front() {
            self.depart(config, now, asker, requests, &mut out);
        }
        actions.push_back(Action::Send(Which::Requests, out));
    }

    fn depart(&mut self, config: &Config, now: Time, asker: Asker, requests: protocol::Requests, out: &mut Vec<u8>) {
        let lasts = config.settings.options.response_timeout;
        let not_after = self.clock.at(now).after(lasts);
        let asks_time = self.clock.is_old(now);
        if asks_time {
            out.command(&["TIME"]);
        }
        let asks_commands = self.known.asks(&requests);
        if asks_commands {
            shortcut::ask(out);
        }
        let exchange = Exchange::new(requests, &self.known, Manner::default());
        exchange.write(&self.scripts, not_after, out);
        let expected = exchange.open() + usize::from(asks_time) + usize::from(asks_commands);
        self.flights.push_back(Flight {
            asker,
            exchange,
            sent: now,
            not_after,
            deadline: now.after(lasts),
            asks_time,
            asks_commands,
            expected,
            answers: Vec::with_capacity(expected),
        });
    }

    pub(super) fn dialled(&mut self, config: &Config, actions: &mut VecDeque<Action>) {
        actions.extend(self.line.dialled(config));
    }

    pub(super) fn came(&mut self, config: &Config, now: Time, bytes: &[u8], actions: &mut VecDeque<Action>) {
        self.line.came(bytes);
        loop {
            let heard = match self.line.next() {
                Ok(None) => break,
                Ok(Some(Came::Value(value))) => self.hear(config, now, value, actions),
                Ok(Some(Came::Welcome(welcome))) => {
                    self.known = ShortcutProbe::of(welcome.run.as_deref());
                    self.meet(&welcome, now);
                    Ok(())
                }
                Err(error) => Err(error),
            };
            if let Err(error) = heard {
                self.give_up(config, now, error, actions);
            }
        }
        self.go(config, now, actions);
    }

    /// One value more for the write that is to be answered next.
    fn hear(&mut self, config: &Config, now: Time, value: Value, actions: &mut VecDeque<Action>) -> Result<(), Error> {
        let Some(mut flight) = self.flights.pop_front() else {
            return Err(lockwright_resp::wire::lost(io::ErrorKind::InvalidData.into()));
        };
        flight.answers.push(value);
        if flight.answers.len() < flight.expected {
            self.flights.push_front(flight);
            return Ok(());
        }
        let mut answers = std::mem::take(&mut flight.answers).into_iter();
        if std::mem::take(&mut flight.asks_time)
            && let Some(at) = answers.next().as_ref().and_then(greeting::time)
        {
            self.clock.learn(now, at);
        }
        if std::mem::take(&mut flight.asks_commands)
            && let Some(answer) = answers.next()
        {
            self.known.learn(&answer);
        }
        let taken = flight.exchange.take(answers, &mut self.known);
        if let Err(error) = taken {
            self.flights.push_front(flight);
            return Err(error);
        }
        flight.expected = flight.exchange.open();
        if flight.expected > 0 {
            let mut out = Vec::new();
            flight.exchange.write(&self.scripts, flight.not_after, &mut out);
            actions.push_back(Action::Send(Which::Requests, out));
            self.flights.push_back(flight);
            return Ok(());
        }
        let Flight { asker, exchange, sent, .. } = flight;
        let lasts = config.settings.options.response_timeout;
        match exchange.replies() {
            Ok(replies) => self.done.push_back(Ended { asker, sent, answered: Answered::Replies(replies) }),
            Err(error) => {
                let void_after = void_after(sent, lasts);
                self.done.push_back(Ended { asker, sent, answered: Answered::Unknown { error, void_after } });
            }
        }
        Ok(())
    }

    /// The host says that the line ended, or could not be made.
    pub(super) fn ended(&mut self, config: &Config, now: Time, error: io::Error, actions: &mut VecDeque<Action>) {
        if self.line.is_closed() {
            return;
        }
        let was_open = self.line.is_open();
        let error = self.line.ended(error);
        self.tell_all(config, now, &error, was_open);
        self.go(config, now, actions);
    }

    /// The line is of no use any more.
    fn give_up(&mut self, config: &Config, now: Time, error: Error, actions: &mut VecDeque<Action>) {
        let was_open = self.line.is_open();
        actions.extend(self.line.hang_up());
        self.tell_all(config, now, &error, was_open);
    }

    /// What was sent has no answer; what waits was not sent, unless another line may be made for it.
    fn tell_all(&mut self, config: &Config, now: Time, error: &Error, was_open: bool) {
        let error = error.clone().on_store(config.settings.address.clone());
        let lasts = config.settings.options.response_timeout;
        for Flight { asker, sent, .. } in self.flights.drain(..) {
            let void_after = void_after(sent, lasts);
            let answered = Answered::Unknown { error: error.clone(), void_after };
            self.done.push_back(Ended { asker, sent, answered });
        }
        if !was_open {
            for (asker, _) in self.waiting.drain(..) {
                self.done.push_back(Ended { asker, sent: now, answered: Answered::NotSent(error.clone()) });
            }
        }
    }

    /// Time passed.
    pub(super) fn look(&mut self, config: &Config, now: Time, actions: &mut VecDeque<Action>) {
        if self.due().is_some_and(|due| due <= now) {
            let was_open = self.line.is_open();
            actions.push_back(Action::HangUp(Which::Requests));
            let error = self.line.ended(io::ErrorKind::TimedOut.into());
            self.tell_all(config, now, &error, was_open);
        }
        self.go(config, now, actions);
    }

    /// Ends the line.
    pub(super) fn hang_up(&mut self) -> Option<Action> {
        self.line.hang_up()
    }
}
