//! From an address to a store.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use lockwright_machines::stores::redis::layouts::{self, tokenless};
pub(super) use lockwright_resp::place::Endpoint;
use lockwright_resp::place::{PORT, Place, database};
use url::Url;

use super::failover::Delay;
use super::greeting::Greeting;
use super::replicas::Replicas;
use crate::error::Result;
use crate::options::Credentials;
use crate::protocol::Layout;
use crate::stores::address::{decode, host, invalid, listed, without_tls};
use crate::stores::login::Login;
use crate::stores::tls::{self, Tls};
use crate::uri::Uri;

/// Where a sentinel listens whose port is not said.
const SENTINEL_PORT: u16 = 26379;

/// Everything that is known of a server before it is dialled.
#[derive(Clone)]
pub(super) struct Config {
    pub(super) endpoint: Endpoint,
    pub(super) db: u32,
    pub(super) tls: Option<Tls>,
    pub(super) prefix: String,
    pub(super) connect_timeout: Duration,
    pub(super) response_timeout: Duration,
    /// As it may be shown.
    pub(super) address: Arc<str>,
    pub(super) login: Login,
    /// Who is asked where the server is; the endpoint is then that of one of them.
    pub(super) sentinels: Option<Arc<Sentinels>>,
    /// Whether the server has to be a master: a sentinel said that it is.
    pub(super) is_named: bool,
    /// The nodes of a cluster to begin with; of none, where the server is no part of one.
    pub(super) seeds: Vec<Endpoint>,
    /// Who must have heard of a grant.
    pub(super) replicas: Option<Replicas>,
    /// How long a new master grants nothing.
    pub(super) delay: Option<Delay>,
    /// Whether locks have tokens.
    pub(super) has_tokens: bool,
}

/// Who says where the master is.
pub(super) struct Sentinels {
    /// The name by which they know it.
    pub(super) master: String,
    pub(super) each: Vec<Config>,
    /// The one that answered last is asked first.
    pub(super) first: AtomicUsize,
}

impl Config {
    /// Reads an address and its options.
    ///
    /// # Errors
    /// `invalid_config` for a database that is no number, an option that does not fit, or a file that cannot be read.
    pub(super) fn read(uri: &mut Uri) -> Result<Self> {
        let (replicas, delay) = (Replicas::read(uri)?, Delay::read(uri)?);
        let has_tokens = tokenless::has_tokens(uri)?;
        let config = match uri.scheme().split_once('+') {
            Some((_, "sentinel")) => Self::read_sentinels(uri),
            Some((_, "cluster")) => Self::read_cluster(uri),
            _ => Self::read_server(uri),
        }?;
        Ok(Config { replicas, delay, has_tokens, ..config })
    }

    fn read_server(uri: &mut Uri) -> Result<Self> {
        let place = Place::read(uri)?;
        let address = place.shown(uri.scheme()).into();
        Self::of(uri, "rediss://", place.endpoint, place.db, address)
    }

    /// Reads `redis+sentinel://user:password@host,host/master/db`.
    fn read_sentinels(uri: &mut Uri) -> Result<Self> {
        let option = uri.take_rest("db");
        let login = Login::written(
            uri.take_rest("sentinel_user").unwrap_or_default(),
            uri.take_rest("sentinel_password").unwrap_or_default(),
        );
        let more = uri.take_more_hosts();
        let url = uri.url();
        let (scheme, path) = (url.scheme(), url.path().trim_matches('/'));
        let (master, place) = path.split_once('/').unwrap_or((path, ""));
        let (master, db) = (decode("the master's name", master)?, database(place, option.as_deref())?);
        if master.is_empty() {
            let written = format!("{scheme}://host1,host2,host3/mymaster");
            return Err(invalid(format!(
                "the name of the master is missing behind the sentinels' hosts; write {written}"
            )));
        }
        let (endpoints, hosts) = endpoints(url, &more, SENTINEL_PORT)?;
        let address: Arc<str> = format!("{scheme}://{hosts}/{master}/{db}").into();
        let server = Self::of(uri, "rediss+sentinel://", endpoints[0].clone(), db, address)?;
        let each =
            endpoints.into_iter().map(|endpoint| Config { db: 0, login: login.clone(), ..server.clone() }.at(endpoint));
        let sentinels = Sentinels { master, each: each.collect::<Result<_>>()?, first: AtomicUsize::new(0) };
        Ok(Config { sentinels: Some(Arc::new(sentinels)), ..server })
    }

    /// Reads `redis+cluster://user:password@host,host`.
    fn read_cluster(uri: &mut Uri) -> Result<Self> {
        let option = uri.take_rest("db");
        let more = uri.take_more_hosts();
        let url = uri.url();
        if database(url.path().trim_matches('/'), option.as_deref())? != 0 {
            return Err(invalid("a cluster has no databases but 0; leave the number out"));
        }
        let (seeds, hosts) = endpoints(url, &more, PORT)?;
        let address = format!("{}://{hosts}", url.scheme()).into();
        let config = Self::of(uri, "rediss+cluster://", seeds[0].clone(), 0, address)?;
        Ok(Config { seeds, ..config })
    }

    /// With what every address may say; `secure` is the scheme of those with TLS.
    fn of(uri: &Uri, secure: &str, endpoint: Endpoint, db: u32, address: Arc<str>) -> Result<Self> {
        let options = &uri.connect;
        let tls = match &endpoint {
            Endpoint::Tcp { host, .. } if uri.scheme().starts_with("rediss") => {
                Some(Tls { config: tls::config(options)?, name: tls::name(host)? })
            }
            _ => without_tls(secure, options).map(|()| None)?,
        };
        Ok(Config {
            tls,
            address,
            endpoint,
            db,
            prefix: options.prefix.clone(),
            connect_timeout: options.connect_timeout,
            response_timeout: options.response_timeout,
            login: Login::of(uri.url(), options)?,
            sentinels: None,
            is_named: false,
            seeds: Vec::new(),
            replicas: None,
            delay: None,
            has_tokens: true,
        })
    }

    /// The layouts that its locks may lie in.
    pub(super) fn layouts(&self) -> Vec<Arc<dyn Layout>> {
        match (self.has_tokens, self.seeds.is_empty()) {
            (false, is_alone) => tokenless::layouts(&self.prefix, !is_alone),
            (true, true) => layouts::all(&self.prefix),
            (true, false) => layouts::of_cluster(&self.prefix),
        }
    }

    /// The first words to this server.
    pub(super) fn greeting(&self, credentials: Credentials) -> Greeting {
        Greeting::new(self.db, self.is_named, credentials)
    }

    /// The same for the server at `endpoint`.
    ///
    /// # Errors
    /// `invalid_config` for a host that no certificate can be for.
    pub(super) fn at(self, endpoint: Endpoint) -> Result<Self> {
        let tls = match (self.tls, &endpoint) {
            (Some(tls), Endpoint::Tcp { host, .. }) => Some(Tls { name: tls::name(host)?, ..tls }),
            (tls, _) => tls,
        };
        Ok(Config { tls, endpoint, sentinels: None, ..self })
    }
}

impl std::fmt::Debug for Config {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.address)
    }
}

/// Those of all the hosts of an address, and as they may be shown.
fn endpoints(url: &Url, more: &[String], port: u16) -> Result<(Vec<Endpoint>, String)> {
    let others = more.iter().map(|host| listed(url.scheme(), host)).collect::<Result<Vec<_>>>()?;
    let each = std::iter::once(url).chain(&others);
    let each = each.map(|url| Ok(Endpoint::Tcp { host: host(url)?, port: url.port().unwrap_or(port) }));
    let endpoints = each.collect::<Result<Vec<_>>>()?;
    let shown: Vec<_> = endpoints.iter().map(Endpoint::shown).collect();
    Ok((endpoints, shown.join(",")))
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
            assert_eq!((&config.endpoint, config.db, &*config.address), (&endpoint, db, address), "{text}");
        }
    }

    #[test]
    fn sentinels_are_a_list_of_hosts_before_the_master_s_name() {
        for (text, address) in [
            ("redis+sentinel://h/mymaster", "redis+sentinel://h:26379/mymaster/0"),
            (
                "redis+sentinel://u:p@a:1,b,[::1]:3/m%20m/4?sentinel_password=q",
                "redis+sentinel://a:1,b:26379,[::1]:3/m m/4",
            ),
            ("redis+sentinel://a,b/m?db=4", "redis+sentinel://a:26379,b:26379/m/4"),
            ("rediss+sentinel://a,b/m", "rediss+sentinel://a:26379,b:26379/m/0"),
        ] {
            let config = read(text).unwrap();
            assert_eq!(&*config.address, address, "{text}");
            assert_eq!(config.tls.is_some(), text.starts_with("rediss"), "{text}");
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
            "redis+sentinel://h",
            "redis+cluster://h,i/3",
            "redis+cluster://h,i?db=1",
            "redis+sentinel://h,/m",
            "redis+sentinel://h/m/x",
            "redis+sentinel://h/m/1?db=2",
            "redis+sentinel://h/m?ca=/x",
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
