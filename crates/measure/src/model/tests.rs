//! The laws of the model, and what it was fitted to.

use fader_history::Rules;
use fader_history::check::{registers, staleness};

use super::*;
use crate::calibrate::{laws, one_key};

fn mean_of(taking: &Taking) -> f64 {
    let mut random = ChaCha8Rng::seed_from_u64(1);
    const DRAWS: u32 = 100_000;
    let sum: Duration = (0..DRAWS).map(|_| taking.draw(&mut random)).sum();
    sum.as_secs_f64() * 1e3 / f64::from(DRAWS)
}

#[test]
fn the_model_of_2015_has_the_papers_means() {
    let model = Behaviour::of_2015();
    for (taking, mean) in [
        (model.write, 114.4),
        (model.eventual_read, 18.78),
        (model.strong_read, 18.19),
    ] {
        let found = mean_of(&taking);
        assert!((found / mean - 1.0).abs() < 0.02, "{found} for {mean}");
    }
}

#[test]
fn the_model_of_2010_has_the_four_means() {
    let model = Behaviour::of_2010();
    for (taking, mean) in [
        (model.eventual_read, 22.0),
        (model.strong_read, 23.0),
        (model.write, 110.0),
        (model.swap, 118.0),
    ] {
        let found = mean_of(&taking);
        assert!((found / mean - 1.0).abs() < 0.01, "{found} for {mean}");
    }
}

#[test]
fn shares_are_those_of_the_laws() {
    let millis = Duration::from_millis;
    let share = |law: Law, time| law.share(millis(time));
    let [uniform, exponential, log_normal, partly, replicas] = laws().map(|(_, law)| law);
    assert!((share(uniform, 150) - 0.25).abs() < 1e-9);
    assert!((share(exponential, 200) - 0.632_120_6).abs() < 1e-6);
    assert!((share(log_normal, 150) - 0.5).abs() < 1e-6);
    assert_eq!(share(partly, 10), 0.3);
    assert!((share(partly, 550) - 0.65).abs() < 1e-9);
    assert_eq!(share(replicas, 200), share(exponential, 200));
    for (_, law) in laws() {
        assert!((1.0 - law.share(law.longest())) < 1e-6, "{law:?}");
    }
}

#[test]
fn a_fresh_model_is_linearizable_and_a_late_one_is_not() {
    let log = one_key(Law::Fresh, 3, 5);
    let judge = |log| registers(log, &|_| true, &Rules::default());
    assert!(judge(&log).is_ok());
    let found = staleness(&log, &Rules::default()).unwrap();
    assert!(found.readings.iter().all(|reading| reading.is_latest()));
    let late = one_key(Law::Uniform(Duration::from_millis(600)), 3, 5);
    assert!(judge(&late).is_err());
}
