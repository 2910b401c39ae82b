//! The node's counters, read when the page is. They are of the node as a whole, of each of its
//! chains, and of those that it talks to.
//!
//! Labels are the numbers of chains and the names of the cluster's nodes, which operators give.

use std::fmt;

use fader_node::{ChainId, Counters, Node, PeerCounters};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric, MetricEncoder};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use super::about::{About, Kind};

/// Asks the node when the page is made.
pub(super) struct NodeCollector(Node);

/// A metric of `T`.
struct Metric<T> {
    name: &'static str,
    help: &'static str,
    kind: Kind,
    /// The value, in units of which `per_unit` make one of the page's.
    read: fn(&T) -> u64,
    per_unit: u32,
}

const fn count<T>(name: &'static str, help: &'static str, read: fn(&T) -> u64) -> Metric<T> {
    Metric {
        name,
        help,
        kind: Kind::Counter,
        read,
        per_unit: 1,
    }
}

const fn now<T>(name: &'static str, help: &'static str, read: fn(&T) -> u64) -> Metric<T> {
    Metric {
        name,
        help,
        kind: Kind::Gauge,
        read,
        per_unit: 1,
    }
}

/// A metric in seconds: `read` counts fractions, of which `per_second` make a second.
const fn seconds<T>(mut metric: Metric<T>, per_second: u32) -> Metric<T> {
    metric.per_unit = per_second;
    metric
}

impl<T> Metric<T> {
    fn encode(&self, from: &T, encoder: MetricEncoder<'_>) -> Result<(), fmt::Error> {
        let value = (self.read)(from);
        if self.per_unit == 1 {
            return encode_value(self.kind, value, encoder);
        }
        let value = value as f64 / f64::from(self.per_unit);
        match self.kind {
            Kind::Counter => ConstCounter::new(value).encode(encoder),
            _ => ConstGauge::new(value).encode(encoder),
        }
    }
}

/// Metrics with the same labels.
struct Group<T, const N: usize> {
    labels: &'static [&'static str],
    metrics: [Metric<T>; N],
}

impl<T, const N: usize> Group<T, N> {
    fn about(&self) -> impl Iterator<Item = About> {
        let labels = self.labels;
        let each = self.metrics.iter();
        each.map(move |it| About::new(it.name, it.help, it.kind, labels))
    }
}

/// All metrics of a node.
pub(super) fn about() -> Vec<About> {
    let lone = NODE.about().chain(BLOCKS.about()).chain(CLOCK.about());
    let of_chains = CHAIN
        .about()
        .chain(FORGOTTEN.about())
        .chain(FAILURES.about());
    let of_others = REFUSALS.about().chain(MEMBER.about()).chain(PEER.about());
    lone.chain(of_chains).chain(of_others).collect()
}

const NODE: Group<Counters, 11> = Group {
    labels: &[],
    metrics: [
        count("log_entries", "Entries made durable", |it| it.log_entries),
        count("log_bytes", "Bytes of log written", |it| it.log_bytes),
        count("log_syncs", "Syncs of the log", |it| it.log_syncs),
        seconds(
            count("log_sync_seconds", "Seconds spent syncing the log", |it| {
                it.log_sync_us
            }),
            1_000_000,
        ),
        now(
            "log_possibly_lost_bytes",
            "Bytes at the log's end that the start found to be zeros where a record should be",
            |it| it.log_possibly_lost_bytes,
        ),
        now("queue_depth", "Requests waiting for the chain", |it| {
            it.queue_depth
        }),
        now(
            "waiting_requests",
            "Requests waiting for their collection to change",
            |it| it.parked,
        ),
        now("commit_index", "The last committed entry", |it| {
            it.commit_index
        }),
        now("epoch", "The chain's epoch", |it| it.epoch),
        now("log_disk_bytes", "Bytes of the log on disk", |it| {
            it.log_disk_bytes
        }),
        now("engine_disk_bytes", "Bytes of the engine on disk", |it| {
            it.engine_disk_bytes
        }),
    ],
};

/// Of blocks of objects.
const BLOCKS: Group<Counters, 12> = Group {
    labels: &[],
    metrics: [
        now("blocks", "Blocks of objects that are held", |it| {
            it.blocks.blocks
        }),
        now("block_segments", "Files that they are in", |it| {
            it.blocks.segments
        }),
        now(
            "block_bytes",
            "Bytes that blocks take on disk, headers included",
            |it| it.blocks.alive_bytes,
        ),
        now(
            "block_dead_bytes",
            "Bytes of removed blocks that were not reclaimed yet",
            |it| it.blocks.dead_bytes,
        ),
        now(
            "blocks_damaged",
            "Blocks of which bytes were found damaged",
            |it| it.blocks.bad,
        ),
        now(
            "blocks_missing",
            "Blocks that have a row and no bytes",
            |it| it.blocks.missing,
        ),
        now("block_memory_bytes", "Memory that uploads have", |it| {
            it.blocks.memory_bytes
        }),
        count("block_syncs", "Syncs of groups of blocks", |it| {
            it.blocks.syncs
        }),
        count(
            "blocks_removed",
            "Blocks that were removed with their rows",
            |it| it.blocks.removed,
        ),
        count(
            "block_reclaimed_bytes",
            "Bytes of removed blocks whose space was given back",
            |it| it.blocks.reclaimed_bytes,
        ),
        count(
            "block_scrubbed_bytes",
            "Bytes of blocks that were read in the background and compared",
            |it| it.blocks.scrubbed_bytes,
        ),
        now(
            "block_garbage",
            "Replaced and deleted objects whose bytes still stay for reads under way",
            |it| it.blocks.garbage_waiting,
        ),
    ],
};

/// Of the process.
const CLOCK: Group<u64, 1> = Group {
    labels: &[],
    metrics: [count(
        "clock_alarms",
        "Times that leases were given up, since the clock by which they end stood still",
        |it| *it,
    )],
};

const CHAIN: Group<Counters, 17> = Group {
    labels: &["chain"],
    metrics: [
        count("chain_entries", "Entries of a chain made durable", |it| {
            it.log_entries
        }),
        now("chain_epoch", "The epoch of a chain", |it| it.epoch),
        now(
            "chain_commit_index",
            "The last committed entry of a chain",
            |it| it.commit_index,
        ),
        now("chain_queue_depth", "Requests waiting for a chain", |it| {
            it.queue_depth
        }),
        now(
            "chain_disk_bytes",
            "Bytes of a chain's log and engine on disk",
            |it| it.log_disk_bytes + it.engine_disk_bytes,
        ),
        count(
            "chain_dirty_reads",
            "Strong and bounded reads that found something uncommitted",
            |it| it.counters.dirty_reads,
        ),
        count(
            "chain_version_queries",
            "Questions to the commit point about dirty reads",
            |it| it.counters.queries_asked,
        ),
        count(
            "chain_version_queries_answered",
            "Questions of other members answered",
            |it| it.counters.queries_answered,
        ),
        count(
            "chain_digest_mismatches",
            "Members whose state was found to differ by its digest",
            |it| it.counters.differences,
        ),
        count(
            "chain_stale_messages",
            "Messages dropped that were of another incarnation of a member or of an old epoch",
            |it| it.counters.foreign,
        ),
        now(
            "chain_unsettled_writes",
            "Eventual writes that are not settled",
            |it| it.eventual.held as u64,
        ),
        now(
            "chain_unsettled_write_bytes",
            "Memory that they take, roughly",
            |it| it.eventual.held_bytes as u64,
        ),
        now(
            "chain_quarantined",
            "Eventual writes of an earlier incarnation that are not judged yet",
            |it| it.eventual.quarantined as u64,
        ),
        count(
            "chain_settled",
            "Eventual writes settled that were held here",
            |it| it.eventual.settled,
        ),
        seconds(
            count(
                "chain_promotion_lag_seconds",
                "Seconds that settled writes were held here, all together",
                |it| it.eventual.settled_ms,
            ),
            1_000,
        ),
        count(
            "chain_superseded",
            "Eventual writes settled without effect because newer ones were there, as the head",
            |it| it.eventual.superseded,
        ),
        count(
            "chain_refused",
            "Eventual writes settled without effect because of a limit, as the head",
            |it| it.eventual.refused,
        ),
    ],
};

const FORGOTTEN: Group<u64, 1> = Group {
    labels: &["chain", "fate"],
    metrics: [count(
        "chain_forgotten",
        "Eventual writes that a returning member dropped, by what is known of them",
        |it| *it,
    )],
};

const FAILURES: Group<(u64, u64), 2> = Group {
    labels: &["chain"],
    metrics: [
        count(
            "chain_failures",
            "Times that a member here failed, since the process began",
            |it| it.0,
        ),
        now(
            "chain_failed",
            "Members here that have failed and do not run again yet",
            |it| it.1,
        ),
    ],
};

const REFUSALS: Group<u64, 1> = Group {
    labels: &["chain", "reason"],
    metrics: [count(
        "refusals",
        "Requests refused with 503 at this node, by the chain that they were for and the reason",
        |it| *it,
    )],
};

const MEMBER: Group<(u64, u64), 2> = Group {
    labels: &["chain", "member"],
    metrics: [
        now(
            "member_lag_entries",
            "Entries that a member has not confirmed to the head that is here",
            |it| it.0,
        ),
        seconds(
            now(
                "member_lag_seconds",
                "Seconds that a member takes to confirm to the head that is here",
                |it| it.1,
            ),
            1_000,
        ),
    ],
};

const PEER: Group<PeerCounters, 7> = Group {
    labels: &["peer"],
    metrics: [
        now(
            "peer_connected",
            "Whether there is a connection to a node",
            |it| u64::from(it.is_connected),
        ),
        count("peer_connections", "Connections made to a node", |it| {
            it.connections
        }),
        count("peer_sent_messages", "Messages sent to a node", |it| {
            it.sent
        }),
        count(
            "peer_dropped_messages",
            "Messages not sent, for want of a connection or of room",
            |it| it.lost,
        ),
        count("peer_sent_bytes", "Bytes sent to a node", |it| {
            it.bytes_sent
        }),
        count("peer_received_messages", "Messages of a node", |it| {
            it.received
        }),
        count("peer_received_bytes", "Bytes that came of a node", |it| {
            it.bytes_received
        }),
    ],
};

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ChainLabel {
    chain: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct FateLabel {
    chain: u32,
    fate: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabel {
    chain: u32,
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct MemberLabel {
    chain: u32,
    member: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PeerLabel {
    peer: String,
}

impl NodeCollector {
    pub(super) fn new(node: Node) -> Self {
        NodeCollector(node)
    }
}

impl fmt::Debug for NodeCollector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NodeCollector(..)")
    }
}

impl Collector for NodeCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let chains = self.0.chains();
        let counters = Counters::of_node(&chains);
        encode_all(&NODE, &counters, &mut encoder)?;
        encode_all(&BLOCKS, &counters, &mut encoder)?;
        encode_all(&CLOCK, &self.0.clock_alarms(), &mut encoder)?;
        let forgotten = chains.iter().flat_map(|(chain, it)| forgotten(*chain, it));
        encode_family(&FORGOTTEN, &forgotten.collect::<Vec<_>>(), &mut encoder)?;
        let chains = chains.into_iter();
        let chains = chains.map(|(chain, it)| (ChainLabel { chain: chain.0 }, it));
        encode_family(&CHAIN, &chains.collect::<Vec<_>>(), &mut encoder)?;
        let failures = self.0.failures().into_iter();
        let failures =
            failures.map(|(chain, total, now)| (ChainLabel { chain: chain.0 }, (total, now)));
        encode_family(&FAILURES, &failures.collect::<Vec<_>>(), &mut encoder)?;
        let refusals = self.0.refusals().into_iter().map(|(chain, reason, it)| {
            let (chain, reason) = (chain.0, reason.code());
            (ReasonLabel { chain, reason }, it)
        });
        encode_family(&REFUSALS, &refusals.collect::<Vec<_>>(), &mut encoder)?;
        let behind = self.0.behind().into_iter().map(|(chain, member, it)| {
            let label = MemberLabel {
                chain: chain.0,
                member,
            };
            (label, (it.entries, it.millis))
        });
        encode_family(&MEMBER, &behind.collect::<Vec<_>>(), &mut encoder)?;
        let peers = self.0.peers().into_iter();
        let peers = peers.map(|(peer, it)| (PeerLabel { peer }, it));
        encode_family(&PEER, &peers.collect::<Vec<_>>(), &mut encoder)
    }
}

/// The writes that members of a chain dropped, by fate.
fn forgotten(ChainId(chain): ChainId, counters: &Counters) -> [(FateLabel, u64); 3] {
    let it = counters.eventual.forgotten;
    [
        ("settled", it.settled),
        ("covered", it.covered),
        ("unknown", it.unknown),
    ]
    .map(|(fate, count)| (FateLabel { chain, fate }, count))
}

/// Each metric, without a label.
fn encode_all<T, const N: usize>(
    group: &Group<T, N>,
    from: &T,
    encoder: &mut DescriptorEncoder<'_>,
) -> Result<(), fmt::Error> {
    for it in &group.metrics {
        let kind = it.kind.metric_type();
        let encoder = encoder.encode_descriptor(it.name, it.help, None, kind)?;
        it.encode(from, encoder)?;
    }
    Ok(())
}

/// Each metric once for each label; nothing where there are none.
fn encode_family<L: EncodeLabelSet, T, const N: usize>(
    group: &Group<T, N>,
    values: &[(L, T)],
    encoder: &mut DescriptorEncoder<'_>,
) -> Result<(), fmt::Error> {
    if values.is_empty() {
        return Ok(());
    }
    for it in &group.metrics {
        let kind = it.kind.metric_type();
        let mut family = encoder.encode_descriptor(it.name, it.help, None, kind)?;
        for (label, value) in values {
            it.encode(value, family.encode_family(label)?)?;
        }
    }
    Ok(())
}

pub(super) fn encode_value(
    kind: Kind,
    value: u64,
    encoder: MetricEncoder<'_>,
) -> Result<(), fmt::Error> {
    match kind {
        Kind::Counter => ConstCounter::new(value).encode(encoder),
        _ => ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX)).encode(encoder),
    }
}
