//! Permissions that a system's clients need at the services of a cloud.

/// What a client may do. Keys are below the cloud's prefix, names of queues behind theirs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Permissions {
    /// Folders whose objects it reads and lists.
    pub reads: Vec<String>,
    /// Folders whose objects it writes and deletes.
    pub writes: Vec<String>,
    /// Queues that it sends to.
    pub sends: Vec<String>,
    /// Queues that it sends to, receives from and removes messages from.
    pub receives: Vec<String>,
}
