use clap::Args;
use lockwright::finding::{Finding, Severity};
use lockwright::{Error, Result};
use serde::Serialize;

use crate::args::{Named, StoreArgs};
use crate::exit;
use crate::output;

/// Looks whether the store is fit to keep locks in, and says what to mend: whether it serves, its version, role,
/// eviction, persistence and clock, the place of a file, locks of other libraries.
#[derive(Debug, Args)]
#[command(
    after_help = "Looks through all that is kept there, for locks of other libraries: once in a while, not as a probe. Exits with 0 \
    when there is nothing to mend, 1 after a warning or a problem, else as ping does.\n\n\
    Example: lockwright doctor redis://localhost:6379"
)]
pub(crate) struct Doctor {
    #[command(flatten)]
    pub(crate) named: Named,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
}

impl Doctor {
    pub(crate) fn go(self, store: &StoreArgs) -> Result<u8> {
        let client = store.open()?;
        let served = client.ping();
        let mut findings = match (client.examine(), &served) {
            (Ok(findings), _) => findings,
            // Why it does not serve says more than why it says nothing of itself.
            (Err(_), Err(error)) => return Err(error.clone()),
            (Err(error), Ok(_)) => return Err(error),
        };
        let failed = served.as_ref().err().map(|error| exit::code_of(error.kind()));
        findings.insert(0, served.map_or_else(|error| refused(&error), |health| serves(health.took)));
        let worst = findings.iter().map(|finding| finding.severity).max().unwrap_or(Severity::Ok);
        if self.json {
            output::json(&DoctorJson::of(client.address(), worst, &findings));
        } else {
            output::line(&output::plain(client.address()));
            for finding in &findings {
                tell(finding);
            }
        }
        Ok(failed.unwrap_or(if worst >= Severity::Warning { exit::ERROR } else { exit::OK }))
    }
}

fn serves(took: std::time::Duration) -> Finding {
    Finding::ok("serves", format!("a lock was acquired and given back in {:.1} ms", took.as_secs_f64() * 1000.0))
}

fn refused(error: &Error) -> Finding {
    Finding::of(Severity::Problem, "serves", error.to_string(), "mend this first; the other findings may say why")
}

fn tell(Finding { check, severity, found, advice }: &Finding) {
    output::line(&format!("  {severity:<8} {check:<12} {}", output::plain(found)));
    if let Some(advice) = advice {
        output::line(&format!("  {:<8} {:<12} {advice}", "", "->"));
    }
}

/// What was found, for programs.
#[derive(Debug, Serialize)]
struct DoctorJson<'a> {
    store: &'a str,
    worst: &'static str,
    findings: Vec<FindingJson<'a>>,
}

#[derive(Debug, Serialize)]
struct FindingJson<'a> {
    check: &'static str,
    severity: &'static str,
    found: &'a str,
    advice: Option<&'static str>,
}

impl<'a> DoctorJson<'a> {
    fn of(store: &'a str, worst: Severity, findings: &'a [Finding]) -> Self {
        let of = |Finding { check, severity, found, advice }: &'a Finding| FindingJson {
            check,
            severity: severity.name(),
            found,
            advice: *advice,
        };
        DoctorJson { store, worst: worst.name(), findings: findings.iter().map(of).collect() }
    }
}
