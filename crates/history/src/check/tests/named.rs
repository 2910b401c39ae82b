//! One history for each rule of each check, which the check misjudges without the rule.

use super::story::Story;
use crate::check::{Fault, every_level, kept, registers, search, sessions, staleness};
use crate::object::{Outcome, Reply, Text, Value, Verb};
use crate::{Rule, Rules};

/// The rule, what the check says of its history, and the check.
type Named = (Rule, &'static str, fn(&Rules) -> String);

fn verdict<T>(found: &Result<T, Fault>) -> String {
    match found {
        Ok(_) => "good".to_owned(),
        Err(Fault::Violated(_)) => "violated".to_owned(),
        Err(Fault::Unfit(_)) => "unfit".to_owned(),
    }
}

fn zones(story: &Story, rules: &Rules) -> String {
    verdict(&registers(&story.0, &every_level, rules))
}

fn order(story: &Story, rules: &Rules) -> String {
    verdict(&search(&story.0, &every_level, 10_000, rules))
}

fn strong(level: &Text) -> bool {
    **level == *"strong"
}

/// Violations of each session guarantee.
fn broken(story: &Story, rules: &Rules) -> String {
    let found = sessions(&story.0, rules).expect("the history is fit");
    let counts = found.all().map(|(_, one)| one.violated.to_string());
    counts.join(" ")
}

fn stale(story: &Story, rules: &Rules) -> String {
    let found = staleness(&story.0, rules).expect("the history is fit");
    let words = found.readings.iter().map(|reading| {
        let since = reading
            .reference
            .map_or(0, |reference| reference.since_return);
        format!("k={} t={} since={since}", reading.newer, reading.age)
    });
    words.collect::<Vec<_>>().join(", ")
}

fn last(story: &Story, rules: &Rules) -> String {
    verdict(&kept(&story.0, rules))
}

fn set(elements: &[i64]) -> Value {
    Value::List(elements.iter().map(|one| Value::from(*one)).collect())
}

const NAMED: &[Named] = &[
    (Rule::Written, "violated", |rules| {
        zones(&Story::default().read(1, (0, 1), Some(1)), rules)
    }),
    (Rule::RefusedNever, "violated", |rules| {
        let story = Story::default().refused(1, (0, 1), Verb::Write(1.into()));
        zones(&story.read(1, (2, 3), Some(1)), rules)
    }),
    (Rule::RefusedNever, "violated", |rules| {
        let story = Story::default().refused(1, (0, 1), Verb::Write(1.into()));
        order(&story.read(1, (2, 3), Some(1)), rules)
    }),
    (Rule::EarliestReturn, "violated", |rules| {
        let story = Story::default().tried(1, (0, 1), Verb::Write(1.into()));
        let story = story.read(2, (2, 3), Some(1)).write(3, (4, 5), 2);
        zones(&story.read(2, (6, 7), Some(1)), rules)
    }),
    (Rule::LatestCall, "violated", |rules| {
        let story = Story::default().write(1, (0, 1), 1).write(2, (2, 3), 2);
        let story = story.read(3, (4, 5), Some(2));
        zones(&story.read(3, (6, 7), Some(1)), rules)
    }),
    (Rule::ReadAfterWrite, "violated", |rules| {
        zones(
            &Story::default()
                .read(1, (0, 1), Some(1))
                .write(2, (2, 3), 1),
            rules,
        )
    }),
    (Rule::ForwardApart, "violated", |rules| {
        let story = Story::default().write(1, (0, 1), 1).write(2, (0, 1), 2);
        zones(
            &story.read(3, (2, 3), Some(1)).read(4, (2, 3), Some(2)),
            rules,
        )
    }),
    (Rule::BackwardOutside, "violated", |rules| {
        let story = Story::default().write(1, (0, 1), 1).write(2, (2, 3), 2);
        zones(&story.read(3, (4, 5), Some(1)), rules)
    }),
    (Rule::Touching, "good", |rules| {
        let story = Story::default()
            .write(1, (0, 1), 1)
            .read(3, (2, 3), Some(1));
        zones(&story.write(2, (0, 2), 2).read(4, (5, 6), Some(2)), rules)
    }),
    (Rule::InitialFirst, "violated", |rules| {
        zones(
            &Story::default().write(1, (0, 1), 1).read(1, (2, 3), None),
            rules,
        )
    }),
    (Rule::UnknownLate, "good", |rules| {
        let story = Story::default().tried(1, (0, 1), Verb::Write(1.into()));
        zones(&story.read(2, (2, 3), None).read(2, (4, 5), Some(1)), rules)
    }),
    (Rule::AttemptsJoined, "good", |rules| {
        let story = Story::default().tried(1, (0, 1), Verb::Write(1.into()));
        let story = story.attempt("a", 1).write(1, (2, 3), 1).attempt("a", 2);
        zones(&story.read(2, (4, 5), Some(1)), rules)
    }),
    (Rule::AttemptsJoined, "violated", |rules| {
        let story = Story::default()
            .tried(1, (0, 1), Verb::Increment(1))
            .attempt("a", 1);
        let story = story.done(1, (2, 3), Verb::Increment(1)).attempt("a", 2);
        order(&story.shows(2, (4, 5), Verb::Read, 2.into()), rules)
    }),
    (Rule::OtherLevels, "good", |rules| {
        let story = Story::default().write(1, (0, 1), 1).level("eventual");
        let story = story.read(2, (2, 3), None).read(2, (4, 5), Some(1));
        let zones = verdict(&registers(&story.0, &strong, rules));
        let order = verdict(&search(&story.0, &strong, 1_000, rules));
        if zones == order {
            zones
        } else {
            format!("{zones}, {order}")
        }
    }),
    (Rule::RealTime, "violated", |rules| {
        order(
            &Story::default().write(1, (0, 1), 1).read(1, (2, 3), None),
            rules,
        )
    }),
    (Rule::UnknownMayAct, "good", |rules| {
        let story = Story::default().tried(1, (0, 1), Verb::Write(1.into()));
        order(&story.read(2, (2, 3), None).read(2, (4, 5), Some(1)), rules)
    }),
    (Rule::UnknownMayNot, "good", |rules| {
        let story = Story::default().tried(1, (0, 1), Verb::Write(1.into()));
        order(&story.read(2, (2, 3), None), rules)
    }),
    (Rule::Once, "violated", |rules| {
        let story = Story::default().tried(1, (0, 1), Verb::Write(1.into()));
        let story = story.read(2, (2, 3), Some(1)).write(2, (4, 5), 2);
        let story = story.read(2, (6, 7), Some(2));
        order(&story.read(2, (8, 9), Some(1)), rules)
    }),
    (Rule::DoneSwap, "violated", |rules| {
        let swap = Verb::Swap {
            from: 1.into(),
            to: 2.into(),
        };
        order(&Story::default().done(1, (0, 1), swap), rules)
    }),
    (Rule::FailedSwap, "violated", |rules| {
        let swap = Verb::Swap {
            from: 1.into(),
            to: 2.into(),
        };
        let story = Story::default().write(1, (0, 1), 1);
        order(
            &story.ask(1, (2, 3), swap, Outcome::Done(Reply::unmet())),
            rules,
        )
    }),
    (Rule::QueueOrder, "violated", |rules| {
        let story = Story::default().done(1, (0, 1), Verb::Push(1.into()));
        let story = story.done(1, (2, 3), Verb::Push(2.into()));
        order(&story.shows(1, (4, 5), Verb::Pop, 2.into()), rules)
    }),
    (Rule::ReadYourWrites, "1 0 0 0", |rules| {
        broken(
            &Story::default().write(1, (0, 1), 1).read(1, (2, 3), None),
            rules,
        )
    }),
    (Rule::MonotonicReads, "0 1 0 0", |rules| {
        let story = Story::default()
            .write(1, (0, 1), 1)
            .read(2, (2, 3), Some(1));
        broken(&story.read(2, (4, 5), None), rules)
    }),
    (Rule::MonotonicWrites, "0 0 1 0", |rules| {
        let story = Story::told().write(1, (0, 1), 1).placed(2);
        broken(&story.write(1, (2, 3), 2).placed(1), rules)
    }),
    (Rule::WritesFollowReads, "0 0 0 1", |rules| {
        let story = Story::told().write(1, (0, 1), 1).placed(2);
        let story = story.read(2, (2, 3), Some(1)).placed(2);
        broken(&story.write(2, (4, 5), 2).placed(1), rules)
    }),
    (Rule::MonotonicWritesAcross, "0 0 1 0", |rules| {
        let story = Story::default().write(1, (0, 1), 1);
        let story = story.write(1, (2, 3), 2).of("y");
        let story = story.read(2, (4, 5), Some(2)).of("y");
        broken(&story.read(2, (6, 7), None), rules)
    }),
    (Rule::WritesFollowReadsAcross, "0 0 0 1", |rules| {
        let story = Story::default()
            .write(1, (0, 1), 1)
            .read(2, (2, 3), Some(1));
        let story = story.write(2, (4, 5), 2).of("y");
        let story = story.read(3, (6, 7), Some(2)).of("y");
        broken(&story.read(3, (8, 9), None), rules)
    }),
    (Rule::ProgramOrder, "0 0 0 0", |rules| {
        let story = Story::default().write(1, (0, 3), 1).read(1, (2, 4), None);
        broken(&story, rules)
    }),
    (Rule::AcknowledgedOwn, "0 0 0 0", |rules| {
        let story = Story::default().tried(1, (0, 1), Verb::Write(1.into()));
        broken(&story.read(1, (2, 3), None), rules)
    }),
    (Rule::AcknowledgedBefore, "k=0 t=0 since=0", |rules| {
        stale(
            &Story::default().write(1, (0, 5), 1).read(2, (2, 3), None),
            rules,
        )
    }),
    (Rule::FirstNewer, "k=2 t=5000 since=3000", |rules| {
        let story = Story::default().write(1, (0, 1), 1).write(1, (2, 3), 2);
        stale(&story.read(2, (6, 7), None), rules)
    }),
    (Rule::Negative, "k=0 t=0 since=-4000", |rules| {
        let story = Story::default().write(1, (0, 1), 1).write(1, (5, 10), 2);
        stale(&story.read(2, (6, 7), Some(2)), rules)
    }),
    (Rule::Kept, "violated", |rules| {
        last(
            &Story::default().write(1, (0, 1), 1).read(2, (2, 3), None),
            rules,
        )
    }),
    (Rule::Kept, "violated", |rules| {
        let story = Story::default().done(1, (0, 1), Verb::Add(1.into()));
        last(&story.shows(2, (2, 3), Verb::Read, set(&[])), rules)
    }),
    (Rule::Invented, "violated", |rules| {
        last(
            &Story::default()
                .write(1, (0, 1), 1)
                .read(2, (2, 3), Some(2)),
            rules,
        )
    }),
    (Rule::Removed, "violated", |rules| {
        let story = Story::default().done(1, (0, 1), Verb::Add(1.into()));
        let story = story.done(1, (2, 3), Verb::Remove(1.into()));
        last(&story.shows(2, (4, 5), Verb::Read, set(&[1])), rules)
    }),
    (Rule::CounterLow, "violated", |rules| {
        let story = Story::default().done(1, (0, 1), Verb::Increment(2));
        last(&story.shows(2, (2, 3), Verb::Read, 1.into()), rules)
    }),
    (Rule::CounterHigh, "violated", |rules| {
        let story = Story::default().tried(1, (0, 1), Verb::Increment(2));
        last(&story.shows(2, (2, 3), Verb::Read, 3.into()), rules)
    }),
];

#[test]
fn every_rule_has_a_history_that_is_judged_right() {
    for (rule, expected, judge) in NAMED {
        assert_eq!(judge(&Rules::default()), *expected, "{rule:?}");
    }
    let mut ruled: Vec<Rule> = NAMED.iter().map(|(rule, ..)| *rule).collect();
    ruled.sort_unstable();
    ruled.dedup();
    let all = Rule::CounterHigh as usize + 1;
    assert_eq!(ruled.len(), all, "a rule has no history");
}

/// What `cargo xtask mutants` runs.
#[cfg(feature = "mutants")]
#[test]
fn without_a_rule_its_history_is_misjudged() {
    for (rule, expected, judge) in NAMED {
        let told = judge(&Rules::without(*rule));
        assert_ne!(told, *expected, "without {rule:?} nothing changes");
        println!("caught: {rule:?}: its history is misjudged");
    }
}
