//! What the server's refusals say of a statement, and to a person.

use super::line::Broken;
use super::wire::Said;
use crate::error::{Error, Kind};
use crate::stores::reach;
use crate::stores::sql::table::Failure;

/// Why a statement that would have been all that changes something has no answer: whoever said it undid it.
pub(super) fn of_statement(said: &Said) -> Failure {
    match said.code {
        // Of two that wait for each other one goes; a row was somebody's for too long; a cluster found another first.
        1213 | 1205 | 1020 => Failure::Again,
        // What was prepared is to be prepared again: its tables changed, or another server answers.
        1243 | 1615 => Failure::Again,
        // The connection ends, and with it what may have been done.
        1053 | 1927 | 3169 | 4031 => Failure::Unknown(of_server(said)),
        _ => Failure::NotDone(of_server(said)),
    }
}

/// Whether it is refused since a table is not as the statement has it.
pub(super) fn is_of_table(said: &Said) -> bool {
    matches!(
        said.code,
        1048 | 1054 | 1062 | 1136 | 1142 | 1143 | 1146 | 1264..=1267 | 1292 | 1364 | 1366 | 1406 | 1411 | 1442
    )
}

/// Why a connection has no answer.
pub(super) fn of_line(broken: Broken) -> Error {
    match broken {
        Broken::Connection(error) => reach::lost("", error),
        Broken::Garbled(error) => error,
    }
}

/// What the server refuses, in words that say what to do.
pub(super) fn of_server(said: &Said) -> Error {
    let (kind, message) = match said.code {
        1146 => (
            Kind::InvalidConfig,
            "the database has no table lockwright_locks; make it with `lockwright schema ADDRESS --apply`, or correct the \
             database's name in the address",
        ),
        1054 | 1136 | 1264 | 1265 | 1366 | 1406 => (
            Kind::ForeignLayout,
            "the table lockwright_locks is another program's, or another version's; see `lockwright schema ADDRESS`",
        ),
        1142 | 1143 => (
            Kind::Auth,
            "this user may not use the table; GRANT SELECT, INSERT, UPDATE, DELETE ON lockwright_locks TO it",
        ),
        1044 => (
            Kind::Auth,
            "this user may not use the database; correct its name in the address, or GRANT rights on lockwright_locks",
        ),
        1045 | 1698 | 1862 | 3118 | 4151 => {
            (Kind::Auth, "the database refused the user or the password; correct them in the address")
        }
        1130 => (Kind::Auth, "the database takes no connections from this host; let its user in from here"),
        1049 => (Kind::InvalidConfig, "there is no such database; correct its name in the address, or create it"),
        3159 => (Kind::InvalidConfig, "the server wants TLS; add sslmode=verify-full to the address"),
        1665 => (
            Kind::InvalidConfig,
            "the server replicates statements, which needs another isolation than ours; set its binlog_format to ROW or MIXED",
        ),
        1153 | 2020 => (
            Kind::InvalidConfig,
            "a record is longer than the server takes; raise its max_allowed_packet, or have fewer wait in one fair queue",
        ),
        1290 | 1792 | 1836 => (
            Kind::Unavailable,
            "the server only reads: it is a replica; give the address of the primary, or wait for this one's promotion",
        ),
        1969 | 3024 | 1317 => {
            (Kind::Unavailable, "the database did not do it in time; see what keeps it busy, or who locks the table")
        }
        1040 | 1203 | 1226 => {
            (Kind::Unavailable, "the database has no connection left; raise its max_connections, or use fewer")
        }
        1047 => (Kind::Unavailable, "this node of the cluster is not part of a majority; see to the others"),
        1053 | 1927 | 3169 | 4031 | 1129 | 1152 | 1158..=1161 | 1021 | 1114 | 1041 | 1037 | 1038 | 1135 => {
            (Kind::Unavailable, "the database cannot serve now; see its log")
        }
        _ => (Kind::Protocol, "the database refused a statement of ours; see the cause, and the version of the server"),
    };
    Error::new(kind, "connect", message).caused_by(format!("{}: {}", said.code, said.message))
}
