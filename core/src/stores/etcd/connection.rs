//! A connection to one member of the cluster, and what a call over it came to.

use std::io;
use std::time::Duration;

use etcd_client::{Client, ConnectOptions};
use lockwright_machines::error::with_nobody_there;

use super::config::Config;
use super::failure::{Failure, silent};

/// How often a connection that carries nothing is looked at, and how long it may take to say that it is there.
const PINGS: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(3));

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
    Client::connect([endpoint], Some(options)).await.map_err(|error| failure(error).harmless())
}

/// What an error of the library says of the call.
pub(super) fn failure(error: etcd_client::Error) -> Failure {
    let etcd_client::Error::GRpcStatus(status) = error else {
        return Failure::NotSent(silent("the connection to etcd cannot be used", error));
    };
    let words = status.message().to_owned();
    Failure::told(status.code() as i64, &words, status, unanswered)
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

/// What a reply that the library gave says of the call.
pub(super) fn answered<T>(result: std::result::Result<T, etcd_client::Error>) -> std::result::Result<T, Failure> {
    result.map_err(failure)
}
