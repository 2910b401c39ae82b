//! Drawn figures follow their distributions.

use super::*;
use crate::model::FaultRates;

const DRAWS: usize = 200_000;

fn quantiles(mut draw: impl FnMut() -> Duration) -> [f64; 4] {
    let mut drawn: Vec<f64> = (0..DRAWS).map(|_| draw().as_secs_f64() * 1e3).collect();
    drawn.sort_by(f64::total_cmp);
    [0.1, 0.5, 0.9, 0.999].map(|quantile| drawn[(quantile * DRAWS as f64) as usize])
}

fn near(found: f64, expected: f64) {
    let distance = (found - expected).abs();
    assert!(distance <= 0.05 * expected, "{found} is not {expected}");
}

fn latencies(latency: Latency, bytes: u64) -> [f64; 4] {
    let source = FaultSource::new(1, 1);
    let call = Call {
        latency,
        per_mib: Duration::from_millis(100),
        ..Call::default()
    };
    quantiles(|| {
        let (before, after) = source.latency(&call, bytes);
        before + after
    })
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

#[test]
fn latencies_follow_their_law_and_bytes_add_to_them() {
    let constant = latencies(Latency::Constant(ms(20)), 1 << 19);
    near(constant[0], 70.0);
    near(constant[3], 70.0);
    let log_normal = Latency::LogNormal {
        median: ms(100),
        sigma: 0.5,
    };
    let [low, median, high, _] = latencies(log_normal, 0);
    near(median, 100.0);
    near(high, 100.0 * (0.5f64 * 1.2816).exp());
    near(low, 100.0 * (-0.5f64 * 1.2816).exp());
    let table = Latency::Table(vec![(0.0, ms(10)), (0.5, ms(20)), (0.99, ms(118))]);
    let [low, median, high, highest] = latencies(table, 0);
    near(low, 12.0);
    near(median, 20.0);
    near(high, 100.0);
    near(highest, 118.0);
}

#[test]
fn ages_follow_their_law_and_never_exceed_its_greatest() {
    let ages = |staleness: &Staleness| {
        let source = FaultSource::new(1, 1);
        let ages = quantiles(|| {
            let age = source.age(staleness);
            assert!(age <= staleness.max());
            age
        });
        ages.map(|age| age / 1e3)
    };
    let second = ms(1_000);
    near(ages(&Staleness::Uniform(second * 10))[2], 9.0);
    let exponential = ages(&Staleness::Exponential(second));
    near(exponential[1], 0.693);
    near(exponential[2], 2.303);
    let two = Staleness::TwoPeaked {
        near: second,
        far: second * 100,
        far_share: 500,
    };
    let two = ages(&two);
    near(two[0], 0.198);
    near(two[2], 80.0);
}

#[test]
fn faults_are_as_frequent_as_they_are_told_to_be() {
    let source = FaultSource::new(1, 1);
    let call = Call {
        faults: FaultRates {
            unavailable: 100,
            conflict: 100,
            late: 100,
            ..FaultRates::default()
        },
        ..Call::default()
    };
    let count = |is_write, is_conditional, wanted| {
        let fates = (0..DRAWS).map(|_| source.fate(&call, is_write, is_conditional));
        fates.filter(|fate| *fate == wanted).count() as f64 / DRAWS as f64
    };
    near(count(true, true, Fate::Refused(503)), 0.1);
    near(count(true, true, Fate::Refused(409)), 0.09);
    near(count(true, true, Fate::Late), 0.081);
    assert_eq!(count(true, false, Fate::Refused(409)), 0.0);
    assert_eq!(count(false, false, Fate::Late), 0.0);
}
