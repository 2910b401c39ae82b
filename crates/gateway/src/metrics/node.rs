//! The node's counters, read when the page is: of the node as a whole, of each of its chains, and
//! of those that it talks to.
//!
//! Labels are the numbers of chains and the names of the cluster's nodes, which operators give.

use std::fmt;

use fader_node::{ChainId, Counters, Node, PeerCounters};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use MetricType::{Counter as Count, Gauge as Now};

/// Asks the node when the page is made.
pub(super) struct NodeCollector(Node);

/// A metric: its name, what it is for people, whether it only grows, and where it is read.
type Metric<T> = (&'static str, &'static str, MetricType, fn(&T) -> u64);

const NODE: [Metric<Counters>; 11] = [
    ("log_entries", "Entries made durable", Count, |it| {
        it.log_entries
    }),
    ("log_bytes", "Bytes of log written", Count, |it| {
        it.log_bytes
    }),
    ("log_syncs", "Syncs of the log", Count, |it| it.log_syncs),
    (
        "log_sync_microseconds",
        "Time spent syncing the log",
        Count,
        |it| it.log_sync_us,
    ),
    (
        "log_possibly_lost_bytes",
        "Bytes at the log's end that the start found to be zeros where a record should be",
        Now,
        |it| it.log_possibly_lost_bytes,
    ),
    ("queue_depth", "Requests waiting for the chain", Now, |it| {
        it.queue_depth
    }),
    (
        "waiting_requests",
        "Requests waiting for their collection to change",
        Now,
        |it| it.parked,
    ),
    ("commit_index", "The last committed entry", Now, |it| {
        it.commit_index
    }),
    ("epoch", "The chain's epoch", Now, |it| it.epoch),
    ("log_disk_bytes", "Bytes of the log on disk", Now, |it| {
        it.log_disk_bytes
    }),
    (
        "engine_disk_bytes",
        "Bytes of the engine on disk",
        Now,
        |it| it.engine_disk_bytes,
    ),
];

/// Of blocks of objects.
const BLOCKS: [Metric<Counters>; 12] = [
    ("blocks", "Blocks of objects that are held", Now, |it| {
        it.blocks.blocks
    }),
    ("block_segments", "Files that they are in", Now, |it| {
        it.blocks.segments
    }),
    (
        "block_bytes",
        "Bytes that blocks take on disk, headers included",
        Now,
        |it| it.blocks.alive_bytes,
    ),
    (
        "block_dead_bytes",
        "Bytes of removed blocks that were not reclaimed yet",
        Now,
        |it| it.blocks.dead_bytes,
    ),
    (
        "blocks_damaged",
        "Blocks of which bytes were found damaged",
        Now,
        |it| it.blocks.bad,
    ),
    (
        "blocks_missing",
        "Blocks that have a row and no bytes",
        Now,
        |it| it.blocks.missing,
    ),
    (
        "block_memory_bytes",
        "Memory that uploads have",
        Now,
        |it| it.blocks.memory_bytes,
    ),
    ("block_syncs", "Syncs of groups of blocks", Count, |it| {
        it.blocks.syncs
    }),
    (
        "blocks_removed",
        "Blocks that were removed with their rows",
        Count,
        |it| it.blocks.removed,
    ),
    (
        "block_reclaimed_bytes",
        "Bytes of removed blocks whose space was given back",
        Count,
        |it| it.blocks.reclaimed_bytes,
    ),
    (
        "block_scrubbed_bytes",
        "Bytes of blocks that were read in the background and compared",
        Count,
        |it| it.blocks.scrubbed_bytes,
    ),
    (
        "block_garbage",
        "Replaced and deleted objects whose bytes still stay for reads under way",
        Now,
        |it| it.blocks.garbage_waiting,
    ),
];

const CHAIN: [Metric<Counters>; 17] = [
    (
        "chain_entries",
        "Entries of a chain made durable",
        Count,
        |it| it.log_entries,
    ),
    ("chain_epoch", "The epoch of a chain", Now, |it| it.epoch),
    (
        "chain_commit_index",
        "The last committed entry of a chain",
        Now,
        |it| it.commit_index,
    ),
    (
        "chain_queue_depth",
        "Requests waiting for a chain",
        Now,
        |it| it.queue_depth,
    ),
    (
        "chain_disk_bytes",
        "Bytes of a chain's log and engine on disk",
        Now,
        |it| it.log_disk_bytes + it.engine_disk_bytes,
    ),
    (
        "chain_dirty_reads",
        "Strong and bounded reads that found something uncommitted",
        Count,
        |it| it.tally.dirty_reads,
    ),
    (
        "chain_version_queries",
        "Questions to the commit point about dirty reads",
        Count,
        |it| it.tally.queries_asked,
    ),
    (
        "chain_version_queries_answered",
        "Questions of other members answered",
        Count,
        |it| it.tally.queries_answered,
    ),
    (
        "chain_differences",
        "Members whose state was found to differ by its digest",
        Count,
        |it| it.tally.differences,
    ),
    (
        "chain_foreign_messages",
        "Messages dropped that were of another life of a member, or of an epoch long over",
        Count,
        |it| it.tally.foreign,
    ),
    (
        "chain_tentative",
        "Eventual writes that are not settled",
        Now,
        |it| it.eventual.held as u64,
    ),
    (
        "chain_tentative_bytes",
        "Memory that they take, roughly",
        Now,
        |it| it.eventual.held_bytes as u64,
    ),
    (
        "chain_quarantined",
        "Eventual writes of an earlier life that are not judged yet",
        Now,
        |it| it.eventual.quarantined as u64,
    ),
    (
        "chain_settled",
        "Eventual writes settled that were held here",
        Count,
        |it| it.eventual.settled,
    ),
    (
        "chain_settled_milliseconds",
        "Time that those were held here, all together: their promotion lag",
        Count,
        |it| it.eventual.settled_ms,
    ),
    (
        "chain_superseded",
        "Eventual writes settled without effect because newer ones were there, as the head",
        Count,
        |it| it.eventual.superseded,
    ),
    (
        "chain_refused",
        "Eventual writes settled without effect because of a limit, as the head",
        Count,
        |it| it.eventual.refused,
    ),
];

const FORGOTTEN: [Metric<u64>; 1] = [(
    "chain_forgotten",
    "Eventual writes that a returning member dropped, by what is known of them",
    Count,
    |it| *it,
)];

const FAILURES: [Metric<(u64, u64)>; 2] = [
    (
        "chain_failures",
        "Times that a member here failed, since the process began",
        Count,
        |it| it.0,
    ),
    (
        "chain_failed",
        "Members here that have failed and do not run again yet",
        Now,
        |it| it.1,
    ),
];

const REFUSALS: [Metric<u64>; 1] = [(
    "refusals",
    "Requests refused with 503 at this node, by the chain that they were for and the reason",
    Count,
    |it| *it,
)];

const MEMBER: [Metric<(u64, u64)>; 2] = [
    (
        "member_behind_entries",
        "Entries that a member has not confirmed to the head that is here",
        Now,
        |it| it.0,
    ),
    (
        "member_behind_milliseconds",
        "Time that a member takes to confirm to the head that is here",
        Now,
        |it| it.1,
    ),
];

const PEER: [Metric<PeerCounters>; 7] = [
    (
        "peer_connected",
        "Whether there is a connection to a node",
        Now,
        |it| u64::from(it.is_connected),
    ),
    (
        "peer_connections",
        "Connections made to a node",
        Count,
        |it| it.connections,
    ),
    ("peer_sent", "Messages sent to a node", Count, |it| it.sent),
    (
        "peer_lost",
        "Messages not sent, for want of a connection or of room",
        Count,
        |it| it.lost,
    ),
    ("peer_sent_bytes", "Bytes sent to a node", Count, |it| {
        it.bytes_sent
    }),
    ("peer_received", "Messages of a node", Count, |it| {
        it.received
    }),
    (
        "peer_received_bytes",
        "Bytes that came of a node",
        Count,
        |it| it.bytes_received,
    ),
];

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
        for (name, help, kind, read) in NODE.into_iter().chain(BLOCKS) {
            let encoder = encoder.encode_descriptor(name, help, None, kind)?;
            encode_value(kind, read(&counters), encoder)?;
        }
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

/// Each metric once for each label; nothing where there are none.
fn encode_family<L: EncodeLabelSet, T>(
    metrics: &[Metric<T>],
    values: &[(L, T)],
    encoder: &mut DescriptorEncoder<'_>,
) -> Result<(), fmt::Error> {
    if values.is_empty() {
        return Ok(());
    }
    for (name, help, kind, read) in metrics {
        let mut family = encoder.encode_descriptor(name, help, None, *kind)?;
        for (label, value) in values {
            encode_value(*kind, read(value), family.encode_family(label)?)?;
        }
    }
    Ok(())
}

pub(super) fn encode_value(
    kind: MetricType,
    value: u64,
    encoder: prometheus_client::encoding::MetricEncoder<'_>,
) -> Result<(), fmt::Error> {
    match kind {
        Count => ConstCounter::new(value).encode(encoder),
        _ => ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX)).encode(encoder),
    }
}
