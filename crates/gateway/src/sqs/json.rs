//! A JSON body as a tree. Texts stay where they lie in the body, unless they have escapes.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Json<'a> {
    Null,
    Flag,
    /// What is no whole number of 64 bits has none.
    Number(Option<i64>),
    Text(Cow<'a, str>),
    List(Vec<Json<'a>>),
    Object(Object<'a>),
}

/// Names with values, in order of name, each name once.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Object<'a>(Vec<(Cow<'a, str>, Json<'a>)>);

impl<'a> Object<'a> {
    /// Of a name that comes several times the last value counts.
    fn new(mut pairs: Vec<(Cow<'a, str>, Json<'a>)>) -> Object<'a> {
        pairs.reverse();
        pairs.sort_by(|(a, _), (b, _)| a.cmp(b));
        pairs.dedup_by(|(later, _), (first, _)| later == first);
        Object(pairs)
    }

    /// The value of a name.
    pub(crate) fn get(&self, name: &str) -> Option<&Json<'a>> {
        let at = self.0.binary_search_by(|(its, _)| (**its).cmp(name)).ok()?;
        Some(&self.0[at].1)
    }

    /// All names with their values.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &Json<'a>)> {
        self.0.iter().map(|(name, value)| (&**name, value))
    }
}

impl<'de> Deserialize<'de> for Json<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Json<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Json<'de>, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, _value: bool) -> Result<Json<'de>, E> {
        Ok(Json::Flag)
    }

    fn visit_i64<E>(self, value: i64) -> Result<Json<'de>, E> {
        Ok(Json::Number(Some(value)))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Json<'de>, E> {
        Ok(Json::Number(i64::try_from(value).ok()))
    }

    fn visit_f64<E>(self, _value: f64) -> Result<Json<'de>, E> {
        Ok(Json::Number(None))
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Json<'de>, E> {
        Ok(Json::Text(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Json<'de>, E> {
        Ok(Json::Text(Cow::Owned(text.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Json<'de>, A::Error> {
        let mut all = Vec::new();
        while let Some(value) = list.next_element()? {
            all.push(value);
        }
        Ok(Json::List(all))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Json<'de>, A::Error> {
        let mut pairs = Vec::new();
        while let Some(Name(name)) = map.next_key()? {
            pairs.push((name, map.next_value()?));
        }
        Ok(Json::Object(Object::new(pairs)))
    }
}

/// A name, which stays where it lies too.
struct Name<'a>(Cow<'a, str>);

impl<'de> Deserialize<'de> for Name<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Json::deserialize(deserializer)? {
            Json::Text(name) => Ok(Name(name)),
            _ => Err(serde::de::Error::custom("a name is a text")),
        }
    }
}
