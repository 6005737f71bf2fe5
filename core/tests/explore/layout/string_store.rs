//! The reference semantics of the layout `string`: what its two keys do with each request. Compared with the scripts on a real
//! server, and the explorer's model of the store.

#![allow(unreachable_pub, dead_code, reason = "the module is shared, and each test uses its part")]

use lockwright::cell::BLOCK;
use lockwright::protocol::{Arg, Reply, Request};

/// How long a record outlives its lease, in microseconds.
const KEPT: i64 = 600_000_000;

/// A lock's key and its record, each with its end; times in microseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StringStore {
    pub value: Option<Value>,
    pub record: Option<Record>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value {
    pub owner: String,
    pub ends: Option<i64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub first: i64,
    pub owner: String,
    pub card: String,
    pub ends: i64,
}

impl StringStore {
    /// What goes by itself is gone.
    pub fn pass(&mut self, now: i64) {
        self.value.take_if(|value| value.ends.is_some_and(|ends| ends <= now));
        self.record.take_if(|record| record.ends <= now);
    }

    /// The record of the one who holds it, if that is one of us.
    pub fn holder(&self) -> Option<&Record> {
        let value = self.value.as_ref()?;
        self.record.as_ref().filter(|record| record.owner == value.owner)
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
                self.value.take_if(|value| texts.contains(&&*value.owner));
                Reply::Int(1)
            }
            "inspect" => self.inspect(now),
            "break" => {
                let is_hit = self.holder().is_some_and(|r| (r.first..r.first + BLOCK as i64).contains(&numbers[0]));
                self.value.take_if(|_| is_hit);
                Reply::Int(is_hit.into())
            }
            other => panic!("{other} is no call of the layout"),
        }
    }

    fn acquire(&mut self, me: &str, ttl: i64, card: &str, now: i64, floor: i64) -> Reply {
        if let Some(value) = self.value.as_ref().filter(|value| value.owner != me) {
            let left = value.ends.map_or(-1, |ends| (ends - now) / 1000);
            return Reply::List(vec![
                Reply::Int(0),
                Reply::Int(now),
                Reply::Int(left),
                Reply::Text(value.owner.clone()),
            ]);
        }
        let again = self.renew(me, ttl, now).then(|| self.holder()).flatten();
        if let Some(record) = again {
            return Reply::Int(record.first);
        }
        self.value.get_or_insert(Value { owner: me.into(), ends: Some(now + ttl) });
        let next = self.record.as_ref().map_or(1, |record| record.first + BLOCK as i64);
        let first = floor.max(next);
        self.record = Some(Record { first, owner: me.into(), card: card.into(), ends: now + ttl + KEPT });
        Reply::Int(first)
    }

    fn renew(&mut self, me: &str, ttl: i64, now: i64) -> bool {
        let Some(value) = self.value.as_mut().filter(|value| value.owner == me) else { return false };
        value.ends = Some(value.ends.unwrap_or(0).max(now + ttl));
        true
    }

    fn release(&mut self, me: &str) -> Reply {
        match &self.value {
            None => Reply::Int(0),
            Some(value) if value.owner == me => {
                self.value = None;
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
        let texts = [&*value.owner, card].map(|text| Reply::Text(text.into()));
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
