//! What a condition means: a set of items, judged one item at a time.
//!
//! A *test* looks at one value. Tests of one attribute joined by AND and OR are one *predicate*,
//! and each value is judged by it alone. `A = 'x' and A = 'y'` asks for one value that is both. An
//! item is in a predicate's set when any of its values satisfies it, or with `every()` when it has
//! values and all do. AND between different attributes, INTERSECTION, OR and NOT combine sets.
//!
//! Invariants:
//! - no two predicates directly under one And (or one Or) have the same field and
//!   quantifier. [`Condition::and`] and [`Condition::or`] fuse them, through parentheses too, so
//!   both operators are commutative and associative.
//! - `A is null` is `Not` of a predicate that any value satisfies.
//!
//! `Display` gives the Select text of a condition; parsing that text gives the condition again. It
//! is therefore the canonical form that page tokens are bound to.

use std::fmt::{self, Display, Formatter};

use fader_chain::Register;

use super::lexer::is_word;
use super::parse::is_reserved;

/// What a predicate is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Field {
    /// The item's name: `itemName()`.
    ItemName,
    /// An attribute.
    Attribute(String),
}

/// A pattern of LIKE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pattern {
    /// Whether anything may stand before the text.
    pub(crate) open_start: bool,
    /// Whether anything may stand after the text.
    pub(crate) open_end: bool,
    /// What must be there.
    pub(crate) text: String,
}

/// A test of one value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Test {
    /// True of any value.
    Present,
    /// `=`
    Equal(String),
    /// `!=`
    NotEqual(String),
    /// `<`
    Less(String),
    /// `<=`
    LessOrEqual(String),
    /// `>`
    Greater(String),
    /// `>=`
    GreaterOrEqual(String),
    /// `between .. and ..`, both included.
    Between(String, String),
    /// `in (..)`
    In(Vec<String>),
    /// `like`
    Like(Pattern),
    /// `not like`
    NotLike(Pattern),
}

/// Tests of one value, joined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Formula {
    /// One test.
    Test(Test),
    /// AND.
    All(Vec<Formula>),
    /// OR.
    Any(Vec<Formula>),
}

/// A formula about one field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Predicate {
    /// The field.
    pub(crate) field: Field,
    /// Whether all values must satisfy the formula, rather than any.
    pub(crate) every: bool,
    /// The formula.
    pub(crate) formula: Formula,
}

/// A set of items.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Condition {
    /// Items that satisfy a predicate.
    Predicate(Predicate),
    /// In all of the sets; of no sets: all items.
    And(Vec<Condition>),
    /// In any of the sets.
    Or(Vec<Condition>),
    /// In all of the sets, whose predicates stay apart.
    Intersection(Vec<Condition>),
    /// Not in the set.
    Not(Box<Condition>),
}

/// An item as it is read.
#[derive(Clone, Copy)]
pub(crate) struct Found<'a> {
    /// Its name.
    pub(crate) name: &'a [u8],
    /// Its attributes.
    pub(crate) register: &'a Register,
}

impl<'a> Found<'a> {
    /// The values of a field, in byte order.
    pub(crate) fn values(self, field: &Field) -> impl DoubleEndedIterator<Item = &'a [u8]> {
        let (name, members) = match field {
            Field::ItemName => (Some(self.name), &[][..]),
            Field::Attribute(attribute) => {
                let group = self.register.group(attribute.as_bytes());
                (None, group.map_or(&[][..], |group| &group.members))
            }
        };
        let live = members.iter().filter(|member| member.live);
        name.into_iter().chain(live.map(|member| &member.value[..]))
    }
}

impl Pattern {
    fn matches(&self, value: &[u8]) -> bool {
        let text = self.text.as_bytes();
        match (self.open_start, self.open_end) {
            (false, false) => value == text,
            (false, true) => value.starts_with(text),
            (true, false) => value.ends_with(text),
            (true, true) => contains(value, text),
        }
    }
}

fn contains(value: &[u8], text: &[u8]) -> bool {
    text.is_empty() || value.windows(text.len()).any(|window| window == text)
}

impl Test {
    /// Whether `value` passes.
    pub(crate) fn matches(&self, value: &[u8]) -> bool {
        match self {
            Test::Present => true,
            Test::Equal(constant) => value == constant.as_bytes(),
            Test::NotEqual(constant) => value != constant.as_bytes(),
            Test::Less(constant) => value < constant.as_bytes(),
            Test::LessOrEqual(constant) => value <= constant.as_bytes(),
            Test::Greater(constant) => constant.as_bytes() < value,
            Test::GreaterOrEqual(constant) => constant.as_bytes() <= value,
            Test::Between(low, high) => low.as_bytes() <= value && value <= high.as_bytes(),
            Test::In(constants) => constants
                .iter()
                .any(|constant| value == constant.as_bytes()),
            Test::Like(pattern) => pattern.matches(value),
            Test::NotLike(pattern) => !pattern.matches(value),
        }
    }

    /// How many constants a value is compared with.
    fn count(&self) -> usize {
        if let Test::In(constants) = self {
            constants.len()
        } else {
            1
        }
    }
}

impl Formula {
    /// Whether `value` satisfies it.
    pub(crate) fn matches(&self, value: &[u8]) -> bool {
        match self {
            Formula::Test(test) => test.matches(value),
            Formula::All(formulas) => formulas.iter().all(|formula| formula.matches(value)),
            Formula::Any(formulas) => formulas.iter().any(|formula| formula.matches(value)),
        }
    }

    /// How many constants a value is compared with at most.
    pub(crate) fn count(&self) -> usize {
        match self {
            Formula::Test(test) => test.count(),
            Formula::All(formulas) | Formula::Any(formulas) => {
                formulas.iter().map(Formula::count).sum()
            }
        }
    }

    fn and(self, other: Formula) -> Formula {
        let (mut formulas, more) = match (self, other) {
            (Formula::All(formulas), Formula::All(more)) => (formulas, more),
            (Formula::All(formulas), other) => (formulas, vec![other]),
            (formula, Formula::All(more)) => (vec![formula], more),
            (formula, other) => (vec![formula], vec![other]),
        };
        formulas.extend(more);
        Formula::All(formulas)
    }

    fn or(self, other: Formula) -> Formula {
        let (mut formulas, more) = match (self, other) {
            (Formula::Any(formulas), Formula::Any(more)) => (formulas, more),
            (Formula::Any(formulas), other) => (formulas, vec![other]),
            (formula, Formula::Any(more)) => (vec![formula], more),
            (formula, other) => (vec![formula], vec![other]),
        };
        formulas.extend(more);
        Formula::Any(formulas)
    }
}

impl Predicate {
    fn matches(&self, item: Found<'_>) -> bool {
        let mut values = item.values(&self.field);
        if self.every {
            let mut values = values.peekable();
            values.peek().is_some() && values.all(|value| self.formula.matches(value))
        } else {
            values.any(|value| self.formula.matches(value))
        }
    }
}

impl Condition {
    /// The condition that every item satisfies.
    pub(crate) const EVERYTHING: Condition = Condition::And(Vec::new());

    /// Items without a value of `field`.
    pub(crate) fn null(field: Field) -> Condition {
        Condition::Not(Box::new(Condition::not_null(field)))
    }

    /// Items with a value of `field`.
    pub(crate) fn not_null(field: Field) -> Condition {
        let formula = Formula::Test(Test::Present);
        Condition::Predicate(Predicate {
            field,
            every: false,
            formula,
        })
    }

    /// Joins with AND; predicates of one field become one.
    pub(crate) fn and(operands: Vec<Condition>) -> Condition {
        let flat = operands.into_iter().flat_map(|operand| match operand {
            Condition::And(inner) => inner,
            other => vec![other],
        });
        single(fuse(flat, Formula::and), Condition::And)
    }

    /// Joins with OR; predicates of one field become one.
    pub(crate) fn or(operands: Vec<Condition>) -> Condition {
        let flat = operands.into_iter().flat_map(|operand| match operand {
            Condition::Or(inner) => inner,
            other => vec![other],
        });
        single(fuse(flat, Formula::or), Condition::Or)
    }

    /// Intersects sets; their predicates stay apart.
    pub(crate) fn intersection(operands: Vec<Condition>) -> Condition {
        let flat = operands.into_iter().flat_map(|operand| match operand {
            Condition::Intersection(inner) => inner,
            other => vec![other],
        });
        single(flat.collect(), Condition::Intersection)
    }

    /// Whether the item is in the set.
    pub(crate) fn matches(&self, item: Found<'_>) -> bool {
        match self {
            Condition::Predicate(predicate) => predicate.matches(item),
            Condition::And(sets) | Condition::Intersection(sets) => {
                sets.iter().all(|set| set.matches(item))
            }
            Condition::Or(sets) => sets.iter().any(|set| set.matches(item)),
            Condition::Not(set) => !set.matches(item),
        }
    }

    /// All predicates, in the order of the text.
    pub(crate) fn predicates(&self) -> Vec<&Predicate> {
        match self {
            Condition::Predicate(predicate) => vec![predicate],
            Condition::And(sets) | Condition::Or(sets) | Condition::Intersection(sets) => {
                sets.iter().flat_map(Condition::predicates).collect()
            }
            Condition::Not(set) => set.predicates(),
        }
    }

    /// The sets that every item of this set is in, as far as they are no intersections themselves.
    pub(crate) fn conjuncts(&self) -> Vec<&Condition> {
        match self {
            Condition::And(sets) | Condition::Intersection(sets) => {
                sets.iter().flat_map(Condition::conjuncts).collect()
            }
            other => vec![other],
        }
    }
}

fn single(mut sets: Vec<Condition>, join: fn(Vec<Condition>) -> Condition) -> Condition {
    if sets.len() == 1 {
        sets.remove(0)
    } else {
        join(sets)
    }
}

fn fuse(
    operands: impl Iterator<Item = Condition>,
    join: fn(Formula, Formula) -> Formula,
) -> Vec<Condition> {
    let mut fused: Vec<Condition> = Vec::new();
    for operand in operands {
        let Condition::Predicate(predicate) = operand else {
            fused.push(operand);
            continue;
        };
        let same = fused.iter_mut().find_map(|other| match other {
            Condition::Predicate(other)
                if (&other.field, other.every) == (&predicate.field, predicate.every) =>
            {
                Some(other)
            }
            _ => None,
        });
        match same {
            Some(other) => {
                let formula = std::mem::replace(&mut other.formula, Formula::Any(Vec::new()));
                other.formula = join(formula, predicate.formula);
            }
            None => fused.push(Condition::Predicate(predicate)),
        }
    }
    fused
}

/// A name as Select writes it.
pub(crate) struct Name<'a>(pub(crate) &'a str);

impl Display for Name<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if is_word(self.0) && !is_reserved(self.0) {
            f.write_str(self.0)
        } else {
            write!(f, "`{}`", self.0.replace('`', "``"))
        }
    }
}

/// A value as Select writes it.
pub(crate) struct Value<'a>(pub(crate) &'a str);

impl Display for Value<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "'{}'", self.0.replace('\'', "''"))
    }
}

impl Display for Field {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Field::ItemName => f.write_str("itemName()"),
            Field::Attribute(name) => Name(name).fmt(f),
        }
    }
}

impl Display for Pattern {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let open = |is_open| if is_open { "%" } else { "" };
        let text = self.text.replace('%', "\\%");
        let pattern = format!("{}{text}{}", open(self.open_start), open(self.open_end));
        Value(&pattern).fmt(f)
    }
}

impl Test {
    fn fmt(&self, subject: &str, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Test::Present => write!(f, "{subject} is not null"),
            Test::Equal(constant) => write!(f, "{subject} = {}", Value(constant)),
            Test::NotEqual(constant) => write!(f, "{subject} != {}", Value(constant)),
            Test::Less(constant) => write!(f, "{subject} < {}", Value(constant)),
            Test::LessOrEqual(constant) => write!(f, "{subject} <= {}", Value(constant)),
            Test::Greater(constant) => write!(f, "{subject} > {}", Value(constant)),
            Test::GreaterOrEqual(constant) => write!(f, "{subject} >= {}", Value(constant)),
            Test::Between(low, high) => {
                write!(f, "{subject} between {} and {}", Value(low), Value(high))
            }
            Test::In(constants) => {
                let list: Vec<_> = constants
                    .iter()
                    .map(|text| Value(text).to_string())
                    .collect();
                write!(f, "{subject} in ({})", list.join(", "))
            }
            Test::Like(pattern) => write!(f, "{subject} like {pattern}"),
            Test::NotLike(pattern) => write!(f, "{subject} not like {pattern}"),
        }
    }
}

impl Formula {
    fn fmt(&self, subject: &str, f: &mut Formatter<'_>) -> fmt::Result {
        let (formulas, join) = match self {
            Formula::Test(test) => return test.fmt(subject, f),
            Formula::All(formulas) => (formulas, " and "),
            Formula::Any(formulas) => (formulas, " or "),
        };
        f.write_str("(")?;
        for (at, formula) in formulas.iter().enumerate() {
            f.write_str(if at == 0 { "" } else { join })?;
            formula.fmt(subject, f)?;
        }
        f.write_str(")")
    }
}

impl Display for Predicate {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let subject = if self.every {
            format!("every({})", self.field)
        } else {
            self.field.to_string()
        };
        self.formula.fmt(&subject, f)
    }
}

impl Display for Condition {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (sets, join) = match self {
            Condition::Predicate(predicate) => return predicate.fmt(f),
            Condition::Not(set) => {
                return match set.as_ref() {
                    Condition::Predicate(Predicate {
                        field,
                        every: false,
                        formula: Formula::Test(Test::Present),
                    }) => write!(f, "{field} is null"),
                    other => write!(f, "not {other}"),
                };
            }
            Condition::And(sets) => (sets, " and "),
            Condition::Or(sets) => (sets, " or "),
            Condition::Intersection(sets) => (sets, " intersection "),
        };
        f.write_str("(")?;
        for (at, set) in sets.iter().enumerate() {
            f.write_str(if at == 0 { "" } else { join })?;
            set.fmt(f)?;
        }
        f.write_str(")")
    }
}
