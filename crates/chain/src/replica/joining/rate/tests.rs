//! In virtual time no more is spent than the rate, one burst and one part, and less by who is slow.

use super::{BURST_MS, REST_MS_MAX, REST_TIMES, Rate, SECOND_MS};

/// Parts after which nothing new is learned.
const PARTS_MAX: u64 = 3_000_000;

/// Bytes spent in so many milliseconds by a member that always wants more, in parts of one size.
fn spent(part: usize, per_second: u64, time_ms: u64) -> u64 {
    let mut rate = Rate::default();
    let mut spent = 0;
    for now in 5_000..5_000 + time_ms {
        while rate.allows(now) {
            rate.spend(part, per_second, now);
            spent += part as u64;
        }
    }
    spent
}

/// It shows BP-4 and JOIN-5.
#[test]
fn no_more_and_hardly_less_is_spent_than_the_rate() {
    for per_second in [1_000, 1 << 20, 32 << 20, 1 << 30] {
        for part in [7, 4_096, 1 << 20] {
            let time_ms = PARTS_MAX * part as u64 * SECOND_MS / per_second;
            let time_ms = time_ms.min(10 * SECOND_MS);
            let most = per_second * (time_ms + BURST_MS) / SECOND_MS + part as u64;
            // Less than a millisecond's worth is not noted at once.
            let most = most + per_second / SECOND_MS + 1;
            let least = per_second * time_ms * 9 / 10 / SECOND_MS;
            let spent = spent(part, per_second, time_ms);
            assert!(spent <= most, "{spent} of {most} by {part} at {per_second}");
            assert!(
                least <= spent,
                "{spent} of {least} by {part} at {per_second}"
            );
        }
    }
}

/// Parts of a second in which each takes so long.
fn parts(took: u64) -> u64 {
    let mut rate = Rate::default();
    let (mut now, mut parts) = (5_000, 0);
    while now < 15_000 {
        if !rate.allows(now) {
            now += 1;
            continue;
        }
        rate.begin(now);
        now += took;
        rate.end(now);
        rate.spend(1, 1 << 30, now);
        parts += 1;
    }
    parts / 10
}

#[test]
fn a_busy_member_is_asked_less_often_but_asked() {
    assert_eq!([3, 10, 30].map(parts), [111, 33, 11]);
    let slowest = SECOND_MS / REST_MS_MAX;
    for took in [200, 1_000, 5_000] {
        let least = 10 * SECOND_MS / (took + REST_MS_MAX);
        assert!(least <= 10 * parts(took) + 10, "{took}: {}", parts(took));
        assert!(parts(took) <= slowest);
    }
}

#[test]
fn a_part_that_is_asked_for_again_has_taken_since_the_first_time() {
    let mut rate = Rate::default();
    rate.begin(1_000);
    rate.begin(1_050);
    rate.end(1_060);
    let rest = 1_060..1_060 + 60 * REST_TIMES;
    assert!(rest.clone().all(|now| !rate.allows(now)));
    assert!(rate.allows(rest.end));
    rate.end(2_000);
    assert!(rate.allows(2_000), "nothing was under way");
}
