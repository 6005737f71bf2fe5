//! TLS, as the options `ca`, `cert` and `key` want it.

use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};

use super::address::{identity, invalid, unusable};
use crate::error::{Error, Kind, Result};
use crate::options::ConnectOptions;

/// How a server is to be authenticated, and we to it.
#[derive(Clone)]
pub(super) struct Tls {
    pub(super) config: Arc<ClientConfig>,
    pub(super) name: ServerName<'static>,
}

/// What all connections of a client share.
///
/// # Errors
/// `invalid_config` for a file that cannot be used, or one that is missing.
pub(super) fn config(options: &ConnectOptions) -> Result<Arc<ClientConfig>> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::new(Kind::Internal, "connect", "TLS cannot be set up").caused_by(error))?
        .with_root_certificates(roots(options.ca.as_deref())?);
    let config = match identity(options)? {
        None => builder.with_no_client_auth(),
        Some((cert, key)) => {
            let chain = certificates("cert", cert)?;
            let key = PrivateKeyDer::from_pem_file(key).map_err(|error| unusable("key", key).caused_by(error))?;
            builder
                .with_client_auth_cert(chain, key)
                .map_err(|error| invalid("cert and key do not fit together").caused_by(error))?
        }
    };
    Ok(Arc::new(config))
}

/// Whom a server's certificate has to be for.
///
/// # Errors
/// `invalid_config` for a host that none can be for.
pub(super) fn name(host: &str) -> Result<ServerName<'static>> {
    match host.parse::<IpAddr>() {
        Ok(ip) => Ok(ServerName::from(ip)),
        Err(_) => ServerName::try_from(host.to_owned())
            .map_err(|_| invalid(format!("{host:?} is not a host name that a certificate can be for"))),
    }
}

fn roots(file: Option<&str>) -> Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    match file {
        Some(file) => {
            for certificate in certificates("ca", file)? {
                roots.add(certificate).map_err(|error| unusable("ca", file).caused_by(error))?;
            }
        }
        None => {
            // Systems hold certificates that nobody can read; what counts is whether any are left.
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    if roots.is_empty() {
        return Err(invalid("this system has no certificates to trust; give a file of them as the option ca"));
    }
    Ok(roots)
}

fn certificates(option: &str, file: &str) -> Result<Vec<CertificateDer<'static>>> {
    let all: std::result::Result<Vec<_>, _> =
        CertificateDer::pem_file_iter(Path::new(file)).and_then(|certificates| certificates.collect());
    match all {
        Ok(all) if !all.is_empty() => Ok(all),
        Ok(_) => Err(invalid(format!("the file {file:?} of the option {option} has no certificate in it"))),
        Err(error) => Err(unusable(option, file).caused_by(error)),
    }
}
