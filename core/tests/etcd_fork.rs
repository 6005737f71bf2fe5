//! A forked child of a client of etcd's. One test in a process of its own, since a fork takes only the calling thread
//! along.

#![allow(unsafe_code)]

use lockwright::blocking;
use lockwright::lease::ReleaseOutcome;

/// What a client of etcd's calls its keys after is inherited by a child, which must not take it for its own: it would
/// find what its parent holds under that name.
#[test]
fn a_child_does_not_take_what_its_parent_holds_for_its_own() {
    let uri = std::env::var("LOCKWRIGHT_TEST_ETCD")
        .expect("set LOCKWRIGHT_TEST_ETCD to what conformance/services/etcd.sh start prints");
    let client = blocking::connect(&format!("{uri}?prefix=fork/")).unwrap();
    let writer = || client.rwlock("fork-shared").write();
    let _ = writer().acquire().unwrap().release().unwrap();
    let mut ends = [0; 2];
    // SAFETY: there is room for both; the child calls only this library and the system, and leaves by `_exit`.
    let child = unsafe {
        assert_eq!(libc::pipe(ends.as_mut_ptr()), 0);
        libc::fork()
    };
    if child == 0 {
        // SAFETY: as above; a child that hangs is ended by the alarm.
        unsafe { libc::alarm(20) };
        // SAFETY: `held` is one byte long.
        let mut held = 0_u8;
        let told = unsafe { libc::read(ends[0], (&raw mut held).cast(), 1) };
        let is_taken = writer().try_acquire().is_ok_and(|guard| guard.is_none());
        // SAFETY: as above.
        unsafe { libc::_exit(i32::from(told != 1 || !is_taken)) }
    }
    let held = writer().acquire().unwrap();
    let mut status = 0;
    // SAFETY: the byte and `status` are ours.
    unsafe {
        assert_eq!(libc::write(ends[1], [1_u8].as_ptr().cast(), 1), 1);
        assert_eq!(libc::waitpid(child, &mut status, 0), child);
        ends.iter().for_each(|end| assert_eq!(libc::close(*end), 0));
    }
    assert_eq!(status, 0, "the child has what its parent holds, or hung");
    assert_eq!(held.release().unwrap(), ReleaseOutcome::Released);
}
