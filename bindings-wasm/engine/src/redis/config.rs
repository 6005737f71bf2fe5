//! What is known of a server before it is dialled.

use lockwright_machines::address::{credentials, invalid};
use lockwright_machines::error::{Error, Result};
use lockwright_machines::options::ConnectOptions;
use lockwright_machines::stores::redis::layouts::tokenless;
use lockwright_machines::uri::Uri;
use lockwright_resp::place::{Endpoint, Place};

use super::server::Server;
use crate::settings::{self, Settings, elsewhere, without_files};

/// See the [module](self).
#[derive(Debug)]
pub struct Config {
    /// What listens there.
    pub server: Server,
    /// Where the server listens.
    pub host: String,
    /// On which port.
    pub port: u16,
    /// By TLS, which is between the engine and the socket.
    pub is_secure: bool,
    /// Whether the server can push to this client at all.
    pub pushes: bool,
    /// What is known of the client.
    pub settings: Settings,
    pub(super) db: u32,
    /// Whether locks have tokens.
    pub(super) has_tokens: bool,
}

/// The scheme of addresses of lock servers.
const OURS: &str = "lockwright";
/// Where there is etcd.
const ETCD: &str =
    "take lockwright-etcd.component.wasm, or for WASI 0.3 lockwright-etcd.async.component.wasm; they want wasi:http";

/// The address of a lock server, which is a name.
///
/// # Errors
/// `invalid_config` where there is more in it.
fn ours(uri: &Uri) -> Result<String> {
    let url = uri.url();
    let is_bare = url.username().is_empty() && url.password().is_none() && url.port().is_none();
    match url.host_str() {
        Some(name) if is_bare && matches!(url.path(), "" | "/") => Ok(format!("{OURS}://{name}")),
        _ => Err(invalid("the address of a lock server is a name, and options: lockwright://name?ttl=10s")),
    }
}

impl Config {
    /// Reads an address with its options, for a face that shows itself as `language`.
    ///
    /// # Errors
    /// `invalid_config` for what is wrong, `unsupported` for what is not to be had in WebAssembly.
    pub fn read(address: &str, language: &'static str) -> Result<Self> {
        Config::read_with(address, ConnectOptions { language, ..ConnectOptions::default() })
    }

    /// The same with these options, where the address does not say otherwise.
    ///
    /// # Errors
    /// As there.
    pub fn read_with(address: &str, connect: ConnectOptions) -> Result<Self> {
        settings::read(address, connect, Config::of)
    }

    fn of(uri: &mut Uri) -> Result<Self> {
        let server = match uri.scheme() {
            "redis" | "redis+unix" | "rediss" => Server::Redis,
            OURS => Server::Ours,
            "etcd" | "etcds" => return Err(elsewhere(uri.scheme(), "", ETCD)),
            other => return Err(elsewhere(other, "redis, lockwright", "take redis://")),
        };
        let ours = if server == Server::Ours { Some(ours(uri)?) } else { None };
        if !uri.take_more_hosts().is_empty() {
            let message = "the address names several hosts, and neither a cluster (redis+cluster://) nor sentinels \
                           (redis+sentinel://) nor the nodes of a quorum (addresses with a space between them) are to \
                           be had in WebAssembly; name one server";
            return Err(Error::unsupported("connect", message));
        }
        let place = Place::read(uri)?;
        let shown = ours.unwrap_or_else(|| place.shown(uri.scheme()));
        let (host, port) = match place.endpoint {
            Endpoint::Tcp { host, port } => (host, port),
            Endpoint::Unix(_) => {
                return Err(Error::unsupported("connect", "there are no socket files in WebAssembly; take redis://"));
            }
        };
        without_files(&uri.connect, place.is_secure)?;
        let login = credentials(uri.url())?;
        let has_tokens = server == Server::Ours || tokenless::has_tokens(uri)?;
        let settings = Settings::of(uri, shown, login)?;
        Ok(Config { server, host, port, is_secure: place.is_secure, pushes: true, db: place.db, has_tokens, settings })
    }

    /// The same for a face without TLS, which says with `advice` what to do instead.
    ///
    /// # Errors
    /// `unsupported` for an address that has it.
    pub fn without_tls(self, advice: &str) -> Result<Self> {
        match self.is_secure {
            false => Ok(self),
            true => Err(Error::unsupported("connect", format!("TLS is not to be had here; {advice}"))),
        }
    }

    /// The same for a transport that reaches Redis alone; `advice` says what to do instead.
    ///
    /// # Errors
    /// `unsupported` for the address of a lock server.
    pub fn of_redis(self, advice: &str) -> Result<Self> {
        match self.server {
            Server::Redis => Ok(self),
            Server::Ours => {
                Err(Error::unsupported("connect", format!("a lock server is not reached by this transport; {advice}")))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lockwright_machines::error::Kind;

    #[test]
    fn an_address_is_read_or_refused() -> Result<()> {
        let config = Config::read("redis://u:p%20w@[::1]:7/3?ttl=5s&prefix=app:", "wasm")?;
        assert_eq!((&*config.host, config.port, config.db), ("::1", 7, 3));
        assert_eq!(
            (&*config.settings.address, config.settings.login.0.password.as_str()),
            ("redis://[::1]:7/3", "p w")
        );
        assert_eq!((config.settings.lock.ttl.as_secs(), config.settings.options.prefix.as_str()), (5, "app:"));
        assert!(config.has_tokens);
        assert!(!Config::read("redis://h?layout=string&format=redsync&tokens=false", "wasm")?.has_tokens);
        let ours = Config::read("lockwright://orders?ttl=5s", "wasm")?;
        assert_eq!(
            (ours.server, &*ours.host, &*ours.settings.address),
            (Server::Ours, "orders", "lockwright://orders")
        );
        for (address, kind) in [
            ("", Kind::InvalidConfig),
            ("redis://h?tokens=false", Kind::Unsupported),
            ("lockwright://orders?tokens=false", Kind::InvalidConfig),
            ("localhost:6379", Kind::InvalidConfig),
            ("redis://h/x", Kind::InvalidConfig),
            ("lockwright://u:p@h", Kind::InvalidConfig),
            ("lockwright://h/1", Kind::InvalidConfig),
            ("lockwright://h:1", Kind::InvalidConfig),
            ("lockwright://", Kind::InvalidConfig),
            ("redis://h?tll=5s", Kind::InvalidConfig),
            ("redis://h?ca=ca.crt", Kind::InvalidConfig),
            ("rediss://h?ca=ca.crt", Kind::Unsupported),
            ("redis+unix:///s", Kind::Unsupported),
            ("redis://a redis://b redis://c", Kind::Unsupported),
            ("redis://a,b", Kind::Unsupported),
            ("etcd://h", Kind::Unsupported),
            ("sqlite://", Kind::Unsupported),
            ("nonesuch://h", Kind::InvalidConfig),
        ] {
            assert_eq!(Config::read(address, "wasm").err().map(|error| error.kind()), Some(kind), "{address:?}");
        }
        let secure = Config::read("rediss://h", "wasm")?;
        assert_eq!((secure.is_secure, &*secure.settings.address), (true, "rediss://h:6379/0"));
        assert_eq!(secure.without_tls("").err().map(|error| error.kind()), Some(Kind::Unsupported));
        assert!(!Config::read("redis://h", "wasm")?.without_tls("")?.is_secure);
        let ours = Config::read("lockwright://orders", "wasm")?.of_redis("").err();
        assert_eq!(ours.map(|error| error.kind()), Some(Kind::Unsupported));
        assert_eq!(Config::read("redis://h", "wasm")?.of_redis("")?.host, "h");
        Ok(())
    }
}
