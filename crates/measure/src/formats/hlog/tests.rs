//! Interval logs as their own reader reads them.

use fader_history::object::{Operation, Outcome, Reply, Request, Verb};
use fader_history::{Header, Moment};
use hdrhistogram::serialization::Deserializer;
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

use super::*;

const MS: u64 = 1_000_000;

fn operation(intended: u64, returned: u64, level: &str, is_done: bool) -> Operation {
    let outcome = match is_done {
        true => Outcome::Done(Reply::default()),
        false => Outcome::Unknown,
    };
    Operation {
        process: 0,
        session: None,
        endpoint: "model".into(),
        name: None,
        attempt: 1,
        level: level.into(),
        intended: Moment::at(intended * MS),
        // Waited for its turn, which counts.
        called: Moment::at(returned * MS),
        action: Request {
            key: "x".into(),
            verb: Verb::Read,
        },
        end: Some((Moment::at(returned * MS), outcome)),
        price: None,
    }
}

#[test]
fn each_second_and_level_has_its_histogram() {
    let log = Log {
        header: Header::default(),
        operations: vec![
            operation(0, 10, "strong", true),
            operation(100, 120, "strong", true),
            operation(100, 130, "eventual; r=2", true),
            operation(2_000, 2_040, "strong", true),
            operation(2_000, 2_900, "strong", false),
        ],
    };
    let mut text = Vec::new();
    write_hlog(&log, &mut text).unwrap();
    let mut found = Vec::new();
    for entry in IntervalLogIterator::new(&text) {
        let LogEntry::Interval(interval) = entry.unwrap() else {
            continue;
        };
        let bytes = base64_of(interval.encoded_histogram());
        let mut bytes = bytes.as_slice();
        let histogram: Histogram<u64> = Deserializer::new().deserialize(&mut bytes).unwrap();
        found.push((
            interval.start_timestamp().as_secs(),
            interval.tag().unwrap().as_str().to_owned(),
            histogram.len(),
            histogram.max() / MS,
        ));
    }
    let expected = [
        (0, "eventual;_r=2", 1, 30),
        (0, "strong", 2, 20),
        (2, "strong", 1, 40),
    ];
    let expected = expected.map(|(second, tag, count, most)| (second, tag.to_owned(), count, most));
    assert_eq!(found, expected);
}

fn base64_of(text: &str) -> Vec<u8> {
    let digit = |octet: u8| match octet {
        b'A'..=b'Z' => octet - b'A',
        b'a'..=b'z' => octet - b'a' + 26,
        b'0'..=b'9' => octet - b'0' + 52,
        b'+' => 62,
        _ => 63,
    };
    let digits: Vec<u8> = text.bytes().filter(|octet| *octet != b'=').collect();
    let mut bytes = Vec::new();
    for four in digits.chunks(4) {
        let bits = four
            .iter()
            .fold(0_u32, |bits, octet| bits << 6 | u32::from(digit(*octet)));
        let bits = bits << (6 * (4 - four.len()));
        bytes.extend(&bits.to_be_bytes()[1..four.len()]);
    }
    bytes
}
