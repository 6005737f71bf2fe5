use std::time::{SystemTime, UNIX_EPOCH};

use clap::Args;
use lockwright::blocking::Client;
use lockwright::lease::{Holder, Inspection, Part};
use lockwright::{Error, Kind, Result, Token};

use crate::args::StoreArgs;
use crate::exit;
use crate::output;

/// Takes a lock away from whoever holds it under a token, for the next in the queue.
#[derive(Debug, Args)]
#[command(
    after_help = "The holder is told `lost`, but works on until it notices: first make sure that it is dead, or that what \
    it writes is checked by its token. Without --token it only shows the lock and the line to type. What was done goes to \
    stderr as one audit line.\n\nExample: lockwright break nightly-report --token 17"
)]
pub(crate) struct Break {
    /// The lock's name: 1 to 1024 bytes of UTF-8
    name: String,
    /// The fencing token of the hold to break, as `inspect` shows it
    #[arg(long, value_name = "N")]
    token: Option<u64>,
}

/// How many tokens of a thousand holders are named as those to choose from.
const SHOWN: usize = 20;

impl Break {
    /// The command that breaks the hold under `token`, to be copied.
    fn line(&self, store: &StoreArgs, token: &str) -> String {
        let mut words = vec!["lockwright".to_owned()];
        // An address that holds no password can be repeated.
        words.extend(store.url.iter().filter(|url| !url.contains('@')).map(|url| format!("--url={url}")));
        words.extend(store.names());
        words.extend(["break", "--token", token, "--", &self.name].map(str::to_owned));
        words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
    }

    pub(crate) fn go(self, store: &StoreArgs) -> Result<u8> {
        let client = store.open()?;
        let seen = client.inspect(&self.name)?;
        output::line(&output::card(&seen));
        let Some(token) = self.token else {
            let hint = match &seen.holder {
                Some(_) if several(&seen).len() > 1 => {
                    let tokens = several(&seen).iter().map(|part| part.holder.first_token.to_string());
                    let mut tokens: Vec<_> = tokens.take(SHOWN + 1).collect();
                    if tokens.len() > SHOWN {
                        tokens[SHOWN] = "..".into();
                    }
                    let line = self.line(store, "TOKEN");
                    format!("several hold it; choose one of the tokens {}, then: {line}", tokens.join(", "))
                }
                Some(holder) if holder.first_token == 0 => delete(&client, &self.name, holder)?,
                Some(holder) => {
                    format!(
                        "make sure that its holder is dead, then: {}",
                        self.line(store, &holder.first_token.to_string())
                    )
                }
                None if seen.latch.is_some() => "a latch is held by nobody: there is nothing to break".to_owned(),
                None if seen.is_barrier() => "a barrier is held by nobody: there is nothing to break".to_owned(),
                None => "the lock is free: there is nothing to break".to_owned(),
            };
            return Err(Error::invalid("break", hint).on_lock(self.name));
        };
        let broken = client.break_lock(&self.name, Token::new(token))?;
        audit(&client, &seen, token, broken);
        if !broken {
            let message = format!(
                "token {token} does not hold the lock, or no longer; see who does: lockwright inspect {}",
                quoted(&self.name)
            );
            return Err(Error::new(Kind::NotOwned, "break", message).on_lock(self.name).on_store(client.address()));
        }
        output::line(&format!("broken: {} is no longer held with token {token}", output::plain(&self.name)));
        Ok(exit::OK)
    }
}

/// How a lock of another library is taken from its holder, which has no token that could be compared.
fn delete(client: &Client, name: &str, holder: &Holder) -> Result<String> {
    let (key, who) = (quoted(&client.key_of(name)?), output::who(&holder.card));
    let address = client.address();
    let server = match address.strip_prefix("redis+unix://") {
        Some(path) => format!("-s {}", quoted(path)),
        None => format!("-u {}", quoted(address)),
    };
    Ok(format!(
        "it is held by {who} and has no token; make sure that its holder is dead, then: redis-cli {server} DEL {key}"
    ))
}

/// A word as a shell wants it.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@%+=,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

/// Who holds what several may hold.
fn several(seen: &Inspection) -> &[Part] {
    seen.shared.as_ref().map_or(&[], |shared| &shared.holders)
}

fn audit(client: &Client, seen: &Inspection, token: u64, broken: bool) {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let result = if broken { "broke" } else { "did not break" };
    let part = several(seen).iter().map(|part| &part.holder).find(|holder| holder.first_token == token);
    let holder = part.or(seen.holder.as_ref()).map_or("nobody".to_owned(), |holder| output::who(&holder.card));
    output::complain(&format!(
        "audit: {} uid {} on {host} {result} lock {:?} on {}, token {token}, held by {holder}",
        utc(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()),
        rustix::process::getuid().as_raw(),
        seen.name,
        client.address(),
    ));
}

/// Seconds since 1970 as RFC 3339.
fn utc(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    // Civil date of a day count (Howard Hinnant, "chrono-compatible low-level date algorithms"): years begin in March.
    let shifted = days + 719_468;
    let (era, day) = (shifted / 146_097, shifted % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let (day, month) = (day - (153 * month + 2) / 5 + 1, if month < 10 { month + 3 } else { month - 9 });
    let year = year + era * 400 + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", rest / 3_600, rest / 60 % 60, rest % 60)
}

#[cfg(test)]
mod tests {
    use super::utc;

    #[test]
    fn dates_are_civil() {
        assert_eq!(utc(0), "1970-01-01T00:00:00Z");
        assert_eq!(utc(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(utc(1_767_225_599), "2025-12-31T23:59:59Z");
    }
}
