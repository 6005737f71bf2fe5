//! The folder: a file for each lock that is held, and the procedures on them.
//!
//! | file | holds |
//! |---|---|
//! | `mutex` | nothing; whoever has it locked (`flock`) may use the others |
//! | `tokens` | the highest fencing token ever set aside |
//! | `<hash of the name>.lock` | a [`Record`], a line for each of its fields; gone while nobody holds the lock |
//!
//! Times are microseconds on the clock of [`stores::now`], which all processes of a host share, and which begins anew
//! with each boot: a record of another boot is nobody's.

use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use lockwright::protocol::{Arg, Reply, Request};
use lockwright::stores::{self, Answered, Outcome};
use lockwright::time::Time;
use lockwright::{Error, Kind};

/// Fencing tokens that one grant sets aside, for the hand-offs inside a process.
pub(crate) const BLOCK: u64 = 64;
/// First and longest pause before a mutex is tried again that another process has.
const PAUSE: (Duration, Duration) = (Duration::from_micros(50), Duration::from_millis(2));

/// See the [module](self).
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    address: Arc<str>,
    boot: String,
}

/// A lock that was granted.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Record {
    name: String,
    boot: String,
    owner: String,
    since: u64,
    until: u64,
    first: u64,
    card: String,
}

/// The mutex of the folder.
struct Locked(File);

impl Drop for Locked {
    fn drop(&mut self) {
        // By name, not by closing: a child that was forked meanwhile has the file open too.
        let _ = self.0.unlock();
    }
}

impl Folder {
    /// The folder at `path`, which is made at the first use.
    pub fn new(path: PathBuf, address: Arc<str>) -> Self {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned();
        Folder { path, address, boot }
    }

    /// Executes `requests` in their order, with nobody else's between them. What is not begun at `limit` is not begun
    /// any more.
    pub fn perform(&self, requests: &[Request], limit: Time) -> Answered {
        let locked = self.lock(limit);
        let sent = stores::now();
        let outcome = match locked {
            Err(error) => Outcome::NotSent(self.failed(&error)),
            Ok(Some(_locked)) if sent <= limit => {
                let at = sent.as_nanos() / 1000;
                let replies = requests.iter().map(|request| self.execute(request, at)).collect::<io::Result<_>>();
                // Some of it may have been done; nothing of it will be.
                let unknown = |error| Outcome::Unknown { error: self.failed(&error), void_after: stores::now() };
                replies.map_or_else(unknown, Outcome::Replies)
            }
            Ok(_) => Outcome::NotSent(self.failed(&ErrorKind::TimedOut.into())),
        };
        Answered { sent, outcome }
    }

    fn failed(&self, error: &io::Error) -> Error {
        let kind = if error.kind() == ErrorKind::PermissionDenied { Kind::Auth } else { Kind::Unavailable };
        let message =
            format!("{} cannot be used: {error}; see whether it may be written, and who uses it", self.path.display());
        Error::new(kind, "connect", message).on_store(self.address.clone())
    }

    fn lock(&self, limit: Time) -> io::Result<Option<Locked>> {
        fs::create_dir_all(&self.path)?;
        let file = File::options().create(true).truncate(false).write(true).open(self.path.join("mutex"))?;
        let mut pause = PAUSE.0;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Some(Locked(file))),
                Err(TryLockError::Error(error)) => return Err(error),
                Err(TryLockError::WouldBlock) if stores::now() >= limit => return Ok(None),
                Err(TryLockError::WouldBlock) => std::thread::sleep(pause),
            }
            pause = (pause * 2).min(PAUSE.1);
        }
    }

    /// Does one procedure at the time `at`.
    fn execute(&self, request: &Request, at: u64) -> io::Result<Reply> {
        let key = &*request.key;
        let path = self.path_of(key);
        let found = match self.read(&path)? {
            Some(record) if record.name != key => return Ok(foreign()),
            found => found,
        };
        let held = found.as_ref().filter(|record| record.until > at);
        let is_of = |record: &&Record, owner: &str| record.owner == owner;
        Ok(match (request.call.name, request.args.as_slice()) {
            ("acquire", [Arg::Text(owner), Arg::Int(ttl), Arg::Text(card)]) => match held {
                // Asked again, since an answer was lost: it is told its tokens again.
                Some(mine) if is_of(&mine, owner) => {
                    let until = mine.until.max(end(at, *ttl));
                    self.write(&path, &Record { until, ..mine.clone() })?;
                    number(mine.first)
                }
                Some(theirs) => Reply::List(vec![number(theirs.until - at)]),
                None => number(self.grant(&path, key, owner, card, at, *ttl)?),
            },
            ("renew", [Arg::Text(owner), Arg::Int(ttl)]) => match held.filter(|held| is_of(held, owner)) {
                Some(mine) => {
                    let until = mine.until.max(end(at, *ttl));
                    self.write(&path, &Record { until, ..mine.clone() })?;
                    Reply::Int(1)
                }
                None => Reply::Int(0),
            },
            ("release", [Arg::Text(owner)]) => match (found.as_ref().filter(|it| is_of(it, owner)), held) {
                (Some(_), held) => {
                    fs::remove_file(&path)?;
                    Reply::Int(held.is_some().into())
                }
                (None, Some(theirs)) => Reply::Text(theirs.card.clone()),
                (None, None) => Reply::Int(0),
            },
            // Whether or not it is over, as long as nobody else was granted the lock.
            ("pass", [Arg::Text(from), Arg::Text(to), Arg::Int(ttl), Arg::Text(card)]) => match &found {
                Some(done) if is_of(&done, to) => number(done.first),
                Some(held) if is_of(&held, from) => number(self.grant(&path, key, to, card, at, *ttl)?),
                _ => Reply::Int(0),
            },
            ("undo", [Arg::Text(one), Arg::Text(other)]) => {
                if found.as_ref().is_some_and(|it| is_of(&it, one) || is_of(&it, other)) {
                    fs::remove_file(&path)?;
                }
                Reply::Nil
            }
            ("inspect", []) => held.map_or(Reply::Nil, |held| {
                let Record { owner, card, .. } = held.clone();
                let times = [held.until - at, at.saturating_sub(held.since), held.first].map(number);
                Reply::List([Reply::Text(owner), Reply::Text(card)].into_iter().chain(times).collect())
            }),
            ("break", [Arg::Int(token)]) => {
                let is_its = |held: &&Record| {
                    u64::try_from(*token).is_ok_and(|token| (held.first..held.first + BLOCK).contains(&token))
                };
                let broken = held.is_some_and(|held| is_its(&held));
                if broken {
                    fs::remove_file(&path)?;
                }
                Reply::Int(broken.into())
            }
            ("list", []) => self.list(at)?,
            _ => Reply::Error { code: "UNKNOWN".into(), message: request.call.name.into() },
        })
    }

    fn grant(&self, path: &Path, name: &str, owner: &str, card: &str, at: u64, ttl: i64) -> io::Result<u64> {
        let first = self.set_aside()?;
        let (name, owner, card) = (name.to_owned(), owner.to_owned(), card.to_owned());
        self.write(
            path,
            &Record { name, boot: self.boot.clone(), owner, since: at, until: end(at, ttl), first, card },
        )?;
        Ok(first)
    }

    /// The first of as many tokens as no grant had before.
    fn set_aside(&self) -> io::Result<u64> {
        let path = self.path.join("tokens");
        let last = match fs::read_to_string(&path) {
            Ok(text) => {
                text.trim().parse().map_err(|_| io::Error::new(ErrorKind::InvalidData, "`tokens` holds no number"))?
            }
            Err(error) if error.kind() == ErrorKind::NotFound => 0_u64,
            Err(error) => return Err(error),
        };
        replace(&path, &(last + BLOCK).to_string())?;
        Ok(last + 1)
    }

    fn list(&self, at: u64) -> io::Result<Reply> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "lock") {
                let record = self.read(&path)?.filter(|record| record.until > at);
                names.extend(record.map(|record| Reply::Text(record.name)));
            }
        }
        Ok(Reply::List(names))
    }

    /// What a lock is kept in. Two names of one hash cannot be held, since the record says whose it is.
    fn path_of(&self, name: &str) -> PathBuf {
        // FNV-1a.
        let step = |hash: u128, byte| (hash ^ u128::from(byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b);
        let hash = name.bytes().fold(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d, step);
        self.path.join(format!("{hash:032x}.lock"))
    }

    /// The record of this boot.
    fn read(&self, path: &Path) -> io::Result<Option<Record>> {
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let record =
            Record::decode(&text).ok_or_else(|| io::Error::new(ErrorKind::InvalidData, "a file holds no lock"))?;
        Ok(Some(record).filter(|record| record.boot == self.boot))
    }

    fn write(&self, path: &Path, record: &Record) -> io::Result<()> {
        replace(path, &record.encode())
    }
}

/// Puts `text` in the place of what a file holds, all of it or nothing, whenever this process ends.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let new = path.with_extension("new");
    File::create(&new)?.write_all(text.as_bytes())?;
    fs::rename(&new, path)
}

fn end(at: u64, ttl: i64) -> u64 {
    at.saturating_add(u64::try_from(ttl).unwrap_or(0))
}

fn number(number: u64) -> Reply {
    Reply::Int(i64::try_from(number).unwrap_or(i64::MAX))
}

fn foreign() -> Reply {
    Reply::Error { code: "FOREIGN".into(), message: "another name has this one's file".into() }
}

impl Record {
    /// No name and no card has a line end in it.
    fn encode(&self) -> String {
        let Record { name, boot, owner, since, until, first, card } = self;
        format!("{name}\n{boot}\n{owner}\n{since}\n{until}\n{first}\n{card}\n")
    }

    fn decode(text: &str) -> Option<Self> {
        let lines: Vec<_> = text.split('\n').collect();
        let [name, boot, owner, since, until, first, card, ""] = lines[..] else { return None };
        let [since, until, first] = [since, until, first].map(|text| text.parse().ok());
        let [name, boot, owner, card] = [name, boot, owner, card].map(str::to_owned);
        Some(Record { name, boot, owner, since: since?, until: until?, first: first?, card })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_written_or_not_at_all() {
        let [name, boot, owner, card] = ["a/b c", "boot", "0123", "host\t1\trust\tlabel"].map(str::to_owned);
        let record = Record { name, boot, owner, since: 1, until: 2, first: 65, card };
        let text = record.encode();
        assert_eq!(Record::decode(&text), Some(record));
        assert!((0..text.len()).all(|end| Record::decode(&text[..end]).is_none()));
    }
}
