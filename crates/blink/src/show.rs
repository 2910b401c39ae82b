//! Pages and stamps for people: what a failed test prints.

use std::fmt;

use crate::page::Page;
use crate::slot::{PayloadRef, SlotRef};
use crate::stamp::Stamp;

impl fmt::Debug for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:x}.{}", self.time.0, self.client, self.sequence)
    }
}

impl fmt::Debug for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let high = self.high().map_or("∞".to_string(), text);
        writeln!(f, "level {} [{}, {high})", self.level(), text(self.low()))?;
        if let Some(right) = self.right() {
            writeln!(f, "right {right}")?;
        }
        writeln!(f, "horizon {:?}", self.horizon())?;
        writeln!(f, "{:?}", self.envelope())?;
        for index in 0..self.count() {
            write!(f, "{}:", text(&self.key(index).to_vec()))?;
            match self.is_leaf() {
                true => show(self.slot(index), f)?,
                false => write!(f, " {}", self.child(index))?,
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

fn show(slot: SlotRef<'_>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    if let Some(life) = slot.life {
        let word = if life.is_alive { "alive" } else { "dead" };
        write!(f, " {word} {:?}", life.stamp)?;
    }
    if let Some(value) = slot.value {
        write!(f, " value {value:?}")?;
    }
    match slot.payload {
        Some(PayloadRef::Inline(bytes)) => write!(f, " \"{}\"", bytes.escape_ascii()),
        Some(PayloadRef::Object(pointer)) => write!(f, " {pointer:?}"),
        None => Ok(()),
    }
}

fn text(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string()
}
