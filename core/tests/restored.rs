//! A process that goes on from a copy of its memory, which others may go on from too.

use std::time::Duration;

use lockwright::blocking::Client;
use lockwright::lease::LossReason;
use lockwright::options::ConnectOptions;
use lockwright::{Kind, restored};

#[test]
fn a_restored_process_believes_no_guard_and_goes_on_with_new_clients() {
    let client = Client::open(Some("memory://restored"), ConnectOptions::default()).unwrap();
    let lock = client.lock("x").ttl(Duration::from_secs(1)).build().unwrap();
    let guard = lock.acquire().unwrap();
    let mut waiting = lock.begin(None).unwrap();
    let (tell, told) = std::sync::mpsc::channel();
    guard.on_lost(move |reason| tell.send(reason.clone()).unwrap());
    restored();
    assert!(!guard.is_held());
    assert_eq!(told.try_recv(), Ok(LossReason::Closed));
    assert_eq!(waiting.wait(Duration::from_secs(5)).unwrap().unwrap_err().kind(), Kind::Forked);
    // The copy may hold it: nothing was given back. It ends with its lease, which nobody renews.
    assert!(lock.try_acquire().unwrap().is_none());
    assert_eq!(guard.release().unwrap_err().kind(), Kind::Forked);
    let next = lock.acquire().unwrap();
    assert!(next.is_held());
    let _ = next.release().unwrap();
}
