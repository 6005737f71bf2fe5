//! What is known of a client, whatever its server is.

use std::sync::Arc;
use std::time::Duration;

use lockwright_machines::address::invalid;
use lockwright_machines::error::{Error, Result};
use lockwright_machines::options::{AcquireOptions, ConnectOptions, Credentials};
use lockwright_machines::uri::{SCHEMES, Uri};

/// See the [module](self).
#[derive(Debug)]
pub struct Settings {
    /// Where the server is, as it may be shown.
    pub address: Arc<str>,
    /// Where holders say that they run: the name of the host, and the process id on it.
    pub place: (Box<str>, u32),
    pub(crate) login: Login,
    pub(crate) options: ConnectOptions,
    /// Defaults of every lock.
    pub(crate) lock: AcquireOptions,
}

/// Who says that it is us; never shown.
pub(crate) struct Login(pub(crate) Credentials);

impl std::fmt::Debug for Login {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Login(..)")
    }
}

impl Settings {
    /// How long a server that does not answer is asked.
    pub fn store_timeout(&self) -> Duration {
        self.options.store_timeout
    }

    /// Those of an address all of which was read, and which is shown as `address`.
    ///
    /// # Errors
    /// `invalid_config` for options that nobody knows.
    pub(crate) fn of(uri: &Uri, address: String, login: Credentials) -> Result<Self> {
        uri.check_all_read()?;
        Ok(Settings {
            address: address.into(),
            place: ("wasm".into(), 0),
            login: Login(login),
            options: uri.connect.clone(),
            lock: uri.lock.clone(),
        })
    }
}

/// What `read` makes of an address with its options, which go before those of `connect`.
///
/// # Errors
/// `invalid_config` for what is wrong, and what `read` finds.
pub(crate) fn read<T>(address: &str, connect: ConnectOptions, read: impl FnOnce(&mut Uri) -> Result<T>) -> Result<T> {
    let mut uri = Uri::parse(address, connect)?;
    let read = one_server(&mut uri).and_then(|()| read(&mut uri));
    read.map_err(|error| lockwright_machines::uri::discreet(&uri, error))
}

fn one_server(uri: &mut Uri) -> Result<()> {
    match uri.take_other_nodes().is_empty() {
        true => Ok(()),
        false => Err(Error::unsupported("connect", "several servers (a quorum) are not to be had in WebAssembly")),
    }
}

/// The error for a scheme that is not one of `those` to be had here.
pub(crate) fn elsewhere(scheme: &str, those: &str, advice: &str) -> Error {
    if SCHEMES.contains(&scheme) {
        let message = format!("{scheme}:// is not to be had in WebAssembly by this package; {advice}");
        return Error::unsupported("connect", message);
    }
    invalid(format!("there is no store for {scheme}://; here there are: {those}"))
}

/// Refuses the files of TLS, of which there are none in WebAssembly.
///
/// # Errors
/// `unsupported`, or `invalid_config` for an address without TLS.
pub(crate) fn without_files(options: &ConnectOptions, is_secure: bool) -> Result<()> {
    if options.ca.is_none() && options.cert.is_none() && options.key.is_none() {
        return Ok(());
    }
    if !is_secure {
        return Err(invalid("ca, cert and key are for an address with TLS"));
    }
    let message = "ca, cert and key name files, and there are none in WebAssembly; where there is TLS \
                   certificates are given as text";
    Err(Error::unsupported("connect", message))
}
