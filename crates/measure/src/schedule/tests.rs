//! Intended starts and orders of rounds.

use super::*;

fn schedule(rate: Rate, arrivals: Arrivals, seed: u64) -> Schedule {
    Schedule::new(Starts::Rate {
        rate,
        arrivals,
        seed,
    })
}

fn poisson(seed: u64) -> Schedule {
    schedule(Rate::Constant(1000.0), Arrivals::Poisson, seed)
}

/// Arrivals in each second.
fn by_second(rate: Rate, arrivals: Arrivals, seconds: u64) -> Vec<usize> {
    let end = seconds * 1_000_000_000;
    let times: Vec<u64> = schedule(rate, arrivals, 3)
        .take_while(|time| *time < end)
        .collect();
    assert!(times.is_sorted());
    let of = |second| {
        let is_in = |time: &&u64| **time / 1_000_000_000 == second;
        times.iter().filter(is_in).count()
    };
    (0..seconds).map(of).collect()
}

#[test]
fn constant_arrivals_do_not_drift() {
    let mut schedule = schedule(Rate::Constant(3000.0), Arrivals::Constant, 1);
    let first: Vec<u64> = schedule.by_ref().take(4).collect();
    assert_eq!(first, [0, 333_333, 666_666, 1_000_000]);
    // Number 3,000,000 of 3,000 a second is due after 1,000 seconds, to the nanosecond.
    assert_eq!(schedule.nth(3_000_000 - 4), Some(1_000 * 1_000_000_000));
}

/// It shows ROUNDS-2.
#[test]
fn poisson_arrivals_have_the_rate_and_the_spread() {
    const COUNT: usize = 100_000;
    let times: Vec<u64> = poisson(7).take(COUNT).collect();
    assert!(times.is_sorted());
    let gaps: Vec<f64> = times
        .windows(2)
        .map(|pair| (pair[1] - pair[0]) as f64 / 1e6)
        .collect();
    let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
    let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
    // Both are 1 ms for exponential gaps; the seed is fixed, so this cannot fail by chance.
    assert!((mean - 1.0).abs() < 0.01, "{mean}");
    assert!((variance.sqrt() - 1.0).abs() < 0.02, "{variance}");
}

/// It shows ROUNDS-1.
#[test]
fn a_seed_is_a_schedule() {
    let start = |seed| poisson(seed).take(3).collect::<Vec<_>>();
    assert_eq!(start(7), start(7));
    assert_ne!(start(7), start(8));
    // Frozen: an old log's schedule can be made again.
    assert_eq!(start(7), [171_733, 355_643, 1_573_972]);
}

#[test]
fn a_rate_steps() {
    let rate = Rate::Step {
        from: 10.0,
        to: 100.0,
        at: Duration::from_secs(2),
    };
    assert_eq!(by_second(rate, Arrivals::Constant, 4), [10, 10, 100, 100]);
    let from_nothing = Rate::Step {
        from: 0.0,
        to: 5.0,
        at: Duration::from_secs(1),
    };
    assert_eq!(by_second(from_nothing, Arrivals::Constant, 3), [0, 5, 5]);
}

#[test]
fn a_rate_rises_and_falls_evenly() {
    let ramp = |from, to| Rate::Ramp {
        from,
        to,
        over: Duration::from_secs(4),
    };
    // The integral over second n of 100 t/4 is 12.5, 37.5, 62.5, 87.5; then 100 a second. The
    // first arrival is that of time 0.
    assert_eq!(
        by_second(ramp(0.0, 100.0), Arrivals::Constant, 5),
        [13, 37, 63, 87, 100]
    );
    assert_eq!(
        by_second(ramp(100.0, 20.0), Arrivals::Constant, 5),
        [90, 70, 50, 30, 20]
    );
    assert_eq!(
        by_second(ramp(7.0, 7.0), Arrivals::Constant, 5),
        [7, 7, 7, 7, 7]
    );
}

#[test]
fn a_rate_has_bursts() {
    let burst = |base| Rate::Burst {
        base,
        peak: 200.0,
        length: Duration::from_secs(1),
        period: Duration::from_secs(3),
    };
    assert_eq!(
        by_second(burst(10.0), Arrivals::Constant, 6),
        [200, 10, 10, 200, 10, 10]
    );
    assert_eq!(
        by_second(burst(0.0), Arrivals::Constant, 6),
        [200, 0, 0, 200, 0, 0]
    );
    let of_poisson = by_second(burst(0.0), Arrivals::Poisson, 6);
    assert_eq!((of_poisson[1], of_poisson[2], of_poisson[4]), (0, 0, 0));
    assert!((160..240).contains(&of_poisson[3]), "{of_poisson:?}");
}

#[test]
fn rates_without_arrivals_are_not_valid() {
    let (second, two) = (Duration::from_secs(1), Duration::from_secs(2));
    let burst = |base, peak, length, period| Rate::Burst {
        base,
        peak,
        length,
        period,
    };
    for rate in [
        Rate::Constant(0.0),
        Rate::Constant(f64::NAN),
        Rate::Constant(-1.0),
        Rate::Step {
            from: 1.0,
            to: 0.0,
            at: second,
        },
        Rate::Ramp {
            from: 1.0,
            to: f64::INFINITY,
            over: second,
        },
        burst(0.0, 0.0, second, two),
        burst(0.0, 1.0, Duration::ZERO, two),
        burst(1.0, 1.0, two, second),
    ] {
        assert!(!rate.is_valid(), "{rate:?}");
    }
    assert!(burst(0.0, 1.0, second, two).is_valid());
}

#[test]
fn a_recording_is_replayed_and_ends() {
    let schedule = Schedule::new(Starts::Replay(Arc::from([5, 5, 9])));
    assert_eq!(schedule.collect::<Vec<_>>(), [5, 5, 9]);
}

#[test]
fn every_round_has_every_side_once() {
    let rounds = rounds(3, 100, 1);
    let mut firsts = [0; 3];
    for round in &rounds {
        firsts[round[0]] += 1;
        let mut sorted = round.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, [0, 1, 2]);
    }
    assert_eq!(rounds.len(), 100);
    assert!(firsts.iter().all(|count| *count > 15), "{firsts:?}");
}
