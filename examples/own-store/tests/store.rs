//! What the conformance scenarios do not play with this store: what is its own.

use std::sync::Once;
use std::time::Duration;

use lockwright::blocking::{self, Client};
use lockwright::{Async, Kind, Token};
use tempfile::TempDir;

struct TestStore(TempDir);

impl TestStore {
    fn new() -> Self {
        static REGISTERED: Once = Once::new();
        REGISTERED.call_once(|| lockwright_own_store::register().unwrap());
        TestStore(tempfile::tempdir().unwrap())
    }

    fn client(&self) -> Client {
        blocking::connect(&format!("dir://{}/locks?prefix=app:", self.0.path().display())).unwrap()
    }

    fn files(&self) -> Vec<String> {
        let files = std::fs::read_dir(self.0.path().join("locks")).unwrap();
        let mut names: Vec<_> = files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

#[test]
fn an_address_is_a_folder_and_a_scheme_has_one_store() {
    let _place = TestStore::new();
    for address in ["dir://", "dir://host/path", "dir:///a%20b"] {
        assert_eq!(blocking::connect(address).unwrap_err().kind(), Kind::InvalidConfig, "{address}");
    }
    assert_eq!(lockwright_own_store::register().unwrap_err().kind(), Kind::InvalidConfig);
    assert!(blocking::connect("dur:///a").unwrap_err().context().ends_with("dir"));
}

#[test]
fn nothing_but_the_tokens_is_left_in_the_folder() {
    let place = TestStore::new();
    let client = place.client();
    let guard = client.lock("x").acquire().unwrap();
    assert_eq!((client.list().unwrap(), place.files().len()), (vec!["x".to_owned()], 3));
    let seen = client.inspect("x").unwrap().holder.unwrap();
    assert_eq!((seen.first_token, seen.card.pid), (guard.token().n, std::process::id()));
    let _ = guard.release().unwrap();
    assert_eq!(place.files(), ["mutex", "tokens"]);
}

#[test]
fn a_held_lock_is_passed_on_and_kept_for_a_while_and_broken() {
    let place = TestStore::new();
    let (here, there) = (place.client(), place.client());
    let mut guard = here.lock("x").acquire().unwrap();
    let secret = guard.export(Duration::from_secs(20)).unwrap();
    assert!(there.lock("x").try_acquire().unwrap().is_none());
    let resumed = there.resume(secret.as_str()).unwrap();
    assert!(resumed.token() > guard.token());
    assert_eq!(here.resume(secret.as_str()).unwrap_err().kind(), Kind::NotOwned);
    assert!(!here.break_lock("x", Token::new(guard.token().n)).unwrap());
    assert!(here.break_lock("x", resumed.token()).unwrap());
    let kept = here.lock("x").at_least_for(Duration::from_millis(300)).acquire().unwrap();
    let _ = kept.release().unwrap();
    assert!(there.lock("x").try_acquire().unwrap().is_none());
    drop(there.lock("x").acquire().unwrap());
}

#[test]
fn a_task_of_another_executor_is_served_too() {
    let place = TestStore::new();
    let client = place.client().into_face::<Async>();
    let mut acquires = Box::pin(async move { client.lock("x").acquire().await.map(|guard| guard.token()) });
    // No runtime of tokio's is here.
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    loop {
        if let std::task::Poll::Ready(token) = acquires.as_mut().poll(&mut context) {
            assert_eq!(token.unwrap().n, 1);
            break;
        }
        std::thread::yield_now();
    }
}

#[test]
fn a_folder_that_cannot_be_made_is_told() {
    let place = TestStore::new();
    std::fs::write(place.0.path().join("locks"), "in the way").unwrap();
    let client = blocking::connect(&format!("dir://{}/locks?store_timeout=50ms", place.0.path().display())).unwrap();
    let error = client.lock("x").acquire().unwrap_err();
    assert_eq!(error.kind(), Kind::Unavailable);
    assert!(error.to_string().contains("/locks cannot be used"), "{error}");
}
