//! From parameters to a request.
//!
//! A list's members carry an index (`Attribute.3.Name`), any number of up to ten digits. They are
//! taken in numeric order, and gaps do not matter. A single member may go without an index
//! (`Expected.Name`). What the request's type leaves optional stays so: services judge it.
//! Parameters that no action knows are ignored, as AWS does. A member of a known list that cannot
//! be understood is refused, so that nothing is half stored.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use fader_services::simpledb::{
    AttributeDelete, AttributePut, Code, Error, Expected, ItemDelete, ItemPut, PageToken, Request,
};

use crate::consistency::CollectionOptions;
use crate::parameters::{Parameter, Parameters, given_twice};
use crate::simpledb::Action;

/// The most digits of an index: what an index may say, not how many there may be.
const INDEX_DIGITS_MAX: usize = 10;

/// The request for `action` with these parameters.
///
/// `options` is what the headers and parameters of consistency say of a domain to be created.
pub(crate) fn request(
    action: Action,
    parameters: &Parameters<'_>,
    options: CollectionOptions,
) -> Result<Request, Error> {
    options.check_is_for(action)?;
    let text = |name| parameters.get(name).map(str::to_owned);
    let required = |name| text(name).ok_or_else(|| missing(name));
    let domain = || required("DomainName");
    Ok(match action {
        Action::CreateDomain => Request::CreateDomain {
            domain: domain()?,
            mode: options.mode,
            preference: options.preference,
        },
        Action::DeleteDomain => Request::DeleteDomain { domain: domain()? },
        Action::DomainMetadata => Request::DomainMetadata { domain: domain()? },
        Action::ListDomains => Request::ListDomains {
            max_count: count(parameters, "MaxNumberOfDomains", 100)?,
            next_token: next_token(parameters)?,
        },
        Action::PutAttributes => Request::PutAttributes {
            domain: domain()?,
            put: put_item(parameters)?,
            expected: expected(parameters)?,
        },
        Action::BatchPutAttributes => Request::BatchPutAttributes {
            domain: domain()?,
            puts: put_items(parameters)?,
        },
        Action::DeleteAttributes => Request::DeleteAttributes {
            domain: domain()?,
            delete: ItemDelete {
                item: text("ItemName"),
                attributes: values(members(parameters, "Attribute.", delete_part)?),
            },
            expected: expected(parameters)?,
        },
        Action::BatchDeleteAttributes => Request::BatchDeleteAttributes {
            domain: domain()?,
            deletes: delete_items(parameters)?,
        },
        Action::GetAttributes => Request::GetAttributes {
            domain: domain()?,
            item: required("ItemName")?,
            names: attribute_names(parameters)?,
            consistent: consistent(parameters)?,
        },
        Action::Select => Request::Select {
            expression: required("SelectExpression")?,
            next_token: next_token(parameters)?,
            consistent: consistent(parameters)?,
        },
        Action::ExplainSelect => Request::ExplainSelect {
            expression: required("SelectExpression")?,
        },
        Action::Query | Action::QueryWithAttributes => Request::Query {
            domain: domain()?,
            expression: text("QueryExpression"),
            max_count: count(parameters, "MaxNumberOfItems", 250)?,
            next_token: next_token(parameters)?,
            attributes: (action == Action::QueryWithAttributes)
                .then(|| attribute_names(parameters))
                .transpose()?,
        },
    })
}

/// The members of a list by index; a member without an index comes first.
type Members<T> = BTreeMap<Option<u64>, T>;
/// An item of a batch: its name, and its attributes.
type ItemMember<T> = (Option<String>, Members<T>);

/// Gathers the members of the list called `prefix`. `set` puts one part into its member, and says
/// what it found wrong.
fn members<T: Default>(
    parameters: &Parameters<'_>,
    prefix: &str,
    set: fn(&mut T, &str, &Parameter<'_>) -> Result<(), Error>,
) -> Result<Members<T>, Error> {
    let mut found = Members::new();
    for parameter in parameters.starting_with(prefix) {
        let (index, part) = split_index(parameter, &parameter.name[prefix.len()..])?;
        set(found.entry(index).or_default(), part, parameter)?;
    }
    Ok(found)
}

/// `3.Name` is index 3 and part `Name`; `Name` has no index.
fn split_index<'n>(
    parameter: &Parameter<'_>,
    name: &'n str,
) -> Result<(Option<u64>, &'n str), Error> {
    let digits = name.bytes().take_while(u8::is_ascii_digit).count();
    if digits == 0 {
        return Ok((None, name));
    }
    match name[..digits].parse() {
        Ok(index) if digits <= INDEX_DIGITS_MAX && name[digits..].starts_with('.') => {
            Ok((Some(index), &name[digits + 1..]))
        }
        _ => Err(not_understood(parameter)),
    }
}

/// Fills `place`, once. Only a second spelling of one index (1 and 01) can come here twice.
fn fill(place: &mut Option<String>, parameter: &Parameter<'_>) -> Result<(), Error> {
    match place.replace(parameter.value.to_string()) {
        None => Ok(()),
        Some(_) => Err(given_twice(&parameter.name)),
    }
}

fn put_part(put: &mut AttributePut, part: &str, parameter: &Parameter<'_>) -> Result<(), Error> {
    match part {
        "Name" => fill(&mut put.name, parameter),
        "Value" => fill(&mut put.value, parameter),
        "Replace" => {
            put.replace = boolean(&parameter.value, "Replace", "The Replace flag")?;
            Ok(())
        }
        _ => Err(not_understood(parameter)),
    }
}

fn delete_part(
    delete: &mut AttributeDelete,
    part: &str,
    parameter: &Parameter<'_>,
) -> Result<(), Error> {
    match part {
        "Name" => fill(&mut delete.name, parameter),
        "Value" => fill(&mut delete.value, parameter),
        // Clients send what they would put; the flag means nothing here.
        "Replace" => Ok(()),
        _ => Err(not_understood(parameter)),
    }
}

fn expected_part(
    expected: &mut Expected,
    part: &str,
    parameter: &Parameter<'_>,
) -> Result<(), Error> {
    match part {
        "Name" => fill(&mut expected.name, parameter),
        "Value" => fill(&mut expected.value, parameter),
        "Exists" => {
            let exists = boolean(&parameter.value, "Expected.Exists", "Expected.Exists")?;
            expected.exists = Some(exists);
            Ok(())
        }
        _ => Err(not_understood(parameter)),
    }
}

fn put_item_part(
    item: &mut ItemMember<AttributePut>,
    part: &str,
    parameter: &Parameter<'_>,
) -> Result<(), Error> {
    if part == "Replace" {
        return Err(replace_of_item());
    }
    item_part(item, part, parameter, put_part)
}

fn delete_item_part(
    item: &mut ItemMember<AttributeDelete>,
    part: &str,
    parameter: &Parameter<'_>,
) -> Result<(), Error> {
    item_part(item, part, parameter, delete_part)
}

fn item_part<T: Default>(
    item: &mut ItemMember<T>,
    part: &str,
    parameter: &Parameter<'_>,
    set: fn(&mut T, &str, &Parameter<'_>) -> Result<(), Error>,
) -> Result<(), Error> {
    if part == "ItemName" {
        return fill(&mut item.0, parameter);
    }
    if part == "Attributes" && is_empty_list(parameter) {
        return Ok(());
    }
    let rest = part
        .strip_prefix("Attribute.")
        .ok_or_else(|| not_understood(parameter))?;
    let (index, part) = split_index(parameter, rest)?;
    set(item.1.entry(index).or_default(), part, parameter)
}

fn put_item(parameters: &Parameters<'_>) -> Result<ItemPut, Error> {
    if parameters.get("Replace").is_some() {
        return Err(replace_of_item());
    }
    let item = parameters.get("ItemName").map(str::to_owned);
    let attributes = values(members(parameters, "Attribute.", put_part)?);
    Ok(ItemPut { item, attributes })
}

fn put_items(parameters: &Parameters<'_>) -> Result<Vec<ItemPut>, Error> {
    let items = members(parameters, "Item.", put_item_part)?.into_values();
    Ok(items
        .map(|(item, attributes)| ItemPut {
            item,
            attributes: values(attributes),
        })
        .collect())
}

fn delete_items(parameters: &Parameters<'_>) -> Result<Vec<ItemDelete>, Error> {
    let items = members(parameters, "Item.", delete_item_part)?.into_values();
    Ok(items
        .map(|(item, attributes)| ItemDelete {
            item,
            attributes: values(attributes),
        })
        .collect())
}

fn expected(parameters: &Parameters<'_>) -> Result<Vec<Expected>, Error> {
    Ok(values(members(parameters, "Expected.", expected_part)?))
}

fn values<T>(members: Members<T>) -> Vec<T> {
    members.into_values().collect()
}

/// `AttributeName.N` and a single `AttributeName`.
fn attribute_names(parameters: &Parameters<'_>) -> Result<Vec<String>, Error> {
    let mut names: Members<String> = Members::new();
    for parameter in parameters.starting_with("AttributeName") {
        let index = match &parameter.name["AttributeName".len()..] {
            "" => None,
            "s" if is_empty_list(parameter) => continue,
            index => Some(
                index
                    .strip_prefix('.')
                    .filter(|digits| digits.len() <= INDEX_DIGITS_MAX)
                    .filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))
                    .and_then(|digits| digits.parse().ok())
                    .ok_or_else(|| not_understood(parameter))?,
            ),
        };
        if names.insert(index, parameter.value.to_string()).is_some() {
            return Err(given_twice(&parameter.name));
        }
    }
    Ok(values(names))
}

/// botocore writes a list without members as its plural without a value.
fn is_empty_list(parameter: &Parameter<'_>) -> bool {
    parameter.value.is_empty()
}

fn next_token(parameters: &Parameters<'_>) -> Result<Option<PageToken>, Error> {
    let Some(text) = parameters.get("NextToken") else {
        return Ok(None);
    };
    match BASE64.decode(text) {
        Ok(bytes) => Ok(Some(PageToken(Bytes::from(bytes)))),
        Err(_) => Err(Error::new(
            Code::InvalidNextToken,
            "The specified next token is not valid.",
        )),
    }
}

fn count(parameters: &Parameters<'_>, name: &str, max: u32) -> Result<Option<i64>, Error> {
    let Some(text) = parameters.get(name) else {
        return Ok(None);
    };
    text.parse()
        .map(Some)
        .map_err(|_| invalid_value(text, name, &format!("{name} must be between 1 and {max}.")))
}

fn consistent(parameters: &Parameters<'_>) -> Result<bool, Error> {
    match parameters.get("ConsistentRead") {
        None => Ok(false),
        Some(text) => boolean(text, "ConsistentRead", "The ConsistentRead flag"),
    }
}

fn boolean(text: &str, name: &str, subject: &str) -> Result<bool, Error> {
    match text {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(invalid_value(
            text,
            name,
            &format!("{subject} should be either true or false."),
        )),
    }
}

fn missing(name: &str) -> Error {
    Error::new(
        Code::MissingParameter,
        format!("The request must contain the parameter {name}."),
    )
}

fn invalid_value(value: &str, name: &str, reason: &str) -> Error {
    Error::new(
        Code::InvalidParameterValue,
        format!("Value ({value}) for parameter {name} is invalid. {reason}"),
    )
}

fn not_understood(parameter: &Parameter<'_>) -> Error {
    let (name, value) = (&parameter.name, &parameter.value);
    invalid_value(value, name, "The parameter's name is not understood.")
}

fn replace_of_item() -> Error {
    Error::new(
        Code::FeatureDeprecated,
        "The replace flag must be specified per attribute, not per item.",
    )
}

#[cfg(test)]
mod tests;
