//! What a chain waits for, and why it is not restored, in words for people.
//!
//! They are said where a wait is shown. Processes of a cluster below version 7 send these words
//! to each other. From version 7 on they send codes.
//!
//! Deliberately absent: what is waited for; that is `waiting`'s to say.

use std::time::Duration;

use crate::config::{ChainId, NodeId};
use crate::controller::RestoreError;
use crate::wait_reason::{TransferProgress, WaitReason};

/// What is said of a chain that waits for nothing.
pub const NOTHING: &str = "waits for nothing";
const MIB: u64 = 1 << 20;

/// One thing that is waited for.
pub fn wait(wait: &WaitReason, session: Duration, name: impl Fn(NodeId) -> String) -> String {
    match wait {
        WaitReason::Restart(disks) => format!(
            "all members that served are down. Any one of these recovers the whole chain, once it \
             is started on its own disk: {}. If none can be, `fader cluster restore` goes on with \
             less",
            list(disks.iter().map(|(node, _)| name(*node)))
        ),
        WaitReason::Others(disks) => format!(
            "all members that served were down, and some are back. For at most {session:?} it \
             waits for the others: {}. Then the one with the longest log recovers the chain",
            list(disks.iter().map(|(node, _)| name(*node)))
        ),
        WaitReason::Session(node) => format!(
            "for a ping of {0}, or for the end of its session after {session:?} without one",
            name(*node)
        ),
        WaitReason::Publication(epoch) => {
            format!("for a controller to publish epoch {epoch} in ZooKeeper")
        }
        WaitReason::Adoption(node, epoch) => format!(
            "for {} to report that it has adopted epoch {epoch}",
            name(*node)
        ),
        WaitReason::Arrival(node) | WaitReason::Hearing(node) | WaitReason::Handoff(node) => {
            transition(wait, &name(*node))
        }
        WaitReason::Slow(node) => format!(
            "for {}, which is slow to confirm; no other node can replace it, else the chain would \
             go on without it",
            name(*node)
        ),
        WaitReason::Turn(node, joining) => format!(
            "for {} to have joined: then {} does, for one joins at a time",
            name(*joining),
            name(*node)
        ),
        WaitReason::Incarnation(node) => format!(
            "for {}, which was removed, to join with another incarnation",
            name(*node)
        ),
        WaitReason::Members(has, wanted) => {
            format!("for more members: there are {has} of {wanted}, and no other node can join")
        }
        WaitReason::Disk(node) => format!("for the disk of {}", name(*node)),
        WaitReason::Membership(node) => {
            format!("for {} to be added to the configuration", name(*node))
        }
        WaitReason::Handshake(node, by) => {
            format!("for the handshake of {} by {}", name(*node), name(*by))
        }
        WaitReason::Lease(node) => format!(
            "for ZooKeeper to acknowledge a ping of {}: its lease is over, and it serves nothing \
             strong until then",
            name(*node)
        ),
        WaitReason::Transfer(node, filling) => fill(&name(*node), filling, &name),
        WaitReason::Confirmation(node, entries, millis) => format!(
            "for {} to confirm {entries} entries; it takes {millis} ms",
            name(*node)
        ),
        WaitReason::Operator(node, entries) => ahead(&name(*node), *entries),
        WaitReason::Failure(node) => format!(
            "for {}, which has stopped, to be started again: its log says why",
            name(*node)
        ),
    }
}

/// A member that joins, or is decommissioned.
fn transition(wait: &WaitReason, name: &str) -> String {
    match wait {
        WaitReason::Arrival(_) => format!(
            "for {name}, which joins, to hold everything: first a donor answers it and fills it"
        ),
        WaitReason::Hearing(_) => format!(
            "for {name}, which joins and holds everything, to reach the member that commits"
        ),
        _ => format!("for {name}, which is decommissioned, to hand off its eventual writes"),
    }
}

/// What is said of a member that is ahead of its chain by so many committed entries (LD-2).
pub fn ahead(name: &str, entries: u64) -> String {
    format!(
        "for an operator: {name} knows {entries} committed entries that the chain has not, which \
         recovered from an old copy of a disk. `fader cluster restore CHAIN --member {name} \
         --yes` goes on with what {name} has, and gives up what came since; or, with its folder \
         removed, {name} joins as new, and the {entries} entries are given up"
    )
}

/// What a chain waits for whose member at this node is damaged.
pub fn damage(name: &str) -> String {
    format!(
        "for the member of {name}, whose folder is damaged: it is set aside, and the member joins \
         with an empty one, when another member serves"
    )
}

/// What a chain waits for whose member at a node has failed so many times in a row. The last
/// failure has this code.
pub fn failed(name: &str, times: u32, why: &str, code: &str) -> String {
    let often = match times {
        0 | 1 => "failed".to_owned(),
        times => format!("failed {times} times"),
    };
    format!("for the member of {name}, which {often} ({why}; {code}): it restarts by itself")
}

/// What a chain waits for by the word of a newer process, whose code is not known here.
pub fn newer(code: &str) -> String {
    format!("for what a newer version of Fader calls {code}")
}

/// What a chain waits for whose member has what the others have not.
pub fn made_equal(name: &str) -> String {
    format!(
        "for {name}, whose data was found to differ from the others' (or may have what a `restore` \
         gave up), to be made equal to them: it serves nothing meanwhile"
    )
}

/// What a node that leaves is waited for, whose disk of this chain some process has or has not. Of
/// one that holds nothing else it is unknown whether it runs.
pub fn leaver(name: &str, chain: ChainId, has_disk: bool) -> String {
    if has_disk {
        return format!("for {name}, which leaves, to hand off its writes of {chain}");
    }
    format!(
        "for {name}, which leaves, to hand off its writes of {chain}, in a folder that no \
         process has: start {name}, if it was stopped. If it is gone for good, or the folder was \
         damaged and is set aside, `fader cluster decommission {name} --lost` gives them up"
    )
}

/// What a chain waits for whose member at this node stands still.
pub fn standstill(name: &str, age: Duration) -> String {
    format!(
        "for the member of {name}, which has done nothing for {} s: its disk may be slow",
        age.as_secs()
    )
}

fn fill(name: &str, filling: &TransferProgress, naming: &impl Fn(NodeId) -> String) -> String {
    let TransferProgress {
        by,
        bytes,
        bytes_per_second,
    } = filling;
    let by = by.map_or("no donor yet".to_owned(), naming);
    let (done, rate) = (bytes / MIB, bytes_per_second / MIB);
    format!(
        "for the state transfer to {name} from {by}: {done} MiB are compared and taken, at most \
         {rate} MiB/s"
    )
}

/// What a domain's change to the mode `strong` waits for.
pub fn draining(domain: &str, absent: Vec<String>, silent: Vec<String>) -> String {
    let mut why = format!("domain {domain} is draining");
    if !absent.is_empty() {
        let absent = list(absent.into_iter());
        why += &format!(
            ", for {absent} to come back with eventual writes that only it may have (or `fader \
             cluster mode {domain} strong --abandon`)"
        );
    }
    if !silent.is_empty() {
        let silent = list(silent.into_iter());
        why += &format!(", for {silent} to answer what it holds");
    }
    why
}

/// What a chain waits for that has not begun.
pub fn first_members(missing: impl Iterator<Item = String>) -> String {
    let missing: Vec<String> = missing.collect();
    let verb = if missing.len() == 1 { "is" } else { "are" };
    let missing = list(missing.into_iter());
    format!("to begin, for all its first members to be there at once: {missing} {verb} missing")
}

/// Why a chain does not go on with what a member has.
pub fn not_restored(why: RestoreError, member: &str, name: impl Fn(NodeId) -> String) -> String {
    match why {
        RestoreError::Serves(node) => format!(
            "nothing has to be lost: {} serves, or its session is not over yet",
            name(node)
        ),
        RestoreError::Returns(node) => format!(
            "nothing has to be lost: {} has everything, and the chain begins again with it",
            name(node)
        ),
        RestoreError::Absent => format!(
            "{member} does not run: start it first. If all that is left of it is an old copy of \
             its folder, which is refused, --accept-loss lets it begin"
        ),
        RestoreError::Unfilled => format!(
            "{member} was being filled from another member, and what it has is no state: choose \
             another one"
        ),
    }
}

fn list(names: impl Iterator<Item = String>) -> String {
    names.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests;
