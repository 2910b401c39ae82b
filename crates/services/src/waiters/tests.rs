//! Waiters are served in order, leave nothing behind, and cost nothing while nothing changes.

use proptest::prelude::*;

use super::*;

const HERE: CollectionId = CollectionId(1);
const THERE: CollectionId = CollectionId(2);
const NOW: u64 = 1_000;

fn for_alike(alike: u64, until_ms: u64) -> Wait {
    Wait {
        until_ms,
        alike,
        wake_ms: None,
    }
}

fn waiting(tokens: impl IntoIterator<Item = u64>) -> Waiters {
    let mut waiters = Waiters::new(Bounds::default());
    for token in tokens {
        let wait = for_alike(0, NOW + 100);
        waiters
            .wait(CorrelationId(token), HERE, wait, NOW, 10)
            .unwrap();
    }
    waiters
}

/// It shows WAITER-6.
#[test]
fn an_entry_has_one_more_decided_again_than_it_serves() {
    let mut waiters = waiting(0..1_000);
    assert_eq!(waiters.pop(), None, "nothing changed");
    waiters.stirred(THERE, Stir::Now);
    assert_eq!(waiters.pop(), None, "elsewhere");
    waiters.stirred(HERE, Stir::Now);
    for served in 0..3 {
        assert_eq!(waiters.pop(), Some(CorrelationId(served)));
        assert_eq!(waiters.pop(), None, "WAITER-4");
        waiters.leave(CorrelationId(served));
    }
    assert_eq!(waiters.pop(), Some(CorrelationId(3)));
    waiters.again(CorrelationId(3), NOW).unwrap();
    assert_eq!(waiters.pop(), None, "those behind it would wait too");
    waiters.stirred(HERE, Stir::Now);
    assert_eq!(waiters.pop(), Some(CorrelationId(3)), "WAITER-2");
}

#[test]
fn a_waiter_for_another_value_is_decided_too() {
    let mut waiters = Waiters::new(Bounds::default());
    for (token, alike) in [(0, 9), (1, 5), (2, 9), (3, 5)] {
        let wait = for_alike(alike, NOW + 100);
        waiters
            .wait(CorrelationId(token), HERE, wait, NOW, 0)
            .unwrap();
    }
    waiters.stirred(HERE, Stir::Now);
    let mut asked = Vec::new();
    while let Some(token) = waiters.pop() {
        asked.push(token.0);
        match token.0 {
            1 => waiters.leave(token),
            _ => waiters.again(token, NOW).unwrap(),
        }
    }
    assert_eq!(asked, [0, 1, 3]);
}

#[test]
fn deadlines_pass_in_order_and_say_when_the_next_one_is() {
    let mut waiters = Waiters::new(Bounds::default());
    for (token, until_ms) in [(0, 1_300), (1, 1_100), (2, 1_200)] {
        let wait = for_alike(0, until_ms);
        waiters
            .wait(CorrelationId(token), HERE, wait, NOW, 0)
            .unwrap();
    }
    assert_eq!(waiters.pass(NOW), Some(1_100));
    assert_eq!(waiters.pop(), None);
    assert_eq!(waiters.pass(1_100), Some(1_200));
    assert_eq!(waiters.pop(), Some(CorrelationId(1)));
    let again = waiters.again(CorrelationId(1), 1_100);
    assert_eq!(again, Err(Reason::WaitTooLong), "it may wait no more");
    assert_eq!(waiters.count(), 2);
    assert_eq!(waiters.pass(2_000), None);
    assert_eq!(waiters.pop(), Some(CorrelationId(0)));
    waiters.leave(CorrelationId(0));
    assert_eq!(waiters.pop(), Some(CorrelationId(2)));
}

#[test]
fn too_many_too_much_and_too_long_are_refused_and_take_no_room() {
    let bounds = Bounds {
        waiters: 2,
        bytes: 30,
    };
    let mut waiters = Waiters::new(bounds);
    let mut wait = |token, until_ms, size| {
        waiters.wait(
            CorrelationId(token),
            HERE,
            for_alike(0, until_ms),
            NOW,
            size,
        )
    };
    let longest = NOW + WAIT_MAX.as_millis() as u64;
    assert_eq!(wait(0, longest + 1, 1), Err(Reason::WaitTooLong));
    assert_eq!(wait(0, u64::MAX, 1), Err(Reason::WaitTooLong));
    assert_eq!(wait(0, longest, 31), Err(Reason::TooManyWaiting));
    assert_eq!(wait(0, longest, usize::MAX), Err(Reason::TooManyWaiting));
    assert_eq!(wait(0, longest, 20), Ok(()));
    assert_eq!(wait(1, longest, 11), Err(Reason::TooManyWaiting));
    assert_eq!(wait(1, longest, 10), Ok(()));
    assert_eq!(wait(2, longest, 0), Err(Reason::TooManyWaiting));
    waiters.leave(CorrelationId(0));
    let taken = waiters.wait(CorrelationId(2), HERE, for_alike(0, longest), NOW, 20);
    assert_eq!(taken, Ok(()));
    assert_eq!(waiters.end(), [CorrelationId(1), CorrelationId(2)]);
    assert_eq!(waiters.count(), 0);
}

#[test]
fn a_client_that_hung_up_gives_its_turn_to_the_next() {
    let mut waiters = waiting(0..3);
    waiters.stirred(HERE, Stir::Now);
    waiters.leave(CorrelationId(0));
    assert_eq!(
        waiters.pop(),
        Some(CorrelationId(1)),
        "not lost with the first"
    );
    waiters.leave(CorrelationId(1));
    assert_eq!(waiters.pop(), Some(CorrelationId(2)));
}

/// What happens to waiters; tokens are the order of arrival.
#[derive(Clone, Debug)]
enum Event {
    Wait(u64, u64),
    Touched,
    Pass(u64),
    Leave(prop::sample::Index),
    /// The next one is decided again: served, or not.
    Decide(bool),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (0_u64..3, 1_u64..200).prop_map(|(alike, after)| Event::Wait(alike, after)),
        2 => Just(Event::Touched),
        1 => (1_u64..80).prop_map(Event::Pass),
        1 => any::<prop::sample::Index>().prop_map(Event::Leave),
        6 => any::<bool>().prop_map(Event::Decide),
    ]
}

proptest! {
    /// WAITER-1 to WAITER-4, and that a change wakes the first of each queue, also when others
    /// leave.
    #[test]
    fn each_change_reaches_the_first_that_waits(
        events in prop::collection::vec(event(), 1..120),
    ) {
        let mut waiters = Waiters::new(Bounds::default());
        // Those that wait, oldest first: token, what for, deadline.
        let mut all: Vec<(u64, u64, u64)> = Vec::new();
        let (mut now, mut next) = (NOW, 0);
        for event in events {
            match event {
                Event::Wait(alike, after) => {
                    let wait = for_alike(alike, now + after);
                    waiters.wait(CorrelationId(next), HERE, wait, now, 1).unwrap();
                    all.push((next, alike, now + after));
                    next += 1;
                }
                Event::Touched => waiters.stirred(HERE, Stir::Now),
                Event::Pass(by) => {
                    now += by;
                    let until = waiters.pass(now);
                    let least = all.iter().map(|it| it.2).filter(|it| now < *it).min();
                    prop_assert_eq!(until, least);
                }
                Event::Leave(at) if !all.is_empty() => {
                    let gone = all.remove(at.index(all.len()));
                    waiters.leave(CorrelationId(gone.0));
                }
                Event::Leave(_) => {}
                Event::Decide(is_served) => {
                    let Some(token) = waiters.pop() else { continue };
                    let at = all.iter().position(|it| it.0 == token.0).expect("WAITER-3");
                    let (_, alike, until) = all[at];
                    let is_first = all[..at].iter().all(|it| it.1 != alike);
                    prop_assert!(is_first || until <= now, "WAITER-1");
                    if is_served {
                        waiters.leave(token);
                    }
                    let waits = !is_served && waiters.again(token, now).is_ok();
                    if !waits {
                        all.remove(at);
                    }
                }
            }
            prop_assert_eq!(waiters.count(), all.len());
        }
        // One last change serves all: no waiter is forgotten.
        waiters.stirred(HERE, Stir::Now);
        let mut served = Vec::new();
        while let Some(token) = waiters.pop() {
            waiters.leave(token);
            served.push(token.0);
        }
        served.sort_unstable();
        prop_assert_eq!(served, all.iter().map(|it| it.0).collect::<Vec<_>>());
        prop_assert_eq!(waiters.bytes, 0);
        prop_assert!(waiters.deadlines.is_empty() && waiters.queues.is_empty(), "WAITER-3");
    }
}

/// It shows WAITER-5.
#[test]
fn when_something_is_due_the_first_of_those_alike_is_decided_again() {
    let mut waiters = waiting(0..1_000);
    let wake = |wake_ms| Wait {
        wake_ms,
        ..for_alike(0, NOW + 100)
    };
    waiters.alarm(HERE, wake(Some(NOW + 50)));
    assert_eq!(waiters.pass(NOW), Some(NOW + 50));
    assert_eq!(waiters.pop(), None);
    assert_eq!(waiters.pass(NOW + 50), Some(NOW + 100));
    assert_eq!(waiters.pop(), Some(CorrelationId(0)));
    waiters.again(CorrelationId(0), NOW + 50).unwrap();
    waiters.alarm(HERE, wake(Some(NOW + 70)));
    waiters.alarm(HERE, wake(Some(NOW + 60)));
    assert_eq!(waiters.pop(), None, "one is enough");
    assert_eq!(
        waiters.pass(NOW + 55),
        Some(NOW + 60),
        "the last word counts"
    );
    for token in waiters.end() {
        waiters.leave(token);
    }
    assert_eq!(waiters.pass(NOW + 99), None, "WAITER-3");
}
