//! One client of Lockwright in one thread, without a socket or a clock: what its WebAssembly faces are made of.
//!
//! The lock is the same [machine](lockwright_machines::machine::LockMachine) as everywhere, and Redis is spoken by the
//! same [words](lockwright_resp). What is here is between the two: who waits for which answer, what goes out on which
//! of two lines, and what is due when. A face performs each [`Action`], tells of whatever happens, and gives the time.
//!
//! ```text
//!   face, host                          Engine
//!   acquire, release, ...  ---------->  locks: machine, tickets
//!   dialled, came, ended   ---------->  requests: one line, answers in their order
//!   look                   ---------->  inbox: another line, what the server pushes
//!          <----------  Action: dial, send, hang up
//! ```

#![forbid(unsafe_code)]

mod config;
mod engine;
mod gates;
mod guard;
mod hold;
mod inbox;
mod inquiries;
mod line;
mod lock;
mod places;
mod requests;
mod server;
mod several;

pub use config::Config;
pub use engine::{Engine, Random, Ticket};
pub use gates::{Barrier, Latch};
pub use guard::Guard;
pub use line::{Action, Which};
pub use lock::{Asked, Lock, Outcome};
pub use server::Server;
pub use several::MultiLock;
