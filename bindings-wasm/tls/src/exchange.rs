//! The secret that both sides come to.

use std::fmt;
use std::marker::PhantomData;

use p256::elliptic_curve::ecdh::diffie_hellman;
use p256::elliptic_curve::sec1::{FromSec1Point, ModulusSize, ToSec1Point};
use p256::elliptic_curve::{AffinePoint, CurveArithmetic, FieldBytes, FieldBytesSize, PublicKey, SecretKey};
use rustls::crypto::{ActiveKeyExchange, GetRandomFailed, SharedSecret, SupportedKxGroup};
use rustls::ffdhe_groups::FfdheGroup;
use rustls::{Error, NamedGroup, PeerMisbehaved};
use x25519_dalek::{X25519_BASEPOINT_BYTES, x25519};
use zeroize::Zeroizing;

use crate::Host;

fn fill<H: Host>(bytes: &mut [u8]) -> Result<(), Error> {
    H::fill(bytes).then_some(()).ok_or_else(|| GetRandomFailed.into())
}

fn bad_share() -> Error {
    PeerMisbehaved::InvalidKeyShare.into()
}

#[derive(Debug)]
pub(crate) struct X25519<H>(pub(crate) PhantomData<H>);

impl<H: Host> SupportedKxGroup for X25519<H> {
    fn start(&self) -> Result<Box<dyn ActiveKeyExchange>, Error> {
        let mut secret = Zeroizing::new([0; 32]);
        fill::<H>(&mut *secret)?;
        let public = x25519(*secret, X25519_BASEPOINT_BYTES);
        Ok(Box::new(OverX25519 { secret, public }))
    }

    fn ffdhe_group(&self) -> Option<FfdheGroup<'static>> {
        None
    }

    fn name(&self) -> NamedGroup {
        NamedGroup::X25519
    }
}

struct OverX25519 {
    secret: Zeroizing<[u8; 32]>,
    public: [u8; 32],
}

impl ActiveKeyExchange for OverX25519 {
    fn complete(self: Box<Self>, theirs: &[u8]) -> Result<SharedSecret, Error> {
        let theirs = theirs.try_into().map_err(|_| bad_share())?;
        let shared = Zeroizing::new(x25519(*self.secret, theirs));
        // A point of small order: anybody knows what comes of it.
        if *shared == [0; 32] {
            return Err(bad_share());
        }
        Ok(SharedSecret::from(&shared[..]))
    }

    fn pub_key(&self) -> &[u8] {
        &self.public
    }

    fn ffdhe_group(&self) -> Option<FfdheGroup<'static>> {
        None
    }

    fn group(&self) -> NamedGroup {
        NamedGroup::X25519
    }
}

/// A curve of NIST's.
pub(crate) struct Nist<C, H>(pub(crate) NamedGroup, pub(crate) PhantomData<fn() -> (C, H)>);

impl<C, H> fmt::Debug for Nist<C, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<C: CurveArithmetic, H: Host> SupportedKxGroup for Nist<C, H>
where
    FieldBytesSize<C>: ModulusSize,
    AffinePoint<C>: FromSec1Point<C> + ToSec1Point<C>,
{
    fn start(&self) -> Result<Box<dyn ActiveKeyExchange>, Error> {
        // One in four billion is no number of the curve's.
        let secret = loop {
            let mut bytes = Zeroizing::new(FieldBytes::<C>::default());
            fill::<H>(&mut bytes)?;
            if let Ok(secret) = SecretKey::<C>::from_bytes(&bytes) {
                break secret;
            }
        };
        let public = secret.public_key().to_sec1_point(false).as_bytes().into();
        Ok(Box::new(OverNist { group: self.0, secret, public }))
    }

    fn ffdhe_group(&self) -> Option<FfdheGroup<'static>> {
        None
    }

    fn name(&self) -> NamedGroup {
        self.0
    }
}

struct OverNist<C: CurveArithmetic> {
    group: NamedGroup,
    secret: SecretKey<C>,
    public: Box<[u8]>,
}

/// How a point begins that is written with both its coordinates; TLS has no other.
const UNCOMPRESSED: u8 = 4;

impl<C: CurveArithmetic> ActiveKeyExchange for OverNist<C>
where
    FieldBytesSize<C>: ModulusSize,
    AffinePoint<C>: FromSec1Point<C> + ToSec1Point<C>,
{
    fn complete(self: Box<Self>, theirs: &[u8]) -> Result<SharedSecret, Error> {
        if theirs.first() != Some(&UNCOMPRESSED) {
            return Err(bad_share());
        }
        let theirs = PublicKey::<C>::from_sec1_bytes(theirs).map_err(|_| bad_share())?;
        let shared = diffie_hellman(self.secret.to_nonzero_scalar(), theirs.as_affine());
        Ok(SharedSecret::from(&shared.raw_secret_bytes()[..]))
    }

    fn pub_key(&self) -> &[u8] {
        &self.public
    }

    fn ffdhe_group(&self) -> Option<FfdheGroup<'static>> {
        None
    }

    fn group(&self) -> NamedGroup {
        self.group
    }
}

#[cfg(test)]
mod tests {
    use p256::NistP256;
    use p384::NistP384;

    use super::*;
    use crate::tests::Counted;

    static GROUPS: [&dyn SupportedKxGroup; 3] = [
        &X25519::<Counted>(PhantomData),
        &Nist::<NistP256, Counted>(NamedGroup::secp256r1, PhantomData),
        &Nist::<NistP384, Counted>(NamedGroup::secp384r1, PhantomData),
    ];

    #[test]
    fn both_sides_come_to_the_same() -> Result<(), Error> {
        for group in GROUPS {
            let (ours, theirs) = (group.start()?, group.start()?);
            let (our_share, their_share) = (ours.pub_key().to_vec(), theirs.pub_key().to_vec());
            assert_ne!(our_share, their_share, "{group:?}");
            let (one, other) = (ours.complete(&their_share)?, theirs.complete(&our_share)?);
            assert_eq!(one.secret_bytes(), other.secret_bytes(), "{group:?}");
        }
        Ok(())
    }

    #[test]
    fn shares_that_are_no_points_are_refused() -> Result<(), Error> {
        let [x25519, p256, p384] = GROUPS;
        let of_small_order = |first| [&[first][..], &[0; 31]].concat();
        // Two times the point is none: both coordinates are wrong.
        let off_the_curve = |length: usize| [&[UNCOMPRESSED][..], &vec![1; length]].concat();
        let compressed = |group: &dyn SupportedKxGroup| {
            let share = group.start()?.pub_key().to_vec();
            Ok::<_, Error>([&[2 + share[share.len() - 1] % 2], &share[1..=share.len() / 2]].concat())
        };
        for (group, share) in [
            (x25519, of_small_order(0)),
            (x25519, of_small_order(1)),
            (x25519, vec![1; 31]),
            (p256, off_the_curve(64)),
            (p256, compressed(p256)?),
            (p256, vec![0]),
            (p256, Vec::new()),
            (p384, off_the_curve(96)),
            (p384, compressed(p384)?),
        ] {
            assert!(group.start()?.complete(&share).is_err(), "{group:?} {share:?}");
        }
        Ok(())
    }
}
