//! What is said to the operator that has a chain go on without all that was acknowledged (AL-4).

use anyhow::Result;
use fader_node::{ChainId, Progress};

use crate::failure;

/// Says what may be lost, and goes on only with a yes.
///
/// # Errors
/// Without one, what it is about.
pub(crate) fn consent(member: &str, yes: bool) -> Result<()> {
    if yes {
        return Ok(());
    }
    failure::invalid(format_args!(
        "nothing is done yet. {member} would go on alone with what it has. All that was \
         acknowledged after {member} last took part would be lost for ever: strong writes, \
         conditions, deletions and eventual writes; and a request that is sent again under its \
         name may be carried out a second time. Members that come back later are made equal to \
         {member}, and what only they have is discarded. If any member that served last can be \
         started with its disk, start that one instead: then nothing is lost. To go on, say --yes"
    ))
}

/// What is said of a node that may begin on an old copy (AL-7), whose disks had come so far.
pub(crate) fn accepted(chain: ChainId, member: &str, had: &[Progress]) -> String {
    let had = had.iter().map(|it| match it.last.index {
        0 => format!("in epoch {}", it.epoch),
        _ => format!("in epoch {} with entry {}", it.epoch, it.last),
    });
    let had = had.collect::<Vec<_>>().join(", or ");
    format!(
        "{member} may begin on an old copy of its folder of {chain}. Its disk was {had} when it \
         was last heard of: what is not in the copy will be lost for ever. Start {member}, and \
         then say: fader cluster restore {0} --member {member} --yes\n",
        chain.0
    )
}

/// What stays in the status of a chain for ever.
pub(crate) fn status(count: u64, epoch: u64) -> String {
    match count {
        0 => String::new(),
        1 => format!("went on with less than was acknowledged, in epoch {epoch}\n"),
        _ => format!(
            "went on with less than was acknowledged {count} times, the last in epoch {epoch}\n"
        ),
    }
}
