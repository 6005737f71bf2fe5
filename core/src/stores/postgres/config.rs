//! From an address to a store.

use std::sync::Arc;
use std::time::Duration;

use super::client::Postgres;
use crate::error::Result;
use crate::stores::Store;
use crate::stores::address::{based, decode, has_tls_files, host, invalid, without_tls};
use crate::stores::login::Login;
use crate::stores::tls::{self, Tls};
use crate::uri::Uri;

const PORT: u16 = 5432;

/// The store of `postgres://` or `postgresql://`. Sends nothing.
pub(crate) fn open(uri: &mut Uri) -> Result<Arc<dyn Store>> {
    Ok(Arc::new(Postgres::new(Config::read(uri)?)))
}

/// Everything that is known of a database before it is dialled.
pub(super) struct Config {
    pub(super) host: String,
    pub(super) port: u16,
    /// That of the user's name, where none is named.
    pub(super) database: Option<String>,
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
    /// `invalid_config` for a path or an option that cannot be meant, or a file that cannot be read.
    pub(super) fn read(uri: &mut Uri) -> Result<Self> {
        let mode = uri.take_rest("sslmode");
        let (url, options) = (uri.url(), &uri.connect);
        based(url, "postgres://user:password@host:5432/database")?;
        let host = host(url)?;
        let tls = match mode.as_deref() {
            Some("disable") => without_tls("sslmode=verify-full", options).map(|()| None)?,
            None if !has_tls_files(options) => None,
            None | Some("verify-full") => Some(Tls { config: tls::config(options)?, name: tls::name(&host)? }),
            Some(other) => {
                let message =
                    format!("sslmode is {other:?}; write verify-full, by which a certificate is looked at, or disable");
                return Err(invalid(message));
            }
        };
        let path = decode("the database", url.path().trim_start_matches('/'))?;
        let port = url.port().unwrap_or(PORT);
        let shown = if host.contains(':') { format!("[{host}]") } else { host.clone() };
        Ok(Config {
            address: format!("postgres://{shown}:{port}/{path}").into(),
            host,
            port,
            database: Some(path).filter(|path| !path.is_empty()),
            tls,
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
    use crate::options::ConnectOptions;

    fn read(text: &str) -> Result<Config> {
        Config::read(&mut Uri::parse(text, ConnectOptions::default())?)
    }

    #[test]
    fn addresses_of_every_kind_are_read() {
        for (text, address, database) in [
            ("postgres://h/db", "postgres://h:5432/db", Some("db")),
            ("postgresql://u:p@h:6432/a%20b?prefix=x", "postgres://h:6432/a b", Some("a b")),
            ("postgres://[::1]", "postgres://[::1]:5432/", None),
            ("postgres://h/db?sslmode=disable", "postgres://h:5432/db", Some("db")),
        ] {
            let config = read(text).unwrap();
            assert_eq!((&*config.address, config.database.as_deref()), (address, database), "{text}");
            assert!(config.tls.is_none());
        }
        assert!(read("postgres://h/db?sslmode=verify-full").unwrap().tls.is_some());
        let credentials = read("postgres://us%3Aer:hun%40ter2@h/db").unwrap().login.credentials().unwrap();
        assert_eq!((&*credentials.user, &*credentials.password), ("us:er", "hun@ter2"));
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        for text in [
            "postgres:h",
            "postgres://h/db?sslmode=prefer",
            "postgres://h/db?sslmode=disable&ca=/x",
            "postgres://h/db?ca=/does/not/exist",
            "postgres://h/%ff",
        ] {
            assert_eq!(read(text).unwrap_err().kind(), Kind::InvalidConfig, "{text}");
        }
        let shown = format!("{:?}", read("postgres://user:hunter2@h/db").unwrap());
        assert!(!shown.contains("hunter2") && !shown.contains("user"), "{shown}");
    }
}
