//! A counter-example as a picture of text: one line per operation, one column per time.

use std::fmt::Write;

use crate::{Action, Moment, Operation};

/// Columns between two times, so that bars of different operations can be told apart.
const STRIDE: usize = 3;

/// Draws operations in the order of their calls. Columns stand for the distinct times of calls and
/// returns, in order and not to scale. `|` is a call or a return, `>` means that it did not return.
///
/// ```text
/// c0  |--|          write 1 => done        0.100ms to 0.200ms
/// c1        |--|    read => none           0.300ms to 0.400ms
/// ```
pub fn timeline<A: Action>(operations: &[&Operation<A>]) -> String {
    let mut sorted = operations.to_vec();
    sorted.sort_by_key(|operation| (operation.called, operation.returned()));
    let is_open = |operation: &Operation<A>| operation.end.is_none();
    let mut times: Vec<Moment> = sorted.iter().map(|operation| operation.called).collect();
    let ended = sorted.iter().filter(|operation| !is_open(operation));
    times.extend(ended.map(|operation| operation.returned()));
    times.sort_unstable();
    times.dedup();
    let column = |at: Moment| STRIDE * times.partition_point(|time| *time < at);
    let is_any_open = sorted.iter().any(|operation| is_open(operation));
    let width = STRIDE * (times.len() - usize::from(!is_any_open && !times.is_empty()));
    let clients: Vec<String> = sorted
        .iter()
        .map(|operation| format!("c{}", operation.process))
        .collect();
    let words: Vec<String> = sorted
        .iter()
        .map(|operation| match &operation.end {
            None => format!("{} => no answer", operation.action),
            Some((_, outcome)) => format!("{} => {outcome}", operation.action),
        })
        .collect();
    let longest = |texts: &[String]| {
        texts
            .iter()
            .map(|text| text.chars().count())
            .max()
            .unwrap_or(0)
    };
    let (of_client, of_words) = (longest(&clients), longest(&words));
    let mut drawing = String::new();
    for ((operation, client), words) in sorted.iter().zip(&clients).zip(&words) {
        let mut bar = vec![' '; width + 1];
        let from = column(operation.called);
        let to = match is_open(operation) {
            true => width,
            false => column(operation.returned()),
        };
        bar[from..=to].fill('-');
        bar[to] = if is_open(operation) { '>' } else { '|' };
        bar[from] = '|';
        let bar: String = bar.into_iter().collect();
        let (called, returned) = (operation.called, operation.returned());
        let _ = writeln!(
            drawing,
            "{client:<of_client$}  {bar}  {words:<of_words$}  {called} to {returned}"
        );
    }
    drawing
}
