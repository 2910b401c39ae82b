//! In virtual time no more is spent than the rate, one burst and one part.

use super::{BURST_MS, Rate, SECOND_MS};

/// Bytes spent in ten seconds by whoever always wants more, in parts of one size.
fn spent(part: usize, per_second: u64) -> u64 {
    let mut rate = Rate::default();
    let mut spent = 0;
    for now in 5_000..15_000 {
        while rate.allows(now) {
            rate.spend(part, per_second, now);
            spent += part as u64;
        }
    }
    spent
}

#[test]
fn no_more_and_hardly_less_is_spent_than_the_rate() {
    for per_second in [1_000, 1 << 20, 32 << 20, 1 << 30] {
        for part in [7, 4_096, 1 << 20] {
            let most = per_second * (10 * SECOND_MS + BURST_MS) / SECOND_MS + part as u64;
            // Less than a millisecond's worth is not noted at once.
            let most = most + per_second / SECOND_MS + 1;
            let spent = spent(part, per_second);
            assert!(spent <= most, "{spent} of {most} by {part} at {per_second}");
            assert!(9 * per_second <= spent, "{spent} by {part} at {per_second}");
        }
    }
}
