//! A connection of tasks, with TLS or without.

use std::io::{self, IoSlice};
#[cfg(any(feature = "etcd", feature = "zookeeper"))]
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

#[cfg(any(feature = "etcd", feature = "zookeeper"))]
use super::reach::unknown_host;
use super::tls::Tls;
use crate::platform::stream::Stream;

/// See the [module](self).
pub(super) enum Pipe {
    Plain(Stream),
    Tls(Box<TlsStream<Stream>>),
}

impl Pipe {
    /// One to that host and port.
    #[cfg(any(feature = "etcd", feature = "zookeeper"))]
    pub(super) async fn to(target: (&str, u16), tls: Option<&Tls>) -> io::Result<Self> {
        let found = tokio::net::lookup_host(target).await;
        let found: Vec<SocketAddr> = found.map_err(unknown_host)?.collect();
        Self::over(Stream::to(&found).await?, tls).await
    }

    /// One over `stream`, which is connected.
    pub(super) async fn over(stream: Stream, tls: Option<&Tls>) -> io::Result<Self> {
        let Some(Tls { config, name }) = tls else { return Ok(Pipe::Plain(stream)) };
        let shaken = TlsConnector::from(config.clone()).connect(name.clone(), stream).await?;
        Ok(Pipe::Tls(Box::new(shaken)))
    }
}

/// Does the same with whichever it is.
macro_rules! with {
    ($pipe:expr, $stream:ident => $does:expr) => {
        match $pipe {
            Pipe::Plain($stream) => $does,
            Pipe::Tls($stream) => $does,
        }
    };
}

impl AsyncRead for Pipe {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        with!(&mut *self, stream => Pin::new(stream).poll_read(cx, into))
    }
}

impl AsyncWrite for Pipe {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        with!(&mut *self, stream => Pin::new(stream).poll_write(cx, bytes))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        with!(&mut *self, stream => Pin::new(stream).poll_flush(cx))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        with!(&mut *self, stream => Pin::new(stream).poll_shutdown(cx))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        with!(&mut *self, stream => Pin::new(stream).poll_write_vectored(cx, parts))
    }

    fn is_write_vectored(&self) -> bool {
        with!(self, stream => stream.is_write_vectored())
    }
}
