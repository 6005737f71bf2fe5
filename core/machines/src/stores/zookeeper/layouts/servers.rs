//! What each server of an ensemble says of itself: by the word `srvr`, which servers as they come answer, and by the
//! sessions that it gives.

use std::collections::BTreeSet;
use std::time::Duration;

use super::garbled;
use crate::error::Result;
use crate::finding::said::numbers;
use crate::finding::{Finding, Severity};
use crate::protocol::Reply;
use crate::span::written;

/// The oldest ZooKeeper that has what is asked of it.
const OLDEST: (u32, u32, u32) = (3, 5, 0);

/// One server.
#[derive(Debug)]
pub(super) struct Server {
    address: String,
    /// What it says to `srvr`; none where nobody listens.
    said: Option<String>,
    /// The shortest and the longest time for which it keeps a silent session.
    sessions: Option<(Duration, Duration)>,
}

impl Server {
    /// What was answered to a `member`.
    pub(super) fn read(reply: &Reply) -> Result<Self> {
        let Reply::List(parts) = reply else { return Err(garbled("examine")) };
        let (address, said, sessions) = match &parts[..] {
            [Reply::Text(address)] => (address, None, None),
            [Reply::Text(address), Reply::Text(said), sessions @ ..] => {
                let sessions = match sessions {
                    [Reply::Int(least), Reply::Int(most)] => Some((millis(*least), millis(*most))),
                    _ => None,
                };
                (address, Some(said.clone()), sessions)
            }
            _ => return Err(garbled("examine")),
        };
        Ok(Server { address: address.clone(), said, sessions })
    }

    fn of(&self, what: &str) -> Option<&str> {
        let line = |line| str::strip_prefix(line, what)?.strip_prefix(": ");
        self.said.as_ref()?.lines().find_map(line)
    }

    fn version(&self) -> Option<&str> {
        self.of("Zookeeper version")?.split(['-', ',', ' ']).next()
    }

    fn mode(&self) -> Option<&str> {
        self.of("Mode")
    }

    /// Why it is of no use, if it is not.
    fn fault(&self) -> Option<String> {
        let is_idle = |said: &String| said.contains("not currently serving requests");
        match &self.said {
            None => Some(format!("{} does not answer", self.address)),
            Some(said) => is_idle(said).then(|| format!("{} serves nobody at present", self.address)),
        }
    }
}

fn millis(millis: i64) -> Duration {
    Duration::from_millis(millis.unsigned_abs())
}

/// What follows for locks whose client wants its session kept for `wanted`.
pub(super) fn findings(servers: &[Server], wanted: Duration) -> Vec<Finding> {
    [nodes(servers), Some(version(servers)), leader(servers), sessions(servers, wanted)].into_iter().flatten().collect()
}

fn nodes(servers: &[Server]) -> Option<Finding> {
    let faults: Vec<_> = servers.iter().filter_map(Server::fault).collect();
    let advice = "bring it back, or take it out of the address: locks are had as long as most members serve";
    (!faults.is_empty()).then(|| Finding::of(Severity::Warning, "nodes", faults.join("; "), advice))
}

fn version(servers: &[Server]) -> Finding {
    let known: Vec<_> = servers.iter().filter_map(|server| Some((&server.address, server.version()?))).collect();
    let versions: BTreeSet<_> = known.iter().map(|(_, version)| *version).collect();
    let Some(oldest) = versions.iter().min_by_key(|version| numbers(version)) else {
        let found = "no server says its version: the word srvr is not permitted";
        let advice = "have srvr in their 4lw.commands.whitelist, as it is in servers as they come";
        return Finding::of(Severity::Note, "version", found, advice);
    };
    if numbers(oldest) < OLDEST {
        let found = format!("ZooKeeper {oldest}");
        return Finding::of(Severity::Warning, "version", found, "use 3.5 or later: older ones have no containers");
    }
    if versions.len() > 1 {
        let each: Vec<_> = known.iter().map(|(address, version)| format!("{version} at {address}")).collect();
        let advice = "bring them all to one version: several are for the time of an upgrade";
        return Finding::of(Severity::Note, "version", format!("ZooKeeper {}", each.join(", ")), advice);
    }
    Finding::ok("version", format!("ZooKeeper {oldest}"))
}

fn leader(servers: &[Server]) -> Option<Finding> {
    let is = |mode| move |server: &&Server| server.mode() == Some(mode);
    let found = match servers.iter().find(is("leader")) {
        Some(leader) => format!("{} leads", leader.address),
        None if servers.iter().any(|server| is("standalone")(&server)) => "it has none, being alone".to_owned(),
        None if servers.iter().any(|server| server.mode().is_some()) => "it is no server of the address".to_owned(),
        None => return None,
    };
    Some(Finding::ok("leader", found))
}

fn sessions(servers: &[Server], wanted: Duration) -> Option<Finding> {
    let known: Vec<_> = servers.iter().filter_map(|server| Some((&server.address, server.sessions?))).collect();
    let told = |(least, most)| {
        let (least, most, wanted) = (written(least), written(most), written(wanted));
        format!("silent sessions are kept for {least} to {most}, and {wanted} are wanted")
    };
    if let Some((address, bounds)) = known.iter().find(|(_, (_, most))| *most < wanted) {
        let advice = "give a shorter ttl in the address, or raise the server's maxSessionTimeout: it gives this client no session";
        return Some(Finding::of(Severity::Warning, "sessions", format!("{address}: {}", told(*bounds)), advice));
    }
    let (address, bounds) = known.iter().max_by_key(|(_, (least, _))| *least)?;
    if bounds.0 > wanted {
        let advice = "lower the server's minSessionTimeout, or accept that a crash is noticed later than the ttl says";
        return Some(Finding::of(Severity::Note, "sessions", format!("{address}: {}", told(*bounds)), advice));
    }
    Some(Finding::ok("sessions", told(*bounds)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAYS: &str = "Zookeeper version: 3.8.0-5a02a05e, built on 2022-02-25 08:49 UTC\nLatency min/avg/max: 0/0.0/0\n\
                        Zxid: 0x1\nMode: follower\nNode count: 5\n";

    fn server(address: &str, said: &str, sessions: &[i64]) -> Server {
        let sessions = sessions.iter().map(|millis| Reply::Int(*millis));
        let head = [Reply::Text(address.into()), Reply::Text(said.into())];
        Server::read(&Reply::List(head.into_iter().chain(sessions).collect())).unwrap()
    }

    fn silent(address: &str) -> Server {
        Server::read(&Reply::List(vec![Reply::Text(address.into())])).unwrap()
    }

    fn told(servers: &[Server]) -> Vec<(&'static str, Severity)> {
        let found = findings(servers, Duration::from_secs(30));
        found.iter().map(|one| (one.check, one.severity)).collect()
    }

    #[test]
    fn servers_that_are_fit_say_so() {
        let leads = SAYS.replace("follower", "leader");
        let fit = ["version", "leader", "sessions"].map(|check| (check, Severity::Ok));
        assert_eq!(told(&[server("a", SAYS, &[4_000, 40_000]), server("b", &leads, &[4_000, 40_000])]), fit);
        assert_eq!(told(&[server("a", SAYS, &[4_000, 40_000])]), fit, "the others are not asked");
        assert_eq!(told(&[server("a", &SAYS.replace("follower", "standalone"), &[1, 40_000])]), fit);
        assert_eq!(findings(&[server("b", &leads, &[])], Duration::ZERO)[1].found, "b leads");
    }

    #[test]
    fn what_is_wrong_with_a_server_is_told_of_it() {
        let fit = || server("a", SAYS, &[4_000, 40_000]);
        let worse = |other| -> Vec<_> {
            told(&[fit(), other]).into_iter().filter(|(_, severity)| *severity > Severity::Ok).collect()
        };
        let idle = server("b", "This ZooKeeper instance is not currently serving requests\n", &[]);
        assert_eq!(worse(idle), [("nodes", Severity::Warning)]);
        assert_eq!(worse(silent("b")), [("nodes", Severity::Warning)]);
        let forbidden = || server("b", "srvr is not executed because it is not in the whitelist.\n", &[]);
        assert_eq!(worse(forbidden()), []);
        assert_eq!(told(&[forbidden()]), [("version", Severity::Note)]);
        assert_eq!(worse(server("b", &SAYS.replace("3.8.0", "3.9.1"), &[])), [("version", Severity::Note)]);
        assert_eq!(worse(server("b", &SAYS.replace("3.8.0", "3.4.13"), &[])), [("version", Severity::Warning)]);
        assert_eq!(worse(server("b", SAYS, &[4_000, 20_000])), [("sessions", Severity::Warning)]);
        assert_eq!(worse(server("b", SAYS, &[31_000, 40_000])), [("sessions", Severity::Note)]);
    }

    #[test]
    fn what_no_server_says_is_an_error() {
        for reply in [Reply::Nil, Reply::List(vec![]), Reply::List(vec![Reply::Int(1)])] {
            assert!(Server::read(&reply).is_err(), "{reply:?}");
        }
    }
}
