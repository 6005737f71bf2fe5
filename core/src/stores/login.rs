//! Where the user and the password of a connection come from: the address, or a function of the program.

use lockwright_machines::address;
use url::Url;

use crate::error::{Error, Kind, Result};
use crate::options::{ConnectOptions, Credentials, CredentialsSource};

/// See the [module](self).
#[derive(Clone)]
pub(super) enum Login {
    Written(Credentials),
    Asked(CredentialsSource),
}

impl Login {
    /// What the program gives, else what is written in the address.
    ///
    /// # Errors
    /// `invalid_config` where that is not UTF-8.
    pub(super) fn of(url: &Url, options: &ConnectOptions) -> Result<Self> {
        let written = address::credentials(url)?;
        Ok(options.credentials.clone().map_or(Login::Written(written), Login::Asked))
    }

    /// Those.
    #[cfg(feature = "redis")]
    pub(super) fn written(user: String, password: String) -> Self {
        Login::Written(Credentials { user, password })
    }

    /// Whether nobody is named.
    #[cfg(feature = "zookeeper")]
    pub(super) fn is_nobody(&self) -> bool {
        matches!(self, Login::Written(written) if *written == Credentials::default())
    }

    /// The user and password for a new connection.
    ///
    /// # Errors
    /// `auth` with the program's own cause.
    pub(super) fn credentials(&self) -> Result<Credentials> {
        match self {
            Login::Written(credentials) => Ok(credentials.clone()),
            Login::Asked(source) => source().map_err(|cause| no_credentials().caused_by(cause)),
        }
    }

    /// The same for a task, whose thread has others to serve: what the program does to find them may take its time.
    ///
    /// # Errors
    /// As there.
    pub(super) async fn credentials_aside(&self) -> Result<Credentials> {
        match self.clone() {
            written @ Login::Written(_) => written.credentials(),
            asked @ Login::Asked(_) => match tokio::task::spawn_blocking(move || asked.credentials()).await {
                Ok(found) => found,
                Err(panicked) => Err(no_credentials().caused_by(panicked)),
            },
        }
    }
}

fn no_credentials() -> Error {
    Error::new(Kind::Auth, "connect", "the program gave no user and password for the connection; see the cause")
}
