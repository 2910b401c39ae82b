//! A counter-example as a picture: a bar for each operation, from its call to its return.

use std::fmt::Write;

use fader_history::{Action, Moment, Operation};

use super::{COLOURS, GRID, document, line, text};

const ROW: f64 = 26.0;
const TOP: f64 = 48.0;
const LEFT: f64 = 76.0;
/// Pixels between two times.
const STEP: f64 = 46.0;
/// Of a bar that does not end.
const OPEN: f64 = 30.0;
/// Of the words beside the bars.
const WORDS: f64 = 420.0;

/// Draws operations in the order of their calls. Times stand in their order and not to scale; a bar
/// without an end did not return.
pub fn timeline<A: Action>(title: &str, operations: &[&Operation<A>]) -> String {
    let mut sorted = operations.to_vec();
    sorted.sort_by_key(|operation| (operation.called, operation.returned()));
    let ends = sorted.iter().map(|operation| operation.returned());
    let mut times: Vec<Moment> = sorted.iter().map(|operation| operation.called).collect();
    times.extend(ends.filter(|end| *end != Moment::END));
    times.sort_unstable();
    times.dedup();
    let at = |time: Moment| LEFT + STEP * times.partition_point(|known| *known < time) as f64;
    let right = LEFT + STEP * times.len() as f64;
    let height = TOP + ROW * sorted.len() as f64 + 40.0;
    let mut svg = document(right + OPEN + WORDS, height, title);
    let bottom = TOP + ROW * sorted.len() as f64;
    for time in &times {
        line(&mut svg, GRID, (at(*time), TOP - 6.0), (at(*time), bottom));
        let turned = format!(
            "font-size=\"9\" transform=\"rotate(40 {:.1} {:.1})\"",
            at(*time),
            bottom + 10.0
        );
        text(
            &mut svg,
            at(*time),
            bottom + 10.0,
            &turned,
            &time.to_string(),
        );
    }
    for (row, operation) in sorted.iter().enumerate() {
        let top = TOP + ROW * row as f64;
        let from = at(operation.called);
        let (to, outcome) = match &operation.end {
            Some((end, outcome)) => (at(*end), outcome.to_string()),
            None => (right + OPEN, "no answer".to_owned()),
        };
        writeln!(
            svg,
            "<rect x=\"{from:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"16\" fill=\"{}\" \
             fill-opacity=\"0.6\"/>",
            (to - from).max(2.0),
            COLOURS[operation.process as usize % COLOURS.len()]
        )
        .expect("a string takes any text");
        let client = format!("c{}", operation.process);
        text(&mut svg, 12.0, top + 12.0, "", &client);
        let words = format!("{} => {outcome}", operation.action);
        text(&mut svg, right + OPEN + 10.0, top + 12.0, "", &words);
    }
    svg.push_str("</svg>\n");
    svg
}
