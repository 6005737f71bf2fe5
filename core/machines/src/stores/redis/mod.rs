//! Redis and what speaks its protocol.

pub mod layouts;
