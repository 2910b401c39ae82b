//! Every step that can be taken from a state, and how a trace tells it.

use fader_chain::controller::RoleChange;
use fader_chain::{Change, Message, NodeId, Role};
use fader_services::blocks;

use super::client_requests::ClientRequest;
use super::node::Session;
use super::step::{Packet, SimpleEvent};
use super::world::{MEMBERS_MAX, State, World};

/// One step of the model. Members are named by their place among all.
#[derive(Clone, Copy, Debug)]
pub(super) enum Action {
    /// A message arrives: of a queue the oldest, of the bag any.
    Deliver { link: usize, packet: u32 },
    /// A request arrives at a member, for the first time or again.
    Ask(usize, usize),
    /// A member hears of the newest configuration.
    Hear(usize),
    /// A member's lease ends.
    EndLease(usize),
    /// A member crashes.
    Crash(usize),
    /// A member starts again, in a new incarnation.
    Return(usize),
    /// The next configuration is published.
    Publish(Option<RoleChange>, bool),
    /// One more record becomes durable.
    Sync(usize),
    /// The head settles what it holds.
    Promote(usize),
    /// A member says again what was not answered for a while.
    Tick(usize),
    /// Time passes, everywhere.
    Pass,
    /// All that is under way from one member to another is lost, and what is sent later arrives.
    Lose(usize),
    /// The head is asked for a command about the block's row.
    Row(usize, usize),
    /// Something happens to a member's bytes.
    Bytes(usize, SimpleEvent),
    /// A member finds bytes without a row during the upload.
    RowlessEarly(usize),
    /// A member asks others for bytes that it waits for.
    Fetch(usize),
    /// The upload is over, well or not.
    EndUpload,
}

impl Action {
    /// Whether it happens sooner or later, with any actions of clients, operators and faults.
    pub(super) fn is_due(&self) -> bool {
        matches!(
            self,
            Action::Deliver { .. }
                | Action::Hear(_)
                | Action::Publish(None, false)
                | Action::Sync(_)
                | Action::Promote(_)
                | Action::Tick(_)
        )
    }
}

impl World {
    /// Every step that can be taken.
    pub(super) fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        actions.clear();
        self.byte_actions(state, actions);
        let arrivals = self.arrivals(state);
        actions.extend(arrivals.map(|(link, packet)| Action::Deliver { link, packet }));
        let asks = &self.scene.scenario.asks;
        let known = self.ledgers[state.ledger].known.iter().enumerate();
        // What is asked about rows is a step of its own.
        for (ask, known) in known.filter(|_| self.scene.scenario.bytes.is_none()) {
            let is_retry = 0 < known.sent;
            let is_once = matches!(
                asks[ask],
                ClientRequest::Read { .. } | ClientRequest::Turn { .. } | ClientRequest::Close
            );
            if is_retry && (state.budget.retries == 0 || is_once) {
                continue;
            }
            if !self.is_asked(state, ask) {
                continue;
            }
            let takers = (0..self.count()).filter(|place| {
                let only = self.scene.scenario.places.iter().find(|(it, _)| *it == ask);
                let is_there = only.is_none_or(|(_, only)| only == place);
                is_there && self.takes(&asks[ask], state, *place)
            });
            actions.extend(takers.map(|place| Action::Ask(ask, place)));
        }
        for place in 0..self.count() {
            self.member_actions(state, place, actions);
        }
        self.shifts(state, actions);
        if 0 < state.budget.safe_points || self.scene.scenario.bytes.is_some() {
            actions.push(Action::Publish(None, true));
        }
        if 0 < state.budget.moments {
            actions.push(Action::Pass);
        }
        if 0 < state.budget.losses {
            let links = state.links.iter().enumerate();
            let busy = links.filter(|(_, queue)| **queue != 0);
            actions.extend(busy.map(|(link, _)| Action::Lose(link)));
        }
    }

    /// Whether the client that would ask has been answered what it waits for.
    fn is_asked(&self, state: &State, ask: usize) -> bool {
        let known = &self.ledgers[state.ledger].known;
        let mut first = self.scene.scenario.follows.iter();
        first.all(|(later, first)| *later != ask || known[*first].is_over)
    }

    fn takes(&self, ask: &ClientRequest, state: &State, place: usize) -> bool {
        let brief = self.brief(state, place);
        match ask.is_strong_write() || ask.is_barrier() {
            true => brief.is_ready && brief.is_head,
            // Who lost its lease may prove a bound for a while.
            false if ask.is_bounded() => brief.is_ready,
            false if ask.is_of_one() => brief.takes_alone,
            false => brief.is_ready && brief.may_serve,
        }
    }

    fn member_actions(&self, state: &State, place: usize, actions: &mut Vec<Action>) {
        let brief = self.brief(state, place);
        let budget = &state.budget;
        let is_live = brief.session == Session::Live;
        if brief.is_up {
            if brief.epoch < self.newest(state).epoch {
                actions.push(Action::Hear(place));
            }
            if is_live && 0 < budget.lease_ends {
                actions.push(Action::EndLease(place));
            }
            if 0 < budget.crashes {
                actions.push(Action::Crash(place));
            }
        }
        if (!brief.is_up || !is_live) && 0 < budget.returns {
            actions.push(Action::Return(place));
        }
        if brief.is_unsynced {
            actions.push(Action::Sync(place));
        }
        if brief.holds && brief.is_head {
            actions.push(Action::Promote(place));
        }
        if brief.holds && self.scene.scenario.ticks {
            actions.push(Action::Tick(place));
        }
    }

    /// What the controller might want to change besides what it must.
    fn shifts(&self, state: &State, actions: &mut Vec<Action>) {
        let newest = self.newest(state);
        if self.scene.scenario.epochs <= newest.epoch {
            return;
        }
        actions.push(Action::Publish(None, false));
        if 0 < state.budget.moves {
            let serving = newest.serving().skip(1);
            let heads = serving.map(|node| Action::Publish(Some(RoleChange::Head(node)), false));
            actions.extend(heads);
            actions.push(Action::Publish(
                Some(RoleChange::Back(newest.head())),
                false,
            ));
        }
    }

    /// A step in words.
    pub(super) fn describe_action(&self, action: Action) -> String {
        let name = |place: usize| NodeId(place as u32 + 1);
        match action {
            Action::Deliver { packet, .. } => {
                let Packet { to, envelope } = &self.packets[packet];
                let (from, epoch) = (envelope.from, envelope.epoch);
                format!(
                    "{from} -> {to} in epoch {epoch}: {}",
                    told(&envelope.message)
                )
            }
            Action::Ask(ask, place) => {
                let ask = &self.scene.scenario.asks[ask];
                format!("{} is asked {ask:?}", name(place))
            }
            Action::Hear(place) => format!("{} hears of the newest configuration", name(place)),
            Action::EndLease(place) => format!("the lease of {} ends", name(place)),
            Action::Crash(place) => format!("{} crashes", name(place)),
            Action::Return(place) => format!("{} comes back", name(place)),
            Action::Publish(role_change, safe_point) => {
                format!("published, {role_change:?}, safe point raised: {safe_point}")
            }
            Action::Sync(place) => format!("{} syncs one record", name(place)),
            Action::Promote(place) => format!("{} settles what it holds", name(place)),
            Action::Tick(place) => format!("{} has waited for a while", name(place)),
            Action::Pass => "a moment passes".to_owned(),
            Action::Row(ask, place) => {
                let ask = match ask {
                    0 => "put",
                    _ => "remove",
                };
                format!("{} is asked to {ask} the row", name(place))
            }
            Action::Bytes(place, kind) => format!("{}: {kind:?}", name(place)),
            Action::RowlessEarly(place) => format!("{}: BytesRowless, early", name(place)),
            Action::Fetch(place) => format!("{} asks others for the bytes", name(place)),
            Action::EndUpload => "the upload is over".to_owned(),
            Action::Lose(link) => {
                let (from, to) = (name(link % MEMBERS_MAX), name(link / MEMBERS_MAX));
                format!("what is under way from {from} to {to} is lost")
            }
        }
    }

    /// The state in a few lines.
    pub(super) fn describe(&self, state: &State) -> String {
        let newest = self.newest(state);
        let members = newest.members.iter().map(|member| match member.role {
            Role::Serving => member.node.to_string(),
            Role::Syncing => format!("{}(s)", member.node),
            Role::Leaving => format!("{}(l)", member.node),
        });
        let members: Vec<String> = members.collect();
        let mut lines = vec![format!(
            "    epoch {} [{}]",
            newest.epoch,
            members.join(", ")
        )];
        for place in 0..self.count() {
            let brief = self.brief(state, place);
            let bytes = brief.bytes.as_ref();
            let bytes = bytes.map(|it| format!(" applied {} bytes {:?}", brief.applied, it.held));
            lines.push(format!(
                "    {}: {} epoch {} ready {} last {} commit {}{}",
                brief.identity.node,
                if brief.is_up { "up" } else { "down" },
                brief.epoch,
                brief.is_ready,
                brief.last,
                brief.commit,
                bytes.unwrap_or_default(),
            ));
        }
        lines.join("\n")
    }
}

/// A message in words. Of entries with rows of blocks their ids are enough.
fn told(message: &Message) -> String {
    match message {
        Message::Append {
            after,
            entries,
            commit,
        } if entries.iter().any(|it| it.changes.iter().any(is_row)) => {
            let ids: Vec<String> = entries.iter().map(|entry| entry.id.to_string()).collect();
            format!("Append {{ after: {after}, entries: {ids:?}, commit: {commit} }}")
        }
        other => format!("{other:?}"),
    }
}

fn is_row(change: &Change) -> bool {
    blocks::block_of(change.key()).is_some()
}
