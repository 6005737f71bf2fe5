//! A plugin for edge runtimes, composed with the lock component: `POST /coupons/NAME/claim` claims one coupon of a
//! stock that an origin keeps and does not guard. The lock `coupon:NAME` does, beside every program that takes it.

mod answer;
mod origin;

#[allow(missing_debug_implementations, unreachable_pub, rust_2018_idioms, reason = "generated")]
mod bindings {
    wit_bindgen::generate!({ path: ["../../bindings-wasm/component/wit", "wit"], world: "lockwright:edge/edge", generate_all });
}

use wasip2::cli::environment::get_environment;
use wasip2::exports::http::incoming_handler::Guest;
use wasip2::http::types::{IncomingRequest, Method, ResponseOutparam};

use self::answer::{Answer, Refusal};
use self::bindings::lockwright::locks::locks::{Client, Guard, LockOptions};
use self::origin::Origin;

/// How long a request waits for the lock, in milliseconds, where `CLAIM_WAIT` does not say.
const WAIT: u64 = 10_000;

struct Plugin;

wasip2::http::proxy::export!(Plugin);

impl Guest for Plugin {
    fn handle(request: IncomingRequest, out: ResponseOutparam) {
        answered(&request).unwrap_or_else(Answer::from).send(out);
    }
}

fn answered(request: &IncomingRequest) -> Result<Answer, Refusal> {
    let path = request.path_with_query().unwrap_or_default();
    let Some(name) = path.strip_prefix("/coupons/").and_then(|rest| rest.strip_suffix("/claim")) else {
        return Err(Refusal::of(404, "not_found", "nothing is here", "POST /coupons/NAME/claim"));
    };
    if !matches!(request.method(), Method::Post) {
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
    claim(&Settings::read()?, name)
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

/// Each request has a client of its own: in most edge runtimes it has an instance of its own, too.
fn claim(settings: &Settings, name: &str) -> Result<Answer, Refusal> {
    let client = Client::connect(&settings.redis)?;
    let claimed = claim_with(&client, settings, name);
    // What a time limit left under way has to be undone now: no code runs once the request is answered.
    client.close();
    claimed
}

fn claim_with(client: &Client, settings: &Settings, name: &str) -> Result<Answer, Refusal> {
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
    let guard = client.lock(&format!("coupon:{name}"), &options)?.acquire(Some(settings.wait))?;
    let claimed = take_one(&settings.origin, name, &guard);
    // The stock is written or it is not, whatever a release finds; the origin refused whoever came too late.
    let _ = guard.release();
    claimed
}

fn take_one(origin: &Origin, name: &str, guard: &Guard) -> Result<Answer, Refusal> {
    let left = origin.left(name, guard.remaining())?;
    let Some(left) = left.checked_sub(1) else {
        return Ok(Answer::sold_out(name));
    };
    // No code of the component runs while the origin is asked, so nothing renews the lock but this.
    if guard.remaining() < origin::LIMIT {
        guard.renew(None)?;
    }
    let token = guard.token();
    origin.leave(name, left, token, guard.remaining())?;
    Ok(Answer::claimed(name, left, token))
}
