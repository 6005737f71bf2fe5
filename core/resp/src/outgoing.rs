//! What is to be sent on a connection that many callers share.
//!
//! A server takes longer to begin a script than to run one of ours. Where several callers in a row ask the same of a
//! lock each, one command asks for all of them:
//!
//! ```text
//!   EVALSHA acquire 1 a …    EVALSHA acquire 1 b …    EVALSHA acquire 1 c …    EVALSHA acquire 1 d …
//!   EVALSHA acquire-for-each 4 a b c d … … … …
//! ```
//!
//! Its answer is a list with one for each of them, and nothing for a lock that does not lie where the command went: its
//! caller asks by itself. So do all of them where the server refuses the command as a whole, which then did nothing: a
//! user who may not touch one of the keys denies nobody else. A lock that is acquired for the first time, which mostly
//! lies nowhere, is asked for alone at once. The first command of its kind on a connection carries the script itself,
//! so that none is refused because the server does not know it. See ADR 0157.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::wire::{Given, Scripts};
use lockwright_machines::protocol::{Call, Request};
use lockwright_machines::stores::redis::layouts::combined;

/// To fewer a command each is no slower.
const FEWEST: usize = 4;
/// More would gain little, and keep others waiting.
const MOST: usize = 32;
/// Of at least so many locks, and at most twice as many, it is known that they were asked for.
const REMEMBERED: usize = 1024;
/// So many commands in a row that found half of their locks nowhere went to a proxy that has them on other servers.
const IN_VAIN: u8 = 8;

/// See the [module](self).
#[derive(Debug)]
pub struct Outgoing {
    scripts: Arc<Scripts>,
    bytes: Vec<u8>,
    /// The last commands of `bytes` that one may ask for.
    run: Option<Run>,
    /// Where these have their keys and arguments.
    places: Vec<Place>,
    /// The command that asks for all of them, while it is written.
    combining: Vec<u8>,
    ended: Option<Combined>,
    /// Of which calls the server was sent the script for several.
    known: SmallVec<[&'static Call; 2]>,
    /// The server does not do it.
    is_refused: bool,
    /// How many of the last commands found half of their locks nowhere.
    in_vain: u8,
    asked: Asked,
}

/// The keys that were asked for last, by where they lie in this process. What is forgotten, or another's by now, costs
/// a command or a round trip, and nothing else.
#[derive(Debug, Default)]
struct Asked {
    recent: HashSet<usize>,
    /// Those that were recent before.
    older: HashSet<usize>,
}

/// Commands in a row that ask for the same.
#[derive(Clone, Copy, Debug)]
struct Run {
    call: &'static Call,
    /// How many arguments each has.
    arguments: usize,
    start: usize,
}

/// Where a command begins, and where its key is, behind which its arguments follow.
#[derive(Debug)]
struct Place {
    start: usize,
    key: Range<usize>,
}

/// The command by which so many callers ask, who were the last before the present one.
#[derive(Clone, Copy, Debug)]
pub struct Combined {
    pub call: &'static Call,
    pub count: usize,
}

impl Outgoing {
    /// Nothing, to a server that is asked for these.
    pub fn new(scripts: Arc<Scripts>) -> Self {
        Outgoing {
            scripts,
            bytes: Vec::new(),
            run: None,
            places: Vec::new(),
            combining: Vec::new(),
            ended: None,
            known: SmallVec::new(),
            is_refused: false,
            in_vain: 0,
            asked: Asked::default(),
        }
    }

    /// Where to write what no other caller's command is combined with, and the scripts for it.
    pub fn alone(&mut self) -> (&Scripts, &mut Vec<u8>) {
        self.end_run();
        (&self.scripts, &mut self.bytes)
    }

    /// Writes the command for one request of a caller, whose script the server may know.
    pub fn ask(&mut self, request: &Request, given: Given<'_>) {
        let may_combine = !self.is_refused && combined::is_for(request.call) && self.is_there(request);
        let fits = |run: &Run| std::ptr::eq(run.call, request.call) && run.arguments == request.args.len();
        if !may_combine || self.places.len() == MOST || !self.run.as_ref().is_some_and(fits) {
            self.end_run();
        }
        let start = self.bytes.len();
        let key = self.scripts.write(&mut self.bytes, std::slice::from_ref(request), given, false);
        if may_combine {
            self.run.get_or_insert(Run { call: request.call, arguments: request.args.len(), start });
            self.places.push(Place { start, key });
        }
    }

    /// Whether the lock that `request` is about should lie at the server: it is given back, or was asked for before.
    fn is_there(&mut self, request: &Request) -> bool {
        !combined::may_create(request.call) || self.asked.again(request.key.as_ptr().addr())
    }

    /// Makes one command of those that may be one.
    fn end_run(&mut self) {
        if let Some(Run { call, arguments, start }) = self.run.take()
            && self.places.len() >= FEWEST
        {
            let count = self.places.len();
            let is_known = self.known.iter().any(|known| std::ptr::eq(*known, call));
            self.combining.clear();
            self.scripts.begin_combined(&mut self.combining, call, (count, arguments), !is_known);
            for place in &self.places {
                self.combining.extend_from_slice(&self.bytes[place.key.clone()]);
            }
            let ends = self.places.iter().skip(1).map(|next| next.start).chain([self.bytes.len()]);
            for (place, end) in self.places.iter().zip(ends) {
                self.combining.extend_from_slice(&self.bytes[place.key.end..end]);
            }
            self.bytes.truncate(start);
            self.bytes.extend_from_slice(&self.combining);
            if !is_known {
                self.known.push(call);
                // The script is no measure of what comes next.
                self.combining = Vec::new();
            }
            self.ended = Some(Combined { call, count });
        }
        self.places.clear();
    }

    /// The command that came of what was written before the last one, if it was more than one caller's. To be looked at
    /// after each.
    pub fn ended(&mut self) -> Option<Combined> {
        self.ended.take()
    }

    /// Moves all of it to `sending`, which is empty.
    pub fn take(&mut self, sending: &mut Vec<u8>) {
        self.end_run();
        std::mem::swap(&mut self.bytes, sending);
    }

    /// Nothing is sent any more.
    pub fn clear(&mut self) {
        *self = Outgoing::new(self.scripts.clone());
    }

    /// A command for `count` was answered, and so many of their locks were not there.
    pub fn answered(&mut self, count: usize, missing: usize) {
        self.in_vain = if 2 * missing < count { 0 } else { self.in_vain.saturating_add(1) };
        self.is_refused |= self.in_vain >= IN_VAIN;
    }

    /// The server refused a command for several with this code.
    pub fn refused(&mut self, call: &'static Call, code: &str) {
        match code {
            "NOSCRIPT" => self.known.retain(|known| !std::ptr::eq(*known, call)),
            "NOPERM" | "CROSSSLOT" | "ERR" => self.is_refused = true,
            // As it would have refused what each asks alone, for now.
            _ => {}
        }
    }
}

impl Asked {
    /// Notes this one. Returns whether it was noted before.
    fn again(&mut self, key: usize) -> bool {
        if !self.recent.insert(key) {
            return true;
        }
        let is_known = self.older.contains(&key);
        if self.recent.len() == REMEMBERED {
            std::mem::swap(&mut self.recent, &mut self.older);
            self.recent.clear();
        }
        is_known
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lockwright_machines::protocol::Arg;
    use lockwright_machines::stores::redis::layouts;
    use lockwright_machines::stores::redis::layouts::native_scripts::CALLS;
    use lockwright_machines::time::StoreTime;

    const GIVEN: Given<'static> = Given { not_after: StoreTime(77), run: "" };

    fn outgoing() -> Outgoing {
        Outgoing::new(Arc::new(Scripts::new(layouts::by_digest())))
    }

    fn request(call: &'static Call, key: &Arc<str>, arguments: usize) -> Request {
        let mut request = Request::new(call, key.clone(), []);
        request.args.extend(std::iter::once(Arg::NotAfter).chain((1..).map(Arg::Int)).take(arguments));
        request
    }

    /// What is sent for these, one after the other, each command in its words but for digests and scripts, and how many
    /// callers the last of the commands that became one are.
    fn sent(out: &mut Outgoing, requests: &[Request]) -> (Vec<String>, Vec<usize>) {
        let mut combined = Vec::new();
        for request in requests {
            out.ask(request, GIVEN);
            combined.extend(out.ended().map(|combined| combined.count));
        }
        let mut sending = Vec::new();
        out.take(&mut sending);
        combined.extend(out.ended().map(|combined| combined.count));
        assert!(out.ended().is_none());
        (commands(&sending), combined)
    }

    fn commands(sent: &[u8]) -> Vec<String> {
        let text = std::str::from_utf8(sent).unwrap();
        let mut rest = text;
        let mut number = |kind: char| {
            let (line, after) = rest.strip_prefix(kind)?.split_once("\r\n")?;
            let number: usize = line.parse().ok()?;
            if kind == '*' {
                rest = after;
                return Some((number, ""));
            }
            let (word, after) = after.split_at(number);
            rest = after.strip_prefix("\r\n")?;
            Some((number, word))
        };
        let mut all = Vec::new();
        while let Some((words, _)) = number('*') {
            let words: Vec<_> = (0..words).map(|_| number('$').expect("a word").1).collect();
            all.push([&words[..1], &words[2..]].concat().join(" "));
        }
        assert!(number('*').is_none() && rest.is_empty(), "{rest}");
        all
    }

    fn keys(count: usize) -> Vec<Arc<str>> {
        (0..count).map(|key| format!("k{key}").into()).collect()
    }

    /// Releases are of locks that are there.
    fn release_each(keys: &[Arc<str>]) -> Vec<Request> {
        keys.iter().map(|key| request(&CALLS.release, key, 2)).collect()
    }

    fn acquire_each(keys: &[Arc<str>]) -> Vec<Request> {
        keys.iter().map(|key| request(&CALLS.acquire, key, 2)).collect()
    }

    #[test]
    fn those_who_ask_the_same_in_a_row_have_one_command() {
        let mut out = outgoing();
        let few = sent(&mut out, &release_each(&keys(FEWEST - 1)));
        assert_eq!(
            few,
            (vec!["EVALSHA 1 k0 77 1".into(), "EVALSHA 1 k1 77 1".into(), "EVALSHA 1 k2 77 1".into()], vec![])
        );
        let four = release_each(&keys(FEWEST));
        let expected = "4 k0 k1 k2 k3 77 1 77 1 77 1 77 1";
        assert_eq!(sent(&mut out, &four), (vec![format!("EVAL {expected}")], vec![4]));
        assert_eq!(sent(&mut out, &four), (vec![format!("EVALSHA {expected}")], vec![4]), "it knows the script");
        assert!(out.bytes.is_empty() && out.places.is_empty());
    }

    #[test]
    fn what_differs_is_asked_by_another_command_in_the_order_of_asking() {
        let mut out = outgoing();
        let keys = keys(5);
        let mut all = release_each(&keys);
        // Another number of arguments, another call, and what is never combined.
        all.extend(keys[..4].iter().map(|key| request(&CALLS.release, key, 1)));
        acquire_each(&keys).iter().for_each(|request| out.ask(request, GIVEN));
        out.take(&mut Vec::new());
        all.extend(acquire_each(&keys[..4]));
        all.extend(keys[..4].iter().map(|key| request(&CALLS.inspect, key, 0)));
        let (sent, combined) = sent(&mut out, &all);
        let starts: Vec<_> = sent.iter().map(|command| command.split(" 77").next().unwrap()).collect();
        assert_eq!(starts[..3], ["EVAL 5 k0 k1 k2 k3 k4", "EVALSHA 4 k0 k1 k2 k3", "EVAL 4 k0 k1 k2 k3"]);
        assert_eq!(starts[3..], ["EVALSHA 1 k0", "EVALSHA 1 k1", "EVALSHA 1 k2", "EVALSHA 1 k3"]);
        assert_eq!(combined, [5, 4, 4]);
    }

    #[test]
    fn many_have_several_commands_and_what_is_written_between_them_stays_there() {
        let mut out = outgoing();
        let (all, combined) = sent(&mut out, &release_each(&keys(2 * MOST + 1)));
        assert_eq!((all.len(), combined), (3, vec![MOST, MOST]));
        assert_eq!(all[2], format!("EVALSHA 1 k{} 77 1", 2 * MOST));
        let four = release_each(&keys(4));
        four.iter().for_each(|request| out.ask(request, GIVEN));
        out.alone().1.extend_from_slice(b"*2\r\n$3\r\nGET\r\n$1\r\nx\r\n");
        assert_eq!(out.ended().map(|combined| combined.count), Some(4));
        let (all, combined) = sent(&mut out, &four);
        assert_eq!((all[1].as_str(), all.len(), combined), ("GET", 3, vec![4]));
    }

    #[test]
    fn a_server_that_lost_the_script_is_sent_it_again_and_one_that_will_not_is_asked_for_each() {
        let mut out = outgoing();
        let four = release_each(&keys(4));
        let mut verbs = |told: &str| {
            if !told.is_empty() {
                out.refused(&CALLS.release, told);
            }
            let (all, _) = sent(&mut out, &four);
            all.iter().map(|command| command.split(' ').next().unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(verbs(""), ["EVAL"]);
        assert_eq!(verbs("LOADING"), ["EVALSHA"]);
        assert_eq!(verbs("NOSCRIPT"), ["EVAL"]);
        assert_eq!(verbs(""), ["EVALSHA"]);
        assert_eq!(verbs("CROSSSLOT"), ["EVALSHA"; 4]);
    }

    #[test]
    fn a_lock_that_is_acquired_for_the_first_time_is_asked_for_alone() {
        let (mut out, keys) = (outgoing(), keys(5));
        assert_eq!(sent(&mut out, &acquire_each(&keys[..4])).0.len(), 4);
        assert_eq!(sent(&mut out, &acquire_each(&keys[..4])).1, [4]);
        // Among others that are known.
        let (all, combined) = sent(&mut out, &acquire_each(&keys));
        assert_eq!((all.len(), combined), (2, vec![4]));
    }

    #[test]
    fn of_many_locks_it_is_known_that_they_were_asked_for() {
        let mut out = outgoing();
        let all = acquire_each(&keys(REMEMBERED));
        assert!(sent(&mut out, &all).1.is_empty());
        assert_eq!(sent(&mut out, &all).1, vec![MOST; REMEMBERED / MOST]);
        let more = acquire_each(&keys(2 * REMEMBERED));
        assert!(sent(&mut out, &more).1.is_empty());
        assert!(sent(&mut out, &all).1.is_empty(), "they are forgotten");
        assert!(out.asked.recent.len() + out.asked.older.len() <= 2 * REMEMBERED);
    }

    #[test]
    fn whoever_has_locks_on_other_servers_is_not_asked_for_several_any_more() {
        let (mut out, keys) = (outgoing(), keys(4));
        for missing in [2, 4, 2, 2, 2, 2, 2, 1] {
            out.answered(4, missing);
        }
        (1..IN_VAIN).for_each(|_| out.answered(4, 2));
        assert_eq!(sent(&mut out, &release_each(&keys)).1, [4]);
        out.answered(4, 2);
        assert!(sent(&mut out, &release_each(&keys)).1.is_empty());
    }
}
