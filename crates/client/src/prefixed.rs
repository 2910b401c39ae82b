//! Queues and domains of an account that has others too: names get a prefix on their way there, and
//! lose it on their way back.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use fader_cloud::{
    Attribute, DomainMetadata, Domains, Error, ErrorKind, Expected, ItemDelete, ItemPut, Page,
    Peeked, QueueCounts, QueueSettings, Queues, ReadConsistency, Receipt, Receive, Received,
    Result,
};
use fader_services::simpledb::Request;

/// A service whose names get a prefix.
#[derive(Debug)]
pub(crate) struct Prefixed<S: ?Sized> {
    pub(crate) prefix: String,
    pub(crate) service: Arc<S>,
}

impl<S: ?Sized> Prefixed<S> {
    fn there(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    fn back(&self, names: Vec<String>) -> Vec<String> {
        let names = names.into_iter();
        let own = names.filter_map(|name| name.strip_prefix(&self.prefix).map(str::to_owned));
        own.collect()
    }

    /// The same expression about the domain as it is called there.
    fn expression(&self, expression: &str) -> Result<String> {
        let request = Request::Select {
            expression: expression.to_owned(),
            next_token: None,
            consistent: false,
        };
        let Request::Select { expression, .. } = &request else {
            unreachable!("made above");
        };
        let no_domain = || {
            let context = format!("{expression:?} names no domain");
            Error::new(ErrorKind::Invalid, context)
        };
        let domain = request.domain().ok_or_else(no_domain)?;
        // The name is a slice of the expression.
        let begin = domain.as_ptr() as usize - expression.as_ptr() as usize;
        let (before, after) = (&expression[..begin], &expression[begin + domain.len()..]);
        let (before, after) = match (before.strip_suffix('`'), after.strip_prefix('`')) {
            (Some(before), Some(after)) => (before, after),
            _ => (before, after),
        };
        Ok(format!("{before}`{}`{after}", self.there(domain)))
    }
}

#[async_trait]
impl<S: Queues + ?Sized> Queues for Prefixed<S> {
    async fn create(&self, queue: &str, settings: &QueueSettings) -> Result<()> {
        self.service.create(&self.there(queue), settings).await
    }

    async fn delete(&self, queue: &str) -> Result<()> {
        self.service.delete(&self.there(queue)).await
    }

    async fn list(&self, prefix: &str) -> Result<Vec<String>> {
        Ok(self.back(self.service.list(&self.there(prefix)).await?))
    }

    async fn send(&self, queue: &str, bodies: &[String]) -> Result<Vec<Result<String>>> {
        self.service.send(&self.there(queue), bodies).await
    }

    fn forgets(&self) -> bool {
        self.service.forgets()
    }

    async fn receive(&self, queue: &str, how: &Receive) -> Result<Vec<Received>> {
        self.service.receive(&self.there(queue), how).await
    }

    async fn peek(&self, queue: &str, max: usize) -> Result<Option<Peeked>> {
        self.service.peek(&self.there(queue), max).await
    }

    async fn remove(&self, queue: &str, receipts: &[Receipt]) -> Result<Vec<Result<()>>> {
        self.service.remove(&self.there(queue), receipts).await
    }

    async fn hide(&self, queue: &str, receipt: &Receipt, time: Duration) -> Result<()> {
        self.service.hide(&self.there(queue), receipt, time).await
    }

    async fn counts(&self, queue: &str) -> Result<QueueCounts> {
        self.service.counts(&self.there(queue)).await
    }
}

#[async_trait]
impl<S: Domains + ?Sized> Domains for Prefixed<S> {
    async fn create(&self, domain: &str) -> Result<()> {
        self.service.create(&self.there(domain)).await
    }

    async fn delete(&self, domain: &str) -> Result<()> {
        self.service.delete(&self.there(domain)).await
    }

    async fn list(&self) -> Result<Vec<String>> {
        Ok(self.back(self.service.list().await?))
    }

    async fn metadata(&self, domain: &str) -> Result<DomainMetadata> {
        self.service.metadata(&self.there(domain)).await
    }

    async fn put(&self, domain: &str, put: &ItemPut, condition: Option<&Expected>) -> Result<()> {
        self.service.put(&self.there(domain), put, condition).await
    }

    async fn put_batch(&self, domain: &str, puts: &[ItemPut]) -> Result<()> {
        self.service.put_batch(&self.there(domain), puts).await
    }

    async fn remove(
        &self,
        domain: &str,
        delete: &ItemDelete,
        condition: Option<&Expected>,
    ) -> Result<()> {
        let domain = self.there(domain);
        self.service.remove(&domain, delete, condition).await
    }

    async fn remove_batch(&self, domain: &str, deletes: &[ItemDelete]) -> Result<()> {
        self.service
            .remove_batch(&self.there(domain), deletes)
            .await
    }

    async fn get(
        &self,
        domain: &str,
        item: &str,
        names: &[String],
        reading: ReadConsistency,
    ) -> Result<Vec<Attribute>> {
        let domain = self.there(domain);
        self.service.get(&domain, item, names, reading).await
    }

    async fn select(
        &self,
        expression: &str,
        next_token: Option<&str>,
        reading: ReadConsistency,
    ) -> Result<Page> {
        let expression = self.expression(expression)?;
        self.service.select(&expression, next_token, reading).await
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may fail here")]

    use fader_cloud::conformance::{SystemUnderTest, domains, judge, queues};
    use fader_cloud::model::{Model, Profile, run};

    use super::*;

    #[test]
    fn a_prefix_changes_no_promise_and_shows_no_foreign_names() {
        let model = Model::new(Profile::default());
        let prefix = "shop-".to_owned();
        let queues_there = Prefixed {
            prefix: prefix.clone(),
            service: model.queues.clone(),
        };
        let prefixed = Prefixed {
            prefix,
            service: model.domains.clone(),
        };
        let mut verdicts = Vec::new();
        run(&model.clock, async {
            model
                .queues
                .create("foreign", &QueueSettings::default())
                .await
                .unwrap();
            model.domains.create("foreign").await.unwrap();
            let subject = SystemUnderTest {
                service: &queues_there as &dyn Queues,
                clock: &*model.clock,
                prefix: "t",
            };
            queues(&subject, &mut |verdict| verdicts.push(verdict)).await;
            let subject = SystemUnderTest {
                service: &prefixed as &dyn Domains,
                clock: &*model.clock,
                prefix: "t",
            };
            domains(&subject, &mut |verdict| verdicts.push(verdict)).await;
            assert!(queues_there.list("").await.unwrap().is_empty());
            prefixed.create("own").await.unwrap();
            assert_eq!(prefixed.list().await.unwrap(), ["own"]);
            assert_eq!(model.domains.list().await.unwrap(), ["foreign", "shop-own"]);
        });
        judge(&verdicts, &[]).unwrap();
    }

    #[test]
    fn an_expression_names_the_domain_with_its_prefix() {
        let prefixed = Prefixed {
            prefix: "a-".to_owned(),
            service: Arc::new(()),
        };
        for (expression, expected) in [
            ("select * from d", "select * from `a-d`"),
            (
                "select * from `d` where x = 'from d'",
                "select * from `a-d` where x = 'from d'",
            ),
            (
                "SELECT count(*) FROM d limit 3",
                "SELECT count(*) FROM `a-d` limit 3",
            ),
        ] {
            assert_eq!(prefixed.expression(expression).unwrap(), expected);
        }
        assert_eq!(
            prefixed.expression("select").unwrap_err().kind,
            ErrorKind::Invalid
        );
    }
}
