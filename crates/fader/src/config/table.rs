//! The configuration as `fader config show` prints it.

use std::fmt;

use clap::ValueEnum;

use super::{Config, Origin, limits};

/// The value of a setting that has none.
pub(super) const NONE: &str = "-";

impl Config {
    /// Every setting as `name  value  origin`, one a line.
    pub(crate) fn table(&self) -> String {
        columns(&self.rows())
    }

    /// Every setting as name, value and origin; [`NONE`] where it has no value.
    pub(super) fn rows(&self) -> Vec<[String; 3]> {
        let mut rows = Vec::new();
        let mut row = |name: &str, value: String, origin: &Origin| {
            rows.push([name.to_owned(), value, origin.to_string()]);
        };
        row("listen", self.listen.value.to_string(), &self.listen.origin);
        row(
            "data",
            self.data.value.display().to_string(),
            &self.data.origin,
        );
        row(
            "durability",
            value_name(&self.durability.value),
            &self.durability.origin,
        );
        let certificate = &self.tls_certificate;
        row(
            "tls-certificate",
            shown(certificate.value.as_ref().map(|path| path.display())),
            &certificate.origin,
        );
        row(
            "tls-key",
            shown(self.tls_key.value.as_ref().map(|path| path.display())),
            &self.tls_key.origin,
        );
        row(
            "anonymous",
            self.anonymous.value.to_string(),
            &self.anonymous.origin,
        );
        row("host", shown(self.host.value.as_ref()), &self.host.origin);
        row(
            "cache-mb",
            self.cache_mb.value.to_string(),
            &self.cache_mb.origin,
        );
        let (all, each) = (&self.connections_max, &self.connections_per_address);
        row("connections-max", all.value.to_string(), &all.origin);
        row("connections-per-address", shown(each.value), &each.origin);
        row("limit", shown(self.limit.value), &self.limit.origin);
        row(
            "log-format",
            value_name(&self.log_format.value),
            &self.log_format.origin,
        );
        row(
            "log-level",
            self.log_level.value.clone(),
            &self.log_level.origin,
        );
        for (name, value, origin) in self.membership.rows() {
            row(name, value, origin);
        }
        let of_buckets = self.buckets.rows();
        for (name, value, origin) in self.blocks.rows().into_iter().chain(of_buckets) {
            row(name, value, origin);
        }
        let (id, secret) = match &self.root.value {
            Some((id, _)) => (id.as_str(), "(hidden)"),
            None => (NONE, NONE),
        };
        row("root.access-key", id.to_owned(), &self.root.origin);
        row("root.secret-key", secret.to_owned(), &self.root.origin);
        for (name, value) in limits::list(&self.limits) {
            let file = self.file.clone().filter(|_| self.given_limits.has(&name));
            let origin = file.map_or(Origin::Default, Origin::File);
            row(&format!("limits.{name}"), value.to_string(), &origin);
        }
        rows
    }
}

/// The value, or a dash in its place.
fn shown(value: Option<impl fmt::Display>) -> String {
    value.map_or_else(|| NONE.to_owned(), |value| value.to_string())
}

fn value_name(value: &impl ValueEnum) -> String {
    value
        .to_possible_value()
        .map_or(String::new(), |value| value.get_name().to_owned())
}

/// Rows of three cells, the first two padded to a common width.
fn columns(rows: &[[String; 3]]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let (first, second) = (width(0), width(1));
    let lines = rows
        .iter()
        .map(|[name, value, origin]| format!("{name:<first$}  {value:<second$}  {origin}\n"));
    lines.collect()
}
