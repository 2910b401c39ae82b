//! The access key that the configuration brings along: from the environment or the file, never from
//! a flag.

use std::path::Path;

use anyhow::{Result, bail};
use fader_node::Secret;
use serde::{Deserialize, Deserializer};

use super::{Origin, Setting};

const ACCESS_KEY_VARIABLE: &str = "FADER_ROOT_ACCESS_KEY";
const SECRET_KEY_VARIABLE: &str = "FADER_ROOT_SECRET_KEY";

/// The access key that the configuration brings along.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct RootValues {
    access_key: Option<String>,
    #[serde(deserialize_with = "secret")]
    secret_key: Option<Secret>,
}

/// The error names no value: it may be a secret that lacks its quotation marks.
fn secret<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Secret>, D::Error> {
    match toml::Value::deserialize(deserializer)? {
        toml::Value::String(text) => Ok(Some(Secret::new(text))),
        _ => Err(serde::de::Error::custom(
            "secret-key is a text: it needs quotation marks",
        )),
    }
}

/// Characters of a secret that is not guessed.
const SECRET_SIZE_MIN: usize = 8;

/// The bootstrap key: both halves from the environment, or both from the file.
pub(super) fn root(
    filed: RootValues,
    path: Option<&Path>,
) -> Result<Setting<Option<(String, Secret)>>> {
    let root = given_root(filed, path)?;
    if let Some((_, secret)) = &root.value
        && secret.reveal().chars().count() < SECRET_SIZE_MIN
    {
        bail!(
            "the secret key of the configuration ({}) has fewer than {SECRET_SIZE_MIN} characters: \
             it would be guessed",
            root.origin
        );
    }
    Ok(root)
}

fn given_root(filed: RootValues, path: Option<&Path>) -> Result<Setting<Option<(String, Secret)>>> {
    let variable = |name| std::env::var(name).ok().filter(|text| !text.is_empty());
    let given = (variable(ACCESS_KEY_VARIABLE), variable(SECRET_KEY_VARIABLE));
    match (given, (filed.access_key, filed.secret_key)) {
        ((Some(id), Some(secret)), _) => {
            let value = Some((id, Secret::new(secret)));
            Ok(Setting {
                value,
                origin: Origin::Environment,
            })
        }
        ((None, None), (Some(id), Some(secret))) => {
            let origin = Origin::File(path.unwrap_or(Path::new("")).to_path_buf());
            Ok(Setting {
                value: Some((id, secret)),
                origin,
            })
        }
        ((None, None), (None, None)) => Ok(Setting {
            value: None,
            origin: Origin::Default,
        }),
        ((None, None), _) => bail!("[root] needs both access-key and secret-key"),
        _ => bail!("{ACCESS_KEY_VARIABLE} and {SECRET_KEY_VARIABLE} go together: set both"),
    }
}
