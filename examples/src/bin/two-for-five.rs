//! Two items for five buyers, and two for A, who wants one, B, who wants two, and C, who wants one: in the order in
//! which they came, and never more than there is.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::Mutex;

use lockwright_examples::{Failure, blocking_client, name_of, place, verdict};

/// What each buyer was told, in the order in which they came: how many it wanted, and whether it got them.
fn sale(place: &str, stock: u32, wants: &[u32]) -> Result<Vec<bool>, Failure> {
    let name = name_of("two-for-five");
    let shop = blocking_client(place)?;
    let closed = shop.lock(&name).acquire()?;
    let stock = Arc::new(Mutex::new(stock));
    let mut buyers = Vec::new();
    for (place_in_line, wanted) in wants.iter().copied().enumerate() {
        // Each stands in line by itself, and the next one comes when it does.
        let lock = blocking_client(place)?.lock(&name).fair().build()?;
        let stock = stock.clone();
        buyers.push(std::thread::spawn(move || {
            let guard = lock.acquire()?;
            let left = *stock.lock().expect("nobody panics");
            let served = left >= wanted;
            if served {
                *stock.lock().expect("nobody panics") = left - wanted;
            }
            let _ = guard.release()?;
            Ok::<_, Failure>(served)
        }));
        while shop.inspect(&name)?.waiters <= place_in_line as u64 {
            std::thread::yield_now();
        }
    }
    let _ = closed.release()?;
    buyers.into_iter().map(|buyer| buyer.join().map_err(|_| "a buyer panicked")?).collect()
}

fn main() -> Result<ExitCode, Failure> {
    let place = place();
    let five = sale(&place, 2, &[1, 1, 1, 1, 1])?;
    println!("two items, five buyers: {five:?}");
    let three = sale(&place, 2, &[1, 2, 1])?;
    for (who, served) in ["A, who wants 1", "B, who wants 2", "C, who wants 1"].iter().zip(&three) {
        println!("{who}: {}", if *served { "served" } else { "not enough left" });
    }
    Ok(verdict(&[
        (five == [true, true, false, false, false], "the first two of five got the two items"),
        (three == [true, false, true], "B was told that there is not enough, and C got the last one"),
    ]))
}
