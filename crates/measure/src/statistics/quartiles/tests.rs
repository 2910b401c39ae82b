//! Tables of observations whose numbers are known.

use super::*;

#[test]
fn whiskers_end_at_observations_or_by_formula() {
    let mut values: Vec<f64> = (1..=99).map(f64::from).collect();
    values.push(1000.0);
    let found = Quartiles::of(&values).unwrap();
    assert_eq!((found.min, found.max, found.count), (1.0, 1000.0, 100));
    assert_eq!((found.q1, found.median, found.q3), (25.0, 50.0, 75.0));
    assert_eq!(found.range(), 50.0);
    assert_eq!(found.formula(), (-50.0, 150.0));
    assert_eq!(found.observed, (1.0, 99.0));
    assert!((found.outliers - 0.01).abs() < 1e-12);
    assert!((found.mean - 59.5).abs() < 1e-12);
    assert_eq!(Quartiles::of(&[]), None);
}

/// Ampaporn and Gertphol print whiskers of its first table by formula, one of them without its
/// sign.
#[test]
fn the_papers_whisker_lost_its_sign() {
    let of_paper = Quartiles {
        q1: 50.0,
        q3: 103.0,
        ..Quartiles::of(&[1.0]).unwrap()
    };
    assert_eq!(of_paper.formula(), (-29.5, 182.5));
}
