//! Why a call was not done, or may not have been, and what an error of the server's says of that.

use std::error::Error as Cause;

use crate::error::{Error, Kind};
use crate::protocol::{Reply, Request};

/// See the [module](self).
#[derive(Clone, Debug)]
pub enum Failure {
    /// The server refuses, and did nothing.
    Refused(Reply),
    /// It was not executed and never will be, here.
    NotSent(Error),
    /// The same, since the member belongs to no majority: that says more than others which do not answer.
    NoLeader(Error),
    /// It may have been, or may be yet: the connection is lost.
    Unknown(Error),
    /// The same, but the member is there and only slow, or waits for the others.
    Slow(Error),
}

/// What gRPC calls its errors, by their numbers.
const CODES: [&str; 17] = [
    "Ok",
    "Cancelled",
    "Unknown",
    "InvalidArgument",
    "DeadlineExceeded",
    "NotFound",
    "AlreadyExists",
    "PermissionDenied",
    "ResourceExhausted",
    "FailedPrecondition",
    "Aborted",
    "OutOfRange",
    "Unimplemented",
    "Internal",
    "Unavailable",
    "DataLoss",
    "Unauthenticated",
];

impl Failure {
    /// What an error with that number and these words says of the call; `unanswered` is for what says nothing.
    pub fn told<E: Cause + Send + Sync + 'static>(
        number: i64,
        words: &str,
        cause: E,
        unanswered: impl FnOnce(E) -> Failure,
    ) -> Failure {
        let code = usize::try_from(number).ok().and_then(|number| CODES.get(number)).copied().unwrap_or("Unknown");
        let refused = |code: &str| Failure::Refused(Reply::Error { code: code.to_owned(), message: words.to_owned() });
        let said = |part: &str| words.contains(part);
        match code {
            _ if said("requested lease not found") => refused("LeaseNotFound"),
            _ if said("database space exceeded") => refused("NoSpace"),
            "PermissionDenied" => refused("PermissionDenied"),
            "Unauthenticated" => refused("Unauthenticated"),
            _ if said("authentication failed")
                || said("authentication is not enabled")
                || said("user name is empty") =>
            {
                refused("Unauthenticated")
            }
            // Said before anything is proposed to the others.
            _ if said("no leader") => Failure::NoLeader(silent(
                "the cluster has no leader, or this member is cut off from it: no lock is granted by a minority",
                cause,
            )),
            _ if said("request timed out") || said("too many requests") => Failure::Slow(silent(
                "etcd is there and did not do it in time: it has too much to do, or no leader",
                cause,
            )),
            "Unavailable" | "Unknown" | "Cancelled" | "DeadlineExceeded" | "Internal" | "Aborted" => unanswered(cause),
            code => refused(code),
        }
    }

    /// The same of what may or may not have been done, and makes no difference.
    #[must_use]
    pub fn harmless(self) -> Failure {
        match self {
            Failure::Unknown(error) | Failure::Slow(error) => Failure::NotSent(error),
            other => other,
        }
    }

    /// Whether another member, or another connection, may know more.
    pub fn is_of_the_line(&self) -> bool {
        !matches!(self, Failure::Refused(_) | Failure::Slow(_))
    }

    /// Whether that is what is told of a lease that is over.
    pub fn is_of_the_lease(&self) -> bool {
        self.is_refusal("LeaseNotFound")
    }

    /// Whether that is what is told of a token that has ended, too.
    pub fn is_of_the_token(&self) -> bool {
        self.is_refusal("Unauthenticated")
    }

    fn is_refusal(&self, as_this: &str) -> bool {
        matches!(self, Failure::Refused(Reply::Error { code, .. }) if code == as_this)
    }

    /// The answer to `request`, where the server refuses; else why there is none, and whether it certainly was not done
    /// and never will be. Before it others of the same write were `answered`, or none.
    ///
    /// # Errors
    /// See there.
    pub fn concludes(self, request: &Request, answered: usize) -> Result<Reply, (Error, bool)> {
        match self {
            Failure::Refused(reply) => Ok(reply),
            Failure::NotSent(error) | Failure::NoLeader(error) => Err((error, answered == 0)),
            Failure::Unknown(error) | Failure::Slow(error) => Err((error, answered == 0 && changes_nothing(request))),
        }
    }
}

/// Whether nothing is different where it was done.
fn changes_nothing(request: &Request) -> bool {
    matches!(
        request.call.name,
        "look"
            | "exists"
            | "fate"
            | "watch"
            | "first"
            | "keys"
            | "lives"
            | "status"
            | "members"
            | "leases"
            | "keeps"
            | "latch.look"
    )
}

/// No answer that says anything.
pub fn silent(message: &'static str, cause: impl Cause + Send + Sync + 'static) -> Error {
    Error::new(Kind::Unavailable, "connect", message).caused_by(cause)
}

/// The same of what was not answered until a limit.
pub fn too_late() -> Error {
    Error::new(Kind::Unavailable, "connect", "etcd did not answer in time; see whether it runs and is reachable")
}
