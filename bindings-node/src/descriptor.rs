//! Descriptors on their way to Node, which reads the sockets. An environment can be ended between being told of one and
//! having it.

use std::fs;
use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd, RawFd};
use std::os::unix::fs::MetadataExt;

/// One that Node was told of, and has not said that it has.
pub(crate) struct Lent {
    descriptor: OwnedFd,
    is: Option<Identity>,
}

/// Which open file a number stands for: its device, and its number there.
type Identity = (u64, u64);

impl Lent {
    pub(crate) fn new(descriptor: OwnedFd) -> Self {
        let is = identity(descriptor.as_raw_fd());
        Lent { descriptor, is }
    }

    pub(crate) fn number(&self) -> RawFd {
        self.descriptor.as_raw_fd()
    }

    /// Node has it, and closes it.
    pub(crate) fn given(self) {
        let _ = self.descriptor.into_raw_fd();
    }

    /// The environment has ended, and closed all that it had: this one too, if it had it. The number may be another
    /// file's by now.
    pub(crate) fn end(self) {
        if self.is.is_some() && self.is == identity(self.number()) {
            drop(self.descriptor);
        } else {
            self.given();
        }
    }
}

fn identity(number: RawFd) -> Option<Identity> {
    let file = fs::metadata(format!("/dev/fd/{number}")).ok()?;
    Some((file.dev(), file.ino()))
}
