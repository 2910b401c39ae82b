//! One value with all that a system may touch.

use std::fmt::Debug;
use std::sync::Arc;

use object_store::ObjectStore;

use crate::domains::Domains;
use crate::grouped::GroupedServices;
use crate::meter::Meter;
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
    /// Counts the wire requests of these handles.
    pub meter: Meter,
    metered: Arc<dyn Metered>,
}

/// The handles of a cloud's services that count for one meter.
#[derive(Clone, Debug)]
pub struct Services {
    /// Objects.
    pub objects: Arc<dyn ObjectStore>,
    /// Queues.
    pub queues: Arc<dyn Queues>,
    /// Domains.
    pub domains: Arc<dyn Domains>,
}

/// Gives handles of one cloud's services.
pub trait Metered: Debug + Send + Sync + 'static {
    /// Handles whose wire requests count for `meter`. Requests of queues and domains in a bucket
    /// serve callers of several scopes at once. They count once, for the meter that the cloud was
    /// opened with ([`Meter::own_usage`]).
    fn services(&self, meter: &Meter) -> Services;
}

impl Cloud {
    /// A cloud whose handles count for `meter`.
    pub fn new(metered: Arc<dyn Metered>, runtime: Runtime, meter: Meter) -> Self {
        let services = metered.services(&meter);
        Cloud {
            objects: services.objects,
            queues: services.queues,
            domains: services.domains,
            runtime,
            meter,
            metered,
        }
    }

    /// Handles of the same services that count for `meter`.
    pub fn metered(&self, meter: &Meter) -> Services {
        self.metered.services(meter)
    }

    /// The same cloud, where sends of this process that wait for calls to their queue share the
    /// next call: a group commit. Each handle of it, of any scope, takes part. A shared call counts
    /// for the scope of its first send.
    pub fn grouped(self) -> Self {
        if self.queues.groups_sends() {
            return self;
        }
        let metered = GroupedServices {
            inner: self.metered,
            groups: Arc::default(),
            runtime: self.runtime.clone(),
        };
        Cloud::new(Arc::new(metered), self.runtime, self.meter)
    }

    /// The same cloud in a scope within this one: wire requests count for both.
    pub fn scope(&self, name: &str) -> Self {
        let metered = self.metered.clone();
        Cloud::new(metered, self.runtime.clone(), self.meter.scope(name))
    }
}
