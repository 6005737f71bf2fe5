//! Databases, by their own clients for the command line, as the user root of the services.

use std::process::Command;

use super::Server;
use crate::Result;

pub(super) struct Sql {
    client: Vec<String>,
    version: &'static str,
    calls: &'static str,
}

/// Statements of whoever measures. Those that look at these figures are root's.
const POSTGRES_CALLS: &str =
    "SELECT coalesce(sum(calls), 0)::bigint FROM pg_stat_statements WHERE userid = 'locker'::regrole";
const MARIADB_CALLS: &str = "SELECT COALESCE(SUM(SELECT_COMMANDS + UPDATE_COMMANDS + OTHER_COMMANDS), 0) \
                             FROM information_schema.USER_STATISTICS WHERE USER = 'locker'";

impl Sql {
    pub(super) fn postgres(address: &str) -> Result<Self> {
        let (host, port) = address.rsplit_once(':').ok_or("no port")?;
        let client = words(&["psql", "-h", host, "-p", port, "-U", "root", "-d", "locks", "-qAtXc"]);
        Ok(Sql { client, version: "SHOW server_version", calls: POSTGRES_CALLS })
    }

    pub(super) fn mariadb(address: &str) -> Result<Self> {
        let (host, port) = address.rsplit_once(':').ok_or("no port")?;
        let client = words(&["mariadb", "--no-defaults", "-h", host, "-P", port, "-u", "root", "-BNe"]);
        Ok(Sql { client, version: "SELECT VERSION()", calls: MARIADB_CALLS })
    }

    fn ask(&self, statement: &str) -> Result<String> {
        let output = Command::new(&self.client[0]).args(&self.client[1..]).arg(statement).output()?;
        if !output.status.success() {
            return Err(format!("{}: {}", self.client[0], String::from_utf8_lossy(&output.stderr)).into());
        }
        Ok(String::from_utf8(output.stdout)?.trim().to_owned())
    }
}

fn words(all: &[&str]) -> Vec<String> {
    all.iter().map(|&word| word.to_owned()).collect()
}

impl Server for Sql {
    fn version(&mut self) -> Result<String> {
        let text = self.ask(self.version)?;
        Ok(text.split([' ', '-']).next().unwrap_or(&text).to_owned())
    }

    /// It counts all statements of a user together.
    fn calls(&mut self, _: &[String]) -> Result<u64> {
        Ok(self.ask(self.calls)?.parse()?)
    }
}
