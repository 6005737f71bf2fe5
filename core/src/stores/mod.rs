//! The stores, one folder each.
