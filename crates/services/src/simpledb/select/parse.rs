//! Reads a Select expression.
//!
//! ```text
//! select := SELECT output FROM name [WHERE expr] [ORDER BY field [ASC|DESC]] [LIMIT n]
//! output := '*' | count(*) | item {',' item}         item  := itemName() | name
//! expr   := union {INTERSECTION union}               union := group {OR group}
//! group  := unary {AND unary}                        unary := NOT unary | '(' expr ')' | test
//! test   := key (= != < <= > >=) value | key [NOT] LIKE value | key BETWEEN value AND value
//!         | key IN '(' value {',' value} ')' | key IS [NOT] NULL
//! key    := field | EVERY '(' name ')'               field := itemName() | name
//! ```
//!
//! AWS documents no precedence: ours is NOT, AND, OR, INTERSECTION. INTERSECTION comes last because
//! in the older Query language, whose meaning Select kept, it joined whole bracketed predicates.
//!
//! Invariants:
//! - GRAMMAR-1 recursion happens at `(` and NOT only, and [`Limits::expression_depth`], at most
//!   [`DEPTH_MAX`], bounds it; so the result may be walked and dropped recursively.

use std::collections::BTreeSet;

use super::lexer::{Cursor, Escape, Token, tokens};
use super::predicate::{Condition, Field, Formula, Pattern, Predicate, Test};
use super::statement::{Order, Output, Selection, Statement};
use crate::Direction;
use crate::simpledb::{Code, Error, Limits};

/// How deep an expression may nest with any configuration. A level takes a few kilobytes of stack,
/// and a thread has at least two megabytes.
const DEPTH_MAX: usize = 200;

const RESERVED: [&str; 18] = [
    "or",
    "and",
    "not",
    "from",
    "where",
    "select",
    "like",
    "null",
    "is",
    "order",
    "by",
    "asc",
    "desc",
    "in",
    "between",
    "intersection",
    "limit",
    "every",
];

/// Whether a name needs backticks because it means something else.
pub(crate) fn is_reserved(name: &str) -> bool {
    RESERVED.iter().any(|word| name.eq_ignore_ascii_case(word))
}

/// Reads a whole Select expression.
pub(crate) fn statement(text: &str, limits: &Limits) -> Result<Statement, Error> {
    let mut parser = Parser::new(text, Escape::Doubled, limits)?;
    let statement = parser.statement()?;
    check_counts(&statement.selection.condition, limits)?;
    Ok(statement)
}

/// The domain that a Select expression names, also if the rest of it is wrong.
pub(crate) fn domain(text: &str) -> Option<&str> {
    let mut cursor = Cursor::new(tokens(text, Escape::Doubled)?);
    while !cursor.word("from") {
        cursor.take()?;
    }
    match cursor.take()? {
        Token::Word(name) if !is_reserved(name) => Some(name),
        Token::Name(std::borrow::Cow::Borrowed(name)) => Some(name),
        _ => None,
    }
}

/// The refusal of an expression that is no expression.
pub(crate) fn invalid_expression() -> Error {
    Error::new(
        Code::InvalidQueryExpression,
        "The specified query expression syntax is not valid.",
    )
}

/// The refusal of a page size.
pub(crate) fn invalid_limit(value: impl std::fmt::Display, max: usize) -> Error {
    Error::new(
        Code::InvalidParameterValue,
        format!(
            "Value ({value}) for parameter MaxNumberOfItems is invalid. \
             MaxNumberOfItems must be between 1 and {max}."
        ),
    )
}

/// Refuses to give more attributes than allowed.
pub(crate) fn check_requested(names: usize, limits: &Limits) -> Result<(), Error> {
    if limits.requested_attributes < names {
        let code = Code::TooManyRequestedAttributes;
        return Err(Error::new(code, "Too many attributes requested."));
    }
    Ok(())
}

/// Refuses conditions with too many tests in a predicate, or about too many fields.
pub(crate) fn check_counts(condition: &Condition, limits: &Limits) -> Result<(), Error> {
    let predicates = condition.predicates();
    let is_large = |p: &&Predicate| limits.select_comparisons < p.formula.count();
    if predicates.iter().any(is_large) {
        return Err(Error::new(
            Code::InvalidNumberValueTests,
            "Too many value tests per predicate in the query expression.",
        ));
    }
    let fields: BTreeSet<_> = predicates
        .iter()
        .map(|predicate| &predicate.field)
        .collect();
    if limits.select_attributes < fields.len() {
        return Err(too_many_predicates());
    }
    Ok(())
}

fn too_many_predicates() -> Error {
    Error::new(
        Code::InvalidNumberPredicates,
        "Too many predicates in the query expression.",
    )
}

/// What both languages need while they read.
#[derive(Debug)]
pub(crate) struct Parser<'t> {
    pub(crate) cursor: Cursor<'t>,
    limits: &'t Limits,
    depth: usize,
    comparisons: usize,
}

impl<'t> Parser<'t> {
    /// Over the tokens of `text`.
    pub(crate) fn new(text: &'t str, escape: Escape, limits: &'t Limits) -> Result<Self, Error> {
        if limits.expression_bytes < text.len() {
            return Err(Error::new(
                Code::InvalidQueryExpression,
                format!(
                    "The specified query expression exceeds the maximum length of {}.",
                    limits.expression_bytes
                ),
            ));
        }
        let tokens = tokens(text, escape).ok_or_else(invalid_expression)?;
        Ok(Parser {
            cursor: Cursor::new(tokens),
            limits,
            depth: 0,
            comparisons: 0,
        })
    }

    /// Goes one level down; [`Parser::ascend`] comes back.
    pub(crate) fn descend(&mut self) -> Result<(), Error> {
        self.depth += 1;
        if self.depth <= self.limits.expression_depth.min(DEPTH_MAX) {
            Ok(())
        } else {
            Err(invalid_expression())
        }
    }

    /// Comes back from [`Parser::descend`].
    pub(crate) fn ascend(&mut self) {
        self.depth -= 1;
    }

    /// Counts a comparison.
    pub(crate) fn compare(&mut self) -> Result<(), Error> {
        self.comparisons += 1;
        if self.comparisons <= self.limits.select_comparisons {
            Ok(())
        } else {
            Err(too_many_predicates())
        }
    }

    /// The value that must come next.
    pub(crate) fn value(&mut self) -> Result<String, Error> {
        self.cursor
            .value()
            .map(Into::into)
            .ok_or_else(invalid_expression)
    }

    /// The symbol that must come next.
    pub(crate) fn expect(&mut self, symbol: &'static str) -> Result<(), Error> {
        self.cursor
            .symbol(symbol)
            .then_some(())
            .ok_or_else(invalid_expression)
    }

    /// The name of an attribute, if its size is that of one.
    pub(crate) fn attribute(&self, name: String) -> Result<String, Error> {
        if name.is_empty() {
            return Err(invalid_expression());
        }
        if self.limits.text_bytes < name.len() {
            return Err(Error::new(
                Code::InvalidParameterValue,
                format!(
                    "Value (\"{name}\") for parameter AttributeName is invalid. \
                     Value exceeds maximum length of {}.",
                    self.limits.text_bytes
                ),
            ));
        }
        Ok(name)
    }

    /// `=`, `!=`, `<`, `<=`, `>` or `>=` with its value, if one comes next.
    pub(crate) fn comparison(&mut self) -> Result<Option<Test>, Error> {
        type Operator = (&'static str, fn(String) -> Test);
        const OPERATORS: [Operator; 6] = [
            ("=", Test::Equal),
            ("!=", Test::NotEqual),
            ("<", Test::Less),
            ("<=", Test::LessOrEqual),
            (">", Test::Greater),
            (">=", Test::GreaterOrEqual),
        ];
        let operator = OPERATORS
            .into_iter()
            .find(|(symbol, _)| self.cursor.symbol(symbol));
        operator.map(|(_, test)| self.value().map(test)).transpose()
    }

    /// `asc` or `desc`, if one comes next.
    pub(crate) fn direction(&mut self) -> Direction {
        if self.cursor.word("desc") {
            return Direction::Backward;
        }
        self.cursor.word("asc");
        Direction::Forward
    }

    /// Nothing may be left.
    pub(crate) fn end(&mut self) -> Result<(), Error> {
        if self.cursor.peek().is_none() {
            Ok(())
        } else {
            Err(invalid_expression())
        }
    }

    fn keyword(&mut self, word: &str) -> Result<(), Error> {
        self.cursor
            .word(word)
            .then_some(())
            .ok_or_else(invalid_expression)
    }

    fn statement(&mut self) -> Result<Statement, Error> {
        self.keyword("select")?;
        let output = self.output()?;
        self.keyword("from")?;
        let domain = self.name()?;
        let condition = if self.cursor.word("where") {
            self.expression()?
        } else {
            Condition::EVERYTHING
        };
        let order = if self.cursor.word("order") {
            Some(self.order()?)
        } else {
            None
        };
        let limit = if self.cursor.word("limit") {
            Some(self.limit()?)
        } else {
            None
        };
        self.end()?;
        Ok(Statement {
            output,
            selection: Selection {
                domain,
                condition,
                order,
            },
            limit,
        })
    }

    fn output(&mut self) -> Result<Output, Error> {
        if self.cursor.symbol("*") {
            return Ok(Output::Everything);
        }
        let (mut names, mut bare_items) = (Vec::new(), false);
        loop {
            let name = self.name()?;
            if self.cursor.symbol("(") {
                if name.eq_ignore_ascii_case("count") && names.is_empty() && !bare_items {
                    self.expect("*")?;
                    self.expect(")")?;
                    return Ok(Output::Count);
                }
                self.expect_item_name(&name)?;
                bare_items = true;
            } else {
                names.push(self.attribute(name)?);
            }
            if !self.cursor.symbol(",") {
                break;
            }
        }
        check_requested(names.len(), self.limits)?;
        let is_bare = names.is_empty();
        Ok(if is_bare {
            Output::Names
        } else {
            Output::Attributes { names, bare_items }
        })
    }

    /// The rest of `itemName()` after its opening parenthesis.
    fn expect_item_name(&mut self, name: &str) -> Result<(), Error> {
        if !name.eq_ignore_ascii_case("itemName") {
            return Err(invalid_expression());
        }
        self.expect(")")
    }

    fn name(&mut self) -> Result<String, Error> {
        match self.cursor.take() {
            Some(Token::Word(word)) if !is_reserved(word) => Ok(word.to_owned()),
            Some(Token::Name(name)) if !name.is_empty() => Ok(name.into()),
            _ => Err(invalid_expression()),
        }
    }

    fn field(&mut self) -> Result<Field, Error> {
        let name = self.name()?;
        if self.cursor.symbol("(") {
            self.expect_item_name(&name)?;
            return Ok(Field::ItemName);
        }
        self.attribute(name).map(Field::Attribute)
    }

    fn order(&mut self) -> Result<Order, Error> {
        self.keyword("by")?;
        let field = self.field()?;
        Ok(Order {
            field,
            direction: self.direction(),
        })
    }

    fn limit(&mut self) -> Result<usize, Error> {
        let Some(Token::Number(digits)) = self.cursor.take() else {
            return Err(invalid_expression());
        };
        let limit = digits
            .parse()
            .ok()
            .filter(|limit| (1..=self.limits.page_items).contains(limit));
        limit.ok_or_else(|| invalid_limit(digits, self.limits.page_items))
    }

    fn expression(&mut self) -> Result<Condition, Error> {
        let mut operands = vec![self.union()?];
        while self.cursor.word("intersection") {
            operands.push(self.union()?);
        }
        Ok(Condition::intersection(operands))
    }

    fn union(&mut self) -> Result<Condition, Error> {
        let mut operands = vec![self.group()?];
        while self.cursor.word("or") {
            operands.push(self.group()?);
        }
        Ok(Condition::or(operands))
    }

    fn group(&mut self) -> Result<Condition, Error> {
        let mut operands = vec![self.unary()?];
        while self.cursor.word("and") {
            operands.push(self.unary()?);
        }
        Ok(Condition::and(operands))
    }

    fn unary(&mut self) -> Result<Condition, Error> {
        if self.cursor.word("not") {
            self.descend()?;
            let condition = Condition::Not(Box::new(self.unary()?));
            self.ascend();
            return Ok(condition);
        }
        if self.cursor.symbol("(") {
            self.descend()?;
            let condition = self.expression()?;
            self.ascend();
            self.expect(")")?;
            return Ok(condition);
        }
        self.test()
    }

    fn test(&mut self) -> Result<Condition, Error> {
        self.compare()?;
        let every = self.cursor.word("every");
        let field = if every {
            self.expect("(")?;
            let name = self.name()?;
            self.expect(")")?;
            Field::Attribute(self.attribute(name)?)
        } else {
            self.field()?
        };
        if self.cursor.word("is") {
            let negated = self.cursor.word("not");
            self.keyword("null")?;
            return Ok(if negated {
                Condition::not_null(field)
            } else {
                Condition::null(field)
            });
        }
        let formula = Formula::Test(self.value_test()?);
        Ok(Condition::Predicate(Predicate {
            field,
            every,
            formula,
        }))
    }

    fn value_test(&mut self) -> Result<Test, Error> {
        if let Some(test) = self.comparison()? {
            return Ok(test);
        }
        if self.cursor.word("between") {
            let low = self.value()?;
            self.keyword("and")?;
            return Ok(Test::Between(low, self.value()?));
        }
        if self.cursor.word("in") {
            return self.list().map(Test::In);
        }
        let negated = self.cursor.word("not");
        self.keyword("like")?;
        let pattern = pattern(&self.value()?)?;
        Ok(if negated {
            Test::NotLike(pattern)
        } else {
            Test::Like(pattern)
        })
    }

    fn list(&mut self) -> Result<Vec<String>, Error> {
        self.expect("(")?;
        let mut values = vec![self.value()?];
        while self.cursor.symbol(",") {
            values.push(self.value()?);
        }
        self.expect(")")?;
        Ok(values)
    }
}

/// Reads a pattern of LIKE: `%` at its start and end is open, `\%` is a percent sign, and nothing
/// else is special.
fn pattern(text: &str) -> Result<Pattern, Error> {
    let (open_start, rest) = match text.strip_prefix('%') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (open_end, rest) = match rest.strip_suffix('%') {
        Some(rest) if !rest.ends_with('\\') => (true, rest),
        _ => (false, rest),
    };
    let literal = rest.replace("\\%", "");
    if literal.contains('%') {
        return Err(invalid_expression());
    }
    Ok(Pattern {
        open_start,
        open_end,
        text: rest.replace("\\%", "%"),
    })
}
