//! The tables of other libraries in SQL databases: a file each, and what all have in common. What is said to a database
//! lies with its layouts.

pub mod int_lock;
pub mod joined;
mod owner;
pub mod shedlock;
pub mod symfony;
pub mod unique_index;
