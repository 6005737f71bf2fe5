//! One thread or task waiting for one result.

use std::cell::Cell;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::thread::Thread;
use std::time::Duration;

use lockwright_machines::machine;

use super::hold::SharedHold;
use super::lent::{self, Lendable};
use crate::platform::fence::Fence;
use crate::platform::mutex::locked;
use crate::platform::runtime;

/// What a waiter gets.
pub(crate) type Settled = machine::Settled<SharedHold>;

/// A place for one result, while somebody wants it, and whom to wake when it comes. A thread parks, a task leaves its
/// waker.
#[derive(Debug, Default)]
pub(crate) struct Waiter(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    result: Option<Settled>,
    wake: Wake,
    unwanted: bool,
}

#[derive(Debug, Default)]
enum Wake {
    #[default]
    Nobody,
    Thread(Thread),
    Task(Waker),
}

thread_local! {
    /// Lent to whoever waits next in this thread.
    static SPARE: Lendable<Arc<Waiter>> = const { Cell::new(None) };
}

impl Waiter {
    /// One without a result.
    pub(crate) fn new() -> Arc<Self> {
        lent::borrow(&SPARE).unwrap_or_default()
    }

    /// It is waited on no more: unless somebody may yet leave a result, the thread has it for the next one.
    pub(crate) fn give_back(waiter: &mut Arc<Self>) {
        if let Some(Waiter(state)) = Arc::get_mut(waiter) {
            *state = Mutex::default();
            lent::give_back(&SPARE, waiter.clone());
        }
    }

    /// Leaves the result and wakes whoever waits; hands it back when nobody wants it any more.
    pub(crate) fn settle(&self, result: Settled, fence: Fence<'_>) -> Option<Settled> {
        let wake = {
            let mut state = locked(&self.0);
            if state.unwanted {
                return Some(result);
            }
            state.result = Some(result);
            std::mem::take(&mut state.wake)
        };
        match wake {
            Wake::Nobody => {}
            Wake::Thread(thread) => thread.unpark(),
            Wake::Task(waker) => fence.run("a waker", || waker.wake()),
        }
        None
    }

    /// Says that nobody wants the result any more, and takes it if it came already.
    pub(crate) fn refuse(&self) -> Option<Settled> {
        let mut state = locked(&self.0);
        state.unwanted = true;
        state.result.take()
    }

    /// Takes the result if it is there.
    pub(crate) fn take(&self) -> Option<Settled> {
        locked(&self.0).result.take()
    }

    /// Blocks this thread until the result is there, for at most `limit`.
    pub(crate) fn park(&self, limit: Option<Duration>) -> Option<Settled> {
        {
            let mut state = locked(&self.0);
            if let Some(result) = state.result.take() {
                return Some(result);
            }
            state.wake = Wake::Thread(std::thread::current());
        }
        runtime::park(limit);
        self.take()
    }

    /// Blocks this thread until the result is there.
    pub(crate) fn park_until_settled(&self) -> Settled {
        loop {
            if let Some(settled) = self.park(None) {
                return settled;
            }
        }
    }

    pub(crate) fn poll(&self, context: &Context<'_>) -> Poll<Settled> {
        self.take_or_wake(context.waker()).map_or(Poll::Pending, Poll::Ready)
    }

    /// Takes the result if it is there, else has `waker` called when it comes.
    pub(crate) fn take_or_wake(&self, waker: &Waker) -> Option<Settled> {
        let mut state = locked(&self.0);
        if state.result.is_none() {
            state.wake = Wake::Task(waker.clone());
        }
        state.result.take()
    }
}
