//! What the addresses of all servers have in common: hosts, user and password, and files for TLS.

pub(super) use lockwright_machines::address::{based, decode, host, invalid};
#[cfg(any(feature = "etcd", feature = "memcached", feature = "redis", feature = "zookeeper"))]
use url::Url;

use crate::error::{Error, Result};
use crate::options::ConnectOptions;

/// A further host of a list, as an address of its own.
///
/// # Errors
/// `invalid_config` for what is none.
#[cfg(any(feature = "etcd", feature = "redis", feature = "zookeeper"))]
pub(super) fn listed(scheme: &str, text: &str) -> Result<Url> {
    let is_host = !text.is_empty() && !text.contains(['@', '/']);
    let parsed = is_host.then(|| Url::parse(&format!("{scheme}://{text}")).ok()).flatten();
    parsed.ok_or_else(|| {
        let written = format!("{scheme}://h1,h2,h3, user and password before the first");
        invalid(format!("{text:?} in the list is no host; write {written}"))
    })
}

/// Complains of a path where `store` has none.
///
/// # Errors
/// `invalid_config`.
#[cfg(any(feature = "etcd", feature = "memcached"))]
pub(super) fn pathless(url: &Url, store: &str) -> Result<()> {
    match url.path() {
        "" | "/" => Ok(()),
        _ => Err(invalid(format!(
            "an address of {store} has no path; what is to come before every lock's name is the option prefix"
        ))),
    }
}

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
