//! The only function that Java calls, what the JVM calls at the end, and all that is unsafe here.

// A cdylib exports what is public, and nothing else sees it.
#![allow(unsafe_code, unreachable_pub)]

use std::ffi::c_void;
use std::ptr;

use jni_sys::{JNIEnv, JavaVM, jbyteArray, jclass, jint};
use lockwright_wire::{answered, unloaded};

/// Requests of usual lengths need no place of their own to be read to.
const USUAL: usize = 128;

/// `dev.lockwright.Native.call`: the request is the first `length` of the `room` bytes of that array, in which the
/// reply lies afterwards where it has room.
#[unsafe(no_mangle)]
pub extern "system" fn Java_dev_lockwright_Native_call(
    env: *mut JNIEnv,
    _class: jclass,
    array: jbyteArray,
    length: jint,
    room: jint,
) -> jbyteArray {
    if array.is_null() {
        return ptr::null_mut();
    }
    let length = usize::try_from(length).unwrap_or_default();
    let (mut usual, mut long) = ([0; USUAL], Vec::new());
    let request = match usual.get_mut(..length) {
        Some(request) => request,
        None => {
            long.resize(length, 0);
            &mut long[..]
        }
    };
    // SAFETY: the JVM calls this with its environment of this thread and an array that lives until the return.
    unsafe { read(env, array, request) };
    let reply = answered(request);
    // SAFETY: as above; `answered` called nothing of the JVM's.
    unsafe { write(env, array, room, &reply) }
}

/// The JVM calls this once the class loader was collected.
#[unsafe(no_mangle)]
pub extern "system" fn JNI_OnUnload(_vm: *mut JavaVM, _reserved: *mut c_void) {
    unloaded();
}

/// The JVM throws where the array is shorter, and what was to be read is zeros then.
unsafe fn read(env: *mut JNIEnv, array: jbyteArray, bytes: &mut [u8]) {
    let length = i32::try_from(bytes.len()).unwrap_or(i32::MAX);
    // SAFETY: the caller's. Every JVM has filled this table.
    unsafe {
        if let Some(region) = (**env).GetByteArrayRegion {
            region(env, array, 0, length, bytes.as_mut_ptr().cast());
        }
    }
}

/// Into `array` where it has room for so many bytes, else into another: null, with an `OutOfMemoryError` for Java,
/// where there is no room for that.
unsafe fn write(env: *mut JNIEnv, array: jbyteArray, room: jint, bytes: &[u8]) -> jbyteArray {
    let length = i32::try_from(bytes.len()).unwrap_or(i32::MAX);
    // SAFETY: as in `read`.
    unsafe {
        let (Some(new), Some(region)) = ((**env).NewByteArray, (**env).SetByteArrayRegion) else {
            return ptr::null_mut();
        };
        let array = if length <= room { array } else { new(env, length) };
        if !array.is_null() {
            region(env, array, 0, length, bytes.as_ptr().cast());
        }
        array
    }
}
