//! The async face inside an event loop that is not Rust's: here `poll`, called by the test.

use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use lockwright::event_loop::EventLoop;
use lockwright::options::ConnectOptions;
use lockwright::{Async, Client, Kind};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

const SOON: Duration = Duration::from_secs(20);

/// Turns the loop until a job left its result.
fn result_of<T>(jobs: &EventLoop, results: &mpsc::Receiver<T>) -> T {
    let give_up = Instant::now() + SOON;
    jobs.turn();
    loop {
        if let Ok(result) = results.try_recv() {
            return result;
        }
        assert!(Instant::now() < give_up, "no result");
        wait_for(jobs);
        jobs.turn();
    }
}

fn wait_for(jobs: &EventLoop) {
    let descriptor = jobs.descriptor();
    let patience = Timespec { tv_sec: 1, tv_nsec: 0 };
    poll(&mut [PollFd::new(&descriptor, PollFlags::IN)], Some(&patience)).unwrap();
}

fn stores() -> Vec<Client> {
    let redis = std::env::var("LOCKWRIGHT_TEST_REDIS").ok();
    let redis = redis.map(|uri| format!("{uri}?prefix=event-loop-{}:", std::process::id()));
    let uris = ["memory://event-loop".to_owned()].into_iter().chain(redis);
    uris.map(|uri| Client::open(Some(&uri), ConnectOptions::default()).unwrap()).collect()
}

#[test]
fn jobs_acquire_wait_and_hand_on() {
    for client in stores() {
        let jobs = EventLoop::new().unwrap();
        let (leave, results) = mpsc::channel();
        let count = Arc::new(Mutex::new(0));
        for _ in 0..20 {
            let (lock, count, leave) = (client.lock("x").build().unwrap(), count.clone(), leave.clone());
            jobs.spawn(async move {
                let guard = lock.acquire().await.unwrap();
                *count.lock().unwrap() += 1;
                leave.send(guard.release().await.unwrap().code()).unwrap();
            });
        }
        for _ in 0..20 {
            assert_eq!(result_of(&jobs, &results), "released");
        }
        assert_eq!(*count.lock().unwrap(), 20);
    }
}

#[test]
fn an_abandoned_job_gives_up_and_a_dropped_loop_all_of_them() {
    for client in stores() {
        let jobs = EventLoop::new().unwrap();
        let (leave, results) = mpsc::channel();
        let acquire = |name: &str| {
            let (lock, leave) = (client.lock(name).build().unwrap(), leave.clone());
            jobs.spawn(async move { leave.send(lock.acquire().await.unwrap()).unwrap() })
        };
        acquire("x");
        let guard = result_of(&jobs, &results);
        let waiting = acquire("x");
        jobs.turn();
        jobs.abandon(waiting);
        acquire("x");
        jobs.turn();
        drop(jobs);
        drop(guard);
        let blocking = client.clone().into_face::<lockwright::blocking::Blocking>();
        let _ = blocking.lock("x").timeout(SOON).acquire().unwrap().release().unwrap();
        assert!(results.try_recv().is_err());
    }
}

#[test]
fn a_loop_that_watches_no_descriptor_is_called() {
    for client in stores() {
        let jobs = EventLoop::new().unwrap();
        let (ring, rung) = mpsc::channel();
        let watch = jobs.watch(move || ring.send(()).unwrap_or_default()).unwrap();
        let (leave, results) = mpsc::channel();
        for _ in 0..20 {
            let (lock, leave) = (client.lock("x").build().unwrap(), leave.clone());
            jobs.spawn(async move {
                let guard = lock.acquire().await.unwrap();
                leave.send(guard.release().await.unwrap().code()).unwrap();
            });
        }
        jobs.turn();
        let mut ended = results.try_iter().count();
        while ended < 20 {
            rung.recv_timeout(SOON).unwrap();
            jobs.turn();
            ended += results.try_iter().count();
        }
        drop(watch);
        // It ends with the last call.
        assert!(rung.iter().count() < 1_000);
    }
}

#[test]
fn several_loops_share_a_client_and_wake_each_other() {
    for client in stores() {
        let (leave, results) = mpsc::channel();
        let threads: Vec<_> = (0..3)
            .map(|_| {
                let (client, leave) = (client.clone(), leave.clone());
                std::thread::spawn(move || {
                    let jobs = EventLoop::new().unwrap();
                    let (done, waits) = mpsc::channel();
                    jobs.spawn(async move {
                        for _ in 0..50 {
                            let guard = client.lock("x").acquire().await.unwrap();
                            leave.send(guard.token()).unwrap();
                            let _ = guard.release().await.unwrap();
                        }
                        done.send(()).unwrap();
                    });
                    result_of(&jobs, &waits);
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        let tokens: Vec<_> = results.try_iter().collect();
        assert!(tokens.len() == 150 && tokens.is_sorted_by(|a, b| a < b), "{tokens:?}");
    }
}

#[test]
fn what_is_asked_beside_locks_takes_the_loops_own_road() {
    // A store in memory answers at once: one turn is enough, unless another thread has to ask it.
    let client: Client = Client::open(Some("memory://own-road"), ConnectOptions::default()).unwrap();
    let jobs = EventLoop::new().unwrap();
    let (leave, results) = mpsc::channel();
    let latch = client.latch("l", 2).build().unwrap();
    let barrier = client.barrier("b", 2).build().unwrap();
    let pool = client.semaphore("s", 1).build().unwrap();
    jobs.spawn(async move {
        let told = [latch.count().await.unwrap(), latch.count_down().await.unwrap(), latch.count_down().await.unwrap()];
        assert!(latch.try_set_count(5).await.unwrap());
        assert_eq!(barrier.waiting().await.unwrap(), 0);
        let _ = pool.acquire().await.unwrap().release().await.unwrap();
        pool.resize(3).await.unwrap();
        client.ping().await.unwrap();
        let held = client.lock("x").acquire().await.unwrap();
        let lock = client.lock("x").build().unwrap();
        for seen in [client.inspect("x").await.unwrap(), lock.inspect().await.unwrap()] {
            assert_eq!(seen.holder.map(|holder| holder.first_token), Some(held.token().n));
        }
        assert_eq!(client.list().await.unwrap(), ["l", "s", "x"]);
        assert_eq!(client.others(None).await.unwrap(), []);
        assert!(lock.break_lock(held.token()).await.unwrap());
        assert!(!client.break_lock("x", held.token()).await.unwrap(), "it is broken");
        drop(held);
        assert!(client.drain(SOON).await.unwrap().is_empty());
        client.close().await;
        leave.send(told).unwrap();
    });
    jobs.turn();
    assert_eq!(results.try_recv(), Ok([2, 1, 0]));
}

#[test]
fn a_job_that_panics_takes_no_other_with_it() {
    let client = &stores()[0];
    let jobs = EventLoop::new().unwrap();
    let (leave, results) = mpsc::channel();
    let lock = client.lock("panic").build().unwrap();
    jobs.spawn(async { panic!("as a defect would") });
    jobs.spawn(async move { leave.send(lock.acquire().await).unwrap() });
    let guard = result_of(&jobs, &results).unwrap();
    assert!(guard.is_held());
}

#[test]
fn a_guard_changes_its_face_and_stays_the_same_hold() {
    let client = stores().remove(0).into_face::<lockwright::blocking::Blocking>();
    let guard = client.lock("face").acquire().unwrap();
    let token = guard.token();
    let guard = guard.into_face::<Async>();
    assert!(guard.is_held() && guard.token() == token);
    let taken = client.lock("face").try_acquire().unwrap();
    assert!(taken.is_none());
    let lock = client.lock("face").build().unwrap().into_face::<Async>();
    let jobs = EventLoop::new().unwrap();
    let (leave, results) = mpsc::channel();
    jobs.spawn(async move {
        leave.send(lock.acquire_within(Some(Duration::from_millis(1))).await.unwrap_err().kind()).unwrap();
        guard.begin_extend(Duration::from_secs(60)).unwrap().await.unwrap();
        assert!(guard.remaining() > Duration::from_secs(50));
        leave.send(if guard.release().await.is_ok() { Kind::Closed } else { Kind::Lost }).unwrap();
    });
    assert_eq!((result_of(&jobs, &results), result_of(&jobs, &results)), (Kind::Timeout, Kind::Closed));
}
