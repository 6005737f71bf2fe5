use clap::Args;
use lockwright::{Health, Result};
use serde::Serialize;

use crate::args::{Named, StoreArgs};
use crate::exit;
use crate::output;

/// Says whether locks can be had: acquires a lock of its own and gives it back, with all the rights that takes.
#[derive(Debug, Args)]
#[command(
    after_help = "For readiness probes. Exits with 0 when the store serves, 69 when it does not answer, 77 when it refuses the \
    user, the password or a right. JSON spans are in milliseconds.\n\n\
    Example: lockwright ping redis://localhost:6379"
)]
pub(crate) struct Ping {
    #[command(flatten)]
    pub(crate) named: Named,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
}

impl Ping {
    pub(crate) fn go(self, store: &StoreArgs) -> Result<u8> {
        let client = store.open()?;
        let health = client.ping()?;
        if self.json {
            output::json(&HealthJson::of(client.address(), &health));
        } else {
            output::line(&card(client.address(), &health));
        }
        Ok(exit::OK)
    }
}

fn card(address: &str, health: &Health) -> String {
    let took = health.took.as_secs_f64() * 1000.0;
    let mut text = format!("{address}: ready\n  took       {took:.1} ms");
    text.extend(health.eviction.iter().map(|policy| format!("\n  eviction   {}", output::plain(policy))));
    if health.may_evict() {
        text.push_str(
            "\n  beware     it may throw held locks away when its memory is full; set maxmemory-policy to noeviction",
        );
    }
    text
}

/// What a ping found, for programs. Spans are in milliseconds.
#[derive(Debug, Serialize)]
struct HealthJson<'a> {
    store: &'a str,
    took_ms: f64,
    eviction: Option<&'a str>,
    may_evict: bool,
}

impl<'a> HealthJson<'a> {
    fn of(store: &'a str, health: &'a Health) -> Self {
        let took_ms = health.took.as_secs_f64() * 1000.0;
        HealthJson { store, took_ms, eviction: health.eviction.as_deref(), may_evict: health.may_evict() }
    }
}
