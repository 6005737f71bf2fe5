//! One picture a row: a bar for each contender, from zero, with a line from its least to its greatest round. Plain SVG
//! that follows the reader's light or dark page.

use crate::page::ranked;
use crate::report::{Better, Column, Measured, Report, Role};
use crate::stats::Spread;

const LEFT: f64 = 230.0;
const WIDTH: f64 = 420.0;
const RIGHT: f64 = 90.0;
const TOP: f64 = 34.0;
const STEP: f64 = 22.0;
const BAR: f64 = 14.0;

const STYLE: &str = "text{font:12px system-ui,sans-serif;fill:#333}.title{font-weight:600}.ours{fill:#2a7de1}\
    .peer{fill:#9aa3ad}.yardstick,.bare{fill:#5b6570}.range{stroke:#333;stroke-width:1.2}\
    @media(prefers-color-scheme:dark){text{fill:#ddd}.range{stroke:#ddd}}";

/// The picture; `None` for a row that has none.
pub(crate) fn draw(report: &Report) -> Option<String> {
    let (column, better) = report.picture()?;
    let bars: Vec<(&Measured, Spread)> =
        ranked(report).into_iter().filter_map(|result| Some((result, result.figure(&column.key)?))).collect();
    let most = bars.iter().map(|(_, spread)| spread.max).fold(0.0, f64::max);
    let scale = if most > 0.0 { WIDTH / most } else { 0.0 };
    let (width, height) = (LEFT + WIDTH + RIGHT, TOP + STEP * bars.len() as f64 + 4.0);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
         role=\"img\">\n<style>{STYLE}</style>\n<text class=\"title\" x=\"8\" y=\"18\">{}</text>\n",
        escaped(&title(report, column, better)),
    );
    for (place, (result, spread)) in bars.iter().enumerate() {
        svg += &bar(result, *spread, scale, TOP + STEP * place as f64, column.decimals);
    }
    Some(svg + "</svg>\n")
}

fn title(report: &Report, column: &Column, better: Better) -> String {
    let better = if better == Better::Less { "shorter" } else { "longer" };
    format!("{}: {}: {} ({better} is better)", report.row, report.title, column.heading)
}

fn bar(result: &Measured, spread: Spread, scale: f64, y: f64, digits: usize) -> String {
    let Spread { min, median, max } = spread;
    // Less than the bare runtime takes is nothing, not a bar to the left.
    let x = |value: f64| LEFT + value.max(0.0) * scale;
    let (middle, base) = (y + BAR / 2.0, y + BAR - 3.0);
    format!(
        "<text x=\"{:.1}\" y=\"{base:.1}\" text-anchor=\"end\">{}</text>\
         <rect class=\"{}\" x=\"{LEFT}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{BAR}\" rx=\"2\"/>\
         <path class=\"range\" d=\"M{:.1} {middle:.1}H{:.1}\"/>\
         <text x=\"{:.1}\" y=\"{base:.1}\">{median:.digits$}</text>\n",
        LEFT - 8.0,
        escaped(&result.name),
        class(result.role),
        x(median) - LEFT,
        x(min),
        x(max),
        x(max) + 6.0,
    )
}

fn class(role: Role) -> &'static str {
    match role {
        Role::Ours => "ours",
        Role::Peer => "peer",
        Role::Yardstick => "yardstick",
        Role::Bare => "bare",
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn a_bar_is_as_long_as_its_median_and_names_are_text() {
        let result = Measured {
            name: "a<b & c".into(),
            role: Role::Ours,
            versions: BTreeMap::new(),
            rounds: Vec::new(),
            absent: None,
        };
        let svg = bar(&result, Spread { min: 1.0, median: 2.0, max: 4.0 }, 100.0, 0.0, 1);
        assert!(svg.contains("width=\"200.0\""), "{svg}");
        assert!(svg.contains("d=\"M330.0 7.0H630.0\""), "{svg}");
        assert!(svg.contains(">a&lt;b &amp; c</text>"), "{svg}");
        assert!(svg.contains(">2.0</text>"), "{svg}");
    }
}
