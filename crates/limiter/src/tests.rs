//! Turns, places and verdicts, in virtual time.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use fader_window::{RequestError, Settings};
use tokio::task::LocalSet;
use tokio::time::{Instant, sleep};

use crate::*;

const REFUSED: Verdict = Verdict::Refused { retry_after: None };
const DOUBTFUL: Verdict = Verdict::Doubtful { retry_after: None };

fn ask(is_repeatable: bool) -> LimiterRequest<&'static str> {
    LimiterRequest {
        lane: "gets",
        is_repeatable,
        deadline: None,
    }
}

/// Attempts that end as the list says, and then are answered.
async fn tell(
    verdicts: &[Verdict],
    ask: LimiterRequest<&'static str>,
) -> (RequestResult<u32>, u32) {
    let limiter = Limiter::new(Settings::default());
    let count = Cell::new(0);
    let attempt = || async {
        count.set(count.get() + 1);
        let verdict = verdicts.get(count.get() as usize - 1);
        (count.get(), verdict.copied().unwrap_or(Verdict::Done))
    };
    let ended = limiter.run(ask, attempt).await;
    let (_, state) = limiter.states().remove(0);
    assert_eq!((state.in_flight, state.waiting), (0, 0));
    (ended, count.get())
}

/// It shows LIMIT-2.
#[tokio::test(start_paused = true)]
async fn attempts_go_on_as_long_as_that_is_safe() {
    let failed = Some(RequestError::Ambiguous);
    let exhausted = Some(RequestError::Attempts);
    for (verdicts, is_repeatable, attempts, failure, in_doubt) in [
        (vec![], false, 1, None, false),
        (vec![REFUSED, REFUSED], false, 3, None, false),
        (vec![Verdict::Unsent], false, 2, None, false),
        (vec![Verdict::Unsent; 9], false, 5, exhausted, false),
        (vec![REFUSED; 9], true, 5, exhausted, false),
        (vec![DOUBTFUL], false, 1, failed, true),
        (vec![Verdict::Failed], false, 1, failed, true),
        (vec![Verdict::Late], false, 1, failed, true),
        (vec![REFUSED, Verdict::Late], false, 2, failed, true),
        (vec![DOUBTFUL, Verdict::Late], true, 3, None, true),
        (vec![Verdict::Failed; 9], true, 5, exhausted, true),
    ] {
        let (ended, count) = tell(&verdicts, ask(is_repeatable)).await;
        let seen = (count, ended.failure, ended.in_doubt);
        assert_eq!(seen, (attempts, failure, in_doubt), "{verdicts:?}");
        assert_eq!(ended.last, Some(attempts), "{verdicts:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_deadline_ends_the_wait_and_the_repetitions() {
    let soon = LimiterRequest {
        deadline: Some(Instant::now() + Duration::from_millis(20)),
        ..ask(true)
    };
    let (ended, count) = tell(&[REFUSED], soon).await;
    assert_eq!((ended.failure, count), (Some(RequestError::Deadline), 1));

    let limiter = Limiter::new(Settings::default());
    let begin = Instant::now();
    let held: Vec<_> = (0..8).map(|_| limiter.enter(ask(true))).collect();
    let mut late = limiter.enter(LimiterRequest {
        deadline: Some(begin + Duration::from_millis(30)),
        ..ask(true)
    });
    assert_eq!(late.turn().await, Err(RequestError::Deadline));
    assert_eq!(begin.elapsed().as_millis(), 30);
    drop(held);
}

/// It shows LIMIT-1.
#[tokio::test(start_paused = true)]
async fn a_leaving_client_gives_its_place_to_the_next() {
    let limiter = Limiter::new(Settings::default());
    let mut places: Vec<_> = (0..10).map(|_| limiter.enter(ask(true))).collect();
    let seen = |limiter: &Limiter<&'static str>| {
        let (_, state) = limiter.states().remove(0);
        (state.in_flight, state.waiting)
    };
    assert_eq!(seen(&limiter), (4, 6));
    // One that waits, one in flight.
    drop(places.remove(9));
    assert_eq!(seen(&limiter), (4, 5));
    drop(places.remove(0));
    assert_eq!(seen(&limiter), (4, 4));
    assert_eq!(places[3].turn().await, Ok(1));
    drop(places);
    assert_eq!(seen(&limiter), (0, 0));
}

/// Ten slots, twenty milliseconds each, in virtual time: what comes beyond is refused.
#[tokio::test(start_paused = true)]
async fn a_limited_service_answers_everything_and_refuses_little() {
    let limiter = Limiter::new(Settings::default());
    let (busy, refused) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0_u32)));
    let local = LocalSet::new();
    let begin = Instant::now();
    for _ in 0..2_000 {
        let limiter = limiter.clone();
        let (busy, refused) = (Rc::clone(&busy), Rc::clone(&refused));
        local.spawn_local(async move {
            let attempt = || async {
                if busy.get() == 10 {
                    sleep(Duration::from_millis(10)).await;
                    refused.set(refused.get() + 1);
                    return ((), REFUSED);
                }
                busy.set(busy.get() + 1);
                sleep(Duration::from_millis(20)).await;
                busy.set(busy.get() - 1);
                ((), Verdict::Done)
            };
            assert_eq!(limiter.run(ask(true), attempt).await.failure, None);
        });
    }
    local.await;
    // 500 a second can be served; a start from nothing and the refusals are in it.
    assert!(
        begin.elapsed() < Duration::from_millis(6_000),
        "{:?}",
        begin.elapsed()
    );
    assert!(refused.get() < 100, "{} refused", refused.get());
}

/// It shows WAKE-1.
#[test]
fn a_timer_is_started_anew_where_its_runtime_ends() {
    let runtime = || {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_all().build().unwrap()
    };
    let limiter = Limiter::new(Settings::default());
    let held: Vec<_> = (0..4).map(|_| limiter.enter(ask(true))).collect();
    let enter = || {
        limiter.enter(LimiterRequest {
            deadline: Some(Instant::now() + Duration::from_millis(200)),
            ..ask(true)
        })
    };
    let (mut one, mut other) = (enter(), enter());
    let (first, second) = (runtime(), runtime());
    let waits = std::thread::scope(|scope| {
        let waits = scope.spawn(|| second.block_on(other.turn()));
        first.block_on(async {
            let soon = Duration::from_millis(20);
            tokio::time::timeout(soon, one.turn()).await.unwrap_err();
        });
        drop(first);
        waits.join().unwrap()
    });
    assert_eq!(waits, Err(RequestError::Deadline));
    drop(held);
}
