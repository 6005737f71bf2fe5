//! Where the file is.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use percent_encoding::percent_decode_str;
use url::Url;

use crate::error::{Error, Result};
use crate::uri::Uri;

/// One lock file and how it is used.
#[derive(Clone, Debug)]
pub(super) struct Config {
    /// The file; absolute, so that the process may change its folder later.
    pub(super) path: PathBuf,
    /// Put before every lock name.
    pub(super) prefix: String,
    /// Limit for one batch of renewals.
    pub(super) response_timeout: Duration,
    /// Whether the file's folder is ours to make.
    pub(super) makes_folder: bool,
    /// The address shown in errors.
    pub(super) address: Arc<str>,
    /// Stands in for the host's clock, to play another boot.
    #[cfg(test)]
    pub(super) clock: Option<String>,
}

impl Config {
    /// The lock file `path`, relative to the present folder unless absolute. Its folder must exist.
    ///
    /// # Errors
    /// `invalid_config` when the path is empty, or relative while the present folder is gone.
    pub(super) fn new(path: PathBuf, prefix: String, response_timeout: Duration) -> Result<Self> {
        let path = std::path::absolute(path)
            .map_err(|error| Error::invalid("connect", "the path of the lock file is empty").caused_by(error))?;
        let address = format!("sqlite://{}", path.display()).into();
        Ok(Config {
            path,
            prefix,
            response_timeout,
            makes_folder: false,
            address,
            #[cfg(test)]
            clock: None,
        })
    }

    /// The embedded default: `locks.db` in the user's state folder, which is made when it is missing.
    ///
    /// # Errors
    /// `invalid_config` when the user has no home folder.
    fn embedded(prefix: String, response_timeout: Duration) -> Result<Self> {
        Ok(Config { makes_folder: true, ..Config::new(embedded_path()?, prefix, response_timeout)? })
    }

    /// Reads `sqlite:///absolute/path.db`, `sqlite:relative/path.db` or `sqlite://` (the embedded default).
    ///
    /// # Errors
    /// `invalid_config` that says what is wrong with the address or its options.
    pub(super) fn read(uri: &Uri) -> Result<Self> {
        let options = &uri.connect;
        if options.ca.is_some() || options.cert.is_some() || options.key.is_some() || options.credentials.is_some() {
            return invalid(
                "a lock file takes no certificates and no credentials; leave ca, cert, key and credentials out",
            );
        }
        match path_of(uri.url())? {
            Some(path) => Config::new(path, options.prefix.clone(), options.response_timeout),
            None => Config::embedded(options.prefix.clone(), options.response_timeout),
        }
    }

    /// The folder of the file.
    pub(super) fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("/"))
    }
}

/// Where the embedded default is: `$XDG_STATE_HOME/lockwright/locks.db`, or `~/.local/state/lockwright/locks.db`.
///
/// # Errors
/// `invalid_config` when the user has no home folder.
fn embedded_path() -> Result<PathBuf> {
    embedded_in(std::env::var_os("XDG_STATE_HOME"), std::env::home_dir())
}

fn embedded_in(state: Option<OsString>, home: Option<PathBuf>) -> Result<PathBuf> {
    // A relative path there is invalid and to be ignored: XDG Base Directory Specification.
    let state = state.map(PathBuf::from).filter(|path| path.is_absolute());
    let state = state.or_else(|| home.filter(|home| home.is_absolute()).map(|home| home.join(".local/state")));
    let Some(state) = state else {
        let message = "there is no home folder for the embedded lock file; set XDG_STATE_HOME, or name a file as in \
                       sqlite:///var/lib/app/locks.db";
        return Err(Error::invalid("connect", message));
    };
    Ok(state.join("lockwright/locks.db"))
}

/// The path in an address; none for the embedded default.
fn path_of(url: &Url) -> Result<Option<PathBuf>> {
    if !url.host_str().unwrap_or_default().is_empty() || !url.username().is_empty() || url.port().is_some() {
        return invalid("write sqlite:///absolute/path.db with three slashes, or sqlite:relative/path.db with none");
    }
    match url.path() {
        "" if url.cannot_be_a_base() => invalid("the address names no file; write sqlite:///absolute/path.db"),
        "" => Ok(None),
        ":memory:" => invalid("locks in memory have an address of their own: memory://"),
        path => {
            let bytes: Vec<u8> = percent_decode_str(path).collect();
            if bytes.contains(&0) {
                return invalid("the path of a lock file holds a zero byte");
            }
            Ok(Some(OsString::from_vec(bytes).into()))
        }
    }
}

fn invalid<T>(message: &'static str) -> Result<T> {
    Err(Error::invalid("connect", message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Kind;
    use crate::options::ConnectOptions;

    fn parse(text: &str) -> Result<Config> {
        let uri = Uri::parse(text, ConnectOptions::default())?;
        let config = Config::read(&uri)?;
        uri.check_all_read().map(|()| config)
    }

    #[test]
    fn addresses_name_files() {
        let path = |uri| parse(uri).unwrap().path;
        assert_eq!(path("sqlite:///var/lib/app/locks.db"), Path::new("/var/lib/app/locks.db"));
        assert_eq!(path("sqlite:/a.db"), Path::new("/a.db"));
        assert_eq!(path("sqlite:///with%20space/100%25%23%3F.db"), Path::new("/with space/100%#?.db"));
        assert_eq!(path("sqlite:///%E8%AE%A2%E5%8D%95.db"), Path::new("/订单.db"));
        assert_eq!(path("sqlite:///订单.db"), Path::new("/订单.db"));
        assert_eq!(path("sqlite:a/b.db"), std::env::current_dir().unwrap().join("a/b.db"));
        let config = parse("sqlite:///a.db?prefix=app%3A&ttl=5s").unwrap();
        assert_eq!((config.prefix.as_str(), &*config.address), ("app:", "sqlite:///a.db"));
    }

    #[test]
    fn addresses_that_name_none_are_refused() {
        for uri in [
            "sqlite:",
            "sqlite://a.db",
            "sqlite://h/a.db",
            "sqlite::memory:",
            "sqlite:///a%00",
            "sqlite:///a#b",
            "sqlite:///a?b=c",
            "sqlite:///a?ca=/b.pem",
        ] {
            assert_eq!(parse(uri).unwrap_err().kind(), Kind::InvalidConfig, "{uri}");
        }
    }

    #[test]
    fn the_embedded_file_is_in_the_state_folder() {
        let embedded =
            |state: Option<&str>, home: Option<&str>| embedded_in(state.map(Into::into), home.map(Into::into));
        assert_eq!(embedded(Some("/s"), Some("/h")).unwrap(), Path::new("/s/lockwright/locks.db"));
        assert_eq!(embedded(Some("s"), Some("/h")).unwrap(), Path::new("/h/.local/state/lockwright/locks.db"));
        assert_eq!(embedded(None, None).unwrap_err().kind(), Kind::InvalidConfig);
        assert!(parse("sqlite://?ttl=5s").unwrap().makes_folder);
    }
}
