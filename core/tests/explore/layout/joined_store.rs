//! The reference semantics of joined locks: what a lock's key and its record do with each request. Compared with the scripts
//! on a real server, and the explorer's model of the store.

#![allow(unreachable_pub, dead_code, reason = "the module is shared, and each test uses its part")]

use lockwright::cell::BLOCK;
use lockwright::protocol::{Arg, Reply, Request};

/// How long a record outlives its lease, in microseconds.
const KEPT: i64 = 600_000_000;

/// How a lock's key says who holds it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Way {
    /// By the owner, until a time of its own.
    #[default]
    Owner,
    /// By nothing but the end, in units of so many microseconds; the record says who wrote it.
    End(i64),
}

/// A lock's key and its record, each with its end; times in microseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JoinedStore {
    pub way: Way,
    pub value: Option<Value>,
    pub record: Option<Record>,
}

/// What the key says, and until when that counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value {
    pub text: String,
    pub ends: Option<i64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub first: i64,
    pub owner: String,
    /// What its owner wrote into the key, until it was given back.
    pub wrote: Option<String>,
    pub card: String,
    pub ends: i64,
}

impl JoinedStore {
    pub fn new(way: Way) -> Self {
        JoinedStore { way, value: None, record: None }
    }

    /// What goes by itself is gone.
    pub fn pass(&mut self, now: i64) {
        self.value.take_if(|value| value.ends.is_some_and(|ends| ends <= now));
        self.record.take_if(|record| record.ends <= now);
    }

    /// The record of the one who holds it, if that is one of us.
    pub fn holder(&self) -> Option<&Record> {
        let value = self.value.as_ref()?;
        self.record.as_ref().filter(|record| record.wrote.as_ref() == Some(&value.text))
    }

    /// Executes a request at `now`, when tokens are at least `floor`.
    pub fn run(&mut self, request: &Request, now: i64, floor: i64) -> Reply {
        self.pass(now);
        let texts: Vec<&str> = request.args.iter().filter_map(text).collect();
        let numbers: Vec<i64> = request.args.iter().filter_map(number).collect();
        match request.call.name {
            "acquire" if now > numbers[1] => Reply::List(vec![Reply::Int(2), Reply::Int(now)]),
            "acquire" => self.acquire(texts[0], numbers[0] * 1000, texts.get(1).unwrap_or(&""), now, floor),
            "renew" => Reply::List(vec![Reply::Int(self.renew(texts[0], numbers[0] * 1000, now).into())]),
            "release" => self.release(texts[0]),
            "undo" => {
                if texts.iter().any(|owner| self.is_held_by(owner)) {
                    self.free();
                }
                Reply::Int(1)
            }
            "inspect" => self.inspect(now),
            "break" => {
                let is_hit = self.holder().is_some_and(|r| (r.first..r.first + BLOCK as i64).contains(&numbers[0]));
                if is_hit {
                    self.free();
                }
                Reply::Int(is_hit.into())
            }
            other => panic!("{other} is no call of the layout"),
        }
    }

    /// What whoever takes the lock now writes.
    pub fn written(&self, me: &str, ttl: i64, now: i64) -> Value {
        match self.way {
            Way::Owner => Value { text: me.into(), ends: Some(now + ttl) },
            Way::End(unit) => {
                let end = (now + ttl) / unit + 1;
                Value { text: end.to_string(), ends: Some((end + 1) * unit) }
            }
        }
    }

    fn is_held_by(&self, me: &str) -> bool {
        match self.way {
            Way::Owner => self.value.as_ref().is_some_and(|value| value.text == me),
            Way::End(_) => self.holder().is_some_and(|record| record.owner == me),
        }
    }

    fn free(&mut self) {
        self.value = None;
        if let (Way::End(_), Some(record)) = (self.way, &mut self.record) {
            record.wrote = None;
        }
    }

    fn acquire(&mut self, me: &str, ttl: i64, card: &str, now: i64, floor: i64) -> Reply {
        if let Some(value) = self.value.as_ref().filter(|_| !self.is_held_by(me)) {
            let left = value.ends.map_or(-1, |ends| (ends - now) / 1000);
            let numbers = [0, now, left].map(Reply::Int);
            return Reply::List(numbers.into_iter().chain([Reply::Text(value.text.clone())]).collect());
        }
        let again = self.renew(me, ttl, now).then(|| self.holder()).flatten();
        if let Some(record) = again {
            return Reply::Int(record.first);
        }
        let value = self.value.take().unwrap_or_else(|| self.written(me, ttl, now));
        let next = self.record.as_ref().map_or(1, |record| record.first + BLOCK as i64);
        let first = floor.max(next);
        let wrote = Some(value.text.clone());
        self.record = Some(Record { first, owner: me.into(), wrote, card: card.into(), ends: now + ttl + KEPT });
        self.value = Some(value);
        Reply::Int(first)
    }

    fn renew(&mut self, me: &str, ttl: i64, now: i64) -> bool {
        if !self.is_held_by(me) {
            return false;
        }
        let longer = self.written(me, ttl, now);
        let Some(value) = self.value.as_mut() else { return false };
        match (self.way, &mut self.record) {
            (Way::End(_), Some(record)) if value.ends <= Some(now + ttl) => {
                (record.wrote, record.ends) = (Some(longer.text.clone()), now + ttl + KEPT);
                *value = longer;
            }
            (Way::End(_), _) => {}
            (Way::Owner, _) => value.ends = Some(value.ends.unwrap_or(0).max(now + ttl)),
        }
        true
    }

    fn release(&mut self, me: &str) -> Reply {
        match &self.value {
            None => Reply::Int(0),
            Some(_) if self.is_held_by(me) => {
                self.free();
                Reply::Int(1)
            }
            Some(_) => Reply::Text(self.holder().map_or(String::new(), |record| record.card.clone())),
        }
    }

    fn inspect(&self, now: i64) -> Reply {
        let Some(value) = &self.value else { return Reply::Nil };
        let (first, card) = self.holder().map_or((0, ""), |record| (record.first, &record.card));
        let left = value.ends.map_or(-1, |ends| (ends - now) / 1000);
        let numbers = [left, now, first].map(Reply::Int);
        let texts = [&*value.text, card].map(|text| Reply::Text(text.into()));
        let ([owner, card], [left, now, first]) = (texts, numbers);
        Reply::List(vec![owner, left, now, first, card])
    }
}

fn text(arg: &Arg) -> Option<&str> {
    match arg {
        Arg::Text(text) => Some(text),
        _ => None,
    }
}

fn number(arg: &Arg) -> Option<i64> {
    match arg {
        Arg::Int(number) => Some(*number),
        Arg::NotAfter => Some(i64::MAX),
        _ => None,
    }
}
