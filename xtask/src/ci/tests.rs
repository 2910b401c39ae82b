//! Which step begins when.

use super::*;

fn good(_: &mut Score, _: &Course) -> Result<bool> {
    Ok(true)
}

/// What ends, in its order, where these steps beside others fail.
fn ended(steps: &'static [Step], failing: &'static [&'static str]) -> Vec<&'static str> {
    let course = Course {
        begun: Instant::now(),
        seed: 1,
        is_whole: true,
        programs: Mutex::default(),
    };
    let beside = |step: &'static Step| {
        let is_good = !failing.contains(&step.name);
        let ended = Ended::new(step.name, Score::default(), is_good, Duration::ZERO);
        (String::new(), ended)
    };
    let wanted: Vec<&Step> = steps.iter().collect();
    let ended = thread::scope(|scope| course.ended(&wanted, Besides::start(scope, beside)));
    ended.unwrap().iter().map(|step| step.name).collect()
}

static CHAIN: [Step; 4] = [
    Step::new("build", good).beside(),
    Step::new("worlds", good).needs("build").beside(),
    Step::new("sdk", good).needs("build"),
    Step::new("last", good).beside(),
];

#[test]
fn a_step_waits_for_one_beside_that_it_needs() {
    let ended = ended(&CHAIN, &[]);
    let place = |name| ended.iter().position(|step| *step == name).unwrap();
    assert!(place("build") < place("sdk") && place("build") < place("worlds"));
    assert_eq!(ended.len(), CHAIN.len());
}

#[test]
fn what_needs_a_step_that_failed_does_not_begin() {
    assert_eq!(ended(&CHAIN, &["build"]), ["build", "last"]);
}

#[test]
fn a_step_whose_need_is_not_asked_for_begins() {
    static ALONE: [Step; 1] = [Step::new("sdk", good).needs("build")];
    assert_eq!(ended(&ALONE, &[]), ["sdk"]);
}

#[test]
fn two_seeds_take_all_benchmarks() {
    let all = vec![1, 2, 3, 4, 5];
    assert_eq!(part_of(all.clone(), 8), [1, 3, 5]);
    assert_eq!(part_of(all, 9), [2, 4]);
}
