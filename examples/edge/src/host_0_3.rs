//! The host, by WASI 0.3: `wasi:http/handler`, whose requests share an instance, and requests to the origin.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

pub(crate) use wasip3::cli::environment::get_environment;
use wasip3::clocks::monotonic_clock::wait_for;
use wasip3::exports::http::handler::Guest;
use wasip3::http::client::send;
use wasip3::http::types::{ErrorCode, Fields, Request, Response};
pub(crate) use wasip3::http::types::{Method, Scheme};
use wasip3::{spawn_local, wit_future, wit_stream};
use wit_bindgen::{StreamReader, StreamResult};

use crate::answer::{Answer, Refusal};
use crate::answered;
use crate::bindings::locks::{Client, Error};
use crate::origin::{LONGEST, Origin, failed, late};

/// The component renews what is held while the origin is asked.
pub(crate) const STANDS_STILL: bool = false;

struct Plugin;

wasip3::http::service::export!(Plugin);

impl Guest for Plugin {
    async fn handle(request: Request) -> Result<Response, ErrorCode> {
        let path = request.get_path_with_query().unwrap_or_default();
        let Answer { status, json } = answered(request.get_method(), &path).await.unwrap_or_else(Answer::from);
        let headers = Fields::new();
        let _ = headers.append("content-type", b"application/json");
        let (_, trailers) = wit_future::new(|| Ok(None));
        let (response, _) = Response::new(headers, Some(stream(json)), trailers);
        let _ = response.set_status_code(status);
        Ok(response)
    }
}

/// A text as a body that is read after this. That nobody reads it is no failure of the plugin's.
fn stream(text: String) -> StreamReader<u8> {
    let (mut body, contents) = wit_stream::new();
    spawn_local(async move {
        body.write_all(text.into_bytes()).await;
    });
    contents
}

thread_local! {
    static CLIENT: RefCell<Option<Rc<Client>>> = const { RefCell::new(None) };
}

/// All requests of an instance have one client: what they hold is renewed while others run, and a lock goes from one to
/// the next inside the instance.
pub(crate) fn client(address: &str) -> Result<Rc<Client>, Error> {
    CLIENT.with_borrow_mut(|client| match client {
        Some(client) => Ok(client.clone()),
        None => Ok(client.insert(Rc::new(Client::connect(address)?)).clone()),
    })
}

/// The next request has it, too; what a time limit left under way is undone meanwhile.
pub(crate) fn leave(_: Rc<Client>) {}

pub(crate) async fn ask(
    origin: &Origin,
    method: Method,
    path: &str,
    text: &str,
    limit: u64,
) -> Result<(u16, String), Refusal> {
    let headers = Fields::new();
    headers
        .append("content-length", text.len().to_string().as_bytes())
        .map_err(|_| failed("the host refuses a header"))?;
    let (_, trailers) = wit_future::new(|| Ok(None));
    let (request, _) = Request::new(headers, Some(stream(text.to_owned())), trailers, None);
    let refused = |()| failed("the host refuses its address");
    request.set_method(&method).map_err(refused)?;
    request.set_scheme(Some(&origin.scheme)).map_err(refused)?;
    request.set_authority(Some(&origin.authority)).map_err(refused)?;
    request.set_path_with_query(Some(&format!("{}{path}", origin.base))).map_err(refused)?;
    let answer = async {
        let response = send(request).await.map_err(|error| failed(&error.to_string()))?;
        Ok((response.get_status_code(), read(response).await?))
    };
    let (mut answer, mut end) = (pin!(answer), pin!(wait_for(limit * 1_000_000)));
    poll_fn(|cx| match answer.as_mut().poll(cx) {
        Poll::Pending => end.as_mut().poll(cx).map(|()| Err(late())),
        ready => ready,
    })
    .await
}

async fn read(response: Response) -> Result<String, Refusal> {
    let (_, done) = wit_future::new(|| Ok(()));
    let (mut stream, ended) = Response::consume_body(response, done);
    let mut bytes = Vec::with_capacity(LONGEST + 1);
    loop {
        let (result, more) = stream.read(bytes).await;
        bytes = more;
        if bytes.len() > LONGEST {
            return Err(failed("it answers more than a number"));
        }
        if matches!(result, StreamResult::Dropped) {
            break;
        }
    }
    ended.await.map_err(|error| failed(&error.to_string()))?;
    String::from_utf8(bytes).map_err(|_| failed("it answers no text"))
}
