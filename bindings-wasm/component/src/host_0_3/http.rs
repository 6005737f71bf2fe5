//! Requests of HTTP that the engine posts, by the host's `wasi:http`.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::{io, mem};

use lockwright_wasm_engine::etcd::{Action, Post};
use wasip3::http::client::send;
use wasip3::http::types::{Fields, Method, Request, RequestOptions, Response, Scheme};
use wasip3::{wit_future, wit_stream};

use super::{Network, now, read};
pub(crate) use crate::posts::{Engine, Manner as Means, open};
use crate::posts::{fields, refused, told};

/// The number of a request.
pub(super) type Name = u64;
/// How its answer ended.
pub(super) type End = io::Result<()>;

/// What a request and the engine have for one another.
#[derive(Default)]
pub(super) struct Wire {
    /// Once there is an answer.
    status: Option<u16>,
    /// The engine knows of it.
    is_told: bool,
    came: Vec<u8>,
    /// Nothing is to be read: what is being read would keep the task under way that reads.
    pub(super) rests: bool,
}

impl Wire {
    pub(super) fn hear(&mut self, bytes: Vec<u8>) -> io::Result<()> {
        self.came.extend(bytes);
        Ok(())
    }

    /// Whether there is an answer since now, or more of it; and that.
    fn news(&mut self) -> Option<(u16, Vec<u8>)> {
        let status = self.status?;
        let is_new = !mem::replace(&mut self.is_told, true);
        (is_new || !self.came.is_empty()).then(|| (status, mem::take(&mut self.came)))
    }

    pub(super) fn may_rest(&self) -> bool {
        self.status.is_some() && self.came.is_empty()
    }
}

impl Network {
    pub(super) fn act(&mut self, _: &mut Engine, action: Action) {
        match action {
            Action::Post(post) => {
                let means = self.means;
                self.lines.begin(post.number, |wire| exchange(wire, post, means));
            }
            Action::Drop(number) => self.lines.end(number),
        }
    }

    /// Tells the engine what came of a request; whether anything did.
    pub(super) fn tell(&mut self, engine: &mut Engine, number: u64, wire: &RefCell<Wire>, end: Option<End>) -> bool {
        let news = wire.borrow_mut().news();
        let more = news.is_some() || end.is_some();
        if let Some((status, came)) = news {
            engine.came(number, now(), status, &came);
        }
        if let Some(end) = end {
            self.lines.end(number);
            engine.ended(number, now(), end);
        }
        more
    }
}

/// One request, from when it is posted to the end of its answer.
async fn exchange(wire: Rc<RefCell<Wire>>, post: Post, means: Means) -> io::Result<()> {
    let response = answer(post, means).await?;
    wire.borrow_mut().status = Some(response.get_status_code());
    let (verdict, heard) = wit_future::new(|| Ok(()));
    let (mut input, end) = Response::consume_body(response, heard);
    // Nobody waits for it, and the host has it at once.
    drop(verdict);
    read(&wire, &mut input).await?;
    end.await.map(drop).map_err(told)
}

/// Sends a request; the head of its answer.
async fn answer(post: Post, means: Means) -> io::Result<Response> {
    let headers = Fields::from_list(&fields(&post)).map_err(refused)?;
    let options = RequestOptions::new();
    // Where the host has no such limit of its own, the engine's is the only one.
    let _ = options.set_connect_timeout(Some(means.connect_timeout));
    let (mut output, contents) = wit_stream::new();
    let (no_trailers, trailers) = wit_future::new(|| Ok(None));
    let (request, _) = Request::new(headers, Some(contents), trailers, Some(options));
    let scheme = if means.is_secure { Scheme::Https } else { Scheme::Http };
    request.set_method(&Method::Post).map_err(refused)?;
    request.set_scheme(Some(&scheme)).map_err(refused)?;
    request.set_authority(Some(&post.member)).map_err(refused)?;
    request.set_path_with_query(Some(post.path)).map_err(refused)?;
    let written = async move {
        // Whether that can be done is told by the answer.
        let _ = output.write_all(post.body.into_bytes()).await;
        drop((output, no_trailers));
    };
    let (mut sending, mut writing, mut is_written) = (pin!(send(request)), pin!(written), false);
    let answered = poll_fn(|cx| {
        let answer = sending.as_mut().poll(cx);
        is_written = is_written || writing.as_mut().poll(cx).is_ready();
        answer
    });
    answered.await.map_err(told)
}
