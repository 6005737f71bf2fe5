//! `fork` and `prefork`: children go on with what they inherited, and tell what came of it.

use std::io::{self, PipeReader, Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lockwright::{Client, Error, Kind, Lock, Result};
use lockwright_conformance::clock;
use lockwright_conformance::record::Log;
use serde_json::{Value, json};
use tokio::sync::oneshot;

use crate::held::Held;
use crate::way::Way;
use crate::work::{Task, broken};
use crate::{Shim, lock_of, locked};

pub(crate) async fn fork<W: Way>(shim: &Arc<Shim<W>>, command: &Value) -> Result<Value> {
    let text = |key: &str| command[key].as_str().unwrap_or_default().to_owned();
    let client = shim.client(command)?;
    let lock = lock_of(&client, command, &text("lock"))?;
    let stop = Arc::new(AtomicBool::new(false));
    if command["busy"] == true {
        keep_busy(&client, &text("lock"), &stop)?;
    }
    let (shim, other, guard) = (shim.clone(), text("other"), text("guard"));
    let times = command["times"].as_u64().unwrap_or(1);
    let children = aside(move || {
        let tell = |i| {
            let child = Child::fork(&shim, &guard, |inherited| {
                W::block(report(&client, &lock, &format!("{other}-{i}"), inherited))
            })?;
            child.wait(20.0)
        };
        let children: io::Result<Vec<Value>> = (0..times).map(tell).collect();
        stop.store(true, Ordering::SeqCst);
        children
    });
    children.await.map(|children| json!({ "children": children }))
}

pub(crate) async fn prefork<W: Way>(shim: &Arc<Shim<W>>, command: &Value) -> Result<Value> {
    let text = |key: &str| command[key].as_str().unwrap_or_default();
    let (shim, client) = (shim.clone(), shim.client(command)?);
    let log = Arc::new(Log::open(Path::new(text("log"))).map_err(|error| broken("log", error))?);
    let task = |i| Task::new(client.clone(), command, format!("{}-child-{i}", text("name")), &log);
    let tasks: Vec<_> = (0..command["children"].as_u64().unwrap_or(1)).map(task).collect::<Result<_>>()?;
    let increments = command["increments"].as_u64().unwrap_or(1);
    let children = aside(move || {
        let fork = |task: Task<W>| {
            Child::fork(&shim, "", |_: Option<Arc<Held<W>>>| match W::block(task.run(increments)) {
                Ok(_) => json!({}),
                Err(error) => json!({ "code": error.code(), "message": error.to_string() }),
            })
        };
        let children: Vec<Child> = tasks.into_iter().map(fork).collect::<io::Result<_>>()?;
        children.into_iter().map(|child| child.wait(60.0)).collect::<io::Result<Vec<Value>>>()
    });
    children.await.map(|children| json!({ "children": children }))
}

/// In a thread of its own, so that what is left behind in a child is only that thread's stack.
async fn aside<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> Result<T> {
    let failed = |error: &dyn std::fmt::Display| Error::new(Kind::Internal, "shim", format!("fork: {error}"));
    let (report, reported) = oneshot::channel();
    std::thread::spawn(|| drop(report.send(work())));
    reported.await.map_err(|error| failed(&error))?.map_err(|error| failed(&error))
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

/// What a child finds.
async fn report<W: Way>(client: &Client<W>, lock: &Lock<W>, other: &str, inherited: Option<Arc<Held<W>>>) -> Value {
    let code = |error: &Error| json!(error.code());
    let parents = match W::try_acquire(lock).await {
        Ok(None) => json!("taken"),
        Ok(Some(_)) => json!("granted"),
        Err(error) => code(&error),
    };
    let own = match client.lock(other).build() {
        Ok(lock) => match W::acquire(&lock).await {
            Ok(guard) => W::release(guard).await.map_or_else(|error| code(&error), |outcome| json!(outcome.code())),
            Err(error) => code(&error),
        },
        Err(error) => code(&error),
    };
    let held = inherited.as_ref().is_some_and(|guard| guard.is_held());
    let guard = match inherited.map(Arc::try_unwrap) {
        Some(Ok(held)) => held.release().await.map_or_else(|error| code(&error), |outcome| json!(outcome.code())),
        _ => json!("none"),
    };
    json!({ "parents": parents, "own": own, "held": held, "guard": guard })
}

struct Child {
    pid: libc::pid_t,
    report: PipeReader,
}

impl Child {
    /// Forks. The child does `work`, handed the guard of that name, reports what it gives and ends.
    fn fork<W: Way>(shim: &Shim<W>, guard: &str, work: impl FnOnce(Option<Arc<Held<W>>>) -> Value) -> io::Result<Self> {
        let (report, mut writer) = io::pipe()?;
        // Taken before, so that no other thread can be inherited holding it.
        let mut guards = locked(&shim.guards);
        // SAFETY: the child calls this library, which is made for that, and what glibc makes safe there; then it ends.
        let pid = unsafe { libc::fork() };
        if pid < 0 {
            return Err(io::Error::last_os_error());
        }
        if pid == 0 {
            let inherited = guards.remove(guard);
            drop(guards);
            let said = work(inherited).to_string();
            let status = i32::from(writer.write_all(said.as_bytes()).is_err());
            // SAFETY: ends the process at once; what the parent's threads had in hand is not the child's to tidy up.
            unsafe { libc::_exit(status) };
        }
        Ok(Child { pid, report })
    }

    /// Its report, or that it hangs.
    fn wait(mut self, patience: f64) -> io::Result<Value> {
        let give_up = clock::after(clock::now(), patience);
        let mut status = 0;
        // SAFETY: waits for our own child, into a local variable.
        while unsafe { libc::waitpid(self.pid, &mut status, libc::WNOHANG) } == 0 {
            if clock::now() > give_up {
                // SAFETY: ends our own child, which nobody has waited for yet.
                unsafe { libc::kill(self.pid, libc::SIGKILL) };
                // SAFETY: as above.
                unsafe { libc::waitpid(self.pid, &mut status, 0) };
                return Ok(json!({ "hangs": true }));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        let mut said = String::new();
        self.report.read_to_string(&mut said)?;
        let mut report: Value = serde_json::from_str(&said).unwrap_or_else(|_| json!({ "said": said }));
        report["status"] = json!(status);
        Ok(report)
    }
}
