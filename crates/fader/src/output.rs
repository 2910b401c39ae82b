//! Standard output of the commands that print data.

use std::io::{self, Write};

use anyhow::Result;

/// Prints text to standard output as it is.
pub(crate) fn print(text: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(())
}

/// Whether the reader of our output went away, as `| head` does: the end, and no failure.
pub(crate) fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        let io = cause.downcast_ref::<io::Error>();
        let csv = cause.downcast_ref::<csv::Error>().map(csv::Error::kind);
        let kind = match (io, csv) {
            (Some(error), _) | (_, Some(csv::ErrorKind::Io(error))) => error.kind(),
            _ => return false,
        };
        kind == io::ErrorKind::BrokenPipe
    })
}
