//! What the hosts have in common that reach etcd by HTTP: which client that is, what a request says beside its body,
//! and what an error of the host's means.

use std::io;

use lockwright_machines::address::invalid;
use lockwright_machines::error::Result;
use lockwright_machines::reach::unknown_host;
use lockwright_machines::stores::etcd::gateway::REQUIRES_LEADER;
use lockwright_wasm_engine::etcd::{Config, Etcd, Post};
#[cfg(feature = "wasi-0-2")]
use wasip2::http::types::ErrorCode;
#[cfg(not(feature = "wasi-0-2"))]
use wasip3::http::types::ErrorCode;

use crate::bindings::api;
use crate::host::{self, Network};

/// The engine of a client whose server is reached by HTTP.
pub(crate) type Engine = lockwright_wasm_engine::Engine<Etcd>;

/// How requests are sent to the cluster.
#[derive(Clone, Copy, Default)]
pub(crate) struct Manner {
    pub(crate) is_secure: bool,
    /// For how many nanoseconds the host may try to connect.
    pub(crate) connect_timeout: u64,
}

/// A client of the cluster at `address`, and its requests.
///
/// # Errors
/// `invalid_config` for what is wrong, and for certificates, since TLS is the host's; `unsupported` for what is not to
/// be had.
pub(crate) fn open(address: &str, certificates: api::Certificates) -> Result<(Engine, Network)> {
    let api::Certificates { ca, cert, key } = certificates;
    if ca.is_some() || cert.is_some() || key.is_some() {
        return Err(invalid("certificates cannot be given here: TLS is the host's, which knows whom it trusts"));
    }
    let etcd = Etcd::new(Config::read(address, "wasm")?);
    let manner = Manner {
        is_secure: etcd.config().is_secure,
        connect_timeout: u64::try_from(etcd.connect_timeout().as_nanos()).unwrap_or(u64::MAX),
    };
    Ok((Engine::new(etcd, host::random()), Network::new(manner)))
}

/// The fields of a request's head.
pub(crate) fn fields(post: &Post) -> Vec<(String, Vec<u8>)> {
    let token = post.token.iter().map(|token| ("authorization", &**token));
    let fields = [("content-type", "application/json"), REQUIRES_LEADER].into_iter().chain(token);
    fields.map(|(name, value)| (name.to_owned(), value.as_bytes().to_vec())).collect()
}

/// The host takes no such request.
pub(crate) fn refused<E>(_: E) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "the host takes no such request")
}

/// What the host says, as a system would.
pub(crate) fn told(error: ErrorCode) -> io::Error {
    let kind = match error {
        ErrorCode::DnsTimeout | ErrorCode::DnsError(_) | ErrorCode::DestinationNotFound => {
            return unknown_host(io::Error::other(error.to_string()));
        }
        ErrorCode::DestinationUnavailable | ErrorCode::DestinationIpUnroutable => io::ErrorKind::HostUnreachable,
        ErrorCode::DestinationIpProhibited | ErrorCode::HttpRequestDenied => io::ErrorKind::PermissionDenied,
        ErrorCode::ConnectionRefused => io::ErrorKind::ConnectionRefused,
        ErrorCode::ConnectionTimeout => io::ErrorKind::TimedOut,
        ErrorCode::TlsProtocolError | ErrorCode::TlsCertificateError | ErrorCode::TlsAlertReceived(_) => {
            io::ErrorKind::InvalidInput
        }
        ErrorCode::HttpProtocolError => io::ErrorKind::InvalidData,
        _ => io::ErrorKind::ConnectionReset,
    };
    io::Error::new(kind, error.to_string())
}
