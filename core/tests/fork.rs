//! A forked child: it works with the inherited client and never touches what the parent holds. One test in a process of
//! its own, since a fork takes only the calling thread along.

#![allow(unsafe_code)]

use std::time::Duration;

use lockwright::Kind;
use lockwright::blocking;
use lockwright::lease::ReleaseOutcome;
use lockwright::metrics::Metrics;

/// What the child found wrong, as its exit code.
fn child(client: &blocking::Client, inherited: blocking::Guard) -> i32 {
    let checks = [
        ("its figures begin at zero", client.metrics() == Metrics::default()),
        ("an inherited guard is not held here", !inherited.is_held()),
        ("extending it is `forked`", inherited.extend(Duration::from_secs(9)).is_err_and(|e| e.kind() == Kind::Forked)),
        ("releasing it is `forked`", inherited.release().is_err_and(|e| e.kind() == Kind::Forked)),
        ("the parent still holds", client.lock("parents").try_acquire().is_ok_and(|guard| guard.is_none())),
        (
            "the inherited client works",
            client.lock("childs").acquire().and_then(|g| g.release()).is_ok_and(|o| o == ReleaseOutcome::Released),
        ),
        ("its figures are its own", (client.metrics().acquired, client.metrics().refused) == (1, 1)),
    ];
    checks.iter().position(|(_, holds)| !holds).map_or(0, |at| at as i32 + 1)
}

fn parent_and_children(uri: &str) {
    let client = blocking::connect(uri).unwrap();
    let held = client.lock("parents").ttl(Duration::from_secs(60)).acquire().unwrap();
    // Another thread is always inside the client while this one forks.
    let busy = std::thread::spawn({
        let client = client.clone();
        move || (0..2000).for_each(|_| drop(client.lock("busy").acquire().unwrap().release()))
    });
    for _ in 0..4 {
        let inherited = client.lock("inherited").ttl(Duration::from_secs(60)).acquire().unwrap();
        // SAFETY: the child calls only this library and leaves by `_exit`.
        match unsafe { libc::fork() } {
            0 => {
                // SAFETY: as above; a child that hangs is ended by the alarm.
                unsafe { libc::alarm(20) };
                let code = child(&client, inherited);
                unsafe { libc::_exit(code) }
            }
            pid => {
                let mut status = 0;
                // SAFETY: `status` is ours.
                assert_eq!(unsafe { libc::waitpid(pid, &mut status, 0) }, pid);
                assert_eq!(
                    status, 0,
                    "the child's exit code, times 256, says which check failed; a signal means it hung"
                );
                assert!(inherited.is_held());
                assert_eq!(inherited.release().unwrap(), ReleaseOutcome::Released);
            }
        }
    }
    busy.join().unwrap();
    assert_eq!(held.release().unwrap(), ReleaseOutcome::Released);
}

#[test]
fn children_work_and_leave_the_parents_locks_alone() {
    let folder = std::env::temp_dir().join(format!("lockwright-fork-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    parent_and_children(&format!("sqlite://{}", folder.join("locks.db").display()));
    let redis = std::env::var("LOCKWRIGHT_TEST_REDIS")
        .expect("set LOCKWRIGHT_TEST_REDIS to what conformance/services/redis.sh start prints");
    parent_and_children(&format!("{redis}?prefix=fork:"));
    std::fs::remove_dir_all(&folder).unwrap();
}
