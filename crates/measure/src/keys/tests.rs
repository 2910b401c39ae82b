//! Distributions of keys against their laws.

use super::*;

const COUNT: u64 = 100;
const DRAWS: u64 = 200_000;

fn drawn(keys: Keys) -> Vec<f64> {
    let chooser = Chooser::new(keys);
    let mut shares = vec![0.0; COUNT as usize];
    for sequence in 0..DRAWS {
        let key = chooser.choose(&mut Draw::new(7, sequence), COUNT);
        shares[key as usize] += 1.0 / DRAWS as f64;
    }
    shares
}

/// Of Zipf's law over 100 ranks.
fn zipf(rank: u64) -> f64 {
    let weight = |rank: u64| 1.0 / (rank as f64 + 1.0).powf(THETA);
    weight(rank) / (0..COUNT).map(weight).sum::<f64>()
}

fn assert_about(observed: f64, expected: f64) {
    let deviation = (expected * (1.0 - expected) / DRAWS as f64).sqrt();
    assert!(
        (observed - expected).abs() < 5.0 * deviation,
        "{observed} for {expected}"
    );
}

#[test]
fn uniform_keys_are_all_alike() {
    for share in drawn(Keys::Uniform) {
        assert_about(share, 0.01);
    }
}

#[test]
fn zipfian_keys_have_the_first_ranks() {
    // The first two ranks are exact; the rest is Gray's approximation.
    let shares = drawn(Keys::Zipfian);
    assert_about(shares[0], zipf(0));
    assert_about(shares[1], zipf(1));
    let (first, exact): (f64, f64) = (shares[..20].iter().sum(), (0..20).map(zipf).sum());
    assert!((first - exact).abs() < 0.03, "{first} for {exact}");
    let latest = drawn(Keys::Latest);
    assert_about(latest[99], zipf(0));
    assert_about(latest[98], zipf(1));
}

#[test]
fn a_law_grows_with_its_items() {
    let (chooser, fresh) = (Chooser::new(Keys::Zipfian), Chooser::new(Keys::Zipfian));
    for count in [1, 10, 50, 100, 7] {
        assert!(chooser.choose(&mut Draw::new(1, count), count) < count);
    }
    for sequence in 0..100 {
        let choose = |chooser: &Chooser| chooser.choose(&mut Draw::new(2, sequence), 60);
        assert_eq!(choose(&chooser), choose(&fresh));
    }
}

#[test]
fn scrambled_keys_are_popular_here_and_there() {
    let shares = drawn(Keys::Scrambled);
    // The first rank has 1/zeta of all operations, wherever it went.
    let popular = (scatter(0) % COUNT) as usize;
    let rest = (1.0 - 1.0 / SCRAMBLED_ZETA) / COUNT as f64;
    assert!(shares[popular] > 1.0 / SCRAMBLED_ZETA);
    assert!(shares[popular] < 1.0 / SCRAMBLED_ZETA + 3.0 * rest);
    // As YCSB's Utils.fnvhash64 gives it.
    assert_eq!(scatter(0), 0x5738_07cd_d7e5_c63b);
}

#[test]
fn hot_items_get_their_operations() {
    let shares = drawn(Keys::Hotspot {
        items: 0.2,
        operations: 0.8,
    });
    for (key, share) in shares.iter().enumerate() {
        assert_about(*share, if key < 20 { 0.04 } else { 0.0025 });
    }
}

#[test]
fn exponential_keys_are_the_newest() {
    let shares = drawn(Keys::Exponential {
        percentile: 95.0,
        items: 0.5,
    });
    let newest: f64 = shares[50..].iter().sum();
    // 95 % of the whole law, of which items older than the oldest are drawn again.
    assert_about(newest, 0.95 / (1.0 - 0.05_f64.powi(2)));
    assert!(shares[99] > shares[90]);
}
