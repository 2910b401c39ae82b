//! What is said to whoever has a chain go on without all that was acknowledged (AL-4).

use anyhow::{Result, bail};

/// Says what may be lost, and goes on only with a yes.
///
/// # Errors
/// Without one, what it is about.
pub(crate) fn consent(member: &str, yes: bool) -> Result<()> {
    if yes {
        return Ok(());
    }
    bail!(
        "nothing is done yet. {member} would go on alone with what it has. Whatever was \
         acknowledged after {member} last took part would be lost for ever: strong writes, \
         conditions, deletions and eventual writes; and a request that is sent again under its \
         name may be carried out a second time. Members that come back later are made equal to \
         {member}, and what only they have is discarded. If any member that served last can be \
         started with its disk, start that one instead: then nothing is lost. To go on, say --yes"
    )
}

/// What stays in the status of a chain for ever.
pub(crate) fn standing(count: u64, epoch: u64) -> String {
    match count {
        0 => String::new(),
        1 => format!("went on with less than was acknowledged, in epoch {epoch}\n"),
        _ => format!(
            "went on with less than was acknowledged {count} times, the last in epoch {epoch}\n"
        ),
    }
}
