//! A single member, as a cluster of one. No coordinator is asked, no thread but its own runs for
//! it, and there is no network.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use fader_chain::Wiring;

use super::{Cluster, ClusterSettings, Parts, Running};
use crate::coordinator::{Alone, Coordinator};
use crate::member::Folder;
use crate::member::local_network::LocalNetwork;
use crate::peer::PeerClocks;
use crate::random;
use crate::status::{OpenError, Recovery};

impl Cluster {
    /// Begins the incarnation of the member in a folder.
    ///
    /// # Errors
    /// [`OpenError`].
    pub(crate) fn of_one(folder: Folder) -> Result<(Arc<Cluster>, Recovery), OpenError> {
        let incarnation =
            random::incarnation().map_err(|source| OpenError::io("starting", source))?;
        let coordinator = Arc::new(Alone::new(folder.disk(), incarnation));
        let me = coordinator.member();
        let links = LocalNetwork::new(Duration::ZERO);
        let session = coordinator.session();
        let parts = Parts {
            settings: ClusterSettings {
                size: 1,
                wiring: Wiring::Star,
                session,
                delay: Duration::ZERO,
                member: folder.settings().clone(),
            },
            coordinator,
            outbox: links.clone(),
            clocks: Arc::new(PeerClocks::new(session)),
            links,
            folders: vec![folder.data().to_owned()],
            process: None,
            is_lone: true,
        };
        let cluster = Self::assemble(parts, None, drop);
        let (member, recovery) = folder.live(me, None)?;
        let running = Running {
            node: me.node,
            disk: me.disk,
            member: Arc::new(member),
            is_ending: Arc::new(AtomicBool::new(false)),
            session: None,
            keeper: Arc::default(),
        };
        let (jobs, shared) = (running.member.jobs(), running.member.shared().clone());
        cluster.links.connect(me.node, jobs, shared);
        let [slot] = &cluster.slots[..] else {
            unreachable!("it has one folder");
        };
        *slot.node.lock() = Some(me.node);
        *slot.running.write() = Some(running);
        Ok((cluster, recovery))
    }

    /// Whether its only member has no company.
    pub(crate) fn is_lone(&self) -> bool {
        self.is_lone
    }
}
