//! Where objects and files are, as a command line says it.

use std::path::PathBuf;
use std::str::FromStr;

use anyhow::Result;

use crate::failure;

const SCHEME: &str = "s3://";

/// `s3://BUCKET/KEY`; the key may be empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ObjectPlace {
    /// The bucket.
    pub(super) bucket: String,
    /// The key, or a prefix of keys.
    pub(super) key: String,
}

impl FromStr for ObjectPlace {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let Some(rest) = text.strip_prefix(SCHEME) else {
            return failure::invalid(format_args!("it is s3://BUCKET/KEY, not {text:?}"));
        };
        let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
        if bucket.is_empty() {
            return failure::invalid(format_args!("{text:?} names no bucket"));
        }
        Ok(ObjectPlace {
            bucket: bucket.to_owned(),
            key: key.to_owned(),
        })
    }
}

impl ObjectPlace {
    /// Refuses a place that names no object; `else_do` says what is there for a whole bucket.
    pub(super) fn check_key(&self, else_do: &str) -> Result<()> {
        match self.key.is_empty() {
            true => failure::invalid(format_args!("{self} names no object; {else_do}")),
            false => Ok(()),
        }
    }

    /// The place of something below this one.
    pub(super) fn below(&self, name: &str) -> ObjectPlace {
        let key = match self.key.trim_end_matches('/') {
            "" => name.to_owned(),
            folder => format!("{folder}/{name}"),
        };
        ObjectPlace {
            bucket: self.bucket.clone(),
            key,
        }
    }

    /// What all keys below this one begin with.
    pub(super) fn folder(&self) -> String {
        match self.key.trim_end_matches('/') {
            "" => String::new(),
            folder => format!("{folder}/"),
        }
    }
}

impl std::fmt::Display for ObjectPlace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{SCHEME}{}/{}", self.bucket, self.key)
    }
}

/// A file or an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Of this machine.
    File(PathBuf),
    /// Of a bucket.
    Object(ObjectPlace),
}

impl FromStr for Place {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        match text.starts_with(SCHEME) {
            true => text.parse().map(Place::Object),
            false => Ok(Place::File(PathBuf::from(text))),
        }
    }
}

/// The bucket of `BUCKET` or `s3://BUCKET`.
pub(super) fn bucket(text: &str) -> Result<String> {
    let name = text
        .strip_prefix(SCHEME)
        .unwrap_or(text)
        .trim_end_matches('/');
    if name.is_empty() || name.contains('/') {
        return failure::invalid(format_args!(
            "it is the name of a bucket, or s3://BUCKET, not {text:?}"
        ));
    }
    Ok(name.to_owned())
}

/// A key as the path of a file; `None` where it would leave its folder or name none.
pub(super) fn relative(key: &str) -> Option<PathBuf> {
    let is_name = |name: &str| !matches!(name, "" | "." | "..") && !name.contains(['\\', '\0']);
    key.split('/')
        .all(is_name)
        .then(|| key.split('/').collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read_as_they_are_shown() {
        let place: ObjectPlace = "s3://b/a/k".parse().expect("it is one");
        assert_eq!(place.to_string(), "s3://b/a/k");
        assert_eq!(place.below("x").key, "a/k/x");
        assert_eq!(place.folder(), "a/k/");
        let bare: ObjectPlace = "s3://b".parse().expect("it is one");
        assert_eq!(
            (bare.below("x").key, bare.folder()),
            ("x".to_owned(), String::new())
        );
        for text in ["b/k", "s3://", "s3:///k"] {
            assert!(text.parse::<ObjectPlace>().is_err(), "{text}");
        }
        assert_eq!(bucket("s3://b/").ok().as_deref(), Some("b"));
        assert!(bucket("b/k").is_err());
    }

    /// It shows COPY-3.
    #[test]
    fn keys_leave_no_folder() {
        assert_eq!(relative("a/b"), Some(PathBuf::from("a/b")));
        for key in ["../a", "a/../b", "/a", "a//b", "a/", "", "a/.", "a\\b"] {
            assert_eq!(relative(key), None, "{key}");
        }
    }
}
