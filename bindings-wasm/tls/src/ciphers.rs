//! Records of TLS, sealed and opened.

use std::marker::PhantomData;

use aead::consts::{U12, U16};
use aead::{AeadInOut, KeyInit};
use rustls::crypto::cipher::{
    AeadKey, BorrowedPayload, InboundOpaqueMessage, InboundPlainMessage, Iv, KeyBlockShape, MessageDecrypter,
    MessageEncrypter, Nonce, OutboundOpaqueMessage, OutboundPlainMessage, PrefixedPayload, Tls12AeadAlgorithm,
    Tls13AeadAlgorithm, UnsupportedOperationError, make_tls12_aad, make_tls13_aad,
};
use rustls::{ConnectionTrafficSecrets, ContentType, Error, ProtocolVersion};

/// How long the tag of each cipher is.
const TAG: usize = 16;
/// The largest content of a record.
const LARGEST: usize = 1 << 14;

/// A cipher that TLS can use: a nonce of 96 bits and a tag of 128.
pub(crate) trait Cipher: AeadInOut<NonceSize = U12, TagSize = U16> + KeyInit + Send + Sync + 'static {}

impl<C: AeadInOut<NonceSize = U12, TagSize = U16> + KeyInit + Send + Sync + 'static> Cipher for C {}

/// The key has the length that rustls was told, so this is never an error.
fn keyed<C: Cipher>(key: &AeadKey) -> Option<C> {
    C::new_from_slice(key.as_ref()).ok()
}

fn seal<C: Cipher>(cipher: &C, nonce: [u8; 12], about: &[u8], payload: &mut PrefixedPayload, from: usize) -> Sealed {
    let tag = cipher.encrypt_inout_detached(&nonce.into(), about, (&mut payload.as_mut()[from..]).into());
    payload.extend_from_slice(&tag.map_err(|_| Error::EncryptError)?);
    Ok(())
}

/// Opens what lies behind the first `from` bytes, and moves it to the front.
fn open<C: Cipher>(
    cipher: &C,
    nonce: [u8; 12],
    about: &[u8],
    payload: &mut BorrowedPayload<'_>,
    from: usize,
) -> Sealed {
    let end = payload.len().checked_sub(TAG).filter(|end| *end >= from).ok_or(Error::DecryptError)?;
    let (sealed, tag) = payload.split_at_mut(end);
    let tag = (&*tag).try_into().map_err(|_| Error::DecryptError)?;
    cipher
        .decrypt_inout_detached(&nonce.into(), about, (&mut sealed[from..]).into(), &tag)
        .map_err(|_| Error::DecryptError)?;
    payload.copy_within(from..end, 0);
    payload.truncate(end - from);
    Ok(())
}

type Sealed = Result<(), Error>;

/// A cipher in TLS 1.3.
pub(crate) struct Tls13<C>(pub(crate) PhantomData<fn() -> C>);

/// A cipher in TLS 1.2, of whose nonce so many bytes stand before each record.
pub(crate) struct Tls12<C, const SAID: usize>(pub(crate) PhantomData<fn() -> C>);

/// Each record says its nonce.
pub(crate) const EXPLICIT: usize = 8;
/// The number of a record is the nonce.
pub(crate) const IMPLICIT: usize = 0;

impl<C: Cipher> Tls13AeadAlgorithm for Tls13<C> {
    fn encrypter(&self, key: AeadKey, iv: Iv) -> Box<dyn MessageEncrypter> {
        Box::new(Records13::<C> { cipher: keyed(&key), iv })
    }

    fn decrypter(&self, key: AeadKey, iv: Iv) -> Box<dyn MessageDecrypter> {
        Box::new(Records13::<C> { cipher: keyed(&key), iv })
    }

    fn key_len(&self) -> usize {
        C::key_size()
    }

    fn extract_keys(&self, _: AeadKey, _: Iv) -> Result<ConnectionTrafficSecrets, UnsupportedOperationError> {
        Err(UnsupportedOperationError)
    }
}

struct Records13<C> {
    cipher: Option<C>,
    iv: Iv,
}

impl<C: Cipher> MessageEncrypter for Records13<C> {
    fn encrypt(&mut self, message: OutboundPlainMessage<'_>, number: u64) -> Result<OutboundOpaqueMessage, Error> {
        let length = self.encrypted_payload_len(message.payload.len());
        let mut payload = PrefixedPayload::with_capacity(length);
        payload.extend_from_chunks(&message.payload);
        payload.extend_from_slice(&message.typ.to_array());
        let cipher = self.cipher.as_ref().ok_or(Error::EncryptError)?;
        seal(cipher, Nonce::new(&self.iv, number).0, &make_tls13_aad(length), &mut payload, 0)?;
        Ok(OutboundOpaqueMessage::new(ContentType::ApplicationData, ProtocolVersion::TLSv1_2, payload))
    }

    fn encrypted_payload_len(&self, length: usize) -> usize {
        length + 1 + TAG
    }
}

impl<C: Cipher> MessageDecrypter for Records13<C> {
    fn decrypt<'a>(
        &mut self,
        mut message: InboundOpaqueMessage<'a>,
        number: u64,
    ) -> Result<InboundPlainMessage<'a>, Error> {
        let about = make_tls13_aad(message.payload.len());
        let cipher = self.cipher.as_ref().ok_or(Error::DecryptError)?;
        open(cipher, Nonce::new(&self.iv, number).0, &about, &mut message.payload, 0)?;
        message.into_tls13_unpadded_message()
    }
}

impl<C: Cipher, const SAID: usize> Tls12AeadAlgorithm for Tls12<C, SAID> {
    fn encrypter(&self, key: AeadKey, iv: &[u8], said: &[u8]) -> Box<dyn MessageEncrypter> {
        Box::new(Records12::<C, SAID> { cipher: keyed(&key), iv: joined(iv, said) })
    }

    fn decrypter(&self, key: AeadKey, iv: &[u8]) -> Box<dyn MessageDecrypter> {
        Box::new(Records12::<C, SAID> { cipher: keyed(&key), iv: joined(iv, &[]) })
    }

    fn key_block_shape(&self) -> KeyBlockShape {
        KeyBlockShape { enc_key_len: C::key_size(), fixed_iv_len: 12 - SAID, explicit_nonce_len: SAID }
    }

    fn extract_keys(
        &self,
        _: AeadKey,
        _: &[u8],
        _: &[u8],
    ) -> Result<ConnectionTrafficSecrets, UnsupportedOperationError> {
        Err(UnsupportedOperationError)
    }
}

/// What stands of the nonce, and zeros.
fn joined(iv: &[u8], said: &[u8]) -> [u8; 12] {
    let mut whole = [0; 12];
    whole.iter_mut().zip(iv.iter().chain(said)).for_each(|(byte, from)| *byte = *from);
    whole
}

struct Records12<C, const SAID: usize> {
    cipher: Option<C>,
    iv: [u8; 12],
}

impl<C: Cipher, const SAID: usize> MessageEncrypter for Records12<C, SAID> {
    fn encrypt(&mut self, message: OutboundPlainMessage<'_>, number: u64) -> Result<OutboundOpaqueMessage, Error> {
        let (typ, version, length) = (message.typ, message.version, message.payload.len());
        // Unlike for any other record with this key, as each has a number of its own.
        let nonce = Nonce::new(&self.iv.into(), number).0;
        let mut payload = PrefixedPayload::with_capacity(self.encrypted_payload_len(length));
        payload.extend_from_slice(&nonce[nonce.len() - SAID..]);
        payload.extend_from_chunks(&message.payload);
        let cipher = self.cipher.as_ref().ok_or(Error::EncryptError)?;
        seal(cipher, nonce, &make_tls12_aad(number, typ, version, length), &mut payload, SAID)?;
        Ok(OutboundOpaqueMessage::new(typ, version, payload))
    }

    fn encrypted_payload_len(&self, length: usize) -> usize {
        SAID + length + TAG
    }
}

impl<C: Cipher, const SAID: usize> MessageDecrypter for Records12<C, SAID> {
    fn decrypt<'a>(
        &mut self,
        mut message: InboundOpaqueMessage<'a>,
        number: u64,
    ) -> Result<InboundPlainMessage<'a>, Error> {
        let length = message.payload.len().checked_sub(SAID + TAG).ok_or(Error::DecryptError)?;
        let nonce = match SAID {
            IMPLICIT => Nonce::new(&self.iv.into(), number).0,
            said => joined(&self.iv[..12 - said], &message.payload[..said]),
        };
        let about = make_tls12_aad(number, message.typ, message.version, length);
        let cipher = self.cipher.as_ref().ok_or(Error::DecryptError)?;
        open(cipher, nonce, &about, &mut message.payload, SAID)?;
        if length > LARGEST {
            return Err(Error::PeerSentOversizedRecord);
        }
        Ok(message.into_plain_message())
    }
}

#[cfg(test)]
mod tests {
    use aes_gcm::{Aes128Gcm, Aes256Gcm};
    use chacha20poly1305::ChaCha20Poly1305;

    use super::*;

    type Ends = (&'static str, Box<dyn MessageEncrypter>, Box<dyn MessageDecrypter>);

    /// Both ends of one direction, for each kind of record; every key here has 32 bytes.
    fn ends() -> Vec<Ends> {
        let key = || AeadKey::from([7; 32]);
        let iv = || Iv::from([3; 12]);
        let (gcm13, gcm12) = (Tls13::<Aes256Gcm>(PhantomData), Tls12::<Aes256Gcm, EXPLICIT>(PhantomData));
        let (chacha13, chacha12) =
            (Tls13::<ChaCha20Poly1305>(PhantomData), Tls12::<ChaCha20Poly1305, IMPLICIT>(PhantomData));
        vec![
            ("1.3 gcm", gcm13.encrypter(key(), iv()), gcm13.decrypter(key(), iv())),
            ("1.3 chacha", chacha13.encrypter(key(), iv()), chacha13.decrypter(key(), iv())),
            ("1.2 gcm", gcm12.encrypter(key(), &[3; 4], &[5; 8]), gcm12.decrypter(key(), &[3; 4])),
            ("1.2 chacha", chacha12.encrypter(key(), &[3; 12], &[]), chacha12.decrypter(key(), &[3; 12])),
        ]
    }

    const HEADER: usize = 5;

    fn sealed(end: &mut dyn MessageEncrypter, text: &[u8], number: u64) -> Result<Vec<u8>, Error> {
        let (typ, version) = (ContentType::ApplicationData, ProtocolVersion::TLSv1_2);
        let record = end.encrypt(OutboundPlainMessage { typ, version, payload: text.into() }, number)?.encode();
        assert_eq!(record.len() - HEADER, end.encrypted_payload_len(text.len()));
        Ok(record[HEADER..].to_vec())
    }

    fn opened(end: &mut dyn MessageDecrypter, mut record: Vec<u8>, number: u64) -> Result<Vec<u8>, Error> {
        let (typ, version) = (ContentType::ApplicationData, ProtocolVersion::TLSv1_2);
        Ok(end.decrypt(InboundOpaqueMessage::new(typ, version, &mut record), number)?.payload.to_vec())
    }

    #[test]
    fn a_record_is_opened_as_it_was_sealed_or_not_at_all() -> Result<(), Error> {
        for (what, mut seals, mut opens) in ends() {
            let mut seen = Vec::new();
            for (number, text) in [&b"PING"[..], &[0; LARGEST], b"", b"PING"].into_iter().enumerate() {
                let number = number as u64;
                let record = sealed(&mut *seals, text, number)?;
                assert!(!seen.contains(&record), "{what}: the same nonce twice");
                assert_eq!(opened(&mut *opens, record.clone(), number)?, text, "{what}");
                assert!(opened(&mut *opens, record.clone(), number + 1).is_err(), "{what}: another one's number");
                for at in [0, record.len() / 2, record.len() - 1] {
                    let mut spoilt = record.clone();
                    spoilt[at] ^= 1;
                    assert!(opened(&mut *opens, spoilt, number).is_err(), "{what}: byte {at} of {}", record.len());
                }
                for length in [0, 1, TAG - 1, TAG, EXPLICIT + TAG - 1, record.len() - 1] {
                    let part = record[..length.min(record.len() - 1)].to_vec();
                    assert!(opened(&mut *opens, part, number).is_err(), "{what}: {length} bytes of {}", record.len());
                }
                seen.push(record);
            }
            let too_large = sealed(&mut *seals, &[0; LARGEST + 1], 9)?;
            assert_eq!(opened(&mut *opens, too_large, 9), Err(Error::PeerSentOversizedRecord), "{what}");
        }
        Ok(())
    }

    #[test]
    fn keys_have_the_length_of_their_cipher() {
        assert_eq!([Tls13::<Aes128Gcm>(PhantomData).key_len(), Tls13::<Aes256Gcm>(PhantomData).key_len()], [16, 32]);
        assert_eq!(Tls12::<Aes128Gcm, EXPLICIT>(PhantomData).key_block_shape().enc_key_len, 16);
    }
}
