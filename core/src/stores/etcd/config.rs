//! What an address says.

use std::sync::Arc;
use std::time::Duration;

use etcd_client::{Certificate, Identity, TlsOptions};
use lockwright_machines::stores::etcd::lease::whole_seconds;
use lockwright_machines::stores::etcd::members::members;

use crate::error::Result;
use crate::options::ConnectOptions;
use crate::stores::address::{identity, unusable, without_tls};
use crate::stores::login::Login;
use crate::uri::Uri;

/// Everything that is known of a cluster before it is dialled.
pub(super) struct Config {
    /// Its members, each as a URL that the client library knows.
    pub(super) endpoints: Vec<String>,
    pub(super) tls: Option<TlsOptions>,
    pub(super) prefix: String,
    /// How long the client's lease lasts without a sign of life.
    pub(super) ttl: Duration,
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
    /// `invalid_config` for a member that is no host, an option that does not fit, or a file that cannot be read.
    pub(super) fn read(uri: &mut Uri) -> Result<Self> {
        let members = members(uri)?;
        let (url, options) = (uri.url(), &uri.connect);
        let secure = url.scheme() == "etcds";
        let scheme = if secure { "https" } else { "http" };
        Ok(Config {
            tls: tls(secure, options)?,
            address: format!("{}://{}", url.scheme(), members.join(",")).into(),
            endpoints: members.iter().map(|member| format!("{scheme}://{member}")).collect(),
            prefix: options.prefix.clone(),
            ttl: whole_seconds(uri.lock.ttl),
            connect_timeout: options.connect_timeout,
            response_timeout: options.response_timeout,
            login: Login::of(url, options)?,
        })
    }
}

impl std::fmt::Debug for Config {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.address)
    }
}

fn tls(wanted: bool, options: &ConnectOptions) -> Result<Option<TlsOptions>> {
    if !wanted {
        return without_tls("etcds://", options).map(|()| None);
    }
    let tls = match &options.ca {
        Some(file) => TlsOptions::new().ca_certificate(Certificate::from_pem(pem("ca", file)?)),
        None => TlsOptions::new().with_native_roots(),
    };
    Ok(Some(match identity(options)? {
        None => tls,
        Some((cert, key)) => tls.identity(Identity::from_pem(pem("cert", cert)?, pem("key", key)?)),
    }))
}

fn pem(option: &str, file: &str) -> Result<Vec<u8>> {
    let bytes = std::fs::read(file).map_err(|error| unusable(option, file).caused_by(error))?;
    let is_pem = bytes.windows(11).any(|part| part == b"-----BEGIN ");
    is_pem.then_some(bytes).ok_or_else(|| unusable(option, file))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Kind;

    fn read(text: &str) -> Result<Config> {
        Config::read(&mut Uri::parse(text, ConnectOptions::default())?)
    }

    #[test]
    fn addresses_of_every_kind_are_read() {
        for (text, endpoints, address) in [
            ("etcd://h", &["http://h:2379"][..], "etcd://h:2379"),
            ("etcd://", &["http://localhost:2379"], "etcd://localhost:2379"),
            ("etcds://h:1/?ttl=5s", &["https://h:1"], "etcds://h:1"),
            ("etcd://[::1]:2,h3", &["http://[::1]:2", "http://h3:2379"], "etcd://[::1]:2,h3:2379"),
            (
                "etcd://u:p@a,b:7,c?prefix=x",
                &["http://a:2379", "http://b:7", "http://c:2379"],
                "etcd://a:2379,b:7,c:2379",
            ),
        ] {
            let config = read(text).unwrap();
            assert_eq!(
                (&config.endpoints[..], &*config.address),
                (&endpoints.iter().map(|e| (*e).to_owned()).collect::<Vec<_>>()[..], address),
                "{text}"
            );
        }
        assert_eq!(read("etcd://h?ttl=1500ms").unwrap().ttl, Duration::from_secs(2));
        let credentials = read("etcd://us%3Aer:hun%40ter2@h,g").unwrap().login.credentials().unwrap();
        assert_eq!((&*credentials.user, &*credentials.password), ("us:er", "hun@ter2"));
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        for text in [
            "etcd:h",
            "etcd://h/path",
            "etcd://h,",
            "etcd://h,g:port",
            "etcd://h?ca=/x",
            "etcds://h?ca=/does/not/exist",
            "etcds://h?cert=/x",
            "etcd://%ff@h",
        ] {
            assert_eq!(read(text).unwrap_err().kind(), Kind::InvalidConfig, "{text}");
        }
        let shown = format!("{:?}", read("etcd://user:hunter2@h,g").unwrap());
        assert!(!shown.contains("hunter2") && !shown.contains("user"), "{shown}");
    }
}
