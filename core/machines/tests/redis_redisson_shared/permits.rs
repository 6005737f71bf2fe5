//! Redisson's semaphores: what their keys do with each of our requests, and each of Redisson's.

use super::redisson_store::Permits as Model;
use super::*;

const KEY: &str = "redisson permits";
/// What Redisson writes for a permit that never ends.
const NEVER: i64 = 922_337_203_685_477;

// From Redisson 4.7 and 3.50.
const TAKE: &str = "local expiredIds = redis.call('zrangebyscore', KEYS[2], 0, ARGV[3], 'limit', 0, ARGV[1]); if #expiredIds > 0 then redis.call('zrem', KEYS[2], unpack(expiredIds)); local value = redis.call('incrby', KEYS[1], #expiredIds); if tonumber(value) > 0 then redis.call(ARGV[5], KEYS[3], value); end;end; local value = redis.call('get', KEYS[1]); if (value ~= false and tonumber(value) >= tonumber(ARGV[1])) then redis.call('decrby', KEYS[1], ARGV[1]); for i = 6, #ARGV, 1 do redis.call('zadd', KEYS[2], ARGV[2], ARGV[i]); end; local ttl = redis.call('pttl', KEYS[1]); if ttl > 0 then redis.call('pexpire', KEYS[2], ttl); end; return 'OK'; end; local v = redis.call('zrange', KEYS[2], 0, 0, 'WITHSCORES'); if v[1] ~= nil and v[2] ~= ARGV[4] then return ':' .. tostring(v[2]); end return nil;";
const GIVE: &str = "local expire = redis.call('zscore', KEYS[3], ARGV[1]);local removed = redis.call('zrem', KEYS[3], ARGV[1]);if tonumber(removed) ~= 1 then return 0;end;local value = redis.call('incrby', KEYS[1], ARGV[2]); redis.call(ARGV[4], KEYS[2], value); if tonumber(expire) <= tonumber(ARGV[3]) then return 0;end;return 1;";
const TAKE_COUNTED: &str = "local value = redis.call('get', KEYS[1]); if (value ~= false and tonumber(value) >= tonumber(ARGV[1])) then local val = redis.call('decrby', KEYS[1], ARGV[1]); return 1; end; return 0;";
const GIVE_COUNTED: &str = "local value = redis.call('incrby', KEYS[1], ARGV[1]); redis.call(ARGV[2], KEYS[2], value);";

#[derive(Clone, Debug)]
enum Command {
    Acquire { who: u128, permits: u32, late: bool },
    Renew { who: u128, times: u32 },
    Release { who: u128 },
    Undo { who: u128 },
    Break { nth: usize },
    Resize(u32),
    Inspect,
    TheyTake { nth: usize, never: bool },
    TheyGive { nth: usize },
    Evicted,
    Deleted,
    Pass(i64),
}

fn command() -> impl Strategy<Value = Command> {
    let who = 0..4_u128;
    let acquire = (who.clone(), 3..6_u32, prop::bool::weighted(0.05));
    let nth = 0..2_usize;
    prop_oneof![
        10 => acquire.prop_map(|(who, permits, late)| Command::Acquire { who, permits, late }),
        3 => (who.clone(), prop::sample::select(vec![1, 2, 12])).prop_map(|(who, times)| Command::Renew { who, times }),
        5 => who.clone().prop_map(|who| Command::Release { who }),
        1 => who.prop_map(|who| Command::Undo { who }),
        1 => (0..4_usize).prop_map(|nth| Command::Break { nth }),
        1 => (1..7_u32).prop_map(Command::Resize),
        2 => Just(Command::Inspect),
        4 => (nth.clone(), prop::bool::weighted(0.3)).prop_map(|(nth, never)| Command::TheyTake { nth, never }),
        3 => nth.prop_map(|nth| Command::TheyGive { nth }),
        1 => Just(Command::Evicted),
        1 => Just(Command::Deleted),
        5 => prop::sample::select(PAUSES.to_vec()).prop_map(Command::Pass),
    ]
}

/// Two of ours always take two.
fn share(who: u128, permits: u32) -> Share {
    Share::permits(if who > 1 { 2 } else { 1 }, permits, false).expect("in range")
}

/// A permit of theirs.
fn permit(nth: usize) -> String {
    format!("{:032x}", 0xff00 + nth)
}

struct Run<'a> {
    server: &'a mut Server,
    layout: std::sync::Arc<dyn Layout>,
    object: Object,
    model: Model,
    now: StoreTime,
}

impl Run<'_> {
    fn one(&mut self, command: &Command) -> Result<(), TestCaseError> {
        let (object, now) = (self.object, self.now.0);
        let begin = |share, intent, late: bool| {
            let mut machine = RedissonSharedMachine::new(object, share, KEY.into());
            asked(machine.step(Input::Begin(intent)), now - i64::from(late))
        };
        let request = match command {
            Command::Acquire { who, permits, late } => {
                begin(share(*who, *permits), Intent::Acquire { terms: terms(*who), wait: true, prev: None }, *late)
            }
            Command::Renew { who, times } => {
                begin(share(*who, 5), Intent::Renew { terms: terms(*who), ttl: TTL * *times }, false)
            }
            Command::Release { who } => begin(share(*who, 5), Intent::Release { terms: terms(*who), used: 1 }, false),
            Command::Undo { who } => begin(share(*who, 5), Intent::Undo { terms: terms(*who), prev: None }, false),
            Command::Break { nth } => {
                let token = self.model.notes.all.values().nth(*nth).map_or(7, |note| note.token);
                self.layout.break_hold(KEY.into(), token as u64).asks()[0].clone()
            }
            Command::Resize(permits) => match self.layout.resize(KEY.into(), *permits) {
                Some(inquiry) => inquiry.asks()[0].clone(),
                None => return Ok(()),
            },
            Command::Inspect => self.layout.inspect("x", KEY.into()).asks()[0].clone(),
            _ => {
                self.meddle(command);
                return Ok(());
            }
        };
        let expected = self.model.run(&request, now, now);
        let got = self.server.ask(&request, self.now);
        prop_assert_eq!(sorted(&got), sorted(&expected), "{}", request);
        if matches!(command, Command::Inspect) {
            let seen = self.layout.inspect("x", KEY.into()).answered(&got);
            prop_assert!(seen.is_ok(), "{:?}", seen);
        }
        Ok(())
    }

    fn meddle(&mut self, command: &Command) {
        let now = self.now.0;
        let (leases, channel) = (leases_key(self.object, KEY), self.object.channel(KEY));
        match command {
            Command::TheyTake { .. } if self.model.counted => {
                theirs(self.server, TAKE_COUNTED, &[KEY], &["1"]);
                self.model.available = self.model.available.map(|available| available - i64::from(available > 0));
            }
            Command::TheyTake { nth, never } if !self.model.leases.contains_key(&permit(*nth)) => {
                // It takes back one at a time, whatever ended first; here all that ended did so together or not at all.
                let ends = if *never { NEVER } else { now / 1000 + TTL.as_millis() as i64 };
                let mut command = redis::cmd("EVAL");
                command
                    .arg(TAKE)
                    .arg(3)
                    .arg(KEY)
                    .arg(&leases)
                    .arg(&channel)
                    .arg(1)
                    .arg(ends)
                    .arg(now / 1000)
                    .arg(NEVER);
                let sweep = self.layout.resize(KEY.into(), 5).expect("it can").asks()[0].clone();
                self.model.run(&sweep, now, now);
                self.server.ask(&sweep, self.now);
                command.arg("publish").arg(&u128::from_str_radix(&permit(*nth), 16).expect("hex").to_be_bytes());
                self.server.run(&command);
                if self.model.available.is_some_and(|available| available > 0) {
                    self.model.put_back(-1);
                    self.model.leases.insert(permit(*nth), (1, ends));
                }
            }
            Command::TheyGive { .. } if self.model.counted => {
                theirs(self.server, GIVE_COUNTED, &[KEY, &channel], &["1", "publish"]);
                self.model.available = Some(self.model.available.unwrap_or(0) + 1);
            }
            Command::TheyGive { nth } => {
                let mut command = redis::cmd("EVAL");
                command.arg(GIVE).arg(3).arg(KEY).arg(&channel).arg(&leases);
                command.arg(&u128::from_str_radix(&permit(*nth), 16).expect("hex").to_be_bytes());
                command.arg(1).arg(now / 1000).arg("publish");
                self.server.run(&command);
                if self.model.leases.remove(&permit(*nth)).is_some() {
                    self.model.available = Some(self.model.available.unwrap_or(0) + 1);
                }
            }
            // Who took several is not known then, and shown as so many.
            Command::Evicted if self.model.leases.values().all(|(units, _)| *units == 1) => {
                self.server.plain(&["DEL", &notes_key(KEY)]);
                (self.model.notes, self.model.notes_end) = (Notes::default(), 0);
            }
            Command::Deleted => {
                self.server.plain(&["DEL", KEY]);
                self.model.available = None;
            }
            Command::Pass(micros) => {
                self.now = StoreTime(now + micros);
                let nearer = "local left = redis.call('PTTL', KEYS[1])
                    if left >= 0 then redis.call('PEXPIRE', KEYS[1], left - ARGV[1]) end";
                theirs(self.server, nearer, &[&notes_key(KEY)], &[&(micros / 1000).to_string()]);
                if self.model.notes_end <= self.now.0 {
                    (self.model.notes, self.model.notes_end) = (Notes::default(), 0);
                }
            }
            _ => {}
        }
    }

    fn check_keys(&mut self) -> Result<(), TestCaseError> {
        prop_assert_eq!(self.server.number(&["GET", KEY]), self.model.available);
        let held = self.server.number(&["ZCARD", &leases_key(self.object, KEY)]);
        prop_assert_eq!(held, Some(self.model.held()));
        Ok(())
    }
}

/// Holders are told in the order of their ends, and of those that end together in any.
fn sorted(reply: &Reply) -> Reply {
    let Reply::List(list) = reply else { return reply.clone() };
    let (head, mut holders): (Vec<_>, Vec<_>) =
        list.iter().cloned().partition(|reply| !matches!(reply, Reply::List(_)));
    holders.sort_by_key(|holder| format!("{holder:?}"));
    Reply::List(head.into_iter().chain(holders).collect())
}

#[test]
fn scripts_of_both_semaphores_do_what_the_reference_does() {
    for object in [Object::Leased, Object::Counted] {
        let is_counted = object == Object::Counted;
        let server = std::cell::RefCell::new(Server::connect());
        let outcome = runner().run(&prop::collection::vec(command(), 1..40), |commands| {
            let server = &mut *server.borrow_mut();
            server.plain(&["DEL", KEY, &leases_key(object, KEY), &notes_key(KEY)]);
            let now = server.later();
            let locks = if is_counted { counted("") } else { layout("") };
            let layout = locks.shared(share(0, 5)).expect("there is one");
            let mut run = Run { server, layout, object, model: Model { counted: is_counted, ..Model::default() }, now };
            for command in &commands {
                run.one(command)?;
                run.check_keys()?;
            }
            run.one(&Command::Inspect)
        });
        if let Err(failure) = outcome {
            panic!("{failure}");
        }
    }
}
