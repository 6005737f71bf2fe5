//! From an address to a store.

use std::sync::Arc;
use std::time::Duration;

use lockwright_resp::place::{Endpoint, Place};

use super::client::Redis;
use crate::error::Result;
use crate::stores::Store;
use crate::stores::address::without_tls;
use crate::stores::login::Login;
use crate::stores::tls::{self, Tls};
use crate::uri::Uri;

/// The store of `redis://`, `rediss://` or `redis+unix://`. Sends nothing.
pub(crate) fn open(uri: &mut Uri) -> Result<Arc<dyn Store>> {
    Ok(Arc::new(Redis::new(Config::read(uri)?)))
}

/// Everything that is known of a server before it is dialled.
pub(super) struct Config {
    pub(super) place: Place,
    pub(super) tls: Option<Tls>,
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
    /// `invalid_config` for a database that is no number, an option that does not fit, or a file that cannot be read.
    pub(super) fn read(uri: &mut Uri) -> Result<Self> {
        let place = Place::read(uri)?;
        let (url, options) = (uri.url(), &uri.connect);
        let tls = match &place.endpoint {
            Endpoint::Tcp { host, .. } if place.is_secure => {
                Some(Tls { config: tls::config(options)?, name: tls::name(host)? })
            }
            _ => without_tls("rediss://", options).map(|()| None)?,
        };
        Ok(Config {
            tls,
            address: place.shown(url.scheme()).into(),
            place,
            prefix: options.prefix.clone(),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Kind;
    use crate::options::{ConnectOptions, Credentials};

    fn read(text: &str) -> Result<Config> {
        Config::read(&mut Uri::parse(text, ConnectOptions::default())?)
    }

    #[test]
    fn addresses_of_every_kind_are_read() {
        let tcp = |host: &str, port| Endpoint::Tcp { host: host.into(), port };
        for (text, endpoint, db, address) in [
            ("redis://h", tcp("h", 6379), 0, "redis://h:6379/0"),
            ("redis://h:1/7", tcp("h", 1), 7, "redis://h:1/7"),
            ("redis://h/?db=7", tcp("h", 6379), 7, "redis://h:6379/7"),
            ("redis://[::1]:2/0", tcp("::1", 2), 0, "redis://[::1]:2/0"),
            ("redis:///3", tcp("localhost", 6379), 3, "redis://localhost:6379/3"),
            ("redis+unix:///a%20b/c?db=2", Endpoint::Unix("/a b/c".into()), 2, "redis+unix:///a b/c?db=2"),
        ] {
            let config = read(text).unwrap();
            assert_eq!((&config.place.endpoint, config.place.db, &*config.address), (&endpoint, db, address), "{text}");
        }
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        for text in [
            "redis://h/abc",
            "redis://h/-1",
            "redis://h/1?db=2",
            "redis://h/99999999999",
            "redis:///run/redis.sock",
            "redis+unix://elsewhere/path",
            "redis://h?ca=/x",
            "redis+unix:///x?cert=/x",
            "rediss://h?ca=/does/not/exist",
            "rediss://h?cert=/x",
            "redis://%ff@h",
        ] {
            assert_eq!(read(text).unwrap_err().kind(), Kind::InvalidConfig, "{text}");
        }
    }

    #[test]
    fn credentials_are_decoded_and_never_shown() {
        let config = read("redis://us%3Aer:hun%40ter2@h/1").unwrap();
        let credentials = config.login.credentials().unwrap();
        assert_eq!((&*credentials.user, &*credentials.password), ("us:er", "hun@ter2"));
        assert!(!format!("{config:?} {}", config.address).contains("hun"));
        let options = ConnectOptions {
            credentials: Some(Arc::new(|| Ok(Credentials { user: "x".into(), password: "rotated".into() }))),
            ..ConnectOptions::default()
        };
        let config = Config::read(&mut Uri::parse("redis://a:b@h", options).unwrap()).unwrap();
        assert_eq!(config.login.credentials().unwrap().password, "rotated");
        let options = ConnectOptions {
            credentials: Some(Arc::new(|| Err("the vault is closed".into()))),
            ..ConnectOptions::default()
        };
        let config = Config::read(&mut Uri::parse("redis://a:b@h", options).unwrap()).unwrap();
        let error = config.login.credentials().unwrap_err();
        assert!(error.kind() == Kind::Auth && error.to_string().contains("the vault is closed"), "{error}");
    }
}
