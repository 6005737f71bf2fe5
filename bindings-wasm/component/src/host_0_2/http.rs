//! Requests of HTTP that the engine posts, by the host's `wasi:http`.

use std::collections::BTreeMap;
use std::io;

use lockwright_wasm_engine::etcd::{Action, Post};
use wasip2::http::outgoing_handler::handle;
use wasip2::http::types::{
    Fields, FutureIncomingResponse, IncomingBody, IncomingResponse, Method, OutgoingBody, OutgoingRequest,
    RequestOptions, Scheme, http_error_code,
};
use wasip2::io::poll::Pollable;
use wasip2::io::streams::{InputStream, OutputStream, StreamError};

use super::now;
pub(crate) use crate::posts::{Engine, open};
use crate::posts::{Manner, fields, refused, told};

/// How much is read at a time.
const ROOM: u64 = 8 << 10;

/// One request, from when it is posted to the end of its answer. A stream goes before what it is of.
enum Exchange {
    Asked(FutureIncomingResponse),
    Answered { input: InputStream, _body: IncomingBody, response: IncomingResponse },
}

/// How far it came.
enum Step {
    Nothing,
    Answered(IncomingResponse),
    Came(u16, Vec<u8>),
    Over,
}

impl Exchange {
    fn step(&self) -> io::Result<Step> {
        match self {
            Exchange::Asked(future) => match future.get() {
                None => Ok(Step::Nothing),
                Some(Ok(Ok(response))) => Ok(Step::Answered(response)),
                Some(Ok(Err(error))) => Err(told(error)),
                Some(Err(())) => Err(io::ErrorKind::UnexpectedEof.into()),
            },
            Exchange::Answered { input, response, .. } => match input.read(ROOM) {
                Ok(bytes) if bytes.is_empty() => Ok(Step::Nothing),
                Ok(bytes) => Ok(Step::Came(response.status(), bytes)),
                Err(StreamError::Closed) => Ok(Step::Over),
                Err(StreamError::LastOperationFailed(error)) => {
                    let other = || io::Error::new(io::ErrorKind::ConnectionReset, error.to_debug_string());
                    Err(http_error_code(&error).map_or_else(other, told))
                }
            },
        }
    }

    fn pollable(&self) -> Pollable {
        match self {
            Exchange::Asked(future) => future.subscribe(),
            Exchange::Answered { input, .. } => input.subscribe(),
        }
    }
}

/// The requests of a client that have not ended, by their numbers.
pub(crate) struct Network {
    manner: Manner,
    exchanges: BTreeMap<u64, Exchange>,
}

impl Network {
    pub(crate) fn new(manner: Manner) -> Self {
        Network { manner, exchanges: BTreeMap::new() }
    }

    /// Takes each exchange a step further; whether one could be.
    pub(super) fn advance(&mut self, engine: &mut Engine) -> bool {
        let numbers: Vec<u64> = self.exchanges.keys().copied().collect();
        numbers.into_iter().fold(false, |more, number| self.go_on(engine, number) | more)
    }

    pub(super) fn perform(&mut self, engine: &mut Engine, action: Action) {
        match action {
            Action::Post(post) => {
                let number = post.number;
                match begin(self.manner, post) {
                    Ok(future) => {
                        self.exchanges.insert(number, Exchange::Asked(future));
                    }
                    Err(error) => engine.ended(number, now(), Err(error)),
                }
            }
            Action::Drop(number) => {
                self.exchanges.remove(&number);
            }
        }
    }

    /// Takes one exchange a step further; whether it could.
    fn go_on(&mut self, engine: &mut Engine, number: u64) -> bool {
        let Some(exchange) = self.exchanges.get(&number) else { return false };
        match exchange.step() {
            Ok(Step::Nothing) => return false,
            Ok(Step::Came(status, bytes)) => engine.came(number, now(), status, &bytes),
            Ok(Step::Answered(response)) => match body_of(&response) {
                Some((input, body)) => {
                    engine.came(number, now(), response.status(), &[]);
                    self.exchanges.insert(number, Exchange::Answered { input, _body: body, response });
                }
                None => self.end(engine, number, Err(io::ErrorKind::UnexpectedEof.into())),
            },
            Ok(Step::Over) => self.end(engine, number, Ok(())),
            Err(error) => self.end(engine, number, Err(error)),
        }
        true
    }

    fn end(&mut self, engine: &mut Engine, number: u64, ended: io::Result<()>) {
        self.exchanges.remove(&number);
        engine.ended(number, now(), ended);
    }

    /// What has to happen for something to be done.
    pub(super) fn pollables(&self) -> Vec<Pollable> {
        self.exchanges.values().map(Exchange::pollable).collect()
    }
}

fn body_of(response: &IncomingResponse) -> Option<(InputStream, IncomingBody)> {
    let body = response.consume().ok()?;
    Some((body.stream().ok()?, body))
}

/// Sends a request.
fn begin(manner: Manner, post: Post) -> io::Result<FutureIncomingResponse> {
    let headers = Fields::from_list(&fields(&post)).map_err(refused)?;
    let request = OutgoingRequest::new(headers);
    request.set_method(&Method::Post).map_err(refused)?;
    request.set_scheme(Some(if manner.is_secure { &Scheme::Https } else { &Scheme::Http })).map_err(refused)?;
    request.set_authority(Some(&post.member)).map_err(refused)?;
    request.set_path_with_query(Some(post.path)).map_err(refused)?;
    let body = request.body().map_err(refused)?;
    let options = RequestOptions::new();
    // Where the host has no such limit of its own, the engine's is the only one.
    let _ = options.set_connect_timeout(Some(manner.connect_timeout));
    let future = handle(request, Some(options)).map_err(told)?;
    write(body, post.body.as_bytes());
    Ok(future)
}

/// Sends the body of a request; whether that can be done is told by its answer.
fn write(body: OutgoingBody, bytes: &[u8]) {
    if let Ok(output) = body.write() {
        let _ = write_all(&output, bytes);
    }
    let _ = OutgoingBody::finish(body, None);
}

fn write_all(output: &OutputStream, mut bytes: &[u8]) -> Result<(), StreamError> {
    while !bytes.is_empty() {
        let room = usize::try_from(output.check_write()?).unwrap_or(usize::MAX);
        let (part, rest) = bytes.split_at(room.min(bytes.len()));
        if part.is_empty() {
            output.subscribe().block();
        } else {
            output.write(part)?;
        }
        bytes = rest;
    }
    output.flush()
}
