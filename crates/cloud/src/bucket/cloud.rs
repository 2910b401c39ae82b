//! A cloud whose queues and domains are in its bucket.

use std::sync::Arc;

use object_store::path::Path;

use super::{BucketDomains, BucketQueues};
use crate::cloud::{Cloud, Metered, Services};
use crate::meter::Meter;

/// The services of a cloud, with those in its bucket.
#[derive(Debug)]
struct InBucket {
    cloud: Cloud,
    queues: Arc<BucketQueues>,
    domains: Arc<BucketDomains>,
}

impl Metered for InBucket {
    fn services(&self, meter: &Meter) -> Services {
        Services {
            objects: self.cloud.metered(meter).objects,
            queues: self.queues.clone(),
            domains: self.domains.clone(),
        }
    }
}

impl Cloud {
    /// The same cloud with queues and domains in its bucket, below `prefix`. Their requests count
    /// for this cloud's meter, also those for callers of its scopes.
    #[must_use]
    pub fn in_bucket(&self, prefix: &Path) -> Self {
        let (objects, runtime) = (&self.objects, &self.runtime);
        let queues = BucketQueues::new(objects.clone(), prefix.clone(), runtime.clone());
        let domains = BucketDomains::new(objects.clone(), prefix.clone(), runtime.clone());
        let in_bucket = InBucket {
            cloud: self.clone(),
            queues: Arc::new(queues),
            domains: Arc::new(domains),
        };
        Cloud::new(Arc::new(in_bucket), runtime.clone(), self.meter.clone())
    }
}
