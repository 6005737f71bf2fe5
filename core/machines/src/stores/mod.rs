//! The lock layouts, each with the store that keeps it. The layouts of SQLite, whose procedures run in the file, are
//! with its driver.

pub mod etcd;
pub mod memcached;
pub mod memory;
pub mod mysql;
pub mod postgres;
pub mod redis;
pub mod sql;
pub mod zookeeper;
