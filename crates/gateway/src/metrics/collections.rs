//! What services show of collections, by account and name: of so many, and of the others together.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use fader_services::catalog::AccountId;
use fader_services::figures::{Figure, Figures, Joined};
use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet};

use super::about::{About, Kind};
use super::node::encode_value;

/// Collections that are shown by name; the others share one series, without a name.
pub(crate) const COLLECTIONS_SHOWN: usize = 1_000;

const LABELS: &[&str] = &["account", "queue"];
const EMPTY_RECEIVES: About = About::new(
    "sqs_empty_receives",
    "Receives that were answered here without a message",
    Kind::Counter,
    LABELS,
);

fn kind_of(figure: &Figure) -> Kind {
    match figure.joined {
        Joined::Total => Kind::Counter,
        Joined::Sum | Joined::Max => Kind::Gauge,
    }
}

/// All metrics of collections.
pub(super) fn about() -> Vec<About> {
    let figures = fader_services::request::FIGURES.iter();
    let figures = figures.map(|it| About::new(it.name, it.help, kind_of(it), LABELS));
    figures.chain([EMPTY_RECEIVES]).collect()
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, EncodeLabelSet)]
struct QueueLabels {
    account: String,
    queue: String,
}

impl QueueLabels {
    /// Those of all others.
    fn others() -> Self {
        QueueLabels {
            account: String::new(),
            queue: String::new(),
        }
    }
}

/// The figures of the page that is made.
#[derive(Clone, Debug, Default)]
pub(super) struct Collections(Arc<Mutex<Figures>>);

impl Collections {
    pub(super) fn set(&self, figures: Figures) {
        *self.0.lock() = figures;
    }
}

impl Collector for Collections {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let figures = self.0.lock();
        for (at, figure) in figures.figures.iter().enumerate() {
            let kind = kind_of(figure);
            let named = figures.shown.iter().map(|shown| {
                let labels = QueueLabels {
                    account: shown.account.0.clone(),
                    queue: shown.name.clone(),
                };
                (labels, shown.values[at])
            });
            let others = figures.others.get(at);
            let others = others.map(|value| (QueueLabels::others(), *value));
            let values: Vec<_> = named.chain(others).collect();
            if values.is_empty() {
                continue;
            }
            let mut family =
                encoder.encode_descriptor(figure.name, figure.help, None, kind.metric_type())?;
            for (labels, value) in values {
                encode_value(kind, value, family.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}

/// Counts by queue; queues beyond [`COLLECTIONS_SHOWN`] are counted together.
#[derive(Debug, Default)]
pub(crate) struct ByQueue(Mutex<BTreeMap<QueueLabels, u64>>);

impl ByQueue {
    /// Counts one.
    pub(crate) fn count(&self, account: &AccountId, queue: String) {
        let labels = QueueLabels {
            account: account.0.clone(),
            queue,
        };
        let mut counts = self.0.lock();
        let labels = match counts.len() < COLLECTIONS_SHOWN || counts.contains_key(&labels) {
            true => labels,
            false => QueueLabels::others(),
        };
        *counts.entry(labels).or_default() += 1;
    }

    /// Forgets a queue that is gone, so that another one has its place.
    pub(crate) fn forget(&self, account: &AccountId, queue: String) {
        let labels = QueueLabels {
            account: account.0.clone(),
            queue,
        };
        self.0.lock().remove(&labels);
    }
}

/// The receives without a message.
#[derive(Debug)]
pub(super) struct EmptyReceives(pub(super) Arc<ByQueue>);

impl Collector for EmptyReceives {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let counts = self.0.0.lock();
        if counts.is_empty() {
            return Ok(());
        }
        let About {
            name, help, kind, ..
        } = EMPTY_RECEIVES;
        let mut family = encoder.encode_descriptor(name, help, None, kind.metric_type())?;
        for (labels, count) in &*counts {
            encode_value(kind, *count, family.encode_family(labels)?)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_beyond_the_most_are_counted_together() {
        let counts = ByQueue::default();
        let account = AccountId("1".to_owned());
        for at in 0..COLLECTIONS_SHOWN + 5 {
            counts.count(&account, format!("queue-{at}"));
        }
        counts.count(&account, "queue-0".to_owned());
        let of = |labels: &QueueLabels| counts.0.lock().get(labels).copied();
        let named = |queue: &str| QueueLabels {
            account: "1".to_owned(),
            queue: queue.to_owned(),
        };
        assert_eq!(of(&QueueLabels::others()), Some(5));
        assert_eq!(of(&named("queue-0")), Some(2));
        counts.forget(&account, "queue-0".to_owned());
        assert_eq!(of(&named("queue-0")), None);
    }
}
