//! The layouts of MySQL and MariaDB.

pub mod native;
