//! The PHP face, a skin of [`lockwright::binding`]: [`client`], what it makes ([`lock`], [`several`], [`gate`]) and the
//! [`guard`] as PHP sees them; [`asked`] is whatever is asked by name, [`once`] and [`election`] call what a program
//! gives; [`value`] is a value as PHP has it, [`thrown`] an error, [`classes`] are those that are made from the core's
//! own lists, and [`request`] is what ends with a request; [`told`] is
//! what other threads have for PHP's, a loss, a question of [`login`] or an event for its [`log`].
//!
//! What holds everywhere here:
//! - Nothing is begun before the first use, so that what a process manager forks has nothing to lose. What is loaded
//!   with PHP is names alone.
//! - PHP is called by the thread that called us, and by no other.
//! - PHP may leave a call by a jump past Rust's frames (a memory limit, `exit` in a handler): nothing is locked, and
//!   everything that is held is known to its [`request`], whenever PHP may be called.

// Parameters are named as PHP names them, and there is one for each option.
#![allow(non_snake_case, clippy::too_many_arguments)]
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod asked;
mod classes;
mod client;
mod election;
mod gate;
mod guard;
mod lock;
mod log;
mod login;
mod once;
mod report;
mod request;
mod several;
mod thrown;
mod told;
mod value;
mod waiting;

use classes::register;
use ext_php_rs::prelude::*;

/// What PHP loads.
#[php_module]
#[php(startup = register)]
pub fn get_module(module: ModuleBuilder<'_>) -> ModuleBuilder<'_> {
    module
        .name("lockwright")
        .version(env!("CARGO_PKG_VERSION"))
        .request_shutdown_function(request::ended)
        .shutdown_function(request::unloaded)
        .class::<client::Client>()
        .class::<lock::Lock>()
        .class::<lock::RwLock>()
        .class::<guard::Guard>()
        .class::<several::MultiLock>()
        .class::<several::MultiGuard>()
        .class::<several::Striped>()
        .class::<several::Segment>()
        .class::<gate::Latch>()
        .class::<gate::Barrier>()
        .class::<once::Once>()
        .class::<election::Election>()
        .class::<report::Histogram>()
        .class::<report::Kit>()
        .class::<log::Log>()
}
