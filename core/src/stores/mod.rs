//! The stores, one folder each.

pub mod zookeeper;
