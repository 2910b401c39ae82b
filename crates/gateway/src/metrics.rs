//! What `/metrics` shows, in OpenMetrics text.
//!
//! Label values come from closed lists (actions, codes), but for the names of collections, of which
//! there are at most so many. So no client can make the page grow. Handles of SimpleDB's actions
//! are resolved once: such a request that succeeds looks up nothing.

mod about;
mod collections;
mod node;

use std::sync::Arc;
use std::time::Duration;

use fader_node::Node;
use fader_services::figures::Figures;
use fader_services::simpledb::Code;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Metric, Registry};

use crate::simpledb::Action;
pub use about::{About, Kind};
pub(crate) use collections::COLLECTIONS_SHOWN;
use collections::{ByQueue, Collections, EmptyReceives};
use node::NodeCollector;

/// Upper bounds of the latency histogram, in seconds.
const LATENCY_BOUNDS_S: [f64; 16] = [
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5,
    5.0, 10.0,
];

const REQUESTS: About = About::new(
    "requests",
    "Requests by action and code",
    Kind::Counter,
    &["action", "code"],
);
const REQUEST_DURATION: About = About::new(
    "request_duration_seconds",
    "Time from a request's body to its reply, of requests with a known action",
    Kind::Histogram,
    &["action"],
);
const IN_FLIGHT: About = About::new("requests_in_flight", "Requests now", Kind::Gauge, &[]);
const CONNECTIONS: About = About::new("connections", "Open connections", Kind::Gauge, &[]);
const CONNECTIONS_REFUSED: About = About::new(
    "connections_refused",
    "Connections refused because there were too many",
    Kind::Counter,
    &[],
);
const RECEIVES_GIVEN_UP: About = About::new(
    "sqs_receives_given_up",
    "Receives that ended early because their clients had gone, or the server stopped",
    Kind::Counter,
    &[],
);
const CONNECTIONS_ENDED: About = About::new(
    "connections_ended",
    "Idle or slow connections ended because others needed their places",
    Kind::Counter,
    &[],
);
const LIMIT_REQUESTS: About = About::new(
    "limit_requests",
    "Requests at the limit that the server was given, by class and outcome",
    Kind::Counter,
    &["class", "outcome"],
);

fn show(registry: &mut Registry, about: About, metric: impl Metric) {
    registry.register(about.name, about.help, metric);
}

/// All metrics that `/metrics` may show, in the order of the page. Those of a cluster, of queues
/// and of a limit are there while there is something to show.
pub fn metrics_reference() -> Vec<About> {
    let own = [
        REQUESTS,
        REQUEST_DURATION,
        IN_FLIGHT,
        CONNECTIONS,
        CONNECTIONS_REFUSED,
        RECEIVES_GIVEN_UP,
        CONNECTIONS_ENDED,
        LIMIT_REQUESTS,
    ];
    let all = own.into_iter().chain(node::about());
    all.chain(collections::about()).collect()
}

/// All metrics of a gateway.
pub(crate) struct Metrics {
    registry: Registry,
    by_action: Vec<ActionMetrics>,
    requests: Family<RequestLabels, Counter>,
    latencies: Family<ActionLabels, Histogram>,
    collections: Collections,
    /// Receives without a message, by queue.
    pub(crate) empty_receives: Arc<ByQueue>,
    /// Requests being carried out.
    pub(crate) in_flight: Gauge,
    /// Open connections.
    pub(crate) connections: Gauge,
    /// Connections refused because there were too many.
    pub(crate) connections_refused: Counter,
    /// Receives withdrawn because their clients sent no more.
    pub(crate) receives_given_up: Counter,
    /// Connections ended because others needed their places.
    pub(crate) connections_ended: Counter,
}

struct ActionMetrics {
    succeeded: Counter,
    latency: Histogram,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    action: &'static str,
    code: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ActionLabels {
    action: &'static str,
}

/// Requests that a limit admitted and refused.
#[derive(Clone, Default)]
pub(crate) struct Limited(Family<LimitLabels, Counter>);

/// The same, of one class.
pub(crate) struct LimitMetrics {
    /// Those that were carried out.
    pub(crate) admitted: Counter,
    /// Those that were answered 503 in place of it.
    pub(crate) refused: Counter,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LimitLabels {
    class: &'static str,
    outcome: &'static str,
}

impl Limited {
    /// Those of one class.
    pub(crate) fn of(&self, class: &'static str) -> LimitMetrics {
        let counter = |outcome| {
            self.0
                .get_or_create(&LimitLabels { class, outcome })
                .clone()
        };
        LimitMetrics {
            admitted: counter("admitted"),
            refused: counter("refused"),
        }
    }
}

impl Metrics {
    /// The counters of a limit, which are on the page from now on.
    pub(crate) fn limited(&mut self) -> Limited {
        let limited = Limited::default();
        show(&mut self.registry, LIMIT_REQUESTS, limited.0.clone());
        limited
    }

    /// Metrics at zero, and those of `node`.
    pub(crate) fn new(node: Node) -> Metrics {
        let requests = Family::<RequestLabels, Counter>::default();
        let latencies = Family::<ActionLabels, Histogram>::new_with_constructor(|| {
            Histogram::new(LATENCY_BOUNDS_S)
        });
        let by_action = Action::ALL
            .into_iter()
            .map(|action| {
                let action = action.name();
                let labels = RequestLabels {
                    action,
                    code: "ok".to_owned(),
                };
                ActionMetrics {
                    succeeded: requests.get_or_create(&labels).clone(),
                    latency: latencies.get_or_create(&ActionLabels { action }).clone(),
                }
            })
            .collect();
        let mut metrics = Metrics {
            registry: Registry::with_prefix("fader"),
            by_action,
            requests,
            latencies: latencies.clone(),
            collections: Collections::default(),
            empty_receives: Arc::default(),
            in_flight: Gauge::default(),
            connections: Gauge::default(),
            connections_refused: Counter::default(),
            receives_given_up: Counter::default(),
            connections_ended: Counter::default(),
        };
        metrics.register(latencies, node);
        metrics
    }

    fn register(&mut self, latencies: Family<ActionLabels, Histogram>, node: Node) {
        let registry = &mut self.registry;
        show(registry, REQUESTS, self.requests.clone());
        show(registry, REQUEST_DURATION, latencies);
        show(registry, IN_FLIGHT, self.in_flight.clone());
        show(registry, CONNECTIONS, self.connections.clone());
        let refused = self.connections_refused.clone();
        show(registry, CONNECTIONS_REFUSED, refused);
        show(registry, RECEIVES_GIVEN_UP, self.receives_given_up.clone());
        show(registry, CONNECTIONS_ENDED, self.connections_ended.clone());
        registry.register_collector(Box::new(NodeCollector::new(node)));
        registry.register_collector(Box::new(self.collections.clone()));
        let empty = EmptyReceives(Arc::clone(&self.empty_receives));
        registry.register_collector(Box::new(empty));
    }

    /// Counts a request that is answered; `code` is `None` when it succeeded.
    pub(crate) fn count(&self, action: Option<Action>, code: Option<Code>, elapsed: Duration) {
        let metrics = action.map(|action| &self.by_action[action as usize]);
        if let Some(metrics) = metrics {
            metrics.latency.observe(elapsed.as_secs_f64());
        }
        match (metrics, code) {
            (Some(metrics), None) => {
                metrics.succeeded.inc();
            }
            (_, code) => {
                let labels = RequestLabels {
                    action: action.map_or("none", Action::name),
                    code: code.map_or_else(|| "ok".to_owned(), Code::name),
                };
                self.requests.get_or_create(&labels).inc();
            }
        }
    }

    /// Counts a request to SQS or to S3 that is answered; `code` is `None` when it succeeded.
    pub(crate) fn count_request(
        &self,
        action: Option<&'static str>,
        code: Option<&'static str>,
        elapsed: Duration,
    ) {
        if let Some(action) = action {
            let latency = self.latencies.get_or_create(&ActionLabels { action });
            latency.observe(elapsed.as_secs_f64());
        }
        let labels = RequestLabels {
            action: action.unwrap_or("none"),
            code: code.unwrap_or("ok").to_owned(),
        };
        self.requests.get_or_create(&labels).inc();
    }

    /// The page, with what is shown of collections.
    pub(crate) fn render(&self, figures: Figures) -> String {
        self.collections.set(figures);
        let mut page = String::new();
        prometheus_client::encoding::text::encode(&mut page, &self.registry)
            .expect("a String takes every character");
        page
    }
}

/// One more in a gauge, for as long as it lives.
pub(crate) struct GaugeGuard<'a>(&'a Gauge);

impl<'a> GaugeGuard<'a> {
    /// Adds one.
    pub(crate) fn new(gauge: &'a Gauge) -> Self {
        gauge.inc();
        GaugeGuard(gauge)
    }
}

impl Drop for GaugeGuard<'_> {
    fn drop(&mut self) {
        self.0.dec();
    }
}
