//! A plugin for edge runtimes, composed with the lock component: `POST /coupons/NAME/claim` claims one coupon of a
//! stock that an origin keeps and does not guard. The lock `coupon:NAME` does, beside every program that takes it.
//!
//! It is written once for two hosts. In WASI 0.3 what waits is an async function, and in WASI 0.2, where a request
//! waits on its thread, `maybe_async` makes the same source a function like any other.

mod answer;
mod origin;

#[cfg_attr(feature = "wasi-0-2", path = "host_0_2.rs")]
#[cfg_attr(not(feature = "wasi-0-2"), path = "host_0_3.rs")]
mod host;

#[allow(missing_debug_implementations, unreachable_pub, rust_2018_idioms, reason = "generated")]
mod bindings {
    #[cfg(feature = "wasi-0-2")]
    wit_bindgen::generate!({
        path: ["../../bindings-wasm/component/wit", "wit"],
        world: "lockwright:edge/edge",
        generate_all,
    });
    #[cfg(not(feature = "wasi-0-2"))]
    wit_bindgen::generate!({
        path: ["../../bindings-wasm/component/async-wit", "async-wit"],
        world: "lockwright:edge/edge",
        generate_all,
    });

    #[cfg(not(feature = "wasi-0-2"))]
    pub(crate) use lockwright::async_locks::locks;
    #[cfg(feature = "wasi-0-2")]
    pub(crate) use lockwright::locks::locks;
}

use maybe_async::maybe_async;

use self::answer::{Answer, Refusal};
use self::bindings::locks::{Client, Guard, LockOptions};
use self::host::{Method, get_environment};
use self::origin::Origin;

/// How long a request waits for the lock, in milliseconds, where `CLAIM_WAIT` does not say.
const WAIT: u64 = 10_000;

#[maybe_async]
async fn answered(method: Method, path: &str) -> Result<Answer, Refusal> {
    let Some(name) = path.strip_prefix("/coupons/").and_then(|rest| rest.strip_suffix("/claim")) else {
        return Err(Refusal::of(404, "not_found", "nothing is here", "POST /coupons/NAME/claim"));
    };
    if !matches!(method, Method::Post) {
        return Err(Refusal::of(405, "not_allowed", "a claim changes the stock", "POST it"));
    }
    // So it needs no escapes in the lock's name, in the origin's path and in the answer.
    if name.is_empty() || name.len() > 64 || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
        return Err(Refusal::of(
            400,
            "bad_name",
            "this is no coupon's name",
            "use 1 to 64 letters, digits and hyphens",
        ));
    }
    claim(&Settings::read()?, name).await
}

/// What the host's environment says.
struct Settings {
    redis: String,
    origin: Origin,
    wait: u64,
}

impl Settings {
    fn read() -> Result<Settings, Refusal> {
        let (mut redis, mut origin, mut wait) = (None, None, Some(WAIT));
        for (name, value) in get_environment() {
            match name.as_str() {
                "LOCKWRIGHT_URL" => redis = Some(value),
                "ORIGIN" => origin = Origin::read(&value),
                "CLAIM_WAIT" => wait = value.parse().ok(),
                _ => {}
            }
        }
        let unset = |what| move || Refusal::of(500, "invalid_config", "the plugin is not set up", what);
        Ok(Settings {
            redis: redis.ok_or_else(unset("set LOCKWRIGHT_URL to the address of a Redis server"))?,
            origin: origin.ok_or_else(unset("set ORIGIN to http://HOST:PORT, where the stock is kept"))?,
            wait: wait.ok_or_else(unset("set CLAIM_WAIT to milliseconds, or not at all"))?,
        })
    }
}

#[maybe_async]
async fn claim(settings: &Settings, name: &str) -> Result<Answer, Refusal> {
    let client = host::client(&settings.redis)?;
    let claimed = claim_with(&client, settings, name).await;
    host::leave(client);
    claimed
}

#[maybe_async]
async fn claim_with(client: &Client, settings: &Settings, name: &str) -> Result<Answer, Refusal> {
    let options = LockOptions {
        ttl: None,
        renew: None,
        max_hold: None,
        fair: None,
        rank: None,
        layout: None,
        format: None,
        label: Some("edge".to_owned()),
    };
    let guard = client.lock(&format!("coupon:{name}"), &options)?.acquire(Some(settings.wait)).await?;
    let claimed = take_one(&settings.origin, name, &guard).await;
    // The stock is written or it is not, whatever a release finds; the origin refused whoever came too late.
    let _ = guard.release().await;
    claimed
}

#[maybe_async]
async fn take_one(origin: &Origin, name: &str, guard: &Guard) -> Result<Answer, Refusal> {
    let left = origin.left(name, limit(guard)).await?;
    let Some(left) = left.checked_sub(1) else {
        return Ok(Answer::sold_out(name));
    };
    if host::STANDS_STILL && guard.remaining() < origin::LIMIT {
        guard.renew(None).await?;
    }
    let token = guard.token();
    origin.leave(name, left, token, limit(guard)).await?;
    Ok(Answer::claimed(name, left, token))
}

/// For how long the origin may be asked: while nothing renews the lock, no longer than it lasts.
fn limit(guard: &Guard) -> u64 {
    if host::STANDS_STILL { guard.remaining().min(origin::LIMIT) } else { origin::LIMIT }
}
