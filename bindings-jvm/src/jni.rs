//! The only function that Java calls, what the JVM calls at the end, and all that is unsafe here.

// A cdylib exports what is public, and nothing else sees it.
#![allow(unsafe_code, unreachable_pub)]

use std::ffi::c_void;
use std::ptr;

use jni_sys::{JNIEnv, JavaVM, jbyteArray, jclass};
use lockwright_wire::{answered, unloaded};

/// `dev.lockwright.Native.call`.
#[unsafe(no_mangle)]
pub extern "system" fn Java_dev_lockwright_Native_call(
    env: *mut JNIEnv,
    _class: jclass,
    request: jbyteArray,
) -> jbyteArray {
    if request.is_null() {
        return ptr::null_mut();
    }
    // SAFETY: the JVM calls this with its environment of this thread and an array that lives until the return.
    let request = unsafe { read(env, request) };
    let reply = answered(&request);
    // SAFETY: as above; `answered` called nothing of the JVM's.
    unsafe { write(env, &reply) }
}

/// The JVM calls this once the class loader was collected.
#[unsafe(no_mangle)]
pub extern "system" fn JNI_OnUnload(_vm: *mut JavaVM, _reserved: *mut c_void) {
    unloaded();
}

unsafe fn read(env: *mut JNIEnv, array: jbyteArray) -> Vec<u8> {
    // SAFETY: the caller's. Every JVM has filled this table.
    unsafe {
        let (Some(length), Some(region)) = ((**env).GetArrayLength, (**env).GetByteArrayRegion) else {
            return Vec::new();
        };
        let length = length(env, array);
        let mut bytes = vec![0; usize::try_from(length).unwrap_or_default()];
        region(env, array, 0, length, bytes.as_mut_ptr().cast());
        bytes
    }
}

/// Null, with an `OutOfMemoryError` for Java, where there is no room for the array.
unsafe fn write(env: *mut JNIEnv, bytes: &[u8]) -> jbyteArray {
    let length = i32::try_from(bytes.len()).unwrap_or(i32::MAX);
    // SAFETY: as in `read`.
    unsafe {
        let (Some(new), Some(region)) = ((**env).NewByteArray, (**env).SetByteArrayRegion) else {
            return ptr::null_mut();
        };
        let array = new(env, length);
        if !array.is_null() {
            region(env, array, 0, length, bytes.as_ptr().cast());
        }
        array
    }
}
