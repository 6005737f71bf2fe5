//! How whoever asks the store something waits for the answer, so that what is asked is written once for threads and for
//! tasks.

#![cfg_attr(not(feature = "bindings"), allow(unreachable_pub))]

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::sync::Notify;

use crate::error::{Error, Kind, Result};
use crate::platform::runtime;
use crate::protocol::Requests;
use crate::stores::{Answered, Store, not_sent};
use crate::time::Time;

/// The way of a request to the store.
#[derive(Clone, Copy, Debug)]
pub enum Road {
    /// The thread that polls does it, and blocks. What waits for nothing else is ended by [`here`].
    Thread,
    /// The caller's task awaits it. In an event loop of another language that is the loop's own connection.
    Task,
}

impl Road {
    /// Performs a write. A task may be of any executor.
    pub(crate) async fn call(self, store: &dyn Store, requests: &Requests, limit: Time) -> Answered {
        match self {
            Road::Thread => store.call(requests, limit),
            Road::Task => runtime::within(store.call_async(requests, limit)).await.unwrap_or_else(not_sent),
        }
    }

    pub(crate) async fn pause(self, span: Duration) -> Result<()> {
        match self {
            Road::Thread => {
                std::thread::sleep(span);
                Ok(())
            }
            Road::Task => runtime::within(async { tokio::time::sleep(span).await }).await,
        }
    }

    /// Waits until `is_so`, which is looked at once more whenever `happened` is notified, for at most `limit`.
    pub(crate) async fn wait_until(self, is_so: impl Fn() -> bool, happened: &Notify, limit: Duration) -> Result<()> {
        if is_so() {
            return Ok(());
        }
        let so = async {
            loop {
                // Hears of what happens from now on, so that nothing is missed after the look.
                let news = happened.notified();
                if is_so() {
                    break;
                }
                news.await;
            }
        };
        match self {
            Road::Thread => drop(runtime::park_on(so, limit)),
            Road::Task => runtime::within(async { drop(tokio::time::timeout(limit, so).await) }).await?,
        }
        Ok(())
    }
}

/// What comes of `work` that takes [`Road::Thread`], and so never waits as a task does.
pub(crate) fn here<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    match pin!(work).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => done,
        Poll::Pending => {
            let message = "a call that blocks its thread waited as a task does; please report this";
            Err(Error::new(Kind::Internal, "call", message))
        }
    }
}
