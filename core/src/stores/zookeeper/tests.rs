//! The adapter against real servers.
