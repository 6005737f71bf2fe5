//! What the addresses of all servers have in common.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;
use url::Url;

use crate::error::{Error, Result};
use crate::options::Credentials;

/// The error for an address that is wrong as `message` says.
pub fn invalid(message: impl Into<Cow<'static, str>>) -> Error {
    Error::invalid("connect", message)
}

/// A part of an address as it is meant; `what` says which.
///
/// # Errors
/// `invalid_config` where it is not UTF-8.
pub fn decode(what: &str, text: &str) -> Result<String> {
    let decoded = percent_decode_str(text).decode_utf8();
    Ok(decoded.map_err(|_| invalid(format!("{what} in the address is not UTF-8 after %-decoding")))?.into_owned())
}

/// The host, this one where none is named; an address of version 6 without its brackets.
///
/// # Errors
/// As [`decode`].
pub fn host(url: &Url) -> Result<String> {
    match url.host() {
        Some(url::Host::Ipv6(ip)) => Ok(ip.to_string()),
        Some(host) => decode("the host", &host.to_string()),
        None => Ok("localhost".to_owned()),
    }
}

/// Complains of an address without `//`, which is to be as `written`.
///
/// # Errors
/// `invalid_config`.
pub fn based(url: &Url, written: &str) -> Result<()> {
    match url.cannot_be_a_base() {
        true => Err(invalid(format!("the address has no // behind its scheme; write {written}"))),
        false => Ok(()),
    }
}

/// A further host of a list, as an address of its own.
///
/// # Errors
/// `invalid_config` for what is none.
pub fn listed(scheme: &str, text: &str) -> Result<Url> {
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
pub fn pathless(url: &Url, store: &str) -> Result<()> {
    match url.path() {
        "" | "/" => Ok(()),
        _ => Err(invalid(format!(
            "an address of {store} has no path; what is to come before every lock's name is the option prefix"
        ))),
    }
}

/// The host and port of an address, this one where it has none, as they are written in one.
///
/// # Errors
/// As [`decode`].
pub fn authority(url: &Url, port: u16) -> Result<String> {
    let (host, port) = (host(url)?, url.port().unwrap_or(port));
    Ok(if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") })
}

/// The user and password that an address has; empty where it has none.
///
/// # Errors
/// As [`decode`].
pub fn credentials(url: &Url) -> Result<Credentials> {
    Ok(Credentials {
        user: decode("the user", url.username())?,
        password: decode("the password", url.password().unwrap_or_default())?,
    })
}
