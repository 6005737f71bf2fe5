//! What the servers of a cluster say of themselves.

use std::process::Command;

use super::Servers;

/// The key of a lock of the layout `native`.
pub fn key(name: &str) -> String {
    format!("lw:{{{name}}}")
}

/// What a server answers, by its number.
pub fn ask(cluster: &Servers, node: &str, words: &[&str]) -> String {
    let port = first_port(cluster) + node.parse::<u16>().unwrap() - 1;
    let mut command = Command::new("redis-cli");
    let done = command.env("REDISCLI_AUTH", password(cluster)).args(["-p", &port.to_string()]).args(words).output();
    String::from_utf8(done.unwrap().stdout).unwrap().trim().to_owned()
}

pub fn password(cluster: &Servers) -> &str {
    cluster.uri.split([':', '@']).nth(2).unwrap()
}

pub fn first_port(cluster: &Servers) -> u16 {
    cluster.uri.split([':', ',']).nth(3).unwrap().parse().unwrap()
}

/// The number of the server that has the slot of a lock, as `witness` says; nothing where it knows of none.
pub fn owner(cluster: &Servers, name: &str, witness: &str) -> String {
    let slot: u16 = ask(cluster, witness, &["cluster", "keyslot", &key(name)]).parse().unwrap();
    let has = |range: &str| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        first.parse().is_ok_and(|first: u16| first <= slot) && last.parse().is_ok_and(|last: u16| slot <= last)
    };
    let nodes = ask(cluster, witness, &["cluster", "nodes"]);
    let owner = nodes.lines().find(|node| node.contains("master") && node.split(' ').skip(8).any(has));
    let port = owner.and_then(|node| node.split([':', '@']).nth(1)).and_then(|port| port.parse::<u16>().ok());
    port.map(|port| (port - first_port(cluster) + 1).to_string()).unwrap_or_default()
}
