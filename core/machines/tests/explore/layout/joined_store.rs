//! The reference semantics of the joined layouts: what their keys do with each request. Compared with the scripts on a
//! real server, and the explorer's model of the store.

#![allow(unreachable_pub, dead_code, reason = "the module is shared, and each test uses its part")]

use lockwright_machines::lock_cell::BLOCK;
use lockwright_machines::protocol::{Arg, Reply, Request};

/// How long a record outlives its lease, in microseconds.
const KEPT: i64 = 600_000_000;

/// How a lock's key says who holds it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Way {
    /// By the owner.
    #[default]
    Owner,
    /// By nothing but the end, in units of so many microseconds; the record says who wrote it.
    End(i64),
}

/// A lock's key and its record, each with its end, and the queue of a fair lock; times in microseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JoinedStore {
    pub way: Way,
    pub value: Option<Value>,
    pub record: Option<Record>,
    pub queue: Vec<Waiter>,
    /// The highest token that was counted, where tokens are not told by the clock.
    pub counter: Option<i64>,
    /// Who was told that asking may help, by the last request; none stands for those without a place.
    pub told: Vec<Option<String>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiter {
    pub owner: String,
    /// Until when it is waited for once it is first, in milliseconds.
    pub deadline: i64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value {
    /// What the key says.
    pub owner: String,
    pub ends: Option<i64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub first: i64,
    pub owner: String,
    /// What the key said when its owner had written it, until it was given back.
    pub wrote: Option<String>,
    pub card: String,
    pub ends: i64,
}

impl JoinedStore {
    pub fn new(way: Way) -> Self {
        JoinedStore { way, ..JoinedStore::default() }
    }

    /// What whoever takes the lock now writes.
    pub fn written(&self, me: &str, ttl: i64, now: i64) -> Value {
        match self.way {
            Way::Owner => Value { owner: me.into(), ends: Some(now + ttl) },
            Way::End(unit) => {
                let end = (now + ttl) / unit + 1;
                Value { owner: end.to_string(), ends: Some((end + 1) * unit) }
            }
        }
    }

    /// What goes by itself is gone.
    pub fn pass(&mut self, now: i64) {
        self.value.take_if(|value| value.ends.is_some_and(|ends| ends <= now));
        self.record.take_if(|record| record.ends <= now);
    }

    /// The record of the one who holds it, if that is one of us.
    pub fn holder(&self) -> Option<&Record> {
        let value = self.value.as_ref()?;
        self.record.as_ref().filter(|record| record.wrote.as_ref() == Some(&value.owner))
    }

    /// Executes a request at `now`, when tokens are at least `floor`.
    pub fn run(&mut self, request: &Request, now: i64, floor: i64) -> Reply {
        self.pass(now);
        let texts: Vec<&str> = request.args.iter().filter_map(text).collect();
        let numbers: Vec<i64> = request.args.iter().filter_map(number).collect();
        self.told.clear();
        match request.call.name {
            "acquire-fair" if now > numbers[1] => Reply::List(vec![Reply::Int(2), Reply::Int(now)]),
            "acquire-fair" => self.acquire_fair(texts[0], &numbers, texts.get(1).unwrap_or(&""), now, floor),
            "acquire" if now > numbers[1] => Reply::List(vec![Reply::Int(2), Reply::Int(now)]),
            "acquire" => self.acquire(texts[0], numbers[0] * 1000, texts.get(1).unwrap_or(&""), now, floor),
            "renew" => Reply::List(vec![Reply::Int(self.renew(texts[0], numbers[0] * 1000, now).into())]),
            "release" => self.release(texts[0], now),
            "undo" => {
                self.undo(texts[0], now);
                Reply::Int(1)
            }
            "inspect" => self.inspect(now),
            "break" => {
                let is_hit = self.holder().is_some_and(|r| (r.first..r.first + BLOCK as i64).contains(&numbers[0]));
                if is_hit {
                    self.free(now);
                }
                Reply::Int(is_hit.into())
            }
            other => panic!("{other} is no call of the layout"),
        }
    }

    fn acquire(&mut self, me: &str, ttl: i64, card: &str, now: i64, floor: i64) -> Reply {
        if let Some(value) = self.value.as_ref().filter(|_| !self.held_by(me)) {
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
        let value = self.value.take().unwrap_or_else(|| self.written(me, ttl, now));
        let first = self.block(floor);
        let wrote = Some(value.owner.clone());
        self.record = Some(Record { first, owner: me.into(), wrote, card: card.into(), ends: now + ttl + KEPT });
        self.value = Some(value);
        Reply::Int(first)
    }

    /// The first of the tokens that go with a grant.
    fn block(&mut self, floor: i64) -> i64 {
        let block = BLOCK as i64;
        let next = self.record.as_ref().map_or(1, |record| record.first + block);
        match &mut self.counter {
            None => floor.max(next),
            Some(counter) => {
                let first = next.max(*counter + 1);
                *counter = first + block - 1;
                first
            }
        }
    }

    fn renew(&mut self, me: &str, ttl: i64, now: i64) -> bool {
        if !self.held_by(me) {
            return false;
        }
        let longer = self.written(me, ttl, now);
        let Some(value) = self.value.as_mut() else { return false };
        match (self.way, &mut self.record) {
            (Way::End(_), Some(record)) if value.ends <= Some(now + ttl) => {
                (record.wrote, record.ends) = (Some(longer.owner.clone()), now + ttl + KEPT);
                *value = longer;
            }
            (Way::End(_), _) => {}
            (Way::Owner, _) => value.ends = Some(value.ends.unwrap_or(0).max(now + ttl)),
        }
        true
    }

    fn held_by(&self, me: &str) -> bool {
        match self.way {
            Way::Owner => self.value.as_ref().is_some_and(|value| value.owner == me),
            Way::End(_) => self.holder().is_some_and(|record| record.owner == me),
        }
    }

    /// The first in line; who let its deadline pass is thrown out.
    fn first_in_line(&mut self, now: i64) -> Option<String> {
        while self.queue.first().is_some_and(|place| place.deadline <= now / 1000) {
            self.queue.remove(0);
        }
        self.queue.first().map(|place| place.owner.clone())
    }

    fn acquire_fair(&mut self, me: &str, numbers: &[i64], card: &str, now: i64, floor: i64) -> Reply {
        let [ttl, _, patience, wait] = numbers else { panic!("{numbers:?}") };
        let left = |value: &Option<Value>| value.as_ref().map_or(-2, |v| v.ends.map_or(-1, |ends| (ends - now) / 1000));
        if !self.held_by(me) {
            let first = self.first_in_line(now);
            let is_mine = self.value.is_none() && first.as_ref().is_none_or(|first| first == me);
            let mut answer = vec![Reply::Int(*wait), Reply::Int(now), Reply::Int(left(&self.value))];
            answer.push(Reply::Text(self.value.as_ref().map_or(String::new(), |value| value.owner.clone())));
            if !is_mine && *wait == 1 {
                answer.push(Reply::Int(self.place(me, *patience, now)));
            }
            if !is_mine {
                return Reply::List(answer);
            }
            if first.is_some() {
                self.queue.remove(0);
            }
        }
        self.acquire(me, ttl * 1000, card, now, floor)
    }

    /// How many are ahead of the place that is taken, or kept.
    fn place(&mut self, me: &str, patience: i64, now: i64) -> i64 {
        let known = self.queue.iter().position(|place| place.owner == me);
        let at = known.unwrap_or(self.queue.len());
        let (now, patience) = (now / 1000, patience + 125 * at as i64);
        let ahead = &self.queue[..at];
        let is_late = ahead.last().is_some_and(|last| last.deadline > now + patience);
        let theirs = ahead.iter().rfind(|waiter| is_late && !waiter.owner.ends_with(":0"));
        let deadline = theirs.map_or(now, |theirs| theirs.deadline.max(now)) + patience;
        match known {
            Some(at) => self.queue[at].deadline = self.queue[at].deadline.max(deadline),
            None => self.queue.push(Waiter { owner: me.into(), deadline }),
        }
        at as i64
    }

    fn undo(&mut self, me: &str, now: i64) {
        let at = self.queue.iter().position(|place| place.owner == me);
        if let Some(at) = at {
            self.queue.remove(at);
        }
        if self.held_by(me) {
            self.free(now);
        } else if at == Some(0) && self.value.is_none() {
            let first = self.first_in_line(now);
            self.told.extend(first.map(Some));
        }
    }

    fn free(&mut self, now: i64) {
        self.value = None;
        if let (Way::End(_), Some(record)) = (self.way, &mut self.record) {
            record.wrote = None;
        }
        let first = self.first_in_line(now);
        self.told = [None].into_iter().chain(first.map(Some)).collect();
    }

    fn release(&mut self, me: &str, now: i64) -> Reply {
        match &self.value {
            None => Reply::Int(0),
            Some(_) if self.held_by(me) => {
                self.free(now);
                Reply::Int(1)
            }
            Some(_) => Reply::Text(self.holder().map_or(String::new(), |record| record.card.clone())),
        }
    }

    fn inspect(&self, now: i64) -> Reply {
        if self.value.is_none() && self.queue.is_empty() {
            return Reply::Nil;
        }
        let (first, card) = self.holder().map_or((0, ""), |record| (record.first, &record.card));
        let owner = self.value.as_ref().map_or("", |value| &value.owner);
        let left = self.value.as_ref().map_or(-2, |value| value.ends.map_or(-1, |ends| (ends - now) / 1000));
        let numbers = [left, now, first, self.queue.len() as i64].map(Reply::Int);
        let texts = [owner, card].map(|text| Reply::Text(text.into()));
        let ([owner, card], [left, now, first, waiters]) = (texts, numbers);
        Reply::List(vec![owner, left, now, first, card, waiters])
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
