//! What an address says.

use std::sync::Arc;
use std::time::Duration;

use http::uri::Authority;
use lockwright_machines::stores::etcd::lease::whole_seconds;
use lockwright_machines::stores::etcd::members::members;
use rustls::ClientConfig;

use crate::error::Result;
use crate::options::ConnectOptions;
use crate::stores::address::{invalid, without_tls};
use crate::stores::login::Login;
use crate::stores::tls::{self, Tls};
use crate::uri::Uri;

/// Everything that is known of a cluster before it is dialled.
pub(super) struct Config {
    pub(super) members: Vec<Member>,
    pub(super) prefix: String,
    /// How long the client's lease lasts without a sign of life.
    pub(super) ttl: Duration,
    pub(super) connect_timeout: Duration,
    pub(super) response_timeout: Duration,
    /// As it may be shown.
    pub(super) address: Arc<str>,
    pub(super) login: Login,
}

/// One of the members.
#[derive(Clone)]
pub(super) struct Member {
    pub(super) authority: Authority,
    pub(super) tls: Option<Tls>,
}

impl Member {
    /// Its host and port, as they are looked up.
    pub(super) fn target(&self) -> (&str, u16) {
        let host = self.authority.host();
        let host = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
        (host, self.authority.port_u16().unwrap_or_default())
    }
}

impl Config {
    /// Reads an address and its options.
    ///
    /// # Errors
    /// `invalid_config` for a member that is no host, an option that does not fit, or a file that cannot be read.
    pub(super) fn read(uri: &mut Uri) -> Result<Self> {
        let members = members(uri)?;
        let (url, options) = (uri.url(), &uri.connect);
        let tls = match url.scheme() {
            "etcds" => Some(http2(options)?),
            _ => without_tls("etcds://", options).map(|()| None)?,
        };
        Ok(Config {
            address: format!("{}://{}", url.scheme(), members.join(",")).into(),
            members: members.iter().map(|named| member(named, tls.as_ref())).collect::<Result<_>>()?,
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

/// TLS for servers of HTTP/2.
fn http2(options: &ConnectOptions) -> Result<Arc<ClientConfig>> {
    let mut config = ClientConfig::clone(&*tls::config(options)?);
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(Arc::new(config))
}

fn member(named: &str, tls: Option<&Arc<ClientConfig>>) -> Result<Member> {
    let authority = named.parse::<Authority>();
    let authority = authority.map_err(|error| invalid(format!("{named:?} is no host and port")).caused_by(error))?;
    let mut member = Member { authority, tls: None };
    if let Some(config) = tls {
        member.tls = Some(Tls { config: config.clone(), name: tls::name(member.target().0)? });
    }
    Ok(member)
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
        for (text, targets, address) in [
            ("etcd://h", &[("h", 2379)][..], "etcd://h:2379"),
            ("etcd://", &[("localhost", 2379)], "etcd://localhost:2379"),
            ("etcds://h:1/?ttl=5s", &[("h", 1)], "etcds://h:1"),
            ("etcd://[::1]:2,h3", &[("::1", 2), ("h3", 2379)], "etcd://[::1]:2,h3:2379"),
            ("etcd://u:p@a,b:7,c?prefix=x", &[("a", 2379), ("b", 7), ("c", 2379)], "etcd://a:2379,b:7,c:2379"),
        ] {
            let config = read(text).unwrap();
            let members: Vec<_> = config.members.iter().map(Member::target).collect();
            assert_eq!((&members[..], &*config.address), (targets, address), "{text}");
            assert!(config.members.iter().all(|member| member.tls.is_some() == text.starts_with("etcds")), "{text}");
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
