//! `fork`: a child goes on with what it inherited, and tells what came of it.

use std::io::{PipeWriter, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use lockwright::{Client, Error, Guard, Kind, Lock, Result};
use lockwright_conformance::clock;
use serde_json::{Value, json};
use tokio::sync::oneshot;

use crate::way::Way;
use crate::{Shim, lock_of, locked};

/// Longer than any child needs: after it the child hangs.
const PATIENCE: f64 = 20.0;

pub(crate) async fn fork<W: Way>(shim: &Arc<Shim<W>>, command: &Value) -> Result<Value> {
    let text = |key: &str| command[key].as_str().unwrap_or_default();
    let client = shim.client(command)?;
    let lock = lock_of(&client, command, text("lock"))?;
    let stop = Arc::new(AtomicBool::new(false));
    if command["busy"] == true {
        keep_busy(&client, text("lock"), &stop)?;
    }
    let plan = Plan { shim: shim.clone(), client, lock, other: text("other").into(), guard: text("guard").into() };
    let times = command["times"].as_u64().unwrap_or(1);
    let (report, reported) = oneshot::channel();
    // A thread of its own: what it leaves behind in the child is only its own stack.
    std::thread::spawn(move || {
        let children: std::io::Result<Vec<Value>> = (0..times).map(|i| plan.child(i)).collect();
        stop.store(true, Ordering::SeqCst);
        drop(report.send(children));
    });
    let failed = |error: &dyn std::fmt::Display| Error::new(Kind::Internal, "shim", format!("fork: {error}"));
    let children = reported.await.map_err(|error| failed(&error))?.map_err(|error| failed(&error))?;
    Ok(json!({ "children": children }))
}

/// Other threads use the client all the time, so that it is caught in every state.
fn keep_busy<W: Way>(client: &Client<W>, name: &str, stop: &Arc<AtomicBool>) -> Result<()> {
    for i in 0..2 {
        let lock = client.lock(&format!("{name}.busy-{i}")).build()?;
        let stop = stop.clone();
        std::thread::spawn(move || {
            W::block(async {
                while !stop.load(Ordering::SeqCst) {
                    match W::acquire(&lock).await {
                        Ok(guard) => drop(W::release(guard).await),
                        Err(error) => eprintln!("busy: {error}"),
                    }
                }
            });
        });
    }
    Ok(())
}

struct Plan<W: Way> {
    shim: Arc<Shim<W>>,
    client: Client<W>,
    lock: Lock<W>,
    other: String,
    guard: String,
}

impl<W: Way> Plan<W> {
    fn child(&self, i: u64) -> std::io::Result<Value> {
        let (mut reader, writer) = std::io::pipe()?;
        // Taken before, so that no other thread can be inherited holding it.
        let mut guards = locked(&self.shim.guards);
        // SAFETY: the child calls this library, which is made for that, and what glibc makes safe there; then it ends.
        let pid = unsafe { libc::fork() };
        if pid < 0 {
            return Err(std::io::Error::last_os_error());
        }
        if pid == 0 {
            let inherited = guards.remove(&self.guard);
            drop(guards);
            self.report(inherited, i, writer);
            // SAFETY: ends the process at once; what the parent's threads had in hand is not the child's to tidy up.
            unsafe { libc::_exit(0) };
        }
        drop((guards, writer));
        let give_up = clock::after(clock::now(), PATIENCE);
        let mut status = 0;
        // SAFETY: waits for our own child, into a local variable.
        while unsafe { libc::waitpid(pid, &mut status, libc::WNOHANG) } == 0 {
            if clock::now() > give_up {
                // SAFETY: kills our own child, which nobody has waited for yet.
                unsafe { libc::kill(pid, libc::SIGKILL) };
                return Ok(json!({ "hangs": true }));
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        let mut said = String::new();
        reader.read_to_string(&mut said)?;
        let mut report: Value = serde_json::from_str(&said).unwrap_or_else(|_| json!({ "said": said }));
        report["status"] = json!(status);
        Ok(report)
    }

    fn report(&self, inherited: Option<Arc<Guard<W>>>, i: u64, mut writer: PipeWriter) {
        let code = |error: &Error| json!(error.code());
        let report = W::block(async {
            let parents = match W::try_acquire(&self.lock).await {
                Ok(None) => json!("taken"),
                Ok(Some(_)) => json!("granted"),
                Err(error) => code(&error),
            };
            let own = match self.client.lock(&format!("{}-{i}", self.other)).build() {
                Ok(lock) => match W::acquire(&lock).await {
                    Ok(guard) => W::release(guard).await.map_or_else(|error| code(&error), |out| json!(out.code())),
                    Err(error) => code(&error),
                },
                Err(error) => code(&error),
            };
            let held = inherited.as_ref().is_some_and(|guard| guard.is_held());
            let guard = match inherited.map(Arc::try_unwrap) {
                Some(Ok(guard)) => match W::release(guard).await {
                    Ok(outcome) => json!(outcome.code()),
                    Err(error) => code(&error),
                },
                _ => json!("none"),
            };
            json!({ "parents": parents, "own": own, "held": held, "guard": guard })
        });
        let _ = writer.write_all(report.to_string().as_bytes());
    }
}
