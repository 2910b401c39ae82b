//! A history in words, one line per call or event, so that a violation can be read.

use std::fmt::{Display, Formatter, Result};

use bytes::Bytes;
use fader_chain::{Change, ElementOp, Entry, Register, RequestId, Role, Stamp};

use super::{
    Bound, Call, Condition, Event, Fact, Level, Refusal, Reply, Request, Shown, Stamping,
    WriteStatus,
};

impl Display for Call {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "{} c{}", self.invoked, self.client)?;
        if let Some(session) = self.session {
            write!(f, "/s{session}")?;
        }
        write!(f, " asks {}: {} {}", self.node, self.level, self.request)?;
        if let Some(name) = self.name {
            write!(f, " as {}", Name(name))?;
        }
        match &self.end {
            None => write!(f, " => no answer"),
            Some((at, outcome)) => write!(f, " => {at} {outcome}"),
        }
    }
}

impl Display for Level {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Level::Strong => write!(f, "strong"),
            Level::Barrier => write!(f, "barrier"),
            Level::Eventual { quorum, sloppy } => {
                let sloppy = if *sloppy { " sloppy" } else { "" };
                write!(f, "eventual({quorum}){sloppy}")
            }
            Level::Bounded(Bound::Micros(micros)) => write!(f, "bound={micros}us"),
            Level::Bounded(Bound::Versions(versions)) => write!(f, "bound={versions}v"),
        }
    }
}

impl Display for Request {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let mut words = Vec::new();
        for (key, condition) in &self.conditions {
            words.push(format!("if {} {condition}", text(key)));
        }
        for key in &self.reads {
            words.push(format!("get {}", text(key)));
        }
        for write in &self.writes {
            words.push(format!("put {} {}", text(&write.key), ops(&write.ops)));
        }
        write!(f, "{}", words.join(", "))
    }
}

impl Display for Condition {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Condition::Exists => write!(f, "exists"),
            Condition::Absent => write!(f, "absent"),
            Condition::Has { group, value } => write!(f, "has {}={}", text(group), text(value)),
            Condition::Version(version) => write!(f, "at {version}"),
        }
    }
}

impl Display for Refusal {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Refusal::Said(reason) => write!(f, "{reason}"),
            Refusal::Lost(names) => {
                let names: Vec<String> = names.iter().map(|name| Name(*name).to_string()).collect();
                write!(f, "lost {}", names.join(" "))
            }
        }
    }
}

impl Display for Reply {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Reply::Decided { entry, result } => write!(f, "decided {entry} {}", text(result)),
            Reply::Shown {
                epoch,
                commit,
                safe_point,
                registers,
            } => {
                write!(
                    f,
                    "shows at {commit} (epoch {epoch}, safe point {safe_point}):"
                )?;
                registers.iter().try_for_each(|shown| write!(f, " {shown}"))
            }
            Reply::Accepted {
                stamps,
                attached,
                statuses,
            } => {
                let attached = if *attached { "accepted" } else { "detached" };
                write!(f, "{attached}")?;
                stamps
                    .iter()
                    .try_for_each(|stamp| write!(f, " @{}", At(*stamp)))?;
                statuses
                    .iter()
                    .try_for_each(|status| write!(f, " {status}"))
            }
        }
    }
}

impl Display for Shown {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let tentative = if self.tentative { " tentative" } else { "" };
        let register = State(&self.register);
        write!(f, "{} {register}{tentative}", text(&self.key))
    }
}

impl Display for WriteStatus {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_str(match self {
            WriteStatus::Applied => "applied",
            WriteStatus::Superseded => "superseded",
            WriteStatus::Refused => "refused",
            WriteStatus::Gone => "gone",
        })
    }
}

impl Display for Event {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "{} {}", self.at, self.fact)
    }
}

impl Display for Fact {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Fact::Committed { node, entry } => write!(f, "{node} commits {}", Line(entry)),
            Fact::Stamped(stamping) => write!(f, "{stamping}"),
            Fact::Held { node, name } => write!(f, "{node} holds {}", Name(*name)),
            Fact::Forgotten { node, name } => write!(f, "{node} forgets {}", Name(*name)),
            Fact::Acknowledged {
                node,
                name,
                quorum,
                attached,
                lease,
            } => {
                let attached = if *attached { "attached" } else { "detached" };
                let lease = if *lease { "" } else { ", without a lease" };
                let name = Name(*name);
                write!(
                    f,
                    "{node} acknowledges {name}, W={quorum}, {attached}{lease}"
                )
            }
            Fact::Settled {
                name,
                entry,
                status,
            } => {
                write!(f, "{} settled by {entry}: {status}", Name(*name))
            }
            Fact::Published(configuration) => {
                write!(f, "epoch {} = [", configuration.epoch)?;
                for member in &configuration.members {
                    let syncing = match member.role {
                        Role::Serving => "",
                        Role::Syncing => "(s)",
                        Role::Leaving => "(l)",
                    };
                    write!(f, " {}{syncing}", member.node)?;
                }
                write!(f, " ], safe point {}", configuration.safe_point)
            }
            Fact::Ready { node, epoch, last } => {
                write!(f, "{node} ready in epoch {epoch}, log to {last}")
            }
            Fact::DiskLost { node } => write!(f, "{node} loses its disk"),
        }
    }
}

impl Display for Stamping {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let lease = if self.lease { "" } else { ", without a lease" };
        write!(
            f,
            "{} stamps {} @{}: {} {}, log to {}{lease}",
            self.node,
            Name(self.name),
            At(self.stamp),
            text(&self.key),
            ops(&self.ops),
            self.accept
        )
    }
}

/// An entry in one line.
pub(crate) struct Line<'a>(pub(crate) &'a Entry);

impl Display for Line<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let Line(entry) = self;
        write!(f, "{} after {}", entry.id, entry.prev)?;
        if entry.stamp != Stamp::strong(entry.id) {
            write!(f, " @{}", At(entry.stamp))?;
        }
        if let Some(name) = entry.request {
            write!(f, " as {}", Name(name))?;
        }
        for change in &entry.changes {
            match change {
                Change::Merge { key, ops: list, .. } => write!(f, " {} {}", text(key), ops(list))?,
                other => write!(f, " ({} derived)", text(other.key()))?,
            }
        }
        write!(f, " {}", text(&entry.result))
    }
}

/// A stamp, short where it is strong.
pub(crate) struct At(pub(crate) Stamp);

impl Display for At {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let At(stamp) = self;
        write!(f, "{}", stamp.base)?;
        if !stamp.is_strong() {
            write!(f, "+{}n{}/{}", stamp.clock, stamp.node, stamp.counter)?;
        }
        Ok(())
    }
}

/// A request's name.
pub(crate) struct Name(pub(crate) RequestId);

impl Display for Name {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let RequestId { client, seq, part } = self.0;
        let client = client.id;
        write!(f, "{client:x}:{seq}")?;
        if part != 0 {
            write!(f, ".{part}")?;
        }
        Ok(())
    }
}

/// A register: what it shows, each with its stamp, and its marks after `!`.
pub(crate) struct State<'a>(pub(crate) &'a Register);

impl Display for State<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let State(register) = self;
        let mut words = Vec::new();
        if register.cleared != Stamp::ZERO {
            words.push(format!("!@{}", At(register.cleared)));
        }
        for group in &register.groups {
            let name = text(&group.name);
            if group.cleared != Stamp::ZERO && group.cleared != register.cleared {
                words.push(format!("!{name}@{}", At(group.cleared)));
            }
            for member in &group.members {
                let dead = if member.live { "" } else { "!" };
                let (value, at) = (text(&member.value), At(member.written));
                words.push(format!("{dead}{name}={value}@{at}"));
            }
        }
        write!(f, "{{{}}}", words.join(" "))
    }
}

pub(crate) fn ops(ops: &[ElementOp]) -> String {
    let words: Vec<String> = ops
        .iter()
        .map(|op| match op {
            ElementOp::ClearAll => "clear".to_owned(),
            ElementOp::Clear { group } => format!("clear {}", text(group)),
            ElementOp::Add { group, value } => format!("+{}={}", text(group), text(value)),
            ElementOp::Remove { group, value } => format!("-{}={}", text(group), text(value)),
        })
        .collect();
    format!("[{}]", words.join(" "))
}

pub(crate) fn text(bytes: &Bytes) -> String {
    bytes.escape_ascii().to_string()
}
