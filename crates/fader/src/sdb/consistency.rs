//! What a command asks of consistency, and how it shows what it was told.

use std::io::ErrorKind;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use fader_client::{CallOptions, Session};
use fader_services::level::{self, ReplyMetadata, show_stamp};
use serde_json::{Map, Value};

/// How consistent a command is. All but an absent flag needs Fader at the other end.
#[derive(Args)]
pub(super) struct Flags {
    /// How consistent: `strong`, `barrier`, or `eventual` with `; r=N`, `; w=N`, `; sloppy`,
    /// `; bound=500ms` or `; bound=10v`; with `; outcome` a write waits to tell what became of it.
    #[arg(long, value_name = "LEVEL")]
    consistency: Option<level::ConsistencyOptions>,

    /// Follow what the commands before with this file have read and written.
    #[arg(long, value_name = "FILE")]
    session: Option<PathBuf>,

    /// Tell on standard error what was read or written: stamp, version, outcome.
    #[arg(long, short)]
    verbose: bool,
}

/// One command's asking.
pub(super) struct ConsistencyFlags<'o> {
    options: &'o Flags,
    session: Option<Session>,
}

impl Flags {
    /// Reads the session, if there is one.
    pub(super) fn begin(&self) -> Result<ConsistencyFlags<'_>> {
        let session = match &self.session {
            None => None,
            Some(path) => {
                let context = || format!("cannot go on with the session in {}", path.display());
                let text = match std::fs::read_to_string(path) {
                    Ok(text) => text,
                    Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
                    Err(error) => return Err(error).with_context(context),
                };
                Some(text.parse::<Session>().with_context(context)?)
            }
        };
        Ok(ConsistencyFlags {
            options: self,
            session,
        })
    }
}

impl ConsistencyFlags<'_> {
    /// What one call asks for.
    pub(super) fn demand(&mut self) -> CallOptions<'_> {
        let consistency = self.options.consistency.clone().unwrap_or_default();
        CallOptions {
            metadata: self.options.verbose,
            session: self.session.as_mut(),
            ..CallOptions::from(consistency)
        }
    }

    /// Keeps the session for the next command, after refusals too.
    pub(super) fn save(&self) -> Result<()> {
        if let (Some(path), Some(session)) = (&self.options.session, &self.session) {
            let context = || format!("cannot keep the session in {}", path.display());
            std::fs::write(path, session.to_string()).with_context(context)?;
        }
        Ok(())
    }

    /// Shows what a reply told, as one line of JSON.
    pub(super) fn show(&self, metadata: &ReplyMetadata) {
        for notice in &metadata.settled {
            note!("an earlier write of this session was not applied: {notice}");
        }
        if self.options.verbose {
            note!("{}", json(metadata));
        }
    }
}

fn json(metadata: &ReplyMetadata) -> Value {
    let mut fields = Map::new();
    let mut add = |name: &str, value: Option<String>| {
        fields.extend(value.map(|value| (name.to_owned(), Value::String(value))));
    };
    add("stamp", metadata.stamp.as_ref().map(show_stamp));
    add(
        "version",
        metadata.version.map(|version| version.to_string()),
    );
    add(
        "outcome",
        metadata.outcome.as_ref().map(ToString::to_string),
    );
    fields.insert("tentative".to_owned(), Value::Bool(metadata.tentative));
    Value::Object(fields)
}

#[cfg(test)]
mod tests;
