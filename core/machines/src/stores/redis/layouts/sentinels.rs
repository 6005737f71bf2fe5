//! What the sentinels of a master say of it, and whether they can have another server take over.

use std::collections::BTreeSet;

use crate::error::Result;
use crate::finding::said::Said;
use crate::finding::{Finding, Severity};
use crate::protocol::{Arg, Call, Reply, Request};
use crate::replies::nonsense;

/// Asks one sentinel, by its number, what it says of the master: its address, and names and values; the address alone
/// where it does not answer.
pub static SENTINEL: Call = Call { name: "sentinel", body: &[], batch: false };

/// Fewer cannot agree once one of them is gone.
const ENOUGH: u64 = 3;

/// Asks each of so many sentinels.
pub(super) fn ask(count: usize) -> impl Iterator<Item = Request> {
    let number = |number| Arg::Int(i64::try_from(number).unwrap_or(i64::MAX));
    (0..count).map(move |at| Request::new(&SENTINEL, "".into(), [number(at)]))
}

/// Which sentinel these requests are for, if they are for one.
pub fn asked(requests: &[Request]) -> Option<usize> {
    let [request] = requests else { return None };
    match request.args[..] {
        [Arg::Int(number)] if std::ptr::eq(request.call, &SENTINEL) => usize::try_from(number).ok(),
        _ => None,
    }
}

/// One sentinel.
#[derive(Debug)]
pub(super) struct Sentinel {
    address: String,
    said: Option<String>,
}

impl Sentinel {
    /// What was answered for it.
    pub(super) fn read(reply: &Reply) -> Result<Self> {
        let Reply::List(parts) = reply else { return Err(nonsense("examine", std::slice::from_ref(reply))) };
        match &parts[..] {
            [Reply::Text(address)] => Ok(Sentinel { address: address.clone(), said: None }),
            [Reply::Text(address), Reply::Text(said)] => {
                Ok(Sentinel { address: address.clone(), said: Some(said.clone()) })
            }
            _ => Err(nonsense("examine", parts)),
        }
    }
}

/// What follows from what they say.
pub(super) fn findings(sentinels: &[Sentinel]) -> Vec<Finding> {
    let answered: Vec<_> = sentinels.iter().filter_map(|one| Some((one, Said(one.said.as_deref()?)))).collect();
    let mut found = vec![presence(sentinels, &answered)];
    found.extend(answered.first().map(|(_, said)| failover(*said)));
    found
}

fn presence(sentinels: &[Sentinel], answered: &[(&Sentinel, Said<'_>)]) -> Finding {
    let silent: Vec<_> = sentinels.iter().filter(|one| one.said.is_none()).map(|one| &*one.address).collect();
    let masters: BTreeSet<_> =
        answered.iter().filter_map(|(_, said)| Some(format!("{}:{}", said.of("ip")?, said.of("port")?))).collect();
    let refusal = answered.iter().find_map(|(one, said)| Some(format!("{}: {}", one.address, said.of("refused")?)));
    let named = Vec::from_iter(masters.iter().map(String::as_str)).join(", ");
    if let Some(refusal) = refusal {
        let advice = "correct sentinel_user and sentinel_password, or the name of the master at this sentinel";
        return Finding::of(Severity::Warning, "sentinels", refusal, advice);
    }
    if masters.len() > 1 {
        let advice = "see whether a fail-over is under way; a sentinel that stays behind has lost the others";
        return Finding::of(Severity::Warning, "sentinels", format!("they name several masters: {named}"), advice);
    }
    if !silent.is_empty() {
        let found = format!("{} of {} do not answer: {}", silent.len(), sentinels.len(), silent.join(", "));
        let few = silent.len() * 2 >= sentinels.len();
        let severity = if few && sentinels.len() > 1 { Severity::Problem } else { Severity::Warning };
        let advice = "bring them back: without most of them nobody takes over from a master that is lost";
        return Finding::of(severity, "sentinels", found, advice);
    }
    Finding::ok("sentinels", format!("{} answer, and name {named}", sentinels.len()))
}

/// Whether another server can take over, by what one of them says.
fn failover(said: Said<'_>) -> Finding {
    let flags = said.of("flags").unwrap_or_default();
    let (quorum, all, replicas) =
        (said.number("quorum"), said.number("num-other-sentinels") + 1, said.number("num-slaves"));
    if flags.split(',').any(|flag| matches!(flag, "s_down" | "o_down")) {
        let advice = "see to the master, or wait for a replica to take over";
        return Finding::of(Severity::Problem, "failover", format!("the master is taken to be down ({flags})"), advice);
    }
    if quorum > all {
        let found = format!("{quorum} sentinels have to agree that the master is down, and there are {all}");
        return Finding::of(Severity::Warning, "failover", found, "lower the quorum, or run as many sentinels");
    }
    if all < ENOUGH {
        let found = format!("{all} sentinels watch the master: once one is lost nobody takes over");
        return Finding::of(Severity::Warning, "failover", found, "run three sentinels on three hosts");
    }
    if replicas == 0 {
        let found = "the sentinels know of no replica that could take over";
        return Finding::of(Severity::Note, "failover", found, "give the master a replica");
    }
    Finding::ok("failover", format!("{quorum} of {all} sentinels decide, and there are {replicas} replicas"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "ip:10.0.0.1\nport:6379\nflags:master\nquorum:2\nnum-other-sentinels:2\nnum-slaves:1";

    fn told(said: [Option<&str>; 3]) -> Vec<(&'static str, Severity)> {
        let read = |said: &Option<&str>| {
            let said = said.map(|said| Reply::Text(said.into()));
            Sentinel::read(&Reply::List([Reply::Text("s:1".into())].into_iter().chain(said).collect())).unwrap()
        };
        let found = findings(&said.iter().map(read).collect::<Vec<_>>());
        found.iter().map(|one| (one.check, one.severity)).collect()
    }

    fn worse(instead: &[(&str, &str)]) -> Vec<(&'static str, Severity)> {
        let said = instead.iter().fold(GOOD.to_owned(), |said, (good, bad)| {
            assert!(said.contains(good));
            said.replace(good, bad)
        });
        let all = [Some(said.as_str()), Some(GOOD), Some(GOOD)];
        told(all).into_iter().filter(|(_, severity)| *severity > Severity::Ok).collect()
    }

    #[test]
    fn what_keeps_another_server_from_taking_over_is_told() {
        assert_eq!(worse(&[]), []);
        let warns = |check| (check, Severity::Warning);
        assert_eq!(worse(&[("10.0.0.1", "10.0.0.2")]), [warns("sentinels")]);
        assert_eq!(worse(&[("flags:master", "flags:master,s_down,o_down")]), [("failover", Severity::Problem)]);
        assert_eq!(worse(&[("quorum:2", "quorum:4")]), [warns("failover")]);
        assert_eq!(worse(&[("sentinels:2", "sentinels:1")]), [warns("failover")]);
        assert_eq!(worse(&[("num-slaves:1", "num-slaves:0")]), [("failover", Severity::Note)]);
        assert_eq!(told([Some("refused:it wants a password"), Some(GOOD), Some(GOOD)])[0], warns("sentinels"));
        assert_eq!(told([Some(GOOD), None, Some(GOOD)])[0], warns("sentinels"));
        assert_eq!(told([Some(GOOD), None, None])[0], ("sentinels", Severity::Problem));
        assert!(Sentinel::read(&Reply::Nil).is_err() && Sentinel::read(&Reply::List(vec![])).is_err());
    }
}
