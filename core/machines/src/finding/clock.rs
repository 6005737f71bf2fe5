//! How far a store's clock is from this host's.

use std::time::Duration;

use super::{Finding, Severity};

/// Clocks that differ by no more are as good as the same: nothing is decided by the client's.
const CLOSE: Duration = Duration::from_secs(1);

/// A store's clock, and this host's before and after it was read: microseconds since 1970.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    /// This host's, before.
    pub before: u64,
    /// The store's.
    pub at: u64,
    /// This host's, after.
    pub after: u64,
}

impl Reading {
    /// By how much the store's is ahead of this host's, in microseconds, or behind where that is below zero; 0 where it
    /// may be the same, since it is not known when in between it was read.
    pub fn ahead(&self) -> i64 {
        let (ahead, behind) = (self.at.saturating_sub(self.after), self.before.saturating_sub(self.at));
        let signed = |micros| i64::try_from(micros).unwrap_or(i64::MAX);
        signed(ahead) - signed(behind)
    }

    /// What is to be told of it.
    pub fn finding(&self) -> Finding {
        let ahead = self.ahead();
        let by = Duration::from_micros(ahead.unsigned_abs());
        if by <= CLOSE {
            return Finding::ok("clock", "the server's and this host's agree to a second");
        }
        let side = if ahead > 0 { "ahead of" } else { "behind" };
        let found = format!("the server's is {:.1} s {side} this host's", by.as_secs_f64());
        let advice =
            "no lock depends on it, since only the server's clock counts; logs and the times that are shown do";
        Finding::of(Severity::Note, "clock", found, advice)
    }
}

/// How far the clocks of several servers are from one another, each of which is so many microseconds ahead of this
/// host's; none where there are not several.
pub fn apart(ahead: &[i64]) -> Option<Finding> {
    let (first, last) = (ahead.iter().min()?, ahead.iter().max()?);
    let by = Duration::from_micros(last.abs_diff(*first));
    match ahead.len() {
        0 | 1 => None,
        _ if by <= CLOSE => Some(Finding::ok("clocks", "those of the servers agree to a second")),
        _ => {
            let found = format!("those of the servers are up to {:.1} s apart", by.as_secs_f64());
            let advice =
                "have them keep the same time: a lock that another server takes over ends earlier or later by as much";
            Some(Finding::of(Severity::Note, "clocks", found, advice))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_apart_are_told_whatever_the_way_took() {
        let clock = |before, at, after| Reading { before, at, after }.finding();
        assert_eq!(clock(0, 60_000_000, 59_500_000).severity, Severity::Ok);
        let ahead = clock(0, 3_600_000_000, 100_000);
        assert!(ahead.severity == Severity::Note && ahead.found.contains("3599.9 s ahead of"), "{ahead:?}");
        let behind = clock(3_600_000_000, 0, 3_700_000_000);
        assert!(behind.found.contains("3600.0 s behind"), "{behind:?}");
        assert_eq!(clock(0, u64::MAX, 0).severity, Severity::Note);
    }

    #[test]
    fn clocks_of_several_servers_are_compared_with_one_another() {
        let of = |ahead: &[i64]| apart(ahead).map(|one| one.severity);
        assert_eq!([of(&[]), of(&[9_000_000])], [None, None]);
        assert_eq!(of(&[-400_000, 0, 500_000]), Some(Severity::Ok));
        assert_eq!(of(&[-600_000, 0, 500_000]), Some(Severity::Note));
        assert_eq!(of(&[i64::MIN, i64::MAX]), Some(Severity::Note));
    }
}
