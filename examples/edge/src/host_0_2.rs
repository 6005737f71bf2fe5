//! The host, by WASI 0.2: `wasi:http/incoming-handler`, and requests to the origin.

pub(crate) use wasip2::cli::environment::get_environment;
use wasip2::clocks::monotonic_clock::subscribe_duration;
use wasip2::exports::http::incoming_handler::Guest;
use wasip2::http::outgoing_handler::handle;
use wasip2::http::types::{
    Fields, IncomingRequest, IncomingResponse, OutgoingBody, OutgoingRequest, OutgoingResponse, ResponseOutparam,
};
pub(crate) use wasip2::http::types::{Method, Scheme};
use wasip2::io::poll::{Pollable, poll};
use wasip2::io::streams::StreamError;

use crate::answer::{Answer, Refusal};
use crate::answered;
use crate::bindings::locks::{Client, Error};
use crate::origin::{LONGEST, Origin, failed, late};

/// No code of the component runs while the origin is asked.
pub(crate) const STANDS_STILL: bool = true;

struct Plugin;

wasip2::http::proxy::export!(Plugin);

impl Guest for Plugin {
    fn handle(request: IncomingRequest, out: ResponseOutparam) {
        let path = request.path_with_query().unwrap_or_default();
        send(answered(request.method(), &path).unwrap_or_else(Answer::from), out);
    }
}

/// A client that went away meanwhile is no failure of the plugin's.
fn send(answer: Answer, out: ResponseOutparam) {
    let headers = Fields::new();
    let _ = headers.append("content-type", b"application/json");
    let response = OutgoingResponse::new(headers);
    let _ = response.set_status_code(answer.status);
    let body = response.body();
    ResponseOutparam::set(out, Ok(response));
    let Ok(body) = body else { return };
    if let Ok(stream) = body.write() {
        let _ = stream.blocking_write_and_flush(answer.json.as_bytes());
    }
    let _ = OutgoingBody::finish(body, None);
}

/// Each request has a client of its own: in most edge runtimes it has an instance of its own, too.
pub(crate) fn client(address: &str) -> Result<Client, Error> {
    Client::connect(address)
}

/// What a time limit left under way has to be undone now: no code runs once the request is answered.
pub(crate) fn leave(client: Client) {
    client.close();
}

pub(crate) fn ask(
    origin: &Origin,
    method: Method,
    path: &str,
    text: &str,
    limit: u64,
) -> Result<(u16, String), Refusal> {
    let end = subscribe_duration(limit * 1_000_000);
    let headers = Fields::new();
    let length = text.len().to_string().into_bytes();
    headers.append("content-length", &length).map_err(|_| failed("the host refuses a header"))?;
    let request = OutgoingRequest::new(headers);
    let refused = |()| failed("the host refuses its address");
    request.set_method(&method).map_err(refused)?;
    request.set_scheme(Some(&origin.scheme)).map_err(refused)?;
    request.set_authority(Some(&origin.authority)).map_err(refused)?;
    request.set_path_with_query(Some(&format!("{}{path}", origin.base))).map_err(refused)?;
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
    Err(late())
}
