//! Where a row is played: a place that works, or does not.

use std::collections::BTreeMap;
use std::path::Path;

use super::files;
use super::hostile::Hostile;
use super::redis::Server;
use super::table::Row;
use crate::rows::{Face, RunningStore};

/// Limits short enough for a table of many rows that wait for them, and after which what may have been done is
/// forgotten.
const LIMITS: &str = "store_timeout=600ms&connect_timeout=300ms&response_timeout=250ms&ttl=1s";

/// What stands for a port at which nobody listens, and nobody will while the runner does.
const PORT_OF_NOBODY: u16 = 1;

/// Why there is no such place.
#[derive(Debug)]
pub(super) enum Unmade {
    /// This machine cannot have it.
    Cannot(String),
    Wrong(String),
}

impl From<String> for Unmade {
    fn from(text: String) -> Self {
        Unmade::Wrong(text)
    }
}

/// A place.
#[derive(Debug)]
pub(super) struct Ground<'a> {
    pub(super) uri: String,
    /// How it is called in errors, where they come from there.
    pub(super) address: Option<String>,
    /// What differs from one run to the next, and what an example shows for it.
    pub(super) stand_ins: Vec<(String, &'static str)>,
    kind: Kind<'a>,
}

#[derive(Debug)]
enum Kind<'a> {
    Store(&'a RunningStore),
    Server { _hostile: Hostile },
    Redis(&'a Server),
    File(files::LockFile),
    Nowhere,
}

/// What all rows share.
#[derive(Debug)]
pub(super) struct World {
    pub(super) stores: Vec<RunningStore>,
    pub(super) servers: BTreeMap<Vec<String>, Server>,
    /// The password that nobody may show.
    pub(super) secret: String,
}

impl World {
    /// Every place that the row is played at, one after the other.
    pub(super) fn grounds(&self, row: &Row, face: &Face, word: &str, folder: &Path) -> Result<Vec<Ground<'_>>, Unmade> {
        match &row.stores {
            Some(names) => self.stores_of(row, face, names, word, folder),
            None => Ok(vec![self.ground(row)?]),
        }
    }

    fn stores_of(
        &self,
        row: &Row,
        face: &Face,
        names: &[String],
        word: &str,
        folder: &Path,
    ) -> Result<Vec<Ground<'_>>, Unmade> {
        let promises = lockwright::stores::guarantees();
        let is_shared = |name: &str| promises.iter().any(|(_, promised)| promised.store == name && promised.shared);
        let wanted = |place: &&RunningStore| {
            let has_it = face.stores.is_empty() || face.stores.contains(&place.store.name);
            let is_named = has_it && (names.is_empty() || names.contains(&place.store.name));
            is_named && (!face.process_each || is_shared(&place.store.folder))
        };
        let mut grounds = Vec::new();
        for place in self.stores.iter().filter(wanted) {
            let uri = with_options(place.uri(word, folder), &row.options);
            let port = uri.split_once("127.0.0.1:").map(|(_, rest)| rest.split(['/', '?']).next().unwrap_or_default());
            let port = port.map(|port| (format!(":{port}/"), ":6379/"));
            let stand_ins = [(word.to_owned(), "app")].into_iter().chain(port).collect();
            grounds.push(Ground { uri, address: None, stand_ins, kind: Kind::Store(place) });
        }
        match grounds.is_empty() {
            false => Ok(grounds),
            true if !face.stores.is_empty() => Err(Unmade::Cannot(format!("{} has none of these stores", face.name))),
            true => Err(Unmade::Wrong(format!("there is no store {names:?}"))),
        }
    }

    fn ground(&self, row: &Row) -> Result<Ground<'_>, Unmade> {
        let (base, address, port, kind) = if let Some(script) = &row.server {
            let hostile = Hostile::start(script, &self.secret).map_err(|error| error.to_string())?;
            let (port, login) = (hostile.port, format!("user:{}@", self.secret));
            let address = format!("redis://127.0.0.1:{port}/0");
            (format!("redis://{login}127.0.0.1:{port}"), Some(address), port, Kind::Server { _hostile: hostile })
        } else if let Some(redis) = &row.redis {
            let server = self.servers.get(&redis.config).ok_or_else(|| format!("no server has {:?}", redis.config))?;
            let (port, login) = (server.port, redis.login.replace("{secret}", &self.secret));
            let database = if redis.database.is_empty() { "0" } else { &redis.database };
            let address = format!("redis://127.0.0.1:{port}/{database}");
            (format!("redis://{login}127.0.0.1:{port}/{database}"), Some(address), port, Kind::Redis(server))
        } else if let Some(kind) = &row.file {
            let place = files::LockFile::make(kind)?;
            let uri = format!("sqlite://{}", place.path.display());
            (uri.clone(), Some(uri), 0, Kind::File(place))
        } else {
            let uri = row.uri.as_deref().unwrap_or_default().replace("{secret}", &self.secret);
            let uri = uri.replace("{huge}", &"x".repeat(1 << 20));
            let uri = uri.replace("{port of nobody}", &PORT_OF_NOBODY.to_string());
            return Ok(Ground { uri, address: None, stand_ins: Vec::new(), kind: Kind::Nowhere });
        };
        let mut stand_ins = vec![(format!(":{port}/"), ":6379/")];
        if let Kind::File(place) = &kind {
            stand_ins = vec![(place.folder().display().to_string(), "/var/lib/app")];
        }
        let uri = with_options(with_options(base, LIMITS), &row.options);
        Ok(Ground { uri, address, stand_ins, kind })
    }
}

fn with_options(uri: String, options: &str) -> String {
    match options {
        "" => uri,
        _ if uri.contains('?') => format!("{uri}&{options}"),
        _ => format!("{uri}?{options}"),
    }
}

impl Ground<'_> {
    /// What is left behind for locks with `word` in their names: anything after a failure, what never goes away
    /// otherwise.
    pub(super) fn residue(&self, word: &str, failed: bool, secret: &str) -> Result<String, String> {
        match &self.kind {
            Kind::Store(place) => place.residue(word),
            Kind::Redis(server) if failed => server.keys(secret, word),
            Kind::File(place) => place.changes(),
            _ => Ok(String::new()),
        }
    }

    /// Whether the store can be asked for the names of its locks.
    pub(super) fn can_list(&self) -> bool {
        matches!(self.kind, Kind::Store(_))
    }
}
