//! What goes over the wire: requests as commands, values as replies, and the measure of a reply that is still arriving.
//!
//! The `redis` crate parses what is rare. It would take a reply of any size, and reports what is no
//! reply at all in its parser's words; so [`Frames`] looks at every byte first.

use std::ops::Range;
use std::sync::OnceLock;

use redis::Value;
use smallvec::SmallVec;

use crate::slots;
use lockwright_machines::error::{Error, Kind};
use lockwright_machines::protocol::{Arg, Call, Reply, Request, share_of_batch};
use lockwright_machines::reach;
use lockwright_machines::stores::redis::layouts::combined;
use lockwright_machines::time::StoreTime;

/// The most bytes one reply may have. A page of 500 names of 1 KiB, each byte of it written as three, fits.
pub const MOST_BYTES: usize = 4 << 20;
/// The most bytes one line of a reply may have, such as an error: longer texts come with their length.
const MOST_OF_A_LINE: usize = 64 << 10;
/// The most digits, and a sign, of a number of 64 bits.
const MOST_DIGITS: usize = 20;
/// What is told of a server that lost its way.
pub const NO_REPLY: &str = "the server sent something that is not a reply; see what answers at that address";
/// What errors call whoever is spoken to, unless it is another that speaks so.
pub const REDIS: &str = "a Redis server";
/// How deep replies may be nested.
const DEPTH: usize = 8;

/// Where commands are written, word by word.
pub trait Commands {
    /// Begins a command of so many words.
    fn begin(&mut self, words: usize);

    /// Adds a word to it.
    fn word(&mut self, word: &[u8]);

    /// Adds a number, as a word in decimal.
    fn number(&mut self, number: i64) {
        let mut digits = [0; MOST_DIGITS];
        self.word(decimal(number, &mut digits));
    }

    /// Writes a whole command.
    fn command(&mut self, words: &[&str]) {
        self.begin(words.len());
        words.iter().for_each(|word| self.word(word.as_bytes()));
    }
}

/// As they are sent, one after the other.
impl Commands for Vec<u8> {
    fn begin(&mut self, words: usize) {
        length(self, b'*', words);
    }

    fn word(&mut self, word: &[u8]) {
        length(self, b'$', word.len());
        self.extend_from_slice(word);
        self.extend_from_slice(b"\r\n");
    }
}

/// The line that says how many words, or bytes of one, come next.
fn length(out: &mut Vec<u8>, kind: u8, length: usize) {
    match u8::try_from(length) {
        Ok(length @ 0..10) => out.extend_from_slice(&[kind, b'0' + length, b'\r', b'\n']),
        Ok(length @ 10..100) => {
            out.extend_from_slice(&[kind, b'0' + length / 10, b'0' + length % 10, b'\r', b'\n']);
        }
        _ => {
            let mut digits = [0; MOST_DIGITS];
            out.push(kind);
            out.extend_from_slice(decimal(length as i64, &mut digits));
            out.extend_from_slice(b"\r\n");
        }
    }
}

/// The digits of `number`, and its sign, at the end of `digits`.
fn decimal(number: i64, digits: &mut [u8; MOST_DIGITS]) -> &[u8] {
    let (mut left, mut at) = (number.unsigned_abs(), MOST_DIGITS);
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (left % 10) as u8;
        left /= 10;
        at -= 1;
        if left == 0 {
            break;
        }
    }
    if number < 0 {
        at -= 1;
        digits[at] = b'-';
    }
    &digits[at..]
}

/// The two words, as they are sent, by which a script is asked for that the server may know.
fn by_digest<'a>(body: impl Iterator<Item = &'a str>) -> Vec<u8> {
    let mut words = Vec::new();
    words.word(b"EVALSHA");
    let mut digest = sha1_smol::Sha1::new();
    body.for_each(|part| digest.update(part.as_bytes()));
    words.word(digest.digest().to_string().as_bytes());
    words
}

/// What is filled in when a request is sent.
#[derive(Clone, Copy, Debug)]
pub struct Given<'a> {
    /// After which point of the server's clock it does nothing.
    pub not_after: StoreTime,
    /// The run of the server; nothing where the user may not ask.
    pub run: &'a str,
}

/// The scripts that the server is asked for by their digest. Few are used by one program, and each takes as long to
/// digest as a request to answer, so that is done when the first is asked for.
#[derive(Debug)]
pub struct Scripts(Vec<Script>);

#[derive(Debug)]
struct Script {
    call: &'static Call,
    digest: OnceLock<Vec<u8>>,
    /// That of the script which does it for several callers.
    combined: OnceLock<Vec<u8>>,
}

impl Scripts {
    pub fn new(calls: impl Iterator<Item = &'static Call>) -> Self {
        let script = |call| Script { call, digest: OnceLock::new(), combined: OnceLock::new() };
        Scripts(calls.map(script).collect())
    }

    fn find(&self, call: &Call) -> Option<&Script> {
        self.0.iter().find(|script| std::ptr::eq(script.call, call))
    }

    /// Begins the command that asks for what so many callers ask of `call`, with so many arguments each; the keys come
    /// next. `whole` sends the script itself instead of its digest.
    pub fn begin_combined(&self, out: &mut Vec<u8>, call: &Call, (count, each): (usize, usize), whole: bool) {
        let digest = self.find(call).map(|script| &script.combined).filter(|_| !whole);
        begin(out, (count, count * (1 + each)), digest, combined::script(call));
    }

    /// Writes the command that asks for all of `group`: a script, or where a call has none its own name, which a lock
    /// server of ours knows. `whole` sends the script itself instead of its digest. Where in `out` the keys are, behind
    /// which the arguments follow.
    pub fn write(&self, out: &mut Vec<u8>, group: &[Request], given: Given<'_>, whole: bool) -> Range<usize> {
        let Some(Request { call, .. }) = group.first() else { return 0..0 };
        let beside = |request: &Request| request.args.iter().filter(|arg| matches!(arg, Arg::Key(_))).count();
        let keys: usize = group.iter().map(|request| 1 + beside(request)).sum();
        let words: usize = group.iter().map(|request| 1 + request.args.len()).sum();
        if call.body.is_empty() {
            out.begin(1 + words);
            out.word(call.name.as_bytes());
        } else {
            let digest = self.find(call).map(|script| &script.digest).filter(|_| !whole);
            begin(out, (keys, words), digest, call.body.iter().copied());
        }
        let start = out.len();
        for request in group {
            out.word(request.key.as_bytes());
            for arg in &request.args {
                if let Arg::Key(key) = arg {
                    out.word(key.as_bytes());
                }
            }
        }
        let end = out.len();
        arguments(out, group, given);
        start..end
    }
}

/// Begins the command for a `script` with so many keys, among so many words: by its digest, or without one whole.
fn begin<'a>(
    out: &mut Vec<u8>,
    (keys, words): (usize, usize),
    digest: Option<&OnceLock<Vec<u8>>>,
    script: impl Iterator<Item = &'a str>,
) {
    out.begin(3 + words);
    match digest {
        Some(digest) => out.extend_from_slice(digest.get_or_init(|| by_digest(script))),
        None => {
            out.word(b"EVAL");
            out.word(script.collect::<String>().as_bytes());
        }
    }
    out.number(keys as i64);
}

fn arguments(out: &mut Vec<u8>, group: &[Request], given: Given<'_>) {
    for arg in group.iter().flat_map(|request| &request.args) {
        match arg {
            Arg::Key(_) => {}
            Arg::Int(number) => out.number(*number),
            Arg::Text(text) => out.word(text.as_bytes()),
            Arg::Nothing | Arg::Node(_) => out.word(b""),
            Arg::NotAfter => out.number(given.not_after.0),
            Arg::Run => out.word(given.run.as_bytes()),
        }
    }
}

/// Whether requests of `call` travel together: those of a lock server's own words go one by one.
fn is_batched(call: &Call) -> bool {
    call.batch && !call.body.is_empty()
}

/// The requests of a write, by the command each will travel in.
pub fn groups(requests: &[Request], by_slot: bool) -> SmallVec<[&[Request]; 1]> {
    let together = |a: &Request, b: &Request| {
        is_batched(a.call) && std::ptr::eq(a.call, b.call) && (!by_slot || slots::of(&a.key) == slots::of(&b.key))
    };
    requests.chunk_by(together).flat_map(|run| run.chunks(share_of_batch(run.len()))).collect()
}

/// Whether the server does not know the script whose digest it was sent.
pub fn is_unknown_script(value: &Value) -> bool {
    matches!(value, Value::ServerError(error) if error.code() == "NOSCRIPT")
}

/// One reply for each request of the groups, from the one value that each of them was answered.
pub fn replies<'a>(answered: impl IntoIterator<Item = (&'a [Request], Value)>) -> Result<Vec<Reply>, Error> {
    let mut all = Vec::with_capacity(1);
    for (group, value) in answered {
        match (reply(value)?, group) {
            (Reply::List(list), [first, ..]) if is_batched(first.call) && list.len() == group.len() => all.extend(list),
            (error @ Reply::Error { .. }, _) => all.extend(std::iter::repeat_n(error, group.len())),
            (one, [only]) if !is_batched(only.call) => all.push(one),
            _ => return Err(strange("a batch was not answered by a list of its length")),
        }
    }
    Ok(all)
}

fn reply(value: Value) -> Result<Reply, Error> {
    Ok(match value {
        Value::Nil => Reply::Nil,
        Value::Int(number) => Reply::Int(number),
        Value::BulkString(bytes) => match String::from_utf8(bytes) {
            Ok(text) => Reply::Text(text),
            Err(error) => Reply::Text(String::from_utf8_lossy(error.as_bytes()).into_owned()),
        },
        Value::SimpleString(text) => Reply::Text(text),
        Value::Okay => Reply::Text("OK".into()),
        Value::Array(values) => Reply::List(values.into_iter().map(reply).collect::<Result<_, _>>()?),
        Value::ServerError(error) => {
            Reply::Error { code: error.code().into(), message: error.details().unwrap_or_default().into() }
        }
        _ => return Err(strange("a reply has a type of another protocol version")),
    })
}

fn strange(what: &'static str) -> Error {
    Error::new(Kind::Protocol, "connect", what)
}

/// Why a request has no answer.
pub fn lost(error: std::io::Error) -> Error {
    reach::lost(NO_REPLY, error)
}

/// Follows the replies in a stream of bytes, keeping none of them: where each ends, and whether they are replies at
/// all.
#[derive(Debug, Default)]
pub struct Frames {
    at: At,
    /// Elements still to come, of the reply's lists from the outermost to the innermost.
    open: SmallVec<[usize; DEPTH]>,
    /// Bytes of the present reply.
    size: usize,
    /// Whether the last byte was a carriage return: only with it does a line feed end a line.
    returned: bool,
}

#[derive(Clone, Copy, Debug, Default)]
enum At {
    /// The first byte of an element.
    #[default]
    Start,
    /// A line whose end is the element's end, and how much of it was seen.
    Line(usize),
    /// Such a line, of a number.
    Number(usize),
    /// The line that says how long a text, or how many elements a list has.
    Length { list: bool, length: usize, nil: bool },
    /// A text and its line end, of which so much is still to come.
    Text(usize),
}

/// Why a stream of bytes is not the protocol's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// No reply begins or goes on like this.
    Alien,
    /// It begins as TLS tells that something is wrong.
    Tls,
    /// A reply is larger or deeper than any that was asked for.
    Excessive,
}

impl Frames {
    /// Follows `bytes` up to the end of the present reply, and returns that end if it is reached.
    pub fn end(&mut self, bytes: &[u8]) -> Result<Option<usize>, Broken> {
        let mut next = 0;
        while let Some(&byte) = bytes.get(next) {
            let mut taken = 1;
            let mut done = false;
            match &mut self.at {
                At::Start => self.at = At::start(byte)?,
                At::Line(size) => {
                    let rest = &bytes[next..];
                    let end = match self.returned && byte == b'\n' {
                        true => Some(1),
                        false => rest.windows(2).position(|two| two == b"\r\n").map(|at| at + 2),
                    };
                    (taken, done) = (end.unwrap_or(rest.len()), end.is_some());
                    *size += taken;
                    if *size > MOST_OF_A_LINE {
                        return Err(Broken::Excessive);
                    }
                }
                At::Number(digits) => match (byte, self.returned) {
                    (b'0'..=b'9', false) => {
                        taken = bytes[next..].iter().take_while(|byte| byte.is_ascii_digit()).count();
                        *digits += taken;
                        if *digits > MOST_DIGITS {
                            return Err(Broken::Alien);
                        }
                    }
                    (b'-', false) if *digits == 0 => *digits += 1,
                    (b'\r', false) if *digits > 0 => {}
                    (b'\n', true) => done = true,
                    _ => return Err(Broken::Alien),
                },
                At::Length { list, length, nil } => match (byte, self.returned) {
                    (b'0'..=b'9', false) => {
                        *length = length.saturating_mul(10).saturating_add(usize::from(byte - b'0'));
                    }
                    (b'-', false) => *nil = true,
                    (b'\r', false) => {}
                    (b'\n', true) => {
                        let (list, length, nil) = (*list, *length, *nil);
                        if nil && length != 1 {
                            return Err(Broken::Alien);
                        }
                        if !nil && length > MOST_BYTES {
                            return Err(Broken::Excessive);
                        }
                        match (nil, list) {
                            (true, _) => done = true,
                            (false, false) => self.at = At::Text(length + 2),
                            (false, true) if length == 0 => done = true,
                            (false, true) => {
                                if self.open.len() == DEPTH {
                                    return Err(Broken::Excessive);
                                }
                                self.open.push(length);
                                self.at = At::Start;
                            }
                        }
                    }
                    _ => return Err(Broken::Alien),
                },
                At::Text(left) => {
                    taken = (bytes.len() - next).min(*left);
                    *left -= taken;
                    done = *left == 0;
                }
            }
            next += taken;
            self.returned = bytes[next - 1] == b'\r';
            self.size += taken;
            if self.size > MOST_BYTES {
                return Err(Broken::Excessive);
            }
            if done && self.element_ended() {
                return Ok(Some(next));
            }
        }
        Ok(None)
    }

    /// Follows all of `bytes`.
    #[cfg(test)]
    fn all(&mut self, mut bytes: &[u8]) -> Result<(), Broken> {
        while let Some(end) = self.end(bytes)? {
            bytes = &bytes[end..];
        }
        Ok(())
    }

    /// Whether no reply is half there.
    #[cfg(test)]
    fn is_between(&self) -> bool {
        self.size == 0
    }

    fn element_ended(&mut self) -> bool {
        self.at = At::Start;
        while let Some(left) = self.open.last_mut() {
            *left -= 1;
            if *left > 0 {
                return false;
            }
            self.open.pop();
        }
        self.size = 0;
        true
    }
}

/// Looks at everything that a connection reads, and remembers what was wrong with it.
#[derive(Debug, Default)]
pub struct Watch {
    frames: Frames,
    pub broken: Option<(Broken, String)>,
}

impl Watch {
    /// Looks at `bytes` up to the end of the present reply, and returns that end if it is reached.
    pub fn end(&mut self, bytes: &[u8]) -> std::io::Result<Option<usize>> {
        self.frames.end(bytes).map_err(|broken| self.remember(broken, bytes))
    }

    fn remember(&mut self, broken: Broken, bytes: &[u8]) -> std::io::Error {
        let start = &bytes[..bytes.len().min(80)];
        self.broken = Some((broken, String::from_utf8_lossy(start).into_owned()));
        std::io::ErrorKind::InvalidData.into()
    }
}

impl Broken {
    /// The error for what was to be `server`, such as [`REDIS`], and sent such a thing, beginning with `seen`.
    pub fn explain(self, server: &str, seen: &str) -> Error {
        let message = match self {
            Broken::Excessive => {
                "the server sent a reply larger than any that was asked for; see what answers at that address".into()
            }
            Broken::Tls if server == REDIS => "the server speaks TLS; write rediss:// for redis://".into(),
            Broken::Tls => format!("what listens there is not {server}; it speaks TLS"),
            Broken::Alien if seen.is_empty() => NO_REPLY.into(),
            Broken::Alien => format!("what listens there is not {server}; it says {seen:?}"),
        };
        Error::new(Kind::Protocol, "connect", message)
    }
}

impl At {
    fn start(byte: u8) -> Result<Self, Broken> {
        match byte {
            b'+' | b'-' => Ok(At::Line(0)),
            b':' => Ok(At::Number(0)),
            b'$' | b'*' => Ok(At::Length { list: byte == b'*', length: 0, nil: false }),
            // The record type `alert`: RFC 8446, 5.1.
            0x15 => Err(Broken::Tls),
            _ => Err(Broken::Alien),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lockwright_machines::cell_layout;
    use lockwright_machines::protocol::BATCH;
    use lockwright_machines::stores::redis::layouts::native_scripts::CALLS;

    fn ends(bytes: &[u8], step: usize) -> Result<usize, Broken> {
        let (mut frames, mut count) = (Frames::default(), 0);
        for mut chunk in bytes.chunks(step) {
            while let Some(end) = frames.end(chunk)? {
                count += 1;
                chunk = &chunk[end..];
            }
        }
        assert!(frames.is_between());
        Ok(count)
    }

    #[test]
    fn replies_end_where_they_end_however_they_arrive() {
        let replies =
            b"+OK\n\r\r\n:17\r\n-ERR a b\r\n$-1\r\n$5\r\na\r\nbc\r\n$0\r\n\r\n*-1\r\n*0\r\n*2\r\n*1\r\n:1\r\n$1\r\nx\r\n";
        for step in 1..=replies.len() {
            assert_eq!(ends(replies, step), Ok(9), "in steps of {step}");
        }
    }

    #[test]
    fn what_is_no_reply_is_found_before_it_is_kept() {
        for (bytes, why) in [
            (b"HTTP/1.1 400 Bad Request\r\n".as_slice(), Broken::Alien),
            (b"\x15\x03\x03\x00\x02", Broken::Tls),
            (b"$-7\r\n", Broken::Alien),
            (b"$abc\r\n", Broken::Alien),
            (b":12x\r\n", Broken::Alien),
            (b":12\n", Broken::Alien),
            (b":1-2\r\n", Broken::Alien),
            (b":\r\n", Broken::Alien),
            (b":999999999999999999999\r\n", Broken::Alien),
            (b"$3\r\rabc\r\n", Broken::Alien),
            (b"$1073741824\r\n", Broken::Excessive),
            (b"*99999999999999999999999\r\n", Broken::Excessive),
            (b"*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n", Broken::Excessive),
        ] {
            assert_eq!(Frames::default().all(bytes), Err(why));
        }
        let mut frames = Frames::default();
        assert_eq!(frames.all(b"+"), Ok(()));
        let flood = [b'x'; 1 << 16];
        assert_eq!((0..100).find_map(|_| frames.all(&flood).err()), Some(Broken::Excessive));
    }

    #[test]
    fn renewals_share_a_command_and_nothing_else_does() {
        let request = |call, key: &str| Request::new(call, key.into(), ["me".into(), Arg::Int(1)]);
        let mut requests = vec![request(&CALLS.release, "a"), request(&CALLS.release, "b")];
        requests.extend((0..2 * BATCH + 1).map(|i| request(&CALLS.renew, &i.to_string())));
        let sizes: Vec<_> = groups(&requests, false).iter().map(|group| group.len()).collect();
        assert_eq!(sizes, [1, 1, BATCH + 1, BATCH]);
    }

    #[test]
    fn a_batch_has_one_reply_for_each_of_its_requests() {
        let group = [1, 2].map(|i: i64| Request::new(&CALLS.renew, i.to_string().as_str().into(), []));
        let two = Value::Array(vec![Value::Int(1), Value::Int(0)]);
        assert_eq!(replies([(group.as_slice(), two.clone())]).unwrap(), [Reply::Int(1), Reply::Int(0)]);
        assert_eq!(replies([(&group[..1], two)]).unwrap_err().kind(), Kind::Protocol);
        assert_eq!(replies([(group.as_slice(), Value::Int(1))]).unwrap_err().kind(), Kind::Protocol);
        let error = redis::parse_redis_value(b"-OOM full\r\n").unwrap();
        assert_eq!(replies([(group.as_slice(), error)]).unwrap().len(), 2);
    }

    #[test]
    fn not_after_is_filled_in_and_clean_up_is_sent_whole() {
        let scripts = Scripts::new(CALLS.by_digest().into_iter());
        let packed = |call, whole| {
            let mut out = Vec::new();
            scripts.write(
                &mut out,
                &[Request::new(call, "k".into(), [Arg::NotAfter])],
                Given { not_after: StoreTime(77), run: "" },
                whole,
            );
            String::from_utf8(out).unwrap()
        };
        let digest = sha1_smol::Sha1::from(CALLS.acquire.body.concat()).digest().to_string();
        let evalsha = format!("*5\r\n$7\r\nEVALSHA\r\n$40\r\n{digest}\r\n$1\r\n1\r\n$1\r\nk\r\n$2\r\n77\r\n");
        assert_eq!(packed(&CALLS.acquire, false), evalsha);
        assert!(packed(&CALLS.acquire, true).starts_with("*5\r\n$4\r\nEVAL\r\n"));
        assert!(packed(&CALLS.undo, false).starts_with("*5\r\n$4\r\nEVAL\r\n"));
        // A lock server's own procedures have no script.
        assert_eq!(packed(&cell_layout::LOCK.undo, false), "*3\r\n$4\r\nundo\r\n$1\r\nk\r\n$2\r\n77\r\n");
    }

    #[test]
    fn a_command_is_written_as_the_crate_writes_it() {
        let scripts = Scripts::new(CALLS.by_digest().into_iter());
        let numbers = [0, 9, 10, -1, 1_900_000_000_000_000, i64::MAX, i64::MIN].map(Arg::Int);
        let others = [Arg::Key("beside".into()), Arg::Nothing, Arg::NotAfter, "a \r\n b".into()];
        let mut request = Request::new(&CALLS.renew, "k".into(), numbers);
        request.args.extend(others);
        for whole in [false, true] {
            let (mut ours, mut theirs) = (Vec::new(), redis::Cmd::new());
            scripts.write(
                &mut ours,
                std::slice::from_ref(&request),
                Given { not_after: StoreTime(77), run: "" },
                whole,
            );
            match whole {
                true => theirs.arg("EVAL").arg(CALLS.renew.body.concat()),
                false => {
                    theirs.arg("EVALSHA").arg(sha1_smol::Sha1::from(CALLS.renew.body.concat()).digest().to_string())
                }
            };
            theirs.arg(&[2]).arg(&["k", "beside"]).arg(&[0, 9, 10, -1, 1_900_000_000_000_000, i64::MAX, i64::MIN]);
            theirs.arg("").arg(77).arg("a \r\n b");
            assert_eq!(ours.escape_ascii().to_string(), theirs.get_packed_command().escape_ascii().to_string());
        }
    }
}
