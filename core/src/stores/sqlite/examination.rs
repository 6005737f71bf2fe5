//! Whether the file is in a place that is fit to keep locks in. What would make it unfit for everybody is refused when
//! it is opened; here is what remains to be known.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::config::Config;
use super::host::Host;
use super::place;
use crate::finding::{Finding, Severity};

/// A file system with less room than this is told of: the log alone takes up to some four megabytes.
const SCARCE: u64 = 16 << 20;

/// Looks at the file, which need not be there yet, its folder and this host.
pub(super) fn examine(config: &Config) -> Vec<Finding> {
    let host = Host::here();
    let file = place::real(&config.path).unwrap_or_else(|_| config.path.clone());
    let folder = file.parent().unwrap_or(config.folder());
    [Some(of_file(&file)), of_room(folder), Some(of_clock(&host)), Some(of_processes(&host))]
        .into_iter()
        .flatten()
        .collect()
}

fn of_file(file: &Path) -> Finding {
    let Ok(seen) = std::fs::metadata(file) else {
        return Finding::ok("file", format!("{} is not there yet; the first lock makes it", file.display()));
    };
    let mode = seen.permissions().mode() & 0o777;
    let found = format!("{} (mode {mode:03o})", file.display());
    if mode & 0o002 == 0 {
        return Finding::ok("file", found);
    }
    let advice = "whoever may write it may take, break and forge every lock in it: take the right from those whom you do \
                  not trust";
    Finding::of(Severity::Warning, "file", format!("{found}: everybody on this host may write it"), advice)
}

fn of_room(folder: &Path) -> Option<Finding> {
    let seen = rustix::fs::statvfs(folder).ok()?;
    Some(enough(seen.f_bavail.saturating_mul(seen.f_frsize)))
}

fn enough(left: u64) -> Finding {
    let found = format!("{} MB are left on its file system", left >> 20);
    if left >= SCARCE {
        return Finding::ok("room", found);
    }
    Finding::of(Severity::Warning, "room", found, "make room: on a full disk nothing can be locked or given back")
}

fn of_clock(host: &Host) -> Finding {
    if !host.clock.is_empty() {
        return Finding::ok("clock", "leases count on the boot clock of this host");
    }
    let advice = "let it read /proc/sys/kernel/random/boot_id";
    Finding::of(
        Severity::Note,
        "clock",
        "this boot has no name, so each lease is judged by watching it for its ttl",
        advice,
    )
}

fn of_processes(host: &Host) -> Finding {
    if !host.process.is_empty() {
        return Finding::ok("processes", "a lock whose process has ended is free at once, within one pid namespace");
    }
    let advice = "mount /proc of its own pid namespace, or choose a short ttl";
    Finding::of(
        Severity::Note,
        "processes",
        "nobody here can tell whether this process has ended: its locks are free at their ttl",
        advice,
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn severities(path: &Path) -> Vec<(&'static str, Severity)> {
        let config = Config::new(path.into(), String::new(), Duration::from_secs(1)).unwrap();
        examine(&config).into_iter().map(|finding| (finding.check, finding.severity)).collect()
    }

    #[test]
    fn a_file_that_everybody_may_write_is_told_and_one_that_is_not_there_is_not_made() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("locks.db");
        let fit = ["file", "room", "clock", "processes"].map(|check| (check, Severity::Ok));
        assert_eq!(severities(&path), fit);
        assert!(!path.exists());
        std::fs::write(&path, "").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o660)).unwrap();
        assert_eq!(severities(&path), fit);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666)).unwrap();
        assert_eq!(severities(&path)[0], ("file", Severity::Warning));
    }

    #[test]
    fn what_this_host_cannot_tell_is_told() {
        let host = Host { clock: String::new(), process: String::new(), ..Host::here() };
        assert_eq!([of_clock(&host).severity, of_processes(&host).severity], [Severity::Note; 2]);
        assert_eq!([enough(SCARCE - 1).severity, enough(SCARCE).severity], [Severity::Warning, Severity::Ok]);
    }
}
