//! Services give what they promise, runs are what their seed says, and rules do what they are for.

use super::chance::Chance;
use super::service::{Arrival, Service, seconds};
use super::*;

fn scenario(name: &str) -> &'static Scenario {
    SCENARIOS
        .iter()
        .find(|scenario| scenario.name == name)
        .unwrap()
}

fn shape(kind: Kind) -> Shape {
    Shape {
        kind,
        ..SCENARIOS[0].shape
    }
}

/// A service that gets a request each millisecond: how many were not refused.
fn taken(kind: Kind, requests: u32) -> u32 {
    let mut service = Service::new(&shape(kind), 1);
    let mut done = Vec::new();
    let mut taken = 0;
    for job in 0..requests {
        let now = seconds(f64::from(job) / 1e3);
        service.advance(now, &mut done);
        taken += u32::from(service.arrive(now, job) != Arrival::Refused);
    }
    taken
}

#[test]
fn a_limited_rate_is_the_rate_and_one_burst() {
    let (rate, burst) = (250.0, 40.0);
    // 10 s less a step, and what was in the bucket.
    assert_eq!(taken(Kind::Rate { rate, burst }, 10_000), 2_539);
}

#[test]
fn slots_take_what_they_hold() {
    let mut service = Service::new(&shape(Kind::Slots { slots: 3, queue: 2 }), 1);
    let arrivals: Vec<Arrival> = (0..6).map(|job| service.arrive(0, job)).collect();
    assert_eq!(arrivals[..5], [Arrival::Held; 5]);
    assert_eq!(arrivals[5], Arrival::Refused);
    let mut done = Vec::new();
    while let Some(due) = service.due() {
        service.advance(due, &mut done);
    }
    done.sort_unstable();
    assert_eq!(done, [0, 1, 2, 3, 4]);
}

#[test]
fn shared_work_takes_as_long_as_all_of_it() {
    let mut service = Service::new(&shape(Kind::Sharing { slots: 1 }), 1);
    for job in 0..1_000 {
        assert_eq!(service.arrive(0, job), Arrival::Held);
    }
    let (mut done, mut end) = (Vec::new(), 0);
    while let Some(due) = service.due() {
        end = due;
        service.advance(due, &mut done);
    }
    assert_eq!(done.len(), 1_000);
    // 1,000 exponential spans of 20 ms: 20 s, give or take a tenth.
    assert!((seconds(18.0)..seconds(22.0)).contains(&end), "{end}");
}

#[test]
fn exponential_spans_have_their_mean() {
    let mut chance = Chance::new(1);
    let sum: f64 = (0..10_000).map(|_| chance.exponential(0.02)).sum();
    assert!((0.019..0.021).contains(&(sum / 10_000.0)));
}

#[test]
fn a_run_is_its_seed() {
    let puts = scenario("seed: puts, 75/s, 113 ms");
    for algorithm in ALGORITHMS {
        let one = measure(puts, algorithm, 2, 1);
        assert_eq!(one, measure(puts, algorithm, 2, 1), "{algorithm:?}");
        assert!(one.goodput <= 1.05, "{algorithm:?} exceeds the capacity");
        assert!((0.0..=1.0).contains(&one.rejected));
        assert!((0.5..=1.0).contains(&one.jain));
    }
}

/// The article's own claim, and the mean over which its threads are bound by latency.
#[test]
fn threads_get_what_their_latency_allows() {
    let gets = scenario("seed: gets, 1,300/s, 113 ms");
    let threads = measure(gets, Algorithm::Threads, 1, 1);
    let bound = 34.0 / 0.113 / 1_300.0;
    assert!((threads.goodput / bound - 1.0).abs() < 0.02);
    assert!(threads.rejected == 0.0);
}

/// A service that takes nothing for five seconds and says when to come again is asked less often
/// than one that does not say.
#[test]
fn ours_comes_again_when_it_was_told_to() {
    let refused = |name| measure(scenario(name), Algorithm::Ours, 1, 7).rejected;
    let told = refused("capacity 1,000, 0, 1,000/s, Retry-After 1 s");
    assert!(0.0 < told && told < refused("capacity 1,000, 0, 1,000/s"));
}

/// The median of ours over some seeds.
fn median(name: &str, clients: u32, figure: fn(&Measured) -> f64) -> f64 {
    median_of(Algorithm::Ours, scenario(name), clients, figure)
}

fn median_of(
    algorithm: Algorithm,
    scenario: &Scenario,
    clients: u32,
    figure: fn(&Measured) -> f64,
) -> f64 {
    let runs = (1..=11).map(|seed| figure(&measure(scenario, algorithm, clients, seed)));
    let mut runs: Vec<f64> = runs.collect();
    runs.sort_by(f64::total_cmp);
    runs[runs.len() / 2]
}

/// Capacity that was there before is found within a second after it returned, be it that some was
/// left meanwhile or none.
#[test]
fn ours_is_back_within_a_second() {
    for name in ["capacity 1,000, 300, 1,000/s", "capacity 1,000, 0, 1,000/s"] {
        for clients in [1, 4] {
            let found = median(name, clients, |it| it.recovery.unwrap_or(f64::INFINITY));
            assert!(found <= 1.0, "{name}, {clients} clients: {found} s");
        }
    }
}

/// A way that grew longer is not taken for a queue for long.
#[test]
fn ours_follows_a_longer_way() {
    let goodput = median("round trip 20, 100, 20 ms", 1, |it| it.goodput);
    assert!(0.94 <= goodput, "{goodput}");
}

/// Where a client has few requests in flight it is refused as seldom as where it has many.
#[test]
fn ours_is_seldom_refused_by_a_slow_service() {
    let puts = "seed: puts, 75/s, 113 ms";
    for name in [puts, "rate 10/s, burst 2"] {
        let refused = median(name, 1, |it| it.rejected);
        assert!(refused <= 0.01, "{name}: {refused} refused");
        let goodput = median(name, 1, |it| it.goodput);
        assert!(0.97 <= goodput, "{name}: {goodput}");
    }
    let refused = median(puts, 4, |it| it.rejected);
    assert!(refused <= 0.02, "{refused} refused");
    assert!(0.99 <= median(puts, 4, |it| it.goodput));
    let jain = median(puts, 4, |it| it.jain);
    assert!(0.96 <= jain, "{jain}");
}

/// Four clients of a service of five requests a second. Each one's share is less than the two
/// requests a second with which a client asks a service that takes nothing.
#[test]
fn ours_goes_below_two_requests_a_second() {
    let service = scenario("rate 10/s, burst 2");
    let slow = Scenario {
        shape: Shape {
            kind: Kind::Rate {
                rate: 5.0,
                burst: 5.0,
            },
            ..service.shape
        },
        measured: (200.0, 200.0),
        ..*service
    };
    let refused = median_of(Algorithm::Ours, &slow, 4, |it| it.rejected);
    assert!(refused <= 0.1, "{refused} refused");
}

/// Clients that know their share of a rate, but not each other, meet at random. A bucket that holds
/// fewer requests than there are clients refuses many of them.
#[test]
fn a_node_that_does_not_know_the_others_is_refused() {
    let service = scenario("rate 10/s, burst 2");
    let refused = |algorithm, clients| median_of(algorithm, service, clients, |it| it.rejected);
    assert!(refused(Algorithm::Oracle, 4) <= 0.001);
    assert!(refused(Algorithm::Uncoordinated, 1) <= 0.01);
    assert!(0.1 <= refused(Algorithm::Uncoordinated, 4));
}

#[test]
fn held_out_cells_are_not_tuned_on() {
    for held in HOLDOUT {
        let same = SCENARIOS
            .iter()
            .find(|it| it.name == held.name || it.shape.kind == held.shape.kind);
        assert!(same.is_none(), "{} is a row of the matrix", held.name);
        let one = measure(&held, Algorithm::Ours, 1, 1_001);
        assert!(
            0.5 < one.goodput && one.goodput <= 1.1,
            "{}: {one:?}",
            held.name
        );
    }
}

/// Every limit that matters, on few seeds: the matrix has the figures.
#[test]
fn ours_finds_capacities() {
    let ours = |name, clients| measure(scenario(name), Algorithm::Ours, clients, 7);
    let rate = ours("rate 1,000/s, burst 10", 1);
    assert!(0.95 <= rate.goodput && rate.rejected <= 0.02, "{rate:?}");
    let queue = ours("32 slots, queue 200", 1);
    assert!(
        0.93 <= queue.goodput && queue.median_ms <= 45.0,
        "{queue:?}"
    );
    let within = ours("demand 800/s of 1,000/s", 1);
    assert!(within.failed == 0.0, "{within:?}");
    let errors = ours("rate 1,000/s, 5 % errors", 1);
    assert!(0.95 <= errors.goodput, "{errors:?}");
}
