//! Ticks and whole plots.

use super::*;

#[test]
fn ticks_are_round() {
    assert_eq!(linear(0.0, 9.7).2, [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
    assert_eq!(
        linear(0.2, 0.31).2,
        [0.0, 0.1, 0.2, 0.30000000000000004, 0.4]
    );
    assert_eq!(linear(-3.0, 12_000.0).2.first(), Some(&-5000.0));
    assert_eq!(linear(0.0, 0.0).1, 1.0);
    assert_eq!(logarithmic(0.3, 120.0).2, [0.1, 1.0, 10.0, 100.0, 1000.0]);
    assert_eq!(logarithmic(10.0, 10.0).2, [10.0, 100.0]);
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

#[test]
fn boxes_have_whiskers_by_either_rule() {
    let mut values: Vec<f64> = (1..=99).map(f64::from).collect();
    values.push(400.0);
    let quartiles = crate::statistics::Quartiles::of(&values).unwrap();
    let boxes = |whiskers| Boxes {
        title: String::from("Latency"),
        x: String::from("run"),
        y: String::from("ms"),
        boxes: vec![
            (String::from("1"), quartiles),
            (String::from("2"), quartiles),
        ],
        whiskers,
    };
    let [observed, formula] = [Whiskers::Observed, Whiskers::Formula].map(|rule| boxes(rule).svg());
    for svg in [&observed, &formula] {
        assert_eq!(svg.matches("fill-opacity").count(), 2);
        assert!(svg.ends_with("</svg>\n") && svg.contains(">run</text>"));
    }
    assert_ne!(observed, formula);
}

#[test]
fn bands_are_areas_around_their_lines() {
    let plot = Plot {
        title: String::from("Share"),
        x: axis("ms", Scale::Linear),
        y: axis("share", Scale::Linear),
        series: vec![Series {
            name: String::from("eventual"),
            points: vec![(0.0, 0.5), (10.0, 1.0)],
        }],
    };
    let svg = plot.svg_with(&[vec![
        (0.0, 0.25, 0.75),
        (5.0, f64::NAN, 1.0),
        (10.0, 0.5, 1.0),
    ]]);
    let (_, points) = svg.split_once("<polygon").unwrap();
    let (_, points) = points.split_once("points=\"").unwrap();
    // There along the upper ends, and back along the lower ones.
    assert_eq!(points.split_once('"').unwrap().0.split(' ').count(), 4);
}

#[test]
fn a_timeline_has_a_bar_for_each_operation() {
    use fader_history::Moment;
    use fader_history::object::{Operation, Outcome, Reply, Request, Verb};
    let operation = |process, called, returned: Option<u64>| Operation {
        process,
        session: None,
        endpoint: "model".into(),
        name: None,
        attempt: 1,
        level: "strong".into(),
        intended: Moment::at(called),
        called: Moment::at(called),
        action: Request {
            key: "x".into(),
            verb: Verb::Write(7.into()),
        },
        end: returned.map(|at| (Moment::at(at), Outcome::Done(Reply::default()))),
        price: None,
    };
    let (one, open) = (operation(3, 10, Some(20)), operation(4, 15, None));
    let svg = timeline("lost <write>", &[&open, &one]);
    assert_eq!(svg.matches("fill-opacity").count(), 2);
    assert!(svg.contains("lost &lt;write>"));
    let (first, second) = (svg.find("c3").unwrap(), svg.find("c4").unwrap());
    assert!(first < second && svg.contains("write x 7 => no answer"));
}
