//! One connection to a member, as gRPC has it over HTTP/2, without tasks: whoever brings bytes has it go on, also while
//! the machine of the clients is suspended.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use h2::server::{Connection, Handshake, SendResponse};
use h2::{RecvStream, SendStream};
use http::{HeaderMap, Response};
use prost::Message;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tonic::codegen::Bytes;

use crate::platform::mutex::locked;

/// Which of a connection's calls.
pub(super) type Call = u64;

/// See the [module](self).
pub(super) struct Talk {
    pub(super) member: usize,
    wire: Wire,
    http: Http,
    calls: BTreeMap<Call, Spoken>,
    last: Call,
}

enum Http {
    Greets(Box<Handshake<Wire, Bytes>>),
    Talks(Box<Connection<Wire, Bytes>>),
    Over,
}

/// A call that is not over.
struct Spoken {
    path: String,
    body: RecvStream,
    come: Vec<u8>,
    answer: Answer,
}

enum Answer {
    Waits(SendResponse<Bytes>),
    Begun(SendStream<Bytes>),
}

/// What came.
pub(super) enum Heard {
    /// A message of a call of what lies at that path.
    Asked(Call, String, Vec<u8>),
    /// Nobody waits for more.
    Left(Call),
}

/// What is said to a call.
pub(super) enum Said {
    /// More may come.
    Part(Vec<u8>),
    /// That is all.
    All(Vec<u8>),
    /// An error: its number and words.
    Error(u8, &'static str),
}

impl Talk {
    pub(super) fn new(member: usize) -> Self {
        let wire = Wire::default();
        let http = Http::Greets(Box::new(h2::server::handshake(wire.clone())));
        Talk { member, wire, http, calls: BTreeMap::new(), last: 0 }
    }

    /// Bytes came.
    pub(super) fn came(&mut self, bytes: &[u8]) {
        locked(&self.wire.0).come.extend(bytes);
    }

    /// What is to leave now.
    pub(super) fn leaves(&mut self) -> Vec<u8> {
        std::mem::take(&mut locked(&self.wire.0).leaves)
    }

    pub(super) fn is_over(&self) -> bool {
        matches!(self.http, Http::Over)
    }

    /// Goes on for as long as there is something to do.
    pub(super) fn go_on(&mut self) -> Vec<Heard> {
        let mut context = Context::from_waker(Waker::noop());
        let mut heard = Vec::new();
        while self.accepts(&mut context) {}
        let mut left = Vec::new();
        for (number, call) in &mut self.calls {
            if !call.listen(&mut context) || call.is_reset(&mut context) {
                left.push(*number);
                continue;
            }
            let asked = call.messages().into_iter();
            heard.extend(asked.map(|message| Heard::Asked(*number, call.path.clone(), message)));
        }
        for number in left {
            self.calls.remove(&number);
            heard.push(Heard::Left(number));
        }
        // What was let go of makes room for more, which is said.
        while self.accepts(&mut context) {}
        heard
    }

    fn accepts(&mut self, context: &mut Context<'_>) -> bool {
        match &mut self.http {
            Http::Greets(handshake) => match Pin::new(&mut **handshake).poll(context) {
                Poll::Ready(Ok(connection)) => self.http = Http::Talks(Box::new(connection)),
                Poll::Ready(Err(_)) => self.http = Http::Over,
                Poll::Pending => return false,
            },
            Http::Talks(connection) => match connection.poll_accept(context) {
                Poll::Ready(Some(Ok((request, answer)))) => {
                    let (head, body) = request.into_parts();
                    self.last += 1;
                    let (path, answer) = (head.uri.path().to_owned(), Answer::Waits(answer));
                    self.calls.insert(self.last, Spoken { path, body, come: Vec::new(), answer });
                }
                Poll::Ready(_) => self.http = Http::Over,
                Poll::Pending => return false,
            },
            Http::Over => return false,
        }
        true
    }

    /// Nothing is heard of a call that is over, or was left.
    pub(super) fn say(&mut self, number: Call, said: Said) {
        let Some(mut call) = self.calls.remove(&number) else { return };
        let is_over = !matches!(said, Said::Part(_));
        // Whether it is heard makes no difference to a server.
        let _ = call.say(said);
        if !is_over {
            self.calls.insert(number, call);
        }
    }

    /// Those that are not over of what lies at these paths.
    pub(super) fn calls_of<'a>(&'a self, paths: &'a [&str]) -> impl Iterator<Item = Call> + 'a {
        let of_them = self.calls.iter().filter(|(_, call)| paths.contains(&&*call.path));
        of_them.map(|(number, _)| *number)
    }

    /// No more calls are taken.
    pub(super) fn says_farewell(&mut self) {
        if let Http::Talks(connection) = &mut self.http {
            connection.graceful_shutdown();
        }
    }
}

impl Spoken {
    /// Reads what there is; false where the caller left.
    fn listen(&mut self, context: &mut Context<'_>) -> bool {
        while let Poll::Ready(data) = self.body.poll_data(context) {
            match data {
                Some(Ok(data)) => {
                    self.come.extend(&data);
                    let _ = self.body.flow_control().release_capacity(data.len());
                }
                Some(Err(_)) => return false,
                None => return true,
            }
        }
        true
    }

    fn is_reset(&mut self, context: &mut Context<'_>) -> bool {
        match &mut self.answer {
            Answer::Waits(answer) => answer.poll_reset(context).is_ready(),
            Answer::Begun(stream) => stream.poll_reset(context).is_ready(),
        }
    }

    fn messages(&mut self) -> Vec<Vec<u8>> {
        let mut messages = Vec::new();
        while let [0, a, b, c, d, rest @ ..] = &self.come[..] {
            let length = u32::from_be_bytes([*a, *b, *c, *d]) as usize;
            if rest.len() < length {
                break;
            }
            messages.push(rest[..length].to_vec());
            self.come.drain(..5 + length);
        }
        messages
    }

    fn say(&mut self, said: Said) -> Result<(), h2::Error> {
        let (message, is_last) = match said {
            Said::Part(message) => (message, false),
            Said::All(message) => (message, true),
            Said::Error(code, words) => return self.fail(code, words),
        };
        if let Answer::Waits(answer) = &mut self.answer {
            self.answer = Answer::Begun(answer.send_response(head(&[]), false)?);
        }
        let Answer::Begun(stream) = &mut self.answer else { return Ok(()) };
        let length = (message.len() as u32).to_be_bytes();
        stream.send_data([&[0][..], &length, &message].concat().into(), false)?;
        if is_last { stream.send_trailers(status(0, "")) } else { Ok(()) }
    }

    fn fail(&mut self, code: u8, words: &str) -> Result<(), h2::Error> {
        match &mut self.answer {
            Answer::Waits(answer) => {
                let told = status(code, words);
                let told: Vec<_> =
                    told.iter().map(|(name, value)| (name.as_str(), value.to_str().expect("text"))).collect();
                answer.send_response(head(&told), true).map(drop)
            }
            Answer::Begun(stream) => stream.send_trailers(status(code, words)),
        }
    }
}

fn head(more: &[(&str, &str)]) -> Response<()> {
    let response = Response::builder().header("content-type", "application/grpc");
    let response = more.iter().fold(response, |response, (name, value)| response.header(*name, *value));
    response.body(()).expect("a head")
}

fn status(code: u8, words: &str) -> HeaderMap {
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", u16::from(code).into());
    trailers.insert("grpc-message", words.parse().expect("words"));
    trailers
}

/// What a message says.
pub(super) fn parsed<M: Message + Default>(message: &[u8]) -> M {
    M::decode(message).expect("a message")
}

/// A connection's bytes, both ways.
#[derive(Clone, Default)]
struct Wire(Arc<Mutex<Bytewise>>);

#[derive(Default)]
struct Bytewise {
    come: VecDeque<u8>,
    leaves: Vec<u8>,
}

impl AsyncRead for Wire {
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let mut bytes = locked(&self.0);
        if bytes.come.is_empty() {
            return Poll::Pending;
        }
        let count = into.remaining().min(bytes.come.len());
        let read: Vec<u8> = bytes.come.drain(..count).collect();
        into.put_slice(&read);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Wire {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        locked(&self.0).leaves.extend(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
