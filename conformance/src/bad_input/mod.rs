//! What a lock library is given that it cannot honour, and every server, file and disk that fails it: one table
//! (`bad-input.toml`), run in every face.
//!
//! Each row must end in time in the error that it says, or work; and leave nothing behind: no key, no file, no
//! descriptor, no thread, no memory, and no password in anything that is shown.

mod docs;
mod files;
mod ground;
mod hostile;
mod judge;
mod network;
mod redis;
mod run;
mod table;

pub use files::have_own_mounts;
pub use run::{Asked, run};
