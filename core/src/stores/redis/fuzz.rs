//! What a server may send, whatever it is.

use std::sync::LazyLock;

use redis::{Parser, Value};

use super::config::Config;
use super::greeting::Greeting;
use super::layouts::native_scripts::{CALLS, parse_push};
use super::parse;
use super::wire::{Broken, Frames, REDIS, replies};
use crate::fuzz::{SECRET, chosen, is_readable, is_understood_or_refused};
use crate::options::ConnectOptions;
use crate::protocol::{Arg, Request, StoreEvent};
use crate::uri::Uri;

/// Where the replies in `bytes` end when they arrive in pieces of `step`, and what is wrong with what comes then.
fn ends(bytes: &[u8], step: usize) -> (Vec<usize>, Option<Broken>) {
    let (mut frames, mut ends) = (Frames::default(), Vec::new());
    for (number, piece) in bytes.chunks(step).enumerate() {
        let mut at = 0;
        loop {
            match frames.end(&piece[at..]) {
                Ok(Some(end)) => {
                    at += end;
                    ends.push(number * step + at);
                }
                Ok(None) => break,
                Err(broken) => return (ends, Some(broken)),
            }
        }
    }
    (ends, None)
}

/// The value, with errors as texts: two that say the same may be of other kinds.
fn told(value: Value) -> Value {
    match value {
        Value::ServerError(error) => Value::Array(vec![
            Value::SimpleString(error.code().into()),
            error.details().map_or(Value::Nil, |details| Value::SimpleString(details.into())),
        ]),
        Value::Array(values) => Value::Array(values.into_iter().map(told).collect()),
        value => value,
    }
}

/// Every whole reply in `bytes` that can be parsed. What is measured is what is parsed, or a connection would be out of
/// step; and we read it as the crate does.
fn values(bytes: &[u8]) -> Vec<Value> {
    let (ends, broken) = ends(bytes, bytes.len().max(1));
    let mut start = 0;
    let mut values = Vec::new();
    for end in ends {
        let mut rest = &bytes[start..end];
        let ours = parse::value(rest).ok();
        let parsed = Parser::new().parse_value(&mut rest).ok();
        assert_eq!(ours.clone().map(told), parsed.map(told), "{:?}", bytes[start..end].escape_ascii());
        if let Some(value) = ours {
            assert!(rest.is_empty(), "{:?} is left of {:?}", rest.escape_ascii(), bytes[start..end].escape_ascii());
            values.push(value);
        }
        start = end;
    }
    let mut half = &bytes[start..];
    if broken.is_none() && Parser::new().parse_value(&mut half).is_ok() {
        panic!("{:?} is a reply without an end", bytes[start..].escape_ascii());
    }
    values
}

/// Replies end at the same places however they arrive, and are parsed up to there.
pub fn redis_frames(data: &[u8]) {
    let Some((step, bytes)) = data.split_first() else { return };
    assert_eq!(ends(bytes, bytes.len().max(1)), ends(bytes, usize::from(*step % 16) + 1));
    values(bytes);
}

/// What answers a request of the layout is understood or refused, alone and in a batch.
pub fn redis_reply(data: &[u8]) {
    let choice = data.last().copied().unwrap_or(0);
    let one = [Request::new(&CALLS.acquire, "k".into(), [])];
    let three = ["a", "b", "c"].map(|key| Request::new(&CALLS.renew, key.into(), [Arg::Int(1)]));
    for value in values(data) {
        match replies([(one.as_slice(), value.clone())]) {
            Ok(replies) => {
                assert_eq!(replies.len(), 1);
                is_understood_or_refused(chosen(choice), choice, &replies);
            }
            Err(error) => is_readable(&error),
        }
        match replies([(three.as_slice(), value)]) {
            Ok(replies) => assert_eq!(replies.len(), 3),
            Err(error) => is_readable(&error),
        }
    }
}

/// A server greets or is refused, and a password that it sends back is not passed on.
pub fn redis_greeting(data: &[u8]) {
    static GREETING: LazyLock<Greeting> = LazyLock::new(|| {
        let uri = Uri::parse(&format!("redis://user:{SECRET}@host/7"), ConnectOptions::default());
        let config = uri.and_then(|mut uri| Config::read(&mut uri));
        let greeting = config.and_then(|config| Ok(config.greeting(config.login.credentials()?)));
        greeting.unwrap_or_else(|error| panic!("{error}"))
    });
    let mut answers = values(data);
    answers.truncate(GREETING.answers());
    if let Err(error) = GREETING.read(&answers) {
        is_readable(&error);
    }
    let (_, broken) = ends(data, data.len().max(1));
    if let Some(broken) = broken {
        is_readable(&broken.explain(REDIS, &GREETING.quotable(&String::from_utf8_lossy(data))));
    }
}

/// What is pushed is something that can be told again, or nothing.
pub fn redis_push(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let Some((key, event)) = parse_push(&text) else { return };
    let told = match &event {
        StoreEvent::Granted { attempt, first, last, at } => {
            assert!(*first > 0 && last > first);
            format!("granted {attempt} {first} {} {key}", at.0)
        }
        StoreEvent::Broken { attempt } => format!("broken {attempt} {key}"),
        StoreEvent::Next { tail } => format!("next {tail:08x} {key}"),
        StoreEvent::Dropped => format!("dropped {key}"),
        other => panic!("nobody pushes {other:?}"),
    };
    assert_eq!(parse_push(&told), Some((key, event)));
}
