//! `lockwright demo`.

mod common;

use common::{Output, TestStore};

/// The numbers of the verdict: sold, oversold, lost-lock events, and the hand-off as text.
fn verdict(said: &Output) -> (u64, u64, u64, String) {
    let last = said.out.lines().last().unwrap_or_default();
    let rest = last.strip_prefix("sold ").unwrap_or_else(|| panic!("no verdict: {said:?}"));
    let (sold, rest) = rest.split_once(", oversold ").unwrap();
    let (oversold, rest) = rest.split_once(", lost-lock events ").unwrap();
    let (lost, hand_off) = rest.split_once(", hand-off p50/p99 ").unwrap();
    (sold.parse().unwrap(), oversold.parse().unwrap(), lost.parse().unwrap(), hand_off.to_owned())
}

#[test]
fn nothing_is_oversold_though_one_is_killed_and_one_stopped() {
    let store = TestStore::new();
    let demo = store.says(["demo", "--stock", "40"]);
    let (sold, oversold, lost, hand_off) = verdict(&demo);
    assert_eq!((sold, oversold, demo.code), (40, 0, Some(0)), "{demo:?}");
    assert!(lost >= 1, "{demo:?}");
    let (half, most) = hand_off.strip_suffix(" ms").unwrap().split_once('/').unwrap();
    assert!(half.parse::<f64>().unwrap() <= most.parse::<f64>().unwrap());
    for part in ["killed while it holds the lock", "stopped while it holds the lock", "noticed that it lost the lock"] {
        assert!(demo.err.contains(part), "{part}: {demo:?}");
    }
    assert_eq!(store.says(["ls", "--json"]).out, "[]\n");
}

#[test]
fn one_worker_is_enough_and_few_items_too() {
    let store = TestStore::new();
    for arguments in [["--workers", "1", "--stock", "3"], ["--workers", "3", "--stock", "1"]] {
        let demo = store.says(["demo"].into_iter().chain(arguments));
        let (_, oversold, _, _) = verdict(&demo);
        assert_eq!((oversold, demo.code), (0, Some(0)), "{demo:?}");
    }
}

#[test]
fn without_a_lock_items_are_sold_twice() {
    let demo = TestStore::new().says(["demo", "--unsafe", "--stock", "200"]);
    let (sold, oversold, lost, hand_off) = verdict(&demo);
    assert!(oversold > 0 && sold == 200 + oversold, "{demo:?}");
    assert_eq!((lost, hand_off.as_str(), demo.code), (0, "-/- ms", Some(0)));
    assert!(demo.err.contains("Without a lock"));
}
