//! A folder on a file system of the network, as far as anybody can see: FUSE, whose other side is a thread of ours.
//!
//! Structures and numbers: linux/fuse.h, protocol 7.31.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::path::Path;

use rustix::mount::MountFlags;

use super::files::may_mount;

/// Mounts it on `folder`. It ends when that is unmounted.
pub(super) fn mount(folder: &Path) -> Result<(), String> {
    may_mount()?;
    let device = OpenOptions::new().read(true).write(true).open("/dev/fuse");
    let device = device.map_err(|error| format!("no network file system can be played: /dev/fuse: {error}"))?;
    let options = format!("fd={},rootmode=40755,user_id=0,group_id=0\0", device.as_raw_fd());
    let options = std::ffi::CStr::from_bytes_with_nul(options.as_bytes()).map_err(|error| error.to_string())?;
    rustix::mount::mount("elsewhere", folder, "fuse.sshfs", MountFlags::NOSUID | MountFlags::NODEV, Some(options))
        .map_err(|error| format!("no network file system can be played: {error}"))?;
    std::thread::spawn(move || serve(device));
    Ok(())
}

const LOOKUP: u32 = 1;
const FORGET: u32 = 2;
const GETATTR: u32 = 3;
const STATFS: u32 = 17;
const INIT: u32 = 26;
const OPENDIR: u32 = 27;
const READDIR: u32 = 28;
const RELEASEDIR: u32 = 29;
const NO_SUCH_FILE: i32 = -2;
const NOT_BUILT: i32 = -38;

/// Answers for an empty folder until it is unmounted.
fn serve(mut device: File) {
    let mut request = vec![0; 1 << 17];
    while let Ok(count) = device.read(&mut request) {
        let (Some(operation), Some(id)) = (number(&request[..count], 4), request.get(8..16)) else { return };
        let (error, body) = match operation {
            INIT => (0, init()),
            GETATTR => (0, attributes()),
            STATFS => (0, vec![0; 80]),
            LOOKUP => (NO_SUCH_FILE, Vec::new()),
            OPENDIR => (0, vec![0; 16]),
            READDIR | RELEASEDIR => (0, Vec::new()),
            FORGET => continue,
            _ => (NOT_BUILT, Vec::new()),
        };
        let length = u32::try_from(16 + body.len()).unwrap_or_default();
        let answer = [&length.to_ne_bytes(), &error.to_ne_bytes()[..], id, &body].concat();
        if device.write_all(&answer).is_err() {
            return;
        }
    }
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// `fuse_init_out`: the protocol's version, and nothing that is optional.
fn init() -> Vec<u8> {
    let mut body = [7_u32, 31, 0, 0].map(u32::to_ne_bytes).concat();
    body.resize(64, 0);
    body
}

/// `fuse_attr_out` of a folder: node 1, mode 0755.
fn attributes() -> Vec<u8> {
    let mut body = vec![0; 104];
    body[16..24].copy_from_slice(&1_u64.to_ne_bytes());
    body[76..80].copy_from_slice(&0o40_755_u32.to_ne_bytes());
    body[80..84].copy_from_slice(&2_u32.to_ne_bytes());
    body
}
