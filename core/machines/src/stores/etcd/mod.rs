#![doc = include_str!("docs.md")]

pub mod layouts;
