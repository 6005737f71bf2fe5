//! From an address to a place: where a server listens, and which of its databases is meant.

use std::path::PathBuf;

use lockwright_machines::address::{based, decode, host, invalid};
use lockwright_machines::error::Result;
use lockwright_machines::uri::Uri;

/// Where a server listens whose port is not said.
pub const PORT: u16 = 6379;

/// Where the server listens.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Endpoint {
    Tcp { host: String, port: u16 },
    Unix(PathBuf),
}

/// What an address says, its credentials and options left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Where the server listens.
    pub endpoint: Endpoint,
    /// By TLS.
    pub is_secure: bool,
    /// The database.
    pub db: u32,
}

impl Place {
    /// Reads the place in an address of `redis://`, `rediss://` or `redis+unix://`.
    ///
    /// # Errors
    /// `invalid_config` for a database that is no number, and for what cannot be meant.
    pub fn read(uri: &mut Uri) -> Result<Self> {
        let option = uri.take_rest("db");
        let url = uri.url();
        based(url, "redis://user:password@host:6379/0")?;
        let is_local = matches!(url.host_str().unwrap_or_default(), "" | "localhost");
        let (endpoint, place) = match url.scheme() {
            "redis+unix" if !is_local => {
                return Err(invalid("a socket file is on this host: write redis+unix:///path/to/socket"));
            }
            "redis+unix" => (Endpoint::Unix(decode("the path", url.path())?.into()), ""),
            _ => (Endpoint::Tcp { host: host(url)?, port: url.port().unwrap_or(PORT) }, url.path().trim_matches('/')),
        };
        let db = database(place, option.as_deref())?;
        Ok(Place { is_secure: url.scheme() == "rediss", endpoint, db })
    }

    /// It as it may be shown, for an address of this `scheme`.
    pub fn shown(&self, scheme: &str) -> String {
        let mark = if matches!(self.endpoint, Endpoint::Unix(_)) { "?db=" } else { "/" };
        format!("{scheme}://{}{mark}{}", self.endpoint.shown(), self.db)
    }
}

impl Endpoint {
    /// As it may be shown.
    pub fn shown(&self) -> String {
        match self {
            Endpoint::Tcp { host, port } if host.contains(':') => format!("[{host}]:{port}"),
            Endpoint::Tcp { host, port } => format!("{host}:{port}"),
            Endpoint::Unix(path) => path.display().to_string(),
        }
    }
}

/// The database's number, from the path (`redis://host/3`) or the option `db`.
///
/// # Errors
/// `invalid_config` where they say different things, or no number.
pub fn database(path: &str, option: Option<&str>) -> Result<u32> {
    if option.is_some_and(|option| !path.is_empty() && option != path) {
        return Err(invalid("the address names two databases; drop the path or the option db"));
    }
    match option.unwrap_or(path) {
        "" => Ok(0),
        number => number.parse().map_err(|_| {
            invalid(format!(
                "the database is {number:?}; it must be a number from 0 (a socket file is redis+unix:///path?db=0)"
            ))
        }),
    }
}
