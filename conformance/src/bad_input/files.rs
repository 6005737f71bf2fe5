//! Places where a lock file cannot be, or cannot be used.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use rusqlite::Connection;
use rustix::mount::{MountFlags, UnmountFlags, mount, mount_bind, mount_remount, unmount};
use tempfile::TempDir;

use super::ground::Unmade;
use super::network;

/// A place, and what was there before.
#[derive(Debug)]
pub(super) struct LockFile {
    /// The lock file.
    pub(super) path: PathBuf,
    before: Vec<(PathBuf, Vec<u8>)>,
    // Before the folder they are in: fields are dropped in order.
    _mounted: Option<Mounted>,
    folder: TempDir,
}

#[derive(Debug)]
struct Mounted(PathBuf);

impl Drop for Mounted {
    fn drop(&mut self) {
        if let Err(error) = unmount(&self.0, UnmountFlags::DETACH) {
            eprintln!("{}: {error}", self.0.display());
        }
    }
}

impl LockFile {
    /// The place called `kind`.
    pub(super) fn make(kind: &str) -> Result<Self, Unmade> {
        let folder = tempfile::Builder::new().prefix("lockwright-bad-").tempdir().map_err(broken)?;
        let (path, mounted) = build(kind, folder.path())?;
        let before = look(folder.path()).map_err(broken)?;
        Ok(LockFile { path, before, _mounted: mounted, folder })
    }

    /// Where everything of it lies.
    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// What is not as it was before, a line each.
    pub(super) fn changes(&self) -> Result<String, String> {
        let after = look(self.folder.path()).map_err(|error| error.to_string())?;
        let mut changes = Vec::new();
        for (path, _) in after.iter().filter(|entry| !self.before.contains(entry)) {
            changes.push(format!("{} was written", path.display()));
        }
        for (path, _) in self.before.iter().filter(|(path, _)| !after.iter().any(|(other, _)| other == path)) {
            changes.push(format!("{} is gone", path.display()));
        }
        Ok(changes.join("\n"))
    }
}

fn broken(error: impl std::fmt::Display) -> Unmade {
    Unmade::Wrong(error.to_string())
}

fn build(kind: &str, folder: &Path) -> Result<(PathBuf, Option<Mounted>), Unmade> {
    let path = folder.join("locks.db");
    let allow = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).map_err(broken);
    let mut mounted = None;
    match kind {
        "folder" => fs::create_dir(&path).map_err(broken)?,
        "no-folder" => return Ok((folder.join("missing/locks.db"), None)),
        "device" => return Ok(("/dev/null".into(), None)),
        "no-database" => fs::write(&path, "a note of somebody, long enough to be read; ".repeat(50)).map_err(broken)?,
        "foreign-tables" => sql(&path, "CREATE TABLE accounts (name TEXT)")?,
        "other-version" => {
            lock_file(&path)?;
            sql(&path, "PRAGMA user_version = 1000")?;
        }
        "foreign-trigger" => {
            lock_file(&path)?;
            sql(&path, "CREATE TRIGGER spoil AFTER INSERT ON locks BEGIN DELETE FROM locks; END")?;
        }
        "two-names" => {
            lock_file(&path)?;
            fs::hard_link(&path, folder.join("other.db")).map_err(broken)?;
        }
        "mounted" => {
            may_mount().map_err(Unmade::Cannot)?;
            let outside = folder.join("outside.db");
            lock_file(&outside)?;
            fs::write(&path, "").map_err(broken)?;
            mount_bind(&outside, &path)
                .map_err(|error| Unmade::Cannot(format!("nothing may be mounted here: {error}")))?;
            mounted = Some(Mounted(path.clone()));
        }
        "no-disk" => return Ok(("/proc/locks.db".into(), None)),
        "damaged" => {
            lock_file(&path)?;
            let mut bytes = fs::read(&path).map_err(broken)?;
            bytes[100..].fill(0xAA);
            fs::write(&path, bytes).map_err(broken)?;
        }
        "read-only-file" => {
            lock_file(&path)?;
            allow(&path, 0o444)?;
        }
        "read-only-folder" => {
            lock_file(&path)?;
            allow(folder, 0o555)?;
        }
        "unreadable-folder" => {
            let inner = folder.join("closed");
            fs::create_dir(&inner).map_err(broken)?;
            allow(&inner, 0o000)?;
            return Ok((inner.join("locks.db"), None));
        }
        "read-only-disk" => {
            mounted = Some(disk(folder)?);
            lock_file(&path)?;
            mount_remount(folder, MountFlags::RDONLY, c"").map_err(broken)?;
        }
        "full-disk" => {
            mounted = Some(disk(folder)?);
            lock_file(&path)?;
            fill(&folder.join("filler")).map_err(broken)?;
        }
        "network-disk" => {
            network::mount(folder).map_err(Unmade::Cannot)?;
            mounted = Some(Mounted(folder.to_owned()));
        }
        other => return Err(Unmade::Wrong(format!("there is no file {other:?}"))),
    }
    Ok((path, mounted))
}

/// A disk of 256 KiB on `folder`.
fn disk(folder: &Path) -> Result<Mounted, Unmade> {
    may_mount().map_err(Unmade::Cannot)?;
    mount("lockwright", folder, "tmpfs", MountFlags::empty(), Some(c"size=256k"))
        .map_err(|error| Unmade::Cannot(format!("nothing may be mounted here: {error}")))?;
    Ok(Mounted(folder.to_owned()))
}

/// What says that mounts are seen by nobody else, and end with this process.
const OWN_MOUNTS: &str = "LOCKWRIGHT_OWN_MOUNTS";

/// Starts this program again with mounts of its own, if it may have any; call it before anything else is done.
pub fn have_own_mounts() {
    let words: &[&str] = if rustix::process::geteuid().is_root() { &["-m"] } else { &["-U", "-r", "-m"] };
    let may = |status: io::Result<ExitStatus>| status.is_ok_and(|status| status.success());
    if may_mount().is_ok() || !may(Command::new("unshare").args(words).arg("true").stderr(Stdio::null()).status()) {
        return;
    }
    let again = std::env::current_exe().map(|program| {
        let arguments = std::env::args_os().skip(1);
        Command::new("unshare").args(words).arg(program).args(arguments).env(OWN_MOUNTS, "1").exec()
    });
    eprintln!("going on without mounts of our own: {again:?}");
}

/// Whether this process has mounts of its own.
pub(super) fn may_mount() -> Result<(), String> {
    match std::env::var_os(OWN_MOUNTS) {
        Some(_) => Ok(()),
        None => Err("`unshare` does not give us mounts of our own here, and those of others are left alone".into()),
    }
}

/// Writes until nothing more fits.
fn fill(path: &Path) -> io::Result<()> {
    let mut file = fs::File::create(path)?;
    for size in [4096, 1] {
        while file.write_all(&vec![b'x'; size]).is_ok() {}
    }
    Ok(())
}

/// A lock file in use before, and by nobody now.
fn lock_file(path: &Path) -> Result<(), Unmade> {
    let client = lockwright::blocking::connect(&format!("sqlite://{}", path.display())).map_err(broken)?;
    let _ = client.lock("earlier").acquire().and_then(lockwright::blocking::Guard::release).map_err(broken)?;
    client.close();
    // Closed by an ordinary connection it is one file.
    sql(path, "PRAGMA wal_checkpoint(TRUNCATE)")
}

fn sql(path: &Path, text: &str) -> Result<(), Unmade> {
    let db = Connection::open(path).map_err(broken)?;
    db.execute_batch(text).map_err(broken)
}

/// Everything below `folder` and what it holds, but for what SQLite keeps beside a file that is in use.
fn look(folder: &Path) -> io::Result<Vec<(PathBuf, Vec<u8>)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.to_string_lossy();
        if name.ends_with("-wal") || name.ends_with("-shm") {
            continue;
        }
        let content = match path.is_dir() {
            true => {
                found.extend(look(&path).unwrap_or_default());
                Vec::new()
            }
            false => fs::read(&path)?,
        };
        found.push((path, content));
    }
    found.sort();
    Ok(found)
}
