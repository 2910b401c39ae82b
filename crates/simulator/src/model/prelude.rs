//! What happens before a search begins, so that it begins deep in a history: one thing after the
//! other, checked as every step is.

use fader_chain::NodeId;
use fader_chain::controller::RoleChange;

use super::actions::Action;
use super::ledger::Event;
use super::step::SimpleEvent;
use super::world::{Budget, Cause, MEMBERS_MAX, State, World};

/// One thing that happens before the search. Members are named by their place among all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// This request is made at this member.
    Ask(usize, usize),
    /// All that is due happens, until nothing is.
    Run,
    /// The same, but nothing arrives at this member, and it does nothing.
    RunWithout(usize),
    /// A member crashes.
    Crash(usize),
    /// A member crashes, and all that is under way from it is lost.
    CrashSilently(usize),
    /// All that is under way from a member is lost.
    Silence(usize),
    /// A member starts again, in a new incarnation.
    Return(usize),
    /// A member has waited for a while.
    Tick(usize),
    /// The next configuration is published, with a greater safe point.
    Floor,
    /// The next configuration is published, of which this member is the head.
    Head(usize),
}

/// Steps of one run until nothing is due, at most: more is a fault of the scenario.
const STEPS_MAX: usize = 10_000;

/// All that is under way from the member in this place is lost.
fn silence(state: &mut State, place: usize) {
    let from = |link: &usize| link % MEMBERS_MAX == place;
    let links = (0..state.links.len()).filter(from);
    links.for_each(|link| state.links[link] = 0);
}

impl World {
    /// The state after `prelude`, from which the search begins with the scenario's whole budget.
    pub(super) fn begin(&mut self, first: State, prelude: &[Step]) -> Result<State, String> {
        let mut state = first;
        for step in prelude {
            state.budget = Budget {
                retries: 0,
                moves: 1,
                crashes: 1,
                lease_ends: 0,
                returns: 1,
                safe_points: 1,
                moments: 0,
                losses: 0,
                ..first.budget
            };
            match *step {
                Step::Ask(ask, place) => self.take_step(&mut state, Action::Ask(ask, place))?,
                Step::Run => self.run_out(&mut state, None)?,
                Step::RunWithout(place) => self.run_out(&mut state, Some(place))?,
                Step::Crash(place) => self.take_step(&mut state, Action::Crash(place))?,
                Step::CrashSilently(place) => {
                    silence(&mut state, place);
                    self.take_step(&mut state, Action::Crash(place))?;
                }
                Step::Silence(place) => silence(&mut state, place),
                Step::Return(place) => self.take_step(&mut state, Action::Return(place))?,
                Step::Tick(place) => self.take_step(&mut state, Action::Tick(place))?,
                Step::Head(place) => {
                    let role_change = RoleChange::Head(NodeId(place as u32 + 1));
                    self.take_step(&mut state, Action::Publish(Some(role_change), false))?;
                }
                Step::Floor => self.take_step(&mut state, Action::Publish(None, true))?,
            }
        }
        state.budget = first.budget;
        Ok(state)
    }

    fn take_step(&mut self, state: &mut State, action: Action) -> Result<(), String> {
        if let Some(next) = self.after(state, action)? {
            *state = next;
        }
        Ok(())
    }

    /// Takes the first step that is due and changes something, again and again.
    fn run_out(&mut self, state: &mut State, without: Option<usize>) -> Result<(), String> {
        let mut actions = Vec::new();
        for _ in 0..STEPS_MAX {
            self.actions(state, &mut actions);
            // A handshake that comes before the configuration would be lost.
            actions.sort_by_key(|action| !matches!(action, Action::Hear(_)));
            let mut next = None;
            for action in &actions {
                let is_tick = matches!(action, Action::Tick(_));
                let place = self.place_of(*action);
                let is_wanted = place.is_none() || place != without;
                if action.is_due() && !is_tick && is_wanted && next.is_none() {
                    next = self.after(state, *action)?;
                }
            }
            match next {
                Some(next) => *state = next,
                None => return Ok(()),
            }
        }
        Err("the prelude does not come to rest".to_owned())
    }

    /// The member at which it happens.
    fn place_of(&self, action: Action) -> Option<usize> {
        match action {
            Action::Deliver { packet, .. } => Some(self.packets[packet].to.0 as usize - 1),
            Action::Ask(_, place)
            | Action::Row(_, place)
            | Action::Bytes(place, _)
            | Action::RowlessEarly(place)
            | Action::Fetch(place)
            | Action::Hear(place)
            | Action::EndLease(place)
            | Action::Crash(place)
            | Action::Return(place)
            | Action::Sync(place)
            | Action::Promote(place)
            | Action::Tick(place) => Some(place),
            Action::Publish(..) | Action::Pass | Action::Lose(_) | Action::EndUpload => None,
        }
    }

    /// One more moment is over, everywhere.
    pub(super) fn pass(&mut self, state: &mut State) -> Result<(), String> {
        for place in 0..self.count() {
            self.happen(state, place, Cause::Plain(SimpleEvent::Pass))?;
        }
        let mut ledger = self.ledgers[state.ledger].clone();
        ledger.take(&self.scene, &[Event::Passed])?;
        state.ledger = self.ledgers.put(ledger).0;
        Ok(())
    }
}
