//! What services show of collections to those who watch a node: numbers with names.
//!
//! A node carries them and knows none. They are read on a committed view of a chain.

use crate::catalog::AccountId;

/// A number that is shown of each collection of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Figure {
    /// Its name, as metrics have names.
    pub name: &'static str,
    /// What it says, for people.
    pub help: &'static str,
    /// How those of several collections are one.
    pub joined: Joined,
}

/// How the numbers of several collections become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Joined {
    /// Their sum; each only grows.
    Total,
    /// Their sum.
    Sum,
    /// The greatest.
    Max,
}

/// The numbers of one collection, in the order of the figures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// Whose it is.
    pub account: AccountId,
    /// Its name.
    pub name: String,
    /// The numbers.
    pub values: Vec<u64>,
}

/// The numbers of all collections of a kind: of some by name, of the others together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// What the numbers are.
    pub figures: &'static [Figure],
    /// Those that are shown by name.
    pub shown: Vec<Shown>,
    /// The others together; empty where there are none.
    pub others: Vec<u64>,
}

impl Figures {
    /// None of anything yet.
    pub fn new(figures: &'static [Figure]) -> Self {
        Figures {
            figures,
            ..Figures::default()
        }
    }

    /// Adds a collection: by its name while there are fewer than `most`.
    pub fn add(&mut self, shown: Shown, most: usize) {
        match self.shown.len() < most {
            true => self.shown.push(shown),
            false => self.join(&shown.values),
        }
    }

    /// Adds those of another chain.
    pub fn extend(&mut self, more: Figures, most: usize) {
        self.figures = more.figures;
        for shown in more.shown {
            self.add(shown, most);
        }
        if !more.others.is_empty() {
            self.join(&more.others);
        }
    }

    fn join(&mut self, values: &[u64]) {
        if self.others.is_empty() {
            self.others = vec![0; values.len()];
        }
        for ((other, value), figure) in self.others.iter_mut().zip(values).zip(self.figures) {
            *other = match figure.joined {
                Joined::Max => (*other).max(*value),
                Joined::Sum | Joined::Total => other.saturating_add(*value),
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIGURES: [Figure; 2] = [
        Figure {
            name: "all",
            help: "",
            joined: Joined::Sum,
        },
        Figure {
            name: "most",
            help: "",
            joined: Joined::Max,
        },
    ];

    fn shown(name: &str, values: [u64; 2]) -> Shown {
        Shown {
            account: AccountId("1".to_owned()),
            name: name.to_owned(),
            values: values.to_vec(),
        }
    }

    #[test]
    fn those_beyond_the_most_are_one() {
        let mut figures = Figures::new(&FIGURES);
        figures.add(shown("a", [1, 9]), 2);
        let mut more = Figures::new(&FIGURES);
        for (name, values) in [("b", [2, 8]), ("c", [3, 7]), ("d", [4, 6])] {
            more.add(shown(name, values), 2);
        }
        assert_eq!(more.others, [4, 6]);
        figures.extend(more, 2);
        assert_eq!(figures.shown, [shown("a", [1, 9]), shown("b", [2, 8])]);
        assert_eq!(figures.others, [7, 7]);
    }
}
