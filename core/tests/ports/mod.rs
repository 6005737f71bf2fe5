//! Ports for the servers that tests start themselves.

#![allow(unreachable_pub, dead_code, reason = "each test uses its part")]

use std::net::TcpListener;
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

/// Below those that the system gives to whoever dials: such a one may be taken again before a server is there.
const FIRST: u32 = 10_000;
const COUNT: u32 = 10_000;

/// Ports that nobody has, and that no other test is given. Other programs begin elsewhere.
pub fn ports<const N: usize>() -> [u16; N] {
    [(); N].map(|()| port())
}

/// One of them.
pub fn port() -> u16 {
    static GIVEN: AtomicU32 = AtomicU32::new(0);
    let next = || process::id().wrapping_mul(100).wrapping_add(GIVEN.fetch_add(1, Ordering::Relaxed)) % COUNT;
    let mut tried = (0..COUNT).map(|_| u16::try_from(FIRST + next()).unwrap());
    tried.find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok()).expect("one of so many ports is free")
}
