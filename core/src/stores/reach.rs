//! Why a server cannot be reached, in words that say what to do.

use std::io;

use lockwright_machines::reach;
pub(super) use lockwright_machines::reach::*;

use crate::error::Error;
#[cfg(any(feature = "etcd", feature = "mysql", feature = "postgres", feature = "redis", feature = "zookeeper"))]
use crate::error::Kind;

/// Why a connection could not be made. Without and with TLS addresses begin with `schemes`.
pub(super) fn unreachable(schemes: [&'static str; 2], has_tls: bool, error: io::Error) -> Error {
    #[cfg(any(feature = "etcd", feature = "mysql", feature = "postgres", feature = "redis", feature = "zookeeper"))]
    if let Some(tls) = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
        let (kind, message) = match tls {
            rustls::Error::InvalidCertificate(_) => {
                (Kind::Auth, "the server's certificate is not trusted; give the file of its authority as the option ca")
            }
            rustls::Error::AlertReceived(_) => {
                (Kind::Auth, "the server ended the TLS handshake; it may want the options cert and key")
            }
            _ => return reach::not_tls(schemes).caused_by(tls.clone()),
        };
        return Error::new(kind, "connect", message).caused_by(tls.clone());
    }
    reach::unreachable(schemes, has_tls, error)
}
