//! What waiting costs, in figures that no test judges: `cargo xtask bench waiting`.

use std::fs;
use std::time::Instant;

use super::*;

/// Requests that wait while nothing changes.
const WAITERS: u64 = 10_000;
/// How many are asked for at once.
const AT_ONCE: u64 = 1_000;
/// For how long the processor's time is counted.
const IDLE: Duration = Duration::from_secs(10);
/// Changes, each of which one request waits for.
const CHANGES: u64 = 500;

/// The processor's time that this process has taken, in clock ticks of 10 ms.
fn ticks() -> u64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap();
    let fields = stat.rsplit_once(") ").unwrap().1;
    let of = |at: usize| fields.split(' ').nth(at).unwrap().parse::<u64>().unwrap();
    of(11) + of(12)
}

async fn share_of_a_core() -> f64 {
    let (before, since) = (ticks(), Instant::now());
    tokio::time::sleep(IDLE).await;
    (ticks() - before) as f64 / 100.0 / since.elapsed().as_secs_f64()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "figures, and no verdict: cargo xtask bench waiting"]
async fn figures_of_waiting() {
    let folder = tempfile::tempdir().unwrap();
    let node = alone(&folder);
    create(&node, "a").await;
    create(&node, "b").await;
    let idle = share_of_a_core().await;
    let mut waits = Vec::new();
    for number in 0..WAITERS {
        let asker = node.clone();
        // Half of them wait for the same, half for something of their own.
        let least = if number % 2 == 0 { 1 } else { 1 + number };
        waits.push(tokio::spawn(async move {
            ask(&asker, wait("a", least, WAIT_MAX - Duration::from_secs(1))).await
        }));
        // The queue of the chain's thread takes fewer at once.
        if (number + 1) % AT_ONCE == 0 {
            waiting_are(std::slice::from_ref(&node), number + 1).await;
        }
    }
    let waiting = share_of_a_core().await;
    println!(
        "{WAITERS} waiting requests: {:.2} % of a core; none: {:.2} %",
        100.0 * waiting,
        100.0 * idle
    );

    // As many as a member takes: one gives way to the request that is watched.
    waits.pop().unwrap().abort();
    waiting_are(std::slice::from_ref(&node), WAITERS - 1).await;
    let (mut puts, mut reached) = (Vec::new(), Vec::new());
    for change in 1..=CHANGES {
        let begun = Instant::now();
        add(&node, "b", 1).await.unwrap();
        puts.push(begun.elapsed());
        let waiter = node.clone();
        let awaited = tokio::spawn(async move {
            let answer = ask(&waiter, wait("b", 2 * change, WAIT_MAX / 2)).await;
            (answer, Instant::now())
        });
        waiting_are(std::slice::from_ref(&node), WAITERS).await;
        let begun = Instant::now();
        add(&node, "b", 1).await.unwrap();
        let (answer, at) = awaited.await.unwrap();
        assert_eq!(answer, Ok(Reply::Value(2 * change)));
        reached.push(at - begun);
    }
    let (put, reach) = (median(puts), median(reached));
    println!(
        "a change reaches its waiter in {:.2} × a put (medians {} µs and {} µs; at most 2.00)",
        reach.as_secs_f64() / put.as_secs_f64(),
        reach.as_micros(),
        put.as_micros()
    );
    waits.iter().for_each(tokio::task::JoinHandle::abort);
    waiting_are(std::slice::from_ref(&node), 0).await;
    node.close().await;
}
