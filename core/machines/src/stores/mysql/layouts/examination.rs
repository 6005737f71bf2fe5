//! Whether a MySQL or MariaDB is fit to keep locks in.

use crate::finding::said::Said;
use crate::finding::{Finding, Severity};
use crate::protocol::Call;
use crate::stores::sql::examination::{self as sql, Examination};

/// The oldest of each that has what the statements need.
const OLDEST: [(&str, (u32, u32, u32)); 2] = [("MariaDB", (10, 2, 0)), ("MySQL", (5, 7, 0))];
const TABLES: [(&str, &str); 2] = [("lockwright_locks", "name"), ("lockwright_told", "inbox,id")];

/// What is said to users without the right.
const DENIED: [&str; 3] = ["1044", "1142", "1143"];

static EXAMINE: Call = Call { name: "examine", body: &[include_str!("examine.sql")], batch: false };

/// See the [module](self). The driver adds to what the database says what it `refused`.
pub static EXAMINATION: Examination = Examination { call: &EXAMINE, judge };

fn judge(said: Said<'_>) -> Vec<Option<Finding>> {
    let version = said.of("version").unwrap_or_default();
    let (name, oldest) = OLDEST[usize::from(!version.contains("MariaDB"))];
    let isolation = said.of("transaction_isolation").or_else(|| said.of("tx_isolation"));
    let mut found = vec![
        Some(sql::version(name, version, oldest)),
        Some(replication(said)),
        isolation.map(sql::isolation),
        binlog(said),
        Some(persistence(said)),
    ];
    let missing: Vec<_> = TABLES.iter().filter(|(table, _)| said.of(&format!("{table}.engine")).is_none()).collect();
    found.extend(missing.iter().map(|(table, _)| Some(sql::no_table(table))));
    if missing.is_empty() {
        found.extend(
            TABLES.map(|(table, key)| (said.of(&format!("{table}.key")) != Some(key)).then(|| sql::no_index(table))),
        );
        found.extend([Some(engine(said)), Some(collation(said.of("name").unwrap_or_default()))]);
        found.push(Some(use_of(said.of("refused"))));
    }
    found
}

/// Whether this user may do what a program does, which was explained up to what was `refused`.
fn use_of(refused: Option<&str>) -> Finding {
    let Some((code, message)) = refused.and_then(|refused| refused.split_once(' ')) else { return sql::rights(None) };
    if DENIED.contains(&code) {
        return sql::rights(Some(message.to_owned()));
    }
    let advice = "see what `lockwright schema ADDRESS` prints: another version, or another program, made the tables";
    Finding::of(Severity::Problem, "table", message, advice)
}

fn is_on(said: Said<'_>, what: &str) -> bool {
    said.of(what).is_some_and(|value| value.eq_ignore_ascii_case("on") || value == "1")
}

fn replication(said: Said<'_>) -> Finding {
    if let Some(set) = ["read_only", "innodb_read_only"].into_iter().find(|set| is_on(said, set)) {
        return sql::only_reads(format!(
            "{set} is on: a replica, which takes no locks but of users who may write all the same"
        ));
    }
    if is_on(said, "wsrep_on") {
        let found = "a node of a Galera cluster, each of which may read what it has not heard of yet";
        let advice = "have all clients of a lock use the same node";
        return Finding::of(Severity::Note, "replication", found, advice);
    }
    Finding::ok("replication", "it takes writes")
}

fn binlog(said: Said<'_>) -> Option<Finding> {
    let is_refused = is_on(said, "log_bin") && said.of("binlog_format") == Some("STATEMENT");
    let found = "binlog_format is STATEMENT, with which it refuses what is written under READ COMMITTED";
    is_refused.then(|| Finding::of(Severity::Problem, "binlog", found, "set binlog_format to ROW or MIXED"))
}

fn persistence(said: Said<'_>) -> Finding {
    let is_other = |set: &str| said.of(set).is_some_and(|value| value != "1");
    let forgets = match (is_other("innodb_flush_log_at_trx_commit"), is_on(said, "log_bin") && is_other("sync_binlog"))
    {
        (true, _) => Some("innodb_flush_log_at_trx_commit is not 1"),
        (_, true) => Some("sync_binlog is not 1"),
        _ => None,
    };
    sql::persistence(forgets)
}

fn engine(said: Said<'_>) -> Finding {
    let engines = TABLES.map(|(table, _)| (table, said.of(&format!("{table}.engine")).unwrap_or_default()));
    match engines.into_iter().find(|(_, engine)| *engine != "InnoDB") {
        None => Finding::ok("engine", "InnoDB"),
        Some((table, engine)) => {
            let found = format!("{table} is kept by {engine}, which keeps nothing together");
            Finding::of(Severity::Problem, "engine", found, "ALTER TABLE ... ENGINE = InnoDB")
        }
    }
}

fn collation(name: &str) -> Finding {
    if name == "varbinary" {
        return Finding::ok("collation", "names are compared byte by byte");
    }
    let found = format!("names are text of {name}, by which some that differ are one");
    let advice = "drop the table and make it with `lockwright schema ADDRESS --apply`";
    Finding::of(Severity::Problem, "collation", found, advice)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stores::sql::examination::tests::told;

    const GOOD: &str = "now:5500000\nversion:10.11.19-MariaDB-0+deb12u1\nread_only:OFF\ntx_isolation:READ-COMMITTED\n\
                        log_bin:ON\nbinlog_format:MIXED\nwsrep_on:OFF\ninnodb_flush_log_at_trx_commit:1\nsync_binlog:1\n\
                        lockwright_locks.engine:InnoDB\nlockwright_told.engine:InnoDB\nname:varbinary\n\
                        lockwright_locks.key:name\nlockwright_told.key:inbox,id";

    #[test]
    fn what_is_wrong_is_told_of_what_the_database_says() {
        let of = |worse: &[&str]| told(&EXAMINATION, GOOD, worse);
        assert_eq!(of(&[]), []);
        for (worse, check, severity) in [
            ("version:10.1.48-MariaDB", "version", Severity::Warning),
            ("version:5.6.51", "version", Severity::Warning),
            ("read_only:ON", "replication", Severity::Problem),
            ("innodb_read_only:1", "replication", Severity::Problem),
            ("wsrep_on:ON", "replication", Severity::Note),
            ("transaction_isolation:REPEATABLE-READ", "isolation", Severity::Note),
            ("binlog_format:STATEMENT", "binlog", Severity::Problem),
            ("innodb_flush_log_at_trx_commit:2", "persistence", Severity::Note),
            ("sync_binlog:0", "persistence", Severity::Note),
            ("lockwright_told.key:id", "index", Severity::Problem),
            ("lockwright_locks.engine:MyISAM", "engine", Severity::Problem),
            ("name:utf8mb4_general_ci", "collation", Severity::Problem),
            ("refused:1142 DELETE command denied", "rights", Severity::Problem),
            ("refused:1054 Unknown column 'record'", "table", Severity::Problem),
        ] {
            assert_eq!(of(&[worse]), [(check, severity)], "{worse}");
        }
        assert_eq!(of(&["version:8.0.40"]), []);
        assert_eq!(of(&["log_bin:OFF", "binlog_format:STATEMENT", "sync_binlog:0"]), []);
        let nothing = GOOD.replace("lockwright_told.engine:InnoDB\n", "");
        assert_eq!(told(&EXAMINATION, &nothing, &["refused:1146 no such table"]), [("table", Severity::Problem)]);
    }
}
