//! A proxy before a server, or before each of a cluster, that disturbs what goes through it.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use crate::clock::{self, after};

/// What happens to connections that go through the proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Disturbance {
    None,
    /// All are reset.
    Reset,
    /// Requests arrive, and what is answered is kept back for a while.
    HoldReplies,
    /// Nothing passes for a while, and all of it arrives late.
    HoldBoth,
    /// Each piece of up to 7 bytes passes by itself, a little late.
    Slow,
}

impl Disturbance {
    const ALL: [Disturbance; 5] = [Self::None, Self::Reset, Self::HoldReplies, Self::HoldBoth, Self::Slow];

    /// How it is told.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::None => "nothing",
            Self::Reset => "connections reset",
            Self::HoldReplies => "replies kept back",
            Self::HoldBoth => "requests and replies kept back",
            Self::Slow => "bytes in small pieces",
        }
    }
}

/// See the [module](self).
#[derive(Clone)]
pub(super) struct Proxy {
    /// The servers' address with the proxy in their place.
    pub(super) uri: String,
    /// What happens before each of them.
    states: Vec<Arc<State>>,
}

#[derive(Default)]
struct State {
    disturbance: AtomicU8,
    until: AtomicU64,
    /// Counts the resets: a connection made before the last one is over.
    resets: AtomicU64,
}

impl State {
    fn now(&self) -> Disturbance {
        match clock::now() < self.until.load(Ordering::Acquire) {
            true => Disturbance::ALL[usize::from(self.disturbance.load(Ordering::Acquire))],
            false => Disturbance::None,
        }
    }

    fn disturb(&self, which: Disturbance, seconds: f64) {
        if which == Disturbance::Reset {
            self.resets.fetch_add(1, Ordering::AcqRel);
        }
        self.disturbance.store(which as u8, Ordering::Release);
        self.until.store(after(clock::now(), seconds), Ordering::Release);
    }
}

impl Proxy {
    /// A proxy before the servers at `uri`; `None` where that names no address and port.
    ///
    /// # Errors
    /// When no port can be listened on.
    pub(super) fn before(uri: &str) -> Result<Option<Self>, String> {
        let Some(servers) = authority(uri) else { return Ok(None) };
        let (mut own, mut states) = (Vec::new(), Vec::new());
        for server in servers.split(',') {
            let state = Arc::<State>::default();
            own.push(stand_before(server, &state).map_err(|error| format!("the proxy: {error}"))?);
            states.push(state);
        }
        Ok(Some(Proxy { uri: uri.replacen(servers, &own.join(","), 1), states }))
    }

    /// Disturbs all ways for so many seconds.
    pub(super) fn disturb(&self, which: Disturbance, seconds: f64) {
        self.states.iter().for_each(|state| state.disturb(which, seconds));
    }

    /// Lets nothing pass to one of the servers, counted from 1, or back for so long.
    pub(super) fn cut_off(&self, server: u8, seconds: f64) {
        self.states[usize::from(server) - 1].disturb(Disturbance::HoldBoth, seconds);
    }

    /// Disturbs nothing any more.
    pub(super) fn calm(&self) {
        self.states.iter().for_each(|state| state.until.store(0, Ordering::Release));
    }
}

/// An address from which all is passed on to the server.
fn stand_before(server: &str, state: &Arc<State>) -> std::io::Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let own = listener.local_addr()?.to_string();
    let (server, state) = (server.to_owned(), state.clone());
    std::thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            // A server that is just restarting refuses, and so does the proxy then.
            if let Ok(server) = TcpStream::connect(&server) {
                pass_on(&state, &client, &server, false);
                pass_on(&state, &server, &client, true);
            }
        }
    });
    Ok(own)
}

/// `host:port` of an address, or several with commas between.
fn authority(uri: &str) -> Option<&str> {
    let (scheme, rest) = uri.split_once("://")?;
    let place = rest.split(['/', '?']).next()?.rsplit('@').next()?;
    // What is encrypted cannot be disturbed by half, and its certificate names the server.
    (place.contains(':') && !scheme.ends_with("ss")).then_some(place)
}

fn pass_on(state: &Arc<State>, from: &TcpStream, to: &TcpStream, replies: bool) {
    let (Ok(from), Ok(to)) = (from.try_clone(), to.try_clone()) else { return };
    let state = state.clone();
    std::thread::spawn(move || {
        drop(pass_bytes(&state, &from, &to, replies));
        drop((from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both)));
    });
}

fn pass_bytes(state: &State, mut from: &TcpStream, mut to: &TcpStream, replies: bool) -> std::io::Result<()> {
    let born = state.resets.load(Ordering::Acquire);
    let is_over = || state.resets.load(Ordering::Acquire) != born;
    from.set_read_timeout(Some(Duration::from_millis(20)))?;
    to.set_nodelay(true)?;
    let mut bytes = [0; 16 * 1024];
    while !is_over() {
        let read = match from.read(&mut bytes) {
            Ok(0) => return Ok(()),
            Ok(read) => read,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => continue,
            Err(error) => return Err(error),
        };
        let held = |now| now == Disturbance::HoldBoth || replies && now == Disturbance::HoldReplies;
        while held(state.now()) && !is_over() {
            std::thread::sleep(Duration::from_millis(2));
        }
        if is_over() {
            return Ok(());
        }
        match state.now() {
            Disturbance::Slow => {
                for piece in bytes[..read].chunks(7) {
                    to.write_all(piece)?;
                    std::thread::sleep(Duration::from_micros(300));
                }
            }
            _ => to.write_all(&bytes[..read])?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_for_the_server_in_an_address_is_found() {
        assert_eq!(authority("redis://127.0.0.1:7379?layout=string"), Some("127.0.0.1:7379"));
        assert_eq!(authority("redis://user:word@127.0.0.1:7379/2"), Some("127.0.0.1:7379"));
        assert_eq!(authority("etcd://127.0.0.1:1,127.0.0.1:2?ttl=3s"), Some("127.0.0.1:1,127.0.0.1:2"));
        assert_eq!(authority("sqlite:///tmp/locks.db"), None);
        assert_eq!(authority("rediss://127.0.0.1:7379"), None);
        assert_eq!(authority("memory://x"), None);
    }
}
