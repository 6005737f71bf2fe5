//! Memory, which runs the reference semantics themselves.

pub mod layouts;
