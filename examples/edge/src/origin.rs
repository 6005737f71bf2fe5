//! The origin: an HTTP server that has the stock of each coupon at `/coupons/NAME`, as a number. It writes what it is
//! told, but for a `?fence=TOKEN` that comes behind a higher one, which it refuses with 409.

use wasip2::clocks::monotonic_clock::subscribe_duration;
use wasip2::http::outgoing_handler::handle;
use wasip2::http::types::{Fields, IncomingResponse, Method, OutgoingBody, OutgoingRequest, Scheme};
use wasip2::io::poll::{Pollable, poll};
use wasip2::io::streams::StreamError;

use crate::answer::Refusal;

/// The longest wait for an answer, in milliseconds.
pub(crate) const LIMIT: u64 = 5_000;

/// More than a number needs.
const LONGEST: usize = 64;

pub(crate) struct Origin {
    scheme: Scheme,
    authority: String,
    base: String,
}

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

    /// How many are left of a coupon. Waits for `remaining` ms at most.
    pub(crate) fn left(&self, coupon: &str, remaining: u64) -> Result<u64, Refusal> {
        match self.ask(Method::Get, &format!("/coupons/{coupon}"), "", remaining)? {
            (200, number) => number.trim().parse().map_err(|_| failed("it answers no number")),
            (404, _) => Err(Refusal::of(404, "unknown_coupon", "the origin has no such coupon", "ask for another one")),
            (status, _) => Err(failed(&format!("it answers with the status {status}"))),
        }
    }

    /// Has the origin write how many are left now. Waits for `remaining` ms at most.
    pub(crate) fn leave(&self, coupon: &str, left: u64, token: u64, remaining: u64) -> Result<(), Refusal> {
        let path = format!("/coupons/{coupon}?fence={token}");
        match self.ask(Method::Put, &path, &left.to_string(), remaining).map_err(Refusal::in_doubt)? {
            (200 | 204, _) => Ok(()),
            (409, _) => {
                let text = "the lock was lost, and a later holder has written the stock";
                Err(Refusal::of(503, "lost", text, "nothing was claimed: try again").retryable())
            }
            (status, _) => Err(failed(&format!("it answers with the status {status}")).in_doubt()),
        }
    }

    fn ask(&self, method: Method, path: &str, text: &str, remaining: u64) -> Result<(u16, String), Refusal> {
        let end = subscribe_duration(remaining.min(LIMIT) * 1_000_000);
        let headers = Fields::new();
        let length = text.len().to_string().into_bytes();
        headers.append("content-length", &length).map_err(|_| failed("the host refuses a header"))?;
        let request = OutgoingRequest::new(headers);
        let refused = |()| failed("the host refuses its address");
        request.set_method(&method).map_err(refused)?;
        request.set_scheme(Some(&self.scheme)).map_err(refused)?;
        request.set_authority(Some(&self.authority)).map_err(refused)?;
        request.set_path_with_query(Some(&format!("{}{path}", self.base))).map_err(refused)?;
        let body = request.body().map_err(refused)?;
        let answer = handle(request, None).map_err(|error| failed(&error.to_string()))?;
        // A host may take the end of a body that was to have no bytes before any are written.
        if !text.is_empty() {
            let stream = body.write().map_err(|()| failed("the host takes no body"))?;
            stream.blocking_write_and_flush(text.as_bytes()).map_err(|_| failed("the connection was cut"))?;
        }
        OutgoingBody::finish(body, None).map_err(|error| failed(&error.to_string()))?;
        ready(&answer.subscribe(), &end)?;
        match answer.get() {
            Some(Ok(Ok(response))) => Ok((response.status(), read(&response, &end)?)),
            Some(Ok(Err(error))) => Err(failed(&error.to_string())),
            Some(Err(())) | None => Err(failed("the host has no answer")),
        }
    }
}

fn read(response: &IncomingResponse, end: &Pollable) -> Result<String, Refusal> {
    let gone = |()| failed("the host has no body");
    let body = response.consume().map_err(gone)?;
    let stream = body.stream().map_err(gone)?;
    let mut bytes = Vec::new();
    loop {
        ready(&stream.subscribe(), end)?;
        match stream.read(LONGEST as u64) {
            Ok(more) => bytes.extend(more),
            Err(StreamError::Closed) => return String::from_utf8(bytes).map_err(|_| failed("it answers no text")),
            Err(StreamError::LastOperationFailed(error)) => return Err(failed(&error.to_debug_string())),
        }
        if bytes.len() > LONGEST {
            return Err(failed("it answers more than a number"));
        }
    }
}

/// Waits for `what`, until `end`.
fn ready(what: &Pollable, end: &Pollable) -> Result<(), Refusal> {
    if poll(&[what, end]).contains(&0) {
        return Ok(());
    }
    Err(Refusal::of(504, "origin", "the origin did not answer in time", "look whether it is overloaded"))
}

fn failed(why: &str) -> Refusal {
    Refusal::of(502, "origin", &format!("the origin does not serve: {why}"), "look whether ORIGIN is right and runs")
}
