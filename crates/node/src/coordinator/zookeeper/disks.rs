//! What the cluster knows of disks: whose they are, and how far they came (COORD-5).

use fader_chain::membership::{SessionRecord, number};
use fader_chain::{ChainId, Configuration, DiskId, EntryId, NodeId, Progress};
use fader_services::ErrorCode;
use fader_zookeeper::{Changed, EnsembleClient};

use super::record::{Content, DiskRecord, NextNode};
use super::{TRIES, ZooKeeperCoordinator, missing, read};
use crate::coordinator::{CoordinatorError, Outage};

impl ZooKeeperCoordinator {
    /// Whether a disk that shows this may begin an incarnation on a chain (COORD-5), as far as is
    /// known before.
    ///
    /// # Errors
    /// [`CoordinatorError`].
    pub(crate) fn check(
        &self,
        chain: ChainId,
        disk: DiskId,
        shown: Progress,
    ) -> Result<(), CoordinatorError> {
        // First: a process that ends a session has noted what it said.
        let said = self.progress(disk)?;
        let mut asker = self.asker.lock();
        match self.known_disk(Some(chain), disk, shown.epoch, &mut asker)? {
            Some(known) => check_progress(&known, shown, said),
            None => Ok(()),
        }
    }

    /// What is known of a disk; a new one gets a number.
    pub(super) fn disk(
        &self,
        chain: Option<ChainId>,
        disk: DiskId,
        epoch: u64,
    ) -> Result<DiskRecord, CoordinatorError> {
        let mut asker = self.asker.lock();
        if let Some(known) = self.known_disk(chain, disk, epoch, &mut asker)? {
            return Ok(known);
        }
        let record = DiskRecord {
            node: next_node(&self.shared.root, &mut asker)?,
            progress: Progress {
                epoch,
                last: EntryId::ZERO,
            },
            name: self.name.clone(),
            chain,
        };
        match asker.create(&self.shared.disk(disk), &record.encode())? {
            true => Ok(record),
            false => Err(CoordinatorError::refused(
                ErrorCode::DataForeign,
                "another process has just begun on a copy of this folder".to_owned(),
            )),
        }
    }

    /// What is known of a disk, if it is not new; refused if it is not this chain's and node's.
    fn known_disk(
        &self,
        chain: Option<ChainId>,
        disk: DiskId,
        epoch: u64,
        asker: &mut EnsembleClient,
    ) -> Result<Option<DiskRecord>, CoordinatorError> {
        let path = self.shared.disk(disk);
        asker.sync(&self.shared.root)?;
        if let Some(chain) = chain {
            let newest = self.newest(asker, chain)?;
            if newest < epoch {
                return Err(CoordinatorError::history_lost(epoch, newest));
            }
        }
        if let Some(znode) = asker.get(&path, false)? {
            let known: DiskRecord = read(&path, &znode)?;
            self.check_disk(chain, &known)?;
            return Ok(Some(known));
        }
        if epoch != 0 {
            return Err(CoordinatorError::refused(
                ErrorCode::DataForeign,
                format!(
                    "the folder has adopted epoch {epoch}, but this cluster does not know its \
                     disk: it is a folder of another cluster"
                ),
            ));
        }
        Ok(None)
    }

    /// The folder is the node's, and the chain's.
    fn check_disk(
        &self,
        chain: Option<ChainId>,
        known: &DiskRecord,
    ) -> Result<(), CoordinatorError> {
        let refused = |why: String| Err(CoordinatorError::refused(ErrorCode::DataForeign, why));
        if known.name != self.name {
            let (its, mine) = (&known.name, &self.name);
            return refused(format!("the folder is that of {its}, not of {mine}"));
        }
        if known.chain != chain {
            let of = |chain: Option<ChainId>| match chain {
                Some(chain) => format!("a member of {chain}"),
                None => "a node".to_owned(),
            };
            let (its, wanted) = (of(known.chain), of(chain));
            return refused(format!("the folder is that of {its}, not of {wanted}"));
        }
        Ok(())
    }

    /// The epoch of a chain's newest configuration.
    fn newest(&self, asker: &mut EnsembleClient, chain: ChainId) -> Result<u64, CoordinatorError> {
        let path = self.shared.chain(chain);
        Ok(match asker.get(&path, false)? {
            Some(znode) => read::<Configuration>(&path, &znode)?.epoch,
            None => 0,
        })
    }

    /// How far sessions of this node that have not been ended say that a disk came.
    pub(super) fn progress(&self, disk: DiskId) -> Result<Progress, CoordinatorError> {
        let process = self.shared.session.process();
        let node = process.ok_or(CoordinatorError::SessionOver)?.node;
        let folder = format!("{}/sessions", self.shared.root);
        let its = format!("{}-", node.0);
        let mut asker = self.asker.lock();
        asker.sync(&self.shared.root)?;
        let mut progress = Progress::default();
        for name in asker.children(&folder, false)? {
            let path = format!("{folder}/{name}");
            if name.starts_with(&its)
                && let Some(znode) = asker.get(&path, false)?
            {
                let session: SessionRecord = read(&path, &znode)?;
                let incarnations = session.incarnations.iter();
                let incarnations =
                    incarnations.filter(|incarnation| incarnation.identity.disk == disk);
                progress =
                    incarnations.fold(progress, |far, incarnation| far.max(incarnation.progress()));
            }
        }
        Ok(progress)
    }

    /// How far a disk came, as its znode says.
    pub(super) fn noted(&self, disk: DiskId) -> Result<Progress, CoordinatorError> {
        let path = self.shared.disk(disk);
        let mut asker = self.asker.lock();
        asker.sync(&self.shared.root)?;
        let znode = asker.get(&path, false)?;
        let known = znode.map(|znode| read::<DiskRecord>(&path, &znode));
        Ok(known
            .transpose()?
            .map_or_else(Progress::default, |known| known.progress))
    }

    /// Notes how far an incarnation came, before the session forgets it (COORD-5).
    pub(super) fn note_end(&self, disk: DiskId, progress: Progress) {
        let mut asker = self.asker.lock();
        let noted = self.shared.note_progress(&mut asker, disk, progress);
        if let Err(error) = noted.map_err(CoordinatorError::from) {
            tracing::warn!(%error, "how far a disk came is not noted");
        }
    }
}

/// One that shows less than is known, by its znode and by what was `said`, is an old copy (LD-2).
pub(super) fn check_progress(
    known: &DiskRecord,
    shown: Progress,
    said: Progress,
) -> Result<(), CoordinatorError> {
    let progress = known.progress.max(said);
    match shown < progress {
        true => Err(CoordinatorError::old_disk(known.node, shown, progress)),
        false => Ok(()),
    }
}

/// A number that no disk has.
pub(super) fn next_node(
    root: &str,
    asker: &mut EnsembleClient,
) -> Result<NodeId, CoordinatorError> {
    let path = format!("{root}/next");
    for _ in 0..TRIES {
        let znode = asker.get(&path, false)?.ok_or_else(|| missing(&path))?;
        let NextNode(next) = read(&path, &znode)?;
        let (node, next) = number(next);
        if asker.set(&path, &NextNode(next).encode(), znode.version)? == Changed::Done {
            return Ok(node);
        }
    }
    Err(Outage::Contended { znode: path }.into())
}
