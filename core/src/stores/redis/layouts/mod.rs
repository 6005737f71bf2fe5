//! The lock layouts of Redis. Pure: they build without any feature.

pub mod native;
