//! Ways to servers that can be shut: nothing passes then, and nobody is told. What was on its way comes late, as after
//! a partition.

#![allow(unreachable_pub, dead_code, reason = "each test uses its part")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{Read, Result, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::Duration;

/// Whether a connection is shut now.
type IsShut = Arc<dyn Fn() -> bool + Send + Sync>;

/// What is made of the first bytes that somebody who dials says.
type Greeting = Arc<dyn Fn(&mut [u8]) + Send + Sync>;

/// One way to a server's port, for whoever takes it.
pub struct Gate {
    pub port: u16,
    is_shut: Arc<AtomicBool>,
}

impl Gate {
    pub fn before(server: u16) -> Self {
        let is_shut = Arc::<AtomicBool>::default();
        let asked = is_shut.clone();
        let shuts = move |_| -> IsShut {
            let asked = asked.clone();
            Arc::new(move || asked.load(Ordering::SeqCst))
        };
        let port = hand_on(server, shuts, Arc::new(|_| ()));
        Gate { port, is_shut }
    }

    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub fn shut(&self) {
        self.is_shut.store(true, Ordering::SeqCst);
    }

    pub fn open(&self) {
        self.is_shut.store(false, Ordering::SeqCst);
    }
}

/// The ways between the members of a cluster, any of whom can be cut off: nothing passes then from or to that one.
pub struct Between {
    cut: Arc<Mutex<BTreeSet<usize>>>,
    /// What process a member is, each time that it is asked.
    process: Arc<dyn Fn(usize) -> Option<u32> + Send + Sync>,
    members: usize,
    /// The gates at which members are to be found who say themselves where, by what they say.
    told: Arc<Mutex<BTreeMap<String, String>>>,
}

impl Between {
    pub fn new(members: usize, process: impl Fn(usize) -> Option<u32> + Send + Sync + 'static) -> Self {
        Between { cut: Arc::default(), process: Arc::new(process), members, told: Arc::default() }
    }

    /// The port at which the others find what `member` serves them at `port`.
    pub fn gate(&self, member: usize, port: u16) -> u16 {
        self.gate_with(member, port, Arc::new(|_| ()))
    }

    /// The same where a member that dials says its own address first, and is dialled there from then on: it says that
    /// of its gate instead.
    pub fn gate_of_greetings(&self, member: usize, port: u16) -> u16 {
        let told = self.told.clone();
        let gate = self.gate_with(member, port, Arc::new(move |bytes| rename(&told.lock().unwrap(), bytes)));
        let address = |port| format!("127.0.0.1:{port}");
        self.told.lock().unwrap().insert(address(port), address(gate));
        gate
    }

    fn gate_with(&self, member: usize, port: u16, greeting: Greeting) -> u16 {
        let (cut, process, members) = (self.cut.clone(), self.process.clone(), self.members);
        let shuts = move |dialler| -> IsShut {
            let (cut, process, known) = (cut.clone(), process.clone(), OnceLock::new());
            Arc::new(move || {
                // A copy: others go on while it is found out who this is.
                let cut = cut.lock().unwrap().clone();
                if cut.is_empty() || cut.contains(&member) {
                    return !cut.is_empty();
                }
                // Who begins has not said yet, when it first dials, which process it is.
                let is_its = |other: &usize| process(*other).is_some_and(|process| has_port(process, dialler));
                let who = known.get().copied().or_else(|| (0..members).find(is_its));
                who.is_some_and(|who| cut.contains(known.get_or_init(|| who)))
            })
        };
        hand_on(port, shuts, greeting)
    }

    pub fn cut_off(&self, member: usize) {
        self.cut.lock().unwrap().insert(member);
    }

    pub fn heal(&self) {
        self.cut.lock().unwrap().clear();
    }
}

/// Whether a process has a connection of its own from this port of the machine.
fn has_port(process: u32, port: u16) -> bool {
    let sockets: Vec<_> = ["tcp", "tcp6"].iter().flat_map(|table| sockets(table, port)).collect();
    let descriptors = fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
    let mut opened = descriptors.filter_map(|descriptor| fs::read_link(descriptor.path()).ok());
    opened.any(|file| sockets.iter().any(|socket| file.as_os_str() == &**socket))
}

/// The sockets with that port, as descriptors of them are shown: connections to several ports may share it.
fn sockets(table: &str, port: u16) -> Vec<String> {
    let (table, port) = (fs::read_to_string(format!("/proc/net/{table}")).unwrap_or_default(), format!(":{port:04X}"));
    let rows = table.lines().map(|row| row.split_whitespace().collect::<Vec<_>>());
    let of = rows.filter(|row| row.get(1).is_some_and(|local| local.ends_with(&port)));
    of.filter_map(|row| Some(format!("socket:[{}]", row.get(9)?))).collect()
}

/// Puts other addresses in the place of those that are written there, of the same length.
fn rename(names: &BTreeMap<String, String>, bytes: &mut [u8]) {
    for (name, other) in names {
        assert_eq!(name.len(), other.len(), "the length is written before it");
        if let Some(at) = bytes.windows(name.len()).position(|part| part == name.as_bytes()) {
            return bytes[at..at + name.len()].copy_from_slice(other.as_bytes());
        }
    }
}

/// A port from which all is handed on to `server`, and back; of the port that somebody dials from, `shuts` makes what
/// says whether that connection is shut.
fn hand_on(server: u16, shuts: impl Fn(u16) -> IsShut + Send + 'static, greeting: Greeting) -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let Ok(from) = client.peer_addr() else { continue };
            let (is_shut, greeting) = (shuts(from.port()), greeting.clone());
            thread::spawn(move || drop(connect(&is_shut, client, server, greeting)));
        }
    });
    port
}

/// A server hears of nobody who dials while it is cut off: whoever says nothing could keep all others waiting there.
fn connect(is_shut: &IsShut, client: TcpStream, server: u16, greeting: Greeting) -> Result<()> {
    wait(is_shut);
    let server = TcpStream::connect((Ipv4Addr::LOCALHOST, server))?;
    let nothing: Greeting = Arc::new(|_| ());
    for (from, to, greeting) in [(&client, &server, greeting), (&server, &client, nothing)] {
        let (is_shut, from, to) = (is_shut.clone(), from.try_clone()?, to.try_clone()?);
        to.set_nodelay(true)?;
        thread::spawn(move || drop(pass(&is_shut, from, to, &greeting)));
    }
    Ok(())
}

fn wait(is_shut: &IsShut) {
    while is_shut() {
        thread::sleep(Duration::from_millis(10));
    }
}

fn pass(is_shut: &IsShut, mut from: TcpStream, mut to: TcpStream, greeting: &Greeting) -> Result<()> {
    let (mut bytes, mut greeting) = ([0; 16 * 1024], Some(greeting));
    loop {
        let count = from.read(&mut bytes);
        wait(is_shut);
        match count {
            Ok(count @ 1..) => {
                greeting.take().inspect(|greeting| greeting(&mut bytes[..count]));
                to.write_all(&bytes[..count])?;
            }
            Ok(_) | Err(_) => return to.shutdown(Shutdown::Write),
        }
    }
}
