//! The store as the driver sees it.

use std::sync::{Arc, Weak};

use super::config::Config;
use super::file::LockFile;
use super::inbox;
use super::layouts::native;
use crate::driver::{clock, runtime};
use crate::error::{Error, Kind};
use crate::protocol::{InboxId, Layout, Request, Requests};
use crate::stores::{Answered, BoxFuture, Closing, Outcome, Sink, Store};
use crate::time::Time;

/// The locks in one file.
#[derive(Debug)]
pub(crate) struct SqliteStore {
    pub(super) file: Arc<LockFile>,
    native: Arc<dyn Layout>,
    closing: Closing,
}

impl SqliteStore {
    /// Does nothing yet: the first request opens the file.
    pub(crate) fn new(config: Config) -> Self {
        let native = Arc::new(native::layout(&config.prefix));
        SqliteStore { file: Arc::new(LockFile::new(config)), native, closing: Closing::default() }
    }

    /// The file blocks whoever uses it, so it is used from a thread that may be blocked.
    async fn elsewhere(&self, work: impl FnOnce(&LockFile) -> Answered + Send + 'static) -> Answered {
        let file = self.file.clone();
        let failed = |error| Answered { sent: clock::now(), outcome: Outcome::NotSent(error) };
        let runtime = match runtime::handle() {
            Ok(runtime) => runtime,
            Err(error) => return failed(error),
        };
        match runtime.spawn_blocking(move || work(&file)).await {
            Ok(answered) => answered,
            Err(error) => {
                let message = "the thread that used the lock file ended before its time";
                let error = Error::new(Kind::Internal, "connect", message).caused_by(error);
                Answered { sent: clock::now(), outcome: Outcome::Unknown { error, void_after: clock::now() } }
            }
        }
    }
}

impl Store for SqliteStore {
    fn address(&self) -> &Arc<str> {
        self.file.address()
    }

    fn layouts(&self) -> &[Arc<dyn Layout>] {
        std::slice::from_ref(&self.native)
    }

    fn call(&self, requests: &Requests, limit: Time) -> Answered {
        self.file.perform(requests, limit)
    }

    fn call_async<'a>(&'a self, requests: &'a Requests, limit: Time) -> BoxFuture<'a, Answered> {
        let requests = requests.clone();
        Box::pin(self.elsewhere(move |file| file.perform(&requests, limit)))
    }

    fn call_batch(self: Arc<Self>, requests: Vec<Request>) -> BoxFuture<'static, Answered> {
        let limit = clock::now().after(self.file.response_timeout());
        Box::pin(async move { self.elsewhere(move |file| file.perform_many(&requests, limit)).await })
    }

    fn open_inbox(self: Arc<Self>, inbox: InboxId, sink: Weak<dyn Sink>) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            self.closing.cuts_short(inbox::listen(self.file.clone(), inbox, sink)).await;
            self.file.inboxes().remove(inbox);
        })
    }

    fn close(&self) {
        self.closing.close();
        self.file.close();
    }
}
