//! What an address of a cluster says.

use std::sync::Arc;
use std::time::Duration;

use lockwright_machines::address::credentials;
use lockwright_machines::error::Result;
use lockwright_machines::options::ConnectOptions;
use lockwright_machines::stores::etcd::lease::whole_seconds;
use lockwright_machines::stores::etcd::members::members;
use lockwright_machines::uri::Uri;

use crate::settings::{self, Settings, elsewhere, without_files};

/// Everything that is known of a cluster before it is asked.
#[derive(Debug)]
pub struct Config {
    /// Its members, each as the authority of a URL.
    pub(super) members: Vec<Arc<str>>,
    /// By HTTPS, which is the host's.
    pub is_secure: bool,
    /// How long the client's lease lasts without a sign of life.
    pub(super) ttl: Duration,
    /// What is known of the client.
    pub settings: Settings,
}

impl Config {
    /// Reads an address with its options, for a face that shows itself as `language`.
    ///
    /// # Errors
    /// `invalid_config` for what is wrong, `unsupported` for what is not to be had in WebAssembly.
    pub fn read(address: &str, language: &'static str) -> Result<Self> {
        settings::read(address, ConnectOptions { language, ..ConnectOptions::default() }, Config::of)
    }

    fn of(uri: &mut Uri) -> Result<Self> {
        let is_secure = match uri.scheme() {
            "etcd" => false,
            "etcds" => true,
            other => {
                return Err(elsewhere(other, "etcd, etcds", "take etcd://, or the component without etcd in its name"));
            }
        };
        let members = members(uri)?;
        without_files(&uri.connect, is_secure)?;
        let shown = format!("{}://{}", uri.scheme(), members.join(","));
        let (login, ttl) = (credentials(uri.url())?, whole_seconds(uri.lock.ttl));
        let members = members.into_iter().map(Arc::from).collect();
        Ok(Config { members, is_secure, ttl, settings: Settings::of(uri, shown, login)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lockwright_machines::error::Kind;

    #[test]
    fn an_address_is_read_or_refused() -> Result<()> {
        let config = Config::read("etcds://u:p%40@[::1]:7,b,c:9/?ttl=4500ms&prefix=app/", "wasm")?;
        let members: Vec<_> = config.members.iter().map(|member| &**member).collect();
        assert_eq!(members, ["[::1]:7", "b:2379", "c:9"]);
        assert_eq!((config.is_secure, config.ttl.as_secs()), (true, 5));
        assert_eq!(&*config.settings.address, "etcds://[::1]:7,b:2379,c:9");
        assert_eq!(config.settings.login.0.password.as_str(), "p@");
        for (address, kind) in [
            ("etcd:h", Kind::InvalidConfig),
            ("etcd://h/path", Kind::InvalidConfig),
            ("etcd://h,", Kind::InvalidConfig),
            ("etcd://h?ca=/x", Kind::InvalidConfig),
            ("etcds://h?ca=/x", Kind::Unsupported),
            ("etcd://h?tll=5s", Kind::InvalidConfig),
            ("redis://h", Kind::Unsupported),
            ("nonesuch://h", Kind::InvalidConfig),
        ] {
            assert_eq!(Config::read(address, "wasm").err().map(|error| error.kind()), Some(kind), "{address:?}");
        }
        Ok(())
    }
}
