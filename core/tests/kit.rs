//! What is built of locks for a purpose: one caller does the job, one of many leads, and what is protected refuses
//! whoever comes late.

mod test_stores;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use lockwright::kit::{self, Fence};
use lockwright::once::Found;
use lockwright::options::AcquireOptions;
use lockwright::{Async, Error, Kind};
use test_stores::TestStore;

const TTL: Duration = Duration::from_secs(20);

#[test]
fn one_of_many_callers_does_the_job() {
    for place in TestStore::all() {
        let (made, value) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
        let callers: Vec<_> = (0..16)
            .map(|_| {
                let job = place.client().once(&place.name, TTL).unwrap();
                let (made, value) = (made.clone(), value.clone());
                std::thread::spawn(move || {
                    let look = || match value.load(Ordering::SeqCst) {
                        0 => Ok(Found::Missing),
                        some => Ok(Found::Fresh(some)),
                    };
                    let make = |_| {
                        made.fetch_add(1, Ordering::SeqCst);
                        value.store(7, Ordering::SeqCst);
                        Ok::<_, Error>(7)
                    };
                    job.get(look, make).unwrap()
                })
            })
            .collect();
        assert!(callers.into_iter().all(|caller| caller.join().unwrap() == 7));
        assert_eq!(made.load(Ordering::SeqCst), 1);
    }
}

#[test]
fn whoever_has_a_stale_value_goes_on_with_it_or_waits() {
    for place in TestStore::all() {
        let (a, b) = (place.client(), place.client());
        let job = a.once(&place.name, TTL).unwrap();
        let busy = b.lock(&place.name).acquire().unwrap();
        let stale = || Ok::<_, Error>(Found::Stale(1));
        assert_eq!(job.get(stale, |_| panic!("somebody else does")).unwrap(), 1);
        let options = AcquireOptions { timeout: Some(Duration::from_millis(300)), ..a.options() };
        let waiting = a.once_with(&place.name, &options).unwrap().waiting();
        assert_eq!(waiting.get(stale, |_| panic!("somebody else does")).unwrap_err().kind(), Kind::Timeout);
        let token = busy.token();
        let _ = busy.release().unwrap();
        // The place in line of whoever was just refused may be there for a moment yet.
        let made = job.waiting().get(stale, |given| Ok::<_, Error>(i32::from(given > token) + 1)).unwrap();
        assert_eq!(made, 2);
    }
}

#[test]
fn a_job_that_fails_or_dies_goes_to_the_next() {
    for place in TestStore::all() {
        let job = place.client().once(&place.name, TTL).unwrap();
        let missing = || Ok::<Found<u8>, Error>(Found::Missing);
        let failed = job.get(missing, |_| Err(Error::new(Kind::Internal, "make", "no luck"))).unwrap_err();
        assert_eq!(failed.kind(), Kind::Internal);
        // As a process that is killed does: nobody renews, nobody releases.
        let options = AcquireOptions { ttl: Duration::from_millis(200), renew: false, ..job.lock().options().clone() };
        let dead = place.client().lock(&place.name).options(options).acquire().unwrap();
        assert_eq!(job.get(missing, |_| Ok(1)).unwrap(), 1);
        drop(dead);
    }
}

#[tokio::test]
async fn tasks_share_a_job_too() {
    for place in TestStore::all() {
        let client = lockwright::Client::<Async>::open(Some(&place.uri), Default::default()).unwrap();
        let job = client.once(&place.name, TTL).unwrap();
        let (made, value) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
        let callers: Vec<_> = (0..64)
            .map(|_| {
                let (job, made, value) = (job.clone(), made.clone(), value.clone());
                tokio::spawn(async move {
                    let look = || async {
                        match value.load(Ordering::SeqCst) {
                            0 => Ok(Found::Missing),
                            some => Ok(Found::Fresh(some)),
                        }
                    };
                    let make = |_| async {
                        made.fetch_add(1, Ordering::SeqCst);
                        tokio::task::yield_now().await;
                        value.store(7, Ordering::SeqCst);
                        Ok::<_, Error>(7)
                    };
                    job.get(look, make).await.unwrap()
                })
            })
            .collect();
        for caller in callers {
            assert_eq!(caller.await.unwrap(), 7);
        }
        assert_eq!(made.load(Ordering::SeqCst), 1);
    }
}

#[test]
fn one_leads_and_the_next_follows_when_it_resigns() {
    for place in TestStore::all() {
        let (a, b, c) = (place.client(), place.client(), place.client());
        let election = a.election(&place.name);
        assert_eq!(election.leader().unwrap(), None);
        let first = election.campaign("here").unwrap();
        let seen = c.election(&place.name).changed(None, Duration::from_millis(5)).unwrap().unwrap();
        assert_eq!((seen.card.label.as_str(), seen.token), ("here", first.token().n));
        let next = b.election(&place.name);
        let candidate = std::thread::spawn(move || next.campaign("there").unwrap());
        while c.inspect(&place.name).unwrap().waiters == 0 {
            std::thread::yield_now();
        }
        let _ = first.release().unwrap();
        let second = candidate.join().unwrap();
        let known = seen.token;
        let seen = c.election(&place.name).changed(Some(known), Duration::from_millis(5)).unwrap().unwrap();
        assert_eq!((seen.card.label.as_str(), seen.token), ("there", second.token().n));
        assert!(second.token().n > known);
        let _ = second.release().unwrap();
        assert_eq!(c.election(&place.name).changed(Some(seen.token), Duration::from_millis(5)).unwrap(), None);
        let impatient = AcquireOptions { timeout: Some(Duration::ZERO), ..c.options() };
        let held = election.campaign("back").unwrap();
        assert_eq!(c.election_with(&place.name, &impatient).campaign("never").unwrap_err().kind(), Kind::Timeout);
        assert!(c.election(&place.name).campaign(&"x".repeat(129)).is_err());
        drop(held);
    }
}

#[test]
fn candidates_of_one_client_stand_in_line_each_by_itself() {
    for place in TestStore::all() {
        let client = place.client();
        let first = client.election(&place.name).campaign("first").unwrap();
        let candidates = ["second", "third"].map(|who| {
            let election = client.election(&place.name);
            std::thread::spawn(move || drop(election.campaign(who).unwrap()))
        });
        let give_up = Instant::now() + Duration::from_secs(10);
        while client.inspect(&place.name).unwrap().waiters < 2 {
            assert!(Instant::now() < give_up, "both are known to the store");
            std::thread::yield_now();
        }
        let _ = first.release().unwrap();
        for candidate in candidates {
            candidate.join().unwrap();
        }
    }
}

/// Two holders: the first was stopped past its lease and writes when the second has written.
fn late_and_next(place: &TestStore) -> [u64; 2] {
    let stopped = place.lock().ttl(Duration::from_millis(100)).renew(false).acquire().unwrap();
    let next = place.lock().acquire().unwrap();
    assert!(!stopped.is_held());
    [stopped.token().n, next.token().n]
}

#[test]
fn a_stale_writer_is_refused_by_a_table() {
    let db = rusqlite::Connection::open_in_memory().unwrap();
    db.execute_batch("CREATE TABLE account (id, balance, fence INTEGER); INSERT INTO account VALUES (7, 100, NULL);")
        .unwrap();
    let fresh = kit::sql_condition("fence", "?2").unwrap();
    let update = format!("UPDATE account SET balance = ?1, fence = ?2 WHERE id = 7 AND {fresh}");
    let write = |balance: i64, token: u64| db.execute(&update, (balance, token as i64)).unwrap();
    let [late, next] = late_and_next(&TestStore::all()[0]);
    assert_eq!((write(90, next), write(80, next), write(50, late)), (1, 1, 0));
    assert_eq!(db.query_row("SELECT balance FROM account", [], |row| row.get::<_, i64>(0)).unwrap(), 80);
}

#[test]
fn a_stale_writer_is_refused_by_a_script() {
    let place = TestStore::all().pop().unwrap();
    let mut server = redis::Client::open(place.uri.as_str()).unwrap().get_connection().unwrap();
    let (value, fence) = (format!("{{{}}}:value", place.name), format!("{{{}}}:fence", place.name));
    let mut write = |text: &str, token: u64| -> i64 {
        let script =
            redis::cmd("EVAL").arg(kit::SET_SCRIPT).arg(2).arg(&value).arg(&fence).arg(token).arg(text).clone();
        script.query(&mut server).unwrap()
    };
    let [late, next] = late_and_next(&place);
    assert_eq!((write("one", next), write("two", next), write("late", late)), (1, 1, 0));
    // Of other lengths, and beyond what a script's numbers can tell apart.
    assert_eq!((write("low", 9), write("high", u64::MAX - 1), write("late", u64::MAX - 2)), (0, 1, 0));
    let kept: String = redis::cmd("GET").arg(&value).query(&mut server).unwrap();
    assert_eq!(kept, "high");
    let _: i64 = redis::cmd("DEL").arg(&value).arg(&fence).query(&mut server).unwrap();
}

#[test]
fn a_stale_writer_is_refused_by_a_header() {
    let [late, next] = late_and_next(&TestStore::all()[0]);
    let mut resource = Fence::default();
    let mut put = |header: &str| match kit::read_header(header) {
        Some(token) => resource.admit(token).map_or(412, |()| 204),
        None => 428,
    };
    let header = |n| kit::header_value(lockwright::Token::new(n));
    assert_eq!((put(&header(next)), put(&header(next)), put(&header(late)), put("")), (204, 204, 412, 428));
}
