//! Where the lock file is, and whether it can be reached by other names.
//!
//! SQLite derives the names of the write-ahead log and of its index, in which it locks, from the path. Two paths to one
//! file are two logs of it: neither sees what the other has written, and each writes over the other's pages.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::host;
use crate::error::{Error, Kind};

/// What a path leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    /// Device and inode.
    pub(super) identity: (u64, u64),
    /// By how many names it can be reached.
    names: u64,
    /// The mount through which it was reached, where that can be told.
    mount: Option<u64>,
}

/// Looks where `path` leads.
pub(super) fn see(path: &Path) -> io::Result<Seen> {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    {
        use rustix::fs::{AtFlags, CWD, StatxFlags, makedev, statx};
        match statx(CWD, path, AtFlags::empty(), StatxFlags::BASIC_STATS | StatxFlags::MNT_ID) {
            Ok(stat) => {
                // Since Linux 5.8.
                let knows_mount = stat.stx_mask & StatxFlags::MNT_ID.bits() != 0;
                return Ok(Seen {
                    identity: (makedev(stat.stx_dev_major, stat.stx_dev_minor), stat.stx_ino),
                    names: stat.stx_nlink.into(),
                    mount: knows_mount.then_some(stat.stx_mnt_id),
                });
            }
            Err(rustix::io::Errno::NOSYS) => {}
            Err(error) => return Err(error.into()),
        }
    }
    std::fs::metadata(path).map(|file| Seen::of(&file))
}

impl Seen {
    pub(super) fn of(file: &std::fs::Metadata) -> Self {
        use std::os::unix::fs::MetadataExt;
        Seen { identity: (file.dev(), file.ino()), names: file.nlink(), mount: None }
    }

    /// Whether `path`, which leads here, is the only name of the file for everybody, as far as that can be told from
    /// here.
    ///
    /// # Errors
    /// `unsupported`, with what to do.
    pub(super) fn check_names(&self, path: &Path, operation: &'static str) -> Result<(), Error> {
        if self.names != 1 {
            let message = format!(
                "the lock file {} has {} names (hard links), and whoever locks by another one is not seen; remove the other \
                 names, or name another file",
                path.display(),
                self.names
            );
            return Err(Error::unsupported(operation, message));
        }
        let folder = path.parent().and_then(|folder| see(folder).ok()).and_then(|folder| folder.mount);
        let is_mounted = match (self.mount, folder) {
            (Some(file), Some(folder)) => file != folder,
            _ => host::is_mount_point(path),
        };
        if !is_mounted {
            return Ok(());
        }
        let message = format!(
            "the lock file {} is mounted by itself, as by `docker run -v file:file`, and whoever locks by its other name is not \
             seen; mount the folder, not the file",
            path.display()
        );
        Err(Error::unsupported(operation, message))
    }
}

/// The file itself, past all links, so that everything beside it has one name too.
pub(super) fn real(path: &Path) -> io::Result<PathBuf> {
    match (std::fs::canonicalize(path), path.parent(), path.file_name()) {
        (Err(error), Some(folder), Some(name)) if error.kind() == io::ErrorKind::NotFound => {
            let folder = std::fs::canonicalize(folder)?;
            let here = folder.join(name);
            // A link to a file that is to be made.
            std::fs::read_link(&here).map_or(Ok(here), |target| real(&folder.join(target)))
        }
        (found, ..) => found,
    }
}

/// Tells what is wrong with a place before SQLite would say no more than that it cannot open it.
///
/// # Errors
/// `invalid_config`, `auth` or `unsupported`, with what to do.
pub(super) fn check(path: &Path, folder: &Path) -> Result<(), Error> {
    match std::fs::metadata(path) {
        Ok(file) if file.is_dir() => {
            let message = format!("{} is a folder; name a file in it", path.display());
            return Err(Error::invalid("connect", message));
        }
        Ok(file) if !file.is_file() => {
            let message = format!("{} is not a regular file; name one, or none yet", path.display());
            return Err(Error::invalid("connect", message));
        }
        _ => {}
    }
    match std::fs::metadata(folder) {
        Ok(folder) if folder.is_dir() => {}
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            return Err(Error::new(Kind::Auth, "connect", read_only(path)).caused_by(error));
        }
        _ => {
            let message = format!("the folder {} does not exist; make it, or name another file", folder.display());
            return Err(Error::invalid("connect", message));
        }
    }
    host::check_is_local(folder)
}

/// Makes an empty file there, unless there is one, readable for nobody else; and sees that it can be opened.
pub(super) fn make(path: &Path) -> io::Result<()> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path).map(drop)
}

/// Why `path`, which [`check`] lets pass, could not be opened or made.
pub(super) fn unopened(path: &Path, folder: &Path, error: io::Error) -> Error {
    use rustix::io::Errno;
    let path_shown = path.display();
    let (kind, message) = match Errno::from_io_error(&error) {
        Some(Errno::ACCESS | Errno::PERM | Errno::ROFS) => (Kind::Auth, read_only(path)),
        Some(Errno::NOSPC | Errno::DQUOT) => (Kind::Unavailable, full(path)),
        Some(Errno::MFILE | Errno::NFILE) => (Kind::Unavailable, crowded(path)),
        Some(Errno::NOENT) => {
            let message = format!("no file can be made in {}; name one in another folder", folder.display());
            (Kind::InvalidConfig, message)
        }
        Some(Errno::LOOP | Errno::NAMETOOLONG) => {
            (Kind::InvalidConfig, format!("{path_shown} leads nowhere; name another file"))
        }
        _ => (Kind::Unavailable, sick(path)),
    };
    Error::new(kind, "connect", message).caused_by(error)
}

/// Whether the file's disk has no room for what SQLite keeps beside a file in use: 32 KiB of shared memory, and the
/// log.
pub(super) fn is_full(folder: &Path) -> bool {
    // What is no disk has no blocks at all, /proc for one.
    rustix::fs::statvfs(folder)
        .is_ok_and(|disk| disk.f_blocks > 0 && disk.f_bavail.saturating_mul(disk.f_frsize) < 64 << 10)
}

pub(super) fn is_writable(path: &Path) -> bool {
    use rustix::fs::{Access, AtFlags, CWD};
    let refused = rustix::fs::accessat(CWD, path, Access::READ_OK | Access::WRITE_OK, AtFlags::EACCESS);
    !matches!(refused, Err(rustix::io::Errno::ACCESS | rustix::io::Errno::ROFS | rustix::io::Errno::PERM))
}

pub(super) fn read_only(path: &Path) -> String {
    format!(
        "{} cannot be written: give this user the right to write the file and its folder, or name another file",
        path.display()
    )
}

pub(super) fn full(path: &Path) -> String {
    format!("the disk of {} is full; make room, and it goes on by itself", path.display())
}

pub(super) fn crowded(path: &Path) -> String {
    format!("{} cannot be opened; raise the limit of open files, and see whether the disk is well", path.display())
}

pub(super) fn sick(path: &Path) -> String {
    format!("the disk of {} does not read or write; see the system's log", path.display())
}
