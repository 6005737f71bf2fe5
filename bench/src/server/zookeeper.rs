//! ZooKeeper, by its words of four letters.

use super::{Server, ask};
use crate::Result;

pub(super) struct ZooKeeper {
    pub(super) address: String,
}

impl Server for ZooKeeper {
    fn version(&mut self) -> Result<String> {
        let text = ask(&self.address, "mntr")?;
        let version = value(&text, "zk_version").ok_or("no version")?;
        Ok(version.split('-').next().unwrap_or(version).to_owned())
    }

    /// It counts all requests together; the question itself, and what keeps sessions alive, are few beside the others.
    fn calls(&mut self, _: &[String]) -> Result<u64> {
        let text = ask(&self.address, "mntr")?;
        Ok(value(&text, "zk_packets_received").ok_or("no count of packets")?.parse()?)
    }
}

fn value<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('\t')).map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::value;

    #[test]
    fn values_follow_their_whole_key() {
        let text = "zk_version\t3.8.0-1, built on x\nzk_packets_received\t70\nzk_packets_sent\t69\n";
        assert_eq!(value(text, "zk_packets_received"), Some("70"));
        assert_eq!(value(text, "zk_packets"), None);
    }
}
