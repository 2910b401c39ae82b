//! The words of a limit, and what a bucket gives.

use std::pin::pin;
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::{Bucket, Capacity, Limit, Limited, Load, RequestClass};

#[test]
fn a_limit_is_read_and_shown() {
    let limit: Limit = "gets=1300/s, puts=75/s,latency=113ms".parse().unwrap();
    let rate = |per_second, burst| Some(Capacity::Rate { per_second, burst });
    assert_eq!(
        limit,
        Limit {
            gets: rate(1300.0, 130.0),
            puts: rate(75.0, 7.5),
            latency: Duration::from_millis(113),
            work: Duration::ZERO,
        }
    );
    for (text, shown) in [
        ("gets=5/s", "gets=5/s+1"),
        ("gets=0.5/s+3", "gets=0.5/s+3"),
        ("puts=32,work=20ms", "puts=32+0,work=20ms"),
        ("puts=32+200,latency=1.5s", "puts=32+200,latency=1500ms"),
    ] {
        let limit: Limit = text.parse().unwrap();
        assert_eq!(limit.to_string(), shown);
        assert_eq!(shown.parse::<Limit>().unwrap(), limit);
    }
}

#[test]
fn a_part_is_given_once() {
    for text in [
        "gets=1,gets=2",
        "latency=1s, latency=1s",
        "gets=1,puts=1, gets =1",
    ] {
        let error = text.parse::<Limit>().unwrap_err().to_string();
        assert!(error.contains("is given twice"), "{text}: {error}");
    }
}

#[test]
fn contradictory_limits_are_named() {
    for text in [
        "",
        "gets",
        "gets=",
        "gets=0/s",
        "gets=-1/s",
        "gets=NaN/s",
        "gets=inf/s",
        "gets=10/s+0.5",
        "gets=0",
        "gets=1.5",
        "gets=10/m",
        "latency=113",
        "latency=-1s",
        "latency=61s",
        "lists=10/s",
    ] {
        let error = text.parse::<Limit>().unwrap_err().to_string();
        assert!(
            error.starts_with(&format!("{text:?} is not part")),
            "{error}"
        );
    }
}

#[test]
fn a_bucket_gives_its_burst_and_then_its_rate() {
    let start = Instant::now();
    let mut bucket = Bucket {
        per_second: 250.0,
        burst: 40.0,
        tokens: 40.0,
        filled: start,
    };
    // A request each millisecond for 10 s, less a step.
    let at = |ms| start + Duration::from_millis(ms);
    let taken = (0..10_000).filter(|ms| bucket.take(at(*ms))).count();
    // 9.999 s of 250, and what was in the bucket; the last token may be a rounding short.
    assert!((2_538..=2_539).contains(&taken), "{taken}");
    // A clock that seems to go back gives nothing, and takes nothing.
    assert!(!bucket.take(start));
    assert_eq!((0..100).filter(|_| bucket.take(at(20_000))).count(), 40);
}

#[tokio::test]
async fn slots_are_worked_on_places_wait_and_the_rest_is_refused() {
    let capacity = Capacity::Slots { slots: 1, queue: 1 };
    let lane = RequestClass::new(Some(capacity), Limited::default().of("gets"));
    let counts = || (lane.metrics.admitted.get(), lane.metrics.refused.get());
    let (end, ended) = oneshot::channel::<()>();
    let within = |answer| lane.within(Duration::ZERO, Load::Get, async move { answer });
    let mut first = pin!(lane.within(Duration::ZERO, Load::Get, async {
        let _ = ended.await;
        1
    }));
    let mut second = pin!(within(2));
    let mut context = Context::from_waker(Waker::noop());
    assert!(first.as_mut().poll(&mut context).is_pending());
    assert!(second.as_mut().poll(&mut context).is_pending());
    assert_eq!(counts(), (1, 0));
    assert_eq!(within(3).await, None);
    assert_eq!(counts(), (1, 1));
    end.send(()).unwrap();
    assert_eq!(first.await, Some(1));
    assert_eq!(second.await, Some(2));
    assert_eq!(within(4).await, Some(4));
    assert_eq!(counts(), (3, 1));
}

#[tokio::test]
async fn a_poll_that_waits_holds_no_slot() {
    let capacity = Capacity::Slots { slots: 1, queue: 0 };
    let lane = RequestClass::new(Some(capacity), Limited::default().of("puts"));
    let (end, ended) = oneshot::channel::<()>();
    let mut waits = pin!(lane.within(Duration::ZERO, Load::Poll, ended));
    let mut context = Context::from_waker(Waker::noop());
    assert!(waits.as_mut().poll(&mut context).is_pending());
    let send = lane.within(Duration::ZERO, Load::Put, async { 1 });
    assert_eq!(send.await, Some(1));
    end.send(()).unwrap();
    assert_eq!(waits.await, Some(Ok(())));
}
