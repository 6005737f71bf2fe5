//! Redisson's read/write lock: what its keys do with each of our requests, and each of Redisson's.

use super::redisson_store::ReadWrite as Model;
use super::*;

const KEY: &str = "redisson rwlock {model}";
const THREADS: [&str; 2] = ["11111111-2222-3333-4444-555555555555:47", "11111111-2222-3333-4444-555555555555:48"];
/// What a sequence may take in real time, in milliseconds.
const SLACK: i64 = 55_000;

// From Redisson 4.7 and 3.50; what is said of unlock latches, which concern nobody else, is left out.
const READ_LOCK: &str = "local mode = redis.call('hget', KEYS[1], 'mode'); if (mode == false) then redis.call('hset', KEYS[1], 'mode', 'read'); redis.call('hset', KEYS[1], ARGV[2], 1); redis.call('set', KEYS[2] .. ':1', 1); redis.call('pexpire', KEYS[2] .. ':1', ARGV[1]); redis.call('pexpire', KEYS[1], ARGV[1]); return nil; end; if (mode == 'read') or (mode == 'write' and redis.call('hexists', KEYS[1], ARGV[3]) == 1) then local ind = redis.call('hincrby', KEYS[1], ARGV[2], 1); local key = KEYS[2] .. ':' .. ind;redis.call('set', key, 1); redis.call('pexpire', key, ARGV[1]); local remainTime = redis.call('pttl', KEYS[1]); redis.call('pexpire', KEYS[1], math.max(remainTime, ARGV[1])); return nil; end;return redis.call('pttl', KEYS[1]);";
const READ_UNLOCK: &str = "local mode = redis.call('hget', KEYS[1], 'mode'); if (mode == false) then return nil; end; local lockExists = redis.call('hexists', KEYS[1], ARGV[2]); if (lockExists == 0) then return nil;end; local counter = redis.call('hincrby', KEYS[1], ARGV[2], -1); if (counter == 0) then redis.call('hdel', KEYS[1], ARGV[2]); end;redis.call('del', KEYS[3] .. ':' .. (counter+1)); if (redis.call('hlen', KEYS[1]) > 1) then local maxRemainTime = -3; local keys = redis.call('hkeys', KEYS[1]); for n, key in ipairs(keys) do counter = tonumber(redis.call('hget', KEYS[1], key)); if type(counter) == 'number' then for i=counter, 1, -1 do local remainTime = redis.call('pttl', KEYS[4] .. ':' .. key .. ':rwlock_timeout:' .. i); maxRemainTime = math.max(remainTime, maxRemainTime);end; end; end; if maxRemainTime > 0 then redis.call('pexpire', KEYS[1], maxRemainTime); return 0; end;if mode == 'write' then return 0;end; end; redis.call('del', KEYS[1]); redis.call('publish', KEYS[2], ARGV[1]); return 1;";
const WRITE_LOCK: &str = "local mode = redis.call('hget', KEYS[1], 'mode'); if (mode == false) then redis.call('hset', KEYS[1], 'mode', 'write'); redis.call('hset', KEYS[1], ARGV[2], 1); redis.call('pexpire', KEYS[1], ARGV[1]); return nil; end; if (mode == 'write') then if (redis.call('hexists', KEYS[1], ARGV[2]) == 1) then redis.call('hincrby', KEYS[1], ARGV[2], 1); local currentExpire = redis.call('pttl', KEYS[1]); redis.call('pexpire', KEYS[1], currentExpire + ARGV[1]); return nil; end; end;return redis.call('pttl', KEYS[1]);";
const WRITE_UNLOCK: &str = "local mode = redis.call('hget', KEYS[1], 'mode'); if (mode == false) then return nil; end;if (mode == 'write') then local lockExists = redis.call('hexists', KEYS[1], ARGV[3]); if (lockExists == 0) then return nil;else local counter = redis.call('hincrby', KEYS[1], ARGV[3], -1); if (counter > 0) then redis.call('pexpire', KEYS[1], ARGV[2]); return 0; else redis.call('hdel', KEYS[1], ARGV[3]); if (redis.call('hlen', KEYS[1]) == 1) then redis.call('del', KEYS[1]); redis.call('publish', KEYS[2], ARGV[1]); else redis.call('hset', KEYS[1], 'mode', 'read'); end; return 1; end; end; end; return nil;";
const RENEW: &str = "local result = {} local argIdx = 2 for i = 1, #KEYS, 2 do local anyAlive = false; local lockNamesCount = tonumber(ARGV[argIdx]); argIdx = argIdx + 1; for k = 1, lockNamesCount do local counter = redis.call('hget', KEYS[i], ARGV[argIdx]); if (counter ~= false) then anyAlive = true; for c=counter, 1, -1 do redis.call('pexpire', KEYS[i+1] .. ':' .. ARGV[argIdx] .. ':rwlock_timeout:' .. c, ARGV[1]); end; end; argIdx = argIdx + 1; end; if (anyAlive) then redis.call('pexpire', KEYS[i], ARGV[1]); table.insert(result, 1); else table.insert(result, 0); end; end; return result;";

#[derive(Clone, Debug)]
enum Command {
    Acquire { who: u128, write: bool, late: bool },
    Renew { who: u128, times: u32 },
    Change { who: u128, write: bool, stale: bool, late: bool },
    Release { who: u128 },
    Undo { who: u128 },
    Break { nth: usize },
    Inspect,
    TheyRead(usize),
    TheyReadNoMore(usize),
    TheyWrite(usize),
    TheyWriteNoMore(usize),
    TheyRenew(usize),
    Evicted,
    Deleted,
    Pass(i64),
}

fn command() -> impl Strategy<Value = Command> {
    let (who, thread) = (0..4_u128, 0..2_usize);
    let late = || prop::bool::weighted(0.05);
    let acquire = (who.clone(), prop::bool::weighted(0.3), late());
    let change = (who.clone(), any::<bool>(), prop::bool::weighted(0.1), late());
    prop_oneof![
        10 => acquire.prop_map(|(who, write, late)| Command::Acquire { who, write, late }),
        3 => (who.clone(), prop::sample::select(vec![1, 2, 12])).prop_map(|(who, times)| Command::Renew { who, times }),
        4 => change.prop_map(|(who, write, stale, late)| Command::Change { who, write, stale, late }),
        5 => who.clone().prop_map(|who| Command::Release { who }),
        1 => who.prop_map(|who| Command::Undo { who }),
        1 => (0..4_usize).prop_map(|nth| Command::Break { nth }),
        2 => Just(Command::Inspect),
        3 => thread.clone().prop_map(Command::TheyRead),
        3 => thread.clone().prop_map(Command::TheyReadNoMore),
        2 => thread.clone().prop_map(Command::TheyWrite),
        2 => thread.clone().prop_map(Command::TheyWriteNoMore),
        1 => thread.prop_map(Command::TheyRenew),
        1 => Just(Command::Evicted),
        1 => Just(Command::Deleted),
        5 => prop::sample::select(PAUSES.to_vec()).prop_map(Command::Pass),
    ]
}

struct Run<'a> {
    server: &'a mut Server,
    layout: std::sync::Arc<dyn Layout>,
    model: Model,
    now: StoreTime,
}

impl Run<'_> {
    fn one(&mut self, command: &Command) -> Result<(), TestCaseError> {
        let machine = |write| {
            RedissonSharedMachine::new(Object::RwLock, if write { Share::WRITE } else { Share::READ }, KEY.into())
        };
        let begin = |intent, late: bool| asked(machine(false).step(Input::Begin(intent)), self.now.0 - i64::from(late));
        let (ttl, now) = (TTL.as_millis().to_string(), self.now.0);
        let request = match command {
            Command::Acquire { who, write, late } => {
                let intent = Intent::Acquire { terms: terms(*who), wait: true, prev: None };
                asked(machine(*write).step(Input::Begin(intent)), now - i64::from(*late))
            }
            Command::Renew { who, times } => begin(Intent::Renew { terms: terms(*who), ttl: TTL * *times }, false),
            Command::Change { who, write, stale, late } => {
                let owner = arguments(&begin(Intent::Release { terms: terms(*who), used: 1 }, false)).remove(0);
                let token = (self.model.notes.token(&owner).max(2) - i64::from(*stale)) as u64;
                let units = if *write { ALL } else { 1 };
                let change = Change { terms: terms(*who), token, ttl: TTL, units };
                asked(machine(false).change(change), now - i64::from(*late))
            }
            Command::Release { who } => begin(Intent::Release { terms: terms(*who), used: 1 }, false),
            Command::Undo { who } => begin(Intent::Undo { terms: terms(*who), prev: None }, false),
            Command::Break { nth } => {
                let token = self.model.notes.all.values().nth(*nth).map_or(7, |note| note.token);
                self.layout.break_hold(KEY.into(), token as u64).asks()[0].clone()
            }
            Command::Inspect => self.layout.inspect("x", KEY.into()).asks()[0].clone(),
            Command::TheyRead(thread) => {
                let thread = THREADS[*thread];
                self.model.they_read(thread, now);
                let lease = format!("{}:{thread}:rwlock_timeout", leases_base(KEY));
                theirs(self.server, READ_LOCK, &[KEY, &lease], &[&ttl, thread, &Model::writer(thread)]);
                return Ok(());
            }
            Command::TheyReadNoMore(thread) => {
                let thread = THREADS[*thread];
                self.model.they_read_no_more(thread);
                let lease = format!("{}:{thread}:rwlock_timeout", leases_base(KEY));
                let keys = [KEY, &Object::RwLock.channel(KEY), &lease, &leases_base(KEY)];
                theirs(self.server, READ_UNLOCK, &keys, &["0", thread]);
                return Ok(());
            }
            Command::TheyWrite(thread) => {
                self.model.they_write(THREADS[*thread], now);
                theirs(self.server, WRITE_LOCK, &[KEY], &[&ttl, &Model::writer(THREADS[*thread])]);
                return Ok(());
            }
            Command::TheyWriteNoMore(thread) => {
                self.model.they_write_no_more(THREADS[*thread], now);
                let keys = [KEY, &Object::RwLock.channel(KEY)];
                theirs(self.server, WRITE_UNLOCK, &keys, &["1", &ttl, &Model::writer(THREADS[*thread])]);
                return Ok(());
            }
            Command::TheyRenew(thread) => {
                self.model.they_renew(THREADS[*thread], now);
                theirs(self.server, RENEW, &[KEY, &leases_base(KEY)], &[&ttl, "1", THREADS[*thread]]);
                return Ok(());
            }
            Command::Evicted => {
                self.server.plain(&["DEL", &notes_key(KEY)]);
                (self.model.notes, self.model.notes_end) = (Notes::default(), 0);
                return Ok(());
            }
            Command::Deleted => {
                self.server.plain(&["DEL", KEY]);
                self.model.fields.clear();
                return Ok(());
            }
            Command::Pass(micros) => {
                self.pass(*micros);
                return Ok(());
            }
        };
        let expected = self.model.run(&request, now, now);
        let got = self.server.ask(&request, self.now);
        prop_assert!(alike(&got, &expected), "{}: {:?}, not {:?}", request, got, expected);
        if matches!(command, Command::Inspect) {
            let seen = self.layout.inspect("x", KEY.into()).answered(&got);
            prop_assert!(seen.is_ok(), "{:?}", seen);
        }
        Ok(())
    }

    /// The server's own ends come nearer by as much.
    fn pass(&mut self, micros: i64) {
        self.now = StoreTime(self.now.0 + micros);
        let nearer = "for _, key in ipairs(redis.call('KEYS', ARGV[1])) do
            local left = redis.call('PTTL', key)
            if left >= 0 then redis.call('PEXPIRE', key, left - ARGV[2]) end
        end";
        theirs(self.server, nearer, &[], &["*redisson rwlock {model}*", &(micros / 1000).to_string()]);
        self.model.pass(self.now.0);
    }

    fn check_keys(&mut self) -> Result<(), TestCaseError> {
        let Reply::List(flat) = self.server.plain(&["HGETALL", KEY]) else { panic!("no hash") };
        let mut found: BTreeMap<String, i64> = BTreeMap::new();
        let mut mode = None;
        for pair in flat.chunks(2) {
            match pair {
                [Reply::Text(field), Reply::Text(value)] if field == "mode" => mode = Some(value == "write"),
                [Reply::Text(field), Reply::Text(count)] => {
                    found.insert(field.clone(), count.parse().expect("a count"));
                }
                other => panic!("{other:?}"),
            }
        }
        prop_assert_eq!(&found, &self.model.fields);
        prop_assert_eq!(mode, (!found.is_empty()).then_some(self.model.write));
        let mut ends = vec![(notes_key(KEY), self.model.notes_end)];
        if !found.is_empty() {
            ends.push((KEY.into(), self.model.ends));
        }
        let lease = |((owner, level), ends): (&(String, i64), &i64)| {
            (format!("{}:{owner}:rwlock_timeout:{level}", leases_base(KEY)), *ends)
        };
        ends.extend(self.model.leases.iter().map(lease));
        for (key, ends) in ends.into_iter().filter(|(_, ends)| *ends > self.now.0) {
            let (left, wanted) = (self.server.number(&["PTTL", &key]).expect("a number"), (ends - self.now.0) / 1000);
            prop_assert!((wanted - SLACK..=wanted + 1).contains(&left), "{} {} {}", key, left, wanted);
        }
        Ok(())
    }
}

/// Equal but for the time that passed, by which spans that are left are shorter, and for the order of holders.
fn alike(got: &Reply, wanted: &Reply) -> bool {
    let sorted = |list: &[Reply]| {
        let mut list = list.to_vec();
        list.sort_by_key(|reply| match reply {
            Reply::List(inner) => format!("1{:?} {:?}", inner.first(), inner.get(4)),
            _ => "0".into(),
        });
        list
    };
    match (got, wanted) {
        (Reply::List(got), Reply::List(wanted)) => {
            let (got, wanted) = (sorted(got), sorted(wanted));
            got.len() == wanted.len() && got.iter().zip(&wanted).all(|(got, wanted)| alike(got, wanted))
        }
        (Reply::Int(got), Reply::Int(wanted)) => {
            got == wanted
                || (*wanted > SLACK * 1000
                    && *wanted < 1 << 45
                    && (wanted - SLACK * 1000..=wanted + 1000).contains(got))
        }
        (got, wanted) => got == wanted,
    }
}

#[test]
fn scripts_of_the_read_write_lock_do_what_the_reference_does() {
    let server = std::cell::RefCell::new(Server::connect());
    let outcome = runner().run(&prop::collection::vec(command(), 1..40), |commands| {
        let server = &mut *server.borrow_mut();
        let now = server.later();
        theirs(
            server,
            "for _, key in ipairs(redis.call('KEYS', ARGV[1])) do redis.call('DEL', key) end",
            &[],
            &["*redisson rwlock {model}*"],
        );
        let layout = layout("").shared(Share::READ).expect("there is one");
        let mut run = Run { server, layout, model: Model::default(), now };
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

#[test]
fn a_late_copy_of_a_change_is_not_done_again() {
    let (mut server, key) = (Server::connect(), "redisson rwlock late copy");
    server.plain(&["DEL", key, &notes_key(key)]);
    let now = StoreTime(1_000_000);
    let mut machine = RedissonSharedMachine::new(Object::RwLock, Share::READ, key.into());
    let taken =
        asked(machine.step(Input::Begin(Intent::Acquire { terms: terms(1), wait: true, prev: None })), i64::MAX);
    let Reply::Int(reader) = server.ask(&taken, now) else { panic!("granted") };
    let mut change = |token: i64, units| {
        let change = Change { terms: terms(1), token: token as u64, ttl: LONGEST_READ, units };
        server.ask(&asked(machine.change(change), i64::MAX), now)
    };
    let Reply::List(upgraded) = change(reader, ALL) else { panic!("changed") };
    let [Reply::Int(1), Reply::Int(writer)] = upgraded[..] else { panic!("{upgraded:?}") };
    assert!(writer > reader);
    assert_eq!(change(writer, 1), Reply::List(vec![Reply::Int(1), Reply::Int(writer)]));
    assert_eq!(change(reader, ALL), Reply::List(vec![Reply::Int(0)]));
    server.plain(&["DEL", key, &notes_key(key)]);
}

#[test]
fn a_batch_of_renewals_answers_for_each() {
    let mut server = Server::connect();
    let keys = ["redisson rwlock batch 1", "redisson rwlock batch 2", "redisson rwlock batch 3"];
    for key in keys {
        server.plain(&["DEL", key, &notes_key(key)]);
    }
    server.plain(&["SET", keys[0], "x"]);
    let mut one = RedissonSharedMachine::new(Object::RwLock, Share::READ, keys[2].into());
    let taken = asked(one.step(Input::Begin(Intent::Acquire { terms: terms(1), wait: true, prev: None })), i64::MAX);
    assert!(matches!(server.ask(&taken, StoreTime(1_000_000)), Reply::Int(_)));
    let mut command = redis::cmd("EVAL");
    let renewals = keys.map(|key| {
        let mut machine = RedissonSharedMachine::new(Object::RwLock, Share::READ, key.into());
        asked(machine.step(Input::Begin(Intent::Renew { terms: terms(1), ttl: LONGEST_READ })), i64::MAX)
    });
    command.arg(renewals[0].call.body.concat()).arg(2 * keys.len());
    keys.iter().for_each(|key| {
        command.arg(*key).arg(notes_key(key));
    });
    renewals.iter().flat_map(arguments).for_each(|arg| {
        command.arg(arg);
    });
    assert_eq!(server.run(&command), Reply::List([0, 0, 1].map(Reply::Int).to_vec()));
    server.plain(&["DEL", keys[0], keys[2], &notes_key(keys[2])]);
}
