//! Items as tables, JSON lines and CSV.

use anyhow::Result;
use fader_cloud::{Attribute, Item};

use super::Output;
use super::record::{self, Columns};
use crate::output::{table, visible};

/// Items in one of the formats.
pub(super) fn items(items: &[Item], output: Output) -> Result<String> {
    match output {
        Output::Table => Ok(as_table(items)),
        Output::Json => Ok(items.iter().map(record::to_json).collect()),
        Output::Csv => {
            let mut columns = Columns::default();
            items.iter().for_each(|item| columns.widen(item));
            let mut writer = csv::Writer::from_writer(Vec::new());
            writer.write_record(columns.header(None))?;
            for item in items {
                writer.write_record(columns.row(item, None)?)?;
            }
            Ok(String::from_utf8(writer.into_inner()?)?)
        }
    }
}

fn as_table(items: &[Item]) -> String {
    let mut names: Vec<&str> = Vec::new();
    for attribute in items.iter().flat_map(|item| &item.attributes) {
        if !names.contains(&attribute.name.as_str()) {
            names.push(&attribute.name);
        }
    }
    let header = std::iter::once("item")
        .chain(names.iter().copied())
        .map(visible);
    let mut table = table(header.collect::<Vec<_>>());
    for item in items {
        let mut row = vec![visible(&item.name)];
        row.extend(names.iter().map(|name| values(&item.attributes, name)));
        table.add_row(row);
    }
    format!("{}\n", table.trim_fmt())
}

/// The values of one attribute, each on its line of the cell.
fn values(attributes: &[Attribute], name: &str) -> String {
    let values = attributes.iter().filter(|attribute| attribute.name == name);
    values
        .map(|attribute| visible(&attribute.value))
        .collect::<Vec<_>>()
        .join("\n")
}
