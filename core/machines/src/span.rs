//! Spans of time as text.

use std::time::Duration;

/// A span as it is written in an option: `0`, `500ms`, `10s`, `24h`.
pub(crate) fn written(span: Duration) -> String {
    let (seconds, millis) = (span.as_secs(), span.as_millis());
    match () {
        () if span.is_zero() => "0".into(),
        () if span.subsec_nanos() == 0 && seconds.is_multiple_of(3600) => format!("{}h", seconds / 3600),
        () if span.subsec_nanos() == 0 => format!("{seconds}s"),
        () if span.subsec_nanos().is_multiple_of(1_000_000) => format!("{millis}ms"),
        () => format!("{span:?}"),
    }
}
