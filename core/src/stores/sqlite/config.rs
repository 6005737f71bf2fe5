//! Where the file is.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::options::ConnectOptions;

/// One lock file and how it is used.
#[derive(Clone, Debug)]
pub(crate) struct Config {
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
    pub(crate) fn new(path: PathBuf, prefix: String, response_timeout: Duration) -> Result<Self> {
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
    pub(crate) fn embedded(prefix: String, response_timeout: Duration) -> Result<Self> {
        Ok(Config { makes_folder: true, ..Config::new(embedded_path()?, prefix, response_timeout)? })
    }

    /// Reads `sqlite:///absolute/path.db`, `sqlite:relative/path.db` or `sqlite://` (the embedded default), each with
    /// `?prefix=`. Everything else of `options` that concerns a file is taken from there.
    ///
    /// # Errors
    /// `invalid_config` that says what is wrong with the address.
    pub(crate) fn parse(uri: &str, options: &ConnectOptions) -> Result<Self> {
        let (address, query) = uri.split_once('?').unwrap_or((uri, ""));
        let mut prefix = options.prefix.clone();
        for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
            match &*name {
                "prefix" => prefix = value.into_owned(),
                _ => {
                    let message = format!("the option `{name}` means nothing for a lock file; remove it");
                    return Err(Error::invalid("connect", message));
                }
            }
        }
        match path_of(address)? {
            Some(path) => Config::new(path, prefix, options.response_timeout),
            None => Config::embedded(prefix, options.response_timeout),
        }
    }

    /// The folder with the inboxes of those who wait.
    pub(super) fn inboxes(&self) -> PathBuf {
        let mut folder = self.path.clone().into_os_string();
        folder.push("-inbox");
        folder.into()
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
pub(crate) fn embedded_path() -> Result<PathBuf> {
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

/// The path in an address without its query; none for the embedded default.
fn path_of(address: &str) -> Result<Option<PathBuf>> {
    let wrong = |message| Err(Error::invalid("connect", message));
    let Some(rest) = address.strip_prefix("sqlite:") else {
        return wrong("the address of a lock file begins with `sqlite:`");
    };
    let path = match rest.strip_prefix("//") {
        Some("") => return Ok(None),
        Some(path) if path.starts_with('/') => path,
        Some(_) => {
            return wrong("write sqlite:///absolute/path.db with three slashes, or sqlite:relative/path.db with none");
        }
        None => rest,
    };
    match path {
        "" => {
            wrong("the address names no file; write sqlite:///absolute/path.db, or sqlite:// for the embedded default")
        }
        ":memory:" => wrong("locks in memory have an address of their own: memory://"),
        _ => match decode(path) {
            Some(bytes) if !bytes.contains(&0) => Ok(Some(OsString::from_vec(bytes).into())),
            _ => wrong(
                "a percent sign in the path is not followed by two hex digits, or stands for a zero byte; write it as %25",
            ),
        },
    }
}

fn decode(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('%') {
        out.extend_from_slice(&rest.as_bytes()[..at]);
        let digits = rest.get(at + 1..at + 3).filter(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()))?;
        out.push(u8::from_str_radix(digits, 16).ok()?);
        rest = &rest[at + 3..];
    }
    out.extend_from_slice(rest.as_bytes());
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Kind;

    fn parse(uri: &str) -> Result<Config> {
        Config::parse(uri, &ConnectOptions::default())
    }

    #[test]
    fn addresses_name_files() {
        let path = |uri| parse(uri).unwrap().path;
        assert_eq!(path("sqlite:///var/lib/app/locks.db"), Path::new("/var/lib/app/locks.db"));
        assert_eq!(path("sqlite:/a.db"), Path::new("/a.db"));
        assert_eq!(path("sqlite:///with%20space/100%25.db"), Path::new("/with space/100%.db"));
        assert_eq!(path("sqlite:a/b.db"), std::env::current_dir().unwrap().join("a/b.db"));
        let config = parse("sqlite:///a.db?prefix=app%3A").unwrap();
        assert_eq!((config.prefix.as_str(), &*config.address), ("app:", "sqlite:///a.db"));
        assert_eq!(config.inboxes(), Path::new("/a.db-inbox"));
    }

    #[test]
    fn addresses_that_name_none_are_refused() {
        for uri in [
            "sqlite:",
            "sqlite://a.db",
            "sqlite::memory:",
            "sqlite:///a%zz",
            "sqlite:///a%00",
            "redis://x",
            "sqlite:///a?b=c",
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
        assert!(Config::parse("sqlite://", &ConnectOptions::default()).unwrap().makes_folder);
    }
}
