//! Table III of Ampaporn and Gertphol: latencies by run, ours beside the paper's.

use std::fmt::Write;

use fader_measure::statistics::Quartiles;

/// Three runs by their numbers, with quartiles, interquartile range, mean and standard deviation.
type Runs = [(usize, [f64; 6]); 3];

/// The groups of the paper's table. Writes of the first day stood beside eventual reads.
const TABLE_3: [(&str, Runs); 4] = [
    (
        "writes, eventual",
        [
            (7, [48.0, 51.0, 53.3, 5.3, 69.21, 144.91]),
            (11, [50.0, 206.5, 407.8, 357.8, 343.40, 365.38]),
            (17, [126.5, 136.5, 150.2, 23.7, 207.50, 212.96]),
        ],
    ),
    (
        "eventual reads",
        [
            (7, [14.0, 16.0, 17.0, 3.0, 18.71, 24.13]),
            (11, [14.0, 16.0, 18.0, 4.0, 17.15, 10.05]),
            (17, [15.0, 16.0, 18.0, 3.0, 20.93, 34.28]),
        ],
    ),
    (
        "writes, strong",
        [
            (7, [49.0, 52.0, 56.0, 7.0, 77.82, 144.51]),
            (11, [50.0, 59.0, 271.0, 221.0, 255.4, 350.52]),
            (16, [141.8, 167.5, 188.0, 46.2, 211.20, 188.37]),
        ],
    ),
    (
        "strong reads",
        [
            (7, [13.0, 15.0, 17.0, 4.0, 15.8, 7.49]),
            (11, [17.0, 21.0, 26.0, 9.0, 26.48, 23.45]),
            (16, [14.0, 16.0, 18.0, 4.0, 17.76, 10.25]),
        ],
    ),
];

/// The table, of each group's runs in the paper's order. It has the runs that the paper selects,
/// or, where there are fewer, the first, the one in the middle and the last.
pub(super) fn table(groups: [&[Quartiles]; 4]) -> String {
    let mut text = format!(
        "\nTable III: latencies in ms by run\n{:<18}{:>4}",
        "", "run"
    );
    for name in ["Q1", "median", "Q3", "IQR", "mean", "SD"] {
        let _ = write!(text, "{name:>10}");
    }
    text.push('\n');
    for ((name, paper), ours) in TABLE_3.into_iter().zip(groups) {
        for run in selected(&paper, ours.len()) {
            let Some(one) = ours.get(run - 1) else {
                continue;
            };
            let values = [
                one.q1,
                one.median,
                one.q3,
                one.range(),
                one.mean,
                one.deviation,
            ];
            line(&mut text, name, run, &values);
        }
        for (run, values) in &paper {
            line(&mut text, "  the paper", *run, values);
        }
    }
    text
}

/// Which of so many runs, from 1, stand in the table.
fn selected(paper: &Runs, count: usize) -> Vec<usize> {
    let of_paper = paper.map(|(run, _)| run);
    let mut runs = match of_paper[2] <= count {
        true => of_paper.to_vec(),
        false => vec![1, count.div_ceil(2), count],
    };
    runs.dedup();
    runs
}

fn line(text: &mut String, name: &str, run: usize, values: &[f64; 6]) {
    let _ = write!(text, "{name:<18}{run:>4}");
    for value in values {
        let _ = write!(text, "{value:>10.2}");
    }
    text.push('\n');
}

#[cfg(test)]
mod tests;
