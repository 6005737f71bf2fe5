//! The words of the protocol: what a server says first, the login, and what it answers to statements. No socket.
//!
//! Statements go as text, several of them in one packet, and values come as text: so there is nothing that a server,
//! or a proxy in between, has to keep for a connection.

use ring::digest::{Algorithm, SHA1_FOR_LEGACY_USE_ONLY, SHA256, digest};

use crate::error::{Error, Kind, Result};

/// The longest payload of one packet. What is longer comes in several, which is none of ours.
pub(super) const LONGEST: usize = 0x00FF_FFFF;

/// What is asked for: the protocol since 4.1 with transactions and a database, several statements in a packet, logins
/// by their names.
const ASKED: u32 = 0x0000_0001
    | 0x0000_0004
    | 0x0000_0008
    | 0x0000_0200
    | 0x0000_2000
    | 0x0000_8000
    | 0x0001_0000
    | 0x0002_0000
    | LOGINS;
const LOGINS: u32 = 0x0008_0000;
const TLS: u32 = 0x0000_0800;
/// What a server must be able to do.
const NEEDED: u32 = 0x0000_0200 | 0x0000_8000 | LOGINS;
/// utf8mb4 as all versions of both servers number it.
const UTF8: u8 = 45;
/// Another result follows.
const MORE: u16 = 8;
/// The statements.
const QUERY: u8 = 3;
const PREPARE: u8 = 0x16;
const EXECUTE: u8 = 0x17;
/// Of eight bytes.
const INTEGER: u8 = 0x08;
const TEXT: u8 = 0xFD;
const BYTES: u8 = 0xFC;

const NATIVE: &str = "mysql_native_password";
const CACHING: &str = "caching_sha2_password";
const CLEAR: &str = "mysql_clear_password";

/// What answers is not MySQL, or not in a way that is understood.
pub(super) fn garbled() -> Error {
    let message = "what answers there is neither MySQL nor MariaDB; correct the host and the port in the address";
    Error::new(Kind::Protocol, "connect", message)
}

/// What of a packet is not read yet.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn bytes(&mut self, count: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or_else(garbled)?;
        self.0 = rest;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8> {
        Ok(self.bytes(1)?[0])
    }

    /// A number of so many bytes, the least of them first.
    fn number(&mut self, bytes: usize) -> Result<u64> {
        Ok(self.bytes(bytes)?.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    /// A number that says itself how long it is; none for NULL.
    fn counted(&mut self) -> Result<Option<u64>> {
        Ok(Some(match self.byte()? {
            0xFB => return Ok(None),
            0xFC => self.number(2)?,
            0xFD => self.number(3)?,
            0xFE => self.number(8)?,
            0xFF => return Err(garbled()),
            small => small.into(),
        }))
    }

    /// Until a zero, which is taken, too; or all.
    fn word(&mut self) -> &'a [u8] {
        let end = self.0.iter().position(|byte| *byte == 0);
        let (word, rest) = self.0.split_at(end.unwrap_or(self.0.len()));
        self.0 = rest.get(1..).unwrap_or_default();
        word
    }
}

/// Why a server does not do what it is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Said {
    pub(super) code: u16,
    pub(super) message: String,
}

/// What begins with 0xFF.
fn refusal(packet: &[u8]) -> Result<Said> {
    let mut from = Reader(packet);
    let (_, code) = (from.byte()?, from.number(2)?);
    if from.0.first() == Some(&b'#') {
        from.bytes(6)?;
    }
    let message = String::from_utf8_lossy(from.0).chars().filter(|char| !char.is_control()).take(300).collect();
    Ok(Said { code: u16::try_from(code).unwrap_or(0), message })
}

/// What a server says first.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Greeting {
    pub(super) has_tls: bool,
    challenge: Vec<u8>,
    way: String,
}

/// What a server says first; or why it does not want us.
///
/// # Errors
/// `protocol`.
pub(super) fn greeting(packet: &[u8]) -> Result<std::result::Result<Greeting, Said>> {
    if packet.first() == Some(&0xFF) {
        return refusal(packet).map(Err);
    }
    let mut from = Reader(packet);
    if from.byte()? != 10 {
        return Err(garbled());
    }
    let (_version, _thread) = (from.word(), from.number(4)?);
    let mut challenge = from.bytes(8)?.to_vec();
    let (_, low, _, _, high) = (from.byte()?, from.number(2)?, from.byte()?, from.number(2)?, from.number(2)?);
    let can = u32::try_from(high << 16 | low).unwrap_or(0);
    if can & NEEDED != NEEDED {
        return Err(garbled());
    }
    let length = usize::from(from.byte()?).saturating_sub(8).max(13);
    from.bytes(10)?;
    challenge.extend_from_slice(from.bytes(length)?);
    challenge.truncate(20);
    Ok(Ok(Greeting { has_tls: can & TLS != 0, challenge, way: String::from_utf8_lossy(from.word()).into_owned() }))
}

/// Who logs in, and where.
pub(super) struct Who<'a> {
    pub(super) user: &'a str,
    pub(super) password: &'a str,
    pub(super) database: &'a str,
    /// Nobody else reads what is sent.
    pub(super) is_secure: bool,
}

impl Who<'_> {
    /// What is sent before TLS begins.
    pub(super) fn asks_for_tls(&self) -> Vec<u8> {
        let mut packet = (ASKED | TLS).to_le_bytes().to_vec();
        packet.extend_from_slice(&0x4000_0000_u32.to_le_bytes());
        packet.push(UTF8);
        packet.extend_from_slice(&[0; 23]);
        packet
    }

    /// The login.
    ///
    /// # Errors
    /// `auth` for a way to log in that is none of ours.
    pub(super) fn logs_in(&self, greeting: &Greeting) -> Result<Vec<u8>> {
        let mut packet = self.asks_for_tls();
        if !self.is_secure {
            packet[..4].copy_from_slice(&ASKED.to_le_bytes());
        }
        // A server that has another way by itself is content with one that it then changes for this user.
        let way = if self.proof(&greeting.way, &greeting.challenge).is_ok() { &*greeting.way } else { NATIVE };
        let proof = self.proof(way, &greeting.challenge)?;
        packet.extend_from_slice(self.user.as_bytes());
        packet.push(0);
        packet.push(u8::try_from(proof.len()).map_err(|_| unlike(way))?);
        packet.extend_from_slice(&proof);
        for word in [self.database, way] {
            packet.extend_from_slice(word.as_bytes());
            packet.push(0);
        }
        Ok(packet)
    }

    /// What proves that the password is known.
    fn proof(&self, way: &str, challenge: &[u8]) -> Result<Vec<u8>> {
        let password = self.password.as_bytes();
        match way {
            CLEAR if self.is_secure => Ok([password, &[0]].concat()),
            NATIVE | CACHING if password.is_empty() => Ok(Vec::new()),
            NATIVE => Ok(masked(&SHA1_FOR_LEGACY_USE_ONLY, password, |kept| [challenge, kept].concat())),
            CACHING => Ok(masked(&SHA256, password, |kept| [kept, challenge].concat())),
            other => Err(unlike(other)),
        }
    }

    /// What follows what the server said to a login: nothing where it is through.
    ///
    /// # Errors
    /// `auth` for a way to log in that is none of ours, `protocol`.
    pub(super) fn goes_on(&self, packet: &[u8]) -> Result<Login> {
        let mut from = Reader(packet);
        match (from.byte()?, from.0) {
            (0, _) => Ok(Login::Done),
            (0xFF, _) => refusal(packet).map(Login::Refused),
            (0xFE, []) => Err(unlike("mysql_old_password")),
            (0xFE, _) => {
                let way = String::from_utf8_lossy(from.word()).into_owned();
                let challenge = from.0.strip_suffix(&[0]).unwrap_or(from.0);
                self.proof(&way, challenge).map(Login::Sends)
            }
            // The server remembers the password.
            (1, [3]) => Ok(Login::Waits),
            (1, [4]) if self.is_secure => Ok(Login::Sends([self.password.as_bytes(), &[0]].concat())),
            (1, [4]) => {
                let message = "the server wants the password itself, which is shown to nobody without TLS; add sslmode=verify-full to the address";
                Err(Error::new(Kind::Auth, "connect", message))
            }
            _ => Err(garbled()),
        }
    }
}

/// The hash of a password, masked by one of what the server keeps and of its challenge.
fn masked(by: &'static Algorithm, password: &[u8], with_challenge: impl Fn(&[u8]) -> Vec<u8>) -> Vec<u8> {
    let known = digest(by, password);
    let kept = digest(by, known.as_ref());
    let mask = digest(by, &with_challenge(kept.as_ref()));
    known.as_ref().iter().zip(mask.as_ref()).map(|(one, other)| one ^ other).collect()
}

/// How a login goes on.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Login {
    Done,
    Waits,
    Sends(Vec<u8>),
    Refused(Said),
}

fn unlike(way: &str) -> Error {
    let way: String = way.chars().filter(|char| char.is_ascii_alphanumeric() || *char == '_').take(60).collect();
    let message = format!(
        "the server wants this user to log in by {way:?}; give the user {NATIVE} or {CACHING}, or with TLS also {CLEAR}"
    );
    Error::new(Kind::Auth, "connect", message)
}

/// A packet that asks for what `statements` say.
pub(super) fn query(statements: &str) -> Vec<u8> {
    [&[QUERY], statements.as_bytes()].concat()
}

/// A packet that asks the server to prepare a statement.
pub(super) fn prepare(statement: &str) -> Vec<u8> {
    [&[PREPARE], statement.as_bytes()].concat()
}

/// A statement that the server has prepared.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Prepared {
    pub(super) number: u32,
    /// So many packets follow, which tell of what it is given and of its columns.
    pub(super) more: u64,
}

/// # Errors
/// `protocol`.
pub(super) fn prepared(packet: &[u8]) -> Result<std::result::Result<Prepared, Said>> {
    let mut from = Reader(packet);
    match from.byte()? {
        0 => {}
        0xFF => return refusal(packet).map(Err),
        _ => return Err(garbled()),
    }
    let number = u32::try_from(from.number(4)?).map_err(|_| garbled())?;
    // Both are told of by a packet each, and one behind all of them.
    let mut packets = || Ok(from.number(2)?.checked_add(1).filter(|all| *all > 1).unwrap_or(0));
    let more = packets()? + packets()?;
    Ok(Ok(Prepared { number, more }))
}

/// A value that a prepared statement is given.
#[derive(Clone, Copy, Debug)]
pub(super) enum Bound<'a> {
    Number(i64),
    Bytes(&'a str),
    Text(&'a str),
}

/// All that a prepared statement is given, as it is sent.
#[derive(Debug)]
pub(super) struct Bindings(Vec<u8>);

impl Bindings {
    pub(super) fn of(values: &[Bound<'_>]) -> Self {
        // None is NULL, and the server is told of what types they are.
        let mut sent = vec![0; values.len().div_ceil(8)];
        sent.push(1);
        for value in values {
            let kind = match value {
                Bound::Number(_) => INTEGER,
                Bound::Bytes(_) => BYTES,
                Bound::Text(_) => TEXT,
            };
            sent.extend_from_slice(&[kind, 0]);
        }
        for value in values {
            match value {
                Bound::Number(number) => sent.extend_from_slice(&number.to_le_bytes()),
                Bound::Bytes(text) | Bound::Text(text) => {
                    count(&mut sent, text.len());
                    sent.extend_from_slice(text.as_bytes());
                }
            }
        }
        Bindings(sent)
    }
}

/// A number that says itself how long it is.
fn count(into: &mut Vec<u8>, number: usize) {
    let bytes = (number as u64).to_le_bytes();
    match number {
        0..=0xFA => into.push(bytes[0]),
        0xFB..=0xFFFF => {
            into.push(0xFC);
            into.extend_from_slice(&bytes[..2]);
        }
        _ => {
            into.push(0xFE);
            into.extend_from_slice(&bytes);
        }
    }
}

/// A packet that has a prepared statement executed.
pub(super) fn execute(number: u32, Bindings(bindings): &Bindings) -> Vec<u8> {
    let [a, b, c, d] = number.to_le_bytes();
    // Without a cursor, and once.
    [&[EXECUTE, a, b, c, d, 0, 1, 0, 0, 0], bindings.as_slice()].concat()
}

/// How the answer to a statement begins.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum First {
    Done {
        affected: u64,
        /// What it gave `LAST_INSERT_ID`, if anything.
        number: u64,
        more: bool,
    },
    /// So many columns, each told of by a packet, and one packet more.
    Columns(u64),
    Refused(Said),
}

/// # Errors
/// `protocol`.
pub(super) fn first(packet: &[u8]) -> Result<First> {
    let mut from = Reader(packet);
    match packet.first() {
        Some(0) => {
            from.byte()?;
            let mut count = || from.counted()?.ok_or_else(garbled);
            let (affected, number) = (count()?, count()?);
            let status = from.number(2)?;
            Ok(First::Done { affected, number, more: status & u64::from(MORE) != 0 })
        }
        Some(0xFF) => refusal(packet).map(First::Refused),
        // NULL columns would be a file of ours that it wants.
        _ => from.counted()?.filter(|columns| (1..=4096).contains(columns)).map(First::Columns).ok_or_else(garbled),
    }
}

/// A row's values, as text; none is NULL.
pub(super) type Values = Vec<Option<String>>;

/// What comes where a row is expected.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    Row(Values),
    End { more: bool },
    Refused(Said),
}

/// # Errors
/// `protocol`.
pub(super) fn next(packet: &[u8], columns: u64) -> Result<Next> {
    match packet.first() {
        Some(0xFE) if packet.len() < 9 => {
            let mut from = Reader(&packet[1..]);
            let (_warnings, status) = (from.number(2)?, from.number(2)?);
            Ok(Next::End { more: status & u64::from(MORE) != 0 })
        }
        Some(0xFF) => refusal(packet).map(Next::Refused),
        _ => {
            let mut from = Reader(packet);
            let mut value = || -> Result<Option<String>> {
                let Some(length) = from.counted()? else { return Ok(None) };
                let bytes = from.bytes(usize::try_from(length).map_err(|_| garbled())?)?;
                Ok(Some(String::from_utf8_lossy(bytes).into_owned()))
            };
            let row = (0..columns).map(|_| value()).collect::<Result<_>>()?;
            if from.0.is_empty() { Ok(Next::Row(row)) } else { Err(garbled()) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHALLENGE: &[u8] = b"abcdefghijklmnopqrst";

    /// What MariaDB 10.11 says first, but for its numbers.
    fn said_first(way: &str) -> Vec<u8> {
        let mut packet = b"\x0a5.5.5-10.11.19-MariaDB\0\x07\0\0\0abcdefgh\0\xfe\xff\x2d\x02\0\xff\x81\x15".to_vec();
        packet.extend_from_slice(b"\0\0\0\0\0\0\x1d\0\0\0ijklmnopqrst\0");
        packet.extend_from_slice(way.as_bytes());
        packet.push(0);
        packet
    }

    fn who(is_secure: bool) -> Who<'static> {
        Who { user: "u", password: "secret", database: "d", is_secure }
    }

    #[test]
    fn a_greeting_is_read_and_nothing_else() {
        let greeting = greeting(&said_first(NATIVE)).unwrap().unwrap();
        assert_eq!(greeting, Greeting { has_tls: true, challenge: CHALLENGE.into(), way: NATIVE.into() });
        let refused = super::greeting(b"\xff\x10\x04Too many connections").unwrap().unwrap_err();
        assert_eq!(refused, Said { code: 1040, message: "Too many connections".into() });
        for other in [b"".as_slice(), b"SSH-2.0-x\r\n", b"\x09old", &said_first(NATIVE)[..40]] {
            assert_eq!(super::greeting(other).unwrap_err().kind(), Kind::Protocol);
        }
    }

    #[test]
    fn a_password_is_proven_and_only_shown_where_nobody_else_reads() {
        let login = |way: &str| who(false).logs_in(&greeting(&said_first(way)).unwrap().unwrap()).unwrap();
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let native = "u\0\x14";
        let sent = login(NATIVE);
        assert_eq!(&sent[32..35], native.as_bytes());
        assert_eq!(hex(&sent[35..55]), "8817c50fa779daef010ee7577825b0847df9842e");
        assert!(sent.ends_with(b"d\0mysql_native_password\0"));
        assert_eq!(hex(&login(CACHING)[35..67]), "c76e2898612a4cf042c77fa8c4702c4c64c0c2c557c53c4d75595aaa6abae809");
        // Another way is agreed upon later.
        assert_eq!(login("parsec"), sent);
        for (packet, secure, expected) in [
            (b"\0\0\0\x02\0\0\0".to_vec(), false, Ok(Login::Done)),
            (b"\x01\x03".to_vec(), false, Ok(Login::Waits)),
            (b"\x01\x04".to_vec(), true, Ok(Login::Sends(b"secret\0".to_vec()))),
            (b"\x01\x04".to_vec(), false, Err("sslmode=verify-full")),
            (b"\xfemysql_clear_password\0".to_vec(), true, Ok(Login::Sends(b"secret\0".to_vec()))),
            (b"\xfemysql_clear_password\0".to_vec(), false, Err("mysql_clear_password")),
            (b"\xfeclient_ed25519\0abc".to_vec(), false, Err("client_ed25519")),
            (b"\xfe".to_vec(), false, Err("mysql_old_password")),
            ([b"\xfemysql_native_password\0", CHALLENGE, b"\0"].concat(), false, Ok(Login::Sends(sent[35..55].into()))),
            (
                b"\xff\x15\x04#28000Access denied".to_vec(),
                false,
                Ok(Login::Refused(Said { code: 1045, message: "Access denied".into() })),
            ),
        ] {
            match (who(secure).goes_on(&packet), expected) {
                (Ok(goes_on), Ok(expected)) => assert_eq!(goes_on, expected),
                (Err(error), Err(part)) => {
                    assert_eq!(error.kind(), Kind::Auth);
                    assert!(error.to_string().contains(part) && !error.to_string().contains("secret"), "{error}");
                }
                (other, expected) => panic!("{other:?} for {expected:?}"),
            }
        }
    }

    #[test]
    fn answers_are_read_and_nothing_else() {
        assert_eq!(first(b"\0\x01\0\x0a\0\0\0").unwrap(), First::Done { affected: 1, number: 0, more: true });
        let done = first(b"\0\x01\xfe\x01\x02\0\0\0\0\0\0\x02\0\0\0").unwrap();
        assert_eq!(done, First::Done { affected: 1, number: 0x0201, more: false });
        assert_eq!(first(b"\x05").unwrap(), First::Columns(5));
        assert_eq!(
            first(b"\xff\xbd\x04#40001Deadlock found").unwrap(),
            First::Refused(Said { code: 1213, message: "Deadlock found".into() })
        );
        let row = next(b"\x02ab\xfb\0", 3).unwrap();
        assert_eq!(row, Next::Row(vec![Some("ab".into()), None, Some(String::new())]));
        assert_eq!(next(b"\xfe\0\0\x02\0", 3).unwrap(), Next::End { more: false });
        for other in [b"".as_slice(), b"\xfb", b"\xfd\xff", b"\0", b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff"] {
            assert!(first(other).is_err(), "{other:?}");
        }
        for other in [b"".as_slice(), b"\x02a", b"\x01a\x01b\x01c\x01d"] {
            assert!(next(other, 3).is_err(), "{other:?}");
        }
        let answer = prepared(b"\0\x07\x01\0\0\0\0\x03\0\0\0\0").unwrap();
        assert_eq!(answer, Ok(Prepared { number: 263, more: 4 }));
        let answer = prepared(b"\0\x01\0\0\0\x02\0\0\0\0\0\0").unwrap();
        assert_eq!(answer, Ok(Prepared { number: 1, more: 3 }));
        assert_eq!(prepared(b"\xff\xb5\x05#42000Can't create").unwrap().unwrap_err().code, 1461);
        for other in [b"".as_slice(), b"\x01", b"\0\x01\0\0\0\x02\0"] {
            assert!(prepared(other).is_err(), "{other:?}");
        }
    }

    #[test]
    fn what_a_prepared_statement_is_given_says_how_long_it_is() {
        let bindings = Bindings::of(&[Bound::Number(-2), Bound::Text("é"), Bound::Bytes("")]);
        let sent = execute(7, &bindings);
        let head = b"\x17\x07\0\0\0\0\x01\0\0\0";
        assert_eq!(
            sent,
            [head.as_slice(), b"\0\x01\x08\0\xfd\0\xfc\0\xfe\xff\xff\xff\xff\xff\xff\xff\x02\xc3\xa9\0"].concat()
        );
        for length in [250, 251, 65_535, 65_536] {
            let mut sent = Vec::new();
            count(&mut sent, length);
            assert_eq!(Reader(&sent).counted().unwrap(), Some(length as u64));
        }
    }
}
