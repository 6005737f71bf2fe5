//! Which server is the master, as the sentinels say that watch over it and its replicas.
//!
//! Each new connection begins with the question. Whoever is named is asked for its role, since a sentinel may be
//! behind, and one that is a replica by then is not written to; the next sentinel may know better. A connection
//! serves for [`NAMED`] after it: a master that was stopped, and goes on after another one took over, takes it for
//! some seconds that it still is the master, and no reply of its own would tell.
//!
//! Source: the [guidelines for clients](https://redis.io/docs/latest/develop/reference/sentinel-clients/).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use lockwright_machines::error::{is_nobody_there, with_nobody_there};
use redis::Value;

use super::config::{Config, Endpoint, Sentinels};
use super::failover::NAMED;
use super::greeting::{Greeting, Welcome};
use super::tasks;
use crate::error::{Error, Kind, Result};
use crate::platform::{clock, runtime};
use crate::protocol::Reply;
use crate::stores::{Answered, Outcome, not_sent};
use crate::time::Time;

/// This part of the time for a new connection is one sentinel's.
const SHARE: u32 = 4;

/// Asks one sentinel after the other.
pub(super) struct Search<'a> {
    config: &'a Config,
    sentinels: &'a Sentinels,
    first: usize,
    asked: usize,
    named: Vec<Endpoint>,
    /// When the last of them was.
    named_at: Time,
    /// Why a server was not to be had, a sentinel did not answer, or none knew the master.
    failed: Option<Error>,
    silent: Option<Error>,
    unknown: Option<Error>,
}

impl Sentinels {
    /// Begins to look for the server of `config`.
    pub(super) fn search<'a>(&'a self, config: &'a Config) -> Search<'a> {
        let first = self.first.load(Ordering::Relaxed);
        let (named, failed, silent, unknown) = (Vec::new(), None, None, None);
        let named_at = clock::now();
        Search { config, sentinels: self, first, asked: 0, named, named_at, failed, silent, unknown }
    }

    /// What `sentinel` knows of the master, a name and a value a line.
    async fn describe(&self, sentinel: &Config) -> Result<String> {
        let greeting = Greeting::question(sentinel.login.credentials()?, &["SENTINEL", "MASTER", &self.master]);
        let (_, answers) = tasks::introduce(sentinel, &greeting, sentinel.connect_timeout / SHARE).await?;
        let Value::Array(parts) = greeting.answer(&answers)? else { return Err(no_sentinel()) };
        let text = |part: &Value| match part {
            Value::BulkString(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            _ => String::new(),
        };
        let lines = parts.chunks(2).map(|pair| Vec::from_iter(pair.iter().map(text)).join(":"));
        Ok(Vec::from_iter(lines).join("\n"))
    }

    /// Whom `sentinel` takes for the master, if it knows of any.
    async fn ask(&self, sentinel: &Config) -> Result<Option<Endpoint>> {
        let credentials = sentinel.login.credentials()?;
        let words = ["SENTINEL", "GET-MASTER-ADDR-BY-NAME", &self.master];
        let greeting = Greeting::question(credentials, &words);
        let (_, answers) = tasks::introduce(sentinel, &greeting, sentinel.connect_timeout / SHARE).await?;
        match greeting.answer(&answers)? {
            Value::Nil => Ok(None),
            answer => endpoint(&answer).map(Some).ok_or_else(no_sentinel),
        }
    }
}

/// What the sentinel with this number says of its master, in the background runtime.
pub(super) async fn look(config: &Arc<Config>, number: usize) -> Answered {
    let (sent, config) = (clock::now(), config.clone());
    let looks = async move {
        let all = config.sentinels.as_ref()?;
        let sentinel = all.each.get(number)?;
        let said = all.describe(sentinel).await;
        let said = said.map_or_else(refused, |said| Some(Reply::Text(said)));
        Some(Reply::List([Reply::Text(sentinel.endpoint.shown())].into_iter().chain(said).collect()))
    };
    match runtime::handle() {
        Ok(handle) => {
            let seen = handle.spawn(looks).await.ok().flatten().unwrap_or(Reply::Nil);
            Answered { sent, outcome: Outcome::Replies(vec![seen]) }
        }
        Err(error) => not_sent(error),
    }
}

/// What a sentinel says that says nothing of the master; nothing where it is not there.
fn refused(error: Error) -> Option<Reply> {
    (error.kind() != Kind::Unavailable).then(|| Reply::Text(format!("refused:{}", error.context())))
}

impl Search<'_> {
    /// The next server that is said to be the master; none once there is nobody left to ask.
    pub(super) async fn next(&mut self) -> Option<Config> {
        let all = &self.sentinels.each;
        while self.asked < all.len() {
            let number = (self.first + self.asked) % all.len();
            self.asked += 1;
            self.named_at = clock::now();
            let sentinel = &all[number];
            match self.sentinels.ask(sentinel).await {
                Ok(Some(endpoint)) if self.named.contains(&endpoint) => {}
                Ok(Some(endpoint)) => {
                    self.sentinels.first.store(number, Ordering::Relaxed);
                    self.named.push(endpoint.clone());
                    match self.config.clone().at(endpoint) {
                        Ok(config) => return Some(Config { is_named: true, ..config }),
                        Err(error) => self.failed(error),
                    }
                }
                Ok(None) => self.unknown = Some(unknown(&self.sentinels.master, sentinel)),
                Err(error) => self.silent = Some(said_by(sentinel, &error)),
            }
        }
        None
    }

    /// The server that was named last `said` this; whether that makes it fit. One that was stopped when it was named,
    /// and goes on now, may have been replaced meanwhile.
    pub(super) fn is_good(&mut self, named: &Config, said: &Welcome) -> bool {
        let at = named.endpoint.shown();
        let message = match said.is_replica {
            true => {
                format!("{at} is a replica, though a sentinel named it as the master; a fail-over may be under way")
            }
            false if clock::now().since(self.named_at) > NAMED => {
                format!("{at} took so long to answer that another server may be the master by now")
            }
            false => return true,
        };
        self.failed(Error::new(Kind::Unavailable, "connect", message));
        false
    }

    /// The server that was named last is not to be had.
    pub(super) fn failed(&mut self, error: Error) {
        self.failed = Some(error);
    }

    /// Why there is no master. That a sentinel knows none counts if all others say so, too: it may be a new one.
    pub(super) fn error(self) -> Error {
        let nobody = || Error::new(Kind::Internal, "connect", "no sentinel was asked; please report this");
        self.failed.or(self.silent).or(self.unknown).unwrap_or_else(nobody)
    }
}

/// `host` and `port`, as a sentinel answers them.
fn endpoint(answer: &Value) -> Option<Endpoint> {
    let Value::Array(parts) = answer else { return None };
    let [Value::BulkString(host), Value::BulkString(port)] = parts.as_slice() else { return None };
    let [host, port] = [host, port].map(|part| std::str::from_utf8(part).ok());
    Some(Endpoint::Tcp { host: host.filter(|host| !host.is_empty())?.to_owned(), port: port?.parse().ok()? })
}

fn no_sentinel() -> Error {
    Error::new(Kind::Protocol, "connect", "it does not answer as a sentinel does; give the sentinels' hosts and ports")
}

fn unknown(master: &str, sentinel: &Config) -> Error {
    let at = sentinel.endpoint.shown();
    let message = format!("the sentinel {at} knows no master {master:?}; correct the name behind the hosts");
    Error::invalid("connect", message)
}

fn said_by(sentinel: &Config, error: &Error) -> Error {
    let (at, why) = (sentinel.endpoint.shown(), error.context());
    let login = if error.kind() == Kind::Auth { " (for sentinels: sentinel_user and sentinel_password)" } else { "" };
    let said = Error::new(error.kind(), "connect", format!("the sentinel {at}: {why}{login}")).caused_by(error.clone());
    if is_nobody_there(error) { with_nobody_there(said) } else { said }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_host_and_a_port_is_an_answer() {
        let answer =
            |parts: &[&str]| Value::Array(parts.iter().map(|part| Value::BulkString((*part).into())).collect());
        let good = Endpoint::Tcp { host: "10.0.0.1".into(), port: 6379 };
        assert_eq!(endpoint(&answer(&["10.0.0.1", "6379"])), Some(good));
        for parts in [&["10.0.0.1"][..], &["", "6379"], &["h", "port"], &["h", "1", "2"]] {
            assert_eq!(endpoint(&answer(parts)), None, "{parts:?}");
        }
        assert_eq!(endpoint(&Value::Okay), None);
    }
}
