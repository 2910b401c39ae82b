//! Which runs the table has.

use super::*;

fn runs(count: usize) -> Vec<Quartiles> {
    let of = |run: usize| Quartiles::of(&[run as f64, run as f64 + 2.0]);
    (1..=count).filter_map(of).collect()
}

#[test]
fn the_papers_runs_stand_beside_the_papers_numbers() {
    let (day, night) = (runs(24), runs(22));
    let text = table([&day, &day, &night, &night]);
    assert_eq!(
        text.lines()
            .filter(|line| line.contains("the paper"))
            .count(),
        12
    );
    let ours: Vec<&str> = text
        .lines()
        .filter(|line| line.starts_with("strong reads"))
        .collect();
    let numbers = ours.iter().map(|line| line.split_whitespace().nth(2));
    assert_eq!(
        numbers.collect::<Vec<_>>(),
        [Some("7"), Some("11"), Some("16")]
    );
    assert!(text.contains("206.50"), "{text}");
    // Values of run 7 are 7 and 9.
    assert!(
        ours[0].ends_with("7.00      7.00      9.00      2.00      8.00      1.41"),
        "{text}"
    );
}

#[test]
fn few_runs_are_all_there() {
    assert_eq!(selected(&TABLE_3[0].1, 1), [1]);
    assert_eq!(selected(&TABLE_3[0].1, 2), [1, 2]);
    assert_eq!(selected(&TABLE_3[0].1, 5), [1, 3, 5]);
    let two = runs(2);
    let text = table([&two, &two, &two, &two]);
    assert_eq!(
        text.lines()
            .filter(|line| line.starts_with("writes, strong"))
            .count(),
        2
    );
}
