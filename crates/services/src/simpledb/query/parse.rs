//! Reads a Query expression into the selection that Select would make of it.
//!
//! ```text
//! query     := [[NOT] predicate {(UNION|INTERSECTION) [NOT] predicate} [SORT value [ASC|DESC]]]
//! predicate := '[' tests {OR tests} ']'               tests := test {AND test}
//! test      := value (= != < <= > >= starts-with does-not-start-with) value
//! ```
//!
//! All tests of a predicate are about one attribute. Set operators have no precedence: the
//! expression is evaluated from left to right. A sort must be by an attribute of one of the
//! predicates, and goes with intersections only.

use crate::simpledb::select::{
    Condition, Escape, Field, Formula, Order, Parser, Pattern, Predicate, Selection, Test,
    check_counts, check_sort, invalid_expression, invalid_sort,
};
use crate::simpledb::{Error, Limits};

/// Reads `expression` about `domain`; an empty one selects all items.
pub(crate) fn selection(
    domain: &str,
    expression: &str,
    limits: &Limits,
) -> Result<Selection, Error> {
    let mut parser = Parser::new(expression, Escape::Backslash, limits)?;
    if parser.cursor.peek().is_none() {
        let condition = Condition::EVERYTHING;
        return Ok(Selection {
            domain: domain.to_owned(),
            condition,
            order: None,
        });
    }
    let mut is_sortable = true;
    let mut condition = member(&mut parser, &mut is_sortable)?;
    loop {
        if parser.cursor.word("union") {
            is_sortable = false;
            parser.descend()?;
            condition = Condition::or(vec![condition, member(&mut parser, &mut is_sortable)?]);
        } else if parser.cursor.word("intersection") {
            parser.descend()?;
            let member = member(&mut parser, &mut is_sortable)?;
            condition = Condition::intersection(vec![condition, member]);
        } else {
            break;
        }
    }
    let order = if parser.cursor.word("sort") {
        Some(order(&mut parser)?)
    } else {
        None
    };
    parser.end()?;
    if order.is_some() && !is_sortable {
        return Err(invalid_sort());
    }
    let selection = Selection {
        domain: domain.to_owned(),
        condition,
        order,
    };
    check_counts(&selection.condition, limits)?;
    check_sort(&selection)?;
    Ok(selection)
}

/// A predicate or its complement, which cannot be sorted.
fn member(parser: &mut Parser<'_>, is_sortable: &mut bool) -> Result<Condition, Error> {
    if parser.cursor.word("not") {
        *is_sortable = false;
        return Ok(Condition::Not(Box::new(predicate(parser)?)));
    }
    predicate(parser)
}

fn predicate(parser: &mut Parser<'_>) -> Result<Condition, Error> {
    parser.expect("[")?;
    let mut tests = vec![conjunction(parser)?];
    while parser.cursor.word("or") {
        tests.push(conjunction(parser)?);
    }
    parser.expect("]")?;
    match Condition::or(tests) {
        predicate @ Condition::Predicate(_) => Ok(predicate),
        _ => Err(invalid_expression()),
    }
}

fn conjunction(parser: &mut Parser<'_>) -> Result<Condition, Error> {
    let mut tests = vec![test(parser)?];
    while parser.cursor.word("and") {
        tests.push(test(parser)?);
    }
    Ok(Condition::and(tests))
}

fn test(parser: &mut Parser<'_>) -> Result<Condition, Error> {
    parser.compare()?;
    let field = attribute(parser)?;
    let test = match parser.comparison()? {
        Some(test) => test,
        None if parser.cursor.word("starts") => {
            words(parser, &["with"])?;
            Test::Like(prefix(parser.value()?))
        }
        None if parser.cursor.word("does") => {
            words(parser, &["not", "start", "with"])?;
            Test::NotLike(prefix(parser.value()?))
        }
        None => return Err(invalid_expression()),
    };
    let formula = Formula::Test(test);
    Ok(Condition::Predicate(Predicate {
        field,
        every: false,
        formula,
    }))
}

fn attribute(parser: &mut Parser<'_>) -> Result<Field, Error> {
    let name = parser.value()?;
    parser.attribute(name).map(Field::Attribute)
}

/// The rest of an operator of several words.
fn words(parser: &mut Parser<'_>, words: &[&str]) -> Result<(), Error> {
    for word in words {
        parser.expect("-")?;
        if !parser.cursor.word(word) {
            return Err(invalid_expression());
        }
    }
    Ok(())
}

fn prefix(text: String) -> Pattern {
    Pattern {
        open_start: false,
        open_end: true,
        text,
    }
}

fn order(parser: &mut Parser<'_>) -> Result<Order, Error> {
    let field = attribute(parser)?;
    let direction = parser.direction();
    Ok(Order { field, direction })
}
