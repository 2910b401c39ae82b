//! Windows by lane: each host has its own capacity, and for each kind of operation another one
//! (SimpleDB takes more gets than puts).

use std::collections::BTreeMap;

use crate::message::{Effect, Input, Time};
use crate::window::{Settings, State, Window};

/// Lanes that are kept. Bound: 1 upwards. Beyond it the idle lane that was not used for the
/// longest time is forgotten; a busy one never is.
const LANES_MAX: usize = 1_024;

/// A window for each lane. A lane is what the caller says: a host with a class of operations.
#[derive(Debug)]
pub struct Windows<Lane> {
    settings: Settings,
    lanes: BTreeMap<Lane, (Window, Time)>,
}

impl<Lane: Ord + Clone> Windows<Lane> {
    /// No lane yet; each will have these settings.
    pub fn new(settings: Settings) -> Windows<Lane> {
        Windows {
            settings,
            lanes: BTreeMap::new(),
        }
    }

    /// Steps the window of a lane, and says when that lane is to be stepped next.
    pub fn step(
        &mut self,
        now: Time,
        lane: &Lane,
        input: Input,
        effects: &mut Vec<Effect>,
    ) -> Option<Time> {
        if let Some((window, used)) = self.lanes.get_mut(lane) {
            *used = now;
            window.step(now, input, effects);
            return window.wake_at();
        }
        self.forget();
        let settings = Settings {
            seed: self.settings.seed.wrapping_add(self.lanes.len() as u64),
            ..self.settings
        };
        let mut window = Window::new(settings);
        window.step(now, input, effects);
        let wake = window.wake_at();
        self.lanes.insert(lane.clone(), (window, now));
        wake
    }

    /// The lane to be stepped next if nothing else happens, and when.
    pub fn wake_at(&self) -> Option<(Time, &Lane)> {
        let wakes = self.lanes.iter();
        let wakes = wakes.filter_map(|(lane, (window, _))| Some((window.wake_at()?, lane)));
        wakes.min()
    }

    /// What is to be seen of each lane.
    pub fn states(&self) -> impl Iterator<Item = (&Lane, State)> {
        let lanes = self.lanes.iter();
        lanes.map(|(lane, (window, _))| (lane, window.state()))
    }

    fn forget(&mut self) {
        if self.lanes.len() < LANES_MAX {
            return;
        }
        let idle = self.lanes.iter().filter(|(_, (it, _))| it.is_idle());
        let oldest = idle.min_by_key(|(_, (_, used))| *used);
        if let Some(lane) = oldest.map(|(lane, _)| lane.clone()) {
            self.lanes.remove(&lane);
        }
    }
}
