//! The contract's domains, over SimpleDB's protocol.

use async_trait::async_trait;
use fader_cloud::{
    Attribute, DomainMetadata, Domains, Expected, ItemDelete, ItemPut, Page, ReadConsistency,
    Result,
};

use crate::call_options::CallOptions;
use crate::error::{in_read, in_write};
use crate::simpledb::SimpleDb;

#[async_trait]
impl Domains for SimpleDb {
    async fn create(&self, domain: &str) -> Result<()> {
        in_write(self.create_domain(domain).await)?;
        Ok(())
    }

    async fn delete(&self, domain: &str) -> Result<()> {
        in_write(self.delete_domain(domain).await)?;
        Ok(())
    }

    async fn list(&self) -> Result<Vec<String>> {
        in_read(self.list_domains().await)
    }

    async fn metadata(&self, domain: &str) -> Result<DomainMetadata> {
        in_read(self.domain_metadata(domain).await)
    }

    async fn put(&self, domain: &str, put: &ItemPut, condition: Option<&Expected>) -> Result<()> {
        let ItemPut { name, attributes } = put;
        let put = self.put_attributes(domain, name, attributes, condition, CallOptions::default());
        in_write(put.await)?;
        Ok(())
    }

    async fn put_batch(&self, domain: &str, puts: &[ItemPut]) -> Result<()> {
        let put = self.batch_put_attributes(domain, puts, CallOptions::default());
        in_write(put.await)?;
        Ok(())
    }

    async fn remove(
        &self,
        domain: &str,
        delete: &ItemDelete,
        condition: Option<&Expected>,
    ) -> Result<()> {
        let deleted = self.delete_attributes(domain, delete, condition, CallOptions::default());
        in_write(deleted.await)?;
        Ok(())
    }

    async fn remove_batch(&self, domain: &str, deletes: &[ItemDelete]) -> Result<()> {
        let deleted = self.batch_delete_attributes(domain, deletes, CallOptions::default());
        in_write(deleted.await)?;
        Ok(())
    }

    async fn get(
        &self,
        domain: &str,
        item: &str,
        names: &[String],
        reading: ReadConsistency,
    ) -> Result<Vec<Attribute>> {
        let found = self.get_attributes(domain, item, names, options(reading));
        Ok(in_read(found.await)?.attributes)
    }

    async fn select(
        &self,
        expression: &str,
        next_token: Option<&str>,
        reading: ReadConsistency,
    ) -> Result<Page> {
        let select = SimpleDb::select(self, expression, next_token, options(reading));
        let page = in_read(select.await)?;
        Ok(Page {
            items: page.items,
            next_token: page.next_token,
        })
    }
}

fn options(reading: ReadConsistency) -> CallOptions<'static> {
    match reading {
        ReadConsistency::Eventual => CallOptions::default(),
        ReadConsistency::Strong => CallOptions::consistent(),
    }
}
