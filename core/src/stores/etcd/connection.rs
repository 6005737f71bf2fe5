//! A connection to one member of the cluster, and what a call over it came to.

use std::io;

use etcd_client::{Client, ConnectOptions};
use http::uri::Scheme;
use tokio::time::timeout;

use super::channel::{self, Unsent};
use super::config::{Config, Member};
use super::failure::{Failure, silent};
use crate::stores::pipe::Pipe;
use crate::stores::reach;

/// Dials that member.
pub(super) async fn dial(config: &Config, member: &Member) -> Result<Client, Failure> {
    let credentials = config.login.credentials_aside().await.map_err(Failure::NotSent)?;
    let pipe = timeout(config.connect_timeout, Pipe::to(member.target(), member.tls.as_ref()))
        .await
        .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
    let has_tls = member.tls.is_some();
    let pipe = pipe.map_err(|error| Failure::NotSent(reach::unreachable(["etcd://", "etcds://"], has_tls, error)))?;
    let scheme = if has_tls { Scheme::HTTPS } else { Scheme::HTTP };
    let channel = channel::over(pipe, scheme, member.authority.clone()).await;
    let channel = channel.map_err(|error| Failure::NotSent(silent("the connection to etcd cannot be used", error)))?;
    // Whoever is cut off from the leader says so, instead of answering what it last knew.
    let mut options = ConnectOptions::new().with_auto_token_refresh(true).with_require_leader(true);
    if !credentials.user.is_empty() {
        options = options.with_user(credentials.user.clone(), credentials.password.clone());
    }
    // Nothing that concerns a lock was sent.
    Client::from_channel(channel, Some(options)).await.map_err(|error| failure(error).harmless())
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
    let mut causes = std::iter::successors(status.source(), |error| error.source());
    if causes.any(|error| error.is::<Unsent>()) {
        return Failure::NotSent(silent(
            "the connection to etcd had ended; see the cause and the server's log",
            status,
        ));
    }
    Failure::Unknown(silent("the connection to etcd was lost, or the cluster did not answer in time", status))
}

/// What a reply that the library gave says of the call.
pub(super) fn answered<T>(result: std::result::Result<T, etcd_client::Error>) -> std::result::Result<T, Failure> {
    result.map_err(failure)
}
