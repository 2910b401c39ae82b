//! The contract of domains in the terms of SimpleDB's rules (`fader-services`), and back.

use async_trait::async_trait;
use fader_services::simpledb::{
    self as services, Code, ItemDelete as Delete, ItemPut as Put, PageToken, Reply, Request,
};

use crate::domains::{
    Attribute, DomainMetadata, Domains, Expected, Item, ItemDelete, ItemPut, Page, ReadConsistency,
};
use crate::error::{Error, ErrorKind, Result};

pub(crate) fn create(domain: &str) -> Request {
    Request::CreateDomain {
        domain: domain.to_owned(),
        mode: None,
        preference: None,
    }
}

pub(crate) fn delete(domain: &str) -> Request {
    Request::DeleteDomain {
        domain: domain.to_owned(),
    }
}

pub(crate) fn metadata(domain: &str) -> Request {
    Request::DomainMetadata {
        domain: domain.to_owned(),
    }
}

pub(crate) fn put(domain: &str, put: &ItemPut, condition: Option<&Expected>) -> Request {
    Request::PutAttributes {
        domain: domain.to_owned(),
        put: as_put(put),
        expected: condition.map(as_expected).into_iter().collect(),
    }
}

pub(crate) fn put_batch(domain: &str, puts: &[ItemPut]) -> Request {
    Request::BatchPutAttributes {
        domain: domain.to_owned(),
        puts: puts.iter().map(as_put).collect(),
    }
}

pub(crate) fn remove(domain: &str, delete: &ItemDelete, condition: Option<&Expected>) -> Request {
    Request::DeleteAttributes {
        domain: domain.to_owned(),
        delete: as_delete(delete),
        expected: condition.map(as_expected).into_iter().collect(),
    }
}

pub(crate) fn remove_batch(domain: &str, deletes: &[ItemDelete]) -> Request {
    Request::BatchDeleteAttributes {
        domain: domain.to_owned(),
        deletes: deletes.iter().map(as_delete).collect(),
    }
}

pub(crate) fn get(domain: &str, item: &str, names: &[String], reading: ReadConsistency) -> Request {
    Request::GetAttributes {
        domain: domain.to_owned(),
        item: item.to_owned(),
        names: names.to_vec(),
        consistent: reading == ReadConsistency::Strong,
    }
}

pub(crate) fn select(
    expression: &str,
    next_token: Option<&str>,
    reading: ReadConsistency,
) -> Result<Request> {
    Ok(Request::Select {
        expression: expression.to_owned(),
        next_token: next_token.map(from_hex).transpose()?,
        consistent: reading == ReadConsistency::Strong,
    })
}

/// The reply to a request for metadata.
pub(crate) fn as_metadata(reply: &Reply) -> Result<DomainMetadata> {
    let Reply::Metadata(known) = reply else {
        return Err(unexpected());
    };
    Ok(DomainMetadata {
        item_count: known.item_count,
        item_names_size_bytes: known.item_names_bytes,
        attribute_name_count: known.attribute_name_count,
        attribute_names_size_bytes: known.attribute_names_bytes,
        attribute_value_count: known.attribute_value_count,
        attribute_values_size_bytes: known.attribute_values_bytes,
        timestamp: known.timestamp_s,
    })
}

/// The reply to a request for attributes.
pub(crate) fn as_attributes(reply: &Reply) -> Result<Vec<Attribute>> {
    match reply {
        Reply::Attributes(found) => Ok(found.iter().map(as_attribute).collect()),
        _ => Err(unexpected()),
    }
}

/// The reply to a Select.
pub(crate) fn as_page(reply: Reply) -> Result<Page> {
    let Reply::Items { items, next_token } = reply else {
        return Err(unexpected());
    };
    let items = items.iter().map(|item| Item {
        name: text(&item.name),
        attributes: item.attributes.iter().map(as_attribute).collect(),
    });
    Ok(Page {
        items: items.collect(),
        next_token: next_token.map(|token| to_hex(&token)),
    })
}

fn as_put(put: &ItemPut) -> Put {
    let attributes = put.attributes.iter().map(|put| services::AttributePut {
        name: Some(put.name.clone()),
        value: Some(put.value.clone()),
        replace: put.replace,
    });
    Put {
        item: Some(put.name.clone()),
        attributes: attributes.collect(),
    }
}

fn as_delete(delete: &ItemDelete) -> Delete {
    let attributes = delete.attributes.iter();
    let attributes = attributes.map(|(name, value)| services::AttributeDelete {
        name: Some(name.clone()),
        value: value.clone(),
    });
    Delete {
        item: Some(delete.name.clone()),
        attributes: attributes.collect(),
    }
}

fn as_expected(condition: &Expected) -> services::Expected {
    match condition {
        Expected::Value(Attribute { name, value }) => services::Expected {
            name: Some(name.clone()),
            value: Some(value.clone()),
            exists: None,
        },
        Expected::Absent(name) => services::Expected {
            name: Some(name.clone()),
            value: None,
            exists: Some(false),
        },
    }
}

fn as_attribute(attribute: &services::Attribute) -> Attribute {
    Attribute {
        name: text(&attribute.name),
        value: text(&attribute.value),
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn to_hex(token: &PageToken) -> String {
    token.0.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn from_hex(text: &str) -> Result<PageToken> {
    let invalid = || Error::new(ErrorKind::Invalid, "this is no token of a page");
    let digits = text.as_bytes().chunks(2).map(|digits| {
        let digits = std::str::from_utf8(digits).ok()?;
        u8::from_str_radix(digits, 16).ok()
    });
    let bytes: Option<Vec<u8>> = digits.collect();
    Ok(PageToken(bytes.ok_or_else(invalid)?.into()))
}

/// A refusal in the terms of the contract.
pub(crate) fn refusal(error: &services::Error) -> Error {
    let kind = match error.code {
        Code::NoSuchDomain => ErrorKind::NotFound,
        Code::ConditionalCheckFailed | Code::AttributeDoesNotExist | Code::MultiValuedAttribute => {
            ErrorKind::Precondition
        }
        Code::ServiceUnavailable => ErrorKind::Unavailable { retry_after: None },
        _ => ErrorKind::Invalid,
    };
    Error::new(kind, format!("{}: {}", error.code.name(), error.message))
}

/// A reply of another action.
pub(crate) fn unexpected() -> Error {
    Error::new(ErrorKind::Malformed, "the reply is that of another action")
}

/// A service that answers SimpleDB's requests: all that its [`Domains`] are made of.
#[async_trait]
pub(crate) trait Requests: std::fmt::Debug + Send + Sync + 'static {
    /// Writes.
    async fn write(&self, request: Request) -> Result<()>;
    /// Reads.
    async fn read(&self, request: Request, reading: ReadConsistency) -> Result<Reply>;
    /// See [`Domains::create`].
    async fn create_domain(&self, domain: &str) -> Result<()>;
    /// See [`Domains::delete`].
    async fn delete_domain(&self, domain: &str) -> Result<()>;
    /// See [`Domains::list`].
    async fn list_domains(&self) -> Result<Vec<String>>;
}

#[async_trait]
impl<T: Requests> Domains for T {
    async fn create(&self, domain: &str) -> Result<()> {
        self.create_domain(domain).await
    }

    async fn delete(&self, domain: &str) -> Result<()> {
        self.delete_domain(domain).await
    }

    async fn list(&self) -> Result<Vec<String>> {
        self.list_domains().await
    }

    async fn metadata(&self, domain: &str) -> Result<DomainMetadata> {
        let reply = self.read(self::metadata(domain), ReadConsistency::Eventual);
        self::as_metadata(&reply.await?)
    }

    async fn put(&self, domain: &str, put: &ItemPut, condition: Option<&Expected>) -> Result<()> {
        self.write(self::put(domain, put, condition)).await
    }

    async fn put_batch(&self, domain: &str, puts: &[ItemPut]) -> Result<()> {
        self.write(self::put_batch(domain, puts)).await
    }

    async fn remove(
        &self,
        domain: &str,
        delete: &ItemDelete,
        condition: Option<&Expected>,
    ) -> Result<()> {
        self.write(self::remove(domain, delete, condition)).await
    }

    async fn remove_batch(&self, domain: &str, deletes: &[ItemDelete]) -> Result<()> {
        self.write(self::remove_batch(domain, deletes)).await
    }

    async fn get(
        &self,
        domain: &str,
        item: &str,
        names: &[String],
        reading: ReadConsistency,
    ) -> Result<Vec<Attribute>> {
        let request = self::get(domain, item, names, reading);
        as_attributes(&self.read(request, reading).await?)
    }

    async fn select(
        &self,
        expression: &str,
        next_token: Option<&str>,
        reading: ReadConsistency,
    ) -> Result<Page> {
        let request = self::select(expression, next_token, reading)?;
        self::as_page(self.read(request, reading).await?)
    }
}
