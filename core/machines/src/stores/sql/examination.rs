//! Whether a database is fit to keep locks in, by what it says of itself and of its tables.

use crate::finding::clock::Reading;
use crate::finding::said::{Said, numbers};
use crate::finding::{Finding, Severity};
use crate::protocol::{Call, Inquiry, Reply, Request};
use crate::replies::{nonsense, refusal};

/// The only isolation under which nothing is asked twice.
const ISOLATION: &str = "READ COMMITTED";

/// How a kind of database is examined.
#[derive(Debug)]
pub struct Examination {
    /// Has the database tell of itself; its answer is a text for [`Said`], where `now` is the database's clock.
    pub call: &'static Call,
    /// What that says.
    pub judge: fn(Said<'_>) -> Vec<Option<Finding>>,
}

impl Examination {
    /// Asks the database, whose clock is compared with `now`, the client's in microseconds since 1970.
    pub fn examine<'a>(&self, now: impl Fn() -> u64 + Send + 'a) -> Inquiry<'a, Vec<Finding>> {
        let (judge, before) = (self.judge, now());
        Inquiry::of(Request::new(self.call, "".into(), []), move |reply| match reply {
            Reply::Text(text) => {
                let clock = Reading { before, at: Said(text).number("now"), after: now() };
                Ok(judge(Said(text)).into_iter().flatten().chain([clock.finding()]).collect())
            }
            Reply::Error { code, message } => Err(refusal("examine", code, message)),
            other => Err(nonsense("examine", std::slice::from_ref(other))),
        })
    }
}

/// The version of a database that is called so, of which an older one than that has not what is needed.
pub(crate) fn version(name: &str, version: &str, oldest: (u32, u32, u32)) -> Finding {
    let found = format!("{name} {version}");
    if numbers(version) < oldest {
        return Finding::of(Severity::Warning, "version", found, "use a newer one: this one was never tried");
    }
    Finding::ok("version", found)
}

/// There is no such table.
pub(crate) fn no_table(table: &str) -> Finding {
    let advice = "make it with `lockwright schema ADDRESS --apply`, or correct the database's name in the address";
    Finding::of(Severity::Problem, "table", format!("there is no table {table}"), advice)
}

/// No index keeps two rows of one name out of this table.
pub(crate) fn no_index(table: &str) -> Finding {
    let advice = "drop the table and make it with `lockwright schema ADDRESS --apply`";
    Finding::of(Severity::Problem, "index", format!("no primary key of {table} is on the name alone"), advice)
}

/// A database that takes no writes.
pub(crate) fn only_reads(found: impl Into<String>) -> Finding {
    Finding::of(Severity::Problem, "replication", found, "give the address of the primary")
}

/// The isolation of our statements, whose failures are asked again.
pub(crate) fn isolation(level: &str) -> Finding {
    let level = level.replace('-', " ").to_uppercase();
    if level == ISOLATION {
        return Finding::ok("isolation", level);
    }
    let found = format!("{level}: statements that meet at one row fail and are asked again");
    let advice = "have it be READ COMMITTED for this user; it is not set by us behind a pooler";
    Finding::of(Severity::Note, "isolation", found, advice)
}

/// What a crash takes along.
pub(crate) fn persistence(forgets: Option<&str>) -> Finding {
    let Some(what) = forgets else {
        return Finding::ok("persistence", "what was granted is on the disk");
    };
    let found = format!("{what}: after a crash locks may be granted once more that were granted last");
    let advice = "set it as it comes, or fence what must not be done twice";
    Finding::of(Severity::Note, "persistence", found, advice)
}

/// What this user may not do, of what a program does.
pub(crate) fn rights(denied: Option<String>) -> Finding {
    let Some(found) = denied else {
        return Finding::ok("rights", "this user may do what locks need");
    };
    Finding::of(Severity::Problem, "rights", found, "grant what `lockwright schema ADDRESS` says that a program needs")
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// What `examination` tells of such a text, with `worse` instead of what it says of the first names in there.
    pub(crate) fn told(examination: &Examination, good: &str, worse: &[&str]) -> Vec<(&'static str, Severity)> {
        let text = worse.iter().chain(&[good]).map(|line| format!("{line}\n")).collect::<String>();
        let found = examination.examine(|| 5_000_000).answered(&Reply::Text(text)).unwrap();
        found.iter().map(|one| (one.check, one.severity)).filter(|(_, severity)| *severity > Severity::Ok).collect()
    }

    #[test]
    fn the_clock_is_compared_and_what_no_database_says_is_an_error() {
        static CALL: Call = Call { name: "examine", body: &[], batch: false };
        let examination = Examination { call: &CALL, judge: |_| vec![None, Some(persistence(None))] };
        assert_eq!(told(&examination, "now:5500000", &[]), []);
        assert_eq!(told(&examination, "now:90000000", &[]), [("clock", Severity::Note)]);
        assert!(examination.examine(|| 0).answered(&Reply::Int(1)).is_err());
    }
}
