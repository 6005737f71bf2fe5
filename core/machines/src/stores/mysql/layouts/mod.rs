//! The layouts of MySQL and MariaDB.

pub mod examination;
pub mod native;
