//! Counting of attempts: each HTTP request that may have left counts once, when it ends, however it
//! ends.
//!
//! Invariants:
//! - TALLY-1 an attempt that certainly never left counts for nothing; a repetition counts again.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};

use fader_cloud::{Meter, RequestKind, WireRequest};

/// For whom requests count, and as what.
#[derive(Clone, Debug)]
pub(crate) struct Tally {
    pub(crate) meter: Meter,
    pub(crate) kind: RequestKind,
}

/// One attempt; it counts when it is dropped.
pub(crate) struct Attempt {
    meter: Option<Meter>,
    request: Mutex<WireRequest>,
    /// Whether any of the request may have left.
    pub(crate) is_sent: AtomicBool,
}

impl Attempt {
    /// An attempt with a body of this size; without a tally it does not count.
    pub(crate) fn new(tally: Option<&Tally>, sent_bytes: u64) -> Self {
        let kind = tally.map_or(RequestKind::ObjectGet, |tally| tally.kind);
        Attempt {
            meter: tally.map(|tally| tally.meter.clone()),
            request: Mutex::new(WireRequest {
                sent_bytes,
                ..WireRequest::new(kind, None)
            }),
            is_sent: AtomicBool::new(false),
        }
    }

    /// The head of the answer is there.
    pub(crate) fn answered(&self, status: u16) {
        self.request().status = Some(status);
    }

    /// So many bytes of the answer's body are there, or will be.
    pub(crate) fn received(&self, bytes: u64) {
        self.request().received_bytes += bytes;
    }

    /// The whole answer of a service whose body may tell a machine time.
    pub(crate) fn answered_whole(&self, status: u16, body: &[u8]) {
        self.answered(status);
        self.received(body.len() as u64);
        let mut request = self.request();
        request.box_usage = match request.kind {
            RequestKind::DomainRead | RequestKind::DomainWrite | RequestKind::DomainOther => {
                box_usage(body)
            }
            _ => 0,
        };
    }

    fn request(&self) -> MutexGuard<'_, WireRequest> {
        self.request
            .lock()
            .expect("nothing panics while it is locked")
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        if let (Some(meter), true) = (&self.meter, self.is_sent.load(Ordering::Relaxed)) {
            meter.count(&self.request());
        }
    }
}

/// SimpleDB's machine time, in 10⁻¹⁰ hours; 0 if the answer tells none.
fn box_usage(body: &[u8]) -> u64 {
    const BEGIN: &[u8] = b"<BoxUsage>";
    let found = body.windows(BEGIN.len()).position(|bytes| bytes == BEGIN);
    let hours = found.and_then(|at| {
        let rest = &body[at + BEGIN.len()..];
        let end = rest.iter().position(|byte| *byte == b'<')?;
        std::str::from_utf8(&rest[..end]).ok()?.parse::<f64>().ok()
    });
    // A float beyond what the integer holds is cut off there; a negative one is 0.
    (hours.unwrap_or_default() * 1e10).round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// It shows TALLY-1.
    #[test]
    fn sent_requests_count_once_and_unsent_ones_do_not() {
        let meter = Meter::default();
        let tally = Tally {
            meter: meter.clone(),
            kind: RequestKind::DomainRead,
        };
        drop(Attempt::new(Some(&tally), 1));
        assert_eq!(meter.usage().requests(), 0);
        let attempt = Attempt::new(Some(&tally), 7);
        attempt.is_sent.store(true, Ordering::Relaxed);
        attempt.answered_whole(200, b"<a><BoxUsage>0.0000219961</BoxUsage></a>");
        assert_eq!(meter.usage().requests(), 0);
        drop(attempt);
        let count = meter.usage().of(RequestKind::DomainRead);
        assert_eq!((count.requests, count.sent_bytes), (1, 7));
        assert_eq!((count.received_bytes, count.box_usage), (40, 219_961));
    }

    #[test]
    fn an_answer_without_machine_time_has_none() {
        for body in [
            "",
            "<BoxUsage>",
            "<BoxUsage>x</BoxUsage>",
            "<BoxUsage>-1</BoxUsage>",
        ] {
            assert_eq!(box_usage(body.as_bytes()), 0, "{body}");
        }
    }
}
