//! The shop: a stock and a ledger in plain files, which nothing guards but the lock around them.
//!
//! `stock` holds how many items are left, and is replaced by renaming. `ledger` has a line for each sale. `fence` holds
//! the highest fencing token that the shop has been shown: whoever comes with a lower one is turned away, as a database
//! would by a condition in its `UPDATE`. Checking the fence and acting on it is one step, under a lock of the system
//! that lasts no longer; reading the stock, thinking and writing are three, and only the lock makes them one.

use std::fs::{File, OpenOptions};
use std::io::{Read, Result, Seek, Write};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

#[derive(Debug)]
pub(super) struct Shop {
    folder: PathBuf,
}

/// What the shop answers to somebody who shows a token.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer<T> {
    Done(T),
    /// It has been shown this higher token before.
    Stale(u64),
}

/// A line of the ledger.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Sale {
    pub(super) item: u64,
    pub(super) worker: usize,
    pub(super) token: Option<u64>,
}

impl Shop {
    /// A new shop in an empty folder.
    pub(super) fn found(folder: &Path, stock: u64) -> Result<Self> {
        for (file, text) in [("stock", stock.to_string()), ("ledger", String::new()), ("fence", "0".to_owned())] {
            std::fs::write(folder.join(file), text)?;
        }
        Ok(Shop::at(folder))
    }

    pub(super) fn at(folder: &Path) -> Self {
        Shop { folder: folder.to_owned() }
    }

    /// How many items are left. The fence is raised by looking too: whoever looked before must not act on it any more.
    pub(super) fn look(&self, token: Option<u64>) -> Result<Answer<u64>> {
        self.past_the_fence(token, || {
            let text = std::fs::read_to_string(self.folder.join("stock"))?;
            text.trim().parse().map_err(std::io::Error::other)
        })
    }

    /// Sells an item of a stock that was `item` items high when it was looked at.
    pub(super) fn sell(&self, item: u64, worker: usize, token: Option<u64>) -> Result<Answer<()>> {
        self.past_the_fence(token, || {
            let draft = self.folder.join(format!("stock.{}", std::process::id()));
            std::fs::write(&draft, item.saturating_sub(1).to_string())?;
            std::fs::rename(draft, self.folder.join("stock"))?;
            let shown = token.map_or("-".to_owned(), |token| token.to_string());
            let mut ledger = OpenOptions::new().append(true).open(self.folder.join("ledger"))?;
            ledger.write_all(format!("{item} {worker} {shown}\n").as_bytes())
        })
    }

    /// Whether the shop would turn `token` away, and what it has seen.
    pub(super) fn fence(&self) -> Result<u64> {
        read_fence(&mut self.locked_fence()?)
    }

    /// Says once, over all processes, that `what` may happen now.
    pub(super) fn claims(&self, what: &str) -> bool {
        File::create_new(self.folder.join(what)).is_ok()
    }

    pub(super) fn ledger(&self) -> Result<Vec<Sale>> {
        let text = std::fs::read_to_string(self.folder.join("ledger"))?;
        let read = |line: &str| {
            let mut words = line.split(' ');
            let (item, worker) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
            Some(Sale { item, worker, token: words.next()?.parse().ok() })
        };
        text.lines()
            .map(|line| read(line).ok_or_else(|| std::io::Error::other("a line of the ledger is torn")))
            .collect()
    }

    fn past_the_fence<T>(&self, token: Option<u64>, act: impl FnOnce() -> Result<T>) -> Result<Answer<T>> {
        let Some(token) = token else { return act().map(Answer::Done) };
        let mut fence = self.locked_fence()?;
        let seen = read_fence(&mut fence)?;
        if token < seen {
            return Ok(Answer::Stale(seen));
        }
        if token > seen {
            fence.rewind()?;
            fence.write_all(format!("{token:020}").as_bytes())?;
        }
        act().map(Answer::Done)
    }

    fn locked_fence(&self) -> Result<File> {
        let fence = OpenOptions::new().read(true).write(true).open(self.folder.join("fence"))?;
        flock(&fence, FlockOperation::LockExclusive)?;
        Ok(fence)
    }
}

fn read_fence(fence: &mut File) -> Result<u64> {
    let mut text = String::new();
    fence.rewind()?;
    fence.read_to_string(&mut text)?;
    text.trim().parse().map_err(std::io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_good_until_a_higher_one_was_shown() {
        let folder = std::env::temp_dir().join(format!("lockwright-shop-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let shop = Shop::found(&folder, 2).unwrap();
        assert_eq!(shop.look(Some(5)).unwrap(), Answer::Done(2));
        assert_eq!(shop.look(Some(9)).unwrap(), Answer::Done(2));
        assert_eq!(shop.sell(2, 1, Some(5)).unwrap(), Answer::Stale(9));
        assert_eq!(shop.sell(2, 2, Some(9)).unwrap(), Answer::Done(()));
        assert_eq!(shop.look(Some(10)).unwrap(), Answer::Done(1));
        assert_eq!(shop.ledger().unwrap(), [Sale { item: 2, worker: 2, token: Some(9) }]);
        std::fs::remove_dir_all(folder).unwrap();
    }
}
