//! Domains in the bucket on stage, and the calls of their tests.

use fader_cloud::bucket::BucketDomains;
use fader_cloud::model::Process;
use fader_cloud::{Attribute, AttributePut, Domains, Error, Expected, ItemPut, ReadConsistency};
use object_store::path::Path;

use super::Stage;

pub(crate) fn of(stage: &Stage, process: &Process) -> BucketDomains {
    BucketDomains::new(stage.objects(), Path::from("p"), process.runtime())
}

pub(crate) fn new(stage: &Stage, name: &str) -> BucketDomains {
    of(stage, &stage.process(name))
}

/// A new process that has written to the domain `dom`.
pub(crate) async fn start(stage: &Stage) -> BucketDomains {
    let domains = new(stage, "one");
    domains.create("dom").await.unwrap();
    put(&domains, "first", "a", "1").await.unwrap();
    domains
}

pub(crate) fn item(name: &str, attribute: &str, value: &str) -> ItemPut {
    ItemPut {
        name: name.to_owned(),
        attributes: vec![AttributePut {
            name: attribute.to_owned(),
            value: value.to_owned(),
            replace: true,
        }],
    }
}

pub(crate) async fn put(
    domains: &BucketDomains,
    name: &str,
    attribute: &str,
    value: &str,
) -> Result<(), Error> {
    domains
        .put("dom", &item(name, attribute, value), None)
        .await
}

pub(crate) async fn create(domains: &BucketDomains, name: &str, by: &str) -> Result<(), Error> {
    let absent = Expected::Absent("by".to_owned());
    domains
        .put("dom", &item(name, "by", by), Some(&absent))
        .await
}

pub(crate) async fn get(
    domains: &BucketDomains,
    name: &str,
    reading: ReadConsistency,
) -> Vec<Attribute> {
    domains.get("dom", name, &[], reading).await.unwrap()
}

pub(crate) async fn value(domains: &BucketDomains, name: &str) -> Option<String> {
    let found = get(domains, name, ReadConsistency::Strong).await;
    found.into_iter().next().map(|attribute| attribute.value)
}
