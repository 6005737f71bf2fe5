//! A shim of recipes that are often copied and wrong: `lockwright-shim-naive MISTAKE [SECONDS AHEAD]`. Scenarios have
//! to convict each; `tests/mistakes.rs` sees to it.
//!
//! | mistake | what it does |
//! |---|---|
//! | `setnx-expire` | `SETNX`, then `EXPIRE` in a second request |
//! | `del` | releases by `DEL`, whoever holds the lock |
//! | `get-del` | releases by `GET`, compares, then `DEL` |
//! | `getset` | writes its own clock's end of the hold, `GETSET` once that is past, releases by `DEL` |
//!
//! Where a process may be held up between two requests, this one always is. None of them renews.

use std::collections::HashMap;
use std::io::{BufRead, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use lockwright_conformance::clock;
use redis::{Commands, Connection, ExistenceCheck, RedisResult, SetExpiry, SetOptions};
use serde_json::{Value, json};

const POLL: Duration = Duration::from_millis(10);
/// For how long a process is held up between two requests.
const GAP: Duration = Duration::from_millis(600);

struct Naive {
    mistake: String,
    /// How far this process' clock is ahead, in milliseconds.
    ahead: u64,
    uris: Mutex<HashMap<String, String>>,
    guards: Mutex<HashMap<String, Held>>,
}

/// One hold.
#[derive(Clone)]
struct Held {
    client: String,
    key: String,
    id: String,
    ends: u64,
}

impl Naive {
    fn millis(&self) -> u64 {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_millis()).unwrap_or(0) + self.ahead
    }

    fn connect(&self, client: &str) -> RedisResult<Connection> {
        let uri = self.uris.lock().unwrap_or_else(PoisonError::into_inner)[client].clone();
        redis::Client::open(uri)?.get_connection()
    }

    fn obey(&self, command: &Value) -> RedisResult<Value> {
        let text = |key: &str| command[key].as_str().unwrap_or_default().to_owned();
        match &*text("do") {
            "open" => {
                self.uris.lock().unwrap_or_else(PoisonError::into_inner).insert(text("client"), text("uri"));
                Ok(json!({}))
            }
            "guarantees" => Ok(json!({ "shared": true, "push": false, "fair": false })),
            "acquire" => self.acquire(command, command["timeout"].as_f64()),
            "try" => self.acquire(command, Some(0.0)),
            "extend" => Err((redis::ErrorKind::Client, "lost", "nobody extends these locks".to_owned()).into()),
            "release" => self.release(&self.held(&text("guard"))),
            "state" => {
                let held = self.held(&text("guard"));
                let left = held.ends.saturating_sub(self.millis());
                Ok(json!({ "held": left > 0, "remaining": left as f64 / 1e3, "why": null, "token": 0, "depth": 1 }))
            }
            other => Err((redis::ErrorKind::Client, "cannot", other.to_owned()).into()),
        }
    }

    fn held(&self, guard: &str) -> Held {
        self.guards.lock().unwrap_or_else(PoisonError::into_inner)[guard].clone()
    }

    fn acquire(&self, command: &Value, timeout: Option<f64>) -> RedisResult<Value> {
        let text = |key: &str| command[key].as_str().unwrap_or_default().to_owned();
        let ttl = (command["ttl"].as_f64().unwrap_or(30.0) * 1e3) as u64;
        let id = format!("{}-{}", std::process::id(), command["id"]);
        let mut redis = self.connect(&text("client"))?;
        let begun = std::time::Instant::now();
        loop {
            let held = Held { client: text("client"), key: text("lock"), id: id.clone(), ends: self.millis() + ttl };
            if self.takes(&mut redis, &held, ttl)? {
                self.guards.lock().unwrap_or_else(PoisonError::into_inner).insert(text("guard"), held);
                return Ok(json!({ "token": 0, "depth": 1, "remaining": ttl as f64 / 1e3 }));
            }
            match timeout {
                Some(0.0) => return Ok(json!({ "taken": true })),
                Some(limit) if begun.elapsed().as_secs_f64() > limit => {
                    return Err((redis::ErrorKind::Client, "timeout").into());
                }
                _ => std::thread::sleep(POLL),
            }
        }
    }

    fn takes(&self, redis: &mut Connection, held: &Held, ttl: u64) -> RedisResult<bool> {
        let Held { key, id, ends, .. } = held;
        match &*self.mistake {
            "setnx-expire" => {
                let is_taken: bool = redis.set_nx(key, id)?;
                if is_taken {
                    std::thread::sleep(GAP);
                    redis.pexpire::<_, ()>(key, ttl as i64)?;
                }
                Ok(is_taken)
            }
            "getset" => {
                if redis.set_nx(key, *ends)? {
                    return Ok(true);
                }
                let now = self.millis();
                let current: Option<u64> = redis.get(key)?;
                let is_past = current.is_some_and(|current| current < now);
                Ok(is_past && redis.getset::<_, _, Option<u64>>(key, *ends)? == current)
            }
            _ => {
                let how = SetOptions::default().conditional_set(ExistenceCheck::NX).with_expiration(SetExpiry::PX(ttl));
                Ok(redis.set_options::<_, _, Option<String>>(key, id, how)?.is_some())
            }
        }
    }

    fn release(&self, held: &Held) -> RedisResult<Value> {
        let mut redis = self.connect(&held.client)?;
        if self.mistake == "get-del" {
            let found: Option<String> = redis.get(&held.key)?;
            if found.as_ref() != Some(&held.id) {
                return Ok(json!({ "outcome": if found.is_some() { "stolen" } else { "expired" } }));
            }
            std::thread::sleep(GAP);
        }
        let deleted: bool = redis.del(&held.key)?;
        Ok(json!({ "outcome": if deleted { "released" } else { "expired" } }))
    }
}

fn say(line: &Value) {
    let mut out = std::io::stdout().lock();
    if writeln!(out, "{line}").and_then(|()| out.flush()).is_err() {
        std::process::exit(1);
    }
}

fn main() {
    let mut words = std::env::args().skip(1);
    let mistake = words.next().unwrap_or_default();
    let ahead = words.next().and_then(|word| word.parse::<u64>().ok()).unwrap_or(0) * 1000;
    let naive = Arc::new(Naive { mistake, ahead, uris: Mutex::default(), guards: Mutex::default() });
    say(&json!({ "pid": std::process::id(), "language": "naive" }));
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let command: Value = serde_json::from_str(&line).unwrap_or_default();
        if command["do"] == "exit" {
            break;
        }
        let naive = naive.clone();
        std::thread::spawn(move || {
            let (id, result) = (&command["id"], naive.obey(&command));
            let at = clock::now();
            say(&match result {
                Ok(value) => json!({ "id": id, "at": at, "ok": value }),
                Err(error) => {
                    let code = ["timeout", "lost"].into_iter().find(|code| error.to_string().starts_with(code));
                    json!({ "id": id, "at": at, "error": { "code": code.unwrap_or("error"), "retryable": true, "message": error.to_string(), "debug": "" } })
                }
            });
        });
    }
    std::process::exit(0);
}
