//! Commits as a model that is searched.

use super::{Model, Pending, State, Step};
use crate::model::search::Searched;
use crate::model::table::hash;

impl Searched for Model {
    fn first(&self) -> State {
        self.begin()
    }

    fn check(&self, state: &State) -> Result<(), String> {
        self.judge(state)
    }

    fn is_due(&self, step: Step) -> bool {
        step.is_due()
    }

    fn is_end(&self, state: &State) -> bool {
        self.is_clean(state)
    }

    fn key(&self, state: &State) -> u64 {
        key_of(state)
    }
}

/// What two states differ in.
fn key_of(state: &State) -> u64 {
    let State {
        rows,
        pending,
        uploads,
        asked,
        told,
        dropping,
        puts,
        heads,
        deletes,
        version_deletes,
        remakes,
        notes,
        completions,
    } = state;
    let (mut asked, mut told) = (asked.clone(), told.clone());
    asked.sort_unstable();
    told.sort_unstable_by_key(|(at, number, fate)| (*at, *number, *fate as u8));
    let told: Vec<(usize, u64, u8)> = told
        .into_iter()
        .map(|(at, number, fate)| (at, number, fate as u8))
        .collect();
    let rows: Vec<_> = rows.iter().collect();
    let of_pending = |it: &Pending| {
        let before: Vec<_> = it.before.iter().collect();
        hash(&(before, it.step, format!("{:?}", it.effect)))
    };
    let pending: Vec<u64> = pending.iter().map(of_pending).collect();
    let dropping = format!("{dropping:?}");
    let counts = (
        puts,
        heads,
        deletes,
        version_deletes,
        remakes,
        notes,
        completions,
    );
    hash(&(rows, pending, uploads, asked, told, dropping, counts))
}
