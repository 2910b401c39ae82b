//! Figures of numbers that are known.

use std::collections::BTreeMap;

use super::super::Means;
use super::super::availability::Level;
use super::*;

/// Strong writes take more than four delays on average, four at the median; the rest two.
fn measured() -> Measured {
    let mut latency = Vec::new();
    for writes in WRITE_SHARES {
        for kind in Kind::ALL {
            let delays = if kind == Kind::StrongWrite { 4.0 } else { 2.0 };
            let mean = if kind == Kind::StrongWrite { 4.6 } else { 2.0 };
            latency.push(Point {
                delay_ms: 50,
                writes,
                kind,
                means_ms: vec![50.0 * mean; 3],
                medians_ms: vec![50.0 * delays; 3],
                percentiles_ms: [50.0, 60.0, 75.0].map(|part| part * delays),
                all_ms: Vec::new(),
            });
        }
    }
    let mixed = EVENTUAL_SHARES.map(|eventual| MixedPoint {
        eventual,
        few: Means {
            all_ms: vec![105.0 - 5.0 * eventual],
            reads_ms: vec![10.0 + 90.0 * eventual],
            writes_ms: vec![200.0 - 100.0 * eventual],
            percentiles_ms: [100.0, 200.0, 300.0],
            taken_ms: Vec::new(),
        },
        many: Means {
            all_ms: vec![150.0 - 55.0 * eventual],
            reads_ms: vec![100.0 - 10.0 * eventual],
            writes_ms: vec![210.0 - 110.0 * eventual],
            percentiles_ms: [110.0, 210.0, 310.0],
            taken_ms: Vec::new(),
        },
        writes_per_s: vec![1000.0 + 1000.0 * eventual],
        promises: Promises {
            reads: 100,
            strong_logs: 2,
            ..Promises::default()
        },
    });
    let level = Level {
        name: "strong write",
        before: 1.0,
        during: 0.625,
        after: 1.0,
        longest_gap_s: 2.25,
    };
    let promises = Promises {
        reads: 300,
        missed: 3,
        versions_most: 1,
        oldest_ms: 12.5,
        strong_logs: 9,
        ..Promises::default()
    };
    Measured {
        wiring: "chain".to_owned(),
        latency,
        promises: BTreeMap::from([(50, promises)]),
        mixed: mixed.into(),
        availability: vec![level],
        tally: Failures {
            asked: 5000,
            failed: BTreeMap::from([("EC write: no member can take it now".to_owned(), 3)]),
        },
    }
}

#[test]
fn the_text_says_what_was_measured_and_no_more() {
    let text = text(&measured());
    assert!(text.contains("Figure 2: mean latency in ms, one-way delay 50 ms, chain wiring"));
    assert!(!text.contains("Figure 1"), "it was not measured");
    let line = |begin: &str| text.lines().find(|line| line.starts_with(begin)).unwrap();
    let columns = |begin: &str| -> Vec<String> {
        line(begin).split_whitespace().map(str::to_owned).collect()
    };
    assert_eq!(
        columns("75 %"),
        ["75", "%", "100.0", "230.0", "100.0", "100.0"]
    );
    assert!(text.contains("EC writes 2.3 times faster than SC writes on average"));
    assert!(text.contains("SC write 4.00, EC write 2.00, EC read 2.00"));
    assert_eq!(
        columns("100 %"),
        [
            "100", "%", "100.0", "100.0", "100.0", "95.0", "90.0", "100.0", "2000"
        ]
    );
    assert!(line("strong write").ends_with("100.0 %    62.5 %   100.0 %                  2.25 s"));
    let percentiles = "25 %                   100.0 / 120.0 / 150.0     200.0 / 240.0 / 300.0";
    assert!(text.contains(percentiles), "{text}");
    let percentiles = "75 %                   100.0 / 200.0 / 300.0     110.0 / 210.0 / 310.0";
    assert!(text.contains(percentiles), "{text}");
    assert!(text.contains("write: 3 of 300, by at most 1 versions and 12.5 ms\nholds "));
    assert!(
        text.contains("write: 0 of 500\nholds          SC operations have one order in all of 10")
    );
    assert!(text.contains("Of 5000 operations not carried out"));
    assert_eq!(
        line("       3").trim(),
        "3 EC write: no member can take it now"
    );
}

#[test]
fn figures_are_written_for_what_was_measured() {
    let folder = tempfile::tempdir().unwrap();
    write(&measured(), folder.path()).unwrap();
    let mut names: Vec<String> = std::fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    let figures = ["figure-2.svg", "figure-4.svg", "figure-5.svg"];
    assert_eq!(names, [&["consistency.json"], &figures[..]].concat());
    let json = std::fs::read(folder.path().join("consistency.json")).unwrap();
    let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
    assert_eq!(json["latency"][1]["kind"], "strong-write");
    assert_eq!(json["latency"][1]["medians_ms"][0], 200.0);
    assert_eq!(json["promises"]["50"]["missed"], 3);
}

#[test]
fn strong_operations_without_an_order_are_a_failure() {
    let mut measured = measured();
    assert!(!measured.is_broken());
    measured.mixed[1].promises.violations.push("x".to_owned());
    assert!(measured.is_broken());
}
