//! The native library of the Java package over JNI: Java calls one function, [`jni`], with a request as bytes and gets
//! a reply as bytes, as [`lockwright_wire`] has them.

#![deny(unsafe_code, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod jni;
