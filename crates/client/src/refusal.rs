//! Queues and domains that are not to be had, and say why to each call.

use std::time::Duration;

use async_trait::async_trait;
use fader_cloud::{
    Attribute, DomainMetadata, Domains, Error, ErrorKind, Expected, ItemDelete, ItemPut, Page,
    QueueCounts, QueueSettings, Queues, ReadConsistency, Receipt, Receive, Received, Result,
};

/// What each call is answered with.
#[derive(Clone, Debug)]
pub(crate) struct Refusal(pub(crate) String);

impl Refusal {
    /// The answer to any call.
    pub(crate) fn error(&self) -> Error {
        Error::new(ErrorKind::Invalid, self.0.clone())
    }

    fn refuse<T>(&self) -> Result<T> {
        Err(self.error())
    }
}

#[async_trait]
impl Queues for Refusal {
    async fn create(&self, _: &str, _: &QueueSettings) -> Result<()> {
        self.refuse()
    }

    async fn delete(&self, _: &str) -> Result<()> {
        self.refuse()
    }

    async fn list(&self, _: &str) -> Result<Vec<String>> {
        self.refuse()
    }

    async fn send(&self, _: &str, _: &[String]) -> Result<Vec<Result<String>>> {
        self.refuse()
    }

    async fn receive(&self, _: &str, _: &Receive) -> Result<Vec<Received>> {
        self.refuse()
    }

    async fn remove(&self, _: &str, _: &[Receipt]) -> Result<Vec<Result<()>>> {
        self.refuse()
    }

    async fn hide(&self, _: &str, _: &Receipt, _: Duration) -> Result<()> {
        self.refuse()
    }

    async fn counts(&self, _: &str) -> Result<QueueCounts> {
        self.refuse()
    }
}

#[async_trait]
impl Domains for Refusal {
    async fn create(&self, _: &str) -> Result<()> {
        self.refuse()
    }

    async fn delete(&self, _: &str) -> Result<()> {
        self.refuse()
    }

    async fn list(&self) -> Result<Vec<String>> {
        self.refuse()
    }

    async fn metadata(&self, _: &str) -> Result<DomainMetadata> {
        self.refuse()
    }

    async fn put(&self, _: &str, _: &ItemPut, _: Option<&Expected>) -> Result<()> {
        self.refuse()
    }

    async fn put_batch(&self, _: &str, _: &[ItemPut]) -> Result<()> {
        self.refuse()
    }

    async fn remove(&self, _: &str, _: &ItemDelete, _: Option<&Expected>) -> Result<()> {
        self.refuse()
    }

    async fn remove_batch(&self, _: &str, _: &[ItemDelete]) -> Result<()> {
        self.refuse()
    }

    async fn get(
        &self,
        _: &str,
        _: &str,
        _: &[String],
        _: ReadConsistency,
    ) -> Result<Vec<Attribute>> {
        self.refuse()
    }

    async fn select(&self, _: &str, _: Option<&str>, _: ReadConsistency) -> Result<Page> {
        self.refuse()
    }
}
