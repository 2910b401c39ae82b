//! The limits of SimpleDB by name: the file's `[limits]`, which may raise them.

use std::collections::BTreeMap;

use anyhow::{Result, bail};
use fader_services::simpledb::Limits;

/// One limit: its name in the file, and how to read and set it.
struct Limit {
    name: &'static str,
    get: fn(&Limits) -> u64,
    set: fn(&mut Limits, u64),
}

/// A limit that is a `u64`.
macro_rules! wide {
    ($name:literal, $field:ident) => {
        Limit {
            name: $name,
            get: |l| l.$field,
            set: |l, value| l.$field = value,
        }
    };
}

/// A limit that is a `usize`.
macro_rules! narrow {
    ($name:literal, $field:ident) => {
        Limit {
            name: $name,
            get: |l| l.$field as u64,
            set: |l, value| l.$field = usize::try_from(value).unwrap_or(usize::MAX),
        }
    };
}

const LIMITS: [Limit; 14] = [
    wide!("domains-per-account", domains_per_account),
    wide!("domain-bytes", domain_bytes),
    wide!("domain-pairs", domain_pairs),
    narrow!("item-pairs", item_pairs),
    narrow!("text-bytes", text_bytes),
    narrow!("submitted-attributes", submitted_attributes),
    narrow!("submitted-items", submitted_items),
    narrow!("requested-attributes", requested_attributes),
    narrow!("page-items", page_items),
    narrow!("page-items-default", page_items_default),
    narrow!("page-bytes", page_bytes),
    narrow!("select-comparisons", select_comparisons),
    narrow!("select-attributes", select_attributes),
    narrow!("expression-bytes", expression_bytes),
];

/// AWS's limits with `wanted` in their place.
///
/// # Errors
/// For a name that is no limit, and for a value below AWS's: programs rely on those.
pub(super) fn raised(wanted: &BTreeMap<String, u64>) -> Result<Limits> {
    let mut limits = Limits::default();
    for (name, value) in wanted {
        let Some(limit) = LIMITS.iter().find(|limit| limit.name == name) else {
            let names: Vec<&str> = LIMITS.iter().map(|limit| limit.name).collect();
            bail!("[limits] knows no `{name}`; it knows {}", names.join(", "));
        };
        let least = (limit.get)(&limits);
        if *value < least {
            bail!("[limits] {name} = {value} is below SimpleDB's {least}; it can only be raised");
        }
        (limit.set)(&mut limits, *value);
    }
    Ok(limits)
}

/// Every limit's name and value.
pub(super) fn list(limits: &Limits) -> impl Iterator<Item = (&'static str, u64)> {
    LIMITS.iter().map(|limit| (limit.name, (limit.get)(limits)))
}
