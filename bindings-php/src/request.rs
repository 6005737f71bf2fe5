//! What ends with a request, however that ends: every hold is given back. Connections outlive it, for the next one.
//!
//! The destructor of a guard comes first where PHP gets to call it, and gives back what it has.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use lockwright::binding::held::Group;
use lockwright::binding::operation::Work;
use lockwright::binding::{Held, Road, Standing, Waiting, unload};
use lockwright::{Client, Guard, Result};

use crate::waiting::settled;
use crate::{log, login, told};

thread_local! {
    /// What is held in this request.
    static HELD: RefCell<Vec<Arc<Held>>> = const { RefCell::new(Vec::new()) };
    /// Clients that no object has any more.
    static RESTING: RefCell<Vec<Resting>> = const { RefCell::new(Vec::new()) };
}

/// Has it given back at the end of this request, whatever becomes of the object that PHP gets.
pub(crate) fn hold(guard: Guard) -> Arc<Held> {
    let held = Arc::new(Held::new(guard));
    HELD.with_borrow_mut(|all| {
        all.retain(|held| held.standing() == Standing::Open);
        all.push(held.clone());
    });
    held
}

/// Gives it back unless that was done; one of a parent process is left alone.
pub(crate) fn give_back(held: &Arc<Held>) {
    if held.standing() == Standing::Open {
        untold(|| Ok(Box::pin(held.clone().begin_release(Road::Thread, false)?)));
    }
}

/// The same of several, in one write.
fn give_all_back(mut all: Vec<Arc<Held>>) {
    all.retain(|held| held.standing() == Standing::Open);
    untold(|| Ok(Group::begin_release(Road::Thread, all, false)));
}

/// Nobody is there to be told what came of it: what could not be given back ends with its lease.
fn untold(begin: impl FnOnce() -> Result<Work>) {
    drop(catch_unwind(AssertUnwindSafe(|| settled(Waiting::Job(begin()?)))));
}

/// How many clients rest: a program with more than so many places connects anew.
const MOST: usize = 16;

/// A client that nobody uses.
pub(crate) struct Resting {
    /// What it was connected with.
    pub(crate) key: String,
    pub(crate) core: Client,
    /// Where it finds who gives user and password, if it asks.
    pub(crate) slot: Option<u64>,
}

/// Keeps a client for whoever connects to the same; one is enough.
pub(crate) fn rest(client: Resting) {
    let over = RESTING.with_borrow_mut(|all| {
        if all.iter().any(|other| other.key == client.key) {
            return Some(client);
        }
        all.push(client);
        (all.len() > MOST).then(|| all.remove(0))
    });
    // A connection ends here, with nothing borrowed.
    drop(over);
}

/// A client that rests.
pub(crate) fn rested(key: &str) -> Option<Resting> {
    RESTING.with_borrow_mut(|all| {
        let at = all.iter().position(|other| other.key == key)?;
        Some(all.swap_remove(at))
    })
}

/// PHP's RSHUTDOWN.
pub(crate) unsafe extern "C" fn ended(_kind: i32, _module: i32) -> i32 {
    drop(catch_unwind(AssertUnwindSafe(|| {
        give_all_back(HELD.with_borrow_mut(std::mem::take));
        told::ended();
        login::ended();
        log::stop();
    })));
    0
}

/// PHP's MSHUTDOWN, after which it may unload this library.
pub(crate) unsafe extern "C" fn unloaded(_kind: i32, _module: i32) -> i32 {
    drop(catch_unwind(AssertUnwindSafe(|| {
        drop(RESTING.with_borrow_mut(std::mem::take));
        unload();
    })));
    0
}
