//! A disk of its own for a server, so small that it can be filled.

#![allow(unreachable_pub, reason = "it is a part of the tests that use it")]

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use tempfile::TempDir;

pub struct Disk(TempDir);

impl Disk {
    /// Nothing where nothing may be mounted: then it says so, and the test is left out.
    pub fn of(size: &str) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let options = std::ffi::CString::new(format!("size={size}")).unwrap();
        let mounted = mount("lockwright", folder.path(), "tmpfs", MountFlags::empty(), Some(options.as_c_str()));
        match mounted {
            Ok(()) => Some(Disk(folder)),
            Err(error) => {
                println!("left out: no disk may be mounted here to be filled ({error})");
                None
            }
        }
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    fn filler(&self) -> PathBuf {
        self.path().join("filler")
    }

    /// Until there is no room for another byte.
    pub fn fill(&self) {
        let mut filler = File::options().create(true).append(true).open(self.filler()).unwrap();
        for size in [1 << 16, 1 << 12, 1] {
            while filler.write_all(&vec![0; size]).is_ok() {}
        }
    }

    pub fn make_room(&self) {
        fs::remove_file(self.filler()).unwrap();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = unmount(self.path(), UnmountFlags::DETACH);
    }
}
