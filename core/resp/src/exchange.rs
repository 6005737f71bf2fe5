//! The commands by which the requests of one write are asked, some of them more than once: the same for blocking and
//! async callers, who do the sending.

use std::ops::{Deref, Range};
use std::sync::Arc;
use std::time::Duration;

use redis::Value;
use smallvec::SmallVec;

use crate::outgoing::Outgoing;
use crate::shortcut::{self, Shortcut, ShortcutProbe};
use crate::wire::{Commands, Given, NO_REPLY, Scripts, groups, is_unknown_script, replies};
use lockwright_machines::error::{Error, Kind, Result};
use lockwright_machines::protocol::{Arg, Reply, Request};
use lockwright_machines::stores::redis::layouts::tokenless;
use lockwright_machines::time::StoreTime;

/// See the [module](self). It has the requests, or borrows them.
#[derive(Debug)]
pub struct Exchange<R> {
    requests: R,
    asked: SmallVec<[Asked; 1]>,
    /// The run of the server.
    run: Option<Arc<str>>,
    manner: Manner,
    /// What became of waiting for copies, after the last answers.
    heard: Option<Value>,
}

/// How the requests of one write are to be asked.
#[derive(Clone, Copy, Debug, Default)]
pub struct Manner {
    /// Only what lies in one slot travels in one command.
    pub by_slot: bool,
    /// The server is about to get the slot, and answers for it only whoever says so.
    pub asking: bool,
    /// How many replicas are to have heard of what may be granted, before the answer.
    pub copies: Option<Copies>,
}

/// So many replicas, which are waited for so long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copies {
    /// At least one.
    pub count: u32,
    /// At least a millisecond.
    pub timeout: Duration,
}

/// Whether `request` may make somebody the holder: it is refused after a time, or could not be.
pub fn may_grant(request: &Request) -> bool {
    request.args.iter().any(|arg| matches!(arg, Arg::NotAfter)) || tokenless::set(request).is_some()
}

/// The requests that travel in one command.
#[derive(Debug)]
struct Asked {
    group: Range<usize>,
    form: Form,
    answer: Option<Value>,
}

/// As what a command is sent.
#[derive(Clone, Copy, Debug)]
enum Form {
    /// As the server's own command.
    Shortcut(Shortcut),
    /// As a look whether a marker is still there.
    Marker,
    /// As the server's own command, for which there is no script.
    Set,
    /// As a script that the server may know.
    Digest,
    /// As a script in full.
    Whole,
}

impl Form {
    fn of(group: &[Request], known: &ShortcutProbe) -> Self {
        match (known.has, group) {
            (Some(shortcut), [request]) if shortcut::is_for(request) => Form::Shortcut(shortcut),
            (_, [request]) if shortcut::looks_at_marker(request) && known.marker(&request.key).is_some() => {
                Form::Marker
            }
            (_, [request]) if tokenless::set(request).is_some() => Form::Set,
            _ => Form::Digest,
        }
    }

    /// As what it has to be sent again, if this answer to it is none.
    fn after(self, answer: &Value) -> Option<Self> {
        match self {
            Form::Shortcut(_) if *answer != Value::Int(1) => Some(Form::Digest),
            Form::Marker => Some(Form::Digest),
            Form::Digest if is_unknown_script(answer) => Some(Form::Whole),
            _ => None,
        }
    }
}

impl<R: Deref<Target = [Request]>> Exchange<R> {
    /// That of `requests` in this `manner`, on a connection of which this is `known`.
    pub fn new(requests: R, known: &ShortcutProbe, manner: Manner) -> Self {
        let mut start = 0;
        let asked = |group: &[Request]| {
            let range = start..start + group.len();
            start = range.end;
            Asked { group: range, form: Form::of(group, known), answer: None }
        };
        let copies = manner.copies.filter(|_| requests.iter().any(may_grant));
        let manner = Manner { copies, ..manner };
        let asked = groups(&requests, manner.by_slot).into_iter().map(asked).collect();
        Exchange { requests, asked, run: known.run.clone(), manner, heard: None }
    }

    /// How many answers there will be to what is written now.
    pub fn expected(&self) -> usize {
        let each = if self.manner.asking { 2 } else { 1 };
        self.open() * each + usize::from(self.manner.copies.is_some())
    }

    /// How many commands are to be sent now.
    pub fn open(&self) -> usize {
        self.asked.iter().filter(|asked| asked.answer.is_none()).count()
    }

    /// Writes what nothing was sent of yet among what other callers ask on the connection: one command may ask for
    /// them, too.
    pub fn write_among(&self, not_after: StoreTime, out: &mut Outgoing) {
        let is_plain = !self.manner.by_slot && !self.manner.asking && self.manner.copies.is_none();
        match (&self.asked[..], &self.requests[..]) {
            ([Asked { form: Form::Digest, .. }], [request]) if is_plain => out.ask(request, self.given(not_after)),
            _ => {
                let (scripts, out) = out.alone();
                self.write(scripts, not_after, out);
            }
        }
    }

    fn given(&self, not_after: StoreTime) -> Given<'_> {
        Given { not_after, run: self.run.as_deref().unwrap_or_default() }
    }

    /// Writes those.
    pub fn write(&self, scripts: &Scripts, not_after: StoreTime, out: &mut Vec<u8>) {
        for asked in self.asked.iter().filter(|asked| asked.answer.is_none()) {
            if self.manner.asking {
                out.command(&["ASKING"]);
            }
            match (asked.form, &self.requests[asked.group.clone()]) {
                (Form::Shortcut(shortcut), [request]) => shortcut.write(out, request),
                (Form::Marker, [request]) => out.command(&["GET", &request.key]),
                (Form::Set, [request]) => write_set(out, request),
                (form, group) => {
                    scripts.write(out, group, self.given(not_after), matches!(form, Form::Whole));
                }
            }
        }
        if let Some(Copies { count, timeout }) = self.manner.copies {
            out.command(&["WAIT", &count.to_string(), &timeout.as_millis().to_string()]);
        }
    }

    /// Takes the answers to what was sent, in order. What is still [`open`](Self::open) then has to be sent.
    ///
    /// # Errors
    /// `protocol` if some are missing.
    pub fn take(&mut self, answers: impl IntoIterator<Item = Value>, known: &mut ShortcutProbe) -> Result<()> {
        let mut answers = answers.into_iter();
        for asked in self.asked.iter_mut().filter(|asked| asked.answer.is_none()) {
            if self.manner.asking {
                answers.next();
            }
            let answer = answers.next().ok_or_else(|| Error::new(Kind::Protocol, "connect", NO_REPLY))?;
            if matches!(asked.form, Form::Shortcut(_)) {
                known.hear(&answer);
            }
            let look = self.requests[asked.group.clone()].first().filter(|request| shortcut::looks_at_marker(request));
            let is_there = |look: &Request| is_marker(&answer, known.marker(&look.key));
            match asked.form.after(&answer) {
                Some(form) if !(matches!(asked.form, Form::Marker) && look.is_some_and(is_there)) => asked.form = form,
                _ => {
                    if let Some(look) = look {
                        known.learn_marker(&look.key, &answer);
                    }
                    asked.answer = Some(answer);
                }
            }
        }
        self.heard = answers.next();
        Ok(())
    }

    /// One reply for each request, once nothing is open.
    ///
    /// # Errors
    /// `protocol` if the answers are not such as were asked for.
    pub fn replies(self) -> Result<Vec<Reply>> {
        let requests = &self.requests;
        replies(self.asked.into_iter().filter_map(|asked| Some((&requests[asked.group], asked.answer?))))
    }

    /// What the server said last of the [copies](Manner::copies), if anything; none where nobody waits for them.
    pub fn heard(&self) -> Option<Option<&Value>> {
        self.manner.copies.map(|_| self.heard.as_ref())
    }
}

/// What is sent by the libraries whose locks are joined.
fn write_set(out: &mut Vec<u8>, request: &Request) {
    let (owner, ttl) = tokenless::set(request).unwrap_or_default();
    out.begin(6);
    [b"SET", request.key.as_bytes(), owner.as_bytes(), b"NX", b"PX"].into_iter().for_each(|word| out.word(word));
    out.number(ttl);
}

/// Whether this answer is the marker that was there before.
fn is_marker(answer: &Value, known: Option<Arc<str>>) -> bool {
    matches!((answer, known), (Value::BulkString(text), Some(known)) if text == known.as_bytes())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use lockwright_machines::protocol::Call;

    fn set() -> Request {
        Request::new(&tokenless::SET, "k".into(), ["owner".into(), Arg::Int(30_000)])
    }

    #[test]
    fn a_lock_without_tokens_is_asked_for_by_the_command_of_its_libraries() {
        let scripts = Scripts::new([].into_iter());
        let mut known = ShortcutProbe::default();
        let mut exchange = Exchange::new([set()].to_vec(), &known, Manner::default());
        let mut sent = Vec::new();
        exchange.write(&scripts, StoreTime(7), &mut sent);
        let expected = "*6\r\n$3\r\nSET\r\n$1\r\nk\r\n$5\r\nowner\r\n$2\r\nNX\r\n$2\r\nPX\r\n$5\r\n30000\r\n";
        assert_eq!(String::from_utf8_lossy(&sent), expected);
        exchange.take([Value::Nil], &mut known).unwrap();
        assert_eq!((exchange.open(), exchange.replies().unwrap()), (0, vec![Reply::Nil]), "it is not asked again");
    }

    #[test]
    fn whatever_may_grant_waits_for_the_copies_that_are_wanted() {
        static CALL: Call = Call { name: "ask", body: &["return 1"], batch: false };
        let copies = Copies { count: 1, timeout: Duration::from_millis(50) };
        let manner = Manner { copies: Some(copies), ..Manner::default() };
        let dated = Request::new(&CALL, "k".into(), [Arg::NotAfter]);
        for (request, waits) in [(set(), true), (dated, true), (Request::new(&CALL, "k".into(), []), false)] {
            assert_eq!(may_grant(&request), waits);
            let exchange = Exchange::new([request].to_vec(), &ShortcutProbe::default(), manner);
            assert_eq!(exchange.expected(), 1 + usize::from(waits));
        }
    }
}
