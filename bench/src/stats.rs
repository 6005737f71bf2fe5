//! Medians and the like.

use std::time::Duration;

/// The `p`th percentile (0 to 100) of unsorted samples; zero when there are none.
pub(crate) fn percentile(samples: &mut [Duration], p: usize) -> Duration {
    samples.sort_unstable();
    match samples.len() {
        0 => Duration::ZERO,
        n => samples[((n - 1) * p).div_ceil(100)],
    }
}

pub(crate) fn micros(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}

/// `min/median/max` of a few numbers.
pub(crate) fn spread(mut values: Vec<f64>) -> String {
    values.sort_by(f64::total_cmp);
    match values.as_slice() {
        [] => "-".into(),
        all => format!("{:.3}/{:.3}/{:.3}", all[0], all[all.len() / 2], all[all.len() - 1]),
    }
}
