//! Whether an end is reached from every state by the steps that are due.

/// The steps that are due, and the states that are ends.
#[derive(Default)]
pub(super) struct Ends {
    /// Where each step leads, and where from.
    steps: Vec<(u32, u32)>,
    ends: Vec<u32>,
}

impl Ends {
    /// A step that is due leads from one state to another.
    pub(super) fn step(&mut self, from: u32, to: u32) {
        self.steps.push((to, from));
    }

    /// A state is an end.
    pub(super) fn end(&mut self, state: u32) {
        self.ends.push(state);
    }

    /// The first of so many states from which no end is reached.
    pub(super) fn lost(&self, states: usize) -> Option<u32> {
        let mut from = vec![0_u32; states + 1];
        for (to, _) in &self.steps {
            from[*to as usize + 1] += 1;
        }
        for state in 0..states {
            from[state + 1] += from[state];
        }
        let mut free = from.clone();
        let mut before = vec![0_u32; self.steps.len()];
        for (to, state) in &self.steps {
            let place = &mut free[*to as usize];
            before[*place as usize] = *state;
            *place += 1;
        }
        let mut leads = vec![false; states];
        let mut known = self.ends.clone();
        known.iter().for_each(|end| leads[*end as usize] = true);
        while let Some(state) = known.pop() {
            let range = from[state as usize] as usize..from[state as usize + 1] as usize;
            for state in &before[range] {
                if !std::mem::replace(&mut leads[*state as usize], true) {
                    known.push(*state);
                }
            }
        }
        let lost = leads.iter().position(|leads| !leads);
        lost.map(|state| state as u32)
    }
}
