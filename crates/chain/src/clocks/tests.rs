//! When a process gives up its leases for its clock's sake, and when it does not.

use super::*;

const SESSION: Duration = Duration::from_secs(2);
/// A frame every S/10.
const PACE: u64 = 200;

/// A process among peers whose clocks run on, with frames that take `delay` milliseconds.
struct Bench {
    clocks: Clocks,
    /// Real time, and by how much the process's clock is behind it, in milliseconds.
    real: u64,
    behind: u64,
    delay: u64,
    /// By how much each peer's clock is ahead of real time.
    peers: Vec<(NodeId, u64)>,
}

impl Bench {
    fn new(peers: u32) -> Self {
        Bench {
            clocks: Clocks::new(SESSION),
            real: 1_000_000,
            behind: 0,
            delay: 2,
            peers: (1..=peers)
                .map(|node| (NodeId(node), 77_000 * u64::from(node)))
                .collect(),
        }
    }

    fn now(&self) -> u64 {
        self.real - self.behind
    }

    /// Each peer shows its clock once; the alarms that come of it.
    fn round(&mut self) -> Vec<Alarm> {
        self.real += PACE;
        self.frames(self.peers.len())
    }

    /// The first `count` peers show their clocks.
    fn frames(&mut self, count: usize) -> Vec<Alarm> {
        let (now, sent) = (self.now(), self.real - self.delay);
        let shown = self.peers[..count].iter();
        let shown: Vec<_> = shown.map(|(node, ahead)| (*node, sent + ahead)).collect();
        let frames = shown
            .into_iter()
            .filter_map(|(node, shown)| self.clocks.on_frame(now, node, frame(1, shown)));
        frames.collect()
    }

    fn rounds(&mut self, count: usize) -> Vec<Alarm> {
        (0..count).flat_map(|_| self.round()).collect()
    }

    /// The machine of the process is paused, and its clock with it.
    fn stop(&mut self, ms: u64) {
        self.real += ms;
        self.behind += ms;
    }
}

fn frame(incarnation: u128, clock_ms: u64) -> Frame {
    Frame {
        incarnation: Incarnation(incarnation),
        stops: 0,
        clock_ms,
    }
}

/// One alarm, of as much as the clock stood still, and what rho may have added.
fn assert_behind(alarms: &[Alarm], ms: u64) {
    let [Alarm::Behind { by_ms }] = alarms else {
        panic!("{alarms:?}");
    };
    assert!((ms..ms + 10).contains(by_ms), "{by_ms} for {ms}");
}

#[test]
fn a_clock_that_goes_on_raises_no_alarm() {
    for peers in 1..6 {
        let mut bench = Bench::new(peers);
        assert_eq!(bench.rounds(3_000), []);
        assert!(bench.clocks.holds(bench.now()));
    }
}

#[test]
fn the_first_frame_after_a_stop_ends_the_leases_that_were_pinged_for_before() {
    let mut bench = Bench::new(2);
    bench.rounds(20);
    let pinged = bench.now();
    assert!(bench.clocks.holds(pinged));
    bench.stop(600);
    let alarms = bench.frames(1);
    assert_behind(&alarms, 600);
    assert!(!bench.clocks.holds(pinged));
    assert!(!bench.clocks.holds(bench.now()), "sent in the same moment");
    assert!(bench.clocks.holds(bench.now() + 1));
}

#[test]
fn a_stop_of_less_than_a_quarter_of_a_session_is_borne() {
    let mut bench = Bench::new(2);
    bench.rounds(20);
    bench.stop(490);
    assert_eq!(bench.rounds(20), []);
    bench.stop(501);
    assert_ne!(bench.rounds(1), []);
}

#[test]
fn stops_within_one_lease_add_up() {
    let mut bench = Bench::new(2);
    bench.rounds(20);
    let pinged = bench.now();
    bench.stop(260);
    assert_eq!(bench.round(), []);
    bench.stop(260);
    assert_ne!(bench.round(), []);
    assert!(!bench.clocks.holds(pinged));
}

#[test]
fn stops_that_are_leases_apart_do_not_add_up() {
    let mut bench = Bench::new(2);
    bench.rounds(20);
    for _ in 0..10 {
        bench.stop(300);
        assert_eq!(bench.rounds(15), [], "1.5 S later no lease is older");
    }
}

#[test]
fn half_of_the_peers_must_be_ahead() {
    let mut bench = Bench::new(4);
    bench.rounds(20);
    // A clock that jumps is not believed alone.
    bench.peers[0].1 += 100_000;
    assert_eq!(bench.rounds(40), []);
    bench.peers[1].1 += 700;
    assert_eq!(bench.rounds(40), [], "the first has long been as it is");
    bench.stop(800);
    assert_eq!(bench.frames(1), []);
    assert_behind(&bench.frames(2), 800);
}

#[test]
fn a_peer_that_is_silent_or_gone_does_not_count() {
    let mut bench = Bench::new(4);
    bench.rounds(20);
    // Three of four fall silent for more than a session.
    for _ in 0..20 {
        bench.real += PACE;
        assert_eq!(bench.frames(1), []);
    }
    bench.stop(600);
    assert_ne!(bench.frames(1), []);
    let mut bench = Bench::new(4);
    bench.rounds(20);
    bench.clocks.retain(|node| node == NodeId(1));
    bench.stop(600);
    assert_ne!(bench.frames(1), []);
}

/// It shows CK-3.
#[test]
fn another_life_of_a_peer_is_compared_with_nothing() {
    let mut bench = Bench::new(1);
    bench.rounds(20);
    let (now, node) = (bench.now(), NodeId(1));
    let mut show =
        |incarnation, at, shown| bench.clocks.on_frame(at, node, frame(incarnation, shown));
    assert_eq!(show(2, now, 9_000_000), None);
    assert_eq!(show(2, now + 200, 9_000_200), None);
    assert_eq!(show(3, now + 400, 5), None, "its machine began anew");
    assert!(show(3, now + 600, 905).is_some());
}

/// Else the best would be what the peer showed before its clock stood still, for minutes.
/// It shows CK-3.
#[test]
fn a_peer_whose_clock_stood_still_is_compared_with_what_it_shows_since() {
    let mut bench = Bench::new(1);
    bench.rounds(20);
    bench.peers[0].1 -= 5_000;
    let mut show = |stops| {
        bench.real += PACE;
        let frame = Frame {
            stops,
            ..frame(1, bench.real - 2 + bench.peers[0].1)
        };
        bench
            .clocks
            .on_frame(bench.real - bench.behind, NodeId(1), frame)
    };
    assert_eq!((show(0), show(1), show(1)), (None, None, None));
    let pinged = bench.now();
    bench.stop(600);
    let frame = Frame {
        stops: 1,
        ..frame(1, bench.real - 2 + bench.peers[0].1)
    };
    assert!(
        bench
            .clocks
            .on_frame(bench.now(), NodeId(1), frame)
            .is_some()
    );
    assert!(!bench.clocks.holds(pinged));
    assert_eq!(bench.clocks.frame(Incarnation(7), 5).stops, 1);
}

#[test]
fn frames_that_come_late_or_in_a_heap_raise_no_alarm() {
    let mut bench = Bench::new(2);
    bench.rounds(20);
    bench.delay = 3_000;
    assert_eq!(bench.rounds(5), []);
    bench.delay = 2;
    assert_eq!(bench.rounds(20), []);
}

/// CK-1, for each time at which the stop may begin, also with the next frames late.
#[test]
fn a_stop_is_seen_whenever_it_begins() {
    for rounds in 3..40 {
        for delay in [0, 50, 499] {
            let mut bench = Bench::new(3);
            bench.rounds(rounds);
            let pinged = bench.now();
            bench.stop(1_000);
            bench.delay = delay;
            let alarms = bench.frames(2);
            assert_eq!(alarms.len(), 1, "{rounds} rounds, {delay} ms late");
            assert!(!bench.clocks.holds(pinged));
        }
    }
}

#[test]
fn rates_within_rho_raise_no_alarm_of_a_stop_though_frames_are_seldom() {
    for ppm in [-1_000_i64, 1_000] {
        let mut clocks = Clocks::new(SESSION);
        for second in 1..20_000_u64 {
            let real = 1_000_000_000 + second * 1_000_000;
            let shown = real.cast_signed() + real.cast_signed() / 1_000_000 * ppm;
            // This clock is wrong in the other direction.
            let now = real.cast_signed() - real.cast_signed() / 1_000_000 * ppm;
            let frame = frame(1, shown.unsigned_abs() / 1_000);
            let alarm = clocks.on_frame(now.unsigned_abs() / 1_000, NodeId(1), frame);
            assert!(
                !matches!(alarm, Some(Alarm::Behind { .. })),
                "{ppm} {second}"
            );
        }
    }
}

#[test]
fn drift_beyond_half_of_rho_is_told_and_less_is_not() {
    for (ppm, is_told) in [(400, false), (-400, false), (700, true), (-700, true)] {
        let mut clocks = Clocks::new(SESSION);
        let mut told = Vec::new();
        for round in 1..3_000_u64 {
            let real = 1_000_000_000 + round * PACE * 1_000;
            let shown = real.cast_signed() + real.cast_signed() / 1_000_000 * ppm;
            let late = 1 + round % 7;
            let frame = frame(1, shown.unsigned_abs() / 1_000 - late);
            told.extend(clocks.on_frame(real / 1_000, NodeId(1), frame));
        }
        assert_eq!(!told.is_empty(), is_told, "{ppm}: {told:?}");
        for alarm in told {
            let Alarm::Drift { ppm: found } = alarm else {
                panic!("{alarm:?}");
            };
            assert!((found - ppm).abs() < 150, "{found} for {ppm}");
        }
    }
}

/// Its frames may have been lost with their connection, which is not made again. It shows CK-4.
#[test]
fn a_peer_that_knows_no_session_of_this_process_counts_as_one_that_is_ahead() {
    let mut bench = Bench::new(4);
    bench.rounds(20);
    let (now, clocks) = (bench.now(), &mut bench.clocks);
    assert_eq!(clocks.on_refused(now, NodeId(1)), None);
    assert_eq!(
        clocks.on_refused(now, NodeId(9)),
        None,
        "it never was heard"
    );
    assert_eq!(
        clocks.on_refused(now, NodeId(2)),
        Some(Alarm::Behind { by_ms: 500 })
    );
    assert!(!clocks.holds(now) && clocks.holds(now + 1));
    // One that refuses alone, again and again, is not believed.
    for _ in 0..9 {
        let now = bench.now();
        assert_eq!(bench.clocks.on_refused(now, NodeId(3)), None);
        assert_eq!(bench.rounds(1), []);
    }
}

#[test]
fn a_reading_beyond_all_bounds_is_passed_over() {
    let mut clocks = Clocks::new(SESSION);
    for shown in [0, u64::MAX, 1 << 51, 5] {
        assert_eq!(clocks.on_frame(1_000, NodeId(1), frame(1, shown)), None);
    }
    assert!(clocks.holds(0));
}
