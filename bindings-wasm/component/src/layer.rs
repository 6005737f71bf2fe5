//! What lies between the engine's bytes and those on a socket: nothing, or TLS in the component that has it.

use std::io;

use lockwright_machines::address::invalid;
use lockwright_machines::error::Result;
use lockwright_wasm_engine::redis::{Config, Redis};

use crate::bindings::api;
use crate::host::{self, Network, network};

/// The engine of a client whose server is reached by sockets.
pub(crate) type Engine = lockwright_wasm_engine::Engine<Redis>;

/// What TLS needs of the host.
#[cfg(feature = "tls")]
#[derive(Debug)]
struct Wasi;

#[cfg(feature = "tls")]
impl lockwright_wasm_tls::Host for Wasi {
    fn fill(bytes: &mut [u8]) -> bool {
        network::fill(bytes)
    }

    fn since_1970() -> std::time::Duration {
        network::since_1970()
    }
}

/// How the server is reached.
#[derive(Default)]
pub(crate) enum Security {
    #[default]
    Plain,
    #[cfg(feature = "tls")]
    Tls(lockwright_wasm_tls::Tls),
}

/// The same of one connection.
pub(crate) enum Layer {
    Plain,
    #[cfg(feature = "tls")]
    Tls(Box<lockwright_wasm_tls::Connection>),
}

/// A client of the server at `address`, and the sockets by which it is reached.
///
/// # Errors
/// `invalid_config` for what is wrong, and certificates that are of no use; `unsupported` for what is not to be had.
pub(crate) fn open(address: &str, certificates: api::Certificates) -> Result<(Engine, Network)> {
    let (config, security) = secured(Config::read(address, "wasm")?, certificates)?;
    Ok((Engine::new(Redis::new(config), host::random()), Network::new(security)))
}

/// The configuration, and how the server in it is reached.
fn secured(config: Config, given: api::Certificates) -> Result<(Config, Security)> {
    let api::Certificates { ca, cert, key } = given;
    #[cfg(feature = "tls")]
    if config.is_secure {
        let given = lockwright_wasm_tls::Certificates { ca, cert, key };
        let tls = lockwright_wasm_tls::Tls::new::<Wasi>(&config.host, &given)?;
        return Ok((config, Security::Tls(tls)));
    }
    let config = config.without_tls(&format!("take {}", network::WITH_TLS))?.of_redis("take redis://")?;
    if ca.is_some() || cert.is_some() || key.is_some() {
        return Err(invalid("certificates are for rediss://, the address with TLS"));
    }
    Ok((config, Security::Plain))
}

impl Security {
    /// That of a connection which begins.
    pub(crate) fn begin(&self) -> io::Result<Layer> {
        match self {
            Security::Plain => Ok(Layer::Plain),
            #[cfg(feature = "tls")]
            Security::Tls(tls) => Ok(Layer::Tls(Box::new(tls.begin().map_err(io::Error::other)?))),
        }
    }
}

impl Layer {
    /// Whether the server can be spoken to.
    pub(crate) fn is_open(&self) -> bool {
        match self {
            Layer::Plain => true,
            #[cfg(feature = "tls")]
            Layer::Tls(connection) => connection.is_open(),
        }
    }

    /// What is to be sent so that the server hears `bytes`.
    pub(crate) fn sealed(&mut self, bytes: Vec<u8>) -> io::Result<Vec<u8>> {
        match self {
            Layer::Plain => Ok(bytes),
            #[cfg(feature = "tls")]
            Layer::Tls(connection) => connection.send(&bytes).map(|()| connection.outgoing()).map_err(io::Error::other),
        }
    }

    /// What the server says by these bytes.
    pub(crate) fn came(&mut self, bytes: Vec<u8>) -> io::Result<Vec<u8>> {
        match self {
            Layer::Plain => Ok(bytes),
            #[cfg(feature = "tls")]
            Layer::Tls(connection) => connection.came(&bytes).map_err(io::Error::other),
        }
    }

    /// Takes what the layer itself has to tell the server, such as why it does not trust it.
    pub(crate) fn owed(&mut self) -> Vec<u8> {
        match self {
            Layer::Plain => Vec::new(),
            #[cfg(feature = "tls")]
            Layer::Tls(connection) => connection.outgoing(),
        }
    }
}
