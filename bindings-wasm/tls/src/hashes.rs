//! What handshakes are summed up by, and keys derived.

use std::marker::PhantomData;

use hmac::digest::{Digest, OutputSizeUser};
use hmac::{Hmac, KeyInit, Mac};
use rustls::crypto::hash::{Context, Hash, HashAlgorithm, Output};
use rustls::crypto::hmac::{Hmac as Keyed, Key, Tag};
use sha2::{Sha256, Sha384};

pub(crate) static SHA256: Sum<Sha256> = Sum(HashAlgorithm::SHA256, PhantomData);
pub(crate) static SHA384: Sum<Sha384> = Sum(HashAlgorithm::SHA384, PhantomData);
pub(crate) static HMAC_SHA256: Keys<Hmac<Sha256>> = Keys(PhantomData);
pub(crate) static HMAC_SHA384: Keys<Hmac<Sha384>> = Keys(PhantomData);

pub(crate) struct Sum<D>(HashAlgorithm, PhantomData<fn() -> D>);

impl<D: Digest + Clone + Send + Sync + 'static> Hash for Sum<D> {
    fn start(&self) -> Box<dyn Context> {
        Box::new(Running(D::new()))
    }

    fn hash(&self, data: &[u8]) -> Output {
        Output::new(&D::digest(data))
    }

    fn output_len(&self) -> usize {
        <D as Digest>::output_size()
    }

    fn algorithm(&self) -> HashAlgorithm {
        self.0
    }
}

struct Running<D>(D);

impl<D: Digest + Clone + Send + Sync + 'static> Context for Running<D> {
    fn fork_finish(&self) -> Output {
        Output::new(&self.0.clone().finalize())
    }

    fn fork(&self) -> Box<dyn Context> {
        Box::new(Running(self.0.clone()))
    }

    fn finish(self: Box<Self>) -> Output {
        Output::new(&self.0.finalize())
    }

    fn update(&mut self, data: &[u8]) {
        self.0.update(data);
    }
}

pub(crate) struct Keys<M>(PhantomData<fn() -> M>);

impl<M: Mac + KeyInit + Clone + Send + Sync + 'static> Keyed for Keys<M> {
    fn with_key(&self, key: &[u8]) -> Box<dyn Key> {
        // A key may have any length.
        Box::new(WithKey(M::new_from_slice(key).ok()))
    }

    fn hash_output_len(&self) -> usize {
        <M as OutputSizeUser>::output_size()
    }
}

struct WithKey<M>(Option<M>);

impl<M: Mac + Clone + Send + Sync> Key for WithKey<M> {
    fn sign_concat(&self, first: &[u8], middle: &[&[u8]], last: &[u8]) -> Tag {
        let Some(mut sum) = self.0.clone() else { return Tag::new(&[]) };
        sum.update(first);
        middle.iter().for_each(|part| sum.update(part));
        sum.update(last);
        Tag::new(&sum.finalize().into_bytes())
    }

    fn tag_len(&self) -> usize {
        <M as OutputSizeUser>::output_size()
    }
}
