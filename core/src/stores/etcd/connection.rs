//! A connection to one member of the cluster, and what a call over it came to.

use std::io;
use std::time::Duration;

use etcd_client::{Client, ConnectOptions};
use lockwright_machines::error::with_nobody_there;

use super::config::Config;
use crate::error::{Error, Kind};
use crate::protocol::Reply;

/// How often a connection that carries nothing is looked at, and how long it may take to say that it is there.
const PINGS: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(3));

/// Why a call was not done, or may not have been.
#[derive(Debug)]
pub(super) enum Failure {
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

impl Failure {
    /// Whether another member, or another connection, may know more.
    pub(super) fn is_of_the_line(&self) -> bool {
        !matches!(self, Failure::Refused(_) | Failure::Slow(_))
    }
}

/// Dials the member at `endpoint`. The library dials at the first call, except for who has a password.
pub(super) async fn dial(config: &Config, endpoint: &str) -> std::result::Result<Client, Failure> {
    let credentials = config.login.credentials_aside().await.map_err(Failure::NotSent)?;
    // Whoever is cut off from the leader says so, instead of answering what it last knew.
    let mut options = ConnectOptions::new()
        .with_connect_timeout(config.connect_timeout)
        .with_keep_alive(PINGS.0, PINGS.1)
        .with_keep_alive_while_idle(true)
        .with_auto_token_refresh(true)
        .with_require_leader(true);
    if let Some(tls) = &config.tls {
        options = options.with_tls(tls.clone());
    }
    if !credentials.user.is_empty() {
        options = options.with_user(credentials.user.clone(), credentials.password.clone());
    }
    // Nothing that concerns a lock was sent.
    Client::connect([endpoint], Some(options)).await.map_err(|error| match failure(error) {
        Failure::Unknown(error) | Failure::Slow(error) => Failure::NotSent(error),
        other => other,
    })
}

/// What an error of the library says of the call.
pub(super) fn failure(error: etcd_client::Error) -> Failure {
    let etcd_client::Error::GRpcStatus(status) = error else {
        return Failure::NotSent(silent("the connection to etcd cannot be used", error));
    };
    let refused = |code: &str| {
        let reply = Reply::Error { code: code.to_owned(), message: status.message().to_owned() };
        Failure::Refused(reply)
    };
    let said = |part: &str| status.message().contains(part);
    match format!("{:?}", status.code()).as_str() {
        _ if said("requested lease not found") => refused("LeaseNotFound"),
        _ if said("database space exceeded") => refused("NoSpace"),
        "PermissionDenied" => refused("PermissionDenied"),
        "Unauthenticated" => refused("Unauthenticated"),
        _ if said("authentication failed") || said("authentication is not enabled") || said("user name is empty") => {
            refused("Unauthenticated")
        }
        // Said before anything is proposed to the others.
        _ if said("no leader") => Failure::NoLeader(silent(
            "the cluster has no leader, or this member is cut off from it: no lock is granted by a minority",
            status,
        )),
        _ if said("request timed out") || said("too many requests") => Failure::Slow(silent(
            "etcd is there and did not do it in time: it has too much to do, or no leader",
            status,
        )),
        "Unavailable" | "Unknown" | "Cancelled" | "DeadlineExceeded" | "Internal" | "Aborted" => unanswered(status),
        code => refused(code),
    }
}

/// No answer: whether the request can have left is in what caused it.
fn unanswered(status: impl std::error::Error + Send + Sync + 'static) -> Failure {
    let (mut never_left, mut refused) = (false, false);
    let mut cause = status.source();
    while let Some(error) = cause {
        let io = error.downcast_ref::<io::Error>().map(io::Error::kind);
        refused |= io == Some(io::ErrorKind::ConnectionRefused);
        let told = error.to_string();
        never_left |= refused
            || ["tcp connect error", "dns error", "client error (Connect)"].iter().any(|part| told.contains(part));
        cause = error.source();
    }
    match never_left {
        true if refused => {
            let message = "nothing listens there; start the server or correct the address";
            Failure::NotSent(with_nobody_there(silent(message, status)))
        }
        true => Failure::NotSent(silent("no connection; see the cause, the server's log and the address", status)),
        false => {
            Failure::Unknown(silent("the connection to etcd was lost, or the cluster did not answer in time", status))
        }
    }
}

pub(super) fn silent(message: &'static str, cause: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::new(Kind::Unavailable, "connect", message).caused_by(cause)
}

/// The same of what was not answered until a limit.
pub(super) fn too_late() -> Error {
    Error::new(Kind::Unavailable, "connect", "etcd did not answer in time; see whether it runs and is reachable")
}

/// What a reply that the library gave says of the call.
pub(super) fn answered<T>(result: std::result::Result<T, etcd_client::Error>) -> std::result::Result<T, Failure> {
    result.map_err(failure)
}
