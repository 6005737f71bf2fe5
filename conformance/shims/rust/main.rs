//! The shim of the Rust faces: `lockwright-shim-rust async|blocking`. `README.md` of this crate says what a shim does.

mod fork;
mod held;
mod primitives;
mod way;
mod work;

use std::collections::HashMap;
use std::io::{BufRead, Write};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lockwright::blocking::Blocking;
use lockwright::lease::{Part, ReleaseOutcome};
use lockwright::options::{ConnectOptions, seconds};
use lockwright::queue::OwnerId;
use lockwright::striped::Striped;
use lockwright::{Async, Client, Error, Kind, Lock, LockBuilder, Result, Token};
use lockwright_conformance::clock::{self, Nanos};
use serde_json::{Value, json};
use tokio::sync::Notify;

use held::{Held, Target};
use way::{Cancel, Way};

fn main() {
    if std::env::var_os("LOCKWRIGHT_SHIM_LOGS").is_some() {
        tracing_subscriber::fmt()
            .with_max_level(tracing_subscriber::filter::LevelFilter::TRACE)
            .with_writer(std::io::stderr)
            .init();
    }
    if let Err(error) = lockwright_own_store::register() {
        eprintln!("{error}");
        std::process::exit(2);
    }
    match std::env::args().nth(1).as_deref() {
        Some("async") => serve::<Async>(),
        Some("blocking") => serve::<Blocking>(),
        // Excludes nobody: with it the suite can be seen to fail.
        Some("unlocked") => {
            UNLOCKED.store(true, Ordering::Relaxed);
            serve::<Blocking>();
        }
        // Keeps something of each play: with it the runner can be seen to notice.
        Some("keeping") => {
            KEEPING.store(true, Ordering::Relaxed);
            serve::<Blocking>();
        }
        _ => {
            eprintln!("say async or blocking");
            std::process::exit(2);
        }
    }
}

static UNLOCKED: AtomicBool = AtomicBool::new(false);
static KEEPING: AtomicBool = AtomicBool::new(false);

struct Shim<W: Way> {
    clients: Mutex<HashMap<String, Client<W>>>,
    uris: Mutex<HashMap<String, String>>,
    guards: Mutex<HashMap<String, Arc<Held<W>>>>,
    stocks: Mutex<HashMap<String, Striped<W>>>,
    cancels: Mutex<HashMap<u64, Arc<Cancel>>>,
    /// Told when a command is through.
    through: Notify,
}

/// What a command gives, and when the call returned.
struct Done {
    at: Nanos,
    value: Value,
}

fn done(value: Value) -> Result<Option<Done>> {
    Ok(Some(Done { at: clock::now(), value }))
}

fn serve<W: Way>() {
    say(&json!({ "pid": std::process::id(), "language": "rust", "resets": true }));
    let shim = Arc::new(Shim::<W> {
        clients: Mutex::default(),
        uris: Mutex::default(),
        guards: Mutex::default(),
        stocks: Mutex::default(),
        cancels: Mutex::default(),
        through: Notify::new(),
    });
    for line in std::io::stdin().lock().lines().map_while(std::result::Result::ok) {
        let command: Value = serde_json::from_str(&line).unwrap_or_default();
        if command["do"] == "exit" {
            break;
        }
        let id = command["id"].as_u64().unwrap_or_default();
        // Now, not when its turn comes: the next command may cancel it.
        let cancel = Arc::<Cancel>::default();
        locked(&shim.cancels).insert(id, cancel.clone());
        let shim = shim.clone();
        W::spawn(async move {
            let result = shim.obey(&command, &cancel).await;
            locked(&shim.cancels).remove(&id);
            shim.through.notify_waiters();
            match result {
                Ok(Some(Done { at, value })) => say(&json!({ "id": id, "at": at, "ok": value })),
                Ok(None) => {}
                Err(error) => say(&json!({ "id": id, "at": clock::now(), "error": failure(&error) })),
            }
        });
    }
    std::process::exit(0);
}

fn failure(error: &Error) -> Value {
    let debug = format!("{error:?}");
    json!({ "code": error.code(), "retryable": error.retryable(), "message": error.to_string(), "debug": debug })
}

fn say(line: &Value) {
    let mut out = std::io::stdout().lock();
    // Without a runner there is nobody to serve.
    if writeln!(out, "{line}").and_then(|()| out.flush()).is_err() {
        std::process::exit(1);
    }
}

impl<W: Way> Shim<W> {
    async fn obey(self: &Arc<Self>, command: &Value, cancel: &Cancel) -> Result<Option<Done>> {
        let text = |key: &str| command[key].as_str().unwrap_or_default();
        match text("do") {
            "open" => {
                let client = Client::open(Some(text("uri")), ConnectOptions::default())?;
                let shown = format!("{client:?}");
                locked(&self.clients).insert(text("client").into(), client);
                locked(&self.uris).insert(text("client").into(), text("uri").into());
                done(json!({ "shown": shown }))
            }
            "guarantees" => {
                let promised = self.client(command)?.guarantees()?;
                done(json!({
                    "store": promised.store,
                    "layout": promised.layout,
                    "exclusive_until": promised.exclusive_until.to_string(),
                    "token": promised.token.to_string(),
                    "fair": promised.fair,
                    "reentrant": promised.reentrant,
                    "shared": promised.shared,
                    "push": promised.push,
                    "survives_disconnect": promised.survives_disconnect,
                    "incarnation": promised.incarnation,
                    "notes": promised.notes,
                }))
            }
            "require" => {
                self.client(command)?.require(primitives::requirements(&command["wants"])?)?;
                done(json!({}))
            }
            "acquire" => {
                let held = if command["cancellable"] == true {
                    let cancelled = || Error::new(Kind::Cancelled, "acquire", "the runner gave up");
                    Held::One(W::acquire_unless(&self.lock(command)?, cancel).await.ok_or_else(cancelled)??)
                } else {
                    self.wanted(command)?.acquire().await?
                };
                Ok(Some(self.keep(text("guard"), held)))
            }
            "try" => match self.wanted(command)?.try_acquire().await? {
                Some(held) => Ok(Some(self.keep(text("guard"), held))),
                None => done(json!({ "taken": true })),
            },
            "cancel" => {
                if let Some(cancel) = locked(&self.cancels).get(&command["command"].as_u64().unwrap_or_default()) {
                    cancel.cancel();
                }
                done(json!({}))
            }
            "release" => {
                let outcome = self.take(text("guard"))?.release().await?;
                done(match &outcome {
                    ReleaseOutcome::Kept(levels) => json!({ "outcome": outcome.code(), "kept": levels }),
                    _ => json!({ "outcome": outcome.code() }),
                })
            }
            "extend" => {
                let ttl = seconds("extend", "ttl", command["ttl"].as_f64().unwrap_or(f64::NAN))?;
                let guard = self.guard(text("guard"))?;
                W::extend(guard.one()?, ttl).await?;
                done(json!({}))
            }
            "downgrade" => {
                let guard = self.guard(text("guard"))?;
                W::downgrade(guard.one()?).await?;
                done(json!({}))
            }
            "upgrade" => {
                let guard = self.guard(text("guard"))?;
                done(json!({ "upgraded": W::try_upgrade(guard.one()?).await? }))
            }
            "resize" => {
                let lock = self.client(command)?.semaphore(text("lock"), 1).build()?;
                W::resize(&lock, number_of(&command["permits"])).await?;
                done(json!({}))
            }
            "export" => {
                let ttl = seconds("export", "ttl", command["ttl"].as_f64().unwrap_or(f64::NAN))?;
                let (guard, secret) = W::export(self.take(text("guard"))?.into_one()?, ttl).await;
                locked(&self.guards).insert(text("guard").into(), Arc::new(Held::One(guard)));
                done(json!({ "secret": secret?.as_str() }))
            }
            "resume" if command["lock"].is_null() => {
                let client = self.client(command)?;
                let options = builder_of(&client, command, "")?.current_options().clone();
                let guard = W::resume_with(&client, text("secret"), &options).await?;
                Ok(Some(self.keep(text("guard"), Held::One(guard))))
            }
            "resume" => {
                let guard = W::resume(&self.lock(command)?, text("secret")).await?;
                Ok(Some(self.keep(text("guard"), Held::One(guard))))
            }
            "hold_at_least_for" => {
                let span = seconds("hold", "span", command["span"].as_f64().unwrap_or(f64::NAN))?;
                let mut guard = self.take(text("guard"))?.into_one()?;
                let kept = guard.hold_at_least_for(span);
                locked(&self.guards).insert(text("guard").into(), Arc::new(Held::One(guard)));
                kept.and_then(|()| done(json!({})))
            }
            "ping" => {
                let health = W::ping(&self.client(command)?).await?;
                done(json!({ "took": health.took.as_secs_f64(), "may_evict": health.may_evict() }))
            }
            "drain" => {
                let limit = seconds("drain", "limit", command["limit"].as_f64().unwrap_or(f64::NAN))?;
                done(json!({ "held": W::drain(&self.client(command)?, limit).await? }))
            }
            "state" => {
                let guard = self.guard(text("guard"))?;
                done(json!({
                    "held": guard.is_held(),
                    "remaining": guard.remaining().as_secs_f64(),
                    "why": guard.why_lost().map(|why| why.code().to_owned()),
                    "token": guard.token(),
                    "depth": guard.depth(),
                }))
            }
            "lost" => {
                let (shim, name) = (self.clone(), text("guard").to_owned());
                match cancel.unless(W::lost(Box::new(move || shim.guard(&name).ok()))).await.flatten() {
                    Some(why) => done(json!({ "why": why.code() })),
                    None => Ok(None),
                }
            }
            "drop" => {
                drop(self.take(text("guard"))?);
                done(json!({}))
            }
            "abandon" => {
                self.take(text("guard"))?.into_one()?.abandon();
                done(json!({}))
            }
            "inspect" => {
                let seen = W::inspect(&self.client(command)?, text("lock")).await?;
                let shared = seen.shared.map(|shared| {
                    let holds = |part: &Part| json!({ "holds": part.describe(shared.primitive) });
                    let holders: Vec<_> = shared.holders.iter().map(holds).collect();
                    json!({ "primitive": shared.primitive.name(), "permits": shared.permits, "holders": holders })
                });
                let holder = seen.holder.map(|holder| {
                    json!({
                        "first_token": holder.first_token,
                        "last_token": holder.last_token,
                        "remaining": holder.remaining.as_secs_f64(),
                        "held_for": holder.held_for.map(|held| held.as_secs_f64()),
                        "host": holder.card.host,
                        "pid": holder.card.pid,
                        "language": holder.card.language,
                        "label": holder.card.label,
                    })
                });
                let latch = seen.latch.map(|latch| json!({ "count": latch.count }));
                done(json!({
                    "layout": seen.layout,
                    "waiters": seen.waiters,
                    "holder": holder,
                    "primitive": seen.primitive,
                    "shared": shared,
                    "latch": latch,
                }))
            }
            "list" => {
                let names = W::list(&self.client(command)?).await?;
                done(json!({ "names": names }))
            }
            "request_release" => {
                let token = Token::new(command["token"].as_u64().unwrap_or_default());
                let asked = W::request_release(&self.lock(command)?, token).await?;
                done(json!({ "asked": asked }))
            }
            "requested" => {
                let guard = self.guard(text("guard"))?;
                let (tell, asked) = tokio::sync::oneshot::channel();
                guard.on_release_requested(Box::new(move || _ = tell.send(())));
                match cancel.unless(asked).await {
                    Some(_) => done(json!({ "requested": guard.release_requested() })),
                    None => Ok(None),
                }
            }
            "break" => {
                let token = Token::new(command["token"].as_u64().unwrap_or_default());
                let broken = W::break_lock(&self.client(command)?, text("lock"), token).await?;
                done(json!({ "broken": broken }))
            }
            "close" => {
                W::close(&self.client(command)?).await;
                done(json!({}))
            }
            "reset" => {
                self.reset().await;
                done(json!({}))
            }
            "fork" => done(fork::fork(self, command).await?),
            "prefork" => done(fork::prefork(self, command).await?),
            "work" => done(work::work(self, command).await?),
            "count" => done(work::count(&*self.guard(text("guard"))?, command)?),
            "segment" => self.segment(command).await,
            "sold_out" => {
                let outcome = self.take(text("guard"))?.sold_out().await?;
                done(json!({ "outcome": outcome.code() }))
            }
            "restock" => {
                self.striped(command)?.restock();
                done(json!({}))
            }
            "once" => done(self.once(command).await?),
            "campaign" => {
                let guard = W::campaign(&self.election(command)?, text("proclaims")).await?;
                Ok(Some(self.keep(text("guard"), Held::One(guard))))
            }
            "lead" => done(self.lead(command).await?),
            "latch" => done(json!({ "answer": self.latch(command).await? })),
            "barrier" => done(self.barrier(command).await?),
            "leader" => done(primitives::shown(W::leader(&self.election(command)?).await?)),
            "changed" => {
                let every = seconds("changed", "every", command["every"].as_f64().unwrap_or(0.5))?;
                done(primitives::shown(W::changed(&self.election(command)?, command["known"].as_u64(), every).await?))
            }
            other => Err(Error::new(Kind::Unsupported, "shim", format!("there is no command {other:?}"))),
        }
    }

    /// Has nothing any more but the process itself.
    async fn reset(&self) {
        let clients = std::mem::take(&mut *locked(&self.clients));
        for client in clients.values() {
            W::close(client).await;
        }
        if KEEPING.load(Ordering::Relaxed) {
            std::mem::forget(std::fs::File::open("/dev/null"));
        }
        locked(&self.uris).clear();
        locked(&self.guards).clear();
        locked(&self.stocks).clear();
        // Whoever waits for the loss of a guard that was released would do so for ever.
        locked(&self.cancels).values().for_each(|cancel| cancel.cancel());
        loop {
            let mut through = pin!(self.through.notified());
            through.as_mut().enable();
            // This command itself is not through.
            if locked(&self.cancels).len() <= 1 {
                return;
            }
            through.await;
        }
    }

    fn client(&self, command: &Value) -> Result<Client<W>> {
        let name = command["client"].as_str().unwrap_or_default();
        let client = locked(&self.clients).get(name).cloned();
        client.ok_or_else(|| Error::new(Kind::Internal, "shim", format!("no client is called {name:?}")))
    }

    /// Another client of the same place, for the task `i`.
    fn own_client(&self, command: &Value, i: u64) -> Result<Client<W>> {
        let name = command["client"].as_str().unwrap_or_default();
        let mut clients = locked(&self.clients);
        let own = format!("{name}/{i}");
        if let Some(client) = clients.get(&own) {
            return Ok(client.clone());
        }
        let client = Client::open(locked(&self.uris).get(name).map(String::as_str), ConnectOptions::default())?;
        clients.insert(own, client.clone());
        Ok(client)
    }

    fn lock(&self, command: &Value) -> Result<Lock<W>> {
        lock_of(&self.client(command)?, command, command["lock"].as_str().unwrap_or_default())
    }

    fn wanted(&self, command: &Value) -> Result<Target<W>> {
        Target::of(&self.client(command)?, command, command["lock"].as_str().unwrap_or_default())
    }

    fn keep(&self, name: &str, held: Held<W>) -> Done {
        let at = clock::now();
        let value = held.shown();
        locked(&self.guards).insert(name.into(), Arc::new(held));
        Done { at, value }
    }

    fn guard(&self, name: &str) -> Result<Arc<Held<W>>> {
        let guard = locked(&self.guards).get(name).cloned();
        guard.ok_or_else(|| Error::new(Kind::NotOwned, "shim", "the guard was released"))
    }

    /// The guard itself, once nobody looks at it any more.
    fn take(&self, name: &str) -> Result<Held<W>> {
        let guard = locked(&self.guards).remove(name);
        let mut guard = guard.ok_or_else(|| Error::new(Kind::NotOwned, "shim", "the guard was released"))?;
        loop {
            match Arc::try_unwrap(guard) {
                Ok(guard) => return Ok(guard),
                Err(shared) => guard = shared,
            }
            std::thread::yield_now();
        }
    }
}

fn lock_of<W: Way>(client: &Client<W>, command: &Value, name: &str) -> Result<Lock<W>> {
    builder_of(client, command, name)?.build()
}

/// The name, or for the face that excludes nobody another one each time.
fn plain(name: &str) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    match UNLOCKED.load(Ordering::Relaxed) {
        true => format!("{name}-{}", NEXT.fetch_add(1, Ordering::Relaxed)),
        false => name.to_owned(),
    }
}

fn builder_of<W: Way>(client: &Client<W>, command: &Value, name: &str) -> Result<LockBuilder<W>> {
    let in_seconds = |key: &'static str| {
        let value = command.get(key).filter(|value| !value.is_null());
        let number = |value: &Value| value.as_f64().or_else(|| value.as_str()?.parse().ok());
        value.map(|value| seconds("lock", key, number(value).unwrap_or(f64::NAN))).transpose()
    };
    let mut lock = match UNLOCKED.load(Ordering::Relaxed) {
        true => client.lock(&plain(name)),
        false => named(client, command, name),
    };
    if let Some(ttl) = in_seconds("ttl")? {
        lock = lock.ttl(ttl);
    }
    if let Some(timeout) = in_seconds("timeout")? {
        lock = lock.timeout(timeout);
    }
    if let Some(max_hold) = in_seconds("max_hold")? {
        lock = lock.max_hold(max_hold);
    }
    if let Some(least) = in_seconds("at_least_for")? {
        lock = lock.at_least_for(least);
    }
    if let Some(renew) = command["renew"].as_bool() {
        lock = lock.renew(renew);
    }
    if command["fair"] == true {
        lock = lock.fair();
    }
    if command["revocable"] == true {
        lock = lock.revocable();
    }
    if let Some(rank) = command["rank"].as_u64() {
        lock = lock.rank(u8::try_from(rank).unwrap_or(u8::MAX));
    }
    if let Some(owner) = command["owner"].as_u64() {
        lock = lock.reentrant(OwnerId(owner));
    }
    if let Some(label) = command["label"].as_str() {
        lock = lock.label(label);
    }
    if let Some(layout) = command["layout"].as_str() {
        lock = lock.layout(layout);
    }
    if let Some(format) = command["format"].as_str() {
        lock = lock.format(format);
    }
    Ok(lock)
}

/// The lock, read/write lock's part or semaphore that a command names.
fn named<W: Way>(client: &Client<W>, command: &Value, name: &str) -> LockBuilder<W> {
    let taking = |lock: LockBuilder<W>| match &command["take"] {
        Value::Null => lock,
        take => lock.take(number_of(take)),
    };
    match (&command["permits"], command["share"].as_str()) {
        (Value::Null, None) => client.lock(name),
        (Value::Null, Some("read")) => client.rwlock(name).read(),
        (Value::Null, Some(_)) => client.rwlock(name).write(),
        (permits, _) => taking(client.semaphore(name, number_of(permits))),
    }
}

/// A number of permits, or the nearest that can be given.
fn number_of(value: &Value) -> u32 {
    value.as_u64().map_or(0, |number| u32::try_from(number).unwrap_or(u32::MAX))
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
