//! What the host tells about itself: which boot clock runs here, which process this is, whether another one has ended,
//! and whether a folder is on this host's own disk.

use std::path::Path;
use std::sync::OnceLock;

use crate::error::Error;
use crate::platform::companion::companion;

/// The clock and the process that rows are stamped with.
#[derive(Debug)]
pub(super) struct Host {
    /// The boot, and the time namespace if there are any: two processes that agree on it read the same boot clock.
    /// Empty where boots have no name.
    pub(super) clock: String,
    /// Pid namespace, pid and start time by slashes; empty when any of them is not known.
    pub(super) process: String,
    /// The same with that of our companion behind it, once there is one.
    pub(super) both: OnceLock<String>,
}

impl Host {
    /// This process, as it is now: a forked child differs from its parent.
    pub(super) fn here() -> Self {
        let boot = read("/proc/sys/kernel/random/boot_id");
        let clock = match (boot.trim(), namespace("time")) {
            ("", _) => String::new(),
            (boot, Some(time)) => format!("{boot}/{time}"),
            (boot, None) => boot.to_owned(),
        };
        Host { clock, process: own_process().unwrap_or_default(), both: OnceLock::new() }
    }

    /// Who answers for what this process does: itself, and behind a space whoever outlives it for that. None where we
    /// cannot be judged ourselves.
    pub(super) fn process(&self) -> &str {
        match (self.both.get(), companion()) {
            (Some(both), _) => both,
            (None, Some(companion)) if !self.process.is_empty() => self.both.get_or_init(|| self.beside(companion)),
            _ => &self.process,
        }
    }

    fn beside(&self, companion: u32) -> String {
        let started = companion.try_into().ok().and_then(stat);
        match (parse(&self.process), started) {
            (Some((namespace, ..)), Some((started, _))) => {
                format!("{} {namespace}/{companion}/{started}", self.process)
            }
            // It is gone already.
            _ => self.process.clone(),
        }
    }

    /// Whether all of `processes`, written by another [`Host`] with the same clock, have certainly ended. Anything that
    /// does not let itself be judged from here counts as running.
    pub(super) fn is_gone(&self, processes: &str) -> bool {
        let Some((ours, ..)) = parse(&self.process) else { return false };
        processes.split(' ').all(|process| match parse(process) {
            Some((theirs, pid, started)) => ours == theirs && has_ended(pid, started),
            None => false,
        })
    }
}

pub(super) fn parse(process: &str) -> Option<(&str, i32, u64)> {
    let mut parts = process.splitn(3, '/');
    Some((parts.next()?, parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

fn own_process() -> Option<String> {
    let pid = std::process::id();
    // Where /proc shows another namespace than the one we live in, its numbers are not the ones that we would judge by.
    let shown = std::fs::read_link("/proc/self").ok()?;
    if shown.to_str()?.parse() != Ok(pid) {
        return None;
    }
    let (started, _) = stat(pid.try_into().ok()?)?;
    Some(format!("{}/{pid}/{started}", namespace("pid")?))
}

/// The number of one of our namespaces.
fn namespace(kind: &str) -> Option<String> {
    let link = std::fs::read_link(format!("/proc/self/ns/{kind}")).ok()?;
    let number = link.to_str()?.strip_prefix(kind)?.strip_prefix(":[")?.strip_suffix(']')?;
    Some(number.to_owned())
}

fn has_ended(pid: i32, started: u64) -> bool {
    let Some(id) = rustix::process::Pid::from_raw(pid) else { return false };
    // Asked first, because /proc may hide the processes of other users.
    if rustix::process::test_kill_process(id) == Err(rustix::io::Errno::SRCH) {
        return true;
    }
    stat(pid).is_some_and(|(since, zombie)| since != started || zombie)
}

/// When the process started, in clock ticks since boot, and whether it has ended and only waits to be collected.
fn stat(pid: i32) -> Option<(u64, bool)> {
    read_stat(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

pub(super) fn read_stat(stat: &str) -> Option<(u64, bool)> {
    // The second field is the program's name, which may hold anything.
    let fields: Vec<&str> = stat.get(stat.rfind(')')? + 1..)?.split_ascii_whitespace().collect();
    // Fields 3, 20 and 22 of proc(5). The main thread of a living process may be a zombie, but then it is not alone.
    let (state, threads, started) = (*fields.first()?, *fields.get(17)?, fields.get(19)?.parse().ok()?);
    Some((started, matches!(state, "Z" | "X") && matches!(threads, "0" | "1")))
}

fn read(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

/// Refuses folders that other hosts may share: their clocks, processes and inboxes are not ours, and SQLite's own locks
/// are unreliable there.
///
/// # Errors
/// `unsupported`, naming the file system.
pub(super) fn check_is_local(folder: &Path) -> Result<(), Error> {
    match network_file_system(folder) {
        None => Ok(()),
        Some(kind) => Err(Error::unsupported(
            "connect",
            format!(
                "{} is on {kind}, which other hosts may share or which SQLite cannot lock reliably; name a file on a \
                 local disk, or use a lock server such as Redis",
                folder.display()
            ),
        )),
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn network_file_system(folder: &Path) -> Option<String> {
    // linux/magic.h and the file systems' own headers.
    const REFUSED: [(u32, &str); 14] = [
        (0x6969, "NFS"),
        (0x517B, "SMB"),
        (0xFF53_4D42, "CIFS"),
        (0xFE53_4D42, "SMB2"),
        (0x0102_1997, "9p"),
        (0x5346_414F, "AFS"),
        (0x6B41_4653, "AFS"),
        (0x7375_7245, "Coda"),
        (0x564C, "NCP"),
        (0x00C3_6400, "CephFS"),
        (0x0BD0_0BD0, "Lustre"),
        (0x0116_1970, "GFS2"),
        (0x7461_636F, "OCFS2"),
        (0x4750_4653, "GPFS"),
    ];
    const FUSE: u32 = 0x6573_5546;
    // The width and sign of this field differ from platform to platform; the numbers have 32 bits.
    let magic = rustix::fs::statfs(folder).ok()?.f_type as u32;
    if let Some((_, name)) = REFUSED.iter().find(|(refused, _)| *refused == magic) {
        return Some((*name).to_owned());
    }
    if magic != FUSE {
        return None;
    }
    // FUSE may be anything from a local disk to the other side of the world: only what is known to be local passes.
    const LOCAL: [&str; 8] = [
        "fuseblk",
        "fuse.fuse-overlayfs",
        "fuse.gocryptfs",
        "fuse.encfs",
        "fuse.cryfs",
        "fuse.bindfs",
        "fuse.mergerfs",
        "fuse.unionfs",
    ];
    let kind = mounted(folder).unwrap_or_else(|| "fuse".into());
    (!LOCAL.contains(&kind.as_str())).then_some(kind)
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn network_file_system(_folder: &Path) -> Option<String> {
    None
}

/// The type of the file system on which `folder` lies, as it was mounted.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn mounted(folder: &Path) -> Option<String> {
    let device = rustix::fs::stat(folder).ok()?.st_dev;
    let device = format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device));
    read_mounts(&read("/proc/self/mountinfo"), &device)
}

/// The type of the file system with that device, in the text of `/proc/PID/mountinfo`.
pub(super) fn read_mounts(mounts: &str, device: &str) -> Option<String> {
    // proc_pid_mountinfo(5): the third field is the device, the type follows a lone dash.
    let line = mounts.lines().find(|line| line.split(' ').nth(2) == Some(device))?;
    line.split(" - ").nth(1)?.split(' ').next().map(str::to_owned)
}

/// Whether something is mounted on `path` itself, which has no link in it.
pub(super) fn is_mount_point(path: &Path) -> bool {
    is_among_mounts(&read("/proc/self/mountinfo"), &path.to_string_lossy())
}

/// The same by the text of `/proc/PID/mountinfo`.
pub(super) fn is_among_mounts(mounts: &str, path: &str) -> bool {
    // The fifth field is the mount point, with these four characters written in octal.
    let written = path.replace('\\', "\\134").replace(' ', "\\040").replace('\t', "\\011").replace('\n', "\\012");
    mounts.lines().any(|line| line.split(' ').nth(4) == Some(&*written))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_gone_only_when_that_is_certain() {
        let host = Host::here();
        assert!(!host.process.is_empty() && !host.clock.is_empty());
        assert!(!host.is_gone(&host.process));
        let (namespace, pid, started) = parse(&host.process).unwrap();
        assert!(host.is_gone(&format!("{namespace}/{pid}/{}", started + 1)), "the pid was given to another process");
        let gone = format!("{namespace}/{pid}/{}", started + 1);
        assert!(host.is_gone(&format!("{gone} {gone}")), "two of whom both are gone");
        for one_left in [format!("{gone} {}", host.process), format!("{} {gone}", host.process), format!("{gone} ")] {
            assert!(!host.is_gone(&one_left), "{one_left}");
        }
        for unknown in ["", "nonsense", "1/2", &format!("1/{pid}/{}", started + 1), "x/-1/0", "x/0/0"] {
            assert!(!host.is_gone(unknown), "{unknown}");
        }
    }

    #[test]
    fn a_child_that_was_not_waited_for_yet_is_gone() {
        let mut child = std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        let host = Host::here();
        let (namespace, ..) = parse(&host.process).unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        let process = format!("{namespace}/{pid}/{}", stat(pid).unwrap().0);
        assert!(!host.is_gone(&process));
        child.kill().unwrap();
        while !stat(pid).unwrap().1 {
            std::thread::yield_now();
        }
        assert!(host.is_gone(&process));
        child.wait().unwrap();
        assert!(host.is_gone(&process));
    }

    #[test]
    fn what_is_mounted_is_told_from_what_lies_beside_it() {
        assert!(is_mount_point(Path::new("/proc")) && !is_mount_point(Path::new("/proc/self")));
        let line = "36 35 98:0 /mnt1 /a\\040b/c\\134d rw,noatime master:1 - ext3 /dev/root rw";
        assert!(is_among_mounts(line, "/a b/c\\d"));
        assert!(!is_among_mounts(line, "/mnt1") && !is_among_mounts("", "/a b/c\\d"));
    }

    #[test]
    fn disks_of_this_host_pass() {
        for folder in [std::env::temp_dir().as_path(), Path::new("/dev/shm"), Path::new("/proc/self")] {
            check_is_local(folder).unwrap();
        }
        #[cfg(target_os = "linux")]
        assert_eq!(mounted(Path::new("/proc")).as_deref(), Some("proc"));
    }
}
