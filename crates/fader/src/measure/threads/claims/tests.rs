//! Claims hold of figures as the paper describes them, and fall with each thing it describes.

use super::*;

const THREADS: [u32; 9] = [1, 2, 5, 10, 20, 50, 100, 150, 200];

/// Points whose seconds follow from curve and threads.
fn points(seconds: impl Fn(Curve, u32) -> f64) -> Vec<Point> {
    let all = Curve::all().flat_map(|curve| THREADS.map(|threads| (curve, threads)));
    let point = |(curve, threads)| Point {
        curve,
        threads,
        seconds: seconds(curve, threads),
        failed: 0,
    };
    all.map(point).collect()
}

/// As the paper has it: one item is slower, up to 100 threads; then the machine is the limit.
fn paper(curve: Curve, threads: u32) -> f64 {
    let one = if curve.is_put { 0.11 } else { 0.022 };
    let slow = if curve.items == 1 { 1.3 } else { 1.0 };
    let service = 10_000.0 * one * slow / f64::from(threads);
    let machine = 30.0 + f64::from(threads.saturating_sub(100)) * 0.1;
    // No two runs are alike.
    let chance = 1.0 + 0.01 * f64::from((threads + u32::from(curve.is_strong)) % 3);
    service.max(machine) * chance
}

fn verdicts(points: &[Point], is_put: bool) -> Vec<Option<bool>> {
    of(points, is_put).iter().map(|claim| claim.holds).collect()
}

#[test]
fn all_hold_of_the_papers_own_figures() {
    let points = points(paper);
    assert_eq!(verdicts(&points, true), [Some(true); 4]);
    assert_eq!(verdicts(&points, false), [Some(true); 3]);
}

#[test]
fn each_falls_with_what_it_is_about() {
    let dear =
        points(|curve, threads| paper(curve, threads) * if curve.is_strong { 1.3 } else { 1.0 });
    assert_eq!(verdicts(&dear, true)[0], Some(false));
    let spread = points(|curve, threads| {
        paper(
            Curve {
                items: 1000,
                ..curve
            },
            threads,
        )
    });
    assert_eq!(verdicts(&spread, true)[1], Some(false));
    let contended =
        points(|curve, threads| paper(curve, threads) * if curve.items == 1 { 1.5 } else { 1.0 });
    assert_eq!(verdicts(&contended, true)[2], Some(false));
    let scaling = points(|curve, threads| paper(curve, 1) / f64::from(threads));
    assert_eq!(verdicts(&scaling, true)[3], Some(false));
}

#[test]
fn an_unmeasured_claim_is_not_judged() {
    let few: Vec<Point> = points(paper)
        .into_iter()
        .filter(|it| it.threads < 100)
        .collect();
    assert_eq!(verdicts(&few, true), [Some(true), Some(true), None, None]);
}
