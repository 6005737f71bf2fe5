//! What the examples share.

use std::process::ExitCode;
use std::sync::atomic::{AtomicU32, Ordering};

use lockwright::Client;
use lockwright::blocking;
use lockwright::options::ConnectOptions;

/// The error of an example: whatever went wrong, for a person.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Where locks are kept: what the last argument says, else in this process.
pub fn place() -> String {
    std::env::args().nth(1).unwrap_or_else(|| "memory://examples".into())
}

/// Another client, as another process would have.
///
/// # Errors
/// As [`Client::open`].
pub fn client(place: &str) -> lockwright::Result<Client> {
    Client::open(Some(place), ConnectOptions::default())
}

/// The same for threads.
///
/// # Errors
/// As [`Client::open`].
pub fn blocking_client(place: &str) -> lockwright::Result<blocking::Client> {
    blocking::Client::open(Some(place), ConnectOptions::default())
}

/// A lock name that no other run uses.
pub fn name_of(what: &str) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("example:{what}:{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Prints the verdict and makes it the exit code.
pub fn verdict(claims: &[(bool, &str)]) -> ExitCode {
    for (holds, claim) in claims {
        println!("{} {claim}", if *holds { "ok   " } else { "WRONG" });
    }
    let holds = claims.iter().all(|(holds, _)| *holds);
    println!("verdict: {}", if holds { "it held" } else { "IT DID NOT HOLD" });
    if holds { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
