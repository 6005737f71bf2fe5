//! The stores that there are, by the scheme of their addresses.
#![cfg_attr(not(feature = "unstable-store"), allow(unreachable_pub))]

use std::sync::{Arc, OnceLock};

use super::adapter::{Store, layout_of};
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
    (&["redis", "rediss", "redis+unix"], "redis://localhost", |uri| super::redis::open(uri)),
];

/// Schemes of stores that are planned.
const PLANNED: &[&str] =
    &["redis+sentinel", "redis+cluster", "etcd", "etcds", "zookeeper", "mysql", "postgres", "postgresql", "memcached"];

/// The store that an address names. Nothing is sent.
///
/// # Errors
/// `invalid_config` for an unknown scheme or option, `unsupported` for a store that is not built (in).
pub(crate) fn open(uri: &mut Uri) -> crate::Result<Arc<dyn Store>> {
    let built_in = STORES.iter().find(|(schemes, ..)| schemes.contains(&uri.scheme())).map(|(_, _, open)| *open);
    let outside = || registered().find(|known| known.scheme == uri.scheme()).map(|known| known.open);
    let Some(open) = built_in.or_else(outside) else {
        let schemes = STORES.iter().flat_map(|(schemes, ..)| schemes.iter().copied());
        let all: Vec<_> = schemes.chain(registered().map(|known| known.scheme)).collect();
        let (scheme, all) = (uri.scheme(), all.join(", "));
        return Err(match PLANNED.contains(&scheme) {
            true => Error::unsupported("connect", format!("{scheme}:// is not built yet; there are: {all}")),
            false => Error::invalid("connect", format!("there is no store for {scheme}://; there are: {all}")),
        });
    };
    let store =
        open(uri).and_then(|store| uri.check_all_read().map(|()| store)).map_err(|error| uri.discreet(error))?;
    layout_of(store.layouts(), uri.lock.wanted())?;
    Ok(store)
}

/// One of every store. Opening an address sends nothing.
fn one_of_each() -> impl Iterator<Item = Arc<dyn Store>> {
    STORES.iter().filter_map(|(_, address, _)| open(&mut Uri::parse(address, ConnectOptions::default()).ok()?).ok())
}

fn format_of(layout: &dyn Layout) -> String {
    layout.format().map(|format| format!(", format `{format}`")).unwrap_or_default()
}

/// What every layout of every store promises, and the format where not all formats of the layout promise the same.
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
