#![doc = include_str!("docs.md")]

pub mod clock;
pub mod layouts;
pub mod wire;
