//! The binding kit for the languages that uniffi generates for: one function, with requests and replies as bytes, as
//! [`lockwright_wire`] has them.

#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
// A cdylib exports what is public, and nothing else sees it.
#![allow(unreachable_pub)]

use std::ffi::c_void;

uniffi::setup_scaffolding!();

/// The reply to a request, at once but for the one that takes the mail. What fails is a reply, too.
#[uniffi::export]
#[must_use]
pub fn call(request: Vec<u8>) -> Vec<u8> {
    lockwright_wire::answered(&request)
}

/// The JVM calls this once the class loader was collected that loaded the library.
#[unsafe(no_mangle)]
#[allow(unsafe_code, reason = "a name that the JVM looks for")]
pub extern "system" fn JNI_OnUnload(_vm: *mut c_void, _reserved: *mut c_void) {
    lockwright_wire::unloaded();
}
