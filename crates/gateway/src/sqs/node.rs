//! A request's parameters as a tree, from either protocol.

use std::collections::BTreeMap;

use super::json::Json;
use crate::parameters::Parameters;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use fader_services::sqs::{Code, Error};

/// How deep the names of a form may nest: the deepest of SQS have five parts.
const DEPTH_MAX: usize = 8;

/// Parameters, or one of them.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Node<'a> {
    Json(&'a Json<'a>),
    Form(&'a Form),
}

/// The parameters of a form by the parts of their names.
#[derive(Debug, Default)]
pub(crate) struct Form {
    value: Option<String>,
    parts: BTreeMap<String, Form>,
}

impl Form {
    /// All parameters of a request.
    pub(crate) fn read(parameters: &Parameters<'_>) -> Result<Form, Error> {
        let mut form = Form::default();
        for parameter in parameters.all() {
            let mut at = &mut form;
            for (depth, part) in parameter.name.split('.').enumerate() {
                if depth == DEPTH_MAX {
                    return Err(malformed(&format!(
                        "The parameter {} is none",
                        parameter.name
                    )));
                }
                at = at.parts.entry(part.to_owned()).or_default();
            }
            at.value = Some(parameter.value.clone().into_owned());
        }
        Ok(form)
    }

    /// The members of a list, by their numbers.
    fn members(&self) -> Vec<&Form> {
        let numbered = self.parts.iter().filter_map(|(at, member)| {
            let at: u32 = at.parse().ok()?;
            Some((at, member))
        });
        let mut numbered: Vec<(u32, &Form)> = numbered.collect();
        numbered.sort_by_key(|(at, _)| *at);
        numbered.into_iter().map(|(_, member)| member).collect()
    }
}

/// What a request is not.
pub(crate) fn malformed(reason: &str) -> Error {
    Error::new(Code::MalformedInput, reason)
}

impl<'a> Node<'a> {
    /// A parameter, by its name in JSON and in Query.
    pub(crate) fn get(self, json: &str, query: &str) -> Option<Node<'a>> {
        match self {
            Node::Json(Json::Object(all)) => {
                let it = all.get(json).filter(|it| **it != Json::Null);
                it.map(Node::Json)
            }
            Node::Json(_) => None,
            Node::Form(it) => it.parts.get(query).map(Node::Form),
        }
    }

    /// A text.
    pub(crate) fn text(self, name: &str) -> Result<Option<String>, Error> {
        self.get(name, name).map(|it| it.as_text(name)).transpose()
    }

    fn as_text(self, name: &str) -> Result<String, Error> {
        let text = match self {
            Node::Json(Json::Text(text)) => Some(&**text),
            Node::Json(_) => None,
            Node::Form(form) => form.value.as_deref(),
        };
        let wrong = || malformed(&format!("The parameter {name} is not a text"));
        text.map(str::to_owned).ok_or_else(wrong)
    }

    /// A whole number.
    pub(crate) fn number(self, name: &str) -> Result<Option<i64>, Error> {
        let Some(it) = self.get(name, name) else {
            return Ok(None);
        };
        let number = match it {
            Node::Json(Json::Number(number)) => *number,
            Node::Json(Json::Text(text)) => text.parse().ok(),
            Node::Json(_) => None,
            Node::Form(form) => form
                .value
                .as_ref()
                .and_then(|text| text.trim().parse().ok()),
        };
        let wrong = || malformed(&format!("The parameter {name} is not a whole number"));
        number.map(Some).ok_or_else(wrong)
    }

    /// Bytes in base64.
    pub(crate) fn bytes(self, name: &str) -> Result<Option<Bytes>, Error> {
        let Some(text) = self.text(name)? else {
            return Ok(None);
        };
        let bytes = BASE64.decode(text.as_bytes());
        let wrong = |_| malformed(&format!("The parameter {name} is not base64"));
        bytes.map(|bytes| Some(bytes.into())).map_err(wrong)
    }

    /// The members of a list, by its name in JSON and that of a member in Query.
    pub(crate) fn list(self, json: &str, query: &str) -> Result<Vec<Node<'a>>, Error> {
        match self.get(json, query) {
            None => Ok(Vec::new()),
            Some(Node::Json(Json::List(all))) => Ok(all.iter().map(Node::Json).collect()),
            Some(Node::Json(_)) => Err(malformed(&format!("The parameter {json} is not a list"))),
            Some(Node::Form(form)) => Ok(form.members().into_iter().map(Node::Form).collect()),
        }
    }

    /// A list of texts.
    pub(crate) fn texts(self, json: &str, query: &str) -> Result<Vec<String>, Error> {
        let members = self.list(json, query)?;
        members.into_iter().map(|it| it.as_text(json)).collect()
    }

    /// A map: each name with its value. In Query a member has them as `key` and `Value`.
    pub(crate) fn map(
        self,
        json: &str,
        query: &str,
        key: &str,
    ) -> Result<Vec<(String, Node<'a>)>, Error> {
        match self.get(json, query) {
            None => Ok(Vec::new()),
            Some(Node::Json(Json::Object(all))) => {
                let all = all.iter().filter(|(_, it)| **it != Json::Null);
                Ok(all
                    .map(|(name, it)| (name.to_owned(), Node::Json(it)))
                    .collect())
            }
            Some(Node::Json(_)) => Err(malformed(&format!("The parameter {json} is not a map"))),
            Some(Node::Form(form)) => {
                let members = form.members().into_iter().map(Node::Form);
                let read = members.map(|member| {
                    let missing = || Error::missing(&format!("{query}.{key}"));
                    let name = member.text(key)?.ok_or_else(missing)?;
                    let value = member
                        .get("", "Value")
                        .ok_or_else(|| Error::missing(&format!("{query}.Value")))?;
                    Ok((name, value))
                });
                read.collect()
            }
        }
    }

    /// A map of texts.
    pub(crate) fn pairs(
        self,
        json: &str,
        query: &str,
        key: &str,
    ) -> Result<Vec<(String, String)>, Error> {
        let pairs = self.map(json, query, key)?;
        let read = pairs
            .into_iter()
            .map(|(name, value)| Ok((name, value.as_text(json)?)));
        read.collect()
    }
}
