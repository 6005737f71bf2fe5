//! The lock server of a Durable Object: [`Server`] with JavaScript around it, which has the sockets and the disk.

use std::sync::Arc;

use js_sys::{Array, Uint8Array};
use lockwright_lock_server as server;
use lockwright_machines::time::StoreTime;
use lockwright_machines::written::Written;
use wasm_bindgen::prelude::*;

#[wasm_bindgen]
extern "C" {
    /// Where records lie.
    #[derive(Debug)]
    pub type Disk;

    /// The word and the text of a record; nothing where there is none.
    #[wasm_bindgen(method)]
    fn load(this: &Disk, key: &str) -> Option<Array>;

    #[wasm_bindgen(method)]
    fn keep(this: &Disk, key: &str, kind: &str, record: &str);

    #[wasm_bindgen(method)]
    fn remove(this: &Disk, key: &str);

    /// Of each record its key, word and text, one behind the other.
    #[wasm_bindgen(method)]
    fn page(this: &Disk, after: &str, count: u32) -> Array;
}

impl server::Storage for Disk {
    fn load(&self, key: &str) -> Option<Written> {
        let parts = Disk::load(self, key)?;
        Some(Written::of(text(&parts, 0), text(&parts, 1)))
    }

    fn keep(&mut self, key: &str, written: &Written) {
        Disk::keep(self, key, &written.kind, &written.record);
    }

    fn remove(&mut self, key: &str) {
        Disk::remove(self, key);
    }

    fn page(&self, after: &str, count: usize) -> Vec<(Arc<str>, Written)> {
        let parts = Disk::page(self, after, u32::try_from(count).unwrap_or(u32::MAX));
        let at = |at| (text(&parts, at), Written::of(text(&parts, at + 1), text(&parts, at + 2)));
        (0..parts.length()).step_by(3).map(at).collect()
    }
}

fn text(parts: &Array, at: u32) -> Arc<str> {
    parts.get(at).as_string().unwrap_or_default().into()
}

/// The server.
#[wasm_bindgen]
#[derive(Debug)]
pub struct Server {
    server: server::Server,
    disk: Disk,
}

#[wasm_bindgen]
impl Server {
    /// One whose records lie on this disk.
    #[wasm_bindgen(constructor)]
    pub fn new(disk: Disk) -> Server {
        Server { server: server::Server::new(), disk }
    }

    /// A connection is there that listened on a channel before.
    pub fn listens(&mut self, connection: u32, channel: &str) {
        self.server.listens(connection, channel);
    }

    /// The channels on which a connection listens.
    pub fn channels(&self, connection: u32) -> Vec<String> {
        self.server.channels(connection).map(str::to_owned).collect()
    }

    /// A connection ended.
    pub fn ended(&mut self, connection: u32) {
        self.server.ended(connection);
    }

    /// These commands came at that time, in milliseconds since 1970: connections and what is to be sent on each, one
    /// behind the other. Nothing where they are no commands.
    pub fn came(&mut self, connection: u32, bytes: &[u8], now: f64) -> Option<Array> {
        let sent = self.server.came(connection, bytes, time(now), &mut self.disk).ok()?;
        let all = Array::new();
        for (connection, bytes) in sent {
            all.push(&connection.into());
            all.push(&Uint8Array::from(&*bytes));
        }
        Some(all)
    }

    /// Removes what nobody used for long; whether anything is left.
    pub fn sweep(&mut self, now: f64) -> bool {
        self.server.sweep(time(now), &mut self.disk)
    }

    /// How many milliseconds that is.
    #[wasm_bindgen(getter)]
    pub fn idle(&self) -> f64 {
        server::IDLE.as_millis() as f64
    }
}

fn time(millis: f64) -> StoreTime {
    StoreTime((millis * 1_000.0) as i64)
}
