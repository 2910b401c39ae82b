//! Sets of values as ranges: where in an index a formula's values can be.
//!
//! Every bound is *from this value on* or *before this value*; the value after `v` is `v` with a
//! zero byte, so all comparisons fit. A set may hold more than the formula's values, never fewer.
//!
//! Invariants:
//! - VRANGE-1 the ranges of a set are not empty, in order, and do not touch.

use super::predicate::{Condition, Field, Formula, Pattern, Test};

/// Values from `low` on and before `high`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    /// The first value.
    pub(crate) low: Vec<u8>,
    /// The first value beyond; none when there is no end.
    pub(crate) high: Option<Vec<u8>>,
}

/// A set of values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ranges(Vec<Range>);

impl Range {
    fn is_empty(&self) -> bool {
        self.high.as_ref().is_some_and(|high| *high <= self.low)
    }

    /// Whether it holds one value only.
    pub(crate) fn is_point(&self) -> bool {
        self.high
            .as_ref()
            .is_some_and(|high| *high == after(&self.low))
    }

    fn intersect(&self, other: &Range) -> Range {
        let high = match (&self.high, &other.high) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.as_ref().or(other.as_ref()),
        };
        Range {
            low: self.low.clone().max(other.low.clone()),
            high: high.cloned(),
        }
    }
}

impl Ranges {
    /// All values.
    pub(crate) fn everything() -> Self {
        Ranges(vec![Range {
            low: Vec::new(),
            high: None,
        }])
    }

    /// The values that can satisfy `formula`.
    pub(crate) fn of(formula: &Formula) -> Self {
        match formula {
            Formula::Test(test) => Ranges::of_test(test),
            Formula::All(formulas) => formulas
                .iter()
                .map(Ranges::of)
                .fold(Ranges::everything(), |all, ranges| all.intersect(&ranges)),
            Formula::Any(formulas) => Ranges::from(
                formulas
                    .iter()
                    .flat_map(|formula| Ranges::of(formula).0)
                    .collect(),
            ),
        }
    }

    /// The names that items in the set of `condition` can have.
    pub(crate) fn of_items(condition: &Condition) -> Self {
        let conjuncts = condition.conjuncts().into_iter();
        let ranges = conjuncts.filter_map(|conjunct| match conjunct {
            Condition::Predicate(predicate) if predicate.field == Field::ItemName => {
                Some(Ranges::of(&predicate.formula))
            }
            _ => None,
        });
        ranges.fold(Ranges::everything(), |all, ranges| all.intersect(&ranges))
    }

    /// In order.
    pub(crate) fn as_slice(&self) -> &[Range] {
        &self.0
    }

    /// Whether no value is left out.
    pub(crate) fn is_everything(&self) -> bool {
        *self == Ranges::everything()
    }

    /// The values of both.
    pub(crate) fn union(&self, other: &Ranges) -> Ranges {
        Ranges::from(self.0.iter().chain(&other.0).cloned().collect())
    }

    fn of_test(test: &Test) -> Ranges {
        let everything = Ranges::everything;
        match test {
            Test::Present | Test::NotLike(_) => everything(),
            Test::Equal(constant) => Ranges::from(vec![point(constant)]),
            Test::NotEqual(constant) => Ranges::from(vec![
                range(b"", Some(constant.clone().into_bytes())),
                range(&after(constant.as_bytes()), None),
            ]),
            Test::Less(constant) => {
                Ranges::from(vec![range(b"", Some(constant.clone().into_bytes()))])
            }
            Test::LessOrEqual(constant) => {
                Ranges::from(vec![range(b"", Some(after(constant.as_bytes())))])
            }
            Test::Greater(constant) => Ranges::from(vec![range(&after(constant.as_bytes()), None)]),
            Test::GreaterOrEqual(constant) => Ranges::from(vec![range(constant.as_bytes(), None)]),
            Test::Between(low, high) => {
                Ranges::from(vec![range(low.as_bytes(), Some(after(high.as_bytes())))])
            }
            Test::In(constants) => {
                Ranges::from(constants.iter().map(|constant| point(constant)).collect())
            }
            Test::Like(Pattern {
                open_start: true, ..
            }) => everything(),
            Test::Like(Pattern {
                open_end: false,
                text,
                ..
            }) => Ranges::from(vec![point(text)]),
            Test::Like(Pattern { text, .. }) => {
                Ranges::from(vec![range(text.as_bytes(), after_prefix(text.as_bytes()))])
            }
        }
    }

    /// The values in any of the ranges.
    fn from(mut ranges: Vec<Range>) -> Ranges {
        ranges.retain(|range| !range.is_empty());
        ranges.sort_by(|one, other| one.low.cmp(&other.low));
        let mut joined: Vec<Range> = Vec::with_capacity(ranges.len());
        for range in ranges {
            match joined.last_mut() {
                Some(last) if last.high.as_ref().is_none_or(|high| range.low <= *high) => {
                    last.high = match (last.high.take(), range.high) {
                        (Some(one), Some(other)) => Some(one.max(other)),
                        _ => None,
                    };
                }
                _ => joined.push(range),
            }
        }
        Ranges(joined)
    }

    fn intersect(&self, other: &Ranges) -> Ranges {
        let (mut mine, mut theirs) = (self.0.as_slice(), other.0.as_slice());
        let mut both = Vec::new();
        while let ([one, rest @ ..], [other, others @ ..]) = (mine, theirs) {
            both.push(one.intersect(other));
            let ends_first = match (&one.high, &other.high) {
                (Some(one), Some(other)) => one <= other,
                (one, _) => one.is_some(),
            };
            (mine, theirs) = if ends_first {
                (rest, theirs)
            } else {
                (mine, others)
            };
        }
        Ranges::from(both)
    }
}

fn range(low: &[u8], high: Option<Vec<u8>>) -> Range {
    Range {
        low: low.to_vec(),
        high,
    }
}

fn point(value: &str) -> Range {
    range(value.as_bytes(), Some(after(value.as_bytes())))
}

/// The first value after `value`.
fn after(value: &[u8]) -> Vec<u8> {
    [value, &[0]].concat()
}

/// The first value after all that start with `prefix`.
fn after_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let kept = prefix.iter().rposition(|&byte| byte < 0xff)?;
    let mut end = prefix[..=kept].to_vec();
    end[kept] += 1;
    Some(end)
}

#[cfg(test)]
mod tests;
