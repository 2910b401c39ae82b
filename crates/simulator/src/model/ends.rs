//! Whether an end is reached from every state by the steps that are due.

/// The steps that are due, and the states that are ends.
#[derive(Default)]
pub(super) struct Ends {
    /// By a state's number: the place of its first step. Those of later states follow.
    firsts: Vec<u32>,
    /// Where each step leads.
    targets: Vec<u32>,
    ends: Vec<u32>,
}

impl Ends {
    /// A step that is due leads from one state to another. Steps of a lower number come before.
    pub(super) fn step(&mut self, from: u32, to: u32) {
        self.begin(from as usize);
        self.targets.push(to);
    }

    /// The states up to this one have no more steps before its own.
    fn begin(&mut self, state: usize) {
        if self.firsts.len() <= state {
            self.firsts.resize(state + 1, self.targets.len() as u32);
        }
    }

    /// A state is an end.
    pub(super) fn end(&mut self, state: u32) {
        self.ends.push(state);
    }

    /// The first of so many states from which no end is reached.
    ///
    /// Steps lead to higher numbers for the most part. So a few rounds from the highest number to
    /// the lowest find all, and no step is kept a second time by where it leads.
    pub(super) fn lost(&mut self, states: usize) -> Option<u32> {
        self.begin(states);
        let mut leads = vec![false; states];
        self.ends.iter().for_each(|end| leads[*end as usize] = true);
        let mut is_new = true;
        while std::mem::take(&mut is_new) {
            for state in (0..states).rev() {
                let range = self.firsts[state] as usize..self.firsts[state + 1] as usize;
                let mut targets = self.targets[range].iter();
                if !leads[state] && targets.any(|to| leads[*to as usize]) {
                    leads[state] = true;
                    is_new = true;
                }
            }
        }
        let lost = leads.iter().position(|leads| !leads);
        lost.map(|state| state as u32)
    }
}
