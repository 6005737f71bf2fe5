//! Whether a PostgreSQL is fit to keep locks in.

use crate::finding::said::Said;
use crate::finding::{Finding, Severity};
use crate::protocol::Call;
use crate::stores::sql::examination::{self as sql, Examination};

/// The oldest PostgreSQL that has what the statements need.
const OLDEST: (u32, u32, u32) = (10, 0, 0);

static EXAMINE: Call = Call { name: "examine", body: &[include_str!("examine.sql")], batch: false };

/// See the [module](self). The driver adds to what the database says whether the connection is `direct`.
pub static EXAMINATION: Examination = Examination { call: &EXAMINE, judge };

fn judge(said: Said<'_>) -> Vec<Option<Finding>> {
    let is = |what: &str| said.of(what) == Some("true");
    let mut found = vec![
        Some(sql::version("PostgreSQL", said.of("version").unwrap_or_default(), OLDEST)),
        Some(replication(said)),
        said.of("isolation").map(sql::isolation),
        Some(pooler(is("direct"))),
        Some(persistence(said)),
    ];
    if said.of("table").is_none() {
        found.push(Some(sql::no_table("lockwright_locks")));
        return found;
    }
    found.extend([
        (said.number("unique") == 0).then(|| sql::no_index("lockwright_locks")),
        Some(collation(said.of("collation").unwrap_or_default(), is("folds"))),
        Some(sql::rights(said.of("denied").map(|what| format!("this user may not {what} in lockwright_locks")))),
    ]);
    found
}

fn replication(said: Said<'_>) -> Finding {
    if said.of("replica") == Some("true") {
        return sql::only_reads("a replica: it takes no writes, so no locks");
    }
    if said.of("read_only") == Some("on") {
        return sql::only_reads("transactions of this user only read (default_transaction_read_only)");
    }
    match (said.number("replicas"), said.of("standbys")) {
        (0, _) => Finding::ok("replication", "a primary that nobody copies at present"),
        (count, Some(names)) => {
            Finding::ok("replication", format!("a primary with {count} replicas, of which commits wait for {names}"))
        }
        (count, None) => Finding::of(
            Severity::Note,
            "replication",
            format!("a primary with {count} replicas, for none of which commits wait"),
            "one that is promoted may forget the youngest locks and grant them twice: have commits wait for one \
             (synchronous_standby_names), or fence what must not be done twice",
        ),
    }
}

fn pooler(is_direct: bool) -> Finding {
    if is_direct {
        return Finding::ok("pooler", "the server itself is at the other end of the connection");
    }
    let advice = "in transaction mode nothing is told to waiters, who ask again by a timer: give the server's own address \
                  where that is too slow";
    Finding::of(Severity::Note, "pooler", "a pooler, or another proxy, is in between", advice)
}

fn persistence(said: Said<'_>) -> Finding {
    let forgets = match (said.of("fsync"), said.of("synchronous_commit"), said.of("unlogged")) {
        (Some("off"), ..) => Some("fsync is off"),
        (_, _, Some("true")) => Some("the table is unlogged"),
        (_, Some("off"), _) => Some("synchronous_commit is off"),
        _ => None,
    };
    sql::persistence(forgets)
}

fn collation(name: &str, folds: bool) -> Finding {
    let advice = "drop the table and make it with `lockwright schema ADDRESS --apply`";
    match name {
        "C" => Finding::ok("collation", "names are compared byte by byte"),
        _ if folds => {
            let found = format!("by {name} names that differ are one, and one lock");
            Finding::of(Severity::Problem, "collation", found, advice)
        }
        _ => {
            let found = format!("names are in the order of {name}, so that lists of them have gaps");
            Finding::of(Severity::Warning, "collation", found, advice)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stores::sql::examination::tests::told;

    const GOOD: &str = "now:5500000\nversion:15.18 (Debian)\nreplica:false\nread_only:off\nisolation:read committed\n\
                        fsync:on\nsynchronous_commit:on\nreplicas:0\ntable:lockwright_locks\nunlogged:false\nunique:1\n\
                        collation:C\nfolds:false\ndirect:true";

    #[test]
    fn what_is_wrong_is_told_of_what_the_database_says() {
        let of = |worse: &[&str]| told(&EXAMINATION, GOOD, worse);
        assert_eq!(of(&[]), []);
        for (worse, check, severity) in [
            ("version:9.6.24", "version", Severity::Warning),
            ("replica:true", "replication", Severity::Problem),
            ("read_only:on", "replication", Severity::Problem),
            ("replicas:2", "replication", Severity::Note),
            ("isolation:serializable", "isolation", Severity::Note),
            ("direct:false", "pooler", Severity::Note),
            ("fsync:off", "persistence", Severity::Note),
            ("synchronous_commit:off", "persistence", Severity::Note),
            ("unlogged:true", "persistence", Severity::Note),
            ("unique:0", "index", Severity::Problem),
            ("collation:de_DE", "collation", Severity::Warning),
            ("denied:DELETE", "rights", Severity::Problem),
        ] {
            assert_eq!(of(&[worse]), [(check, severity)], "{worse}");
        }
        assert_eq!(of(&["replicas:2", "standbys:*"]), []);
        assert_eq!(of(&["collation:folding", "folds:true"]), [("collation", Severity::Problem)]);
        let nothing = GOOD.replace("table:lockwright_locks\n", "");
        assert_eq!(told(&EXAMINATION, &nothing, &[]), [("table", Severity::Problem)]);
    }
}
