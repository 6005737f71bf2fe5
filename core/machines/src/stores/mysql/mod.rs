//! MySQL and MariaDB.

pub mod layouts;
