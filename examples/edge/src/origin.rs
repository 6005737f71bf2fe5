//! The origin: an HTTP server that has the stock of each coupon at `/coupons/NAME`, as a number. It writes what it is
//! told, but for a `?fence=TOKEN` that comes behind a higher one, which it refuses with 409.

use maybe_async::maybe_async;

use crate::answer::Refusal;
use crate::host::{Method, Scheme, ask};

/// The longest wait for an answer, in milliseconds.
pub(crate) const LIMIT: u64 = 5_000;

/// More than a number needs.
pub(crate) const LONGEST: usize = 64;

pub(crate) struct Origin {
    pub(crate) scheme: Scheme,
    pub(crate) authority: String,
    pub(crate) base: String,
}

#[maybe_async]
impl Origin {
    /// `http://HOST:PORT`, and a path if it has one.
    pub(crate) fn read(address: &str) -> Option<Origin> {
        let (scheme, rest) = match address.split_once("://")? {
            ("http", rest) => (Scheme::Http, rest),
            ("https", rest) => (Scheme::Https, rest),
            _ => return None,
        };
        let (authority, base) = rest.find('/').map_or((rest, ""), |slash| rest.split_at(slash));
        let base = base.trim_end_matches('/').to_owned();
        (!authority.is_empty()).then(|| Origin { scheme, authority: authority.to_owned(), base })
    }

    /// How many are left of a coupon. Waits for so many ms at most.
    pub(crate) async fn left(&self, coupon: &str, limit: u64) -> Result<u64, Refusal> {
        match ask(self, Method::Get, &format!("/coupons/{coupon}"), "", limit).await? {
            (200, number) => number.trim().parse().map_err(|_| failed("it answers no number")),
            (404, _) => Err(Refusal::of(404, "unknown_coupon", "the origin has no such coupon", "ask for another one")),
            (status, _) => Err(failed(&format!("it answers with the status {status}"))),
        }
    }

    /// Has the origin write how many are left now. Waits for so many ms at most.
    pub(crate) async fn leave(&self, coupon: &str, left: u64, token: u64, limit: u64) -> Result<(), Refusal> {
        let path = format!("/coupons/{coupon}?fence={token}");
        match ask(self, Method::Put, &path, &left.to_string(), limit).await.map_err(Refusal::in_doubt)? {
            (200 | 204, _) => Ok(()),
            (409, _) => {
                let text = "the lock was lost, and a later holder has written the stock";
                Err(Refusal::of(503, "lost", text, "nothing was claimed: try again").retryable())
            }
            (status, _) => Err(failed(&format!("it answers with the status {status}")).in_doubt()),
        }
    }
}

pub(crate) fn late() -> Refusal {
    Refusal::of(504, "origin", "the origin did not answer in time", "look whether it is overloaded")
}

pub(crate) fn failed(why: &str) -> Refusal {
    Refusal::of(502, "origin", &format!("the origin does not serve: {why}"), "look whether ORIGIN is right and runs")
}
