//! What one task at a time has, in the order in which they come.

#![allow(unreachable_pub, reason = "shared")]

use lockwright::{Client, Error, Guard};

#[derive(Clone, Copy, Debug)]
pub enum Ordered {
    Fair,
    Permit,
    Writer,
}

impl Ordered {
    pub const ALL: [Ordered; 3] = [Ordered::Fair, Ordered::Permit, Ordered::Writer];

    pub async fn acquire(self, client: &Client, name: &str) -> Result<Guard, Error> {
        match self {
            Ordered::Fair => client.lock(name).fair().acquire().await,
            Ordered::Permit => client.semaphore(name, 1).acquire().await,
            Ordered::Writer => client.rwlock(name).write().acquire().await,
        }
    }
}
