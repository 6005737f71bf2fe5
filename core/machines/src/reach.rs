//! Why a server cannot be reached, in words that say what to do.

use std::io;

use crate::error::{Error, Kind, with_nobody_there};

/// A host whose name leads nowhere.
#[derive(Debug)]
struct UnknownHost(io::Error);

impl std::fmt::Display for UnknownHost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for UnknownHost {}

/// Marks an error of the name lookup as one: those have no kind of their own.
pub fn unknown_host(error: io::Error) -> io::Error {
    io::Error::new(io::ErrorKind::HostUnreachable, UnknownHost(error))
}

/// The error for a server that answers what is no TLS. Without and with it addresses begin with `schemes`.
pub fn not_tls([plain, secure]: [&'static str; 2]) -> Error {
    Error::new(Kind::Protocol, "connect", format!("the server does not speak TLS; write {plain} for {secure}"))
}

/// Why a connection could not be made. Without and with TLS addresses begin with `schemes`.
pub fn unreachable(schemes: [&'static str; 2], has_tls: bool, error: io::Error) -> Error {
    let [plain, secure] = schemes;
    // Whoever has TLS beside the socket has said already what is wrong with it.
    if let Some(said) = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>()) {
        return said.clone();
    }
    let is_unknown_host = error.get_ref().is_some_and(|inner| inner.is::<UnknownHost>());
    let message = match error.kind() {
        _ if is_unknown_host => {
            "no address is known for this host; correct its name in the address, or see whether names are looked up here"
        }
        io::ErrorKind::ConnectionRefused => "nothing listens there; start the server or correct the address",
        io::ErrorKind::NotFound => "there is no such socket file; start the server or correct the path",
        io::ErrorKind::PermissionDenied => "this user may not use the socket file",
        io::ErrorKind::TimedOut if has_tls => {
            &format!("no answer in time; if the server does not expect TLS, write {plain} for {secure}")
        }
        // So a socket file answers a task at once whose server takes no connections.
        io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => {
            "no answer in time; see whether the server runs and is reachable"
        }
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset if !has_tls => {
            &format!("the server ended the connection at once; if it expects TLS, write {secure} for {plain}")
        }
        io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => {
            "the host cannot be reached; correct the address, or see to the network"
        }
        _ => "the connection cannot be made; see whether the server runs and is reachable",
    };
    let nobody = is_unknown_host
        || matches!(
            error.kind(),
            io::ErrorKind::ConnectionRefused
                | io::ErrorKind::NotFound
                | io::ErrorKind::HostUnreachable
                | io::ErrorKind::NetworkUnreachable
        );
    let error = Error::new(Kind::Unavailable, "connect", message.to_owned()).caused_by(error);
    if nobody { with_nobody_there(error) } else { error }
}

/// Why a request has no answer; `no_reply` is said of what came and is none.
pub fn lost(no_reply: &'static str, error: io::Error) -> Error {
    let (kind, message) = match error.kind() {
        io::ErrorKind::TimedOut => {
            (Kind::Unavailable, "the server did not answer in time; see whether it is stopped or busy")
        }
        io::ErrorKind::InvalidData => (Kind::Protocol, no_reply),
        _ => (Kind::Unavailable, "the connection ended before the server's answer; see its log"),
    };
    Error::new(kind, "connect", message).caused_by(error)
}
