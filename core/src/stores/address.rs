//! What the addresses of all servers have in common: hosts, user and password, and files for TLS.

pub(super) use lockwright_machines::address::*;

#[cfg(any(feature = "etcd", feature = "mysql", feature = "postgres", feature = "redis", feature = "zookeeper"))]
use crate::error::{Error, Result};
use crate::options::ConnectOptions;

/// Whether an address has files for TLS.
pub(super) fn has_tls_files(options: &ConnectOptions) -> bool {
    options.ca.is_some() || options.cert.is_some() || options.key.is_some()
}

/// Complains of files where there is no TLS; `scheme` is that of addresses that have it.
///
/// # Errors
/// `invalid_config`.
#[cfg(any(feature = "etcd", feature = "mysql", feature = "postgres", feature = "redis", feature = "zookeeper"))]
pub(super) fn without_tls(scheme: &str, options: &ConnectOptions) -> Result<()> {
    match has_tls_files(options) {
        false => Ok(()),
        true => Err(invalid(format!("ca, cert and key are for {scheme}, the address with TLS"))),
    }
}

/// The files of the client's certificate and key, if there are any.
///
/// # Errors
/// `invalid_config` where one of them is missing.
#[cfg(any(feature = "etcd", feature = "mysql", feature = "postgres", feature = "redis", feature = "zookeeper"))]
pub(super) fn identity(options: &ConnectOptions) -> Result<Option<(&str, &str)>> {
    match (&options.cert, &options.key) {
        (None, None) => Ok(None),
        (Some(cert), Some(key)) => Ok(Some((cert, key))),
        _ => Err(invalid("cert and key go together; give both or neither")),
    }
}

/// A file that is of no use.
#[cfg(any(feature = "etcd", feature = "mysql", feature = "postgres", feature = "redis", feature = "zookeeper"))]
pub(super) fn unusable(option: &str, file: &str) -> Error {
    invalid(format!("the file {file:?} of the option {option} cannot be used; it must be PEM"))
}
