//! The years whose services `fader measure bookstore` models: latencies and prices.

use std::time::Duration;

use clap::ValueEnum;
use fader_cloud::model::{Call, Latency, Profile};

/// A year.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Year {
    /// That of the paper's services.
    #[value(name = "2007")]
    Y2007,
    /// This one.
    #[value(name = "2026")]
    Y2026,
}

impl Year {
    /// The price book of the year.
    pub(super) fn book(self) -> &'static str {
        match self {
            Year::Y2007 => "aws-2007",
            Year::Y2026 => "aws-2026",
        }
    }

    /// Latencies as the paper gives them, and of 2026 (docs/reference/figures.md). The paper's: GET
    /// 0.14, 0.45 and 3.87 s for 10, 100 and 1000 KB, a PUT three times that; SQS 0.31, 0.16 and
    /// 0.16 s.
    pub(super) fn profile(self, seed: u64) -> Profile {
        let call = |ms: u64, mib_ms: u64| Call {
            latency: Latency::Constant(Duration::from_millis(ms)),
            per_mib: Duration::from_millis(mib_ms),
            timeout: Duration::from_secs(60),
            ..Call::default()
        };
        let mut profile = Profile {
            seed,
            ..Profile::default()
        };
        let (get, put, [send, receive, remove]) = match self {
            Year::Y2007 => (call(90, 3_775), call(270, 11_325), [310, 160, 160]),
            Year::Y2026 => (call(25, 28), call(30, 28), [10, 10, 10]),
        };
        profile.objects.delete = call(if self == Year::Y2007 { 90 } else { 25 }, 0);
        profile.objects.list = get.clone();
        (profile.objects.get, profile.objects.put) = (get, put);
        profile.queues.send = call(send, 0);
        profile.queues.receive = call(receive, 0);
        profile.queues.remove = call(remove, 0);
        profile.queues.other = call(send, 0);
        profile
    }
}
