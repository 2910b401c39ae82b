//! Tests of times.

use std::time::Duration;

use proptest::prelude::*;

use super::{GRAIN, Hidden, Landed, Moment, StoreClock, holder_end};
use crate::bucket::guard::Guards;

const S: Duration = Duration::from_secs(1);

fn moment(now: u64, store: u64) -> Moment {
    Moment {
        now: S * now as u32,
        wall: Duration::ZERO,
        store: S * store as u32,
    }
}

#[test]
fn a_claim_ends_by_the_time_of_its_state() {
    let guards = Guards::default();
    let (claim, landed) = (Hidden::For(S * 30), Landed::Modified(S * 1000));
    assert!(claim.is_hidden(landed, &moment(0, 1030), &guards));
    assert!(!claim.is_hidden(landed, &moment(0, 1031), &guards));
    let carried = claim.carried(landed, S * 5, &guards);
    assert_eq!(carried, Hidden::Until(S * 1000 + GRAIN + S * 30));
    assert!(!Hidden::Not.is_hidden(landed, &moment(0, 0), &guards));
}

#[test]
fn a_claim_of_this_process_ends_by_its_own_clock() {
    let guards = Guards::default();
    let (claim, landed) = (Hidden::For(S * 30), Landed::Answered(S * 100));
    assert!(claim.is_hidden(landed, &moment(130, 9999), &guards));
    assert!(!claim.is_hidden(landed, &moment(131, 0), &guards));
    // What is left is rounded in favour of the holder.
    let carried = claim.carried(landed, S * 110, &guards);
    assert_eq!(carried, Hidden::For(Duration::from_millis(20_010)));
    assert_eq!(claim.carried(landed, S * 140, &guards), Hidden::Not);
}

#[test]
fn the_lower_bound_never_goes_back() {
    let clock = StoreClock::default();
    assert_eq!(clock.lower(S * 7), Duration::ZERO);
    clock.observe(S * 1000, S * 10);
    clock.observe(S * 900, S * 10);
    assert_eq!(clock.lower(S * 10), S * 1000);
    assert_eq!(clock.lower(S * 1010), S * 1999);
    clock.observe(S * 1500, S * 1010);
    assert_eq!(clock.lower(S * 1010), S * 1999);
    assert!(clock.should_learn() && !clock.should_learn());
}

proptest! {
    /// TIME-1: no process sees a claim end before its holder does, in any way that its end is
    /// known, through any number of rewrites. Clocks run at rates 0.1 % apart.
    #[test]
    fn no_caller_takes_while_a_holder_holds(
        visibility_ms in 0_u64..50_000,
        travel in proptest::collection::vec((0_u64..5_000, 0_u64..5_000), 1..6),
        rewriter_is_far in proptest::collection::vec(any::<bool>(), 6),
        rate_ppm in -500_i64..500,
    ) {
        let guards = Guards::default();
        let ms = Duration::from_millis;
        // The store's clock in ms; a process's clock runs at another rate.
        let own = |store: u64| {
            let store = store as i64;
            ms((store + store * rate_ppm / 1_000_000) as u64)
        };
        let visibility = ms(visibility_ms);
        let start = 10_000_u64;
        let end_by_holder = holder_end(ms(start), visibility);
        let mut hidden = Hidden::For(visibility);
        let mut at = start;
        let mut landed_at = start;
        for (index, (before, after)) in travel.iter().enumerate() {
            landed_at = at + before;
            let answered = landed_at + after;
            let landed = match rewriter_is_far[index] {
                true => Landed::Modified(ms(landed_at / 1000 * 1000)),
                false => Landed::Answered(own(answered)),
            };
            // The rewriting process sends at once; its write lands later.
            hidden = hidden.carried(landed, own(answered), &guards);
            at = answered;
        }
        landed_at = landed_at.max(at);
        let landed = Landed::Modified(ms(landed_at / 1000 * 1000));
        // The best taker knows the store's time exactly.
        let last = Duration::from_millis(end_by_holder.as_millis() as u64).saturating_sub(ms(1));
        let at = Moment { now: Duration::ZERO, wall: Duration::ZERO, store: last };
        // A holder whose time is over may be taken from.
        if ms(landed_at) < last {
            let slack = ms(visibility_ms * rate_ppm.unsigned_abs() / 1_000_000 + 2);
            let early = Moment { store: last.saturating_sub(slack), ..at };
            prop_assert!(hidden.is_hidden(landed, &early, &guards), "{hidden:?}");
        }
    }
}
