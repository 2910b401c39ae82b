//! Every plan of random selections on random data, against an evaluation of all items by the words
//! of AWS's guide.
//!
//! The model shares nothing with the code it judges: it has its own trees, prints them as text for
//! the parser, and works on strings.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::fixture::{Domain, Stops, text};
use crate::UnlimitedBudget;
use crate::simpledb::Limits;
use crate::simpledb::select::execute::PageRequest;
use crate::simpledb::select::plan::{Choice, Planner};
use crate::simpledb::select::position::Position;
use crate::simpledb::select::{Output, Statement};

const ITEMS_MAX: usize = 9;

type Data = BTreeMap<String, BTreeSet<(String, String)>>;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    ItemName,
    Any(String),
    Every(String),
}

#[derive(Clone, Debug)]
enum Operator {
    Compare(&'static str, String),
    Between(String, String),
    In(Vec<String>),
    Like(String),
    NotLike(String),
    NotNull,
}

#[derive(Clone, Debug)]
enum Expression {
    Test(Key, Operator),
    Null(Key),
    And(Vec<Expression>),
    Or(Vec<Expression>),
    Intersection(Vec<Expression>),
    Not(Box<Expression>),
}

use Expression::{And, Intersection, Not, Null, Or, Test};

fn quote(value: &str) -> String {
    format!("'{}'", value.replace('\'', "''"))
}

impl Key {
    fn print(&self) -> String {
        match self {
            Key::ItemName => "itemName()".to_owned(),
            Key::Any(name) => format!("`{name}`"),
            Key::Every(name) => format!("every(`{name}`)"),
        }
    }

    fn values<'d>(&self, item: &'d str, data: &'d Data) -> Vec<&'d str> {
        match self {
            Key::ItemName => vec![item],
            Key::Any(name) | Key::Every(name) => {
                let pairs = data[item].iter().filter(|(of, _)| of == name);
                pairs.map(|(_, value)| value.as_str()).collect()
            }
        }
    }
}

impl Operator {
    fn print(&self) -> String {
        match self {
            Operator::Compare(symbol, value) => format!("{symbol} {}", quote(value)),
            Operator::Between(low, high) => {
                format!("BETWEEN {} and {}", quote(low), quote(high))
            }
            Operator::In(values) => {
                let values: Vec<_> = values.iter().map(|value| quote(value)).collect();
                format!("in ({})", values.join(","))
            }
            Operator::Like(pattern) => format!("like {}", quote(pattern)),
            Operator::NotLike(pattern) => format!("Not Like {}", quote(pattern)),
            Operator::NotNull => "is not null".to_owned(),
        }
    }

    fn accepts(&self, value: &str) -> bool {
        match self {
            Operator::Compare("=", constant) => value == constant,
            Operator::Compare("!=", constant) => value != constant,
            Operator::Compare("<", constant) => value < constant.as_str(),
            Operator::Compare("<=", constant) => value <= constant.as_str(),
            Operator::Compare(">", constant) => value > constant.as_str(),
            Operator::Compare(_, constant) => value >= constant.as_str(),
            Operator::Between(low, high) => (low.as_str()..=high.as_str()).contains(&value),
            Operator::In(values) => values.iter().any(|constant| constant == value),
            Operator::Like(pattern) => like(pattern, value),
            Operator::NotLike(pattern) => !like(pattern, value),
            Operator::NotNull => true,
        }
    }
}

/// The patterns that are generated have no escapes.
fn like(pattern: &str, value: &str) -> bool {
    let inner = pattern.trim_matches('%');
    match (pattern.starts_with('%'), pattern.ends_with('%')) {
        (true, _) if inner.is_empty() => true,
        (true, true) => value.contains(inner),
        (true, false) => value.ends_with(inner),
        (false, true) => value.starts_with(inner),
        (false, false) => value == inner,
    }
}

impl Expression {
    fn print(&self) -> String {
        let join = |members: &[Expression], operator: &str| {
            let members: Vec<_> = members.iter().map(Expression::print).collect();
            format!("({})", members.join(operator))
        };
        match self {
            Test(key, operator) => format!("{} {}", key.print(), operator.print()),
            Null(key) => format!("{} is null", key.print()),
            And(members) => join(members, " AND "),
            Or(members) => join(members, " or "),
            Intersection(members) => join(members, " Intersection "),
            Not(member) => format!("not {}", member.print()),
        }
    }

    /// Whether all of it is about values of one key.
    fn key(&self) -> Option<&Key> {
        match self {
            Test(key, _) => Some(key),
            And(members) | Or(members) => {
                let first = members[0].key()?;
                members
                    .iter()
                    .all(|member| member.key() == Some(first))
                    .then_some(first)
            }
            Null(_) | Intersection(_) | Not(_) => None,
        }
    }

    fn accepts(&self, value: &str) -> bool {
        match self {
            Test(_, operator) => operator.accepts(value),
            And(members) => members.iter().all(|member| member.accepts(value)),
            Or(members) => members.iter().any(|member| member.accepts(value)),
            Null(_) | Intersection(_) | Not(_) => unreachable!("has no key"),
        }
    }

    /// The operands of nested ANDs (or ORs), those of one key together.
    fn parts(&self, is_and: bool) -> Vec<Vec<&Expression>> {
        fn flatten<'e>(of: &'e Expression, is_and: bool, out: &mut Vec<&'e Expression>) {
            match of {
                And(members) if is_and => members.iter().for_each(|m| flatten(m, is_and, out)),
                Or(members) if !is_and => members.iter().for_each(|m| flatten(m, is_and, out)),
                other => out.push(other),
            }
        }
        let mut flat = Vec::new();
        flatten(self, is_and, &mut flat);
        let mut parts: Vec<Vec<&Expression>> = Vec::new();
        for member in flat {
            let key = member.key();
            match parts
                .iter_mut()
                .find(|part| key.is_some() && part[0].key() == key)
            {
                Some(part) => part.push(member),
                None => parts.push(vec![member]),
            }
        }
        parts
    }

    fn selects(&self, item: &str, data: &Data) -> bool {
        let judge = |part: &Vec<&Expression>, is_and: bool| match part[0].key() {
            None => part[0].selects(item, data),
            Some(key) => {
                let values = key.values(item, data);
                let accepts = |value: &&str| {
                    if is_and {
                        part.iter().all(|member| member.accepts(value))
                    } else {
                        part.iter().any(|member| member.accepts(value))
                    }
                };
                match key {
                    Key::Every(_) => !values.is_empty() && values.iter().all(accepts),
                    _ => values.iter().any(accepts),
                }
            }
        };
        match self {
            Test(..) | And(_) => self.parts(true).iter().all(|part| judge(part, true)),
            Or(_) => self.parts(false).iter().any(|part| judge(part, false)),
            Null(key) => key.values(item, data).is_empty(),
            Intersection(members) => members.iter().all(|member| member.selects(item, data)),
            Not(member) => !member.selects(item, data),
        }
    }

    /// The predicates on a field that every result must satisfy: ANDed members of each.
    fn required(&self) -> Vec<Vec<&Expression>> {
        match self {
            Intersection(members) => members.iter().flat_map(Expression::required).collect(),
            Test(..) | And(_) => {
                let parts = self.parts(true).into_iter();
                let required = parts.flat_map(|part| match part[0] {
                    Intersection(_) => part[0].required(),
                    _ => vec![part],
                });
                required.collect()
            }
            other => vec![vec![other]],
        }
    }

    /// The values an item may be sorted by.
    fn sort_value<'d>(
        &self,
        by: &Key,
        item: &'d str,
        data: &'d Data,
        is_descending: bool,
    ) -> Option<&'d str> {
        let about = match by {
            Key::Any(name) => vec![by.clone(), Key::Every(name.clone())],
            _ => vec![by.clone()],
        };
        let required = self.required();
        let on_it: Vec<_> = required
            .iter()
            .filter(|part| part[0].key().is_some_and(|key| about.contains(key)))
            .collect();
        let counts = |value: &&str| {
            on_it.is_empty()
                || on_it
                    .iter()
                    .any(|part| part.iter().all(|member| member.accepts(value)))
        };
        let values = about[0].values(item, data).into_iter().filter(counts);
        if is_descending {
            values.max()
        } else {
            values.min()
        }
    }
}

fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        8 => "[xyz]{0,2}",
        1 => Just("x\u{0}".to_owned()),
        1 => Just("x\u{0}\u{1}".to_owned()),
        1 => Just("x'\u{e9}".to_owned()),
    ]
}

fn item() -> impl Strategy<Value = String> {
    "[xyz]{1,2}"
}

fn pair() -> impl Strategy<Value = (String, String)> {
    ("[abc]", value())
}

fn data() -> impl Strategy<Value = Data> {
    prop::collection::btree_map(
        item(),
        prop::collection::btree_set(pair(), 1..7),
        0..=ITEMS_MAX,
    )
}

fn key() -> impl Strategy<Value = Key> {
    prop_oneof![
        1 => Just(Key::ItemName),
        4 => "[abc]".prop_map(Key::Any),
        1 => "[abc]".prop_map(Key::Every),
    ]
}

fn operator() -> impl Strategy<Value = Operator> {
    let symbol = prop::sample::select(vec!["=", "=", "!=", "<", "<=", ">", ">="]);
    prop_oneof![
        5 => (symbol, value()).prop_map(|(symbol, value)| Operator::Compare(symbol, value)),
        1 => (value(), value()).prop_map(|(low, high)| Operator::Between(low, high)),
        1 => prop::collection::vec(value(), 1..4).prop_map(Operator::In),
        2 => "%?[xyz]{0,2}%?".prop_map(Operator::Like),
        1 => "%?[xyz]{0,2}%?".prop_map(Operator::NotLike),
        1 => Just(Operator::NotNull),
    ]
}

fn expression() -> impl Strategy<Value = Expression> {
    let leaf = prop_oneof![
        9 => (key(), operator()).prop_map(|(key, operator)| match (key, operator) {
            (Key::Every(name), Operator::NotNull) => Test(Key::Any(name), Operator::NotNull),
            (key, operator) => Test(key, operator),
        }),
        1 => key().prop_map(Null),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        let members = || prop::collection::vec(inner.clone(), 2..4);
        prop_oneof![
            3 => members().prop_map(And),
            3 => members().prop_map(Or),
            2 => members().prop_map(Intersection),
            1 => inner.clone().prop_map(|member| Not(Box::new(member))),
        ]
    })
}

fn domain(data: &Data) -> Domain {
    let mut domain = Domain::new();
    domain.limits = Limits {
        select_comparisons: 100,
        ..Limits::default()
    };
    for (item, pairs) in data {
        domain.put(
            item,
            pairs
                .iter()
                .map(|(name, value)| (name.as_str(), value.as_str())),
        );
    }
    domain
}

/// All pages of a plan, joined.
fn read(domain: &Domain, statement: &Statement, choice: Choice, pace: &Stops) -> Vec<String> {
    let mut names = Vec::new();
    let mut next = Some(Position {
        choice,
        place: None,
    });
    while let Some(position) = &next {
        let position = Position::decode(position.encode().into()).unwrap();
        let wanted = PageRequest {
            view: &domain.view,
            collection: domain.context(&UnlimitedBudget).collection.unwrap(),
            selection: &statement.selection,
            output: &Output::Everything,
            items_max: statement.limit.unwrap(),
            bytes_max: 40,
            pace,
        };
        let page = wanted
            .page(Some(position))
            .unwrap()
            .expect("a position of this selection");
        assert!(page.items.len() <= wanted.items_max);
        names.extend(page.items.iter().map(|item| text(&item.name)));
        assert!(names.len() <= ITEMS_MAX, "an item is given twice");
        assert_ne!(next, page.next, "a page that comes no further");
        next = page.next;
    }
    names
}

/// Every choice of sources that the planner takes, and what the service chooses itself.
fn check(domain: &Domain, text: &str, expected: &[String], is_ordered: bool, every: usize) {
    let agree = |mut names: Vec<String>, how: &str| {
        if !is_ordered {
            names.sort();
        }
        assert_eq!(names, expected, "{text}, {how}");
    };
    let statement = Statement::parse(text, &domain.limits).unwrap();
    let planner = Planner::new(&statement.selection);
    let count = statement.selection.condition.predicates().len().min(6);
    let mut plans = 0;
    for chosen in 0_usize..1 << count {
        let sources = (0..count)
            .filter(|source| chosen & (1 << source) != 0)
            .collect::<Vec<_>>();
        for sorts in [false, true] {
            let choice = Choice {
                sorts,
                sources: sources.clone(),
            };
            if planner.plan(choice.clone()).is_some() {
                plans += 1;
                let names = read(domain, &statement, choice.clone(), &Stops::every(every));
                agree(names, &format!("{choice:?}"));
            }
        }
    }
    assert_ne!(plans, 0, "{text}");
    agree(domain.names(text, &Stops::every(every)).unwrap(), "chosen");
    let counting = text.replacen("select *", "select count(*)", 1);
    assert_eq!(
        domain.count(&counting, &Stops::every(every)),
        expected.len() as u64,
        "{text}"
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// It shows PLAN-1 and SCAN-1.
    #[test]
    fn all_plans_give_what_the_guide_says(
        data in data(),
        expression in expression(),
        limit in 1_usize..5,
        every in 1_usize..9,
    ) {
        let domain = domain(&data);
        let text = format!("select * from mydomain where {} limit {limit}", expression.print());
        let expected: Vec<String> =
            data.keys().filter(|item| expression.selects(item, &data)).cloned().collect();
        check(&domain, &text, &expected, false, every);
    }

    /// It shows SCAN-2.
    #[test]
    fn all_plans_give_the_same_order(
        data in data(),
        expression in expression(),
        required in proptest::option::of(operator()),
        by in prop::sample::select(vec![Key::ItemName, Key::Any("a".to_owned())]),
        is_descending in any::<bool>(),
        limit in 1_usize..5,
        every in 1_usize..9,
    ) {
        let domain = domain(&data);
        let on_it = Test(by.clone(), required.unwrap_or(Operator::NotNull));
        let expression = And(vec![expression, on_it]);
        let text = format!(
            "select * from mydomain where {} order by {} {} limit {limit}",
            expression.print(),
            by.print(),
            if is_descending { "desc" } else { "asc" },
        );
        let mut rows: Vec<(&str, String)> = data
            .keys()
            .filter(|item| expression.selects(item, &data))
            .filter_map(|item| {
                let value = expression.sort_value(&by, item, &data, is_descending)?;
                Some((value, item.clone()))
            })
            .collect();
        rows.sort();
        if is_descending {
            rows.reverse();
        }
        let expected: Vec<String> = rows.into_iter().map(|(_, item)| item).collect();
        check(&domain, &text, &expected, true, every);
    }

    /// Other items come, change and go between pages. It shows PAGE-1.
    #[test]
    fn items_that_do_not_change_are_neither_missed_nor_repeated(
        data in data(),
        expression in expression(),
        order in prop::sample::select(vec!["", "order by a", "order by itemName() desc"]),
        changes in prop::collection::vec(("w[xyz]", prop::collection::vec(pair(), 0..4)), 1..20),
        every in 1_usize..5,
    ) {
        let mut domain = domain(&data);
        let on_it = match order {
            "" => "",
            "order by a" => "and a > ''",
            _ => "and itemName() is not null",
        };
        let text = format!(
            "select itemName() from mydomain where ({}) {on_it} {order} limit 2",
            expression.print(),
        );
        let unchanged = domain.names(&text, &UnlimitedBudget).unwrap();
        let (mut names, mut token) = (Vec::new(), None);
        for (item, pairs) in changes.iter().cycle() {
            if pairs.is_empty() {
                domain.delete(item);
            } else {
                domain.put(item, pairs.iter().map(|(name, value)| (name.as_str(), value.as_str())));
            }
            let (items, next) = domain.select(&text, token, &Stops::every(every)).unwrap();
            names.extend(items.iter().map(|item| super::fixture::text(&item.name)));
            token = next;
            if token.is_none() {
                break;
            }
        }
        names.retain(|name| !name.starts_with('w'));
        if order.is_empty() {
            names.sort();
        }
        let mut expected = unchanged;
        if order.is_empty() {
            expected.sort();
        }
        prop_assert_eq!(names, expected, "{}", text);
    }
}
