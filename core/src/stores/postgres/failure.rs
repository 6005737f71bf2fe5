//! What an error of the library or the server says of a statement, and to a person.

use std::error::Error as _;
use std::io;

use tokio_postgres::error::SqlState;

use crate::error::{Error, Kind};
use crate::stores::reach;
use crate::stores::sql::table::Failure;

type Said = tokio_postgres::Error;

/// Why a statement has no answer.
pub(super) fn of_statement(error: &Said) -> Failure {
    let Some(code) = error.code() else {
        // Where the connection is gone, the library does not say whether it wrote what it had taken over.
        return Failure::Unknown(of_connection(error));
    };
    match *code {
        SqlState::T_R_SERIALIZATION_FAILURE | SqlState::T_R_DEADLOCK_DETECTED | SqlState::LOCK_NOT_AVAILABLE => {
            Failure::Again
        }
        SqlState::ADMIN_SHUTDOWN | SqlState::CRASH_SHUTDOWN => Failure::Unknown(ended(error)),
        // The server ended what took too long, and undid it.
        _ => Failure::NotDone(of_server(error, code)),
    }
}

/// What is refused since a table is not as the statement has it: the server's code and its words.
pub(super) fn of_table(error: &Said) -> Option<(String, String)> {
    let said = error.as_db_error()?;
    let code = said.code().code();
    let is_of_table = ["22", "23", "42"].iter().any(|class| code.starts_with(class)) && !OF_NAMES.contains(&code);
    is_of_table.then(|| (code.to_owned(), said.message().to_owned()))
}

/// A name that the database's encoding cannot say.
const OF_NAMES: [&str; 2] = ["22021", "22P05"];

/// Why a connection could not be made.
pub(super) fn of_dialling(error: &Said) -> Error {
    match error.code() {
        Some(code) => of_server(error, code),
        None => of_connection(error),
    }
}

fn of_connection(error: &Said) -> Error {
    let cause = error.source().and_then(|cause| cause.downcast_ref::<io::Error>());
    match cause.map(io::Error::kind) {
        // What came is no message of the protocol.
        Some(io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData) => not_postgres(),
        Some(kind) => reach::lost("", io::Error::new(kind, error.to_string())),
        None if error.is_closed() => ended(error),
        None if error.to_string().contains("unexpected message") || error.to_string().contains("parsing") => {
            not_postgres()
        }
        None => Error::new(Kind::Auth, "connect", "the server wants another kind of login; see the cause")
            .caused_by(error.to_string()),
    }
}

fn not_postgres() -> Error {
    let message = "what answers there is not PostgreSQL; correct the host and the port in the address";
    Error::new(Kind::Protocol, "connect", message)
}

fn ended(error: &Said) -> Error {
    let message = "the connection to the database ended before its answer; see its log";
    Error::new(Kind::Unavailable, "connect", message).caused_by(error.to_string())
}

/// What the server refuses, in words that say what to do.
fn of_server(error: &Said, code: &SqlState) -> Error {
    let (kind, message) = match code.code() {
        "42P01" => (
            Kind::InvalidConfig,
            "the database has no table lockwright_locks; make it with `lockwright schema ADDRESS --apply`, or correct the \
             database's name in the address",
        ),
        "42703" | "42804" => (
            Kind::ForeignLayout,
            "the table lockwright_locks is another program's, or another version's; see `lockwright schema ADDRESS`",
        ),
        "42501" => (
            Kind::Auth,
            "this user may not use the table; GRANT SELECT, INSERT, UPDATE, DELETE ON lockwright_locks TO it",
        ),
        "28P01" | "28000" => (Kind::Auth, "the database refused the user or the password; correct them in the address"),
        "3D000" => (Kind::InvalidConfig, "there is no such database; correct its name in the address, or create it"),
        "25006" => (
            Kind::Unavailable,
            "the server only reads: it is a replica; give the address of the primary, or wait for this one's promotion",
        ),
        "57014" => {
            (Kind::Unavailable, "the database did not do it in time; see what keeps it busy, or who locks the table")
        }
        "57P03" => (Kind::Unavailable, "the database starts or stops; it may pass by itself"),
        "53300" => (Kind::Unavailable, "the database has no connection left; raise its max_connections, or use fewer"),
        "22021" | "22P05" => (
            Kind::InvalidConfig,
            "the database cannot keep this name in its encoding; use a database with the encoding UTF8",
        ),
        other if other.starts_with("08") => (
            Kind::Protocol,
            "what answers there does not speak this version of PostgreSQL's protocol; correct the address",
        ),
        other if other.starts_with("53") || other.starts_with("57") || other.starts_with("58") => {
            (Kind::Unavailable, "the database cannot serve now; see its log")
        }
        _ => (Kind::Protocol, "the database refused a statement of ours; see the cause, and the version of the server"),
    };
    let said = error.as_db_error().map_or_else(|| error.to_string(), |said| said.message().to_owned());
    Error::new(kind, "connect", message).caused_by(format!("{}: {said}", code.code()))
}
