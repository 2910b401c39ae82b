//! G4: a quorum read shows every write that a quorum acknowledged before it.

use fader_chain::{Configuration, EntryId, NodeId};

use super::evidence::Acknowledged;
use super::{Evidence, Verdict, Violation, Witness, cover};
use crate::history::display::{At, text};
use crate::history::{Level, Moment, Reply, Shown};

/// One register of an eventual read.
struct Read<'a> {
    call: usize,
    ended: Moment,
    epoch: u64,
    safe_point: EntryId,
    shown: &'a Shown,
}

/// Where R + W > N in the epoch of the read, what it shows covers what was acknowledged before it
/// began. Excepted: what was refused, and what is lost with all who held it when it was
/// acknowledged. (G4 says: with W of them. One that is left is enough, by EX-1.) Besides, no
/// eventual read shows what no client wrote and no head committed.
///
/// # Errors
/// The write and the read that misses it.
pub fn quorums(evidence: &Evidence<'_>) -> Verdict {
    let history = evidence.history;
    let writes: Vec<_> = evidence.acknowledged();
    let mut count = 0;
    for (at, call) in history.calls.iter().enumerate() {
        let Level::Eventual { quorum, sloppy } = call.level else {
            continue;
        };
        let Some((
            ended,
            Reply::Shown {
                epoch,
                safe_point,
                registers,
                ..
            },
        )) = call.done()
        else {
            continue;
        };
        for shown in registers {
            let read = Read {
                call: at,
                ended,
                epoch: *epoch,
                safe_point: *safe_point,
                shown,
            };
            invented(evidence, &read)?;
            let Some(size) = evidence.epoch(*epoch).map(Configuration::size) else {
                continue;
            };
            let before = writes.iter().filter(|write| {
                let is_before = write.attached && write.at < call.invoked;
                is_before && *write.key == shown.key && size < quorum + write.quorum
            });
            for write in before.filter(|_| !sloppy) {
                count += usize::from(covers(evidence, write, &read)?);
            }
        }
    }
    Ok(count)
}

/// Whether there is a claim, which then holds.
fn covers(
    evidence: &Evidence<'_>,
    write: &Acknowledged<'_>,
    read: &Read<'_>,
) -> Result<bool, Violation> {
    let refused = evidence.refused(write.name);
    if refused.is_some_and(|at| at <= read.ended) {
        return Ok(false);
    }
    let stamped = evidence.attempts(write.name).first();
    let stamped = stamped.map_or(write.at, |(_, event)| event.at);
    let lost = |(node, _): &(NodeId, Moment)| is_lost(evidence, *node, write, stamped, read);
    if evidence
        .holders_by(write.name, write.at)
        .all(|holder| lost(&holder))
    {
        return Ok(false);
    }
    if evidence.shows(&read.shown.register, read.safe_point, write.name) {
        return Ok(true);
    }
    let text = format!(
        "a read does not show @{}, acknowledged before",
        At(write.stamp)
    );
    let epochs = evidence.epochs.iter().map(|(_, event)| *event);
    Err(Violation::new("G4", text)
        .call(evidence.history, write.call)
        .call(evidence.history, read.call)
        .events(evidence.story(write.name))
        .events(epochs.filter(|event| event.at <= read.ended)))
}

/// Removed since the write was stamped and not yet serving again, without its disk, or having
/// forgotten it.
fn is_lost(
    evidence: &Evidence<'_>,
    node: NodeId,
    write: &Acknowledged<'_>,
    stamped: Moment,
    read: &Read<'_>,
) -> bool {
    let is_there = evidence.serves(node, read.epoch) || evidence.stayed(node, stamped, read.epoch);
    !is_there
        || evidence.lost_disk(node, stamped, Some(read.ended))
        || evidence.forgot(node, write.name, read.ended)
}

/// Every live element of an eventual read was put by an entry or by a stamped operation.
fn invented(evidence: &Evidence<'_>, read: &Read<'_>) -> Result<(), Violation> {
    for (_, stamp) in cover::elements(&read.shown.register) {
        let is_known = match stamp.is_strong() {
            true => evidence
                .committed_at(stamp.base)
                .is_some_and(|at| at <= read.ended),
            false => evidence.name_of(stamp).is_some(),
        };
        if !is_known {
            let key = text(&read.shown.key);
            let text = format!("an element of {key} @{} that no client wrote", At(stamp));
            return Err(Violation::new("G4", text).call(evidence.history, read.call));
        }
    }
    Ok(())
}
