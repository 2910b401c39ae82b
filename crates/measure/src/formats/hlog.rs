//! HdrHistogram's interval logs: response times of operations that were done, a histogram for each
//! second of returns. HdrHistogram's own tools read them.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::time::Duration;

use fader_history::{Action, Clock, Log};
use hdrhistogram::Histogram;
use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};

/// One hour, and an error of at most 0.1 %.
const NANOS_MAX: u64 = 3_600_000_000_000;
const DIGITS: u8 = 3;
/// Nanoseconds in a millisecond, the unit of the log's greatest values.
const MILLI: f64 = 1e6;

/// Writes a log's response times, each level's under a tag of its own if there are several.
///
/// # Errors
/// The output's.
pub fn write_hlog<A: Action>(log: &Log<A>, mut out: impl Write) -> io::Result<()> {
    let mut seconds: BTreeMap<(u64, String), Histogram<u64>> = BTreeMap::new();
    for operation in &log.operations {
        let Some((returned, _)) = operation.done() else {
            continue;
        };
        // Tags have no separators of the format.
        let level = operation.level.to_string();
        let tag = level.replace([',', ' ', '\n', '\r', '\t'], "_");
        let second = returned.nanos / 1_000_000_000;
        let histogram = seconds.entry((second, tag)).or_insert_with(|| {
            Histogram::new_with_max(NANOS_MAX, DIGITS).expect("the bounds are sound")
        });
        histogram.saturating_record(returned.since(operation.intended).unsigned_abs());
    }
    let start = match log.header.clock {
        Clock::Monotonic { start_unix_nanos } => Duration::from_nanos(start_unix_nanos),
        Clock::Virtual => Duration::ZERO,
    };
    let mut serializer = V2DeflateSerializer::new();
    let mut writer = IntervalLogWriterBuilder::new()
        .add_comment("response times in nanoseconds")
        .with_start_time(std::time::UNIX_EPOCH + start)
        .with_base_time(std::time::UNIX_EPOCH + start)
        .with_max_value_divisor(MILLI)
        .begin_log_with(&mut out, &mut serializer)?;
    for ((second, tag), histogram) in &seconds {
        let written = writer.write_histogram(
            histogram,
            Duration::from_secs(*second),
            Duration::from_secs(1),
            Tag::new(tag).filter(|_| !tag.is_empty()),
        );
        written.map_err(|error| io::Error::other(format!("{error:?}")))?;
    }
    drop(writer);
    out.flush()
}

#[cfg(test)]
mod tests;
