#![doc = include_str!("docs.md")]

pub mod copy;
pub mod failure;
pub mod gateway;
pub mod latch;
pub mod layouts;
pub mod lease;
pub mod members;
pub mod transactions;
pub mod wire;
