//! The one clock of the driver.

pub(crate) use super::os::now;
