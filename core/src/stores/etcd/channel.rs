//! What carries the client library's calls: HTTP/2 over a socket of ours.
//!
//! The library's own channel hands each request through a buffer, a balancer and a task, and sends it in two or three
//! writes. This one has a single member to talk to, and sends a request that is complete in one write.

use std::error::Error as Cause;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use etcd_client::Channel;
use h2::client::{Builder, Connection, SendRequest};
use h2::{Ping, PingPong, Reason, RecvStream, SendStream};
use http::uri::{Authority, Parts, Scheme, Uri};
use http::{Request, Response};
use http_body::{Body as _, Frame};
use tokio::time::{sleep, timeout};
use tonic::body::Body;
use tonic::codegen::Bytes;
use tower::util::BoxCloneSyncService;
use tower::{BoxError, Service};

use super::lease::either;
use crate::stores::BoxFuture;
use crate::stores::pipe::Pipe;

/// How often it is looked whether the member is there, and how long it may take to say so.
const PINGS: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(3));
/// How much of an answer, and of all of them, may be on its way: a long line is told at once.
const WINDOWS: (u32, u32) = (1 << 20, 1 << 22);

/// The request did not leave: the connection had ended before.
#[derive(Debug)]
pub(super) struct Unsent(h2::Error);

impl fmt::Display for Unsent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the connection had ended")
    }
}

impl Cause for Unsent {
    fn source(&self) -> Option<&(dyn Cause + 'static)> {
        Some(&self.0)
    }
}

/// A channel to `member` over `pipe`. A task keeps that while somebody has the channel, and the member is there.
pub(super) async fn over(pipe: Pipe, scheme: Scheme, member: Authority) -> Result<Channel, h2::Error> {
    let mut builder = Builder::new();
    builder.enable_push(false).initial_window_size(WINDOWS.0).initial_connection_window_size(WINDOWS.1);
    let (requests, connection) = builder.handshake(pipe).await?;
    tokio::spawn(attend(connection));
    Ok(Channel::Custom(BoxCloneSyncService::new(Requests { requests, scheme, member })))
}

/// What is on its way when this ends, or is dropped, is told that the connection was lost.
async fn attend(mut connection: Connection<Pipe, Bytes>) {
    let pings = connection.ping_pong();
    let carries = async {
        if let Err(error) = connection.await {
            tracing::debug!(target: "lockwright::inbox", %error, "a connection to etcd was lost");
        }
    };
    either(carries, looks(pings)).await;
}

/// Ends when the member says nothing.
async fn looks(pings: Option<PingPong>) {
    let Some(mut pings) = pings else { return };
    while {
        sleep(PINGS.0).await;
        matches!(timeout(PINGS.1, pings.ping(Ping::opaque())).await, Ok(Ok(_)))
    } {}
}

#[derive(Clone)]
struct Requests {
    requests: SendRequest<Bytes>,
    scheme: Scheme,
    member: Authority,
}

impl Requests {
    /// Where the member has what `uri` names.
    fn located(&self, uri: Uri) -> Result<Uri, BoxError> {
        let mut parts = Parts::default();
        parts.path_and_query = uri.into_parts().path_and_query;
        (parts.scheme, parts.authority) = (Some(self.scheme.clone()), Some(self.member.clone()));
        Ok(Uri::from_parts(parts)?)
    }
}

impl Service<Request<Body>> for Requests {
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<Body>, BoxError>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.requests.poll_ready(cx).map_err(|error| Unsent(error).into())
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let (mut head, body) = request.into_parts();
        let sent = self.located(std::mem::take(&mut head.uri)).and_then(|uri| {
            head.uri = uri;
            send(&mut self.requests, Request::from_parts(head, ()), body)
        });
        Box::pin(async move { Ok(sent?.await?.map(|answer| Body::new(Answer(answer)))) })
    }
}

/// What is there of the body leaves with the request, which is then complete unless more may come.
fn send(
    requests: &mut SendRequest<Bytes>,
    head: Request<()>,
    mut body: Body,
) -> Result<h2::client::ResponseFuture, BoxError> {
    let mut there = Vec::with_capacity(1);
    let mut next = || Pin::new(&mut body).poll_frame(&mut Context::from_waker(Waker::noop()));
    let is_complete = loop {
        match next() {
            Poll::Ready(Some(frame)) => there.extend(frame?.into_data().ok()),
            Poll::Ready(None) => break true,
            Poll::Pending => break false,
        }
    };
    let (answer, mut stream) = requests.send_request(head, is_complete && there.is_empty()).map_err(Unsent)?;
    let last = there.len().saturating_sub(1);
    for (index, data) in there.into_iter().enumerate() {
        stream.send_data(data, is_complete && index == last)?;
    }
    if !is_complete {
        tokio::spawn(follow(body, stream));
    }
    Ok(answer)
}

/// Sends what comes of a body, until that or the stream ends.
async fn follow(mut body: Body, mut stream: SendStream<Bytes>) {
    std::future::poll_fn(|cx| {
        loop {
            if stream.poll_reset(cx).is_ready() {
                return Poll::Ready(());
            }
            let sent = match ready!(Pin::new(&mut body).poll_frame(cx)) {
                Some(Ok(frame)) => frame.into_data().map_or(Ok(()), |data| stream.send_data(data, false)),
                Some(Err(_)) => {
                    stream.send_reset(Reason::CANCEL);
                    return Poll::Ready(());
                }
                None => {
                    // Whether that is still heard makes no difference.
                    let _ = stream.send_data(Bytes::new(), true);
                    return Poll::Ready(());
                }
            };
            if sent.is_err() {
                return Poll::Ready(());
            }
        }
    })
    .await;
}

/// The body of an answer.
struct Answer(RecvStream);

impl http_body::Body for Answer {
    type Data = Bytes;
    type Error = h2::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, h2::Error>>> {
        let Answer(stream) = &mut *self;
        Poll::Ready(match ready!(stream.poll_data(cx)) {
            Some(Ok(data)) => Some(stream.flow_control().release_capacity(data.len()).map(|()| Frame::data(data))),
            // All was said.
            Some(Err(error)) if error.reason() == Some(Reason::NO_ERROR) => None,
            Some(Err(error)) => Some(Err(error)),
            None => ready!(stream.poll_trailers(cx)).transpose().map(|trailers| trailers.map(Frame::trailers)),
        })
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_end_stream()
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};
    use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

    use super::*;
    use crate::platform::stream::Stream;

    /// What is asked, for as long as more may be.
    struct Asked(UnboundedReceiver<Bytes>);

    impl http_body::Body for Asked {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            cx: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            self.0.poll_recv(cx).map(|data| data.map(|data| Ok(Frame::data(data))))
        }
    }

    /// A request of one part, and what more of it is told by.
    fn part() -> (UnboundedSender<Bytes>, Asked) {
        let (tells, asked) = unbounded_channel();
        tells.send(Bytes::from_static(&[7; 300])).unwrap();
        (tells, Asked(asked))
    }

    fn complete() -> Asked {
        part().1
    }

    /// A channel, and the other end of it, which has greeted.
    async fn dialled() -> (Channel, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let pipe = Pipe::over(Stream::to(&[address]).await.unwrap(), None).await.unwrap();
        let channel = over(pipe, Scheme::HTTP, Authority::from_static("h:1")).await.unwrap();
        let (mut server, _) = listener.accept().await.unwrap();
        // Its settings, and that it has ours.
        server.write_all(&[0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 4, 1, 0, 0, 0, 0]).await.unwrap();
        let mut greeting = [0; 1024];
        while !greeting.windows(9).any(|part| part == [0, 0, 0, 4, 1, 0, 0, 0, 0]) {
            let _ = server.read(&mut greeting).await.unwrap();
        }
        (channel, server)
    }

    async fn ask(mut channel: Channel, asked: Asked) -> Result<Response<Body>, BoxError> {
        std::future::poll_fn(|cx| channel.poll_ready(cx)).await?;
        channel.call(Request::post("/a/B").body(Body::new(asked)).unwrap()).await
    }

    /// The kinds of the frames that one read brings, each with whether it ends its stream.
    async fn read(server: &mut TcpStream) -> Vec<(u8, bool)> {
        let mut bytes = vec![0; 4096];
        let length = server.read(&mut bytes).await.unwrap();
        let mut rest = &bytes[..length];
        let mut frames = Vec::new();
        while let [_, high, low, kind, flags, ..] = *rest {
            frames.push((kind, flags & 1 == 1));
            rest = &rest[9 + usize::from(high) * 256 + usize::from(low)..];
        }
        frames
    }

    #[tokio::test]
    async fn a_request_that_is_complete_leaves_by_one_write() {
        let (channel, mut server) = dialled().await;
        let asks = tokio::spawn(ask(channel, complete()));
        let head_and_data = vec![(1, false), (0, true)];
        assert_eq!(read(&mut server).await, head_and_data);
        drop(server);
        let error = asks.await.unwrap().unwrap_err();
        assert!(!error.is::<Unsent>(), "it did leave: {error}");
    }

    #[tokio::test]
    async fn what_more_comes_of_a_request_follows_it() {
        let (channel, mut server) = dialled().await;
        let (tells, asked) = part();
        let _asks = tokio::spawn(ask(channel, asked));
        assert_eq!(read(&mut server).await, [(1, false), (0, false)]);
        tells.send(Bytes::from_static(b"more")).unwrap();
        assert_eq!(read(&mut server).await, [(0, false)]);
        drop(tells);
        assert_eq!(read(&mut server).await, [(0, true)]);
    }

    #[tokio::test]
    async fn what_is_asked_over_a_connection_that_has_ended_certainly_did_not_leave() {
        let (channel, server) = dialled().await;
        drop(server);
        let told = loop {
            let error = ask(channel.clone(), complete()).await.unwrap_err();
            if error.is::<Unsent>() {
                break error;
            }
        };
        assert!(told.source().is_some());
    }
}
