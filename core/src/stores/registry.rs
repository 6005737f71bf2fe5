//! The stores that there are, by the scheme of their addresses.
#![cfg_attr(not(feature = "unstable-store"), allow(unreachable_pub))]

use std::sync::{Arc, OnceLock};

use lockwright_machines::uri::discreet;

use super::adapter::Store;
use super::nodes;
use super::{LayoutChoice, layout_of};
use crate::error::Error;
use crate::guarantee::Guarantees;
use crate::options::ConnectOptions;
use crate::protocol::Layout;
use crate::share::{Primitive, Share};
use crate::uri::Uri;

/// What makes a store of an address, and takes the options that only this store has out of it. It sends nothing.
pub type Opener = fn(&mut Uri) -> crate::Result<Arc<dyn Store>>;

/// A store from outside the crate. The first of them leads to the next one: what is only ever added to needs no lock,
/// which a fork could leave locked in the child.
struct Registered {
    scheme: &'static str,
    open: Opener,
    next: OnceLock<Box<Registered>>,
}

static REGISTERED: OnceLock<Box<Registered>> = OnceLock::new();

fn registered() -> impl Iterator<Item = &'static Registered> {
    std::iter::successors(REGISTERED.get(), |known| known.next.get()).map(|known| &**known)
}

/// Has addresses that begin with `scheme://` opened by `open`, in all of this process and from now on.
///
/// # Errors
/// `invalid_config` where there is a store for this scheme.
#[cfg(feature = "unstable-store")]
pub fn register(scheme: &'static str, open: Opener) -> crate::Result<()> {
    let taken = || Error::invalid("connect", format!("there is a store for {scheme}:// already"));
    if STORES.iter().any(|(schemes, ..)| schemes.contains(&scheme)) {
        return Err(taken());
    }
    let mut new = Box::new(Registered { scheme, open, next: OnceLock::new() });
    let mut place = &REGISTERED;
    while let Err(refused) = place.set(new) {
        let Some(known) = place.get().filter(|known| known.scheme != scheme) else { return Err(taken()) };
        (new, place) = (refused, &known.next);
    }
    Ok(())
}

/// Schemes, an address, and what opens it: one line a store.
const STORES: &[(&[&str], &str, Opener)] = &[
    #[cfg(feature = "memory")]
    (&["memory"], "memory://", |uri| super::memory::open(uri)),
    #[cfg(feature = "sqlite")]
    (&["sqlite"], "sqlite:///tmp/locks.db", |uri| super::sqlite::open(uri)),
    #[cfg(feature = "redis")]
    (
        &["redis", "rediss", "redis+unix", "redis+sentinel", "rediss+sentinel", "redis+cluster", "rediss+cluster"],
        "redis://localhost",
        |uri| super::redis::open(uri),
    ),
    #[cfg(feature = "memcached")]
    (&["memcached"], "memcached://localhost", |uri| super::memcached::open(uri)),
    #[cfg(feature = "etcd")]
    (&["etcd", "etcds"], "etcd://localhost", |uri| super::etcd::open(uri)),
    #[cfg(feature = "mysql")]
    (&["mysql", "mariadb"], "mysql://localhost/locks", |uri| super::mysql::open(uri)),
    #[cfg(feature = "postgres")]
    (&["postgres", "postgresql"], "postgres://localhost/locks", |uri| super::postgres::open(uri)),
    #[cfg(feature = "zookeeper")]
    (&["zookeeper", "zookeepers"], "zookeeper://localhost", |uri| super::zookeeper::open(uri)),
];

/// Schemes of stores that are built in by a feature which is not there by itself.
const OPTIONAL: &[(&str, &str)] = &[
    ("etcd", "etcd"),
    ("etcds", "etcd"),
    ("mysql", "mysql"),
    ("mariadb", "mysql"),
    ("postgres", "postgres"),
    ("postgresql", "postgres"),
];

/// The store that an address names. Nothing is sent.
///
/// # Errors
/// `invalid_config` for an unknown scheme or option, `unsupported` for a store that is not built (in).
pub(crate) fn open(uri: &mut Uri) -> crate::Result<Arc<dyn Store>> {
    let store = match uri.take_other_nodes() {
        others if others.is_empty() => open_one(uri)?,
        others => nodes::open(uri, others, open_one)?,
    };
    uri.check_all_read().map_err(|error| discreet(uri, error))?;
    layout_of(store.layouts(), LayoutChoice::of(&uri.lock))?;
    Ok(store)
}

/// That of one address, which is not looked at for options that nobody read.
fn open_one(uri: &mut Uri) -> crate::Result<Arc<dyn Store>> {
    let built_in = STORES.iter().find(|(schemes, ..)| schemes.contains(&uri.scheme())).map(|(_, _, open)| *open);
    let outside = || registered().find(|known| known.scheme == uri.scheme()).map(|known| known.open);
    let Some(open) = built_in.or_else(outside) else {
        let schemes = STORES.iter().flat_map(|(schemes, ..)| schemes.iter().copied());
        let all: Vec<_> = schemes.chain(registered().map(|known| known.scheme)).collect();
        let (scheme, all) = (uri.scheme(), all.join(", "));
        let feature = OPTIONAL.iter().find(|(optional, _)| *optional == scheme).map(|(_, feature)| *feature);
        return Err(match feature {
            Some(feature) => {
                let message = format!("{scheme}:// is not built in; build lockwright with its feature {feature:?}");
                Error::unsupported("connect", message)
            }
            None => Error::invalid("connect", format!("there is no store for {scheme}://; there are: {all}")),
        });
    };
    open(uri).map_err(|error| discreet(uri, error))
}

/// Where a lock lies on several nodes.
#[cfg(feature = "redis")]
const QUORUM: &[&str] = &["redis://a redis://b redis://c"];
#[cfg(not(feature = "redis"))]
const QUORUM: &[&str] = &[];

/// Options by which locks promise something else, and what names them.
#[cfg(feature = "redis")]
const VARIED: &[(&str, &str)] = &[
    ("redis://localhost?layout=string&format=redis-py&tokens=false", ", `tokens=false`"),
    ("redis://a redis://b redis://c?layout=string&format=redis-py&tokens=false", ", `tokens=false`"),
];
#[cfg(not(feature = "redis"))]
const VARIED: &[(&str, &str)] = &[];

/// One of every store. Opening an address sends nothing.
fn one_of_each() -> impl Iterator<Item = Arc<dyn Store>> {
    let addresses = STORES.iter().map(|(_, address, _)| *address).chain(QUORUM.iter().copied());
    addresses.filter_map(opened)
}

fn opened(address: &str) -> Option<Arc<dyn Store>> {
    open(&mut Uri::parse(address, ConnectOptions::default()).ok()?).ok()
}

fn format_of(layout: &dyn Layout) -> String {
    layout.format().map(|format| format!(", format `{format}`")).unwrap_or_default()
}

/// What every layout of every store promises, and the format where not all formats of the layout promise the same, or
/// the option by which it promises that.
pub(crate) fn guarantees_of_all() -> Vec<(String, Guarantees)> {
    let mut all: Vec<(String, Guarantees)> = Vec::new();
    for store in one_of_each() {
        for layout in store.layouts() {
            let promised = layout.guarantees();
            if all.iter().all(|(_, known)| *known != promised) {
                let mut formats = store.layouts().iter().filter(|other| other.name() == layout.name());
                let is_of_all = formats.all(|other| other.guarantees() == promised);
                all.push((if is_of_all { String::new() } else { format_of(&**layout) }, promised));
            }
        }
    }
    let varied = |(address, what): &(&str, &'static str)| {
        Some(((*what).to_owned(), opened(address)?.layouts().first()?.guarantees()))
    };
    all.extend(VARIED.iter().filter_map(varied));
    all
}

/// What a read/write lock (`rwlock`) or a semaphore promises in a layout, and the format, where that differs from what
/// locks promise by more than that nothing shared is reentrant.
pub(crate) fn guarantees_of_shared() -> Vec<(String, Guarantees)> {
    let mut all: Vec<(String, Guarantees)> = Vec::new();
    for store in one_of_each() {
        for layout in store.layouts() {
            for share in [Share::READ, Share { primitive: Primitive::Semaphore, ..Share::READ }] {
                let Some(promised) = layout.shared(share).map(|shared| shared.guarantees()) else { continue };
                let is_known = promised == Guarantees { reentrant: false, ..layout.guarantees() };
                if !is_known && all.iter().all(|(_, known)| *known != promised) {
                    all.push((format!(" {}{}", share.primitive.name(), format_of(&**layout)), promised));
                }
            }
        }
    }
    all
}

#[cfg(all(test, feature = "memory", feature = "sqlite", feature = "redis"))]
mod tests {
    use super::*;
    use crate::error::Kind;

    fn parse(text: &str) -> crate::Result<Uri> {
        Uri::parse(text, ConnectOptions::default())
    }

    #[test]
    fn an_address_that_is_none_says_what_was_meant() {
        let says = |text: &str, part: &str| {
            let error = parse(text).and_then(|mut uri| open(&mut uri)).unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        };
        says("", "the address is empty; write one such as redis://localhost");
        says("localhost", "did you mean redis://localhost?");
        says("localhost:6379", "did you mean redis://localhost:6379?");
        says("10.0.0.7", "did you mean redis://10.0.0.7?");
        says("/tmp/x.db", "did you mean sqlite:///tmp/x.db?");
        says("x.db", "not a URI; write one such as");
        says("redis://h:port", "not a URI (invalid port number)");
        says("redis://a,b", "the address names several hosts, and this store has one");
        says("redis://a:1,b:2/0", "redis+cluster://a,b");
        says("redis+sentinel://h,i", "the name of the master is missing");
        says("http://h", "there is no store for http://; there are: memory");
        says(
            "memory://?tll=1s",
            "an option \"tll\", which memory does not have; did you mean ttl? (options: ttl, timeout, ",
        );
        says("memory://?colour=blue", "which memory does not have (options: ttl, ");
        says("redis://h?dbb=1", ", db)");
        // It may be a password.
        assert!(!parse("hunter2").unwrap_err().to_string().contains("hunter2"));
        assert!(parse("redis://user:a,b@h").is_ok());
    }

    #[test]
    fn a_password_that_is_taken_for_something_else_is_not_shown_either() {
        for text in [
            "redis://user:1/hunter2@h",
            "redis://user:1/hunter2?x@h",
            "redis://user:1?hunter2@h",
            "redis://user:1?ttl=hunter2@h",
            "redis://user:1#hunter2@h",
            "redis:user:hunter2@h",
            "redis:///user:hunter2/x@h/..",
            "redis:///user:hunter2@h",
        ] {
            let opened = parse(text).and_then(|mut uri| open(&mut uri));
            let error = opened.unwrap_err();
            assert!(error.kind() == Kind::InvalidConfig && !error.to_string().contains("hunter2"), "{text}: {error}");
        }
        let error = parse("redis://h?ttl=soon").unwrap_err();
        assert!(error.to_string().contains("soon"), "{error}");
    }

    #[test]
    fn each_scheme_is_known_where_its_store_is_not_to_be_had() {
        let schemes = STORES.iter().flat_map(|(schemes, ..)| *schemes);
        assert_eq!(schemes.filter(|scheme| !lockwright_machines::uri::SCHEMES.contains(scheme)).count(), 0);
    }
}
