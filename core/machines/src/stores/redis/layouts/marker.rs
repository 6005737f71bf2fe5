//! The marker of a server that is a node of a quorum: a text under `lwq:{prefix}`, by which a client sees since when
//! the server has had what it keeps. It goes with the data; a server that was restarted with its data has another run.

use crate::protocol::Call;
use crate::quorum::Marker;

/// The look at it.
pub static MARK: Call = Call { name: "mark", body: script!("time" "quorum/mark"), batch: false };

/// That of the locks whose names get `prefix` put before them.
pub fn marker(prefix: &str) -> Marker {
    Marker { call: &MARK, key: format!("lwq:{{{prefix}}}").into() }
}
