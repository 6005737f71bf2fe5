//! From several addresses to a quorum.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use lockwright_machines::quorum::{self, Leases, QuorumLayout};

use super::{Member, Nodes};
use crate::error::{Error, Result};
use crate::options::MAX_TTL;
use crate::protocol::Layout;
use crate::stores::Store;
use crate::uri::{Uri, span};

/// The longest lease there may be where the address does not say.
const LONGEST: Duration = Duration::from_secs(60);
/// How long a node may take to answer where the address does not say.
const PATIENCE: Duration = Duration::from_millis(250);

/// The store whose nodes are `uri` and the `others`, each of which `open` makes a store of.
///
/// # Errors
/// What an address is refused with; `invalid_config` for options that do not fit, and for the same node twice;
/// `unsupported` for stores that cannot be nodes together.
pub(crate) fn open(
    uri: &mut Uri,
    others: Vec<Uri>,
    open: impl Fn(&mut Uri) -> Result<Arc<dyn Store>>,
) -> Result<Arc<dyn Store>> {
    let max_ttl = option(uri, "max_ttl", LONGEST)?;
    let node_timeout = option(uri, "node_timeout", PATIENCE)?;
    check(max_ttl, node_timeout)?;
    let mut stores = vec![open(uri)?];
    for mut other in others {
        let store = open(&mut other)?;
        other.check_all_read()?;
        if stores.iter().any(|known| known.address() == store.address()) {
            let message = format!("{} is named twice; the nodes of a quorum are different servers", store.address());
            return Err(Error::invalid("connect", message));
        }
        stores.push(store);
    }
    let members = stores.into_iter().map(member).collect::<Result<Vec<_>>>()?;
    let fenced = Arc::new(AtomicBool::new(false));
    let layouts = layouts(&members, Leases { max_ttl, node_timeout }, &fenced)?;
    let addresses: Vec<&str> = members.iter().map(|member| &**member.store.address()).collect();
    let address = addresses.join(" ").into();
    Ok(Arc::new(Nodes { address, layouts, members, node_timeout, max_ttl, fenced }))
}

fn option(uri: &mut Uri, key: &'static str, default: Duration) -> Result<Duration> {
    uri.take_rest(key).map_or(Ok(default), |text| span(key, &text))
}

fn check(max_ttl: Duration, node_timeout: Duration) -> Result<()> {
    if max_ttl > MAX_TTL || max_ttl < Duration::from_secs(1) {
        return Err(Error::invalid("connect", format!("max_ttl is {max_ttl:?}; it must be 1 s to 24 h")));
    }
    if node_timeout < Duration::from_millis(1) || node_timeout > max_ttl / 4 {
        let most = max_ttl / 4;
        let message = format!("node_timeout is {node_timeout:?}; it must be 1 ms to a quarter of max_ttl, {most:?}");
        return Err(Error::invalid("connect", message));
    }
    Ok(())
}

fn member(store: Arc<dyn Store>) -> Result<Arc<Member>> {
    let Some(marker) = store.marker() else {
        let message = format!(
            "{} cannot be a node of a quorum: it does not say for how long it has had what it keeps; Redis and SQLite do \
             (without failover_delay, in whose place is max_ttl)",
            store.address()
        );
        return Err(Error::unsupported("connect", message));
    };
    Ok(Arc::new(Member { store, marker, health: Default::default() }))
}

/// Those of a node's layouts in which a lock may lie on several.
fn layouts(members: &[Arc<Member>], leases: Leases, fenced: &Arc<AtomicBool>) -> Result<Vec<Arc<dyn Layout>>> {
    let is_good = |layout: &&Arc<dyn Layout>| match layout.name() {
        "native" | "string" => true,
        "redisson" => layout.format().is_none(),
        _ => false,
    };
    let of = |layout: &Arc<dyn Layout>| -> Result<Arc<dyn Layout>> {
        let same = |other: &&Arc<dyn Layout>| (other.name(), other.format()) == (layout.name(), layout.format());
        let at = |member: &Arc<Member>| {
            let (address, marker) = (member.store.address().clone(), member.marker.clone());
            match member.store.layouts().iter().find(same) {
                Some(layout) => Ok(quorum::Member { address, layout: layout.clone(), marker }),
                None => Err(Error::unsupported("connect", format!("{address} has no layout {}", layout.name()))),
            }
        };
        let each = members.iter().map(at).collect::<Result<Vec<_>>>()?;
        Ok(Arc::new(QuorumLayout::new(each, leases, fenced.clone())?))
    };
    members[0].store.layouts().iter().filter(is_good).map(of).collect()
}
