//! What a store remembers of its probe: a small text under a name of its own for each way.
//!
//! ```text
//! fader probe 1
//! at 1767225600000
//! etags repeat
//! ```

use std::time::Duration;

use object_store::path::Path;
use object_store::{Error as StoreError, ObjectStore, ObjectStoreExt};

use super::{FOLDER, Findings, MEMORY, Outcome, Promise, failed};
use crate::error::Result;
use crate::runtime::Runtime;

/// Format and meaning: a probe that judges more counts anew.
const HEAD: &str = "fader probe 1";
/// A memory is as short as this, in bytes.
const LENGTH_MAX: u64 = 1024;
/// A clock that wrote a memory may be ahead of the one that reads it by so much.
const SKEW_MAX: Duration = Duration::from_secs(60 * 60);

fn key(way: &str) -> Path {
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() || c == '.' {
            c
        } else {
            '-'
        }
    };
    let way: String = way.chars().map(plain).collect();
    Path::from(format!("{FOLDER}/of-{way}"))
}

/// What is remembered, if it counts.
pub(super) async fn read(
    store: &dyn ObjectStore,
    runtime: &Runtime,
    way: &str,
) -> Result<Option<Findings>> {
    let found = match store.get(&key(way)).await {
        Ok(found) if found.meta.size <= LENGTH_MAX => found,
        Ok(_) | Err(StoreError::NotFound { .. }) => return Ok(None),
        Err(error) => return Err(failed("get", &error)),
    };
    let bytes = found.bytes().await;
    let bytes = bytes.map_err(|error| failed("get", &error))?;
    let findings = std::str::from_utf8(&bytes).ok().and_then(parse);
    let now = runtime.clock.wall();
    let counts = |findings: &Findings| {
        findings.at <= now + SKEW_MAX && now.saturating_sub(findings.at) < MEMORY
    };
    Ok(findings.filter(counts))
}

pub(super) async fn write(store: &dyn ObjectStore, way: &str, findings: &Findings) -> Result<()> {
    let put = store.put(&key(way), text(findings).into()).await;
    put.map_err(|error| failed("put", &error))?;
    Ok(())
}

pub(super) fn text(findings: &Findings) -> String {
    let etags = if findings.has_repeating_etags {
        "repeat"
    } else {
        "differ"
    };
    format!("{HEAD}\nat {}\netags {etags}\n", findings.at.as_millis())
}

pub(super) fn parse(text: &str) -> Option<Findings> {
    let mut lines = text.lines();
    if lines.next()? != HEAD {
        return None;
    }
    let at = lines.next()?.strip_prefix("at ")?.parse().ok()?;
    let has_repeating_etags = match lines.next()? {
        "etags repeat" => true,
        "etags differ" => false,
        _ => return None,
    };
    let kept = |promise| Outcome {
        promise,
        seen: None,
    };
    lines.next().is_none().then(|| Findings {
        at: Duration::from_millis(at),
        outcomes: Promise::ALL.map(kept).to_vec(),
        has_repeating_etags,
        is_remembered: true,
    })
}
