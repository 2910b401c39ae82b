//! The limits of SQS. AWS's by default; configuration may change them.

/// Sizes in bytes, counts in pieces, times in seconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Queues of one account (AWS has no limit; ours bounds the list).
    pub queues_per_account: u64,
    /// After the deletion of a queue no other one of its name can be created.
    pub recreate_s: u64,
    /// After a purge the queue cannot be purged again.
    pub purge_s: u64,
    /// A message's body with its attributes, and those of a batch together.
    pub message_bytes: usize,
    /// Entries of one batch.
    pub batch_entries: usize,
    /// Messages of one receive.
    pub receive_messages: usize,
    /// The longest long poll.
    pub wait_s: u64,
    /// The longest visibility timeout, from the receive on.
    pub visibility_s: u64,
    /// The longest delay.
    pub delay_s: u64,
    /// Messages of one queue that are in flight.
    pub in_flight: u64,
    /// Attributes of one message.
    pub message_attributes: usize,
    /// Tags of one queue.
    pub tags: usize,
    /// Bytes of a policy.
    pub policy_bytes: usize,
    /// Actions of a statement that AddPermission writes.
    pub statement_actions: usize,
    /// How long a deduplication id is remembered.
    pub deduplication_s: u64,
    /// Messages that a move task moves in a second, at most.
    pub moves_per_second: u64,
    /// Queues, or sources of a dead-letter queue, in one page.
    pub page_queues: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            queues_per_account: 1_000_000,
            recreate_s: 60,
            purge_s: 60,
            message_bytes: 1 << 20,
            batch_entries: 10,
            receive_messages: 10,
            wait_s: 20,
            visibility_s: 43_200,
            delay_s: 900,
            in_flight: 120_000,
            message_attributes: 10,
            tags: 50,
            policy_bytes: 20_480,
            statement_actions: 7,
            deduplication_s: 300,
            moves_per_second: 500,
            page_queues: 1000,
        }
    }
}
