//! The first words on a new connection: who we are, and who the server is. The same for blocking and async callers.

use redis::Value;
use zeroize::Zeroizing;

use crate::wire::{Commands, REDIS};
use lockwright_machines::error::{Error, Kind, Result};
use lockwright_machines::options::Credentials;
use lockwright_machines::time::StoreTime;

/// So many characters of a password are enough to tell it.
const TELLTALE: usize = 8;

/// What is said, in one write, and who must not be quoted.
pub struct Greeting {
    /// Wiped from memory with it: a password is in there.
    pub bytes: Zeroizing<Vec<u8>>,
    asked: Vec<Asked>,
    credentials: Credentials,
    server: &'static str,
}

impl std::fmt::Debug for Greeting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Greeting of {} words", self.asked.len())
    }
}

/// What a server says of itself.
#[derive(Debug, PartialEq, Eq)]
pub struct Welcome {
    pub at: StoreTime,
    /// Differs after each of its starts; unknown where the user may not ask.
    pub run: Option<String>,
    /// By which policy it drops keys, locks among them, once its memory is full; none where it drops none, or the user
    /// may not ask.
    pub evicts: Option<String>,
    /// It follows another server, which takes the writes; not known where the user may not ask.
    pub is_replica: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Asked {
    Login,
    Database,
    /// What older servers, proxies and users with few rights need not answer.
    Courtesy,
    Time,
    Run,
    Memory,
    Role,
    /// What is not asked of a server of locks.
    Else,
}

impl Asked {
    /// Whether nothing works with a server that refuses it.
    fn is_needed(self) -> bool {
        matches!(self, Asked::Login | Asked::Database | Asked::Time | Asked::Else)
    }
}

/// Whether a server that refuses so has no such command, or the user no right to it: no reason to end a connection.
fn is_lack(code: &str, message: Option<&str>) -> bool {
    let is_unknown = |message: &str| message.get(..7).is_some_and(|word| word.eq_ignore_ascii_case("unknown"));
    code == "NOPERM" || (code == "ERR" && message.is_some_and(is_unknown))
}

impl Greeting {
    /// To a server that keeps locks in the database of that number, which says too whether it `follows` another, if
    /// that matters.
    pub fn new(db: u32, follows: bool, credentials: Credentials) -> Self {
        let mut greeting = Self::of(credentials);
        if db != 0 {
            greeting.ask(Asked::Database, &["SELECT", &db.to_string()]);
        }
        greeting.ask(Asked::Courtesy, &["CLIENT", "SETNAME", "lockwright"]);
        greeting.ask(Asked::Courtesy, &["CLIENT", "SETINFO", "LIB-NAME", "lockwright"]);
        greeting.ask(Asked::Courtesy, &["CLIENT", "SETINFO", "LIB-VER", env!("CARGO_PKG_VERSION")]);
        greeting.ask(Asked::Time, &["TIME"]);
        greeting.ask(Asked::Run, &["INFO", "server"]);
        greeting.ask(Asked::Memory, &["INFO", "memory"]);
        if follows {
            greeting.ask(Asked::Role, &["INFO", "replication"]);
        }
        greeting
    }

    /// The same to what errors call `server`.
    #[must_use]
    pub fn to(self, server: &'static str) -> Self {
        Greeting { server, ..self }
    }

    /// One question alone, whose answer is [`answer`](Self::answer).
    pub fn question(credentials: Credentials, words: &[&str]) -> Self {
        let mut greeting = Self::of(credentials);
        greeting.ask(Asked::Else, words);
        greeting
    }

    fn of(credentials: Credentials) -> Self {
        let mut greeting = Greeting {
            bytes: Zeroizing::default(),
            asked: Vec::new(),
            credentials: credentials.clone(),
            server: REDIS,
        };
        let Credentials { user, password } = &credentials;
        match (user.as_str(), password.as_str()) {
            ("", "") => {}
            ("", password) => greeting.ask(Asked::Login, &["AUTH", password]),
            (user, password) => greeting.ask(Asked::Login, &["AUTH", user, password]),
        }
        greeting
    }

    /// The answer to a question.
    ///
    /// # Errors
    /// As [`read`](Self::read), and for whatever the question is refused with.
    pub fn answer(&self, answers: &[Value]) -> Result<Value> {
        self.read(answers)?;
        answers.last().cloned().ok_or_else(ended)
    }

    fn ask(&mut self, asked: Asked, words: &[&str]) {
        self.asked.push(asked);
        self.bytes.command(words);
    }

    /// How many answers there will be.
    pub fn answers(&self) -> usize {
        self.asked.len()
    }

    /// Reads the answers.
    ///
    /// # Errors
    /// The first refusal that matters: `auth`, `invalid_config` for a database that is not there, `unavailable` for a
    /// server that cannot serve yet, `protocol` for anything that such a server would not say.
    pub fn read(&self, answers: &[Value]) -> Result<Welcome> {
        let mut welcome = Welcome { at: StoreTime(0), run: None, evicts: None, is_replica: false };
        for (at, (asked, answer)) in self.asked.iter().zip(answers).enumerate() {
            let is_last_word = at + 1 == answers.len() && answers.len() < self.asked.len();
            match (asked, answer) {
                (asked, Value::ServerError(error))
                    if asked.is_needed() || (is_last_word && !is_lack(error.code(), error.details())) =>
                {
                    return Err(self.refused(*asked, error.code(), error.details().unwrap_or_default()));
                }
                (Asked::Login | Asked::Database, Value::Okay) | (Asked::Courtesy | Asked::Else, _) => {}
                (Asked::Time, answer) if time(answer).is_some() => welcome.at = time(answer).unwrap_or_default(),
                (Asked::Run, answer) => welcome.run = said(answer, "run_id"),
                (Asked::Memory, answer) => welcome.evicts = evicts(answer),
                (Asked::Role, answer) => welcome.is_replica = said(answer, "role").is_some_and(|role| role != "master"),
                _ => {
                    let message =
                        format!("the server does not greet as {} does; see what answers at that address", self.server);
                    return Err(Error::new(Kind::Protocol, "connect", message));
                }
            }
        }
        if answers.len() < self.asked.len() {
            return Err(ended());
        }
        Ok(welcome)
    }

    fn refused(&self, asked: Asked, code: &str, message: &str) -> Error {
        let (kind, advice) = match (asked, code) {
            (_, "DENIED") => (Kind::Auth, "the server is in protected mode; give it a password"),
            (_, "LOADING" | "MASTERDOWN" | "BUSY") => {
                (Kind::Unavailable, "the server is not ready yet; it will serve later")
            }
            (_, "ERR") if message.starts_with("max number of clients") => {
                (Kind::Unavailable, "the server has too many connections; close some, or raise its maxclients")
            }
            (_, "NOAUTH") => (Kind::Auth, "the server wants a password: scheme://user:password@host"),
            (Asked::Login, _) => (Kind::Auth, "the server refuses this user and password"),
            (_, "NOPERM") => (Kind::Auth, "the user lacks a right; the page of this store (Rights) has the ACL line"),
            (Asked::Database, _) => (Kind::InvalidConfig, "the server has no such database; choose one that it has"),
            _ => (Kind::Protocol, "the server does not serve what a lock needs"),
        };
        Error::new(kind, "connect", format!("{advice} ({})", self.quotable(&format!("{code} {message}"))))
    }

    /// `text` as it may be shown: whoever is on the other side may have sent our password back.
    pub fn quotable(&self, text: &str) -> String {
        let shown = text.split(char::is_control).filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ");
        let text: String = text.chars().filter(|c| !c.is_control()).collect();
        // What comes back may be cut off anywhere.
        let password: String = self.credentials.password.chars().filter(|c| !c.is_control()).take(TELLTALE).collect();
        if !password.is_empty() && text.contains(&password) {
            return "it repeats the password".into();
        }
        shown.chars().take(80).collect::<String>().trim_end().to_owned()
    }
}

fn ended() -> Error {
    Error::new(Kind::Unavailable, "connect", "the server ended the connection while greeting; see its log")
}

/// The server's clock in an answer to `TIME`.
pub fn time(answer: &Value) -> Option<StoreTime> {
    let Value::Array(parts) = answer else { return None };
    let [Value::BulkString(seconds), Value::BulkString(micros)] = parts.as_slice() else { return None };
    let number = |bytes: &[u8]| std::str::from_utf8(bytes).ok()?.parse::<i64>().ok();
    Some(StoreTime(number(seconds)?.checked_mul(1_000_000)?.checked_add(number(micros)?)?))
}

/// What an answer to `INFO` says of `what`.
fn said(answer: &Value, what: &str) -> Option<String> {
    let Value::BulkString(bytes) = answer else { return None };
    let text = std::str::from_utf8(bytes).ok()?;
    let value = text.lines().find_map(|line| line.strip_prefix(what)?.strip_prefix(':'))?;
    Some(value.trim().to_owned())
}

fn evicts(answer: &Value) -> Option<String> {
    let is_limited = said(answer, "maxmemory").is_some_and(|limit| limit != "0");
    said(answer, "maxmemory_policy").filter(|policy| is_limited && policy != "noeviction")
}

#[cfg(test)]
mod tests {
    use super::*;
    use lockwright_machines::address;
    use lockwright_machines::options::ConnectOptions;
    use lockwright_machines::uri::Uri;

    use crate::place::Place;

    fn greeting(address: &str) -> Greeting {
        let mut uri = Uri::parse(address, ConnectOptions::default()).unwrap();
        Greeting::new(Place::read(&mut uri).unwrap().db, false, address::credentials(uri.url()).unwrap())
    }

    fn error(line: &str) -> Value {
        redis::parse_redis_value(format!("-{line}\r\n").as_bytes()).unwrap()
    }

    #[test]
    fn the_first_refusal_that_matters_is_told() {
        let plain = greeting("redis://h");
        let user = greeting("redis://u:hunter2@h/4");
        for (greeting, answers, kind) in [
            (&plain, vec![error("NOAUTH Authentication required.")], Kind::Auth),
            (&plain, vec![error("DENIED Redis is running in protected mode")], Kind::Auth),
            (&plain, vec![error("ERR max number of clients reached")], Kind::Unavailable),
            (&plain, vec![Value::Okay, error("ERR unknown subcommand 'SETINFO'. Try CLIENT HELP.")], Kind::Unavailable),
            (&plain, vec![Value::Okay, error("ERR Unknown subcommand for 'SETINFO'")], Kind::Unavailable),
            (&plain, vec![error("NOPERM this user has no permissions to run 'client|setname'")], Kind::Unavailable),
            (&plain, vec![Value::Okay, error("ERR this proxy is closing")], Kind::Protocol),
            (&user, vec![error("WRONGPASS invalid username-password pair")], Kind::Auth),
            (&user, vec![error("ERR Client sent AUTH, but no password is set")], Kind::Auth),
            (&user, vec![Value::Okay, error("ERR DB index is out of range")], Kind::InvalidConfig),
            (&user, vec![Value::Int(1)], Kind::Protocol),
            (&plain, vec![], Kind::Unavailable),
        ] {
            assert_eq!(greeting.read(&answers).unwrap_err().kind(), kind, "{answers:?}");
        }
    }

    #[test]
    fn a_server_that_drops_keys_when_it_is_full_says_so() {
        for (says, evicts) in [
            ("maxmemory:0\r\nmaxmemory_policy:allkeys-lru\r\n", None),
            ("maxmemory:1048576\r\nmaxmemory_policy:noeviction\r\n", None),
            (
                "# Memory\r\nmaxmemory:1048576\r\nmaxmemory_human:1M\r\nmaxmemory_policy:volatile-ttl\r\n",
                Some("volatile-ttl"),
            ),
            ("maxmemory:1\r\n", None),
        ] {
            let answers =
                [Value::Okay, Value::Okay, Value::Okay, clock(), error("NOPERM no"), Value::BulkString(says.into())];
            assert_eq!(greeting("redis://h").read(&answers).unwrap().evicts.as_deref(), evicts, "{says}");
        }
    }

    fn clock() -> Value {
        Value::Array(["1900000000", "0"].map(|part| Value::BulkString(part.into())).to_vec())
    }

    #[test]
    fn a_password_that_comes_back_is_not_told() {
        let greeting = greeting("redis://u:hunter2@h");
        let told = greeting.read(&[error("ERR unknown command 'AUTH' 'u' 'hunter2'")]).unwrap_err().to_string();
        assert!(!told.contains("hunter2"), "{told}");
    }
}
