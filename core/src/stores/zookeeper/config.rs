//! What an address says.

use std::sync::Arc;
use std::time::Duration;

use url::Url;

use super::wire::Acl;
use crate::error::Result;
use crate::stores::address::{based, decode, host, invalid, listed, without_tls};
use crate::stores::login::Login;
use crate::stores::tls::{self, Tls};
use crate::uri::{Uri, span};

const PORT: u16 = 2181;
/// The servers' `tickTime` where nothing else is said.
const TICK: Duration = Duration::from_secs(2);
/// All that may be done to a node.
const ALL: i32 = 31;

/// Everything that is known of an ensemble before a server is dialled.
pub(super) struct Config {
    pub(super) servers: Vec<Server>,
    /// Where the locks' directories lie.
    pub(super) root: Arc<str>,
    pub(super) prefix: String,
    /// How long what is held lasts without a word from the ensemble.
    pub(super) ttl: Duration,
    pub(super) tick: Duration,
    pub(super) acl: Vec<Acl>,
    pub(super) connect_timeout: Duration,
    pub(super) response_timeout: Duration,
    /// As it may be shown.
    pub(super) address: Arc<str>,
    pub(super) login: Login,
    pub(super) scheme: Scheme,
}

/// How a user and a password are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scheme {
    /// As they are, for ACLs of the scheme `digest`.
    Digest,
    /// By SASL, as a proof that they are known.
    DigestMd5,
}

/// One of the servers.
#[derive(Clone)]
pub(super) struct Server {
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) tls: Option<Tls>,
}

impl Config {
    /// Reads an address and its options.
    ///
    /// # Errors
    /// `invalid_config` for a host, path or option that cannot be meant, or a file that cannot be read.
    pub(super) fn read(uri: &mut Uri) -> Result<Self> {
        let shown = uri.redacted();
        let (tick, acl, scheme) = (uri.take_rest("tick"), uri.take_rest("acl"), uri.take_rest("login"));
        let scheme = match scheme.as_deref() {
            None | Some("digest") => Scheme::Digest,
            Some("digest-md5") => Scheme::DigestMd5,
            Some(other) => return Err(invalid(format!("login is {other:?}; write digest, or digest-md5 for SASL"))),
        };
        let tick = tick.map_or(Ok(TICK), |tick| span("tick", &tick))?;
        let more = uri.take_more_hosts();
        let (url, options) = (uri.url(), &uri.connect);
        based(url, "zookeeper://user:password@host:2181/path")?;
        let tls = match url.scheme() {
            "zookeepers" => Some(tls::config(options)?),
            _ => without_tls("zookeepers://", options).map(|()| None)?,
        };
        let more = more.iter().map(|host| listed(url.scheme(), host)).collect::<Result<Vec<_>>>()?;
        let server = |url: &Url| {
            let host = host(url)?;
            let name = tls.as_ref().map(|_| tls::name(&host)).transpose()?;
            let tls = tls.clone().zip(name).map(|(config, name)| Tls { config, name });
            Ok(Server { host, port: url.port().unwrap_or(PORT), tls })
        };
        let login = Login::of(url, options)?;
        Ok(Config {
            servers: [url].into_iter().chain(&more).map(server).collect::<Result<_>>()?,
            root: root(&decode("the path", url.path())?)?,
            prefix: options.prefix.clone(),
            ttl: uri.lock.ttl,
            tick,
            acl: acl.map_or_else(
                || Ok(vec![if login.is_nobody() { Acl::open(ALL) } else { Acl::creator(ALL) }]),
                |acl| acls(&acl),
            )?,
            connect_timeout: options.connect_timeout,
            response_timeout: options.response_timeout,
            address: shown.into(),
            login,
            scheme,
        })
    }
}

impl std::fmt::Debug for Config {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.address)
    }
}

/// The path under which locks lie.
fn root(path: &str) -> Result<Arc<str>> {
    let path = path.trim_end_matches('/');
    let is_node = |element: &str| !element.is_empty() && !element.contains(char::is_control);
    match path.strip_prefix('/') {
        None => Ok("/".into()),
        Some(elements) if elements.split('/').all(is_node) && elements != "zookeeper" => Ok(path.into()),
        Some(_) => {
            Err(invalid(format!("{path:?} is no path of ZooKeeper's; write zookeeper://host/path/of/the/locks")))
        }
    }
}

/// What new nodes have as their rights: `open`, `creator`, or `scheme:id:rights` as in ZooKeeper's own shell, several
/// with commas between.
fn acls(text: &str) -> Result<Vec<Acl>> {
    text.split(',')
        .map(|text| {
            acl(text).ok_or_else(|| invalid(format!("acl is {text:?}; write open, creator, or scheme:id:cdrwa")))
        })
        .collect()
}

fn acl(text: &str) -> Option<Acl> {
    if let Some(known) =
        [("open", Acl::open(ALL)), ("creator", Acl::creator(ALL))].into_iter().find(|(name, _)| *name == text)
    {
        return Some(known.1);
    }
    let (scheme, rest) = text.split_once(':')?;
    let (id, rights) = rest.rsplit_once(':')?;
    let right = |letter| Some(1 << "rwcda".find(letter)?);
    let rights = rights.chars().map(right).try_fold(0, |all, right| Some(all | right?)).filter(|rights| *rights > 0)?;
    (!scheme.is_empty()).then(|| Acl { scheme: scheme.into(), id: id.into(), rights })
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
        for (text, servers, root, address) in [
            ("zookeeper://h", vec![("h", 2181)], "/", "zookeeper://h"),
            ("zookeeper://h:1/", vec![("h", 1)], "/", "zookeeper://h:1/"),
            ("zookeeper:///a/b%20c/", vec![("localhost", 2181)], "/a/b c", "zookeeper:///a/b%20c/"),
            (
                "zookeeper://[::1]:2,b,c:3/x",
                vec![("::1", 2), ("b", 2181), ("c", 3)],
                "/x",
                "zookeeper://[::1]:2,b,c:3/x",
            ),
        ] {
            let config = read(text).unwrap();
            let found: Vec<_> = config.servers.iter().map(|server| (server.host.as_str(), server.port)).collect();
            assert_eq!((found, &*config.root, &*config.address), (servers, root, address), "{text}");
        }
        let config = read("zookeeper://h?ttl=7s&tick=100ms").unwrap();
        assert_eq!((config.ttl, config.tick), (Duration::from_secs(7), Duration::from_millis(100)));
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        for text in [
            "zookeeper:h",
            "zookeeper://h,b:port",
            "zookeeper://h,",
            "zookeeper://h//a",
            "zookeeper://h/a%00",
            "zookeeper://h/zookeeper",
            "zookeeper://h?tick=often",
            "zookeeper://h?login=kerberos",
            "zookeeper://h?acl=everybody",
            "zookeeper://h?acl=world:anyone:",
            "zookeeper://h?acl=world:anyone:x",
            "zookeeper://h?ca=/x",
            "zookeepers://h?ca=/does/not/exist",
            "zookeeper://%ff@h",
        ] {
            assert_eq!(read(text).map(|config| config.root).unwrap_err().kind(), Kind::InvalidConfig, "{text}");
        }
    }

    #[test]
    fn rights_are_the_creators_where_there_is_one() {
        let acl = |text| read(text).unwrap().acl;
        assert_eq!(acl("zookeeper://h"), [Acl::open(31)]);
        assert_eq!(acl("zookeeper://u:p@h"), [Acl::creator(31)]);
        assert_eq!(acl("zookeeper://u:p@h?acl=open"), [Acl::open(31)]);
        let [other, own] = &acl("zookeeper://u:p@h?acl=digest:u:x%2By=:cdrwa,creator")[..] else { panic!("two") };
        assert_eq!((&*other.scheme, &*other.id, other.rights, own.rights), ("digest", "u:x+y=", 31, 31));
        assert_eq!(acl("zookeeper://h?acl=world:anyone:rc")[0].rights, 5);
    }

    #[test]
    fn credentials_are_decoded_and_never_shown() {
        let config = read("zookeeper://us%3Aer:hun%40ter2@h/x").unwrap();
        let credentials = config.login.credentials().unwrap();
        assert_eq!((&*credentials.user, &*credentials.password), ("us:er", "hun@ter2"));
        assert_eq!(config.scheme, Scheme::Digest);
        assert_eq!(read("zookeeper://u:p@h?login=digest-md5").unwrap().scheme, Scheme::DigestMd5);
        assert!(!format!("{config:?} {}", config.address).contains("hun"));
    }
}
