//! What an address says.

use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::stores::address::{based, has_tls_files, host, invalid, pathless};
use crate::stores::login::Login;
use crate::uri::Uri;

const PORT: u16 = 11211;

/// Everything that is known of a server before it is dialled.
pub(super) struct Config {
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) prefix: String,
    pub(super) connect_timeout: Duration,
    pub(super) response_timeout: Duration,
    /// As it may be shown.
    pub(super) address: Arc<str>,
    pub(super) login: Login,
}

impl Config {
    /// Reads an address and its options.
    ///
    /// # Errors
    /// `invalid_config` for a host or option that cannot be meant, `unsupported` for several servers.
    pub(super) fn read(uri: &mut Uri) -> Result<Self> {
        let shown = uri.redacted();
        if !uri.take_more_hosts().is_empty() {
            let message = "several servers of memcached know nothing of each other, and which of them keeps a lock would change \
                           with the list; give the address of one";
            return Err(Error::unsupported("connect", message));
        }
        let (url, options) = (uri.url(), &uri.connect);
        based(url, "memcached://user:password@host:11211")?;
        pathless(url, "memcached")?;
        if has_tls_files(options) {
            return Err(invalid("ca, cert and key are for TLS, which is not spoken to memcached; leave them out"));
        }
        Ok(Config {
            host: host(url)?,
            port: url.port().unwrap_or(PORT),
            prefix: options.prefix.clone(),
            connect_timeout: options.connect_timeout,
            response_timeout: options.response_timeout,
            address: shown.into(),
            login: Login::of(url, options)?,
        })
    }
}

impl std::fmt::Debug for Config {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Kind;
    use crate::options::ConnectOptions;

    fn read(text: &str) -> Result<Config> {
        Config::read(&mut Uri::parse(text, ConnectOptions::default())?)
    }

    #[test]
    fn addresses_of_every_kind_are_read() {
        for (text, host, port) in [
            ("memcached://h", "h", 11211),
            ("memcached://", "localhost", 11211),
            ("memcached://[::1]:2/?ttl=5s", "::1", 2),
            ("memcached://u:p@h:7?prefix=app:", "h", 7),
        ] {
            let config = read(text).unwrap();
            assert_eq!((&*config.host, config.port), (host, port), "{text}");
        }
        assert_eq!(read("memcached://h?prefix=app:").unwrap().prefix, "app:");
        let credentials = read("memcached://us%3Aer:hun%40ter2@h").unwrap().login.credentials().unwrap();
        assert_eq!((&*credentials.user, &*credentials.password), ("us:er", "hun@ter2"));
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        for text in ["memcached:h", "memcached://h/path", "memcached://h?ca=/x", "memcached://%ff@h"] {
            assert_eq!(read(text).unwrap_err().kind(), Kind::InvalidConfig, "{text}");
        }
        let error = read("memcached://user:hunter2@h,g:11212").unwrap_err();
        assert!(error.kind() == Kind::Unsupported && error.to_string().contains("one"), "{error}");
        let shown = format!("{:?} {error}", read("memcached://user:hunter2@h").unwrap());
        assert!(!shown.contains("hunter2"), "{shown}");
    }
}
