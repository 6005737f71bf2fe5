//! A real etcd by gRPC and by its JSON gateway: both do the same, and say the same of it. See
//! `conformance/services/etcd.sh`.

#[allow(dead_code, reason = "what no transaction is told by")]
#[path = "../src/stores/etcd/grpc.rs"]
mod grpc;

use std::io::{Read, Write};
use std::net::TcpStream;

use etcd_client::Client;
use lockwright_machines::stores::etcd::gateway;
use lockwright_machines::stores::etcd::wire::{
    Compare, Done, First, Get, Is, KeyValue, Keys, Op, Response, Shown, Transaction,
};
use tokio::runtime::Runtime;

/// The server, by both ways.
struct Server {
    member: String,
    client: Client,
    runtime: Runtime,
}

impl Server {
    fn new() -> Self {
        let uri = std::env::var("LOCKWRIGHT_TEST_ETCD").unwrap_or_else(|_| {
            panic!(
                "this test needs an etcd: run `conformance/services/etcd.sh start` and set LOCKWRIGHT_TEST_ETCD to the \
                 address it prints"
            )
        });
        let member = uri.trim_start_matches("etcd://").to_owned();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let client = runtime.block_on(Client::connect([format!("http://{member}")], None)).unwrap();
        Server { member, client, runtime }
    }

    fn lease(&mut self) -> i64 {
        self.runtime.block_on(self.client.lease_grant(60, None)).unwrap().id()
    }

    fn by_grpc(&mut self, transaction: &Transaction) -> Response {
        grpc::response(&self.runtime.block_on(self.client.txn(grpc::txn(transaction))).unwrap())
    }

    fn by_json(&mut self, transaction: &Transaction) -> Response {
        let (path, body) = (gateway::TRANSACTION, gateway::transaction(transaction));
        let mut socket = TcpStream::connect(&self.member).unwrap();
        // Its answer ends with the connection.
        write!(socket, "POST {path} HTTP/1.0\r\nContent-Length: {}\r\n\r\n{body}", body.len()).unwrap();
        let mut answer = String::new();
        socket.read_to_string(&mut answer).unwrap();
        let body = answer.split_once("\r\n\r\n").map(|(_, body)| body).unwrap_or_default();
        gateway::response(body.as_bytes()).unwrap_or_else(|| panic!("{body} is no answer to {transaction:?}"))
    }
}

/// All that is read of what lies below `name`, in every way that there is.
fn reads(name: &str) -> Transaction {
    let below = || Keys::beginning(&format!("{name}/"));
    let newest = Get { limit: 2, first: Some(First::Newest), ..Get::keys(below()) };
    let oldest = Get { first: Some(First::Oldest), ..Get::all(below()) };
    let cursor = Keys::beginning_from(&format!("{name}/"), &format!("{name}/b"));
    let others = [Get { of: Shown::Count, ..Get::all(below()) }, Get { limit: 1, ..Get::all(cursor) }];
    Transaction::of([newest, oldest].into_iter().chain(others).map(Op::Get))
}

#[test]
fn what_is_written_by_one_way_is_read_by_the_other() {
    let mut server = Server::new();
    let name = format!("gateway-{}", std::process::id());
    let key = |part: &str| format!("{name}/{part}");
    let lease = server.lease();
    let put = |part: &str, value: &str| Op::Put { key: key(part), value: value.into(), lease };
    let is_new = |part: &str| Compare::key(&key(part), Is::CreatedAt(0));
    let read = |part: &str| Op::Get(Get::all(Keys::one(&key(part))));
    let mut ways = [Server::by_grpc, Server::by_json].into_iter().cycle();
    let mut does = |server: &mut Server, transaction: Transaction| {
        let done = ways.next().unwrap()(server, &transaction);
        let seen = [Server::by_grpc, Server::by_json].map(|way| way(server, &reads(&name)).done);
        assert_eq!(seen[0], seen[1]);
        done
    };
    // Each is done twice, once by either way, of which the second finds what the first has left.
    for (succeeds, label) in [(true, "\u{e4}\"\\\n"), (false, "other")] {
        let joins = Transaction::when([is_new("a")]).then([put("a", label)]).or_else([read("a")]);
        let done = does(&mut server, joins);
        assert_eq!(done.succeeded, succeeds);
        match &done.done[..] {
            [Done::Put] => assert!(succeeds),
            [Done::Got(got)] => assert_eq!(got.kvs[0].text(), "\u{e4}\"\\\n"),
            other => panic!("{other:?}"),
        }
    }
    for part in ["b", "c"] {
        assert!(does(&mut server, Transaction::of([put(part, "")])).succeeded);
    }
    let created = match &server.by_grpc(&reads(&name)).done[1] {
        Done::Got(got) => got.kvs.iter().map(|kv| kv.created).collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    };
    let until = Get { created_until: created[1], ..Get::keys(Keys::beginning(&key(""))) };
    for way in [Server::by_grpc, Server::by_json] {
        let Done::Got(got) = &way(&mut server, &Transaction::of([Op::Get(until.clone())])).done[0] else { panic!() };
        assert_eq!(got.kvs.iter().map(KeyValue::name).collect::<Vec<_>>(), [key("a"), key("b")]);
        for (is, holds) in [
            (Is::CreatedAt(created[0]), true),
            (Is::WrittenAt(created[0] + 1), false),
            (Is::CreatedBefore(created[0]), false),
            (Is::CreatedBefore(created[0] + 1), true),
            (Is::Value("other".into()), false),
            (Is::Value("\u{e4}\"\\\n".into()), true),
        ] {
            let compares = Transaction::when([Compare::key(&key("a"), is.clone())]);
            assert_eq!(way(&mut server, &compares).succeeded, holds, "{is:?}");
        }
    }
    for deleted in [1, 0] {
        assert_eq!(does(&mut server, Transaction::of([Op::Delete(key("a"))])).done, [Done::Deleted(deleted)]);
    }
    server.runtime.block_on(server.client.lease_revoke(lease)).unwrap();
}
