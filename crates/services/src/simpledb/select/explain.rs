//! Says in words how a Select would be answered.

use super::index_scan::{FieldScan, IndexScan};
use super::plan::{PROBE_MAX, Planner};
use super::predicate::{Condition, Field, Value};
use super::range::{Range, Ranges};
use super::statement::{Order, Output, Selection, Statement};
use crate::simpledb::Limits;
use crate::{CollectionId, Direction, View, ViewError};

/// Ranges of one lane that are written out.
const RANGES_SHOWN: usize = 3;

/// Lines for what is read, what of it is kept, its order, and what a page holds.
pub(crate) fn lines(
    view: &dyn View,
    collection: CollectionId,
    statement: &Statement,
    limits: &Limits,
) -> Result<Vec<String>, ViewError> {
    let selection = &statement.selection;
    let plan = Planner::new(selection).choose(view, collection)?;
    let walk = plan.unsorted.as_ref().unwrap_or(&plan.order);
    let mut lines: Vec<String> = walk.lanes.iter().map(|lane| read(lane, walk)).collect();
    lines.push(match walk.count(view, collection, PROBE_MAX)? {
        Some(1) => "that is 1 entry".to_owned(),
        Some(entries) => format!("that is {entries} entries"),
        None => format!("that is more than {PROBE_MAX} entries"),
    });
    lines.extend(keep(selection, walk));
    lines.push(match &selection.order {
        None => "give them as read".to_owned(),
        Some(Order { field, direction }) => {
            let how = if plan.unsorted.is_some() {
                "sort them"
            } else {
                "give them as read:"
            };
            let down = if *direction == Direction::Backward {
                ", greatest first"
            } else {
                ""
            };
            format!("{how} by {field}{down}")
        }
    });
    lines.push(match (&statement.output, statement.limit) {
        (Output::Count, None) => "count them".to_owned(),
        (Output::Count, Some(limit)) => format!("count them, {limit} at most"),
        (_, limit) => {
            let items = limit.unwrap_or(limits.page_items_default);
            format!("end a page at {items} items or {} bytes", limits.page_bytes)
        }
    });
    Ok(lines)
}

fn read(lane: &FieldScan<'_>, walk: &IndexScan<'_>) -> String {
    let what = match lane.field {
        Field::ItemName => "read items".to_owned(),
        field @ Field::Attribute(_) => format!("read the index of {field}"),
    };
    let is_narrowed = *lane.field != Field::ItemName
        && lane.ranges.as_slice().iter().any(Range::is_point)
        && !walk.items.is_everything();
    let narrowed = if is_narrowed {
        format!(", of items {}", list(&walk.items))
    } else {
        String::new()
    };
    format!("{what}: {}{narrowed}", list(&lane.ranges))
}

fn list(ranges: &Ranges) -> String {
    if ranges.is_everything() {
        return "all".to_owned();
    }
    let ranges = ranges.as_slice();
    let shown: Vec<_> = ranges.iter().take(RANGES_SHOWN).map(range).collect();
    match ranges.len() - shown.len() {
        0 if shown.is_empty() => "none is possible".to_owned(),
        0 => shown.join(", "),
        more => format!("{}, and {more} more", shown.join(", ")),
    }
}

fn range(range: &Range) -> String {
    let text = |bytes: &[u8]| Value(&String::from_utf8_lossy(bytes)).to_string();
    if range.is_point() {
        return format!("= {}", text(&range.low));
    }
    let low = match range.low.as_slice() {
        [] => None,
        [value @ .., 0] => Some(format!("> {}", text(value))),
        value => Some(format!(">= {}", text(value))),
    };
    let high = range.high.as_deref().map(|high| match high {
        [value @ .., 0] => format!("<= {}", text(value)),
        value => format!("< {}", text(value)),
    });
    low.into_iter()
        .chain(high)
        .collect::<Vec<_>>()
        .join(" and ")
}

/// What the items that are read must satisfy besides: all conjuncts but the one of the walk.
fn keep(selection: &Selection, walk: &IndexScan<'_>) -> Vec<String> {
    let is_met = |conjunct: &Condition| match (conjunct, walk.lanes.as_slice()) {
        (Condition::Predicate(predicate), [lane]) => {
            !predicate.every
                && *lane.field == predicate.field
                && lane.formulas == [&predicate.formula]
        }
        _ => false,
    };
    let conjuncts = selection.condition.conjuncts().into_iter();
    let rest = conjuncts.filter(|conjunct| !is_met(conjunct));
    rest.map(|conjunct| format!("keep those where {conjunct}"))
        .collect()
}
