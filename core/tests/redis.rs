//! The whole way down and back over a Redis server.

#![cfg(feature = "redis")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use lockwright::lease::ReleaseOutcome;
use lockwright::options::ConnectOptions;
use lockwright::{Kind, blocking};

fn address() -> String {
    std::env::var("LOCKWRIGHT_TEST_REDIS").unwrap_or_else(|_| {
        panic!(
            "these tests need a Redis server: run `conformance/services/redis.sh start` and set LOCKWRIGHT_TEST_REDIS \
             to the address it prints"
        )
    })
}

fn client() -> blocking::Client {
    blocking::Client::open(Some(&address()), ConnectOptions::default()).unwrap()
}

/// A name that no other run of these tests uses.
fn fresh(what: &str) -> String {
    format!("{what} {} {:?}", std::process::id(), std::time::SystemTime::now())
}

#[test]
fn threads_of_several_clients_exclude_each_other_and_tokens_rise() {
    let name = fresh("count");
    let (counter, highest) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let clients = [client(), client(), client()];
    let threads: Vec<_> = (0..12)
        .map(|i| {
            let lock = clients[i % 3].lock(&name);
            let lock = if i % 2 == 0 { lock.build() } else { lock.fair().build() }.unwrap();
            let (counter, highest) = (counter.clone(), highest.clone());
            std::thread::spawn(move || {
                for _ in 0..100 {
                    let guard = lock.acquire().unwrap();
                    let seen = counter.load(Ordering::Relaxed);
                    assert!(highest.swap(guard.token().n, Ordering::Relaxed) < guard.token().n);
                    std::thread::yield_now();
                    counter.store(seen + 1, Ordering::Relaxed);
                    assert_eq!(guard.release().unwrap(), ReleaseOutcome::Released);
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(counter.load(Ordering::Relaxed), 1_200);
    let left = clients[0].inspect(&name).unwrap();
    assert!(left.holder.is_none() && left.waiters == 0, "{left:?}");
}

#[tokio::test]
async fn tasks_and_threads_exclude_each_other() {
    let name = fresh("tasks");
    let held = client().lock(&name).acquire().unwrap();
    let tasks = lockwright::connect(&address()).await.unwrap();
    assert!(tasks.lock(&name).try_acquire().await.unwrap().is_none());
    let refused = tasks.lock(&name).timeout(Duration::from_millis(300)).acquire().await.unwrap_err();
    assert_eq!(refused.kind(), Kind::Timeout);
    let waiting = tokio::spawn(async move {
        let guard = tasks.lock(&name).acquire().await.unwrap();
        (Instant::now(), guard.release().await.unwrap())
    });
    tokio::time::sleep(Duration::from_millis(300)).await;
    let released = Instant::now();
    assert_eq!(held.release().unwrap(), ReleaseOutcome::Released);
    let (granted, outcome) = waiting.await.unwrap();
    assert_eq!(outcome, ReleaseOutcome::Released);
    assert!(granted - released < Duration::from_millis(200), "pushed, not polled: {:?}", granted - released);
}

/// A client as a user of few rights, who is made for it.
fn client_with(rights: &str, options: &str) -> blocking::Client {
    let (user, address) = (fresh("user").replace(' ', "-"), address());
    let admin = redis::Client::open(address.clone()).unwrap();
    let mut words = redis::cmd("ACL");
    words.arg("SETUSER").arg(&user).arg("on").arg(">secret").arg(rights.split(' ').collect::<Vec<_>>());
    words.exec(&mut admin.get_connection().unwrap()).unwrap();
    let user: String = url::form_urlencoded::byte_serialize(user.as_bytes()).collect();
    let address = address.replace("redis://", &format!("redis://{user}:secret@"));
    blocking::Client::open(Some(&format!("{address}?{options}")), ConnectOptions::default()).unwrap()
}

#[test]
fn without_the_right_to_subscribe_waiters_poll() {
    for rights in ["~lw:* +@all resetchannels", "~lw:* &* +@all -subscribe"] {
        let name = fresh("polled");
        let poor = client_with(rights, "");
        let early = poor.lock(&name).fair().build().unwrap();
        let held = client().lock(&name).acquire().unwrap();
        let patient = {
            let (poor, name) = (poor.clone(), name.clone());
            std::thread::spawn(move || {
                let guard = poor.lock(&name).acquire().unwrap();
                (Instant::now(), guard.release().unwrap())
            })
        };
        let give_up = Instant::now() + Duration::from_secs(5);
        while poor.guarantees().unwrap().push {
            assert!(Instant::now() < give_up, "the refusal is not noticed");
            std::thread::sleep(Duration::from_millis(5));
        }
        // Who asked for order is told that there is none, whether it asks now or waits already.
        assert!(!poor.guarantees().unwrap().fair);
        assert_eq!(poor.lock(&name).fair().build().unwrap_err().kind(), Kind::Unsupported);
        assert_eq!(early.acquire().unwrap_err().kind(), Kind::Unsupported);
        let released = Instant::now();
        let _ = held.release().unwrap();
        let (granted, outcome) = patient.join().unwrap();
        assert_eq!(outcome, ReleaseOutcome::Released);
        assert!(
            granted - released < Duration::from_millis(500),
            "polled as often as retry says: {:?}",
            granted - released
        );
    }
}

/// As in the docs of this store.
const NATIVE_RIGHTS: &str = "~lw:* &lwi:* +eval +evalsha +exists +hmget +hget +hgetall +hset +hdel +hexists +time +pexpireat \
                             +publish +pubsub|numsub +subscribe +ping +select +scan +client|setname +info";

#[test]
fn what_a_user_may_not_use_is_told() {
    let rights = |rights: &str| {
        let found = client_with(rights, "").examine().unwrap();
        found.into_iter().find(|one| one.check == "rights").map(|one| one.found)
    };
    assert_eq!(rights(NATIVE_RIGHTS), None);
    let told = rights(&format!("{NATIVE_RIGHTS} resetchannels -hgetall -scan")).unwrap();
    assert!(told.ends_with("may not use HGETALL, PUBLISH, SUBSCRIBE, SCAN"), "{told}");
}

#[test]
fn a_fair_waiter_is_told_when_subscribing_turns_out_to_be_refused() {
    let name = fresh("unfair");
    let _held = client().lock(&name).acquire().unwrap();
    let refused = client_with("~lw:* +@all resetchannels", "timeout=10s").lock(&name).fair().acquire().unwrap_err();
    assert_eq!(refused.kind(), Kind::Unsupported, "{refused}");
}

#[test]
fn a_candidate_that_turns_out_to_wait_in_no_order_leads_all_the_same() {
    let name = fresh("candidate");
    let first = client().election(&name).campaign("first").unwrap();
    let poor = client_with("~lw:* +@all resetchannels", "timeout=10s&retry=5ms");
    let election = poor.election(&name);
    let waits = std::thread::spawn(move || election.campaign("second"));
    while poor.guarantees().unwrap().fair {
        std::thread::yield_now();
    }
    let _ = first.release().unwrap();
    let second = waits.join().unwrap().unwrap();
    assert_eq!(client().election(&name).leader().unwrap().unwrap().card.label, "second");
    let _ = second.release().unwrap();
    drop(poor.election(&name).campaign("third").unwrap());
}

#[test]
fn a_lock_is_looked_at_and_broken_in_its_own_layout() {
    let name = fresh("string");
    let client = client();
    let lock = |format| client.lock(&name).layout("string").format(format).label("mine").build().unwrap();
    let (ours, theirs) = (lock("redis-py"), lock("redsync"));
    assert!(!ours.guarantees().push && client.guarantees().unwrap().push);
    let guard = ours.acquire().unwrap();
    let seen = ours.inspect().unwrap();
    let holder = seen.holder.unwrap();
    assert_eq!((&*seen.layout, &*holder.card.label, holder.first_token), ("string", "mine", guard.token().n));
    assert!(client.inspect(&name).unwrap().holder.is_none(), "the client's own layout is another");
    assert_eq!(theirs.try_acquire().unwrap_err().kind(), Kind::ForeignLayout);
    assert_eq!(theirs.inspect().unwrap_err().kind(), Kind::ForeignLayout);
    assert!(!client.break_lock(&name, guard.token()).unwrap());
    assert!(ours.break_lock(guard.token()).unwrap());
    assert!(!guard.is_held() && ours.inspect().unwrap().holder.is_none());
}

/// As in the docs of this store, for locks whose names begin with `string`, and what some layouts need besides.
const STRING_RIGHTS: &str = "~string* ~lock:string* ~lwt:* resetchannels +eval +evalsha +get +set +del +pttl +pexpire +type +time \
                             +ping +select +scan +client|setname";
const MORE_RIGHTS: [(&str, &str); 4] = [
    ("layout=string&format=spring-template", ""),
    ("layout=python_redis_lock", "~lock-signal:* +lpush"),
    ("layout=getset&format=seconds", ""),
    ("layout=symfony", "+zrangebyscore +zadd +zscore +pexpireat"),
];

#[test]
fn the_documented_rights_are_enough_for_a_joined_lock() {
    for (layout, more) in MORE_RIGHTS {
        let name = fresh("string rights");
        let rights = format!("{STRING_RIGHTS} {more}");
        let poor = client_with(&rights, layout);
        let guard = poor.lock(&name).acquire().unwrap();
        assert!(poor.lock(&name).try_acquire().unwrap().is_none());
        guard.extend(Duration::from_secs(60)).unwrap();
        let waits = client_with(&rights, &format!("{layout}&retry=5ms"));
        assert_eq!(waits.lock(&name).timeout(Duration::from_millis(300)).acquire().unwrap_err().kind(), Kind::Timeout);
        assert!(poor.list().unwrap().contains(&name));
        assert_eq!(poor.inspect(&name).unwrap().holder.unwrap().first_token, guard.token().n);
        assert!(poor.break_lock(&name, guard.token()).unwrap());
        assert!(!guard.is_held());
        assert_eq!(poor.lock(&name).acquire().unwrap().release().unwrap(), ReleaseOutcome::Released);
    }
}

/// As in the docs of this store, for locks whose names begin with `redisson`.
const REDISSON_RIGHTS: &str = "~redisson* ~lwt:* resetchannels &redisson_lock__channel:* +eval +evalsha +get +set +del +hlen +hkeys \
                               +hget +hset +hexists +pttl +pexpire +type +lindex +lpos +lpop +rpush +lrem +lrange +llen \
                               +zscore +zadd +zrem +zincrby +time +publish +subscribe +unsubscribe +ping +select +scan +client|setname";

/// How many listen on the channel of Redisson's lock `name`.
fn listeners(name: &str) -> u64 {
    let channel = lockwright_machines::stores::redis::layouts::redisson::channel(name);
    let mut connection = redis::Client::open(address()).unwrap().get_connection().unwrap();
    let (_, count): (String, u64) = redis::cmd("PUBSUB").arg("NUMSUB").arg(channel).query(&mut connection).unwrap();
    count
}

fn until(what: &str, is_so: impl Fn() -> bool) {
    let give_up = Instant::now() + Duration::from_secs(15);
    while !is_so() {
        assert!(Instant::now() < give_up, "never: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn the_documented_rights_are_enough_for_a_lock_of_redisson_fair_or_not() {
    for fair in [false, true] {
        let name = fresh("redisson rights");
        let poor = client_with(REDISSON_RIGHTS, "layout=redisson");
        let lock = |ms| {
            let lock = poor.lock(&name).timeout(Duration::from_millis(ms));
            if fair { lock.fair().build().unwrap() } else { lock.build().unwrap() }
        };
        let guard = lock(5_000).acquire().unwrap();
        assert!(lock(5_000).try_acquire().unwrap().is_none());
        guard.extend(Duration::from_secs(60)).unwrap();
        let other = client_with(REDISSON_RIGHTS, "layout=redisson&timeout=10s");
        let other = if fair { other.lock(&name).fair() } else { other.lock(&name) }.build().unwrap();
        let waiting = std::thread::spawn(move || other.acquire().unwrap().release().unwrap());
        if fair {
            until("it queues", || poor.inspect(&name).unwrap().waiters == 1);
        } else {
            until("it listens", || listeners(&name) == 1);
        }
        assert_eq!(lock(100).acquire().unwrap_err().kind(), Kind::Timeout);
        assert!(poor.list().unwrap().contains(&name));
        assert_eq!(poor.inspect(&name).unwrap().holder.unwrap().first_token, guard.token().n);
        assert!(poor.break_lock(&name, guard.token()).unwrap());
        assert_eq!(waiting.join().unwrap(), ReleaseOutcome::Released);
        assert!(poor.guarantees().unwrap().push);
        until("the queue is empty", || poor.inspect(&name).unwrap().waiters == 0);
    }
}

#[test]
fn a_channel_is_heard_while_somebody_waits_and_not_much_longer() {
    let name = fresh("redisson channel");
    let place = format!("{}?layout=redisson", address());
    let open = || blocking::Client::open(Some(&place), ConnectOptions::default()).unwrap();
    let (here, there) = (open(), open());
    let held = here.lock(&name).acquire().unwrap();
    assert_eq!(listeners(&name), 0);
    let (granted, times) = std::sync::mpsc::channel();
    let waiting = {
        let lock = there.lock(&name).build().unwrap();
        std::thread::spawn(move || {
            let guard = lock.acquire().unwrap();
            granted.send(Instant::now()).unwrap();
            guard
        })
    };
    until("it listens", || listeners(&name) == 1);
    let _ = held.release().unwrap();
    times.recv_timeout(Duration::from_secs(5)).unwrap();
    let _ = waiting.join().unwrap().release().unwrap();
    until("it listens no more", || listeners(&name) == 0);
}

#[test]
fn without_the_right_to_subscribe_a_fair_lock_of_redisson_keeps_its_order() {
    let name = fresh("redisson unheard");
    let deaf = client_with("~* +@all resetchannels", "layout=redisson&timeout=10s");
    let place = format!("{}?layout=redisson", address());
    let held =
        blocking::Client::open(Some(&place), ConnectOptions::default()).unwrap().lock(&name).fair().acquire().unwrap();
    let lock = deaf.lock(&name).fair().build().unwrap();
    let first = {
        let lock = lock.clone();
        std::thread::spawn(move || lock.acquire().unwrap().token())
    };
    until("the first queues", || deaf.inspect(&name).unwrap().waiters == 1);
    let second = std::thread::spawn(move || lock.acquire().unwrap().token());
    until("the second queues", || deaf.inspect(&name).unwrap().waiters == 2);
    until("the refusal is known", || !deaf.guarantees().unwrap().push);
    assert!(deaf.guarantees().unwrap().fair);
    let _ = held.release().unwrap();
    let (first, second) = (first.join().unwrap(), second.join().unwrap());
    assert!(first.n < second.n, "{first:?} {second:?}");
}

#[test]
fn a_held_lock_is_renewed_and_a_broken_one_is_lost() {
    let name = fresh("renewed");
    let client = client();
    let guard = client.lock(&name).ttl(Duration::from_millis(600)).acquire().unwrap();
    std::thread::sleep(Duration::from_millis(1500));
    assert!(guard.is_held());
    assert!(client.break_lock(&name, guard.token()).unwrap());
    let give_up = Instant::now() + Duration::from_secs(2);
    while guard.is_held() {
        assert!(Instant::now() < give_up);
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_name_that_only_a_longer_prefix_leaves_short_enough_is_not_listed() {
    let place = format!("{}?prefix=list-{}:", address(), std::process::id());
    let open = |uri: &str| blocking::Client::open(Some(uri), ConnectOptions::default()).unwrap();
    let (short, long) = (open(&place), open(&format!("{place}longer:")));
    let longest = "n".repeat(1024);
    let guards = [long.lock(&longest).acquire().unwrap(), short.lock("x").acquire().unwrap()];
    assert_eq!(long.list().unwrap(), [longest]);
    assert_eq!(short.list().unwrap(), ["x"]);
    guards.into_iter().for_each(|guard| assert_eq!(guard.release().unwrap(), ReleaseOutcome::Released));
}

/// As in the docs of this store, for read/write locks and semaphores whose names begin with `redisson`.
const SHARED_RIGHTS: &str = "~redisson* ~{redisson* ~lws:* ~lwl:* resetchannels &redisson_rwlock:* &redisson_sc:* +eval +evalsha +get +set \
                             +del +exists +hget +hset +hdel +hlen +hkeys +hexists +pttl +pexpire +type +time +incrby +decrby +zadd \
                             +zrem +zcard +zscore +zrange +zrangebyscore +publish +subscribe +unsubscribe +ping +select \
                             +client|setname";

#[test]
fn the_documented_rights_are_enough_for_what_several_hold_of_redissons() {
    let name = fresh("redisson shared rights");
    let poor = client_with(SHARED_RIGHTS, "layout=redisson&timeout=10s");
    let other = client_with(SHARED_RIGHTS, "layout=redisson&timeout=10s");
    let reader = poor.rwlock(&name).read().label("mine").acquire().unwrap();
    assert!(!reader.try_upgrade().unwrap() || reader.downgrade().is_ok());
    assert!(other.rwlock(&name).write().try_acquire().unwrap().is_none());
    let writer = other.rwlock(&name).write().build().unwrap();
    let seen = writer.inspect().unwrap();
    assert_eq!(seen.holder.unwrap().card.label, "mine");
    let waiting = std::thread::spawn(move || writer.acquire().unwrap().release().unwrap());
    reader.extend(Duration::from_secs(20)).unwrap();
    assert_eq!(reader.release().unwrap(), ReleaseOutcome::Released);
    assert_eq!(waiting.join().unwrap(), ReleaseOutcome::Released);
    for format in ["", "&format=counted"] {
        let name = fresh("redisson permits rights");
        let poor = client_with(SHARED_RIGHTS, &format!("layout=redisson&timeout=10s{format}"));
        let permits = |take| poor.semaphore(&name, 3).take(take).build().unwrap();
        let (two, one) = (permits(2).acquire().unwrap(), permits(1).acquire().unwrap());
        assert!(permits(1).try_acquire().unwrap().is_none());
        assert!(one.token() > two.token());
        let shared = permits(1).inspect().unwrap().shared.unwrap();
        let units: u32 = shared.holders.iter().map(|part| part.units).sum();
        assert_eq!((shared.permits, units), (format.is_empty().then_some(3), 3));
        two.extend(Duration::from_secs(60)).unwrap();
        assert!(permits(1).break_lock(one.token()).unwrap() && !one.is_held());
        assert_eq!(two.release().unwrap(), ReleaseOutcome::Released);
        assert_eq!(permits(3).acquire().unwrap().release().unwrap(), ReleaseOutcome::Released);
        redis::cmd("DEL")
            .arg(&name)
            .exec(&mut redis::Client::open(address()).unwrap().get_connection().unwrap())
            .unwrap();
    }
}

#[test]
fn what_redissons_layout_cannot_honour_is_refused_when_it_is_built() {
    let place = format!("{}?layout=redisson", address());
    let client = blocking::Client::open(Some(&place), ConnectOptions::default()).unwrap();
    let minute = Duration::from_secs(60);
    let refused = |lock: lockwright::LockBuilder<_>| lock.build().err().map(|error| error.kind());
    assert_eq!(refused(client.rwlock("x").read().ttl(minute)), Some(Kind::InvalidConfig));
    assert_eq!(refused(client.rwlock("x").read().fair()), Some(Kind::Unsupported));
    assert_eq!(refused(client.rwlock("x").write().ttl(minute)), None);
    assert_eq!(refused(client.semaphore("x", 3).fair()), Some(Kind::Unsupported));
    assert_eq!(refused(client.semaphore("x", 3000).take(1001)), Some(Kind::InvalidConfig));
    assert_eq!(refused(client.lock("x").format("fenced").fair()), Some(Kind::Unsupported));
    assert_eq!(refused(client.lock("x").format("other")), Some(Kind::Unsupported));
    let counted = client.semaphore("x", 3).format("counted").build().unwrap();
    assert_eq!(counted.resize(4).unwrap_err().kind(), Kind::Unsupported);
    assert!(
        client.semaphore("x", 3).build().unwrap().guarantees().exclusive_until != counted.guarantees().exclusive_until
    );
    let name = fresh("redisson reader");
    let reader = client.rwlock(&name).read().acquire().unwrap();
    assert_eq!(reader.extend(minute).unwrap_err().kind(), Kind::InvalidConfig);
    assert!(reader.is_held());
    assert_eq!(client.inspect(&name).unwrap().shared.unwrap().holders.len(), 1);
    assert!(client.list().unwrap().contains(&name));
    assert_eq!(client.semaphore(&name, 3).acquire().unwrap_err().kind(), Kind::ForeignLayout);
    assert_eq!(client.lock(&name).acquire().unwrap_err().kind(), Kind::ForeignLayout);
    assert!(client.break_lock(&name, reader.token()).unwrap());
    let name = fresh("redisson looked at");
    let permit = client.semaphore(&name, 3).acquire().unwrap();
    assert_eq!(client.inspect(&name).unwrap().shared.unwrap().permits, Some(3));
    client.semaphore(&name, 3).build().unwrap().resize(5).unwrap();
    assert_eq!(client.inspect(&name).unwrap().shared.unwrap().permits, Some(5));
    assert!(client.break_lock(&name, permit.token()).unwrap());
    redis::cmd("DEL").arg(&name).exec(&mut redis::Client::open(address()).unwrap().get_connection().unwrap()).unwrap();
}

/// As `SET name owner NX PX ttl` and a compare-and-delete of any library that keeps locks so.
struct Plain(redis::Connection);

impl Plain {
    fn new() -> Self {
        Plain(redis::Client::open(address()).unwrap().get_connection().unwrap())
    }

    fn try_acquire(&mut self, name: &str, owner: &str, ttl: Duration) -> bool {
        let mut set = redis::cmd("SET");
        set.arg(name).arg(owner).arg("NX").arg("PX").arg(ttl.as_millis() as u64);
        set.query::<Option<String>>(&mut self.0).unwrap().is_some()
    }

    fn release(&mut self, name: &str, owner: &str) -> bool {
        let compares = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";
        redis::cmd("EVAL").arg(compares).arg(1).arg(name).arg(owner).query(&mut self.0).unwrap()
    }
}

const TOKENLESS: &str = "layout=string&format=redsync&tokens=false";

fn client_of(options: &str) -> blocking::Client {
    blocking::Client::open(Some(&format!("{}?{options}", address())), ConnectOptions::default()).unwrap()
}

#[test]
fn without_tokens_everybody_is_excluded_by_a_plain_set() {
    let name = fresh("tokenless count");
    let counter = AtomicU64::new(0);
    let clients = [client_of(TOKENLESS), client_of(TOKENLESS), client_of("layout=string&format=redsync")];
    std::thread::scope(|scope| {
        for number in 0..9 {
            let lock = clients[number % 3].lock(&name).build().unwrap();
            let counter = &counter;
            scope.spawn(move || {
                for _ in 0..60 {
                    let guard = lock.acquire().unwrap();
                    let seen = counter.load(Ordering::Relaxed);
                    std::thread::yield_now();
                    counter.store(seen + 1, Ordering::Relaxed);
                    assert_eq!(guard.release().unwrap(), ReleaseOutcome::Released);
                }
            });
        }
        for number in 0..3 {
            let (counter, name) = (&counter, &name);
            scope.spawn(move || {
                let (mut plain, owner) = (Plain::new(), format!("3q2+7wABAgMEBQYHCAkKC{number}=="));
                for _ in 0..60 {
                    while !plain.try_acquire(name, &owner, Duration::from_secs(30)) {
                        std::thread::sleep(Duration::from_millis(1));
                    }
                    let seen = counter.load(Ordering::Relaxed);
                    std::thread::yield_now();
                    counter.store(seen + 1, Ordering::Relaxed);
                    assert!(plain.release(name, &owner), "it was somebody else's");
                }
            });
        }
    });
    assert_eq!(counter.load(Ordering::Relaxed), 12 * 60);
    assert!(clients[0].inspect(&name).unwrap().holder.is_none());
}

#[test]
fn without_tokens_a_free_lock_is_one_set_and_it_is_held_as_any_other() {
    let (name, mut plain) = (fresh("tokenless"), Plain::new());
    let client = client_of(TOKENLESS);
    let lock = client.lock(&name).ttl(Duration::from_millis(600)).build().unwrap();
    let guard = lock.acquire().unwrap();
    assert_eq!(guard.token(), lockwright::token::Token::NONE);
    let written: String = redis::cmd("GET").arg(&name).query(&mut plain.0).unwrap();
    assert_eq!(written.len(), 24, "as redsync writes it: {written}");
    let beside: i64 = redis::cmd("EXISTS")
        .arg(lockwright_machines::stores::redis::layouts::joined::record_key(&name))
        .query(&mut plain.0)
        .unwrap();
    assert_eq!(beside, 0, "nothing lies beside it");
    assert!(!plain.try_acquire(&name, "3q2+7wABAgMEBQYHCAkKCw==", Duration::from_secs(1)));
    assert!(client_of(TOKENLESS).lock(&name).try_acquire().unwrap().is_none());
    std::thread::sleep(Duration::from_millis(1_000));
    assert!(
        guard.is_held() && !plain.try_acquire(&name, "3q2+7wABAgMEBQYHCAkKCw==", Duration::from_secs(1)),
        "it is renewed"
    );
    let seen = client.inspect(&name).unwrap().holder.unwrap();
    assert_eq!((seen.first_token, &*seen.card.language), (0, "redsync"), "a holder like those of the library");
    assert_eq!(guard.release().unwrap(), ReleaseOutcome::Released);
    // Theirs is waited for until it is given back, or ends.
    assert!(plain.try_acquire(&name, "3q2+7wABAgMEBQYHCAkKCw==", Duration::from_millis(300)));
    assert_eq!(lock.try_acquire().unwrap().map(drop), None);
    let guard = lock.acquire().unwrap();
    assert!(!plain.release(&name, "3q2+7wABAgMEBQYHCAkKCw=="));
    assert_eq!(guard.release().unwrap(), ReleaseOutcome::Released);
    let _: () = redis::cmd("HSET").arg(&name).arg("f").arg("1").query(&mut plain.0).unwrap();
    assert_eq!(lock.try_acquire().unwrap_err().kind(), Kind::ForeignLayout);
    let _: () = redis::cmd("DEL").arg(&name).query(&mut plain.0).unwrap();
}

#[test]
fn what_there_is_not_without_tokens_is_refused_when_it_is_built_or_asked() {
    use lockwright::guarantee::{Requirements, TokenRises};
    let client = client_of(TOKENLESS);
    assert_eq!(client.guarantees().unwrap().token, TokenRises::Never);
    let fenced = Requirements { fenced: true, ..Requirements::default() };
    assert_eq!(client.require(fenced).unwrap_err().kind(), Kind::Unsupported);
    assert_eq!(client.list().unwrap_err().kind(), Kind::Unsupported);
    assert_eq!(client.break_lock("x", lockwright::token::Token::NONE).unwrap_err().kind(), Kind::Unsupported);
    assert_eq!(client.lock("x").layout("native").build().unwrap_err().kind(), Kind::Unsupported);
    assert_eq!(client.lock("x").fair().build().unwrap_err().kind(), Kind::Unsupported);
    for (options, kind) in [
        ("tokens=false", Kind::Unsupported),
        ("tokens=false&layout=redisson", Kind::Unsupported),
        ("tokens=false&layout=native", Kind::Unsupported),
        ("tokens=never&layout=string&format=redsync", Kind::InvalidConfig),
    ] {
        let error = blocking::Client::open(Some(&format!("{}?{options}", address())), ConnectOptions::default());
        assert_eq!(error.map(drop).unwrap_err().kind(), kind, "{options}");
    }
}
