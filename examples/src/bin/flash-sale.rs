//! A flash sale: 32 buyers, one stock, cut into more and more segments. Each segment is sold under a lock of its own,
//! so that as many sell at once; a buyer takes whichever is free, and says so when there is nothing left in it.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use lockwright_examples::{Failure, client, name_of, place, verdict};

const STOCK: u64 = 320;
const BUYERS: usize = 32;
/// What a sale takes while the lock is held: the payment, the database.
const SALE: Duration = Duration::from_millis(3);

/// Sells all of it in so many segments; how many were sold, and how many a second.
async fn sell(place: &str, segments: usize) -> Result<(u64, f64), Failure> {
    let share = STOCK / segments as u64;
    let stock: Arc<Vec<AtomicU64>> = Arc::new((0..segments).map(|_| AtomicU64::new(share)).collect());
    let (sold, name) = (Arc::new(AtomicU64::new(0)), name_of("sale"));
    let begun = Instant::now();
    let mut buyers = Vec::new();
    for _ in 0..BUYERS {
        let sale = client(place)?.striped(&name, segments)?;
        let (stock, sold) = (stock.clone(), sold.clone());
        buyers.push(tokio::spawn(async move {
            while let Some(segment) = sale.any().await? {
                let left = &stock[segment.index()];
                // Not atomic in the least: the lock has to make it so.
                let some = left.load(Ordering::Relaxed);
                if some == 0 {
                    let _ = segment.sold_out().await?;
                    continue;
                }
                tokio::time::sleep(SALE).await;
                left.store(some - 1, Ordering::Relaxed);
                sold.fetch_add(1, Ordering::Relaxed);
                let _ = segment.into_guard().release().await?;
            }
            Ok::<_, Failure>(())
        }));
    }
    for buyer in buyers {
        buyer.await??;
    }
    let sold = sold.load(Ordering::Relaxed);
    Ok((sold, sold as f64 / begun.elapsed().as_secs_f64()))
}

#[tokio::main(worker_threads = 2)]
async fn main() -> Result<ExitCode, Failure> {
    let place = place();
    println!("{STOCK} items, {BUYERS} buyers, {SALE:?} a sale, locks in {place}");
    println!("segments   sold   oversold   sales/s");
    let mut rates = Vec::new();
    let mut exact = true;
    for segments in [1, 4, 16] {
        let (sold, rate) = sell(&place, segments).await?;
        println!("{segments:8}   {sold:4}   {:8}   {rate:7.0}", sold.saturating_sub(STOCK));
        exact &= sold == STOCK;
        rates.push(rate);
    }
    // How much faster depends on what else the machine does.
    let faster = rates[1..].iter().all(|rate| *rate > rates[0]);
    Ok(verdict(&[(exact, "every item was sold, and none twice"), (faster, "cut into segments, it sold faster")]))
}
