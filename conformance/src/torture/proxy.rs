//! A proxy before a server that disturbs what goes through it.

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
pub(super) struct Proxy {
    /// The server's address with the proxy in its place.
    pub(super) uri: String,
    state: Arc<State>,
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
}

impl Proxy {
    /// A proxy before the server at `uri`; `None` where that names no address and port.
    ///
    /// # Errors
    /// When no port can be listened on.
    pub(super) fn before(uri: &str) -> Result<Option<Self>, String> {
        let Some(server) = authority(uri) else { return Ok(None) };
        let listener = TcpListener::bind("127.0.0.1:0").map_err(|error| format!("the proxy: {error}"))?;
        let own = listener.local_addr().map_err(|error| format!("the proxy: {error}"))?;
        let state = Arc::<State>::default();
        let proxy = Proxy { uri: uri.replacen(server, &own.to_string(), 1), state: state.clone() };
        let server = server.to_owned();
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                // A server that is just restarting refuses, and so does the proxy then.
                if let Ok(server) = TcpStream::connect(&server) {
                    pass_on(&state, &client, &server, false);
                    pass_on(&state, &server, &client, true);
                }
            }
        });
        Ok(Some(proxy))
    }

    /// Disturbs for so many seconds.
    pub(super) fn disturb(&self, which: Disturbance, seconds: f64) {
        if which == Disturbance::Reset {
            self.state.resets.fetch_add(1, Ordering::AcqRel);
        }
        self.state.disturbance.store(which as u8, Ordering::Release);
        self.state.until.store(after(clock::now(), seconds), Ordering::Release);
    }

    /// Disturbs nothing any more.
    pub(super) fn calm(&self) {
        self.state.until.store(0, Ordering::Release);
    }
}

/// `host:port` of an address.
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
        assert_eq!(authority("sqlite:///tmp/locks.db"), None);
        assert_eq!(authority("rediss://127.0.0.1:7379"), None);
        assert_eq!(authority("memory://x"), None);
    }
}
