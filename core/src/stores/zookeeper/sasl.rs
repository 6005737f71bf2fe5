//! The login `DIGEST-MD5` of SASL, by which neither side shows the password: RFC 2831, with the service `zookeeper` and
//! the host `zk-sasl-md5`, as ZooKeeper's own client says it.

use lockwright_machines::md5::{digest, hex};

use crate::error::{Error, Kind, Result};

/// Whom the client believes to talk to.
const URI: &str = "zookeeper/zk-sasl-md5";
/// The most that a challenge may have.
const MOST_BYTES: usize = 2048;

/// What was said, by which the server proves in the end that it knows the password, too.
pub(super) struct Exchange {
    /// What is to be sent.
    pub(super) answer: String,
    /// What the server has to say then.
    proof: String,
}

impl Exchange {
    /// What is answered to the server's `challenge`; `nonce` is random, and never used again.
    ///
    /// # Errors
    /// `auth` where the server asks for what this login has not.
    pub(super) fn answering(challenge: &[u8], user: &str, password: &str, nonce: u128) -> Result<Self> {
        let text = std::str::from_utf8(challenge).ok().filter(|text| text.len() <= MOST_BYTES).ok_or_else(strange)?;
        let asked = directives(text).ok_or_else(strange)?;
        let of = |name: &str| asked.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_str());
        let has = |name, word| of(name).is_none_or(|words| words.split(',').any(|known| known.trim() == word));
        let server = of("nonce").ok_or_else(strange)?;
        if of("algorithm") != Some("md5-sess") || !has("qop", "auth") {
            return Err(strange());
        }
        let (realm, client) = (of("realm").unwrap_or_default(), format!("{nonce:032x}"));
        let in_utf8 = of("charset") == Some("utf-8");
        let secret = digest(&[bytes(user), b":".to_vec(), bytes(realm), b":".to_vec(), bytes(password)].concat());
        let first = hex(&[secret.as_slice(), format!(":{server}:{client}").as_bytes()].concat());
        let proof = |what: &str| {
            let second = hex(format!("{what}:{URI}").as_bytes());
            hex(format!("{first}:{server}:00000001:{client}:auth:{second}").as_bytes())
        };
        let (charset, quoted_realm) = (if in_utf8 { "charset=utf-8," } else { "" }, quoted(realm));
        let answer = format!(
            "{charset}username={},realm={quoted_realm},nonce={},nc=00000001,cnonce={},digest-uri={},maxbuf=65536,response={},qop=auth",
            quoted(user),
            quoted(server),
            quoted(&client),
            quoted(URI),
            proof("AUTHENTICATE")
        );
        Ok(Exchange { answer, proof: proof("") })
    }

    /// Whether the server proved that it knows the password.
    ///
    /// # Errors
    /// `auth` where it did not.
    pub(super) fn is_proven(&self, last: &[u8]) -> Result<()> {
        match last == format!("rspauth={}", self.proof).as_bytes() {
            true => Ok(()),
            false => Err(Error::new(Kind::Auth, "connect", "the server does not prove that it knows this password")),
        }
    }
}

fn strange() -> Error {
    Error::new(Kind::Auth, "connect", "the server asks for a login that is not DIGEST-MD5; see its JAAS configuration")
}

/// A text whose letters are all of ISO 8859-1 is hashed in that.
fn bytes(text: &str) -> Vec<u8> {
    let latin = text.chars().map(|letter| u8::try_from(u32::from(letter)).ok());
    latin.collect::<Option<Vec<u8>>>().unwrap_or_else(|| text.as_bytes().to_vec())
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// `name=value` or `name="value"`, with commas between; `None` where it is none of that.
fn directives(text: &str) -> Option<Vec<(&str, String)>> {
    let (mut found, mut rest) = (Vec::new(), text.trim());
    while !rest.is_empty() {
        let (name, after) = rest.split_once('=')?;
        let mut value = String::new();
        rest = match after.strip_prefix('"') {
            None => {
                let (plain, rest) = after.split_once(',').unwrap_or((after, ""));
                value.push_str(plain.trim());
                rest
            }
            Some(after) => {
                let mut letters = after.char_indices();
                let end = loop {
                    match letters.next()? {
                        (at, '"') => break at,
                        (_, '\\') => value.push(letters.next()?.1),
                        (_, letter) => value.push(letter),
                    }
                };
                after[end + 1..].trim_start_matches([',', ' '])
            }
        };
        rest = rest.trim_start();
        found.push((name.trim(), value));
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 2831, section 4, with ZooKeeper's names.
    #[test]
    fn the_answer_is_that_of_the_standard() {
        let challenge = br#"realm="zk-sasl-md5",nonce="OA6MG9tEQGm2hh",qop="auth",charset=utf-8,algorithm=md5-sess"#;
        let exchange = Exchange::answering(challenge, "chris", "secret", 7).unwrap();
        // Worked out by Python's hashlib.
        let nonce = "00000000000000000000000000000007";
        assert_eq!(
            exchange.answer,
            format!(
                "charset=utf-8,username=\"chris\",realm=\"zk-sasl-md5\",nonce=\"OA6MG9tEQGm2hh\",nc=00000001,cnonce=\"{nonce}\",\
                 digest-uri=\"zookeeper/zk-sasl-md5\",maxbuf=65536,response=2312f217844aeddfb41fd62dc5366f20,qop=auth"
            )
        );
        assert!(exchange.is_proven(b"rspauth=0a316f147abf3f53d8fdf6f553beccaa").is_ok());
        let error = exchange.is_proven(b"rspauth=0").unwrap_err();
        assert_eq!(error.kind(), Kind::Auth);
    }

    #[test]
    fn what_is_no_challenge_of_this_login_is_refused() {
        for challenge in [
            b"".as_slice(),
            b"nonce",
            b"nonce=\"x",
            br#"nonce="x",algorithm=md5"#,
            br#"nonce="x",qop="auth-conf",algorithm=md5-sess"#,
            br#"realm="x",algorithm=md5-sess"#,
            b"\xff",
            &[b'x'; MOST_BYTES + 1],
        ] {
            assert_eq!(Exchange::answering(challenge, "u", "p", 1).map(|_| ()).unwrap_err().kind(), Kind::Auth);
        }
        let odd = directives(r#"a="x\"y\\" , b=c,d="",e=f"#).unwrap();
        let odd: Vec<_> = odd.iter().map(|(name, value)| (*name, value.as_str())).collect();
        assert_eq!(odd, [("a", "x\"y\\"), ("b", "c"), ("d", ""), ("e", "f")]);
    }
}
