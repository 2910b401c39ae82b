//! What is simulated: services, how they change, and what is asked of them.

/// Nanoseconds since the start.
pub(super) type Moment = u64;

/// What limits a service.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// So many requests a second, after a burst; what is beyond is refused at once.
    Rate {
        /// Requests a second.
        rate: f64,
        /// Requests that it takes at once after a rest.
        burst: f64,
    },
    /// So many requests at a time, and so many that wait; what is beyond is refused at once.
    Slots {
        /// Requests worked on.
        slots: u32,
        /// Requests that wait.
        queue: u32,
    },
    /// Work shared by all that are there: as fast as `slots` of them alone; nothing is refused.
    Sharing {
        /// Requests that do not slow each other down.
        slots: u32,
    },
}

/// How the service says that it has enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// With 503.
    Unavailable,
    /// With 503 and a time to wait, in milliseconds.
    RetryAfter(u32),
    /// Not at all.
    Silence,
}

/// A service and the way to it.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Its limit.
    pub kind: Kind,
    /// Seconds of work of a request, on average; exponential.
    pub work: f64,
    /// Seconds to the service and back.
    pub round_trip: f64,
    /// How it refuses.
    pub refusal: Refusal,
    /// The share of answers that are errors of its own.
    pub errors: f64,
}

/// Something that changes.
#[derive(Clone, Copy, Debug)]
pub enum Change {
    /// The capacity becomes this part of what it was at the start.
    Capacity(f64),
    /// Seconds to the service and back.
    RoundTrip(f64),
}

/// What clients have to do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum OfferedLoad {
    /// There is always more.
    Endless,
    /// So many requests a second in all, at random.
    PerSecond(f64),
}

/// One row of the matrix.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    /// Its name.
    pub name: &'static str,
    /// The service.
    pub shape: Shape,
    /// What changes, and after how many seconds.
    pub changes: &'static [(f64, Change)],
    /// What is asked.
    pub demand: OfferedLoad,
    /// Seconds from which on it is measured, and how long.
    pub measured: (f64, f64),
    /// Seconds that an attempt may take.
    pub timeout: f64,
}

impl Scenario {
    /// The most requests a second, on average over what is measured.
    pub fn capacity(&self) -> f64 {
        let (start, span) = self.measured;
        let end = start + span;
        let mut total = 0.0;
        let (mut from, mut factor) = (0.0_f64, 1.0);
        let changes = self.changes.iter().filter_map(|(at, change)| match change {
            Change::Capacity(factor) => Some((*at, *factor)),
            Change::RoundTrip(_) => None,
        });
        for (at, next) in changes.chain([(f64::INFINITY, 0.0)]) {
            let (low, high) = (from.max(start), at.min(end));
            total += (high - low).max(0.0) * factor;
            (from, factor) = (at, next);
        }
        let most = self.shape.most() * total / span;
        match self.demand {
            OfferedLoad::Endless => most,
            OfferedLoad::PerSecond(rate) => rate.min(most),
        }
    }
}

impl Shape {
    /// The most requests a second.
    pub fn most(&self) -> f64 {
        let good = 1.0 - self.errors;
        good * match self.kind {
            Kind::Rate { rate, .. } => rate,
            Kind::Slots { slots, .. } | Kind::Sharing { slots } => f64::from(slots) / self.work,
        }
    }

    /// Whether an answer can take longer than an attempt may.
    pub(super) fn may_be_late(&self) -> bool {
        self.refusal == Refusal::Silence || matches!(self.kind, Kind::Sharing { .. })
    }

    /// The median latency without a queue, in seconds.
    pub fn median(&self) -> f64 {
        self.round_trip + self.work * std::f64::consts::LN_2
    }
}

const RATE: Shape = Shape {
    kind: Kind::Rate {
        rate: 1_000.0,
        burst: 100.0,
    },
    work: 0.020,
    round_trip: 0.020,
    refusal: Refusal::Unavailable,
    errors: 0.0,
};

const STEADY: Scenario = Scenario {
    name: "rate 1,000/s, burst 100",
    shape: RATE,
    changes: &[],
    demand: OfferedLoad::Endless,
    measured: (10.0, 40.0),
    timeout: 1.0,
};

/// The same for a shorter time: where clients need not come to equal shares.
const SHORT: Scenario = Scenario {
    measured: (10.0, 20.0),
    ..STEADY
};

/// Nothing is taken for five seconds.
const OUTAGE: &[(f64, Change)] = &[(15.0, Change::Capacity(0.0)), (20.0, Change::Capacity(1.0))];

const fn kind(kind: Kind) -> Shape {
    Shape { kind, ..RATE }
}

const fn rate(rate: f64, burst: f64) -> Shape {
    kind(Kind::Rate { rate, burst })
}

/// The rows of the matrix, on which the default rule was tuned.
pub const SCENARIOS: [Scenario; 17] = [
    STEADY,
    Scenario {
        name: "rate 1,000/s, burst 10",
        shape: rate(1_000.0, 10.0),
        ..STEADY
    },
    Scenario {
        name: "rate 10,000/s, burst 1,000",
        shape: rate(10_000.0, 1_000.0),
        measured: (5.0, 10.0),
        ..STEADY
    },
    Scenario {
        name: "rate 10/s, burst 2",
        shape: rate(10.0, 2.0),
        measured: (20.0, 100.0),
        ..STEADY
    },
    Scenario {
        name: "32 slots, no queue",
        shape: kind(Kind::Slots {
            slots: 32,
            queue: 0,
        }),
        ..SHORT
    },
    Scenario {
        name: "32 slots, queue 200",
        shape: kind(Kind::Slots {
            slots: 32,
            queue: 200,
        }),
        ..SHORT
    },
    Scenario {
        name: "latency grows with load",
        shape: kind(Kind::Sharing { slots: 20 }),
        ..SHORT
    },
    Scenario {
        name: "round trip 20, 100, 20 ms",
        changes: &[
            (15.0, Change::RoundTrip(0.1)),
            (30.0, Change::RoundTrip(0.02)),
        ],
        ..STEADY
    },
    Scenario {
        name: "capacity 1,000, 300, 1,000/s",
        changes: &[(15.0, Change::Capacity(0.3)), (30.0, Change::Capacity(1.0))],
        ..STEADY
    },
    Scenario {
        name: "capacity 1,000, 0, 1,000/s",
        changes: OUTAGE,
        ..STEADY
    },
    Scenario {
        name: "rate 1,000/s, silent beyond",
        shape: Shape {
            refusal: Refusal::Silence,
            ..RATE
        },
        ..SHORT
    },
    Scenario {
        name: "rate 1,000/s, Retry-After 1 s",
        shape: Shape {
            refusal: Refusal::RetryAfter(1_000),
            ..RATE
        },
        ..SHORT
    },
    Scenario {
        name: "capacity 1,000, 0, 1,000/s, Retry-After 1 s",
        shape: Shape {
            refusal: Refusal::RetryAfter(1_000),
            ..RATE
        },
        changes: OUTAGE,
        ..STEADY
    },
    Scenario {
        name: "rate 1,000/s, 5 % errors",
        shape: Shape {
            errors: 0.05,
            ..RATE
        },
        ..SHORT
    },
    Scenario {
        name: "demand 800/s of 1,000/s",
        demand: OfferedLoad::PerSecond(800.0),
        ..SHORT
    },
    Scenario {
        name: "seed: gets, 1,300/s, 113 ms",
        shape: Shape {
            work: 0.020,
            round_trip: 0.093,
            ..rate(1_300.0, 100.0)
        },
        ..SHORT
    },
    Scenario {
        name: "seed: puts, 75/s, 113 ms",
        shape: Shape {
            work: 0.020,
            round_trip: 0.093,
            ..rate(75.0, 10.0)
        },
        measured: (10.0, 50.0),
        ..STEADY
    },
];

const fn far(rate: f64, burst: f64, round_trip: f64) -> Shape {
    Shape {
        round_trip,
        ..self::rate(rate, burst)
    }
}

/// Services that nothing was tuned on: other capacities, distances and times of work. No parameter
/// may be chosen by what comes out here.
pub const HOLDOUT: [Scenario; 14] = [
    Scenario {
        name: "rate 500/s, burst 50, 100 ms",
        shape: far(500.0, 50.0, 0.080),
        ..STEADY
    },
    Scenario {
        name: "rate 3,000/s, burst 30, 15 ms",
        shape: Shape {
            work: 0.010,
            ..far(3_000.0, 30.0, 0.005)
        },
        ..SHORT
    },
    Scenario {
        name: "rate 200/s, burst 20, 170 ms",
        shape: far(200.0, 20.0, 0.150),
        ..STEADY
    },
    Scenario {
        name: "rate 2,000/s, burst 20, 60 ms",
        shape: far(2_000.0, 20.0, 0.040),
        ..SHORT
    },
    Scenario {
        name: "64 slots of 10 ms, no queue, 40 ms",
        shape: Shape {
            kind: Kind::Slots {
                slots: 64,
                queue: 0,
            },
            work: 0.010,
            round_trip: 0.040,
            ..RATE
        },
        ..SHORT
    },
    Scenario {
        name: "16 slots of 50 ms, queue 100, 10 ms",
        shape: Shape {
            kind: Kind::Slots {
                slots: 16,
                queue: 100,
            },
            work: 0.050,
            round_trip: 0.010,
            ..RATE
        },
        ..SHORT
    },
    Scenario {
        name: "latency grows beyond 50 of 40 ms",
        shape: Shape {
            kind: Kind::Sharing { slots: 50 },
            work: 0.040,
            ..RATE
        },
        ..SHORT
    },
    Scenario {
        name: "capacity 2,000, 500, 2,000/s, 60 ms",
        shape: far(2_000.0, 200.0, 0.040),
        changes: &[
            (20.0, Change::Capacity(0.25)),
            (30.0, Change::Capacity(1.0)),
        ],
        ..STEADY
    },
    Scenario {
        name: "round trip 30, 90 ms, rate 800/s",
        shape: far(800.0, 80.0, 0.030),
        changes: &[(20.0, Change::RoundTrip(0.090))],
        ..STEADY
    },
    Scenario {
        name: "rate 800/s, 2 % errors, Retry-After 2 s",
        shape: Shape {
            errors: 0.02,
            refusal: Refusal::RetryAfter(2_000),
            ..far(800.0, 80.0, 0.050)
        },
        ..SHORT
    },
    Scenario {
        name: "rate 30/s, burst 6, 60 ms",
        shape: far(30.0, 6.0, 0.040),
        measured: (20.0, 100.0),
        ..STEADY
    },
    Scenario {
        name: "rate 100/s, burst 8, 140 ms",
        shape: far(100.0, 8.0, 0.120),
        measured: (10.0, 50.0),
        ..STEADY
    },
    Scenario {
        name: "capacity 60, 20, 60/s, 70 ms",
        shape: far(60.0, 8.0, 0.050),
        changes: &[
            (40.0, Change::Capacity(1.0 / 3.0)),
            (70.0, Change::Capacity(1.0)),
        ],
        measured: (20.0, 100.0),
        ..STEADY
    },
    Scenario {
        name: "demand 300/s of 500/s, 100 ms",
        shape: far(500.0, 50.0, 0.080),
        demand: OfferedLoad::PerSecond(300.0),
        ..SHORT
    },
];
