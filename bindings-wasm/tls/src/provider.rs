//! The cryptography that rustls asks for: what RustCrypto has of it, put together.

use std::marker::PhantomData;
use std::sync::Arc;

use aes_gcm::{Aes128Gcm, Aes256Gcm};
use chacha20poly1305::ChaCha20Poly1305;
use p256::NistP256;
use p384::NistP384;
use rustls::crypto::hash::Hash;
use rustls::crypto::tls12::PrfUsingHmac;
use rustls::crypto::tls13::HkdfUsingHmac;
use rustls::crypto::{CryptoProvider, GetRandomFailed, KeyExchangeAlgorithm, KeyProvider, SecureRandom};
use rustls::pki_types::PrivateKeyDer;
use rustls::sign::SigningKey;
use rustls::{
    CipherSuite, CipherSuiteCommon, Error, NamedGroup, SignatureScheme, SupportedCipherSuite, Tls12CipherSuite,
    Tls13CipherSuite,
};

use crate::Host;
use crate::ciphers::{EXPLICIT, IMPLICIT, Tls12, Tls13};
use crate::exchange::{Nist, X25519};
use crate::hashes::{HMAC_SHA256, HMAC_SHA384, SHA256, SHA384};
use crate::{sign, verify};

/// How many records of AES-GCM a key may be used for, as the TLS working group counts it.
const GCM_RECORDS: u64 = 1 << 24;

static ECDSA: &[SignatureScheme] = &[SignatureScheme::ECDSA_NISTP384_SHA384, SignatureScheme::ECDSA_NISTP256_SHA256];
static RSA: &[SignatureScheme] = &[
    SignatureScheme::RSA_PSS_SHA512,
    SignatureScheme::RSA_PSS_SHA384,
    SignatureScheme::RSA_PSS_SHA256,
    SignatureScheme::RSA_PKCS1_SHA512,
    SignatureScheme::RSA_PKCS1_SHA384,
    SignatureScheme::RSA_PKCS1_SHA256,
];

macro_rules! suite {
    (1.3 $suite:ident $cipher:ident $hash:ident $hmac:ident $records:expr) => {
        SupportedCipherSuite::Tls13(&Tls13CipherSuite {
            common: common(CipherSuite::$suite, &$hash, $records),
            hkdf_provider: &HkdfUsingHmac(&$hmac),
            aead_alg: &Tls13::<$cipher>(PhantomData),
            quic: None,
        })
    };
    (1.2 $suite:ident $nonce:ident $cipher:ident $sign:ident $hash:ident $hmac:ident $records:expr) => {
        SupportedCipherSuite::Tls12(&Tls12CipherSuite {
            common: common(CipherSuite::$suite, &$hash, $records),
            kx: KeyExchangeAlgorithm::ECDHE,
            sign: $sign,
            prf_provider: &PrfUsingHmac(&$hmac),
            aead_alg: &Tls12::<$cipher, $nonce>(PhantomData),
        })
    };
}

const fn common(suite: CipherSuite, hash_provider: &'static dyn Hash, confidentiality_limit: u64) -> CipherSuiteCommon {
    CipherSuiteCommon { suite, hash_provider, confidentiality_limit }
}

static SUITES: [SupportedCipherSuite; 9] = [
    suite!(1.3 TLS13_AES_256_GCM_SHA384 Aes256Gcm SHA384 HMAC_SHA384 GCM_RECORDS),
    suite!(1.3 TLS13_AES_128_GCM_SHA256 Aes128Gcm SHA256 HMAC_SHA256 GCM_RECORDS),
    suite!(1.3 TLS13_CHACHA20_POLY1305_SHA256 ChaCha20Poly1305 SHA256 HMAC_SHA256 u64::MAX),
    suite!(1.2 TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384 EXPLICIT Aes256Gcm ECDSA SHA384 HMAC_SHA384 GCM_RECORDS),
    suite!(1.2 TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256 EXPLICIT Aes128Gcm ECDSA SHA256 HMAC_SHA256 GCM_RECORDS),
    suite!(1.2 TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256 IMPLICIT ChaCha20Poly1305 ECDSA SHA256 HMAC_SHA256 u64::MAX),
    suite!(1.2 TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384 EXPLICIT Aes256Gcm RSA SHA384 HMAC_SHA384 GCM_RECORDS),
    suite!(1.2 TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 EXPLICIT Aes128Gcm RSA SHA256 HMAC_SHA256 GCM_RECORDS),
    suite!(1.2 TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256 IMPLICIT ChaCha20Poly1305 RSA SHA256 HMAC_SHA256 u64::MAX),
];

/// All of it, with randomness from `H`.
pub(crate) fn provider<H: Host>() -> Arc<CryptoProvider> {
    Arc::new(CryptoProvider {
        cipher_suites: SUITES.to_vec(),
        kx_groups: vec![
            &X25519::<H>(PhantomData),
            &Nist::<NistP256, H>(NamedGroup::secp256r1, PhantomData),
            // Without it no server would show a key of this curve in TLS 1.2.
            &Nist::<NistP384, H>(NamedGroup::secp384r1, PhantomData),
        ],
        signature_verification_algorithms: verify::ALGORITHMS,
        secure_random: &Of::<H>(PhantomData),
        key_provider: &Of::<H>(PhantomData),
    })
}

#[derive(Debug)]
struct Of<H>(PhantomData<H>);

impl<H: Host> SecureRandom for Of<H> {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), GetRandomFailed> {
        H::fill(bytes).then_some(()).ok_or(GetRandomFailed)
    }
}

impl<H: Host> KeyProvider for Of<H> {
    fn load_private_key(&self, der: PrivateKeyDer<'static>) -> Result<Arc<dyn SigningKey>, Error> {
        sign::key(&der)
    }
}
