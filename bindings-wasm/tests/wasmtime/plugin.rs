//! What a plugin of WASI 0.3 may do and the one of `examples/edge` does not: it leaves off waiting for a call, drops
//! what it holds, and holds a lock without any call. `POST /WHAT/NAME/MS` answers with one word.

#[allow(missing_debug_implementations, unreachable_pub, rust_2018_idioms, reason = "generated")]
mod bindings {
    wit_bindgen::generate!({
        path: "async-wit",
        inline: "package lockwright:test; world test { import lockwright:async-locks/locks@0.1.0; }",
        world: "lockwright:test/test",
        generate_all,
    });
}

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

use bindings::lockwright::async_locks::locks::{Certificates, Client, Error, LockOptions};
use wasip3::cli::environment::get_environment;
use wasip3::clocks::monotonic_clock::wait_for;
use wasip3::exports::http::handler::Guest;
use wasip3::http::types::{ErrorCode, Fields, Request, Response};
use wasip3::{wit_future, wit_stream};
use wit_bindgen::spawn_local;

const OPTIONS: LockOptions = LockOptions {
    ttl: None,
    renew: None,
    max_hold: None,
    fair: None,
    rank: None,
    layout: None,
    format: None,
    label: None,
};

struct Plugin;

wasip3::http::service::export!(Plugin);

impl Guest for Plugin {
    async fn handle(request: Request) -> Result<Response, ErrorCode> {
        let path = request.get_path_with_query().unwrap_or_default();
        let (status, said) = match answered(&path).await {
            Ok(said) => (200, said.to_owned()),
            Err(error) => (500, error.to_string()),
        };
        let (mut body, contents) = wit_stream::new();
        spawn_local(async move {
            body.write_all(said.into_bytes()).await;
        });
        let (_, trailers) = wit_future::new(|| Ok(None));
        let (response, _) = Response::new(Fields::new(), Some(contents), trailers);
        let _ = response.set_status_code(status);
        Ok(response)
    }
}

thread_local! {
    static CLIENT: RefCell<Option<Rc<Client>>> = const { RefCell::new(None) };
    /// The lock that was granted last to be held.
    static HELD: RefCell<String> = const { RefCell::new(String::new()) };
}

fn client() -> Result<Rc<Client>, Error> {
    CLIENT.with_borrow_mut(|client| match client {
        Some(client) => Ok(client.clone()),
        None => {
            let given =
                |wanted: &str| get_environment().into_iter().find(|(name, _)| name == wanted).map(|(_, text)| text);
            let [ca, cert, key] = ["CA", "CERT", "KEY"].map(given);
            let address = given("LOCKWRIGHT_URL").unwrap_or_default();
            Ok(client.insert(Rc::new(Client::connect_with(&address, &Certificates { ca, cert, key })?)).clone())
        }
    })
}

async fn answered(path: &str) -> Result<&'static str, Error> {
    let mut words = path.trim_start_matches('/').split('/');
    let (what, name) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let time = words.next().and_then(|ms| ms.parse::<u64>().ok()).unwrap_or_default() * 1_000_000;
    let client = client()?;
    let lock = client.lock(name, &OPTIONS)?;
    match what {
        "leave" => Ok(if within(time, lock.acquire(None)).await { "granted" } else { "left" }),
        "look-away" => {
            let election = client.election(name, &OPTIONS)?;
            let known = election.leader().await?.map(|leader| leader.token);
            Ok(if within(time, election.changed(known, Some(20))).await { "changed" } else { "left" })
        }
        "drop" => lock.acquire(None).await.map(|_| "dropped"),
        "hold" => {
            let guard = lock.acquire(None).await?;
            HELD.set(name.to_owned());
            wait_for(time).await;
            let lost = guard.lost().is_some();
            guard.release().await?;
            Ok(if lost { "lost" } else { "held" })
        }
        "knows" => Ok(if HELD.with_borrow(|held| held == name) { "known" } else { "unknown" }),
        "latch" => client.latch(name, 1, Some(60_000))?.wait(None).await.map(|_| "open"),
        _ => Ok("nothing"),
    }
}

/// Whether a call has its answer in this time; else it is cancelled.
async fn within<T>(time: u64, call: impl Future<Output = T>) -> bool {
    let (mut call, mut end) = (pin!(call), pin!(wait_for(time)));
    poll_fn(|cx| match call.as_mut().poll(cx) {
        Poll::Ready(_) => Poll::Ready(true),
        Poll::Pending => end.as_mut().poll(cx).map(|()| false),
    })
    .await
}
