//! A state of the model, and every step that can follow.
//!
//! A state is a few numbers. What they stand for (members, queues, the ledger) is kept once in
//! pools. What a member in one state does with one message is computed once.

mod bytes;
mod links;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use fader_chain::controller::{self, ObservedState, Reports, RoleChange};
use fader_chain::{
    Configuration, DiskId, EntryId, Identity, Incarnation, Message, NodeId, Report, Version,
};

use super::actions::Action;
use super::ledger::{Event, Ledger};
use super::links::{Links, Queues, link_of};
use super::node::{MemberSummary, Node, Session};
use super::scenarios::{Delivery, PreparedScenario};
use super::step::{MemberEvent, Packet, SimpleEvent};
use super::table::{Pool, Table, hash};

/// Members of a scenario at most.
pub(super) const MEMBERS_MAX: usize = 4;

/// What may still happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Budget {
    pub(super) retries: u8,
    pub(super) crashes: u8,
    pub(super) lease_ends: u8,
    pub(super) returns: u8,
    pub(super) moves: u8,
    pub(super) safe_points: u8,
    pub(super) moments: u8,
    pub(super) losses: u8,
    /// How often bytes without a row are found during the upload.
    pub(super) drops: u8,
    pub(super) is_uploading: bool,
}

/// A state, by numbers of what is in the pools.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct State {
    pub(super) nodes: [u32; MEMBERS_MAX],
    pub(super) links: Links,
    pub(super) ledger: u32,
    pub(super) coordinator: u32,
    pub(super) budget: Budget,
}

/// A state that waits for its turn: what is under way is kept once.
#[derive(Clone, Copy)]
pub(super) struct PackedState {
    nodes: [u32; MEMBERS_MAX],
    links: u32,
    ledger: u32,
    coordinator: u32,
    budget: Budget,
}

/// What the coordinator knows.
#[derive(Clone, Debug, Hash)]
pub(super) struct Coordinator {
    pub(super) configuration: Arc<Configuration>,
    /// Of its epoch.
    pub(super) reports: Reports,
}

/// What happens to a member, by numbers.
#[derive(Clone, Copy)]
pub(super) enum Cause {
    Message(u32),
    Hear(u32),
    Ask { ask: usize, attempt: usize },
    Plain(SimpleEvent),
}

impl Cause {
    /// A number for the table of outcomes.
    fn code(self) -> u32 {
        let (kind, operand) = match self {
            Cause::Message(packet) => (1, packet),
            Cause::Hear(configuration) => (2, configuration),
            Cause::Ask { ask, attempt } => (3, (attempt << 8 | ask) as u32),
            Cause::Plain(kind) => (4, kind as u32),
        };
        kind << 28 | operand
    }
}

/// What comes of a member's state and what happens to it.
pub(super) struct Outcome {
    pub(super) node: u32,
    /// Packets, with their queues.
    pub(super) sent: Vec<(usize, u32)>,
    pub(super) events: Vec<Event>,
    pub(super) reports: Vec<Report>,
}

/// The pools, and everything computed so far.
pub(super) struct World {
    pub(super) scene: PreparedScenario,
    /// Whether any request claims a quorum.
    pub(super) claims: bool,
    pub(super) nodes: Pool<Node>,
    /// By a node's number.
    pub(super) briefs: Vec<MemberSummary>,
    pub(super) packets: Pool<Packet>,
    pub(super) queues: Queues,
    /// What is under way between all members.
    links: Pool<Links>,
    pub(super) ledgers: Pool<Ledger>,
    pub(super) coordinators: Pool<Coordinator>,
    pub(super) configurations: Pool<Arc<Configuration>>,
    pub(super) outcomes: Vec<Arc<Outcome>>,
    /// By a node's number and the code of what happens to it.
    pub(super) known_outcomes: Table<u32>,
    /// By a ledger's number and an outcome's.
    pub(super) known_ledgers: Table<u32>,
    /// Ledgers and nodes whose reads were compared.
    pub(super) compared: Table<()>,
    /// What is published next, by the hash of what it depends on.
    published: Table<Option<u32>>,
}

impl World {
    pub(super) fn new(scene: PreparedScenario) -> Self {
        World {
            claims: scene.claims(),
            scene,
            nodes: Pool::new(),
            briefs: Vec::new(),
            packets: Pool::new(),
            queues: Queues::new(),
            links: Pool::new(),
            ledgers: Pool::new(),
            coordinators: Pool::new(),
            configurations: Pool::new(),
            outcomes: Vec::new(),
            known_outcomes: Table::new(),
            known_ledgers: Table::new(),
            compared: Table::new(),
            published: Table::new(),
        }
    }

    /// The first state: everyone has started, has heard of the first epoch and was greeted. What
    /// happens on the way is part of the scenarios with a second epoch.
    pub(super) fn first(&mut self) -> Result<State, String> {
        let scenario = self.scene.scenario.clone();
        let identity = |number: usize| Identity {
            node: NodeId(number as u32 + 1),
            incarnation: Incarnation(1),
            disk: DiskId(number as u128 + 1),
        };
        let members: Vec<Identity> = (0..scenario.members).map(identity).collect();
        let configuration = Arc::new(controller::first(
            &members,
            scenario.wiring,
            Version::NEWEST,
        ));
        let coordinator = Coordinator {
            configuration: configuration.clone(),
            reports: Reports::default(),
        };
        let nothing = self.node(Node::new(identity(0), &self.scene));
        let mut state = State {
            nodes: [nothing; MEMBERS_MAX],
            links: [0; _],
            ledger: self.ledgers.put(Ledger::new(&self.scene)).0,
            coordinator: self.coordinators.put(coordinator).0,
            budget: Budget {
                retries: scenario.retries,
                crashes: scenario.crashes,
                lease_ends: scenario.lease_ends,
                returns: scenario.returns,
                moves: scenario.moves,
                safe_points: scenario.safe_points,
                moments: scenario.moments,
                losses: scenario.losses,
                drops: scenario.bytes.map_or(0, |bytes| bytes.drops),
                is_uploading: scenario.bytes.is_some(),
            },
        };
        for number in 0..self.count() {
            let node = Node::new(identity(number), &self.scene);
            state.nodes[number] = self.node(node);
            self.happen(&mut state, number, Cause::Plain(SimpleEvent::Start))?;
        }
        let cause = Cause::Hear(self.configurations.put(configuration).0);
        for number in 0..scenario.members {
            self.happen(&mut state, number, cause)?;
        }
        loop {
            let next = self.arrivals(&state).next();
            let Some((link, packet)) = next else { break };
            state.links[link] = self.queues.rest(state.links[link]);
            let place = self.packets[packet].to.0 as usize - 1;
            self.happen(&mut state, place, Cause::Message(packet))?;
        }
        self.observe(&state.clone(), &mut state)?;
        self.begin(state, &scenario.prelude)
    }

    pub(super) fn pack(&mut self, state: &State) -> PackedState {
        PackedState {
            nodes: state.nodes,
            links: self.links.put(state.links).0,
            ledger: state.ledger,
            coordinator: state.coordinator,
            budget: state.budget,
        }
    }

    pub(super) fn unpack(&self, packed: &PackedState) -> State {
        State {
            nodes: packed.nodes,
            links: self.links[packed.links],
            ledger: packed.ledger,
            coordinator: packed.coordinator,
            budget: packed.budget,
        }
    }

    /// How many members there are.
    pub(super) fn count(&self) -> usize {
        self.scene.scenario.members + self.scene.scenario.spares
    }

    fn node(&mut self, node: Node) -> u32 {
        let brief = node.brief(&self.scene);
        let (number, is_new) = self.nodes.put(node);
        if is_new {
            self.briefs.push(brief);
        }
        number
    }

    pub(super) fn brief(&self, state: &State, place: usize) -> &MemberSummary {
        &self.briefs[state.nodes[place] as usize]
    }

    pub(super) fn newest<'a>(&'a self, state: &State) -> &'a Arc<Configuration> {
        &self.coordinators[state.coordinator].configuration
    }

    /// What may arrive next.
    pub(super) fn arrivals<'a>(
        &'a self,
        state: &'a State,
    ) -> impl Iterator<Item = (usize, u32)> + 'a {
        let each = match self.scene.scenario.delivery {
            Delivery::AnyOrder => usize::MAX,
            Delivery::InOrder | Delivery::Together => 1,
        };
        let links = state.links.iter().enumerate();
        links
            .filter(|(_, queue)| **queue != 0)
            .flat_map(move |(link, queue)| {
                let list = self.queues.list(*queue).iter().take(each);
                list.map(move |packet| (link, *packet))
            })
    }

    /// The state after `action`, or nothing if it changes nothing.
    ///
    /// # Errors
    /// The violation, in words.
    pub(super) fn after(&mut self, state: &State, action: Action) -> Result<Option<State>, String> {
        let mut next = *state;
        let budget = &mut next.budget;
        match action {
            Action::Deliver { link, packet } => self.arrive(&mut next, link, packet)?,
            Action::Ask(ask, place) => self.ask(&mut next, ask, place)?,
            Action::Hear(place) => {
                let newest = self.newest(state).clone();
                let cause = Cause::Hear(self.configurations.put(newest).0);
                self.happen(&mut next, place, cause)?;
                self.cut_links(&mut next, place);
            }
            Action::EndLease(place) => {
                budget.lease_ends -= 1;
                self.happen(&mut next, place, Cause::Plain(SimpleEvent::EndLease))?;
            }
            Action::Crash(place) => {
                budget.crashes -= 1;
                self.happen(&mut next, place, Cause::Plain(SimpleEvent::Crash))?;
                self.cut_links(&mut next, place);
            }
            Action::Return(place) => {
                budget.returns -= 1;
                self.happen(&mut next, place, Cause::Plain(SimpleEvent::Return))?;
                self.cut_links(&mut next, place);
            }
            Action::Publish(role_change, safe_point) => {
                self.publish(&mut next, role_change, safe_point)
            }
            Action::Sync(place) => {
                self.happen(&mut next, place, Cause::Plain(SimpleEvent::Sync))?
            }
            Action::Promote(place) => {
                self.happen(&mut next, place, Cause::Plain(SimpleEvent::Promote))?
            }
            Action::Tick(place) => {
                self.happen(&mut next, place, Cause::Plain(SimpleEvent::Tick))?
            }
            Action::Lose(link) => {
                budget.losses -= 1;
                next.links[link] = 0;
            }
            Action::Row(ask, place) => {
                self.happen(&mut next, place, Cause::Ask { ask, attempt: 0 })?;
            }
            Action::Bytes(place, kind) => self.happen(&mut next, place, Cause::Plain(kind))?,
            Action::RowlessEarly(place) => {
                budget.drops -= 1;
                self.happen(&mut next, place, Cause::Plain(SimpleEvent::BytesRowless))?;
            }
            Action::Fetch(place) => self.fetch(&mut next, place)?,
            Action::EndUpload => {
                (budget.is_uploading, budget.drops) = (false, 0);
            }
            Action::Pass => {
                budget.moments -= 1;
                self.pass(&mut next)?;
            }
        }
        if next == *state {
            return Ok(None);
        }
        if self.scene.scenario.delivery == Delivery::Together {
            self.hurry(state, &mut next)?;
        }
        self.observe(state, &mut next)?;
        self.check_bytes(&next)?;
        Ok(Some(next))
    }

    /// A message of a queue is gone when it arrives; one of the bag when it is permanently without
    /// effect. States that differ in such messages only are one.
    fn arrive(&mut self, state: &mut State, link: usize, packet: u32) -> Result<(), String> {
        let before = *state;
        let envelope = self.packets[packet].envelope.clone();
        let place = self.packets[packet].to.0 as usize - 1;
        match self.scene.scenario.delivery {
            Delivery::AnyOrder => {}
            Delivery::InOrder => {
                state.links[link] = self.queues.rest(state.links[link]);
                return self.happen(state, place, Cause::Message(packet));
            }
            Delivery::Together => {
                let queue = std::mem::take(&mut state.links[link]);
                for place_in in 0..self.queues.list(queue).len() {
                    let packet = self.queues.list(queue)[place_in];
                    self.happen(state, place, Cause::Message(packet))?;
                }
                return Ok(());
            }
        }
        if !self.brief(state, place).is_up {
            return Ok(());
        }
        let brief = self.brief(state, place);
        let is_ready = brief.is_ready && envelope.epoch == brief.epoch;
        self.happen(state, place, Cause::Message(packet))?;
        let is_over = match &envelope.message {
            // Said again it would only have entries sent again, and they may arrive again anyway.
            Message::Resend { .. } => is_ready,
            message => is_ready && *state == before && self.is_inert(state, place, message),
        };
        if is_over {
            state.links[link] = self.queues.without(state.links[link], packet);
        }
        Ok(())
    }

    /// Whether a message that had no effect will have none as long as the epoch lasts.
    fn is_inert(&self, state: &State, place: usize, message: &Message) -> bool {
        let brief = self.brief(state, place);
        match message {
            Message::Hello { .. } | Message::QueryAnswer { .. } => true,
            Message::Append {
                after,
                entries,
                commit,
            } => {
                let last = entries.last().map_or(*after, |entry| entry.id);
                last <= brief.last && *commit <= brief.commit
            }
            Message::Confirm { id } => *id <= brief.last,
            Message::Commit { id } => *id <= brief.commit,
            _ => false,
        }
    }

    fn ask(&mut self, state: &mut State, ask: usize, place: usize) -> Result<(), String> {
        let mut ledger = self.ledgers[state.ledger].clone();
        let attempt = usize::from(ledger.known[ask].sent);
        if 0 < attempt {
            state.budget.retries -= 1;
        }
        ledger.send(&self.scene, ask);
        let writes = self.scene.scenario.asks.iter().zip(&ledger.known);
        let is_last = self.scene.scenario.retries == 0
            && writes
                .filter(|(ask, _)| ask.is_eventual_write())
                .all(|(_, known)| 0 < known.sent);
        state.ledger = self.ledgers.put(ledger).0;
        self.happen(state, place, Cause::Ask { ask, attempt })?;
        if is_last {
            for place in 0..self.count() {
                self.happen(state, place, Cause::Plain(SimpleEvent::NoMoreWrites))?;
            }
        }
        Ok(())
    }

    fn publish(&mut self, state: &mut State, role_change: Option<RoleChange>, safe_point: bool) {
        let count = self.count();
        let sessions = (0..count).filter_map(|place| {
            let brief = self.brief(state, place);
            let is_live = brief.is_up && brief.session == Session::Live;
            is_live.then_some(brief.identity)
        });
        let sessions: Vec<Identity> = sessions.collect();
        let newest = self.coordinators[state.coordinator].clone();
        if self.scene.scenario.epochs <= newest.configuration.epoch {
            return;
        }
        let wanted = role_change.map(|role_change| match role_change {
            RoleChange::Head(node) => (0, node),
            RoleChange::Back(node) => (1, node),
            RoleChange::Demote(node) => (2, node),
        });
        let reports = match safe_point {
            true => self.reports_of_floors(state),
            false => newest.reports,
        };
        let key = hash(&(state.coordinator, &sessions, wanted, safe_point, &reports));
        let next = self.published.get(key).unwrap_or_else(|| {
            let observed = ObservedState {
                restart: controller::returned(&newest.configuration, &sessions)
                    .first()
                    .copied(),
                sessions,
                unheard: Vec::new(),
                reports,
                size: count,
                unwanted: Vec::new(),
                wiring: self.scene.scenario.wiring,
                role_change,
                raise_safe_point: safe_point,
                version: Version::NEWEST,
            };
            let next = controller::next(&newest.configuration, &observed);
            let next = next.map(|configuration| Coordinator {
                configuration: Arc::new(configuration),
                reports: Reports::default(),
            });
            let number = next.map(|next| self.coordinators.put(next).0);
            self.published.insert(key, number);
            number
        });
        if let Some(next) = next {
            state.budget.moves -= u8::from(role_change.is_some());
            state.budget.safe_points -= u8::from(safe_point && self.scene.scenario.bytes.is_none());
            state.coordinator = next;
        }
    }

    /// Something happens to a member: what comes of it, here and elsewhere.
    pub(super) fn happen(
        &mut self,
        state: &mut State,
        place: usize,
        cause: Cause,
    ) -> Result<(), String> {
        let number = self.outcome(state.nodes[place], cause)?;
        let outcome = self.outcomes[number as usize].clone();
        state.nodes[place] = outcome.node;
        if !outcome.events.is_empty() {
            let key = u64::from(state.ledger) << 32 | u64::from(number);
            state.ledger = match self.known_ledgers.get(key) {
                Some(known) => known,
                None => {
                    let mut ledger = self.ledgers[state.ledger].clone();
                    ledger.take(&self.scene, &outcome.events)?;
                    let ledger = self.ledgers.put(ledger).0;
                    self.known_ledgers.insert(key, ledger);
                    ledger
                }
            };
        }
        for report in &outcome.reports {
            self.report(state, place, *report);
        }
        for (link, packet) in &outcome.sent {
            if !self.is_instant(*packet) {
                self.send(state, *link, *packet);
            } else if self.is_heard(state, *packet) {
                let place = self.packets[*packet].to.0 as usize - 1;
                self.happen(state, place, Cause::Message(*packet))?;
            }
        }
        Ok(())
    }

    /// The outcome of what happens to a node, computed or known.
    pub(super) fn outcome(&mut self, node: u32, cause: Cause) -> Result<u32, String> {
        let key = u64::from(node) << 32 | u64::from(cause.code());
        if let Some(known) = self.known_outcomes.get(key) {
            return Ok(known);
        }
        let mut next = self.nodes[node].clone();
        let happening = match cause {
            Cause::Message(packet) => MemberEvent::Message(self.packets[packet].envelope.clone()),
            Cause::Hear(configuration) => {
                MemberEvent::Hear(self.configurations[configuration].clone())
            }
            Cause::Ask { ask, attempt } => MemberEvent::Ask { ask, attempt },
            Cause::Plain(kind) => MemberEvent::Plain(kind),
        };
        let scene = &self.scene;
        let taken = catch_unwind(AssertUnwindSafe(|| next.take(scene, happening)));
        let emitted = taken.unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            Err(format!("a member stopped: {}", text.unwrap_or_default()))
        })?;
        let mut packets = emitted.packets;
        for packet in &mut packets {
            // Only claims look at what the sender had committed.
            if let Message::Overlay { commit, .. } = &mut packet.envelope.message
                && !self.claims
            {
                *commit = EntryId::ZERO;
            }
        }
        let packets = packets.into_iter();
        let sent = packets.map(|packet| (link_of(&packet), self.packets.put(packet).0));
        let outcome = Outcome {
            sent: sent.collect(),
            node: self.node(next),
            events: emitted.events,
            reports: emitted.reports,
        };
        let number = self.outcomes.len() as u32;
        self.outcomes.push(Arc::new(outcome));
        self.known_outcomes.insert(key, number);
        Ok(number)
    }

    /// What a member says of the newest epoch, as far as the controller looks at it.
    fn report(&mut self, state: &mut State, place: usize, report: Report) {
        let matters = match report {
            Report::SyncDone { epoch, .. } | Report::Heard { epoch, .. } => {
                epoch == self.newest(state).epoch
            }
            Report::Floor { epoch, .. } => {
                epoch == self.newest(state).epoch && self.scene.raises_safe_point()
            }
            _ => false,
        };
        if matters {
            let mut coordinator = self.coordinators[state.coordinator].clone();
            coordinator.reports.note(NodeId(place as u32 + 1), report);
            state.coordinator = self.coordinators.put(coordinator).0;
        }
    }

    /// How many values of each kind there are, to find what makes a search large.
    pub(super) fn sizes(&self) -> String {
        format!(
            "{} members' states, {} outcomes, {} messages, {} queues in {} sets, {} ledgers",
            self.nodes.len(),
            self.outcomes.len(),
            self.packets.len(),
            self.queues.len(),
            self.links.len(),
            self.ledgers.len()
        )
    }
}
