//! Where user and password come from: written in an address, or asked of the program at every new connection.

use crate::error::{Error, Kind, Result};
use crate::options::{ConnectOptions, Credentials, CredentialsSource};

/// See the [module](self).
#[derive(Clone)]
pub(crate) enum Secret {
    Written(Credentials),
    Asked(CredentialsSource),
}

impl Secret {
    /// What the program says, if it was given a say; else what is `written` in the address.
    pub(crate) fn of(options: &ConnectOptions, written: Credentials) -> Self {
        options.credentials.clone().map_or(Secret::Written(written), Secret::Asked)
    }

    /// The user and password for a new connection.
    ///
    /// # Errors
    /// `auth` with the program's own cause.
    pub(crate) fn get(&self) -> Result<Credentials> {
        match self {
            Secret::Written(credentials) => Ok(credentials.clone()),
            Secret::Asked(source) => source().map_err(|cause| no_credentials().caused_by(cause)),
        }
    }

    /// The same for a task, whose thread has others to serve: what the program does to find them may take its time.
    ///
    /// # Errors
    /// As there.
    pub(crate) async fn get_aside(&self) -> Result<Credentials> {
        match self.clone() {
            written @ Secret::Written(_) => written.get(),
            asked @ Secret::Asked(_) => match tokio::task::spawn_blocking(move || asked.get()).await {
                Ok(found) => found,
                Err(panicked) => Err(no_credentials().caused_by(panicked)),
            },
        }
    }
}

fn no_credentials() -> Error {
    Error::new(Kind::Auth, "connect", "the program gave no user and password for the connection; see the cause")
}
