//! etcd, by what it tells over HTTP.

use super::{Server, ask};
use crate::Result;

pub(super) struct Etcd {
    pub(super) address: String,
}

impl Etcd {
    fn get(&self, path: &str) -> Result<String> {
        ask(&self.address, &format!("GET {path} HTTP/1.0\r\nHost: {}\r\n\r\n", self.address))
    }
}

impl Server for Etcd {
    fn version(&mut self) -> Result<String> {
        let text = self.get("/version")?;
        let said = text.split_once("\r\n\r\n").ok_or("no answer")?.1;
        let said: serde_json::Value = serde_json::from_str(said.trim())?;
        Ok(said["etcdserver"].as_str().unwrap_or("unknown").to_owned())
    }

    fn calls(&mut self, named: &[String]) -> Result<u64> {
        Ok(calls(&self.get("/metrics")?, named))
    }
}

/// The calls of these methods among `metrics`, however they ended.
fn calls(metrics: &str, methods: &[String]) -> u64 {
    let handled = metrics.lines().filter(|line| line.starts_with("grpc_server_handled_total{"));
    let of = handled.filter(|line| methods.iter().any(|method| line.contains(&format!("grpc_method=\"{method}\""))));
    of.filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok()).sum::<f64>() as u64
}

#[cfg(test)]
mod tests {
    use super::calls;

    #[test]
    fn calls_of_a_method_are_added_up_however_they_ended() {
        let metrics = "# TYPE grpc_server_handled_total counter\n\
            grpc_server_handled_total{grpc_code=\"OK\",grpc_method=\"Txn\",grpc_service=\"etcdserverpb.KV\"} 12\n\
            grpc_server_handled_total{grpc_code=\"Unknown\",grpc_method=\"Txn\",grpc_service=\"etcdserverpb.KV\"} 3\n\
            grpc_server_handled_total{grpc_code=\"OK\",grpc_method=\"Range\",grpc_service=\"etcdserverpb.KV\"} 5\n\
            grpc_server_started_total{grpc_method=\"Txn\"} 99\n";
        assert_eq!(calls(metrics, &["Txn".to_owned()]), 15);
        assert_eq!(calls(metrics, &["Txn".to_owned(), "Range".to_owned()]), 20);
    }
}
