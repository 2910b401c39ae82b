//! What the chains of a process wait for (I20). Of each it has what the coordinator knows, what its
//! members know of themselves and, from the head, of others. Members in other processes are asked.

use std::time::Duration;

use fader_chain::{
    ChainId, Configuration, NodeId, Role, Version, WaitReason, wait_messages, wait_reasons,
};
use fader_services::forward::{ForwardedReply, ForwardedRequest, MemberWait};

use super::Cluster;
use crate::coordinator::ClusterStatus;

/// After this time a member's thread that says nothing has something to wait for itself.
const THREAD: Duration = Duration::from_secs(1);
/// How long another process may take to say what its member waits for.
const LOOK: Duration = Duration::from_secs(1);

/// What a chain waits for, a sentence for each thing, and whether it serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitReport {
    /// Which chain.
    pub chain: ChainId,
    /// How its members stand, and where more is known.
    pub status: String,
    /// What it waits for; nothing if there is nothing.
    pub waits: Vec<String>,
}

impl WaitReport {
    fn new(chain: ChainId, status: String, mut waits: Vec<String>) -> Self {
        let mut said = Vec::new();
        waits.retain(|wait| {
            let is_new = !said.contains(wait);
            said.push(wait.clone());
            is_new
        });
        WaitReport {
            chain,
            status,
            waits,
        }
    }

    /// The same as it is displayed, for a log.
    pub(crate) fn in_a_line(&self) -> String {
        let shown = self.to_string();
        let lines: Vec<&str> = shown.lines().map(str::trim).collect();
        lines.join("; ")
    }
}

impl std::fmt::Display for WaitReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let WaitReport { chain, status, .. } = self;
        if self.waits.is_empty() {
            return writeln!(f, "{chain} ({status}) {}", wait_messages::NOTHING);
        }
        writeln!(f, "{chain} ({status}) waits")?;
        self.waits
            .iter()
            .try_for_each(|wait| writeln!(f, "  {wait}"))
    }
}

impl Cluster {
    /// What a chain waits for.
    pub(crate) async fn wait_report(&self, chain: ChainId) -> WaitReport {
        let newest = self.configuration();
        let mut why = Vec::new();
        if !self.is_reachable() {
            why.push(
                "for ZooKeeper to answer this process: no member is removed and none joins \
                 meanwhile, and what follows is what was known before"
                    .to_owned(),
            );
        }
        match &newest {
            Some(newest) => why.extend(self.known(newest)),
            None => why.push(wait_messages::first_members(self.missing().into_iter())),
        }
        why.extend(self.own_waits().iter().map(|it| self.in_words(it)));
        let Some(newest) = newest else {
            return WaitReport::new(chain, "not begun".to_owned(), why);
        };
        let (others, unheard) = self.others_waits(&newest).await;
        why.extend(others);
        why.extend(self.leavers(&newest));
        let mut status = status(&newest, |node| self.name_by_disk(node));
        if !unheard.is_empty() {
            let unheard = unheard.join(" and ");
            status += &format!("; {unheard} did not say what its member waits for");
        }
        WaitReport::new(chain, status, why)
    }

    /// What the coordinator's facts say.
    fn known(&self, newest: &Configuration) -> Vec<String> {
        let (observed, silent) = self.observed();
        let waits = wait_reasons(newest, &observed, &silent);
        let words = waits.iter().map(|it| self.reason_in_words(it));
        let unequal = made_equal(newest, |node| self.name_by_disk(node));
        words.chain(unequal).collect()
    }

    /// What the members of other processes say, and who says nothing.
    async fn others_waits(&self, newest: &Configuration) -> (Vec<String>, Vec<String>) {
        let (mut why, mut unheard) = (Vec::new(), Vec::new());
        let nodes = newest.members.iter().map(|member| member.node);
        for node in nodes.filter(|node| self.is_of_another(*node)) {
            match self.waits_of(node).await {
                Some(waits) => why.extend(waits.iter().map(|it| self.in_words(it))),
                None => unheard.push(self.name(node)),
            }
        }
        (why, unheard)
    }

    /// Whether a member is another process's, which alone knows what it waits for.
    pub(crate) fn is_of_another(&self, node: NodeId) -> bool {
        self.process.is_some() && self.own() != Some(node)
    }

    /// What a member of another process says that it waits for; none if it does not say.
    pub(crate) async fn waits_of(&self, node: NodeId) -> Option<Vec<MemberWait>> {
        // An older version has no such question.
        let process = self.process.as_ref();
        let process = process.filter(|_| self.version().is_third())?;
        let asked = process
            .peers()
            .forward(node, process.chain, &ForwardedRequest::Why, LOOK);
        match asked.await {
            Ok(ForwardedReply::Why(waits)) => Some(waits),
            Ok(_) | Err(_) => None,
        }
    }

    /// What the members here say.
    pub(crate) fn own_waits(&self) -> Vec<MemberWait> {
        let mut why: Vec<MemberWait> = self
            .damaged()
            .into_iter()
            .map(MemberWait::Damaged)
            .collect();
        why.extend(
            self.failed()
                .into_iter()
                .map(|(member, failure)| MemberWait::Failed {
                    member,
                    times: failure.times,
                    code: failure.cause.code(),
                    detail: failure.cause.detail().map(str::to_owned),
                }),
        );
        for (name, member) in self.named_members() {
            let shared = member.shared();
            let (waits, age) = shared.wait_reasons();
            why.extend(waits.into_iter().map(MemberWait::Of));
            if let Some(age) = age.filter(|age| THREAD <= *age) {
                why.push(MemberWait::standstill(name, age));
            }
            let blockers = shared.blockers.all().into_iter();
            let held_up = blockers.filter(|it| !it.absent.is_empty() || !it.silent.is_empty());
            why.extend(held_up.map(|it| MemberWait::Draining {
                domain: it.draining.name.name,
                absent: it.absent,
                silent: it.silent,
            }));
        }
        why
    }

    /// What another process is told of the members here: sentences alone, while the cluster's
    /// version is below 7.
    pub(crate) fn waits_to_tell(&self) -> Vec<MemberWait> {
        let waits = self.own_waits();
        match self.version() < Version::SEVENTH {
            true => waits
                .iter()
                .map(|it| MemberWait::Words(self.in_words(it)))
                .collect(),
            false => waits,
        }
    }

    fn reason_in_words(&self, wait: &WaitReason) -> String {
        wait_messages::wait(wait, self.session(), |node| self.name_by_disk(node))
    }

    /// A sentence for what a member waits for, here or in another process.
    pub(crate) fn in_words(&self, wait: &MemberWait) -> String {
        let names = |nodes: &[NodeId]| nodes.iter().map(|it| self.name_by_disk(*it)).collect();
        match wait {
            MemberWait::Of(reason) => self.reason_in_words(reason),
            MemberWait::Damaged(member) => wait_messages::damage(member),
            MemberWait::Failed {
                member,
                times,
                code,
                detail,
            } => {
                let why = detail.as_deref().unwrap_or(code.row().meaning);
                wait_messages::failed(member, *times, why, code.name())
            }
            MemberWait::Standstill { member, age_ms } => {
                wait_messages::standstill(member, Duration::from_millis(*age_ms))
            }
            MemberWait::Draining {
                domain,
                absent,
                silent,
            } => wait_messages::draining(domain, names(absent), names(silent)),
            MemberWait::Words(words) => words.clone(),
            MemberWait::Newer(code) => wait_messages::newer(code),
        }
    }
}

/// The epoch, the head and how many there are.
fn status(newest: &Configuration, name: impl Fn(NodeId) -> String) -> String {
    let of = |role| {
        newest
            .members
            .iter()
            .filter(|member| member.role == role)
            .count()
    };
    let joining = match of(Role::Syncing) {
        0 => "",
        _ => ", one joins",
    };
    format!(
        "epoch {}, {} serving{joining}, head {}",
        newest.epoch,
        of(Role::Serving),
        name(newest.head())
    )
}

/// The members that have to be made equal to others (DG-3).
fn made_equal(
    newest: &Configuration,
    name: impl Fn(NodeId) -> String,
) -> impl Iterator<Item = String> {
    let members = newest.members.iter();
    let unequal =
        members.filter(|member| member.role.is_syncing() && newest.must_fill(member.disk));
    unequal.map(move |member| wait_messages::made_equal(&name(member.node)))
}

impl ClusterStatus {
    /// What the cluster's chains wait for, as the coordinator knows it; of one chain only, if one
    /// is named.
    pub fn wait_reports(&self, only: Option<ChainId>) -> Vec<WaitReport> {
        let chains = self.layout.chains.iter();
        let chains = chains.map(|(chain, spread)| (*chain, &spread.nodes));
        let wanted = chains.filter(|(chain, _)| only.is_none_or(|only| only == *chain));
        let why = wanted.map(|(chain, names)| {
            let Some(newest) = self.configurations.get(&chain) else {
                let is_there = |name: &&String| {
                    let mut live = self.live.iter();
                    live.any(|it| it.name == **name && it.member(chain).is_some())
                };
                let missing = names.iter().filter(|name| !is_there(name)).cloned();
                let why = wait_messages::first_members(missing);
                return WaitReport::new(chain, "not begun".to_owned(), vec![why]);
            };
            let observed = self.observed(chain, names.len());
            let waits = wait_reasons(newest, &observed, &self.silent(chain));
            let session = self.cluster.session;
            let words = waits
                .iter()
                .map(|it| wait_messages::wait(it, session, |node| self.name(node)));
            let absent = self.absent.iter().filter(|it| it.chain == chain);
            let leavers = absent.filter_map(|it| self.awaited(it));
            let unequal = made_equal(newest, |node| self.name(node));
            let status = status(newest, |node| self.name(node));
            WaitReport::new(chain, status, words.chain(unequal).chain(leavers).collect())
        });
        why.collect()
    }
}
