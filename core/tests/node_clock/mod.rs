//! Clocks of servers that run too fast or step, by a library that is loaded into the server.

#![allow(unreachable_pub, dead_code, reason = "each test uses its part")]

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The clock of one server, which is right until somebody says otherwise.
pub struct NodeClock {
    library: PathBuf,
    path: PathBuf,
    file: File,
    ahead: i64,
}

impl NodeClock {
    /// One of a server that runs in `folder`.
    pub fn new(folder: &Path) -> Self {
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/node_clock/clock.c");
        let (library, path) = (folder.join("clock.so"), folder.join("clock"));
        let compiled = Command::new("cc").args(["-O2", "-shared", "-fPIC", "-o"]).arg(&library).arg(source).status();
        assert!(compiled.expect("these tests need a C compiler").success());
        let file = File::create(&path).unwrap();
        let clock = NodeClock { library, path, file, ahead: 0 };
        clock.runs(1.0);
        clock
    }

    /// Has the server that `command` starts go by it.
    pub fn given_to<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command.env("LD_PRELOAD", &self.library).env("NODE_CLOCK", &self.path)
    }

    /// Has it run so many times as fast from now on.
    pub fn runs(&self, rate: f64) {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros();
        let since = i64::try_from(since).unwrap();
        self.file
            .write_all_at(&[rate.to_ne_bytes(), since.to_ne_bytes(), self.ahead.to_ne_bytes()].concat(), 0)
            .unwrap();
    }

    /// Sets it forward.
    pub fn steps(&mut self, by: Duration) {
        self.ahead += i64::try_from(by.as_micros()).unwrap();
        self.file.write_all_at(&self.ahead.to_ne_bytes(), 16).unwrap();
    }
}
