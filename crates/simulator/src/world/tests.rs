//! The world is deterministic, and a few of its runs are right.

use super::*;

const CHOICE: Choice = Choice {
    mode: None,
    members: None,
    wiring: None,
    mixed: Some(false),
};

#[test]
fn the_same_seed_gives_the_same_run() {
    for seed in 1..6 {
        let plan = Plan::new(seed, &CHOICE);
        let [one, other] = [(); 2].map(|()| run(&plan, &Guards::default(), true));
        assert_eq!(one.trace, other.trace, "seed {seed}");
        assert_eq!(one.events, other.events, "seed {seed}");
    }
}

#[test]
fn nothing_is_wrong_with_the_first_seeds() {
    for seed in 1..20 {
        let found = run(&Plan::new(seed, &CHOICE), &Guards::default(), false);
        assert_eq!(found.failure, None, "seed {seed}");
    }
}
