//! What may answer at the address of etcd's JSON gateway.

use lockwright_machines::stores::etcd::failure::Failure;
use lockwright_machines::stores::etcd::gateway::{self, Heard};
use lockwright_machines::stores::etcd::layouts::{ACQUIRE, EXISTS, FIRST, KEYS, LOOK, RELEASE};
use lockwright_machines::stores::etcd::lease::Lease;
use lockwright_machines::stores::etcd::transactions;

use super::is_readable;
use crate::protocol::{Arg, Reply, Request};

/// An answer is read or refused: what is read can be told, and why it is refused is for a person.
pub fn etcd_answer(data: &[u8]) {
    let (status, body) =
        data.split_first_chunk().map_or((0, data), |(status, body)| (u16::from_be_bytes(*status), body));
    match gateway::failure(status, body) {
        Failure::NotSent(error) | Failure::NoLeader(error) | Failure::Unknown(error) | Failure::Slow(error) => {
            is_readable(&error);
        }
        Failure::Refused(reply) => assert!(matches!(reply, Reply::Error { .. })),
    }
    let lease = Lease::granted("p/", 0x1f, 30);
    if let Some(response) = gateway::response(body) {
        for call in [&ACQUIRE, &LOOK, &EXISTS, &RELEASE, &FIRST, &KEYS] {
            let own = Arg::Key("p/x/a".into());
            let request = Request::new(call, "p/x".into(), [own, Arg::Nothing, Arg::Int(32), Arg::NotAfter]);
            let reply = transactions::answer(&request, &response, Some(&lease), 0);
            assert!(matches!(reply, Reply::Int(_) | Reply::List(_) | Reply::Error { .. } | Reply::Nil), "{reply:?}");
        }
    }
    if let Some((id, _)) = gateway::granted(body) {
        assert!(id != 0);
    }
    if let Some(Heard::Changed(changed)) = gateway::heard(body) {
        changed.iter().for_each(|kv| drop((transactions::gone(kv), transactions::broken(&kv.value))));
    }
    let _ = (gateway::alive(body), gateway::lives(body), gateway::token(body));
}
