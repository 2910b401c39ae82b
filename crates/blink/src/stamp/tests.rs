//! Stamps order as their bytes, and the clock never repeats itself.

use proptest::prelude::*;

use super::*;

#[test]
fn a_clock_follows_the_wall_clock_and_never_repeats() {
    let mut clock = HybridClock::new();
    assert_eq!(clock.tick(5), Ok(HybridTime(5 << 16)));
    assert_eq!(clock.tick(5), Ok(HybridTime((5 << 16) + 1)));
    assert_eq!(
        clock.tick(4),
        Ok(HybridTime((5 << 16) + 2)),
        "a wall clock that goes back"
    );
    assert_eq!(clock.tick(9), Ok(HybridTime(9 << 16)));
}

#[test]
fn a_clock_passes_what_it_observes() {
    let mut clock = HybridClock::new();
    clock.observe(HybridTime::from_ms(100));
    assert!(clock.tick(5).expect("time left") > HybridTime::from_ms(100));
    clock.observe(HybridTime(3));
    assert!(clock.tick(5).expect("time left") > HybridTime::from_ms(100));
}

#[test]
fn the_end_of_time_is_an_error_not_a_repetition() {
    let mut clock = HybridClock::new();
    clock.observe(HybridTime(u64::MAX));
    assert_eq!(clock.tick(5), Err(ClockError::Exhausted));
    assert_eq!(HybridTime::from_ms(u64::MAX), HybridTime(u64::MAX));
}

#[test]
fn a_clock_that_is_off_is_refused_with_the_difference() {
    assert_eq!(HybridClock::check(1_000, 6_000, 5_000), Ok(()));
    let late = HybridClock::check(1_000, 6_001, 5_000).expect_err("5001 ms off");
    let text = "this clock is -5001 ms off the store's clock, 5000 ms are allowed: set it";
    assert_eq!(late.to_string(), text);
    let early = HybridClock::check(u64::MAX, 0, 5_000).expect_err("far off");
    assert_eq!(
        early,
        ClockError::Drift {
            drift_ms: i64::MAX,
            bound_ms: 5_000
        }
    );
}

fn any_stamp() -> impl Strategy<Value = Stamp> {
    let few = || prop_oneof![Just(0), Just(1), Just(256), any::<u64>()];
    (few(), few(), any::<u32>()).prop_map(|(time, client, sequence)| Stamp {
        time: HybridTime(time),
        client,
        sequence,
    })
}

proptest! {
    #[test]
    fn stamps_compare_like_their_bytes(one in any_stamp(), other in any_stamp()) {
        prop_assert_eq!(one.cmp(&other), one.to_bytes().cmp(&other.to_bytes()));
        prop_assert_eq!(Stamp::from_bytes(&one.to_bytes()), one);
    }
}
