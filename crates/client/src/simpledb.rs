//! SimpleDB's actions with types.
//!
//! Deliberately absent: checks of limits and names: the service has the last word on them.

use fader_cloud::{Attribute, AttributePut, DomainMetadata, Expected, Item, ItemDelete, ItemPut};
use fader_services::Mode;
use fader_services::level::{self, ReplyMetadata};

use crate::call_options::CallOptions;
use crate::client::{Client, Response};
use crate::error::Error;
use crate::xml::Element;

/// Pages of ListDomains read before it is called endless: 250 domains fit three.
const LIST_PAGES_MAX: usize = 10_000;

/// A SimpleDB endpoint.
#[derive(Clone, Debug)]
pub struct SimpleDb(pub Client);

/// What a domain is created as, for Fader only; by default as every SimpleDB does it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DomainOptions {
    /// Who may write to it.
    pub mode: Option<Mode>,
    /// Level and bound of requests that ask for none.
    pub default: Option<level::ConsistencyOptions>,
}

/// One page of a Select.
#[derive(Clone, Debug, PartialEq)]
pub struct Page {
    /// The items found.
    pub items: Vec<Item>,
    /// Where the next page begins; `None` at the end.
    pub next_token: Option<String>,
    /// What the page cost, in box hours.
    pub box_usage: f64,
    /// What was read, if the call asked for more than SimpleDB knows.
    pub metadata: ReplyMetadata,
}

/// What GetAttributes found.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// The attributes; none if there is no such item.
    pub attributes: Vec<Attribute>,
    /// What was read, if the call asked for more than SimpleDB knows.
    pub metadata: ReplyMetadata,
}

type Parameters = Vec<(String, String)>;

impl SimpleDb {
    /// The names of all domains, in order.
    ///
    /// # Errors
    /// As [`Client::call`]; `Malformed` for a result that is not SimpleDB's, or a list without an
    /// end.
    pub async fn list_domains(&self) -> Result<Vec<String>, Error> {
        let mut names = Vec::new();
        let mut token = None;
        for _ in 0..LIST_PAGES_MAX {
            let mut parameters = Vec::new();
            push_optional(&mut parameters, "NextToken", token.as_deref());
            let response = self.0.call("ListDomains", &parameters).await?;
            let result = result(&response, "ListDomainsResult")?;
            names.extend(result.children("DomainName").map(|name| name.text.clone()));
            token = next_token(result);
            if token.is_none() {
                return Ok(names);
            }
        }
        Err(Error::malformed("ListDomains has no last page"))
    }

    /// Creates a domain; one that exists stays as it is.
    ///
    /// # Errors
    /// As [`Client::call`].
    pub async fn create_domain(&self, domain: &str) -> Result<Response, Error> {
        self.create_domain_as(domain, &DomainOptions::default())
            .await
    }

    /// Creates a domain of a nature of its own, which only Fader knows.
    ///
    /// # Errors
    /// As [`Client::call`].
    pub async fn create_domain_as(
        &self,
        domain: &str,
        nature: &DomainOptions,
    ) -> Result<Response, Error> {
        let mut parameters = vec![pair("DomainName", domain)];
        let mode = nature.mode.map(|mode| mode.to_string());
        push_optional(&mut parameters, "Fader-Collection-Mode", mode.as_deref());
        let default = nature
            .default
            .as_ref()
            .map(level::ConsistencyOptions::to_string);
        let name = "Fader-Collection-Consistency";
        push_optional(&mut parameters, name, default.as_deref());
        self.0.call("CreateDomain", &parameters).await
    }

    /// Deletes a domain with all that is in it.
    ///
    /// # Errors
    /// As [`Client::call`].
    pub async fn delete_domain(&self, domain: &str) -> Result<Response, Error> {
        self.0
            .call("DeleteDomain", &[pair("DomainName", domain)])
            .await
    }

    /// Counts and sizes of a domain.
    ///
    /// # Errors
    /// As [`Client::call`]; `Malformed` for a result that is not SimpleDB's.
    pub async fn domain_metadata(&self, domain: &str) -> Result<DomainMetadata, Error> {
        let response = self
            .0
            .call("DomainMetadata", &[pair("DomainName", domain)])
            .await?;
        let result = result(&response, "DomainMetadataResult")?;
        let number = |name: &str| {
            let text = result.child_text(name);
            text.parse()
                .map_err(|_| Error::malformed(format!("{name} is {text:?}")))
        };
        Ok(DomainMetadata {
            item_count: number("ItemCount")?,
            item_names_size_bytes: number("ItemNamesSizeBytes")?,
            attribute_name_count: number("AttributeNameCount")?,
            attribute_names_size_bytes: number("AttributeNamesSizeBytes")?,
            attribute_value_count: number("AttributeValueCount")?,
            attribute_values_size_bytes: number("AttributeValuesSizeBytes")?,
            timestamp: number("Timestamp")?,
        })
    }

    /// Puts attributes into an item, on a condition if there is one.
    ///
    /// # Errors
    /// As [`Client::ask`]. A failed condition is `Refused`.
    pub async fn put_attributes(
        &self,
        domain: &str,
        item: &str,
        attributes: &[AttributePut],
        expected: Option<&Expected>,
        options: CallOptions<'_>,
    ) -> Result<Response, Error> {
        let mut parameters = vec![pair("DomainName", domain), pair("ItemName", item)];
        push_puts(&mut parameters, "", attributes);
        push_expected(&mut parameters, expected);
        self.0.ask("PutAttributes", parameters, options).await
    }

    /// Puts up to 25 items, all or none.
    ///
    /// # Errors
    /// As [`Client::ask`].
    pub async fn batch_put_attributes(
        &self,
        domain: &str,
        items: &[ItemPut],
        options: CallOptions<'_>,
    ) -> Result<Response, Error> {
        let mut parameters = vec![pair("DomainName", domain)];
        for (index, item) in items.iter().enumerate() {
            let prefix = format!("Item.{}.", index + 1);
            parameters.push((format!("{prefix}ItemName"), item.name.clone()));
            push_puts(&mut parameters, &prefix, &item.attributes);
        }
        self.0.ask("BatchPutAttributes", parameters, options).await
    }

    /// The attributes of an item: all of them when `names` is empty; none if there is no such item.
    ///
    /// # Errors
    /// As [`Client::ask`]; `Malformed` for a result that is not SimpleDB's.
    pub async fn get_attributes(
        &self,
        domain: &str,
        item: &str,
        names: &[String],
        options: CallOptions<'_>,
    ) -> Result<Found, Error> {
        let mut parameters = vec![pair("DomainName", domain), pair("ItemName", item)];
        for (index, name) in names.iter().enumerate() {
            parameters.push((format!("AttributeName.{}", index + 1), name.clone()));
        }
        let response = self.0.ask("GetAttributes", parameters, options).await?;
        Ok(Found {
            attributes: attributes(result(&response, "GetAttributesResult")?),
            metadata: response.metadata,
        })
    }

    /// Deletes an item or parts of it, on a condition if there is one.
    ///
    /// # Errors
    /// As [`Client::ask`]. A failed condition is `Refused`.
    pub async fn delete_attributes(
        &self,
        domain: &str,
        delete: &ItemDelete,
        expected: Option<&Expected>,
        options: CallOptions<'_>,
    ) -> Result<Response, Error> {
        let mut parameters = vec![pair("DomainName", domain), pair("ItemName", &delete.name)];
        push_deletes(&mut parameters, "", delete);
        push_expected(&mut parameters, expected);
        self.0.ask("DeleteAttributes", parameters, options).await
    }

    /// Deletes up to 25 items or parts of them, all or none.
    ///
    /// # Errors
    /// As [`Client::ask`].
    pub async fn batch_delete_attributes(
        &self,
        domain: &str,
        deletes: &[ItemDelete],
        options: CallOptions<'_>,
    ) -> Result<Response, Error> {
        let mut parameters = vec![pair("DomainName", domain)];
        for (index, delete) in deletes.iter().enumerate() {
            let prefix = format!("Item.{}.", index + 1);
            parameters.push((format!("{prefix}ItemName"), delete.name.clone()));
            push_deletes(&mut parameters, &prefix, delete);
        }
        self.0
            .ask("BatchDeleteAttributes", parameters, options)
            .await
    }

    /// One page of a Select.
    ///
    /// # Errors
    /// As [`Client::ask`]; `Malformed` for a result that is not SimpleDB's.
    pub async fn select(
        &self,
        expression: &str,
        next_token: Option<&str>,
        options: CallOptions<'_>,
    ) -> Result<Page, Error> {
        let mut parameters = vec![pair("SelectExpression", expression)];
        push_optional(&mut parameters, "NextToken", next_token);
        let response = self.0.ask("Select", parameters, options).await?;
        let result = result(&response, "SelectResult")?;
        let items = result.children("Item").map(|item| Item {
            name: item.child_text("Name").to_owned(),
            attributes: attributes(item),
        });
        Ok(Page {
            items: items.collect(),
            next_token: self::next_token(result),
            box_usage: response.box_usage,
            metadata: response.metadata,
        })
    }

    /// How Fader would answer a Select, line by line.
    ///
    /// # Errors
    /// As [`Client::call`]; `Malformed` for a result that is not SimpleDB's.
    pub async fn explain_select(&self, expression: &str) -> Result<Vec<String>, Error> {
        let parameters = [pair("SelectExpression", expression)];
        let response = self.0.call("ExplainSelect", &parameters).await?;
        let result = result(&response, "ExplainSelectResult")?;
        Ok(result
            .children("Line")
            .map(|line| line.text.clone())
            .collect())
    }
}

fn pair(name: &str, value: &str) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

fn push_optional(parameters: &mut Parameters, name: &str, value: Option<&str>) {
    parameters.extend(value.map(|value| pair(name, value)));
}

fn push_puts(parameters: &mut Parameters, prefix: &str, attributes: &[AttributePut]) {
    for (index, attribute) in attributes.iter().enumerate() {
        let prefix = format!("{prefix}Attribute.{}.", index + 1);
        parameters.push((format!("{prefix}Name"), attribute.name.clone()));
        parameters.push((format!("{prefix}Value"), attribute.value.clone()));
        if attribute.replace {
            parameters.push((format!("{prefix}Replace"), String::from("true")));
        }
    }
}

fn push_deletes(parameters: &mut Parameters, prefix: &str, delete: &ItemDelete) {
    for (index, (name, value)) in delete.attributes.iter().enumerate() {
        let prefix = format!("{prefix}Attribute.{}.", index + 1);
        parameters.push((format!("{prefix}Name"), name.clone()));
        parameters.extend(value.clone().map(|value| (format!("{prefix}Value"), value)));
    }
}

fn push_expected(parameters: &mut Parameters, expected: Option<&Expected>) {
    match expected {
        None => {}
        Some(Expected::Value(attribute)) => parameters.extend([
            pair("Expected.1.Name", &attribute.name),
            pair("Expected.1.Value", &attribute.value),
        ]),
        Some(Expected::Absent(name)) => parameters.extend([
            pair("Expected.1.Name", name),
            pair("Expected.1.Exists", "false"),
        ]),
    }
}

fn result<'a>(response: &'a Response, name: &str) -> Result<&'a Element, Error> {
    let missing = || Error::malformed(format!("reply has no {name}"));
    response.root.child(name).ok_or_else(missing)
}

fn next_token(result: &Element) -> Option<String> {
    result
        .child("NextToken")
        .map(|token| token.text.clone())
        .filter(|token| !token.is_empty())
}

fn attributes(parent: &Element) -> Vec<Attribute> {
    let attribute = |element: &Element| Attribute {
        name: element.child_text("Name").to_owned(),
        value: element.child_text("Value").to_owned(),
    };
    parent.children("Attribute").map(attribute).collect()
}
