//! A store that lives outside the `lockwright` crate: locks in a folder of files, which the processes of one host
//! share.
//!
//! ```
//! lockwright_own_store::register()?;
//! # let folder = std::env::temp_dir().join(format!("lockwright-own-store-{}", std::process::id()));
//! # let address = format!("dir://{}", folder.display());
//! let client = lockwright::blocking::connect(&address)?; // such as dir:///var/lib/app/locks
//! let guard = client.lock("orders:42").acquire()?;
//! println!("fencing token {}", guard.token());
//! # drop(guard);
//! # client.close();
//! # std::fs::remove_dir_all(folder).ok();
//! # Ok::<_, lockwright::Error>(())
//! ```
//!
//! Three files, one for each of the things that a store is made of; `docs/own-store.md` goes through them:
//! - [`folder`]: the procedures, each of which is done as a whole or not at all;
//! - `lock.rs`: the layout and its machine, which say what to ask for and what the answers mean;
//! - this one: the adapter between them and the core.

pub mod folder;
mod lock;

use std::path::PathBuf;
use std::sync::Arc;

use lockwright::protocol::{Layout, Requests};
use lockwright::stores::{self, Answered, BoxFuture, Outcome, Store};
use lockwright::time::Time;
use lockwright::uri::Uri;
use lockwright::{Error, Kind, Result};

use folder::Folder;
use lock::Files;

/// Has addresses `dir:///path/of/a/folder` opened by this store.
///
/// # Errors
/// `invalid_config` when it was done before.
pub fn register() -> Result<()> {
    stores::register("dir", open)
}

fn open(uri: &mut Uri) -> Result<Arc<dyn Store>> {
    let path = uri.url().path();
    if uri.url().has_host() || path.len() < 2 || path.contains('%') {
        let message =
            "an address of this store is dir:// and the absolute path of a folder, such as dir:///var/lib/app/locks";
        return Err(Error::invalid("connect", message));
    }
    let address: Arc<str> = uri.redacted().into();
    let folder = Folder::new(PathBuf::from(path), address.clone());
    let layout: Arc<dyn Layout> = Arc::new(Files { prefix: uri.connect.prefix.clone() });
    Ok(Arc::new(Dir { address, folder: Arc::new(folder), layouts: [layout] }))
}

#[derive(Debug)]
struct Dir {
    address: Arc<str>,
    folder: Arc<Folder>,
    layouts: [Arc<dyn Layout>; 1],
}

impl Store for Dir {
    fn address(&self) -> &Arc<str> {
        &self.address
    }

    fn layouts(&self) -> &[Arc<dyn Layout>] {
        &self.layouts
    }

    /// Files block whoever uses them, so they are used from a thread that may be blocked.
    fn call_async<'a>(&'a self, requests: &'a Requests, limit: Time) -> BoxFuture<'a, Answered> {
        let (folder, requests) = (self.folder.clone(), requests.clone());
        Box::pin(async move {
            let done = tokio::task::spawn_blocking(move || folder.perform(&requests, limit)).await;
            done.unwrap_or_else(|error| {
                let error =
                    Error::new(Kind::Internal, "connect", "the thread that used the files ended").caused_by(error);
                Answered { sent: stores::now(), outcome: Outcome::Unknown { error, void_after: limit } }
            })
        })
    }

    /// The thread goes on when nobody awaits it any more, and begins nothing after the limit.
    fn void_after(&self, given_up: Time, limit: Time) -> Time {
        limit.max(given_up)
    }
}
