//! What each metric is, apart from its values: the reference page shows it.

use prometheus_client::metrics::MetricType;

/// A metric of `/metrics`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct About {
    /// Its name on the page without the prefix `fader_` and without the suffix of its type.
    pub name: &'static str,
    /// What it counts, and in which unit.
    pub help: &'static str,
    /// How its values move.
    pub kind: Kind,
    /// The names of its labels.
    pub labels: &'static [&'static str],
}

/// How the values of a metric move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only grows, from zero at the start of the process.
    Counter,
    /// Grows and falls.
    Gauge,
    /// Counts observations by upper bounds.
    Histogram,
}

impl Kind {
    /// The type as the page names it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        }
    }

    pub(super) fn metric_type(self) -> MetricType {
        match self {
            Kind::Counter => MetricType::Counter,
            Kind::Gauge => MetricType::Gauge,
            Kind::Histogram => MetricType::Histogram,
        }
    }
}

impl About {
    pub(super) const fn new(
        name: &'static str,
        help: &'static str,
        kind: Kind,
        labels: &'static [&'static str],
    ) -> Self {
        About {
            name,
            help,
            kind,
            labels,
        }
    }

    /// The name that a query uses.
    ///
    /// A counter has the suffix `_total`; a histogram has three series, of which this is the count.
    pub fn series(&self) -> String {
        let suffix = match self.kind {
            Kind::Counter => "_total",
            Kind::Gauge => "",
            Kind::Histogram => "_count",
        };
        format!("fader_{}{suffix}", self.name)
    }
}
