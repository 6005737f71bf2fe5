//! Inboxes: a datagram socket for each client that waits, in a folder beside the lock file.
//!
//! A push that is lost or late costs time and nothing else: its receiver asks the file by itself. An invented one would
//! be believed, so the folder must be writable for nobody but its user.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use lockwright_machines::push as text;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, fstat, open, statat, unlinkat};

use super::file::LockFile;
use super::place;
use crate::platform::fork;
use crate::protocol::{InboxId, StoreEvent};
use crate::session::Inbox;
use crate::stores::{Sink, tell};

/// How often an inbox looks whether it is still wanted and still at its place.
const HEARTBEAT: Duration = Duration::from_secs(1);
/// How long a push waits for room in a full inbox: its owner is busy, or stopped.
const PATIENCE: Duration = Duration::from_millis(10);
/// How often an inbox looks for sockets that their owners left behind: a process that is killed takes none with it.
const TIDY: Duration = Duration::from_secs(60);
/// More than the longest key and the numbers before it.
const LONGEST_PUSH: usize = 64 * 1024;

/// Where the inboxes are.
#[derive(Debug)]
pub(super) struct Inboxes {
    /// The lock file, as it was given.
    path: PathBuf,
    /// The folder beside that file past all links, once it was opened.
    folder: Mutex<Option<PathBuf>>,
}

impl Inboxes {
    pub(super) fn new(path: PathBuf) -> Self {
        Inboxes { path, folder: Mutex::new(None) }
    }

    /// The lock file, past all links, is this one.
    pub(super) fn lie_beside(&self, path: &Path) {
        *self.folder.lock().unwrap_or_else(PoisonError::into_inner) = Some(beside(path));
    }

    fn folder(&self) -> io::Result<PathBuf> {
        let known = self.folder.lock().unwrap_or_else(PoisonError::into_inner).clone();
        known.map_or_else(|| place::real(&self.path).map(|path| beside(&path)), Ok)
    }

    /// A socket connected to `inbox`; none when nobody listens there, or when the folder is not ours.
    pub(super) fn reach(&self, inbox: InboxId) -> Option<UnixDatagram> {
        OurFolder::open(self.folder().ok()?).ok()?.reach(inbox)
    }

    /// Opens `inbox` for listening.
    fn bind(&self, inbox: InboxId) -> io::Result<Bound> {
        let path = self.folder()?;
        match std::fs::DirBuilder::new().mode(0o700).create(&path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let folder = OurFolder::open(path)?;
        folder.remove(inbox);
        let socket = UnixDatagram::bind(folder.address(inbox))?;
        let inode = folder.inode(inbox).ok_or(io::ErrorKind::NotFound)?;
        folder.tidy(inbox);
        socket.set_nonblocking(true)?;
        let registered = fork::register(&socket);
        Ok(Bound { registered, socket: tokio::net::UnixDatagram::from_std(socket)?, inode })
    }

    /// Removes sockets nobody listens at, as far as they are the business of `inbox`.
    pub(super) fn tidy(&self, inbox: InboxId) {
        if let Ok(folder) = self.folder().and_then(OurFolder::open) {
            folder.tidy(inbox);
        }
    }

    fn is_in_place(&self, inbox: InboxId, bound: &Bound) -> bool {
        self.folder().and_then(OurFolder::open).is_ok_and(|folder| folder.inode(inbox) == Some(bound.inode))
    }

    pub(super) fn remove(&self, inbox: InboxId) {
        if let Ok(folder) = self.folder().and_then(OurFolder::open) {
            folder.remove(inbox);
        }
    }
}

fn beside(path: &Path) -> PathBuf {
    let mut folder = path.to_owned().into_os_string();
    folder.push("-inbox");
    folder.into()
}

/// The folder, open, and with nothing in it that somebody else could have put there.
struct OurFolder {
    path: PathBuf,
    descriptor: OwnedFd,
}

impl OurFolder {
    fn open(path: PathBuf) -> io::Result<Self> {
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::RDONLY | OFlags::CLOEXEC;
        let descriptor = open(&path, flags, Mode::empty())?;
        let folder = fstat(&descriptor)?;
        if folder.st_uid != rustix::process::geteuid().as_raw() || folder.st_mode & 0o022 != 0 {
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, "the folder of the inboxes is not ours alone"));
        }
        Ok(OurFolder { path, descriptor })
    }

    /// Where a socket finds `inbox`: by way of the descriptor, which leads nowhere else and is never too long for a
    /// socket's address, where there is such a way.
    fn address(&self, inbox: InboxId) -> PathBuf {
        let folder = PathBuf::from(format!("/proc/self/fd/{}", self.descriptor.as_raw_fd()));
        if folder.exists() { folder } else { self.path.clone() }.join(inbox.to_string())
    }

    /// Of the socket of `inbox`, if there is one.
    fn inode(&self, inbox: InboxId) -> Option<u64> {
        let found = statat(&self.descriptor, inbox.to_string(), AtFlags::SYMLINK_NOFOLLOW).ok()?;
        #[allow(clippy::useless_conversion, reason = "its width differs from platform to platform")]
        (FileType::from_raw_mode(found.st_mode) == FileType::Socket).then_some(found.st_ino.into())
    }

    fn remove(&self, inbox: InboxId) {
        if self.inode(inbox).is_some() {
            let _ = unlinkat(&self.descriptor, inbox.to_string(), AtFlags::empty());
        }
    }

    fn reach(&self, inbox: InboxId) -> Option<UnixDatagram> {
        self.inode(inbox)?;
        let socket = UnixDatagram::unbound().ok()?;
        match socket.connect(self.address(inbox)) {
            Ok(()) => Some(socket),
            Err(error) => {
                // Its owner ended without a word. Inbox ids are random and never used again.
                if error.kind() == io::ErrorKind::ConnectionRefused {
                    self.remove(inbox);
                }
                None
            }
        }
    }

    /// Removes what was left behind, from `inbox` on in the ring of ids and up to the first that somebody listens at:
    /// everybody has but one neighbour to look at, and between two of them nothing stays.
    fn tidy(&self, inbox: InboxId) {
        let entries = std::fs::read_dir(&self.path).into_iter().flatten().flatten();
        let id = |name: &str| u64::from_str_radix(name, 16).ok();
        let mut others: Vec<u64> = entries.filter_map(|entry| id(entry.file_name().to_str()?)).collect();
        others.retain(|&other| other != inbox.0);
        others.sort_unstable_by_key(|other| other.wrapping_sub(inbox.0));
        others.into_iter().any(|other| self.reach(InboxId(other)).is_some());
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
    let Some(text) = text::encode(key, event) else { return };
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
    let mut tidied = Instant::now();
    while sink.strong_count() > 0 && file.replaced() == replaced {
        match tokio::time::timeout(HEARTBEAT, bound.socket.recv(&mut buffer)).await {
            Ok(Ok(length)) => {
                let text = buffer.get(..length).and_then(|bytes| std::str::from_utf8(bytes).ok());
                if let Some((key, event)) = text.and_then(text::decode) {
                    tell(sink, |sink| sink.pushed(key, &event));
                }
            }
            Ok(Err(_)) => return,
            Err(_) if !file.inboxes().is_in_place(inbox, bound) => return,
            Err(_) => {}
        }
        if tidied.elapsed() >= TIDY {
            tidied = Instant::now();
            file.inboxes().tidy(inbox);
        }
    }
}
