//! Redis servers with settings of their own, each for a whole run.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

#[path = "../../../core/tests/ports/mod.rs"]
mod ports;

/// A server, ended with this.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) port: u16,
    folder: TempDir,
    child: Child,
}

impl Server {
    /// A server that knows the user `admin` with the password `secret`, besides what `config` says.
    pub(super) fn start(config: &[String], secret: &str) -> Result<Self, String> {
        let explain = |error: std::io::Error| format!("redis-server: {error}");
        let folder = tempfile::tempdir().map_err(explain)?;
        let port = ports::port();
        let mut lines = vec![
            "bind 127.0.0.1".to_owned(),
            format!("port {port}"),
            "unixsocket socket".into(),
            "save \"\"".into(),
            format!("user admin on >{secret} ~* &* +@all"),
        ];
        lines.extend(config.iter().map(|line| line.replace("{secret}", secret)));
        fs::write(folder.path().join("redis.conf"), lines.join("\n")).map_err(explain)?;
        let mut command = Command::new("redis-server");
        command.arg("redis.conf").current_dir(folder.path()).stdin(Stdio::null()).stdout(Stdio::null());
        let child = command.spawn().map_err(explain)?;
        let server = Server { port, folder, child };
        let give_up = Instant::now() + Duration::from_secs(20);
        while server.ask(secret, "PING").is_err() {
            if Instant::now() > give_up {
                return Err(format!("redis-server does not come up with {config:?}"));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(server)
    }

    /// The keys with `word` in them, a line each.
    pub(super) fn keys(&self, secret: &str, word: &str) -> Result<String, String> {
        let answer = self.ask(secret, &format!("KEYS *{word}*"))?;
        Ok(answer.lines().filter(|line| line.contains(word)).map(str::to_owned).collect::<Vec<_>>().join("\n"))
    }

    fn ask(&self, secret: &str, command: &str) -> Result<String, String> {
        let ask = || {
            let mut stream = UnixStream::connect(self.folder.path().join("socket"))?;
            stream.write_all(format!("AUTH admin {secret}\r\n{command}\r\nQUIT\r\n").as_bytes())?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer).map(|_| answer)
        };
        let answer = ask().map_err(|error: std::io::Error| error.to_string())?;
        answer.strip_prefix("+OK\r\n").map(str::to_owned).ok_or_else(|| format!("the server says {answer:?}"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
