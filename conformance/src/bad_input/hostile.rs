//! A server that says what it should not, on a port of this host.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use serde::Deserialize;

/// What it does. Characters up to U+00FF are the bytes of that number.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Script {
    /// Greets as a Redis server does, and then answers scripts with `says`; otherwise says that at the first byte.
    pub(super) greets: bool,
    pub(super) says: String,
    /// Goes on with this for ever.
    pub(super) floods: String,
    /// Sends everything back instead.
    pub(super) echoes: bool,
    /// Answers to single commands.
    pub(super) answers: BTreeMap<String, String>,
    /// Ends the connection then.
    pub(super) closes: bool,
    /// Keeps silent then, instead of saying it again.
    pub(super) stalls: bool,
}

impl Default for Script {
    fn default() -> Self {
        let (says, floods, answers) = Default::default();
        Script { greets: true, says, floods, echoes: false, answers, closes: false, stalls: false }
    }
}

/// The server. Dropping it ends its connections.
#[derive(Debug)]
pub(super) struct Hostile {
    pub(super) port: u16,
    ended: Arc<AtomicBool>,
    connections: Arc<Mutex<Vec<TcpStream>>>,
}

impl Hostile {
    /// A server that does so, and knows the password that its clients send.
    pub(super) fn start(script: &Script, secret: &str) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let port = listener.local_addr()?.port();
        let hostile = Hostile { port, ended: Arc::default(), connections: Arc::default() };
        let (ended, connections, script) = (hostile.ended.clone(), hostile.connections.clone(), script.knowing(secret));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if ended.load(Ordering::SeqCst) {
                    return;
                }
                if let Ok(copy) = stream.try_clone() {
                    connections.lock().unwrap_or_else(PoisonError::into_inner).push(copy);
                }
                let script = script.clone();
                // Whatever goes wrong, it was the other side's decision.
                std::thread::spawn(move || drop(script.play(stream)));
            }
        });
        Ok(hostile)
    }
}

impl Drop for Hostile {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::SeqCst);
        for connection in self.connections.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            drop(connection.shutdown(Shutdown::Both));
        }
        // Wakes whoever accepts.
        drop(TcpStream::connect(("127.0.0.1", self.port)));
    }
}

impl Script {
    fn knowing(&self, secret: &str) -> Self {
        let mut script = self.clone();
        for text in script.answers.values_mut().chain([&mut script.says]) {
            *text = text.replace("{secret}", secret);
        }
        script
    }

    fn play(&self, mut stream: TcpStream) -> io::Result<()> {
        if self.echoes {
            let mut bytes = [0; 4096];
            loop {
                let count = stream.read(&mut bytes)?;
                if count == 0 {
                    return Ok(());
                }
                stream.write_all(&bytes[..count])?;
            }
        }
        if !self.greets {
            stream.read_exact(&mut [0])?;
            return self.end(&mut stream);
        }
        let mut input = io::BufReader::new(stream.try_clone()?);
        loop {
            let words = command(&mut input)?;
            let name = words.first().map(String::as_str).unwrap_or_default();
            let answer = match (self.answers.get(name), name) {
                (Some(answer), _) => latin1(answer),
                (None, "AUTH" | "SELECT") => b"+OK\r\n".to_vec(),
                (None, "CLIENT") => b"-ERR no\r\n".to_vec(),
                (None, "TIME") => b"*2\r\n$10\r\n1900000000\r\n$1\r\n0\r\n".to_vec(),
                (None, "INFO") => b"-NOPERM no\r\n".to_vec(),
                (None, "PING") => b"+PONG\r\n".to_vec(),
                (None, "SUBSCRIBE") => {
                    let channel = words.get(1).map(String::as_str).unwrap_or_default();
                    format!("*3\r\n$9\r\nsubscribe\r\n${}\r\n{channel}\r\n:1\r\n", channel.len()).into_bytes()
                }
                _ if self.closes || self.stalls || !self.floods.is_empty() => return self.end(&mut stream),
                _ => latin1(&self.says),
            };
            stream.write_all(&answer)?;
        }
    }

    fn end(&self, stream: &mut TcpStream) -> io::Result<()> {
        stream.write_all(&latin1(&self.says))?;
        if !self.floods.is_empty() {
            let flood = latin1(&self.floods).repeat((1 << 16) / self.floods.len());
            loop {
                stream.write_all(&flood)?;
            }
        }
        if self.closes {
            return stream.shutdown(Shutdown::Both);
        }
        io::copy(stream, &mut io::sink()).map(drop)
    }
}

fn latin1(text: &str) -> Vec<u8> {
    text.chars().map(|c| u8::try_from(u32::from(c)).unwrap_or(b'?')).collect()
}

/// One command: a list of texts.
fn command(input: &mut impl io::BufRead) -> io::Result<Vec<String>> {
    let line = |input: &mut dyn io::BufRead, sign: char| {
        let mut line = String::new();
        input.read_line(&mut line)?;
        let number = line.trim_end().strip_prefix(sign).and_then(|number| number.parse::<usize>().ok());
        number.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))
    };
    let count = line(input, '*')?;
    let mut words = Vec::new();
    for _ in 0..count {
        let mut bytes = vec![0; line(input, '$')? + 2];
        input.read_exact(&mut bytes)?;
        bytes.truncate(bytes.len() - 2);
        words.push(String::from_utf8_lossy(&bytes).into_owned());
    }
    Ok(words)
}
