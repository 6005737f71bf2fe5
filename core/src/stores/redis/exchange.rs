//! The commands by which the requests of one write are asked, some of them more than once: the same for blocking and
//! async callers, who do the sending.

use std::sync::Arc;

use redis::Value;
use smallvec::SmallVec;

use super::replicas::{Replicas, may_grant};
use super::shortcut::{self, Shortcut, ShortcutProbe};
use super::wire::{Commands, Given, NO_REPLY, Scripts, groups, is_unknown_script, replies};
use crate::error::{Error, Kind, Result};
use crate::protocol::{Reply, Request};
use crate::time::StoreTime;

/// See the [module](self).
pub(super) struct Exchange<'a> {
    asked: SmallVec<[Asked<'a>; 1]>,
    /// The run of the server.
    run: Option<Arc<str>>,
    manner: Manner,
    /// What became of waiting for replicas, after the last answers.
    copies: Option<Value>,
}

/// How the requests of one write are to be asked.
#[derive(Clone, Copy, Default)]
pub(super) struct Manner {
    /// Only what lies in one slot travels in one command.
    pub(super) by_slot: bool,
    /// The server is about to get the slot, and answers for it only whoever says so.
    pub(super) asking: bool,
    /// Who must have heard of what is granted.
    pub(super) replicas: Option<Replicas>,
}

/// The requests that travel in one command.
struct Asked<'a> {
    group: &'a [Request],
    form: Form,
    answer: Option<Value>,
}

/// As what a command is sent.
#[derive(Clone, Copy)]
enum Form {
    /// As the server's own command.
    Shortcut(Shortcut),
    /// As a look whether a marker is still there.
    Marker,
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

impl<'a> Exchange<'a> {
    pub(super) fn new(requests: &'a [Request], known: &ShortcutProbe, manner: Manner) -> Self {
        let asked = |group| Asked { group, form: Form::of(group, known), answer: None };
        let replicas = manner.replicas.filter(|_| requests.iter().any(may_grant));
        let manner = Manner { replicas, ..manner };
        let asked = groups(requests, manner.by_slot).into_iter().map(asked).collect();
        Exchange { asked, run: known.run.clone(), manner, copies: None }
    }

    /// How many answers there will be to what is written now.
    pub(super) fn expected(&self) -> usize {
        let each = if self.manner.asking { 2 } else { 1 };
        self.open() * each + usize::from(self.manner.replicas.is_some())
    }

    /// How many commands are to be sent now.
    pub(super) fn open(&self) -> usize {
        self.asked.iter().filter(|asked| asked.answer.is_none()).count()
    }

    /// Writes those.
    pub(super) fn write(&self, scripts: &Scripts, not_after: StoreTime, out: &mut Vec<u8>) {
        for asked in self.asked.iter().filter(|asked| asked.answer.is_none()) {
            if self.manner.asking {
                out.command(&["ASKING"]);
            }
            match (asked.form, asked.group) {
                (Form::Shortcut(shortcut), [request]) => shortcut.write(out, request),
                (Form::Marker, [request]) => out.command(&["GET", &request.key]),
                (form, group) => {
                    let given = Given { not_after, run: self.run.as_deref().unwrap_or_default() };
                    scripts.write(out, group, given, matches!(form, Form::Whole));
                }
            }
        }
        if let Some(replicas) = self.manner.replicas {
            out.command(&replicas.words().each_ref().map(String::as_str));
        }
    }

    /// Takes the answers to what was sent, in order. What is still [`open`](Self::open) then has to be sent.
    ///
    /// # Errors
    /// `protocol` if some are missing.
    pub(super) fn take(&mut self, answers: impl IntoIterator<Item = Value>, known: &mut ShortcutProbe) -> Result<()> {
        let mut answers = answers.into_iter();
        for asked in self.asked.iter_mut().filter(|asked| asked.answer.is_none()) {
            if self.manner.asking {
                answers.next();
            }
            let answer = answers.next().ok_or_else(|| Error::new(Kind::Protocol, "connect", NO_REPLY))?;
            if matches!(asked.form, Form::Shortcut(_)) {
                known.hear(&answer);
            }
            let look = asked.group.first().filter(|request| shortcut::looks_at_marker(request));
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
        self.copies = answers.next();
        Ok(())
    }

    /// One reply for each request, once nothing is open.
    ///
    /// # Errors
    /// `protocol` if the answers are not such as were asked for; `unavailable` if too few replicas have heard of what
    /// may have been granted, and they had to.
    pub(super) fn replies(self) -> Result<Vec<Reply>> {
        if let Some(replicas) = self.manner.replicas {
            replicas.check(self.copies.as_ref())?;
        }
        replies(self.asked.into_iter().filter_map(|asked| Some((asked.group, asked.answer?))))
    }
}

/// Whether this answer is the marker that was there before.
fn is_marker(answer: &Value, known: Option<Arc<str>>) -> bool {
    matches!((answer, known), (Value::BulkString(text), Some(known)) if text == known.as_bytes())
}
