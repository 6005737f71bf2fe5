//! The client's own key: what it shows that its certificate is its own by.

use std::sync::Arc;

use p256::ecdsa::signature::Signer as _;
use p256::pkcs8::DecodePrivateKey;
use rustls::pki_types::{PrivateKeyDer, SubjectPublicKeyInfoDer, alg_id};
use rustls::sign::{Signer, SigningKey, public_key_to_spki};
use rustls::{Error, SignatureAlgorithm, SignatureScheme};

/// The key in `der`.
///
/// # Errors
/// It is none of P-256 or P-384.
pub(crate) fn key(der: &PrivateKeyDer<'_>) -> Result<Arc<dyn SigningKey>, Error> {
    if let Some(key) = read(der, p256::SecretKey::from_pkcs8_der, p256::SecretKey::from_sec1_der) {
        return Ok(Arc::new(Own::P256(Arc::new(key.into()))));
    }
    if let Some(key) = read(der, p384::SecretKey::from_pkcs8_der, p384::SecretKey::from_sec1_der) {
        return Ok(Arc::new(Own::P384(Arc::new(key.into()))));
    }
    Err(Error::General("it has to be a key of P-256 or P-384".into()))
}

fn read<K, P, S>(
    der: &PrivateKeyDer<'_>,
    pkcs8: fn(&[u8]) -> Result<K, P>,
    sec1: fn(&[u8]) -> Result<K, S>,
) -> Option<K> {
    match der {
        PrivateKeyDer::Pkcs8(der) => pkcs8(der.secret_pkcs8_der()).ok(),
        PrivateKeyDer::Sec1(der) => sec1(der.secret_sec1_der()).ok(),
        _ => None,
    }
}

#[derive(Clone)]
enum Own {
    P256(Arc<p256::ecdsa::SigningKey>),
    P384(Arc<p384::ecdsa::SigningKey>),
}

impl std::fmt::Debug for Own {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Own(..)")
    }
}

impl SigningKey for Own {
    fn choose_scheme(&self, offered: &[SignatureScheme]) -> Option<Box<dyn Signer>> {
        offered.contains(&self.scheme()).then(|| Box::new(self.clone()) as Box<dyn Signer>)
    }

    fn public_key(&self) -> Option<SubjectPublicKeyInfoDer<'_>> {
        Some(match self {
            Own::P256(key) => {
                public_key_to_spki(&alg_id::ECDSA_P256, key.verifying_key().to_sec1_point(false).as_bytes())
            }
            Own::P384(key) => {
                public_key_to_spki(&alg_id::ECDSA_P384, key.verifying_key().to_sec1_point(false).as_bytes())
            }
        })
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        SignatureAlgorithm::ECDSA
    }
}

impl Signer for Own {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, Error> {
        // As RFC 6979 has it: without randomness, which might be bad.
        let signed = match self {
            Own::P256(key) => key.try_sign(message).map(|one: p256::ecdsa::DerSignature| one.as_bytes().to_vec()),
            Own::P384(key) => key.try_sign(message).map(|one: p384::ecdsa::DerSignature| one.as_bytes().to_vec()),
        };
        signed.map_err(|_| Error::General("the handshake cannot be signed".into()))
    }

    fn scheme(&self) -> SignatureScheme {
        match self {
            Own::P256(_) => SignatureScheme::ECDSA_NISTP256_SHA256,
            Own::P384(_) => SignatureScheme::ECDSA_NISTP384_SHA384,
        }
    }
}
