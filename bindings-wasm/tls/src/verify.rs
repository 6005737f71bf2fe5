//! Signatures of certificates and of handshakes, verified.

use hmac::digest::Digest;
use p256::ecdsa::signature::Verifier as _;
use p256::ecdsa::signature::hazmat::PrehashVerifier;
use rsa::pkcs1::DecodeRsaPublicKey;
use rsa::pkcs8::AssociatedOid;
use rsa::traits::PublicKeyParts;
use rsa::{pkcs1v15, pss};
use rustls::SignatureScheme;
use rustls::crypto::WebPkiSupportedAlgorithms;
use rustls::pki_types::{AlgorithmIdentifier, InvalidSignature, SignatureVerificationAlgorithm, alg_id};
use sha2::{Sha256, Sha384, Sha512};

/// Keys of RSA with fewer bits are no longer held to be safe.
const FEWEST_BITS: u32 = 2048;

/// Whether this key signed this message so.
type Verify = fn(&[u8], &[u8], &[u8]) -> Option<()>;

/// One way to sign, and what verifies that.
#[derive(Debug)]
struct Algorithm {
    key: AlgorithmIdentifier,
    signature: AlgorithmIdentifier,
    verify: Verify,
}

impl SignatureVerificationAlgorithm for Algorithm {
    fn verify_signature(&self, key: &[u8], message: &[u8], signature: &[u8]) -> Result<(), InvalidSignature> {
        (self.verify)(key, message, signature).ok_or(InvalidSignature)
    }

    fn public_key_alg_id(&self) -> AlgorithmIdentifier {
        self.key
    }

    fn signature_alg_id(&self) -> AlgorithmIdentifier {
        self.signature
    }
}

fn p256<D: Digest>(key: &[u8], message: &[u8], signature: &[u8]) -> Option<()> {
    let key = p256::ecdsa::VerifyingKey::from_sec1_bytes(key).ok()?;
    let signature = p256::ecdsa::Signature::from_der(signature).ok()?;
    key.verify_prehash(&D::digest(message), &signature).ok()
}

fn p384<D: Digest>(key: &[u8], message: &[u8], signature: &[u8]) -> Option<()> {
    let key = p384::ecdsa::VerifyingKey::from_sec1_bytes(key).ok()?;
    let signature = p384::ecdsa::Signature::from_der(signature).ok()?;
    key.verify_prehash(&D::digest(message), &signature).ok()
}

fn rsa(key: &[u8]) -> Option<rsa::PublicKey> {
    rsa::PublicKey::from_pkcs1_der(key).ok().filter(|key| key.n().bit_width() >= FEWEST_BITS)
}

fn pkcs1<D: Digest + AssociatedOid>(key: &[u8], message: &[u8], signature: &[u8]) -> Option<()> {
    let signature = pkcs1v15::Signature::try_from(signature).ok()?;
    pkcs1v15::VerifyingKey::<D>::new(rsa(key)?).verify(message, &signature).ok()
}

fn pss<D: Digest + hmac::digest::FixedOutputReset>(key: &[u8], message: &[u8], signature: &[u8]) -> Option<()> {
    let signature = pss::Signature::try_from(signature).ok()?;
    pss::VerifyingKey::<D>::new(rsa(key)?).verify(message, &signature).ok()
}

const fn ec(key: AlgorithmIdentifier, signature: AlgorithmIdentifier, verify: Verify) -> Algorithm {
    Algorithm { key, signature, verify }
}

const fn of_rsa(signature: AlgorithmIdentifier, verify: Verify) -> Algorithm {
    Algorithm { key: alg_id::RSA_ENCRYPTION, signature, verify }
}

static P256_SHA256: Algorithm = ec(alg_id::ECDSA_P256, alg_id::ECDSA_SHA256, p256::<Sha256>);
static P256_SHA384: Algorithm = ec(alg_id::ECDSA_P256, alg_id::ECDSA_SHA384, p256::<Sha384>);
static P384_SHA256: Algorithm = ec(alg_id::ECDSA_P384, alg_id::ECDSA_SHA256, p384::<Sha256>);
static P384_SHA384: Algorithm = ec(alg_id::ECDSA_P384, alg_id::ECDSA_SHA384, p384::<Sha384>);
static PKCS1_SHA256: Algorithm = of_rsa(alg_id::RSA_PKCS1_SHA256, pkcs1::<Sha256>);
static PKCS1_SHA384: Algorithm = of_rsa(alg_id::RSA_PKCS1_SHA384, pkcs1::<Sha384>);
static PKCS1_SHA512: Algorithm = of_rsa(alg_id::RSA_PKCS1_SHA512, pkcs1::<Sha512>);
static PSS_SHA256: Algorithm = of_rsa(alg_id::RSA_PSS_SHA256, pss::<Sha256>);
static PSS_SHA384: Algorithm = of_rsa(alg_id::RSA_PSS_SHA384, pss::<Sha384>);
static PSS_SHA512: Algorithm = of_rsa(alg_id::RSA_PSS_SHA512, pss::<Sha512>);

pub(crate) static ALGORITHMS: WebPkiSupportedAlgorithms = WebPkiSupportedAlgorithms {
    all: &[
        &P256_SHA256,
        &P256_SHA384,
        &P384_SHA256,
        &P384_SHA384,
        &PKCS1_SHA256,
        &PKCS1_SHA384,
        &PKCS1_SHA512,
        &PSS_SHA256,
        &PSS_SHA384,
        &PSS_SHA512,
    ],
    // In TLS 1.2 a scheme does not say the curve; 1.3 takes the first of each row.
    mapping: &[
        (SignatureScheme::ECDSA_NISTP384_SHA384, &[&P384_SHA384, &P256_SHA384]),
        (SignatureScheme::ECDSA_NISTP256_SHA256, &[&P256_SHA256, &P384_SHA256]),
        (SignatureScheme::RSA_PSS_SHA512, &[&PSS_SHA512]),
        (SignatureScheme::RSA_PSS_SHA384, &[&PSS_SHA384]),
        (SignatureScheme::RSA_PSS_SHA256, &[&PSS_SHA256]),
        (SignatureScheme::RSA_PKCS1_SHA512, &[&PKCS1_SHA512]),
        (SignatureScheme::RSA_PKCS1_SHA384, &[&PKCS1_SHA384]),
        (SignatureScheme::RSA_PKCS1_SHA256, &[&PKCS1_SHA256]),
    ],
};

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};
    use std::process::Command;
    use std::{fs, io};

    use super::*;

    fn openssl(folder: &Path, words: &str) -> io::Result<()> {
        let output = Command::new("openssl").args(words.split_whitespace()).current_dir(folder).output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        output.status.success().then_some(()).ok_or_else(|| io::Error::other(format!("{words}: {said}")))
    }

    /// What a certificate says of the key, without its kind: the point of a curve, or numbers of RSA.
    fn public(folder: &Path, kind: &str) -> io::Result<Vec<u8>> {
        if kind.starts_with("rsa") {
            openssl(folder, "rsa -in key -RSAPublicKey_out -outform DER -out public")?;
            return fs::read(folder.join("public"));
        }
        openssl(folder, "pkey -in key -pubout -outform DER -out public")?;
        let whole = fs::read(folder.join("public"))?;
        let point = if kind.ends_with("256") { 65 } else { 97 };
        Ok(whole[whole.len() - point..].to_vec())
    }

    const MESSAGE: &[u8] = b"whoever signed this has the key";

    /// A public key of that kind, and what it signed with these options.
    fn signed(kind: &str, digest: &str, options: &str) -> io::Result<(Vec<u8>, Vec<u8>)> {
        let folder: PathBuf =
            std::env::temp_dir().join(format!("lockwright-verify-{}-{kind}-{digest}", std::process::id()));
        fs::create_dir_all(&folder)?;
        fs::write(folder.join("message"), MESSAGE)?;
        let (family, size) = kind.split_once('-').unwrap_or((kind, ""));
        match family {
            "rsa" => openssl(&folder, &format!("genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:{size} -out key"))?,
            _ => openssl(&folder, &format!("genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-{size} -out key"))?,
        }
        openssl(&folder, &format!("dgst -{digest} -sign key {options} -out signature message"))?;
        let found = (public(&folder, kind)?, fs::read(folder.join("signature"))?);
        fs::remove_dir_all(&folder)?;
        Ok(found)
    }

    const PSS: &str = "-sigopt rsa_padding_mode:pss -sigopt rsa_pss_saltlen:digest";

    #[test]
    fn a_signature_is_of_this_key_and_this_message() -> io::Result<()> {
        for (algorithm, kind, digest, options) in [
            (&P256_SHA256, "ec-256", "sha256", ""),
            (&P256_SHA384, "ec-256", "sha384", ""),
            (&P384_SHA256, "ec-384", "sha256", ""),
            (&P384_SHA384, "ec-384", "sha384", ""),
            (&PKCS1_SHA256, "rsa-2048", "sha256", ""),
            (&PKCS1_SHA384, "rsa-3072", "sha384", ""),
            (&PKCS1_SHA512, "rsa-4096", "sha512", ""),
            (&PSS_SHA256, "rsa-2048", "sha256", PSS),
            (&PSS_SHA384, "rsa-2048", "sha384", PSS),
            (&PSS_SHA512, "rsa-2048", "sha512", PSS),
        ] {
            let (key, signature) = signed(kind, digest, options)?;
            let verify = |key: &[u8], message: &[u8], signature: &[u8]| {
                algorithm.verify_signature(key, message, signature).is_ok()
            };
            assert!(verify(&key, MESSAGE, &signature), "{algorithm:?}");
            assert!(!verify(&key, b"another message", &signature), "{algorithm:?}");
            assert!(!verify(&signed(kind, digest, options)?.0, MESSAGE, &signature), "{algorithm:?}: another key");
            for at in 0..signature.len() {
                let mut spoilt = signature.clone();
                spoilt[at] ^= 1;
                assert!(!verify(&key, MESSAGE, &spoilt), "{algorithm:?}: byte {at}");
            }
            for (key, signature) in [(&key[..], &[][..]), (&[], &signature), (&key, &signature[1..]), (&key, &[0; 64])]
            {
                assert!(!verify(key, MESSAGE, signature), "{algorithm:?}");
            }
        }
        Ok(())
    }

    #[test]
    fn what_is_weak_or_padded_otherwise_is_refused() -> io::Result<()> {
        for (algorithm, kind, digest, options) in [
            (&PKCS1_SHA256, "rsa-1024", "sha256", ""),
            (&PSS_SHA256, "rsa-1024", "sha256", PSS),
            (&PSS_SHA256, "rsa-2048", "sha256", ""),
            (&PKCS1_SHA256, "rsa-2048", "sha256", PSS),
            (&PKCS1_SHA256, "rsa-2048", "sha1", ""),
            (&PSS_SHA256, "rsa-2048", "sha256", "-sigopt rsa_padding_mode:pss -sigopt rsa_pss_saltlen:20"),
        ] {
            let (key, signature) = signed(kind, digest, options)?;
            assert!(algorithm.verify_signature(&key, MESSAGE, &signature).is_err(), "{algorithm:?} {kind} {options}");
        }
        Ok(())
    }
}
