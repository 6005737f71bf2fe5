//! What a member has: keys with their revisions, leases, and what happened since the last compaction. Each has the
//! same after the same entries of the log.

use std::collections::{BTreeMap, BTreeSet};

use super::words::{Compare, Done, Event, Header, KeyValue, Op, OpDone, Put, Range, Ranged, Txn, TxnDone};

const EQUAL: i32 = 0;
const GREATER: i32 = 1;
const LESS: i32 = 2;
const BY_CREATION: i32 = 2;
const DESCENDING: i32 = 2;

/// See the [module](self).
#[derive(Clone, Default)]
pub(super) struct Kv {
    pub(super) revision: i64,
    keys: BTreeMap<Vec<u8>, KeyValue>,
    /// The keys of each lease.
    pub(super) leases: BTreeMap<i64, BTreeSet<Vec<u8>>>,
    /// What happened, in its order; nothing of it before this revision.
    history: Vec<Event>,
    pub(super) compacted: i64,
}

/// What the leader orders.
#[derive(Clone)]
pub(super) enum Entry {
    Txn(Txn),
    Grant { id: i64 },
    Revoke { id: i64 },
    Compact { until: i64 },
}

/// What became of it.
pub(super) enum Made {
    Txn(TxnDone),
    Done,
    NoLease,
}

/// Whether `key` is one of these.
pub(super) fn is_of(key: &[u8], from: &[u8], end: &[u8]) -> bool {
    match end {
        [] => key == from,
        [0] => key >= from,
        _ => key >= from && key < end,
    }
}

impl Kv {
    pub(super) fn new() -> Self {
        Kv { revision: 1, ..Kv::default() }
    }

    pub(super) fn header(&self) -> Option<Header> {
        Some(Header { revision: self.revision })
    }

    fn found<'a>(&'a self, from: &'a [u8], end: &'a [u8]) -> impl Iterator<Item = &'a KeyValue> {
        let after = self.keys.range(from.to_vec()..).map(|(_, kv)| kv);
        after.take_while(move |kv| is_of(&kv.key, from, end))
    }

    pub(super) fn range(&self, range: &Range) -> Ranged {
        assert!(range.revision == 0 && !range.serializable, "everybody reads what is newest");
        assert!(range.target == BY_CREATION || range.order == 0, "it is sorted by creation, or not");
        let found: Vec<_> = self.found(&range.key, &range.end).collect();
        let count = found.len() as i64;
        if range.count_only {
            return Ranged { header: self.header(), count, ..Ranged::default() };
        }
        let is_within = |at: i64, from: i64, until: i64| (from == 0 || at >= from) && (until == 0 || at <= until);
        let is_shown = |kv: &&KeyValue| {
            is_within(kv.created, range.created_from, range.created_until)
                && is_within(kv.written, range.written_from, range.written_until)
        };
        let mut kvs: Vec<_> = found.into_iter().filter(is_shown).cloned().collect();
        if range.order != 0 {
            kvs.sort_by_key(|kv| kv.created);
        }
        if range.order == DESCENDING {
            kvs.reverse();
        }
        let more = range.limit > 0 && kvs.len() as i64 > range.limit;
        if more {
            kvs.truncate(range.limit as usize);
        }
        if range.keys_only {
            kvs.iter_mut().for_each(|kv| kv.value.clear());
        }
        Ranged { header: self.header(), kvs, more, count }
    }

    fn compares(&self, compare: &Compare) -> bool {
        let nothing = KeyValue::default();
        let mut found: Vec<_> = self.found(&compare.key, &compare.end).collect();
        if found.is_empty() {
            // Where there is no key there is no value, and all its numbers are 0.
            if compare.value.is_some() {
                return false;
            }
            found.push(&nothing);
        }
        found.into_iter().all(|kv| {
            let number = |is: i64, than: Option<i64>| than.map(|than| is.cmp(&than));
            let order = number(kv.version, compare.version)
                .or(number(kv.created, compare.created))
                .or(number(kv.written, compare.written))
                .or(number(kv.lease, compare.lease))
                .or(compare.value.as_ref().map(|than| kv.value.cmp(than)));
            match (order, compare.result) {
                (None, _) => panic!("nothing is compared"),
                (Some(order), EQUAL) => order.is_eq(),
                (Some(order), GREATER) => order.is_gt(),
                (Some(order), LESS) => order.is_lt(),
                (Some(order), _) => order.is_ne(),
            }
        })
    }

    fn chosen<'a>(&self, txn: &'a Txn) -> (bool, &'a [Op]) {
        let succeeded = txn.compares.iter().all(|compare| self.compares(compare));
        (succeeded, if succeeded { &txn.success } else { &txn.failure })
    }

    /// What only reads.
    pub(super) fn read(&self, txn: &Txn) -> TxnDone {
        let (succeeded, ops) = self.chosen(txn);
        let read = |op: &Op| OpDone { range: op.range.as_ref().map(|range| self.range(range)), ..OpDone::default() };
        TxnDone { header: self.header(), succeeded, done: ops.iter().map(read).collect() }
    }

    fn txn(&mut self, txn: &Txn) -> Made {
        let (succeeded, ops) = self.chosen(txn);
        let is_there = |put: &Put| put.lease == 0 || self.leases.contains_key(&put.lease);
        if !ops.iter().filter_map(|op| op.put.as_ref()).all(is_there) {
            return Made::NoLease;
        }
        let (revision, happened) = (self.revision + 1, self.history.len());
        let done = ops.iter().map(|op| self.perform(op, revision)).collect();
        if self.history.len() > happened {
            self.revision = revision;
        }
        Made::Txn(TxnDone { header: self.header(), succeeded, done })
    }

    fn perform(&mut self, op: &Op, revision: i64) -> OpDone {
        let header = Some(Header { revision });
        let mut done = OpDone::default();
        if let Some(range) = &op.range {
            done.range = Some(self.range(range));
        }
        if let Some(put) = &op.put {
            self.put(put, revision);
            done.put = Some(Done { header, deleted: 0 });
        }
        if let Some(delete) = &op.delete {
            let keys: Vec<_> = self.found(&delete.key, &delete.end).map(|kv| kv.key.clone()).collect();
            keys.iter().for_each(|key| self.delete(key, revision));
            done.delete = Some(Done { header, deleted: keys.len() as i64 });
        }
        done
    }

    fn put(&mut self, put: &Put, revision: i64) {
        let Put { key, value, lease } = put.clone();
        let before = self.keys.get(&key);
        let (created, version) = before.map_or((revision, 1), |kv| (kv.created, kv.version + 1));
        if let Some(keys) = before.and_then(|kv| self.leases.get_mut(&kv.lease)) {
            keys.remove(&key);
        }
        if let Some(keys) = self.leases.get_mut(&lease) {
            keys.insert(key.clone());
        }
        let kv = KeyValue { key: key.clone(), created, written: revision, version, value, lease };
        self.history.push(Event { kind: 0, kv: Some(kv.clone()) });
        self.keys.insert(key, kv);
    }

    fn delete(&mut self, key: &[u8], revision: i64) {
        let Some(kv) = self.keys.remove(key) else { return };
        if let Some(keys) = self.leases.get_mut(&kv.lease) {
            keys.remove(key);
        }
        let kv = KeyValue { key: key.to_vec(), written: revision, ..KeyValue::default() };
        self.history.push(Event { kind: 1, kv: Some(kv) });
    }

    /// The same at whichever member.
    pub(super) fn make(&mut self, entry: &Entry) -> Made {
        match entry {
            Entry::Txn(txn) => return self.txn(txn),
            Entry::Grant { id } => {
                self.leases.insert(*id, BTreeSet::new());
            }
            Entry::Revoke { id } => {
                let Some(keys) = self.leases.remove(id) else { return Made::NoLease };
                let revision = self.revision + i64::from(!keys.is_empty());
                keys.iter().for_each(|key| self.delete(key, revision));
                self.revision = revision;
            }
            Entry::Compact { until } => {
                self.compacted = *until;
                self.history.retain(|event| written(event) > *until);
            }
        }
        Made::Done
    }

    /// What happened from that revision on, as far as it is known.
    pub(super) fn happened(&self, from: i64) -> &[Event] {
        &self.history[self.history.partition_point(|event| written(event) < from)..]
    }
}

fn written(event: &Event) -> i64 {
    event.kv.as_ref().map_or(0, |kv| kv.written)
}
