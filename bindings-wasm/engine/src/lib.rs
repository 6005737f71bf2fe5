//! One client of Lockwright in one thread, without a socket or a clock: what its WebAssembly faces are made of.
//!
//! The lock is the same [machine](lockwright_machines::machine::LockMachine) as everywhere, and so are the words that a
//! server is spoken to in. What is here is between the two: who waits for which answer, how the server is asked and
//! heard, and what is due when. A face performs each action, tells of whatever happens, and gives the time.
//!
//! ```text
//!   face, host                          Engine
//!   acquire, release, ...  ---------->  locks: machine, tickets
//!   look                   ---------->  what is due
//!                                          | asks                   ^ news
//!                                       Store                       |
//!   dialled, came, ended   ---------->  Redis: one line that is asked, another on which the server pushes
//!   came, ended            ---------->  Etcd: requests of HTTP, each with its answer
//!          <----------  its Action: dial, send, hang up; post, drop
//! ```

#![forbid(unsafe_code)]

mod engine;
pub mod etcd;
mod gates;
mod guard;
mod hold;
mod inquiries;
mod lock;
mod places;
pub mod redis;
mod settings;
mod several;
mod store;

pub use engine::{Engine, Random, Ticket};
pub use gates::{Barrier, Latch};
pub use guard::Guard;
pub use lock::{Asked, Lock, Outcome};
pub use several::MultiLock;
