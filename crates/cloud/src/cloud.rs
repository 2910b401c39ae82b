//! One value with all that a system may touch.

use std::sync::Arc;

use object_store::ObjectStore;

use crate::domains::Domains;
use crate::queues::Queues;
use crate::runtime::Runtime;

/// A cloud as one process sees it: its services, and what is the process's own. Clones are the
/// same cloud.
#[derive(Clone, Debug)]
pub struct Cloud {
    /// Objects.
    pub objects: Arc<dyn ObjectStore>,
    /// Queues.
    pub queues: Arc<dyn Queues>,
    /// Domains.
    pub domains: Arc<dyn Domains>,
    /// Clock, tasks and entropy.
    pub runtime: Runtime,
}
