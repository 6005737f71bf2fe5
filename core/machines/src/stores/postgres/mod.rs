//! PostgreSQL.

pub mod layouts;
