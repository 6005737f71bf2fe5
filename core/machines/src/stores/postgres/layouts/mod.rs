//! The layouts of PostgreSQL.

pub mod examination;
pub mod native;
