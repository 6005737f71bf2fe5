//! One suite of scenarios for every face and every store.
//!
//! A scenario is written once, in `scenarios/*.toml`. A face takes part by a shim, a small program that obeys commands
//! on its standard input (`README.md`). [`play`] has shims act a scenario out, [`referee`] judges what they logged, and
//! [`matrix`] accounts for every face, store and scenario: passed, failed, or skipped with a reason.

pub mod bad_input;
pub mod clock;
pub mod dice;
pub mod expect;
pub mod interop;
pub mod matrix;
pub mod play;
pub mod pool;
pub mod protocol;
pub mod record;
pub mod referee;
pub mod rows;
pub mod run;
pub mod scenario;
pub mod shim;
pub mod torture;
