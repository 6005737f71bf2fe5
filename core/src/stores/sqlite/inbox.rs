//! Inboxes: a datagram socket for each client that waits, in a folder beside the lock file.
//!
//! A push that is lost or late costs time and nothing else: its receiver asks the file by itself. An invented one would
//! be believed, so the folder must be writable for nobody but its user.

use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;

use super::file::LockFile;
use crate::driver::fork;
use crate::protocol::{AttemptId, InboxId, StoreEvent};
use crate::session::Inbox;
use crate::stores::Sink;
use crate::time::StoreTime;

/// The longest path of a socket: `sun_path` has 108 bytes on Linux and 104 on the BSDs, one of them the closing zero.
const LONGEST: usize = if cfg!(any(target_os = "linux", target_os = "android")) { 107 } else { 103 };
/// How often an inbox looks whether it is still wanted and still at its place.
const HEARTBEAT: Duration = Duration::from_secs(1);
/// How long a push waits for room in a full inbox: its owner is busy, or stopped.
const PATIENCE: Duration = Duration::from_millis(10);
/// One in so many new inboxes looks for sockets that their owners left behind: a process that ends takes none with it.
const TIDY: u64 = 8;
/// More than the longest key and the numbers before it.
const LONGEST_PUSH: usize = 64 * 1024;

/// The folder of the inboxes.
#[derive(Debug)]
pub(super) struct Inboxes {
    folder: PathBuf,
}

impl Inboxes {
    pub(super) fn new(folder: PathBuf) -> Self {
        Inboxes { folder }
    }

    /// A socket connected to `inbox`; none when nobody listens there, or when we may not write to it.
    pub(super) fn reach(&self, inbox: InboxId) -> Option<UnixDatagram> {
        let socket = UnixDatagram::unbound().ok()?;
        self.at(inbox, |path| match socket.connect(path) {
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                // Its owner ended without a word. Inbox ids are random and never used again.
                let _ = std::fs::remove_file(path);
                Err(error)
            }
            other => other,
        })
        .ok()?;
        Some(socket)
    }

    /// Opens `inbox` for listening.
    fn bind(&self, inbox: InboxId) -> io::Result<Bound> {
        match std::fs::DirBuilder::new().mode(0o700).create(&self.folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let folder = std::fs::symlink_metadata(&self.folder)?;
        if !folder.is_dir() || folder.uid() != rustix::process::geteuid().as_raw() || folder.mode() & 0o022 != 0 {
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, "the folder of the inboxes is not ours alone"));
        }
        let (socket, inode) = self.at(inbox, |path| {
            let _ = std::fs::remove_file(path);
            let socket = UnixDatagram::bind(path)?;
            Ok((socket, std::fs::symlink_metadata(path)?.ino()))
        })?;
        if inbox.0.is_multiple_of(TIDY) {
            self.tidy();
        }
        socket.set_nonblocking(true)?;
        let registered = fork::register(&socket);
        Ok(Bound { registered, socket: tokio::net::UnixDatagram::from_std(socket)?, inode })
    }

    /// Removes the sockets nobody listens at.
    fn tidy(&self) {
        for socket in std::fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            let id = socket.file_name().to_str().and_then(|name| u64::from_str_radix(name, 16).ok());
            if let Some(id) = id {
                self.reach(InboxId(id));
            }
        }
    }

    fn is_in_place(&self, inbox: InboxId, bound: &Bound) -> bool {
        self.at(inbox, |path| Ok(std::fs::symlink_metadata(path)?.ino() == bound.inode)).unwrap_or(false)
    }

    pub(super) fn remove(&self, inbox: InboxId) {
        let _ = self.at(inbox, |path| std::fs::remove_file(path));
    }

    /// Does something with the path of `inbox`, by way of a descriptor where it is too long for a socket's address.
    fn at<T>(&self, inbox: InboxId, work: impl FnOnce(&Path) -> io::Result<T>) -> io::Result<T> {
        let path = self.folder.join(inbox.to_string());
        if path.as_os_str().len() <= LONGEST {
            return work(&path);
        }
        use rustix::fs::{Mode, OFlags};
        let folder =
            rustix::fs::open(&self.folder, OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        work(Path::new(&format!("/proc/self/fd/{}/{inbox}", folder.as_raw_fd())))
    }
}

/// An inbox that listens.
struct Bound {
    // Before the socket, which is closed after it is off the list.
    #[expect(dead_code, reason = "kept for its drop")]
    registered: fork::Registered,
    socket: tokio::net::UnixDatagram,
    inode: u64,
}

/// Pushes `event`, which concerns `key`, over a connection from [`Inboxes::reach`].
pub(super) fn push(to: &UnixDatagram, key: &str, event: &StoreEvent) {
    let Some(text) = encode(key, event) else { return };
    let sent = to.set_write_timeout(Some(PATIENCE)).and_then(|()| to.send(text.as_bytes()));
    if let Err(error) = sent {
        tracing::debug!(target: "lockwright::inbox", %error, "a push was lost; its receiver will ask by itself");
    }
}

/// Listens at `inbox` and reports to `sink` until that is gone.
pub(super) async fn listen(file: Arc<LockFile>, inbox: InboxId, sink: Weak<dyn Sink>) {
    let mut polls = false;
    let mut replaced = file.replaced();
    while sink.strong_count() > 0 {
        match file.inboxes().bind(inbox) {
            Ok(bound) => {
                polls = false;
                // A second time it says that pushes may have been missed.
                tell(&sink, |sink| sink.inbox(Inbox::Live));
                receive(&file, inbox, &bound, replaced, &sink).await;
            }
            Err(error) => {
                if !std::mem::replace(&mut polls, true) {
                    tracing::debug!(target: "lockwright::inbox", %error, "no inbox can be opened beside the lock file: waiters poll");
                    tell(&sink, |sink| sink.inbox(Inbox::Unavailable));
                }
                tokio::time::sleep(HEARTBEAT).await;
            }
        }
        let now = file.replaced();
        if std::mem::replace(&mut replaced, now) != now {
            tell(&sink, |sink| sink.restarted());
        }
    }
}

/// Passes on what arrives, until the sink is gone, or the socket or the lock file is not in its place any more.
async fn receive(file: &LockFile, inbox: InboxId, bound: &Bound, replaced: u64, sink: &Weak<dyn Sink>) {
    let mut buffer = vec![0; LONGEST_PUSH];
    while sink.strong_count() > 0 && file.replaced() == replaced {
        match tokio::time::timeout(HEARTBEAT, bound.socket.recv(&mut buffer)).await {
            Ok(Ok(length)) => {
                let text = buffer.get(..length).and_then(|bytes| std::str::from_utf8(bytes).ok());
                if let Some((key, event)) = text.and_then(decode) {
                    tell(sink, |sink| sink.pushed(key, &event));
                }
            }
            Ok(Err(_)) => return,
            Err(_) if !file.inboxes().is_in_place(inbox, bound) => return,
            Err(_) => {}
        }
    }
}

fn tell(sink: &Weak<dyn Sink>, what: impl FnOnce(&dyn Sink)) {
    if let Some(sink) = sink.upgrade() {
        what(&*sink);
    }
}

pub(super) fn encode(key: &str, event: &StoreEvent) -> Option<String> {
    Some(match event {
        StoreEvent::Granted { attempt, first, last, at } => format!("granted {attempt} {first} {last} {} {key}", at.0),
        StoreEvent::Broken { attempt } => format!("broken {attempt} 0 0 0 {key}"),
        StoreEvent::Next { attempt } => format!("next {attempt} 0 0 0 {key}"),
        StoreEvent::Dropped { attempt } => format!("dropped {attempt} 0 0 0 {key}"),
        StoreEvent::Changed { .. } | StoreEvent::Gone { .. } => return None,
    })
}

pub(super) fn decode(text: &str) -> Option<(&str, StoreEvent)> {
    let mut parts = text.splitn(6, ' ');
    let kind = parts.next()?;
    let attempt = AttemptId(u128::from_str_radix(parts.next()?, 16).ok()?);
    let (first, last) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    let at = StoreTime(parts.next()?.parse().ok()?);
    let event = match kind {
        "granted" => StoreEvent::Granted { attempt, first, last, at },
        "broken" => StoreEvent::Broken { attempt },
        "next" => StoreEvent::Next { attempt },
        "dropped" => StoreEvent::Dropped { attempt },
        _ => return None,
    };
    Some((parts.next()?, event))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pushes_read_back() {
        let attempt = AttemptId(7 << 100);
        let granted = StoreEvent::Granted { attempt, first: 1, last: u64::MAX, at: StoreTime(-3) };
        let told = [StoreEvent::Broken { attempt }, StoreEvent::Next { attempt }, StoreEvent::Dropped { attempt }];
        for event in std::iter::once(granted).chain(told) {
            for key in ["a", "with spaces and\ttabs", ""] {
                assert_eq!(decode(&encode(key, &event).unwrap()), Some((key, event.clone())));
            }
        }
        for nonsense in
            ["", "granted", "granted x 1 1 1 key", "granted 1 1 1 1", "other 1 1 1 1 key", "granted 1 -1 1 1 k"]
        {
            assert_eq!(decode(nonsense), None, "{nonsense:?}");
        }
    }
}
