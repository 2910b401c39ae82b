//! Faults that are made on purpose, to see what a cluster does: members that are killed or held up,
//! and ways that are cut.

use std::collections::BTreeMap;
use std::time::Duration;

use fader_services::ErrorCode;

use super::{Cluster, ClusterError, Event};
use crate::member::Member;

impl Cluster {
    /// Ends a member at once, as a process that is killed.
    ///
    /// # Errors
    /// [`ClusterError`] when there is no such member, or it does not run.
    pub fn kill(&self, name: &str) -> Result<(), ClusterError> {
        if self.stop(self.slot(name)?, Member::kill).is_none() {
            return Err(ClusterError::conflict(format!("{name} does not run")));
        }
        (self.tell)(Event::Killed(name.to_owned()));
        Ok(())
    }

    /// Starts a member that was killed, on its folder.
    ///
    /// # Errors
    /// [`ClusterError`] when there is no such member, it runs, or its folder does not open.
    pub fn restart(&self, name: &str) -> Result<(), ClusterError> {
        let slot = self.slot(name)?;
        if slot.running.read().is_some() {
            return Err(ClusterError::conflict(format!("{name} runs")));
        }
        match self.start(slot) {
            // It joins with an empty folder, when no chain counts on this one.
            Err(error) if error.is_damage() => {
                (self.tell)(Event::Damaged(name.to_owned(), error.context));
                return Ok(());
            }
            started => started.map_err(|error| ClusterError {
                code: error.code,
                context: format!("{name} does not start: {error}"),
            })?,
        }
        (self.tell)(Event::Started(name.to_owned()));
        Ok(())
    }

    /// Ends the session of a member that was killed, as if its time were over.
    ///
    /// # Errors
    /// [`ClusterError`] when there is no such member, or it runs: a lease of its may hold.
    pub fn end_session(&self, name: &str) -> Result<(), ClusterError> {
        let slot = self.slot(name)?;
        if slot.running.read().is_some() {
            return Err(ClusterError::conflict(format!("{name} runs")));
        }
        let node = *slot.node.lock();
        let sessions = self.coordinator.sessions().into_iter();
        sessions
            .filter(|session| Some(session.node) == node)
            .for_each(|session| self.coordinator.close(session));
        Ok(())
    }

    /// Has this member alone take what any member may take; without a name, any takes it again.
    ///
    /// # Errors
    /// [`ClusterError`] when there is no such member, or it has no number yet.
    pub fn ask_only(&self, name: Option<&str>) -> Result<(), ClusterError> {
        let node = match name {
            Some(name) => {
                let number = *self.slot(name)?.node.lock();
                let missing = || ClusterError::conflict(format!("{name} was never a member"));
                Some(number.ok_or_else(missing)?)
            }
            None => None,
        };
        *self.asked.write() = node;
        Ok(())
    }

    /// Holds a member up for a time, as a process that is stopped and continued.
    ///
    /// # Errors
    /// [`ClusterError`] when there is no such member, or it does not run.
    pub fn pause(&self, name: &str, time: Duration) -> Result<(), ClusterError> {
        match &*self.slot(name)?.running.read() {
            Some(running) => running.member.shared().gate.close_for(time),
            None => return Err(ClusterError::conflict(format!("{name} does not run"))),
        }
        (self.tell)(Event::Paused(name.to_owned(), time));
        Ok(())
    }

    /// Cuts the ways between members of different sides. The coordinator is on the first side, with
    /// all members that are not named.
    ///
    /// # Errors
    /// [`ClusterError`] when there is no such member.
    pub fn partition(&self, sides: &[Vec<String>]) -> Result<(), ClusterError> {
        let mut of = BTreeMap::new();
        for (side, names) in sides.iter().enumerate() {
            for name in names {
                let node = *self.slot(name)?.node.lock();
                if let Some(node) = node
                    && of.insert(node, side).is_some()
                {
                    return Err(ClusterError {
                        code: ErrorCode::CallInvalid,
                        context: format!("{name} is on two sides"),
                    });
                }
            }
        }
        self.links.partition(of);
        (self.tell)(Event::Partitioned(sides.to_vec()));
        Ok(())
    }

    /// Ends a partition.
    pub fn heal(&self) {
        self.links.partition(BTreeMap::new());
        (self.tell)(Event::Healed);
    }
}
