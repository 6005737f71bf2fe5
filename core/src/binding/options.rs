//! Options by name and value: what a language may set, and how a value of that language becomes one of the core.
//!
//! The tables here are the only list of options. A binding hands on what its program gave, by name; stubs and types of
//! each language are compared with the tables by a test of that language.

use std::borrow::Cow;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::guarantee::Requirements;
use crate::options::{AcquireOptions, ConnectOptions, Retry, milliseconds, seconds};
use crate::uri;

/// How a language writes what every language has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Language {
    /// What holder cards call it.
    pub name: &'static str,
    /// What a number that stands for a span of time counts.
    pub unit: Unit,
    /// How a name of several words is written.
    pub case: Case,
}

/// What a bare number counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// As Python and PHP do.
    Seconds,
    /// As JavaScript does.
    Milliseconds,
}

/// How words are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Case {
    /// `max_hold`.
    Snake,
    /// `maxHold`.
    Camel,
}

/// A value as a program gave it.
#[derive(Clone, Debug, PartialEq)]
pub enum Given {
    /// A span of time in the language's unit.
    Number(f64),
    /// A text, which for a span of time has its unit.
    Text(String),
    /// Yes or no.
    Flag(bool),
    /// The two ends of a range, either of which may be left as it is.
    Range(Box<[Option<Given>; 2]>),
}

/// What an option takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A span of time.
    Span,
    /// A span of time, or none at all: no limit.
    Limit,
    /// Yes or no.
    Flag,
    /// A text.
    Text,
    /// The path of a file.
    Path,
    /// The shortest and the longest of spans of time.
    Range,
    /// A small whole number.
    Count,
}

/// An option of `T`.
#[derive(Debug)]
pub struct Choice<T> {
    /// Its name, in snake case.
    pub name: &'static str,
    set: Set<T>,
}

/// How an option is set.
#[derive(Debug)]
enum Set<T> {
    Span(fn(&mut T, Duration)),
    Limit(fn(&mut T, Option<Duration>)),
    Flag(fn(&mut T, bool)),
    Text(fn(&mut T, &str)),
    Path(fn(&mut T, String)),
    Range(fn(&mut T, [Option<Duration>; 2])),
    Count(fn(&mut T, u8)),
}

/// The options of a lock. What is not set stays as the client's address says.
pub static LOCK: [Choice<AcquireOptions>; 13] = [
    Choice { name: "ttl", set: Set::Span(|lock, ttl| lock.ttl = ttl) },
    Choice { name: "timeout", set: Set::Limit(|lock, limit| lock.timeout = limit) },
    Choice { name: "renew", set: Set::Flag(|lock, renew| lock.renew = renew) },
    Choice { name: "max_hold", set: Set::Span(|lock, most| lock.max_hold = Some(most)) },
    Choice { name: "at_least_for", set: Set::Span(|lock, least| lock.at_least_for = Some(least)) },
    Choice { name: "fair", set: Set::Flag(|lock, fair| lock.fair = fair) },
    Choice { name: "rank", set: Set::Count(|lock, rank| lock.rank = rank) },
    Choice { name: "reentrant", set: Set::Flag(|lock, reentrant| lock.reentrant = reentrant) },
    Choice { name: "revocable", set: Set::Flag(|lock, revocable| lock.revocable = revocable) },
    Choice { name: "layout", set: Set::Text(AcquireOptions::set_layout) },
    Choice { name: "format", set: Set::Text(|lock, format| lock.format = Some(format.into())) },
    Choice { name: "retry", set: Set::Range(|lock, ends| lock.retry = between(lock.retry, ends)) },
    Choice { name: "label", set: Set::Text(|lock, label| lock.label = Some(label.into())) },
];

/// Those of a connection; a source of credentials is set by the binding itself.
pub static CONNECT: [Choice<ConnectOptions>; 7] = [
    Choice { name: "prefix", set: Set::Text(|connection, prefix| connection.prefix = prefix.into()) },
    Choice { name: "connect_timeout", set: Set::Span(|connection, limit| connection.connect_timeout = limit) },
    Choice { name: "response_timeout", set: Set::Span(|connection, limit| connection.response_timeout = limit) },
    Choice { name: "store_timeout", set: Set::Span(|connection, limit| connection.store_timeout = limit) },
    Choice { name: "ca", set: Set::Path(|connection, file| connection.ca = Some(file)) },
    Choice { name: "cert", set: Set::Path(|connection, file| connection.cert = Some(file)) },
    Choice { name: "key", set: Set::Path(|connection, file| connection.key = Some(file)) },
];

/// What a program may insist on.
pub static REQUIRE: [Choice<Requirements>; 10] = [
    Choice { name: "rwlock", set: Set::Flag(|wanted, is| wanted.rwlock = is) },
    Choice { name: "semaphore", set: Set::Flag(|wanted, is| wanted.semaphore = is) },
    Choice { name: "latch", set: Set::Flag(|wanted, is| wanted.latch = is) },
    Choice { name: "barrier", set: Set::Flag(|wanted, is| wanted.barrier = is) },
    Choice { name: "fenced", set: Set::Flag(|wanted, is| wanted.fenced = is) },
    Choice { name: "fair", set: Set::Flag(|wanted, is| wanted.fair = is) },
    Choice { name: "reentrant", set: Set::Flag(|wanted, is| wanted.reentrant = is) },
    Choice { name: "shared", set: Set::Flag(|wanted, is| wanted.shared = is) },
    Choice { name: "push", set: Set::Flag(|wanted, is| wanted.push = is) },
    Choice { name: "failover_safe", set: Set::Flag(|wanted, is| wanted.failover_safe = is) },
];

fn between(before: Retry, [min, max]: [Option<Duration>; 2]) -> Retry {
    Retry { min: min.unwrap_or(before.min), max: max.unwrap_or(before.max) }
}

impl<T> Choice<T> {
    /// What it takes.
    pub fn shape(&self) -> Shape {
        match self.set {
            Set::Span(_) => Shape::Span,
            Set::Limit(_) => Shape::Limit,
            Set::Flag(_) => Shape::Flag,
            Set::Text(_) => Shape::Text,
            Set::Path(_) => Shape::Path,
            Set::Range(_) => Shape::Range,
            Set::Count(_) => Shape::Count,
        }
    }

    /// Sets it in `options` for a program of `language`, which does `operation`.
    ///
    /// # Errors
    /// `invalid_config` for a value that it does not take. Whether the options can be honoured is seen where they are
    /// used.
    pub fn set(&self, options: &mut T, given: Given, language: Language, operation: &'static str) -> Result<()> {
        let what = language.spell(self.name);
        let span = |given: &Given| language.span(operation, &what, given);
        match (&self.set, given) {
            (Set::Span(set), given) => set(options, span(&given)?),
            (Set::Limit(set), given) => set(options, language.limit(operation, &what, &given)?),
            (Set::Flag(set), Given::Flag(flag)) => set(options, flag),
            (Set::Text(set), Given::Text(text)) => set(options, &text),
            (Set::Path(set), Given::Text(path)) => set(options, path),
            (Set::Count(set), Given::Number(number)) => set(options, count(operation, &what, number)?),
            (Set::Range(set), Given::Range(ends)) => {
                let [min, max] = ends.each_ref().map(|end| end.as_ref().map(span).transpose());
                set(options, [min?, max?]);
            }
            (_, other) => return Err(wrong(operation, &what, &other)),
        }
        Ok(())
    }
}

impl Language {
    /// A name of the tables as this language writes it.
    pub fn spell(self, name: &'static str) -> Cow<'static, str> {
        let mut words = name.split('_');
        let first = words.next().filter(|first| self.case == Case::Camel && *first != name);
        let Some(first) = first else { return name.into() };
        let capital = |word: &str| word[..1].to_ascii_uppercase() + &word[1..];
        words.fold(first.to_owned(), |spelled, word| spelled + &capital(word)).into()
    }

    /// Where in its table the option of that name in this language stands, if there is one.
    pub fn position<T>(self, choices: &'static [Choice<T>], name: &str) -> Option<usize> {
        choices.iter().position(|choice| self.spell(choice.name) == name)
    }

    /// Sets what was given, by position, in the order of the table: an option may depend on those before it.
    ///
    /// # Errors
    /// As [`Choice::set`], of the first that is wrong.
    pub fn set<T>(
        self,
        choices: &'static [Choice<T>],
        options: &mut T,
        mut given: Vec<(usize, Given)>,
        operation: &'static str,
    ) -> Result<()> {
        given.sort_by_key(|(at, _)| *at);
        given.into_iter().try_for_each(|(at, given)| match choices.get(at) {
            Some(choice) => choice.set(options, given, self, operation),
            None => Err(super::lost_track(operation)),
        })
    }

    /// A span of time; of ten years at most, which longer ones are cut to.
    ///
    /// # Errors
    /// `invalid_config` for what is none, is negative, or larger than any time.
    pub fn span(self, operation: &'static str, what: &str, given: &Given) -> Result<Duration> {
        match (given, self.unit) {
            (Given::Number(number), Unit::Seconds) => seconds(operation, what, *number),
            (Given::Number(number), Unit::Milliseconds) => milliseconds(operation, what, *number),
            (Given::Text(text), _) => {
                uri::span(what, text).map_err(|error| Error::invalid(operation, error.context().to_owned()))
            }
            (other, _) => Err(wrong(operation, what, other)),
        }
    }

    /// A time limit. `None`, no limit, is what the language writes so: -1 where seconds are counted, infinity where
    /// milliseconds are.
    ///
    /// # Errors
    /// As [`span`](Self::span).
    pub fn limit(self, operation: &'static str, what: &str, given: &Given) -> Result<Option<Duration>> {
        let endless = match self.unit {
            Unit::Seconds => -1.0,
            Unit::Milliseconds => f64::INFINITY,
        };
        if *given == Given::Number(endless) { Ok(None) } else { self.span(operation, what, given).map(Some) }
    }

    /// A span of time as a number of this language; infinite for one that has no end.
    pub fn number(self, span: Duration) -> f64 {
        match self.unit {
            _ if span == Duration::MAX => f64::INFINITY,
            Unit::Seconds => span.as_secs_f64(),
            Unit::Milliseconds => span.as_secs_f64() * 1_000.0,
        }
    }
}

fn count(operation: &'static str, what: &str, number: f64) -> Result<u8> {
    let is_whole = number.fract() == 0.0 && (0.0..=f64::from(u8::MAX)).contains(&number);
    let message = || Error::invalid(operation, format!("{what} is {number:?}; it must be a small whole number"));
    is_whole.then_some(number as u8).ok_or_else(message)
}

fn wrong(operation: &'static str, what: &str, given: &Given) -> Error {
    let is = match given {
        Given::Number(_) => "a number",
        Given::Text(_) => "a text",
        Given::Flag(_) => "true or false",
        Given::Range(_) => "a range",
    };
    Error::invalid(operation, format!("{what} cannot be {is}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PYTHON: Language = Language { name: "python", unit: Unit::Seconds, case: Case::Snake };
    const NODE: Language = Language { name: "node", unit: Unit::Milliseconds, case: Case::Camel };

    fn set(language: Language, name: &str, given: Given) -> Result<AcquireOptions> {
        let mut options = AcquireOptions::default();
        let at = language.position(&LOCK, name).ok_or_else(|| Error::invalid("lock", format!("no {name}")))?;
        language.set(&LOCK, &mut options, vec![(at, given)], "lock").map(|()| options)
    }

    #[test]
    fn an_option_has_the_name_and_the_unit_of_the_language() {
        let max_hold = |language, name| set(language, name, Given::Number(90_000.0)).unwrap().max_hold;
        assert_eq!(max_hold(PYTHON, "max_hold"), Some(Duration::from_secs(90_000)));
        assert_eq!(max_hold(NODE, "maxHold"), Some(Duration::from_secs(90)));
        assert!(
            set(NODE, "max_hold", Given::Number(1.0)).is_err() && set(PYTHON, "maxHold", Given::Number(1.0)).is_err()
        );
        let said = set(NODE, "maxHold", Given::Number(-1.0)).unwrap_err().to_string();
        assert!(said.contains("lock: maxHold is -1.0 ms"), "{said}");
        assert_eq!(set(NODE, "ttl", Given::Text("10s".into())).unwrap().ttl, Duration::from_secs(10));
        assert_eq!(NODE.number(Duration::from_secs(2)), 2_000.0);
        assert_eq!(PYTHON.number(Duration::MAX), f64::INFINITY);
    }

    #[test]
    fn no_limit_is_what_the_language_calls_so() {
        for (language, endless, refused) in [(PYTHON, -1.0, f64::INFINITY), (NODE, f64::INFINITY, -1.0)] {
            assert_eq!(set(language, "timeout", Given::Number(endless)).unwrap().timeout, None);
            assert!(set(language, "timeout", Given::Number(refused)).is_err());
        }
    }

    #[test]
    fn a_format_goes_with_the_layout_that_is_given_after_it() {
        let given = ["format", "layout"].map(|name| (PYTHON.position(&LOCK, name).unwrap(), Given::Text("x".into())));
        let mut options = AcquireOptions::default();
        PYTHON.set(&LOCK, &mut options, given.into(), "lock").unwrap();
        assert_eq!(options.format.as_deref(), Some("x"));
    }

    #[test]
    fn half_a_range_leaves_the_other_end() {
        let given = Given::Range(Box::new([None, Some(Given::Number(100.0))]));
        let retry = set(NODE, "retry", given).unwrap().retry;
        assert_eq!(retry, Retry { min: Retry::DEFAULT.min, max: Duration::from_millis(100) });
    }

    #[test]
    fn every_option_takes_its_shape_and_nothing_else() {
        fn shapes<T: Clone>(choices: &'static [Choice<T>], options: T) {
            let number = || Given::Number(1.0);
            let texts = [Shape::Text, Shape::Path, Shape::Span, Shape::Limit];
            for choice in choices {
                let takes = |given| choice.set(&mut options.clone(), given, PYTHON, "lock").is_ok();
                let shape = choice.shape();
                let numbers = [Shape::Span, Shape::Limit, Shape::Count];
                assert_eq!(takes(number()), numbers.contains(&shape), "{}", choice.name);
                assert_eq!(takes(Given::Number(0.5)), numbers[..2].contains(&shape), "{}", choice.name);
                assert_eq!(takes(Given::Flag(true)), shape == Shape::Flag, "{}", choice.name);
                assert_eq!(takes(Given::Text("1s".into())), texts.contains(&shape), "{}", choice.name);
                assert_eq!(
                    takes(Given::Range(Box::new([Some(number()), None]))),
                    shape == Shape::Range,
                    "{}",
                    choice.name
                );
            }
        }
        shapes(&LOCK, AcquireOptions::default());
        shapes(&CONNECT, ConnectOptions::default());
        shapes(&REQUIRE, Requirements::default());
    }

    #[test]
    fn every_option_of_an_address_is_in_the_tables() {
        let known = |name: &&&str| {
            LOCK.iter().any(|choice| choice.name == **name) || CONNECT.iter().any(|choice| choice.name == **name)
        };
        let unknown: Vec<_> = lockwright_machines::uri::OPTIONS.iter().filter(|name| !known(name)).collect();
        assert_eq!(unknown, [&"keep"], "what is not built yet is an option of addresses alone");
    }
}
