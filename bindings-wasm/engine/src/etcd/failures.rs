//! Why a post has no answer, as its host says.

use std::io;

use lockwright_machines::error::{Error, Kind};
use lockwright_machines::reach::unreachable;
use lockwright_machines::stores::etcd::failure::{self, Failure, silent};

/// What an error of the host says of a post.
pub(super) fn lost(error: io::Error, is_secure: bool) -> Failure {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            let message =
                "the host lets nothing here send requests of HTTP to that address; grant wasi:http, and the address";
            Failure::NotSent(Error::new(Kind::Auth, "connect", message).caused_by(error))
        }
        io::ErrorKind::InvalidData => {
            let message = "what answers at this address speaks no HTTP, so it is no etcd; correct the address";
            Failure::NotSent(Error::new(Kind::Protocol, "connect", message).caused_by(error))
        }
        io::ErrorKind::InvalidInput => {
            let message =
                "TLS fails; see whether the server has it, and whether the host trusts the server's certificate";
            Failure::NotSent(Error::new(Kind::Unavailable, "connect", message).caused_by(error))
        }
        io::ErrorKind::ConnectionRefused | io::ErrorKind::HostUnreachable | io::ErrorKind::TimedOut => {
            Failure::NotSent(unreachable(["etcd://", "etcds://"], is_secure, error))
        }
        _ => Failure::Unknown(silent("the connection to etcd was lost, or cannot be made", error)),
    }
}

/// No answer came in time; the member is there, or slow.
pub(super) fn too_late() -> Failure {
    Failure::Slow(failure::too_late())
}
