//! TLS without a socket: what came from the server goes in, and what is for it comes out.

mod ciphers;
mod exchange;
mod hashes;
mod provider;
mod sign;
mod verify;

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use lockwright_machines::address::invalid;
use lockwright_machines::error::{Error, Kind, Result};
use lockwright_machines::reach::not_tls;
use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::time_provider::TimeProvider;
use rustls::unbuffered::{ConnectionState, EncodeError, EncodeTlsData, EncryptError, UnbufferedStatus};
use rustls::{CertificateError, ClientConfig, RootCertStore};

/// What only the host has.
pub trait Host: fmt::Debug + Send + Sync + 'static {
    /// Fills these with random bytes that nobody can guess; whether it could.
    fn fill(bytes: &mut [u8]) -> bool;

    /// How long after the beginning of 1970 it is.
    fn since_1970() -> Duration;
}

/// Certificates and the key, each as PEM.
#[derive(Clone, Default)]
pub struct Certificates {
    /// Of the authorities that are trusted; without any, those that browsers trust.
    pub ca: Option<String>,
    /// The client's own, the one that its key is of first.
    pub cert: Option<String>,
    /// Its key.
    pub key: Option<String>,
}

impl fmt::Debug for Certificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Certificates(..)")
    }
}

/// What all connections to one server have in common.
#[derive(Clone, Debug)]
pub struct Tls {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl Tls {
    /// For the server at `host`, which has to show a certificate for that name.
    ///
    /// # Errors
    /// `invalid_config` for what is no such name, and for certificates or a key that cannot be used.
    pub fn new<H: Host>(host: &str, certificates: &Certificates) -> Result<Self> {
        let name = ServerName::try_from(host.to_owned())
            .map_err(|_| invalid(format!("{host:?} is not a host name that a certificate can be for")))?;
        let builder = ClientConfig::builder_with_details(provider::provider::<H>(), Arc::new(Clock::<H>(PhantomData)))
            .with_safe_default_protocol_versions()
            .map_err(broken)?
            .with_root_certificates(roots(certificates.ca.as_deref())?);
        let config = match (&certificates.cert, &certificates.key) {
            (None, None) => builder.with_no_client_auth(),
            (Some(cert), Some(key)) => {
                let chain = read("cert", cert)?;
                let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(|_| no_pem("key"))?;
                builder
                    .with_client_auth_cert(chain, key)
                    .map_err(|error| invalid("the key cannot be used with cert").caused_by(Cause(error)))?
            }
            _ => return Err(invalid("cert and key go together; give both or neither")),
        };
        Ok(Tls { config: Arc::new(config), name })
    }

    /// Begins a connection to it; [`Connection::outgoing`] has the first words.
    ///
    /// # Errors
    /// `internal`: there is no randomness.
    pub fn begin(&self) -> Result<Connection> {
        let tls = UnbufferedClientConnection::new(self.config.clone(), self.name.clone())
            .map_err(|error| refused(error, false))?;
        let mut connection =
            Connection { tls, incoming: Vec::new(), said: Vec::new(), outgoing: Vec::new(), is_open: false };
        connection.go(&[])?;
        Ok(connection)
    }
}

fn roots(given: Option<&str>) -> Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    match given {
        Some(pem) => {
            for certificate in read("ca", pem)? {
                roots.add(certificate).map_err(|error| no_pem("ca").caused_by(Cause(error)))?;
            }
        }
        None => roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned()),
    }
    Ok(roots)
}

fn read(option: &str, pem: &str) -> Result<Vec<CertificateDer<'static>>> {
    let all: std::result::Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
    match all {
        Ok(all) if !all.is_empty() => Ok(all),
        _ => Err(no_pem(option)),
    }
}

/// What was given is not quoted: it may be a key that was taken for a certificate.
fn no_pem(option: &str) -> Error {
    invalid(format!("{option} cannot be used; it must be PEM: the text of the file, not its name"))
}

#[derive(Debug)]
struct Clock<H>(PhantomData<H>);

impl<H: Host> TimeProvider for Clock<H> {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(H::since_1970()))
    }
}

/// One connection.
pub struct Connection {
    tls: UnbufferedClientConnection,
    /// What came and is no whole record yet.
    incoming: Vec<u8>,
    said: Vec<u8>,
    outgoing: Vec<u8>,
    is_open: bool,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("is_open", &self.is_open).finish_non_exhaustive()
    }
}

impl Connection {
    /// Whether the server has shown who it is, so that something can be sent to it.
    pub fn is_open(&self) -> bool {
        self.is_open
    }

    /// Takes what is for the server by now, also where it is of no use any more: it is told why.
    pub fn outgoing(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.outgoing)
    }

    /// Seals these bytes for the server, once it [is open](Self::is_open).
    ///
    /// # Errors
    /// As [`came`](Self::came).
    pub fn send(&mut self, bytes: &[u8]) -> Result<()> {
        self.go(bytes)
    }

    /// What the server says in these bytes that came.
    ///
    /// # Errors
    /// The connection is of no use: `auth` where one side does not trust the other, `protocol` for a server that does
    /// not speak TLS, or not as it should.
    pub fn came(&mut self, bytes: &[u8]) -> Result<Vec<u8>> {
        self.incoming.extend_from_slice(bytes);
        self.go(&[])?;
        Ok(std::mem::take(&mut self.said))
    }

    fn go(&mut self, to_send: &[u8]) -> Result<()> {
        loop {
            let UnbufferedStatus { mut discard, state, .. } = self.tls.process_tls_records(&mut self.incoming);
            let mut goes_on = true;
            match state {
                Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                    while let Some(record) = traffic.next_record() {
                        let record = record.map_err(|error| refused(error, true))?;
                        discard += record.discard;
                        self.said.extend_from_slice(record.payload);
                    }
                }
                Ok(ConnectionState::EncodeTlsData(data)) => encode(&mut self.outgoing, data)?,
                Ok(ConnectionState::TransmitTlsData(data)) => data.done(),
                Ok(ConnectionState::WriteTraffic(mut traffic)) => {
                    (self.is_open, goes_on) = (true, false);
                    if !to_send.is_empty() {
                        let lacks = |error: &EncryptError| match error {
                            EncryptError::InsufficientSize(lacks) => Some(lacks.required_size),
                            EncryptError::EncryptExhausted => None,
                        };
                        append(&mut self.outgoing, lacks, |room| traffic.encrypt(to_send, room)).map_err(broken)?;
                    }
                }
                // Also where the server has said that nothing more comes: its end of the connection says so again.
                Ok(_) if to_send.is_empty() => goes_on = false,
                Ok(_) => return Err(broken("there is no server yet that could hear")),
                Err(error) => {
                    self.incoming.drain(..discard);
                    self.tell_why()?;
                    return Err(refused(error, self.is_open));
                }
            }
            self.incoming.drain(..discard);
            if !goes_on {
                return Ok(());
            }
        }
    }

    /// Lets the server hear of an error. It may be asked for once: what came would be read again, and be wrong again.
    fn tell_why(&mut self) -> Result<()> {
        match self.tls.process_tls_records(&mut self.incoming).state {
            Ok(ConnectionState::EncodeTlsData(data)) => encode(&mut self.outgoing, data),
            _ => Ok(()),
        }
    }
}

fn encode(to: &mut Vec<u8>, mut data: EncodeTlsData<'_, ClientConnectionData>) -> Result<()> {
    let lacks = |error: &EncodeError| match error {
        EncodeError::InsufficientSize(lacks) => Some(lacks.required_size),
        EncodeError::AlreadyEncoded => None,
    };
    append(to, lacks, |room| data.encode(room)).map_err(broken)
}

/// Lets `write` put what it has behind what is there, once with the room that it then says it `lacks`.
fn append<E>(
    to: &mut Vec<u8>,
    lacks: impl Fn(&E) -> Option<usize>,
    mut write: impl FnMut(&mut [u8]) -> std::result::Result<usize, E>,
) -> std::result::Result<(), E> {
    let start = to.len();
    let wrote = match write(&mut []) {
        Ok(wrote) => wrote,
        Err(error) => {
            to.resize(start + lacks(&error).ok_or(error)?, 0);
            write(&mut to[start..])?
        }
    };
    to.truncate(start + wrote);
    Ok(())
}

fn broken(error: impl fmt::Display) -> Error {
    Error::new(Kind::Internal, "connect", format!("TLS cannot go on: {error}"))
}

/// What rustls found, in words that say what to do. A certificate is no secret, so its names may be told.
fn refused(error: rustls::Error, was_open: bool) -> Error {
    use rustls::Error as Tls;
    let (kind, message) = match &error {
        Tls::InvalidCertificate(found) => (Kind::Auth, distrusted(found)),
        Tls::AlertReceived(_) => (
            Kind::Auth,
            "the server ended the connection by TLS; it may want cert and key in the options of connect-with, of an \
             authority that it trusts",
        ),
        Tls::InvalidMessage(_) if !was_open => return not_tls(["redis://", "rediss://"]).caused_by(Cause(error)),
        Tls::PeerIncompatible(_) => {
            (Kind::Protocol, "the server and this client have no TLS in common; let it speak TLS 1.2 or 1.3")
        }
        Tls::FailedToGetRandomBytes | Tls::FailedToGetCurrentTime => {
            (Kind::Internal, "the host gives no randomness, or does not know what time it is")
        }
        _ => (Kind::Protocol, "what came is not TLS as it should be; see what is between here and the server"),
    };
    Error::new(kind, "connect", message).caused_by(Cause(error))
}

fn distrusted(found: &CertificateError) -> &'static str {
    use CertificateError as Found;
    match found {
        Found::NotValidForName | Found::NotValidForNameContext { .. } => {
            "the server's certificate is for another name; write the name that it is for in the address"
        }
        Found::Expired | Found::ExpiredContext { .. } => {
            "the server's certificate is no longer valid; give the server a new one, or see to this host's clock"
        }
        Found::NotValidYet | Found::NotValidYetContext { .. } => {
            "the server's certificate is not valid yet; see to this host's clock, and to the server's certificate"
        }
        // Also of one with the name of one that is.
        Found::UnknownIssuer | Found::BadSignature => {
            "the server's certificate is of an authority that is not trusted; give that as ca in the options of \
             connect-with"
        }
        _ => "the server's certificate cannot be trusted; give the server another one",
    }
}

/// Without `std` an error of rustls is none of the standard library's.
struct Cause(rustls::Error);

impl fmt::Debug for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for Cause {}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    /// A host whose randomness is told apart, and no more.
    #[derive(Debug)]
    pub(crate) struct Counted;

    impl Host for Counted {
        fn fill(bytes: &mut [u8]) -> bool {
            static NEXT: AtomicU64 = AtomicU64::new(1);
            for part in bytes.chunks_mut(8) {
                let number = NEXT.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
                part.copy_from_slice(&number.to_le_bytes()[..part.len()]);
            }
            true
        }

        fn since_1970() -> Duration {
            Duration::from_secs(1_800_000_000)
        }
    }

    #[test]
    fn nothing_is_said_to_a_server_before_it_is_known() -> Result<()> {
        let mut connection = Tls::new::<Counted>("localhost", &Certificates::default())?.begin()?;
        connection.outgoing();
        assert_eq!(connection.send(b"secret").err().map(|error| error.kind()), Some(Kind::Internal));
        assert!(connection.outgoing().is_empty());
        Ok(())
    }

    #[test]
    fn what_is_no_tls_is_refused() -> Result<()> {
        let tls = Tls::new::<Counted>("localhost", &Certificates::default())?;
        for (bytes, kind) in [
            (&b"-ERR unknown command\r\n"[..], Kind::Protocol),
            (b"HTTP/1.1 400 Bad Request\r\n\r\n", Kind::Protocol),
            (&[0x15, 3, 3, 0, 2, 2, 40], Kind::Auth),
            (&[0x16, 3, 3, 0, 4, 0x20, 0, 0, 0], Kind::Protocol),
        ] {
            let mut connection = tls.begin()?;
            assert!(!connection.outgoing().is_empty() && !connection.is_open());
            assert_eq!(connection.came(bytes).err().map(|error| error.kind()), Some(kind), "{bytes:?}");
            // It is told so, but for what it has ended itself.
            assert_eq!(connection.outgoing().first() == Some(&0x15), kind != Kind::Auth, "{bytes:?}");
        }
        Ok(())
    }
}
