//! The layouts of PostgreSQL.

pub mod native;
