//! The generator by hand: which operations begin, at which times.

use super::*;
use crate::schedule::{Arrivals, Rate};

fn open(rate: f64, until: Until) -> Generator {
    let starts = Starts::Rate {
        rate: Rate::Constant(rate),
        arrivals: Arrivals::Constant,
        seed: 0,
    };
    Generator::new(&Load::Open(starts), until, None)
}

fn start(sequence: u64, intended: u64) -> Step {
    Step::Start(Start { sequence, intended })
}

const SECOND: u64 = 1_000_000_000;

/// It shows LOOP-1.
#[test]
fn an_open_loop_keeps_to_its_schedule() {
    let mut generator = open(10.0, Until::Elapsed(Duration::from_millis(350)));
    assert_eq!(generator.step(0), start(0, 0));
    assert_eq!(generator.step(7), Step::Wait(SECOND / 10));
    assert_eq!(generator.step(SECOND / 10), start(1, SECOND / 10));
    // All clients were busy for long: what was due meanwhile is due still, with its own time.
    assert_eq!(generator.step(SECOND), start(2, SECOND / 5));
    assert_eq!(generator.step(SECOND), start(3, 3 * SECOND / 10));
    assert_eq!(generator.step(SECOND), Step::End);
}

#[test]
fn an_open_loop_ends_before_its_time_if_nothing_more_is_due() {
    let mut generator = open(10.0, Until::Elapsed(Duration::from_millis(100)));
    assert_eq!(generator.step(0), start(0, 0));
    assert_eq!(generator.step(1), Step::End);
    let replay = Load::Open(Starts::Replay([5, 5].into()));
    let mut generator = Generator::new(&replay, Until::Operations(9), None);
    assert_eq!(generator.step(0), Step::Wait(5));
    assert_eq!(generator.step(6), start(0, 5));
    assert_eq!(generator.step(6), start(1, 5));
    assert_eq!(generator.step(6), Step::End);
}

#[test]
fn a_closed_loop_begins_when_it_is_asked() {
    let until = Until::Elapsed(Duration::from_nanos(100));
    let mut generator = Generator::new(&Load::Closed, until, None);
    assert_eq!(generator.step(3), start(0, 3));
    assert_eq!(generator.step(99), start(1, 99));
    assert_eq!(generator.step(100), Step::End);
    let mut generator = Generator::new(&Load::Closed, Until::Operations(2), None);
    assert_eq!(generator.step(0), start(0, 0));
    assert_eq!(generator.step(0), start(1, 0));
    assert_eq!(generator.step(0), Step::End);
}

/// It shows LOOP-2.
#[test]
fn errors_end_a_run_only_if_they_are_bounded() {
    let run = |errors_max| {
        let mut generator = Generator::new(&Load::Closed, Until::Operations(9), errors_max);
        let mut begun = 0;
        while let Step::Start(_) = generator.step(0) {
            begun += 1;
            generator.ended(begun % 2 == 0);
        }
        (begun, generator.done())
    };
    assert_eq!(run(None), (9, 4));
    assert_eq!(run(Some(2)), (3, 1));
}

#[test]
fn a_stopped_run_begins_nothing() {
    let mut generator = open(1.0, Until::Operations(9));
    assert_eq!(generator.step(0), start(0, 0));
    generator.stop();
    assert_eq!(generator.step(SECOND), Step::End);
}

/// A service that stops for 1 s in every 10 and else answers in 10 ms, one client, 50 operations a
/// second. The open loop shows what the stop cost those that came meanwhile, the closed loop shows
/// one long answer.
#[test]
fn an_open_loop_sees_what_a_stop_costs() {
    const MILLI: u64 = 1_000_000;
    let answered = |now: u64| {
        let stop = now / (10 * SECOND) * 10 * SECOND + 9 * SECOND;
        let begin = if stop <= now { stop + SECOND } else { now };
        begin + 10 * MILLI
    };
    let run = |load: &Load| {
        let until = Until::Elapsed(Duration::from_secs(100));
        let mut generator = Generator::new(load, until, None);
        let (mut now, mut responses) = (0, Vec::new());
        loop {
            match generator.step(now) {
                Step::Start(start) => {
                    now = answered(now);
                    responses.push((now - start.intended) / MILLI);
                }
                Step::Wait(until) => now = until,
                Step::End => break responses,
            }
        }
    };
    let rate = Rate::Constant(50.0);
    let mut open = run(&Load::Open(Starts::Rate {
        rate,
        arrivals: Arrivals::Constant,
        seed: 0,
    }));
    // In each stop 50 operations are due, 20 ms apart; the first waits 1,010 ms. One client then
    // works off the backlog in 10 ms each while others come each 20 ms. The 100 from the stop's
    // beginning on wait, by 1010, 1000, 990 and so on. The run ends with the tenth stop, of whose
    // 100 it begins 50.
    let mut exact: Vec<u64> = [100; 9]
        .into_iter()
        .chain([50])
        .flat_map(|count| (0..count).map(|at| 1010 - 10 * at))
        .collect();
    exact.resize(5000, 10);
    open.sort_unstable();
    exact.sort_unstable();
    assert_eq!(open, exact);
    let share = |responses: &[u64]| {
        let slow = responses.iter().filter(|response| 10 < **response).count();
        (slow, responses.len())
    };
    assert_eq!(share(&open), (950, 5000));
    // The same stops, seen by a client that does not ask while it waits.
    assert_eq!(share(&run(&Load::Closed)), (10, 9001));
}
