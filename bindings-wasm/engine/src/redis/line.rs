//! One connection, as far as it is known without a socket: dialled, greeted, open; what is read on it, and until when
//! that has to come.

use std::io;

use lockwright_machines::error::{Error, Kind};
use lockwright_machines::reach;
use lockwright_machines::time::Time;
use lockwright_resp::Value;
use lockwright_resp::greeting::{Greeting, Welcome};
use lockwright_resp::input::Input;
use lockwright_resp::wire;

use super::config::Config;
use super::server::Server;

/// Which of the two connections of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// The one that is asked and answers.
    Requests,
    /// The one on which the server pushes.
    Inbox,
}

/// What is to be done outside.
#[derive(Debug, PartialEq, Eq)]
pub enum Action {
    /// Make the connection, and tell whether that is done.
    Dial(Which),
    /// Send these bytes on it, after all those before.
    Send(Which, Vec<u8>),
    /// End it, or leave off making it; nothing more is to be told of it.
    HangUp(Which),
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Closed,
    /// To be connected by then.
    Dialling(Time),
    /// To be greeted by then; what was answered so far.
    Greeting(Greeting, Vec<Value>, Time),
    Open,
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Line {
    which: Which,
    state: State,
    /// By TLS.
    is_secure: bool,
    server: Server,
    input: Input,
}

/// What came on a line.
pub(super) enum Came {
    Welcome(Welcome),
    Value(Value),
}

impl Line {
    pub(super) fn new(which: Which) -> Self {
        Line { which, state: State::Closed, is_secure: false, server: Server::Redis, input: Input::default() }
    }

    pub(super) fn is_closed(&self) -> bool {
        matches!(self.state, State::Closed)
    }

    pub(super) fn is_open(&self) -> bool {
        matches!(self.state, State::Open)
    }

    /// Begins to make it.
    pub(super) fn dial(&mut self, config: &Config, now: Time) -> Action {
        self.input = Input::default();
        (self.is_secure, self.server) = (config.is_secure, config.server);
        self.state = State::Dialling(now.after(config.settings.options.connect_timeout));
        Action::Dial(self.which)
    }

    /// It is connected: the first words.
    pub(super) fn dialled(&mut self, config: &Config) -> Option<Action> {
        let State::Dialling(by) = self.state else { return None };
        let greeting = Greeting::new(config.db, false, config.settings.login.0.clone()).to(config.server.called());
        let words = greeting.bytes.to_vec();
        self.state = State::Greeting(greeting, Vec::new(), by);
        Some(Action::Send(self.which, words))
    }

    /// By when something has to have come for it to be made.
    pub(super) fn due(&self) -> Option<Time> {
        match self.state {
            State::Dialling(by) | State::Greeting(_, _, by) => Some(by),
            State::Closed | State::Open => None,
        }
    }

    /// These bytes came; [`next`](Self::next) has what they are.
    pub(super) fn came(&mut self, bytes: &[u8]) {
        if !self.is_closed() {
            self.input.brought(bytes);
        }
    }

    /// The next that came on it.
    ///
    /// # Errors
    /// It is of no use any more, and why.
    pub(super) fn next(&mut self) -> Result<Option<Came>, Error> {
        loop {
            if self.is_closed() {
                return Ok(None);
            }
            let value = match self.input.value() {
                Ok(Some(value)) => value,
                Ok(None) => return Ok(None),
                Err(error) => return Err(self.broken(error)),
            };
            let State::Greeting(greeting, answers, _) = &mut self.state else { return Ok(Some(Came::Value(value))) };
            answers.push(value);
            if answers.len() == greeting.answers() {
                let welcome = greeting.read(answers)?;
                self.state = State::Open;
                return Ok(Some(Came::Welcome(welcome)));
            }
        }
    }

    /// Why it ended, or could not be made, once `error` was met on it. Nothing more is to be expected of it.
    pub(super) fn ended(&mut self, error: io::Error) -> Error {
        match std::mem::take(&mut self.state) {
            State::Dialling(_) if error.kind() == io::ErrorKind::PermissionDenied => {
                let message = "the host lets nothing here use its network; grant TCP, and name lookups for a host that has a name";
                Error::new(Kind::Auth, "connect", message).caused_by(error)
            }
            State::Open => wire::lost(error),
            // Whoever ends the connection has said why in the last answer; whoever is slow, or fails by itself, has
            // not.
            State::Greeting(greeting, answers, _) if !answers.is_empty() && is_ended(error.kind()) => {
                greeting.read(&answers).err().unwrap_or_else(|| wire::lost(error))
            }
            // It is reached by a transport of the caller's, whose scheme is not in the address.
            _ if self.server == Server::Ours && is_ended(error.kind()) => {
                let message = "the lock server ended the connection before it greeted; see its log";
                Error::new(Kind::Unavailable, "connect", message).caused_by(error)
            }
            _ => reach::unreachable(["redis://", "rediss://"], self.is_secure, error),
        }
    }

    /// Forgets it.
    pub(super) fn hang_up(&mut self) -> Option<Action> {
        let was_open = !self.is_closed();
        self.state = State::Closed;
        was_open.then_some(Action::HangUp(self.which))
    }

    fn broken(&self, error: io::Error) -> Error {
        let server = self.server.called();
        match (&self.input.watch.broken, &self.state) {
            // What is quoted of it may have the password in it.
            (Some((broken, seen)), State::Greeting(greeting, ..)) => broken.explain(server, &greeting.quotable(seen)),
            (Some((broken, _)), _) => broken.explain(server, ""),
            (None, _) => wire::lost(error),
        }
    }
}

/// Whether the other side ended the connection.
fn is_ended(kind: io::ErrorKind) -> bool {
    matches!(kind, io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use super::*;

    type Tried = Result<(), Error>;

    /// What becomes of a connection to that address on which these bytes came, and then its end.
    fn told(address: &str, bytes: &[u8]) -> Result<String, Error> {
        let config = Config::read(address, "wasm")?;
        let mut line = Line::new(Which::Requests);
        line.dial(&config, Time::ZERO);
        line.dialled(&config);
        line.came(bytes);
        let broken = line.next().err();
        let error = broken.unwrap_or_else(|| line.ended(io::ErrorKind::UnexpectedEof.into()));
        Ok(error.to_string())
    }

    #[test]
    fn an_error_names_the_server_that_the_address_is_of() -> Tried {
        let others = [b"HTTP/1.1 400 Bad Request\r\n".as_slice(), b"\x15\x03\x03\x00\x02", &b":1\r\n".repeat(6), b""];
        for bytes in others {
            let ours = told("lockwright://orders", bytes)?;
            assert!(ours.contains("lock server") && !ours.to_lowercase().contains("redis"), "{ours}");
            let redis = told("redis://h", bytes)?.replace("redis://h:6379/0", "");
            assert!(redis.to_lowercase().contains("redis") && !redis.contains("lock server"), "{redis}");
        }
        Ok(())
    }
}
