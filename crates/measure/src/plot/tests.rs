//! Ticks and whole plots.

use super::*;

#[test]
fn ticks_are_round() {
    assert_eq!(linear((0.0, 9.7)).2, [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
    assert_eq!(
        linear((0.2, 0.31)).2,
        [0.0, 0.1, 0.2, 0.30000000000000004, 0.4]
    );
    assert_eq!(linear((-3.0, 12_000.0)).2.first(), Some(&-5000.0));
    assert_eq!(linear((0.0, 0.0)).1, 1.0);
    assert_eq!(logarithmic((0.3, 120.0)).2, [0.1, 1.0, 10.0, 100.0, 1000.0]);
    assert_eq!(logarithmic((10.0, 10.0)).2, [10.0, 100.0]);
    let labels = [0.30000000000000004, 0.0, 12_000.0, 1_500_000.0, -2e9].map(number);
    assert_eq!(labels, ["0.3", "0", "12k", "1.5M", "-2G"]);
}

fn axis(label: &str, scale: Scale) -> Axis {
    Axis {
        label: label.to_owned(),
        scale,
    }
}

#[test]
fn a_plot() {
    let series = |name: &str, points: &[(f64, f64)]| Series {
        name: name.to_owned(),
        points: points.to_vec(),
    };
    let plot = Plot {
        title: String::from("Puts & <gets>"),
        x: axis("connections", Scale::Logarithmic),
        y: axis("requests per second", Scale::Linear),
        series: vec![
            series(
                "get",
                &[(1.0, 2_000.0), (8.0, 9_000.0), (64.0, 11_000.0), (0.0, 1.0)],
            ),
            series(
                "put",
                &[
                    (1.0, 900.0),
                    (8.0, 5_000.0),
                    (64.0, f64::NAN),
                    (100.0, 10_900.0),
                ],
            ),
        ],
    };
    expect_test::expect_file!["a_plot.svg"].assert_eq(&plot.svg());
}

#[test]
fn a_plot_of_nothing_is_a_frame() {
    let plot = Plot {
        title: String::new(),
        x: axis("", Scale::Linear),
        y: axis("", Scale::Logarithmic),
        series: vec![Series {
            name: String::from("n"),
            points: Vec::new(),
        }],
    };
    let svg = plot.svg();
    assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n") && !svg.contains("NaN"));
}
