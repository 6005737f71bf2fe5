//! What the stores over SQL databases have in common: records of the layout `native`, one a row.
//!
//! A client reads a row, runs the cell on it, and writes what became of it *if the row is still the one it read*, all
//! rows of a request in one statement. So the rules are those of the [cells](lockwright_machines::cell), in no
//! database's own language, and no transaction is ever open between two statements. What a client wrote or read last it
//! [remembers](known), and begins with: as long as nobody else used a lock, acquiring, renewing and giving back are one
//! statement each.
//!
//! **Time** is the database's. A cell is run at a moment that the database's clock has certainly reached and that is
//! written into the statement: it is done only if the clock stands between that moment and the request's limit, so that
//! neither a client's wrong idea of the clock nor a statement that comes late grants anything.

pub(super) mod config;
pub(super) mod database;
pub(super) mod joined;
mod known;
pub(super) mod patience;
pub(super) mod pinned;
pub(super) mod records;
mod rows;
pub(super) mod session;
pub(super) mod store;
pub(super) mod table;
