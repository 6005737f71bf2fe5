//! What locks leave behind that were given back. Alone in its process, whose memory it counts.

use std::time::{Duration, Instant};

use lockwright::blocking::{self, Client};

/// Locks that are taken and given back, each of them once.
const LOCKS: usize = 30_000;
/// What a lock may leave, in bytes.
const LEFT: usize = 60;

/// Bytes of memory that this process has.
fn resident() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    pages.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

fn take_and_give_back(client: &Client, names: std::ops::Range<usize>) {
    for i in names {
        drop(client.lock(&format!("order:{i}")).ttl(Duration::from_secs(3600)).acquire().unwrap().release().unwrap());
    }
}

#[test]
#[cfg_attr(not(target_os = "linux"), ignore = "counts memory as Linux tells it")]
fn locks_that_were_given_back_take_no_memory() {
    let client = blocking::connect("memory://residue").unwrap();
    let _held: Vec<_> = (0..100).map(|i| client.lock(&format!("held {i}")).acquire().unwrap()).collect();
    take_and_give_back(&client, 0..5_000);
    let before = resident();
    take_and_give_back(&client, 5_000..5_000 + LOCKS);
    // What was forgotten last may take the background a moment.
    let left = || resident().saturating_sub(before) / LOCKS;
    let give_up = Instant::now() + Duration::from_secs(20);
    while left() >= LEFT {
        assert!(Instant::now() < give_up, "each of {LOCKS} locks left {} bytes", left());
        std::thread::sleep(Duration::from_millis(10));
    }
}
