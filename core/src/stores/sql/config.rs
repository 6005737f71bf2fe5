//! From an address to a store.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::platform::stream::Stream;
use crate::stores::address::{based, decode, has_tls_files, host, invalid, without_tls};
use crate::stores::login::Login;
use crate::stores::reach;
use crate::stores::tls::{self, Tls};
use crate::uri::Uri;

/// How addresses are written without and with TLS.
const SCHEMES: [&str; 2] = ["no sslmode, or sslmode=disable,", "sslmode=verify-full"];

/// What the addresses of one kind of database are like.
#[derive(Debug)]
pub(crate) struct Dialect {
    pub(crate) scheme: &'static str,
    /// The port where none is named.
    pub(crate) port: u16,
    /// What an address looks like that has everything.
    pub(crate) example: &'static str,
    /// Whether an address has to name a database.
    pub(crate) names_database: bool,
}

/// Everything that is known of a database before it is dialled.
pub(crate) struct Config {
    pub(crate) host: String,
    pub(crate) port: u16,
    /// None is the one that the server takes by itself.
    pub(crate) database: Option<String>,
    pub(crate) tls: Option<Tls>,
    pub(crate) prefix: String,
    pub(crate) connect_timeout: Duration,
    pub(crate) response_timeout: Duration,
    /// How long the connection of a session may be silent.
    pub(crate) ttl: Duration,
    /// As it may be shown.
    pub(crate) address: Arc<str>,
    pub(crate) login: Login,
}

impl Config {
    /// Reads an address and its options.
    ///
    /// # Errors
    /// `invalid_config` for a path or an option that cannot be meant, or a file that cannot be read.
    pub(crate) fn read(dialect: &Dialect, uri: &mut Uri) -> Result<Self> {
        let mode = uri.take_rest("sslmode");
        let (url, options) = (uri.url(), &uri.connect);
        based(url, dialect.example)?;
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
        if path.is_empty() && dialect.names_database {
            return Err(invalid(format!("the address names no database; write {}", dialect.example)));
        }
        let port = url.port().unwrap_or(dialect.port);
        let shown = if host.contains(':') { format!("[{host}]") } else { host.clone() };
        Ok(Config {
            address: format!("{}://{shown}:{port}/{path}", dialect.scheme).into(),
            host,
            port,
            database: Some(path).filter(|path| !path.is_empty()),
            tls,
            prefix: options.prefix.clone(),
            connect_timeout: options.connect_timeout,
            response_timeout: options.response_timeout,
            ttl: uri.lock.ttl,
            login: Login::of(url, options)?,
        })
    }
}

impl Config {
    /// Why a connection could not be made.
    pub(crate) fn unreachable(&self, error: std::io::Error) -> Error {
        reach::unreachable(SCHEMES, self.tls.is_some(), error)
    }

    /// A socket that is connected to the server.
    ///
    /// # Errors
    /// `unavailable`.
    pub(crate) async fn reach(&self) -> Result<Stream> {
        let found = tokio::net::lookup_host((self.host.as_str(), self.port)).await;
        let found: Vec<SocketAddr> = found.map_err(|error| self.unreachable(reach::unknown_host(error)))?.collect();
        Stream::to(&found).await.map_err(|error| self.unreachable(error))
    }
}

/// What a server that has no TLS comes to.
pub(crate) fn has_no_tls() -> std::io::Error {
    std::io::Error::new(std::io::ErrorKind::InvalidData, rustls::Error::General("the server has no TLS".into()))
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

    const DIALECT: Dialect =
        Dialect { scheme: "postgres", port: 5432, example: "postgres://h/db", names_database: false };

    fn read(text: &str) -> Result<Config> {
        Config::read(&DIALECT, &mut Uri::parse(text, ConnectOptions::default())?)
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
        let dialect = Dialect { names_database: true, ..DIALECT };
        let mut nameless = Uri::parse("postgres://h", ConnectOptions::default()).unwrap();
        assert!(Config::read(&dialect, &mut nameless).unwrap_err().to_string().contains("names no database"));
    }
}
