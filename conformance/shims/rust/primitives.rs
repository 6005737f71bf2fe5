//! The commands about what is made of locks: segments, jobs that one does, elections.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use lockwright::election::{Election, Leader};
use lockwright::guarantee::Requirements;
use lockwright::once::Found;
use lockwright::options::seconds;
use lockwright::striped::Striped;
use lockwright::{Error, Kind, Result};
use serde_json::{Value, json};

use crate::held::Held;
use crate::way::Way;
use crate::work::{broken, replace};
use crate::{Done, Shim, builder_of, done, lock_of, locked, number_of, plain};

/// What is insisted on, by its names.
pub(crate) fn requirements(names: &Value) -> Result<Requirements> {
    let mut wanted = Requirements::default();
    for name in names.as_array().into_iter().flatten() {
        let dial = match name.as_str().unwrap_or_default() {
            "rwlock" => &mut wanted.rwlock,
            "semaphore" => &mut wanted.semaphore,
            "latch" => &mut wanted.latch,
            "barrier" => &mut wanted.barrier,
            "fenced" => &mut wanted.fenced,
            "fair" => &mut wanted.fair,
            "reentrant" => &mut wanted.reentrant,
            "shared" => &mut wanted.shared,
            "push" => &mut wanted.push,
            "failover_safe" => &mut wanted.failover_safe,
            other => return Err(Error::new(Kind::Unsupported, "shim", format!("nobody requires {other:?}"))),
        };
        *dial = true;
    }
    Ok(wanted)
}

impl<W: Way> Shim<W> {
    /// The same one for each command: what is sold out is known to it alone.
    pub(crate) fn striped(&self, command: &Value) -> Result<Striped<W>> {
        let text = |key: &str| command[key].as_str().unwrap_or_default();
        let segments = command["segments"].as_u64().unwrap_or_default() as usize;
        let key = format!("{} {} {segments}", text("client"), text("lock"));
        if let Some(known) = locked(&self.stocks).get(&key) {
            return Ok(known.clone());
        }
        let client = self.client(command)?;
        let options = builder_of(&client, command, text("lock"))?.current_options().clone();
        let striped = client.striped_with(&plain(text("lock")), segments, &options)?;
        locked(&self.stocks).insert(key, striped.clone());
        Ok(striped)
    }

    /// The segment of a key, or any.
    pub(crate) async fn segment(&self, command: &Value) -> Result<Option<Done>> {
        let striped = self.striped(command)?;
        let (index, held) = match command["key"].as_str() {
            Some(key) => (striped.index_for(key), Held::One(W::acquire(striped.for_key(key)).await?)),
            None => match W::any(&striped, command["timeout"].as_f64()).await? {
                Some(segment) => (segment.index(), Held::Part(segment)),
                None => return done(json!({ "none": true })),
            },
        };
        let mut kept = self.keep(command["guard"].as_str().unwrap_or_default(), held);
        kept.value["index"] = json!(index);
        Ok(Some(kept))
    }

    pub(crate) async fn once(&self, command: &Value) -> Result<Value> {
        let text = |key: &str| command[key].as_str().unwrap_or_default();
        let client = self.client(command)?;
        let options = builder_of(&client, command, text("lock"))?.current_options().clone();
        let job = client.once_with(&plain(text("lock")), &options)?;
        let job = if command["waits"] == true { job.waiting() } else { job };
        let gate = command["gate"].as_str().map(|gate| lock_of(&client, command, gate)).transpose()?;
        let (file, made) = (Path::new(text("value")).to_owned(), Arc::new(AtomicBool::new(false)));
        let (place, makes) = (file.clone(), made.clone());
        let make = Box::pin(async move {
            makes.store(true, Ordering::SeqCst);
            if let Some(gate) = gate {
                let _ = W::release(W::acquire(&gate).await?).await?;
            }
            let value = match look(&place)? {
                Found::Fresh(value) | Found::Stale(value) => value + 1,
                Found::Missing => 1,
            };
            replace(&place, "making", &value.to_string()).map_err(|error| broken("value", error))?;
            Ok(value)
        });
        let value = W::once(&job, Box::new(move || look(&file)), make).await?;
        Ok(json!({ "value": value, "made": made.load(Ordering::SeqCst) }))
    }

    /// Leads until the gate is free.
    pub(crate) async fn lead(&self, command: &Value) -> Result<Value> {
        let text = |key: &str| command[key].as_str().unwrap_or_default();
        let gate = lock_of(&self.client(command)?, &json!({}), text("gate"))?;
        let reigns = Arc::new(AtomicU32::new(0));
        let token = W::lead(&self.election(command)?, text("proclaims"), gate, reigns.clone()).await?;
        Ok(json!({ "token": token, "reigns": reigns.load(Ordering::SeqCst) }))
    }

    pub(crate) async fn latch(&self, command: &Value) -> Result<Value> {
        let name = command["lock"].as_str().unwrap_or_default();
        let latch = self.client(command)?.latch(name, number_of(&command["count"])).build()?;
        Ok(match command["asks"].as_str().unwrap_or_default() {
            "wait" => {
                let timeout =
                    command["timeout"].as_f64().map(|timeout| seconds("latch", "timeout", timeout)).transpose()?;
                W::wait_within(&latch, timeout).await?.into()
            }
            "count_down" => W::count_down(&latch).await?.into(),
            "count" => W::count(&latch).await?.into(),
            "try_set_count" => W::try_set_count(&latch, number_of(&command["to"])).await?.into(),
            other => return Err(Error::new(Kind::Unsupported, "shim", format!("nobody asks a latch for {other:?}"))),
        })
    }

    pub(crate) async fn barrier(&self, command: &Value) -> Result<Value> {
        let span = |name: &'static str| command[name].as_f64().map(|span| seconds("barrier", name, span)).transpose();
        let name = command["lock"].as_str().unwrap_or_default();
        let builder = self.client(command)?.barrier(name, number_of(&command["parties"]));
        let barrier = match span("ttl")? {
            Some(ttl) => builder.ttl(ttl).build()?,
            None => builder.build()?,
        };
        if command["asks"] == "waiting" {
            return Ok(json!({ "waiting": W::waiting(&barrier).await? }));
        }
        let (timeout, mut index, mut generations) = (span("timeout")?, None, Vec::new());
        for _ in 0..command["times"].as_u64().unwrap_or(1) {
            let Some(arrival) = W::pass_within(&barrier, timeout).await? else { return Ok(json!({ "passed": false })) };
            index = Some(arrival.index);
            generations.push(arrival.generation);
        }
        Ok(json!({ "passed": true, "index": index, "generations": generations }))
    }

    pub(crate) fn election(&self, command: &Value) -> Result<Election<W>> {
        let client = self.client(command)?;
        let name = command["lock"].as_str().unwrap_or_default();
        let options = builder_of(&client, command, name)?.current_options().clone();
        Ok(client.election_with(&plain(name), &options))
    }
}

/// The value that jobs make: a number, and whether it is stale.
fn look(file: &Path) -> Result<Found<u64>> {
    let text = match std::fs::read_to_string(file) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Found::Missing),
        text => text.map_err(|error| broken("value", error))?,
    };
    let (number, stale) = text.split_once(' ').unwrap_or((&text, ""));
    let number = number.parse().map_err(|_| Error::new(Kind::Internal, "shim", format!("{text:?} is no value")))?;
    Ok(if stale.is_empty() { Found::Fresh(number) } else { Found::Stale(number) })
}

pub(crate) fn shown(leader: Option<Leader>) -> Value {
    let shown = leader.map(|Leader { card, token, .. }| {
        json!({ "proclaims": card.label, "pid": card.pid, "language": card.language, "token": token })
    });
    json!({ "leader": shown })
}
