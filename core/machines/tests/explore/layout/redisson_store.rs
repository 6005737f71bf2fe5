//! The reference semantics of what several may hold in the layout `redisson`: what the keys do with each request of
//! ours, and with what Redisson does. Compared with the scripts on a real server, and the explorer's model of the
//! store.

#![allow(unreachable_pub, dead_code, reason = "the module is shared, and each test uses its part")]

use std::collections::BTreeMap;
use std::time::Duration;

use lockwright_machines::protocol::{Arg, Reply, Request};
use lockwright_machines::share::ALL;

/// For how long Redisson's holders take what they take.
pub const TTL: Duration = Duration::from_secs(300);

/// A day, in milliseconds.
const DAY: i64 = 86_400_000;
/// A hold of ours, as it is noted.
#[derive(Clone, Debug)]
pub struct Note {
    pub token: i64,
    pub since: i64,
    pub card: String,
}

/// All of them, and the highest token.
#[derive(Clone, Debug, Default)]
pub struct Notes {
    pub top: i64,
    pub all: BTreeMap<String, Note>,
}

impl Notes {
    pub fn grant(&mut self, owner: &str, card: &str, now: i64, floor: i64) -> i64 {
        self.top = floor.max(self.top + 1);
        self.all.insert(owner.into(), Note { token: self.top, since: now, card: card.into() });
        self.top
    }

    pub fn token(&self, owner: &str) -> i64 {
        self.all.get(owner).map_or(0, |note| note.token)
    }

    pub fn holder_of(&self, token: i64) -> Option<String> {
        self.all.iter().find(|(_, note)| note.token == token).map(|(owner, _)| owner.clone())
    }

    /// What a look says of one hold.
    pub fn seen(&self, owner: &str, left: i64, units: i64, now: i64) -> Reply {
        let theirs = Note { token: 0, since: now + 1, card: "\t\tredisson\t".into() };
        let Note { token, since, card, .. } = self.all.get(owner).cloned().unwrap_or(theirs);
        let numbers = [now - since, left, token, units].map(Reply::Int);
        let [held, left, token, units] = numbers;
        Reply::List(vec![Reply::Text(owner.into()), held, left, token, units, Reply::Text(card)])
    }
}

/// The arguments of a request as the scripts see them: keys are none.
pub fn arguments(request: &Request) -> Vec<String> {
    let text = |arg: &Arg| match arg {
        Arg::Text(text) => Some(text.to_string()),
        Arg::Int(number) => Some(number.to_string()),
        _ => None,
    };
    request.args.iter().filter_map(text).collect()
}

/// The keys; permits by owner, with how many and when they end, in milliseconds.
#[derive(Clone, Debug, Default)]
pub struct Permits {
    pub counted: bool,
    pub available: Option<i64>,
    pub leases: BTreeMap<String, (i64, i64)>,
    pub notes: Notes,
    pub notes_end: i64,
    /// Whether those who wait were told by the last request.
    pub told: bool,
}

impl Permits {
    pub fn held(&self) -> i64 {
        self.leases.values().map(|(units, _)| units).sum()
    }

    pub fn put_back(&mut self, units: i64) {
        self.available = self.available.map(|available| available + units);
        self.told |= units > 0 && self.available > Some(0);
    }

    pub fn take_back(&mut self, now: i64) {
        let (gone, left) = std::mem::take(&mut self.leases)
            .into_iter()
            .partition::<BTreeMap<_, _>, _>(|(_, (_, ends))| *ends <= now / 1000);
        self.leases = left;
        self.put_back(gone.values().map(|(units, _)| units).sum());
    }

    pub fn ends(&self, owner: &str, now: i64) -> Option<i64> {
        self.leases.get(owner).map(|(_, ends)| *ends).filter(|ends| *ends > now / 1000)
    }

    pub fn keep(&mut self, owner: &str, units: i64, ttl: i64, now: i64) {
        let until = (now + 999) / 1000 + ttl;
        if self.ends(owner, now).is_none_or(|ends| ends < until) {
            self.leases.insert(owner.into(), (units, until));
        }
        self.keep_notes(ttl, now);
    }

    pub fn keep_notes(&mut self, ttl: i64, now: i64) {
        if self.notes.top > 0 {
            self.notes_end = self.notes_end.max(now + (ttl + 600_000) * 1000);
        }
    }

    pub fn free(&mut self, owner: &str, now: i64) -> bool {
        let lasted = self.ends(owner, now).is_some();
        self.notes.all.remove(owner);
        if let Some((units, _)) = self.leases.remove(owner) {
            self.put_back(units);
        }
        lasted
    }

    /// Executes a request at `now`, when tokens are at least `floor`.
    pub fn run(&mut self, request: &Request, now: i64, floor: i64) -> Reply {
        self.told = false;
        let args = arguments(request);
        let number = |i: usize| args[i].parse::<i64>().expect("a number");
        let list = |numbers: &[i64]| Reply::List(numbers.iter().map(|number| Reply::Int(*number)).collect());
        let me = &*args[0];
        match request.call.name {
            "permits.acquire" if now > number(2) => list(&[2, now]),
            "permits.acquire" => {
                let (ttl, units, capacity) = (number(1), number(4), number(5));
                self.take_back(now);
                if self.ends(me, now).is_some() {
                    self.keep(me, units, ttl, now);
                    if self.notes.token(me) > 0 {
                        return Reply::Int(self.notes.token(me));
                    }
                } else {
                    let available = *self
                        .available
                        .get_or_insert(capacity - self.leases.values().map(|(units, _)| units).sum::<i64>());
                    let all = available + self.held();
                    if !self.counted && units > all {
                        return Reply::Error { code: "TOOMANY".into(), message: format!("it has {all} permits") };
                    }
                    if units > available {
                        let first = self.leases.values().map(|(_, ends)| *ends - now / 1000).min().unwrap_or(DAY);
                        return list(&[0, now, first.min(DAY) * 1000]);
                    }
                    self.put_back(-units);
                    self.keep(me, units, ttl, now);
                }
                let token = self.notes.grant(me, &args[3], now, floor);
                self.keep_notes(ttl, now);
                Reply::Int(token)
            }
            "permits.renew" => {
                let held = self.ends(me, now).is_some();
                if held {
                    self.keep(me, number(2), number(1), now);
                }
                Reply::Int(held.into())
            }
            "permits.release" => Reply::Int(self.free(me, now).into()),
            "permits.undo" => {
                self.free(me, now);
                Reply::Int(1)
            }
            "permits.break" => {
                let broken = self.notes.holder_of(number(0)).is_some_and(|owner| self.free(&owner, now));
                Reply::Int(broken.into())
            }
            "permits.resize" => {
                self.take_back(now);
                self.available = Some(number(0) - self.held());
                self.told |= self.available > Some(0);
                Reply::Int(1)
            }
            "permits.inspect" => {
                let Some(available) = self.available else { return Reply::Nil };
                let all = if self.counted { 0 } else { (available + self.held()).max(0) };
                let head = [Reply::Text("semaphore".into()), Reply::Int(all), Reply::Int(0), Reply::List(Vec::new())];
                let live = self.leases.iter().filter(|(_, (_, ends))| *ends > now / 1000);
                let seen = live.map(|(owner, (units, ends))| {
                    self.notes.seen(owner, (ends - now / 1000).min(DAY) * 1000, *units, now)
                });
                Reply::List(head.into_iter().chain(seen).collect())
            }
            other => panic!("{other} is no call of the layout"),
        }
    }
}

/// The keys; ends in microseconds.
#[derive(Clone, Debug, Default)]
pub struct ReadWrite {
    pub write: bool,
    pub fields: BTreeMap<String, i64>,
    pub ends: i64,
    pub leases: BTreeMap<(String, i64), i64>,
    pub notes: Notes,
    pub notes_end: i64,
    /// Whether those who wait were told by the last request.
    pub told: bool,
}

impl ReadWrite {
    pub fn pass(&mut self, now: i64) {
        if self.ends <= now {
            self.fields.clear();
        }
        self.leases.retain(|_, ends| *ends > now);
        if self.notes_end <= now {
            (self.notes, self.notes_end) = (Notes::default(), 0);
        }
    }

    pub fn is_free(&self) -> bool {
        self.fields.is_empty()
    }

    pub fn writer(owner: &str) -> String {
        format!("{owner}:write")
    }

    /// When a reader's last lease ends.
    pub fn reads(&self, owner: &str) -> Option<i64> {
        let levels = self.fields.get(owner).copied().unwrap_or(0);
        (1..=levels).filter_map(|level| self.leases.get(&(owner.to_owned(), level)).copied()).max()
    }

    pub fn longest(&self, but: &str) -> Option<i64> {
        self.fields.keys().filter(|field| *field != but).filter_map(|field| self.reads(field)).max()
    }

    pub fn holds(&self, owner: &str) -> Option<bool> {
        if self.fields.contains_key(&ReadWrite::writer(owner)) {
            return Some(true);
        }
        self.reads(owner).map(|_| false)
    }

    pub fn keep(&mut self, owner: &str, write: bool, until: i64) {
        self.ends = self.ends.max(until);
        if let Some(ends) = self.leases.get_mut(&(owner.to_owned(), 1)).filter(|_| !write) {
            *ends = until.max(*ends);
        }
        self.keep_notes(until);
    }

    pub fn keep_notes(&mut self, until: i64) {
        if self.notes.top > 0 {
            self.notes_end = self.notes_end.max(until + 600_000_000);
        }
    }

    fn grant(&mut self, owner: &str, card: &str, until: i64, (now, floor): (i64, i64)) -> i64 {
        let token = self.notes.grant(owner, card, now, floor);
        self.keep_notes(until);
        token
    }

    pub fn take(&mut self, owner: &str, write: bool, until: i64) {
        if self.is_free() {
            self.ends = 0;
        }
        self.write = write;
        self.fields.insert(if write { ReadWrite::writer(owner) } else { owner.to_owned() }, 1);
        if !write {
            self.leases.insert((owner.to_owned(), 1), 0);
        }
        self.keep(owner, write, until);
    }

    pub fn free(&mut self, owner: &str) -> bool {
        let held = self.holds(owner);
        self.notes.all.remove(owner);
        if held == Some(true) {
            self.fields.clear();
            self.told = true;
            return true;
        }
        if self.fields.remove(owner).is_some() {
            self.leases.remove(&(owner.to_owned(), 1));
            match self.longest("") {
                Some(ends) => self.ends = ends,
                None => {
                    self.fields.clear();
                    self.told = true;
                }
            }
        }
        held.is_some()
    }

    /// Executes a request at `now`, when tokens are at least `floor`.
    pub fn run(&mut self, request: &Request, now: i64, floor: i64) -> Reply {
        self.told = false;
        let args = arguments(request);
        let number = |i: usize| args[i].parse::<i64>().expect("a number");
        let list = |numbers: &[i64]| Reply::List(numbers.iter().map(|number| Reply::Int(*number)).collect());
        let late = |i: usize| (now > number(i)).then(|| list(&[2, now]));
        match request.call.name {
            "rwlock.acquire" => {
                let (me, until, write) = (&*args[0], now + number(1) * 1000, number(4) > 1);
                if let Some(late) = late(2) {
                    return late;
                }
                if let Some(held) = self.holds(me) {
                    self.keep(me, held, until);
                    if self.notes.token(me) > 0 {
                        return Reply::Int(self.notes.token(me));
                    }
                } else if self.is_free() || !(self.write || write) {
                    self.take(me, write, until);
                } else {
                    return list(&[0, now, self.ends - now]);
                }
                Reply::Int(self.grant(me, &args[3], until, (now, floor)))
            }
            "rwlock.renew" => {
                let held = self.holds(&args[0]);
                if let Some(write) = held {
                    self.keep(&args[0], write, now + number(1) * 1000);
                }
                Reply::Int(held.is_some().into())
            }
            "rwlock.change" => {
                let (me, token, until, write) = (&*args[0], number(1), now + number(2) * 1000, number(4) > 1);
                if let Some(late) = late(3) {
                    return late;
                }
                let Some(held) = self.holds(me) else { return Reply::Int(0) };
                self.keep(me, held, until);
                let mut mine = Some(self.notes.token(me)).filter(|mine| *mine > 0).unwrap_or(token);
                let may = mine == token && (!write || self.longest(me).is_none());
                if held != write && may {
                    self.fields.clear();
                    self.leases.remove(&(me.to_owned(), 1));
                    let ends = std::mem::take(&mut self.ends);
                    self.take(me, write, if write { until } else { ends });
                    self.told |= !write;
                    if write {
                        mine = self.grant(me, &args[5], until, (now, floor));
                    }
                }
                if held == write || may { list(&[1, mine]) } else { list(&[0]) }
            }
            "rwlock.release" => Reply::Int(self.free(&args[0]).into()),
            "rwlock.undo" => {
                self.free(&args[0]);
                Reply::Int(1)
            }
            "rwlock.break" => {
                let broken = self.notes.holder_of(number(0)).is_some_and(|owner| self.free(&owner));
                Reply::Int(broken.into())
            }
            "rwlock.inspect" if self.is_free() => Reply::Nil,
            "rwlock.inspect" => {
                let head =
                    [Reply::Text("rwlock".into()), Reply::Int(ALL.into()), Reply::Int(0), Reply::List(Vec::new())];
                let seen = self.fields.keys().filter_map(|field| match field.strip_suffix(":write") {
                    Some(owner) => Some(self.notes.seen(owner, self.ends - now, ALL.into(), now)),
                    None => Some(self.notes.seen(field, self.reads(field)? - now, 1, now)),
                });
                Reply::List(head.into_iter().chain(seen).collect())
            }
            other => panic!("{other} is no call of the layout"),
        }
    }

    pub fn they_read(&mut self, thread: &str, now: i64) {
        if self.is_free() {
            (self.write, self.ends) = (false, 0);
        } else if self.write && !self.fields.contains_key(&ReadWrite::writer(thread)) {
            return;
        }
        let level = self.fields.entry(thread.into()).or_insert(0);
        *level += 1;
        let ends = now + TTL.as_micros() as i64;
        self.leases.insert((thread.into(), *level), ends);
        self.ends = self.ends.max(ends);
    }

    pub fn they_read_no_more(&mut self, thread: &str) {
        let Some(level) = self.fields.get_mut(thread) else { return };
        self.leases.remove(&(thread.to_owned(), *level));
        *level -= 1;
        self.fields.retain(|_, level| *level > 0);
        match self.longest("") {
            Some(ends) => self.ends = ends,
            None if self.write && !self.fields.is_empty() => {}
            None => self.fields.clear(),
        }
    }

    pub fn they_write(&mut self, thread: &str, now: i64) {
        let (field, ttl) = (ReadWrite::writer(thread), TTL.as_micros() as i64);
        if self.is_free() {
            (self.write, self.ends) = (true, now + ttl);
        } else if self.write && self.fields.contains_key(&field) {
            self.ends += ttl;
        } else {
            return;
        }
        *self.fields.entry(field).or_insert(0) += 1;
    }

    pub fn they_write_no_more(&mut self, thread: &str, now: i64) {
        let field = ReadWrite::writer(thread);
        let Some(level) = self.fields.get_mut(&field) else { return };
        *level -= 1;
        if *level > 0 {
            self.ends = now + TTL.as_micros() as i64;
        } else {
            self.fields.remove(&field);
            self.write = false;
        }
    }

    pub fn they_renew(&mut self, thread: &str, now: i64) {
        let Some(levels) = self.fields.get(thread) else { return };
        let ends = now + TTL.as_micros() as i64;
        for level in 1..=*levels {
            self.leases.entry((thread.into(), level)).and_modify(|lease| *lease = ends);
        }
        self.ends = ends;
    }
}
