//! The arithmetic of the figures. Samples are kept, all of them, so every quantile is one that was measured.

/// The `q` quantile (0 to 1) of sorted samples by nearest rank: the smallest sample that at least this share of them
/// does not exceed. Zero when there are none.
pub(crate) fn quantile(sorted: &[u64], q: f64) -> u64 {
    let rank = (q.clamp(0.0, 1.0) * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.max(1) - 1).copied().unwrap_or_default()
}

/// The least, the median and the greatest of the rounds; the median of an even number of rounds is the mean of the
/// middle two.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    pub(crate) min: f64,
    pub(crate) median: f64,
    pub(crate) max: f64,
}

pub(crate) fn spread(values: impl IntoIterator<Item = f64>) -> Option<Spread> {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    let (&min, &max) = (values.first()?, values.last()?);
    let median = f64::midpoint(values[(values.len() - 1) / 2], values[values.len() / 2]);
    Some(Spread { min, median, max })
}

/// How many times as often the luckiest task was served as the unluckiest; a task that was never served counts as
/// served once.
pub(crate) fn fairness(served: &[u64]) -> f64 {
    let most = served.iter().max().copied().unwrap_or_default();
    let least = served.iter().min().copied().unwrap_or_default();
    most.max(1) as f64 / least.max(1) as f64
}

/// `part / whole`, and nothing where there is no whole.
pub(crate) fn ratio(part: f64, whole: f64) -> Option<f64> {
    (whole > 0.0).then(|| part / whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_samples_by_nearest_rank() {
        let samples: Vec<u64> = (1..=100).collect();
        assert_eq!([0.0, 0.5, 0.99, 1.0].map(|q| quantile(&samples, q)), [1, 50, 99, 100]);
        assert_eq!([0.5, 0.51, 0.99].map(|q| quantile(&[10, 20], q)), [10, 20, 20]);
        assert_eq!(quantile(&[7], 0.5), 7);
        assert_eq!(quantile(&[], 0.5), 0);
    }

    #[test]
    fn quantiles_outside_of_all_samples_are_the_ends() {
        assert_eq!([-1.0, 2.0].map(|q| quantile(&[3, 4, 5], q)), [3, 5]);
    }

    #[test]
    fn a_spread_is_min_median_max_whatever_the_order() {
        assert_eq!(spread([3.0, 1.0, 2.0]), Some(Spread { min: 1.0, median: 2.0, max: 3.0 }));
        assert_eq!(spread([4.0, 1.0, 2.0, 9.0]).map(|s| s.median), Some(3.0));
        assert_eq!(spread([5.0]), Some(Spread { min: 5.0, median: 5.0, max: 5.0 }));
        assert_eq!(spread([]), None);
    }

    #[test]
    fn fairness_is_most_over_least_and_a_starved_task_counts_as_one() {
        assert_eq!(fairness(&[10, 20, 15]), 2.0);
        assert_eq!(fairness(&[7, 7]), 1.0);
        assert_eq!(fairness(&[690, 0]), 690.0);
        assert_eq!(fairness(&[0, 0]), 1.0);
    }

    #[test]
    fn a_ratio_to_nothing_is_no_ratio() {
        assert_eq!(ratio(3.0, 2.0), Some(1.5));
        assert_eq!(ratio(3.0, 0.0), None);
    }
}
