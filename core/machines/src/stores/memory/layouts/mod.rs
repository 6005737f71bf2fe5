//! The layouts of this store.

pub mod native;
