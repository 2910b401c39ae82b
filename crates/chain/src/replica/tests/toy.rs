//! A service of a few commands on registers with one group, and its store.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use bytes::Bytes;

use crate::*;

/// A request as the toy service understands it: registers with one group and one value.
#[derive(Clone, Debug)]
pub(super) enum Command {
    /// Replaces the value.
    Put { key: Bytes, value: Bytes },
    /// Removes the value.
    Delete { key: Bytes },
    /// Replaces the value if it is `old` (`none` for absent).
    Cas {
        key: Bytes,
        old: Bytes,
        value: Bytes,
    },
    /// Moves the value of one register to another, if the first has one and the second none.
    Move { from: Bytes, to: Bytes },
    /// Adds a value beside those that are there.
    Add { key: Bytes, value: Bytes },
    /// Removes one value.
    Remove { key: Bytes, value: Bytes },
    /// Replaces the value, and adds another one.
    PutAdd {
        key: Bytes,
        value: Bytes,
        other: Bytes,
    },
    /// Replaces the values of several registers.
    Puts(Vec<(Bytes, Bytes)>),
    /// Gives the collection that these eight bytes name another mode.
    Turn {
        collection: u64,
        mode: Mode,
        is_abandoned: bool,
    },
}

impl Command {
    /// What it does in any state; nothing for a condition.
    pub(super) fn writes(&self) -> Vec<(Bytes, Vec<ElementOp>)> {
        let group = Bytes::from_static(b"v");
        let add = |value: &Bytes| ElementOp::Add {
            group: group.clone(),
            value: value.clone(),
        };
        match self {
            Command::Put { key, value } => vec![(key.clone(), replace(Some(value)))],
            Command::Delete { key } => vec![(key.clone(), replace(None))],
            Command::Add { key, value } => vec![(key.clone(), vec![add(value)])],
            Command::Remove { key, value } => {
                let value = value.clone();
                vec![(key.clone(), vec![ElementOp::Remove { group, value }])]
            }
            Command::PutAdd { key, value, other } => {
                let mut ops = replace(Some(value));
                ops.push(add(other));
                vec![(key.clone(), ops)]
            }
            Command::Puts(pairs) => {
                let pairs = pairs.iter();
                let puts = pairs.map(|(key, value)| (key.clone(), replace(Some(value))));
                puts.collect()
            }
            Command::Cas { .. } | Command::Move { .. } | Command::Turn { .. } => Vec::new(),
        }
    }
}

/// A member's engine.
#[derive(Clone, Debug, Default)]
pub(super) struct Store {
    pub(super) rows: BTreeMap<Bytes, Bytes>,
    pub(super) applied: EntryId,
    pub(super) filling: bool,
}

impl Store {
    pub(super) fn apply(&mut self, id: EntryId, mutations: &[Mutation]) {
        for mutation in mutations {
            let key = &mutation.key;
            match &mutation.value {
                Some(value) => drop(self.rows.insert(key.clone(), value.clone())),
                None => drop(self.rows.remove(key)),
            }
        }
        self.applied = id;
    }
}

impl View for Store {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, ViewError> {
        View::get(&self.rows, key)
    }

    fn scan(&self, start: &[u8], end: &[u8], direction: Direction) -> Scan<'_> {
        self.rows.scan(start, end, direction)
    }
}

/// The toy service over a store.
#[derive(Debug, Default)]
pub(super) struct ToyHost {
    pub(super) store: Store,
    pub(super) requests: RefCell<BTreeMap<CorrelationId, Command>>,
    pub(super) fixed: Option<Store>,
    /// How often the fixed state was looked at.
    pub(super) looks: Cell<usize>,
}

/// The values of a register, joined by `+`; `none` when there are none.
pub(super) fn shown(view: &dyn View, key: &Bytes) -> String {
    let register = view
        .get(key)
        .unwrap()
        .map(|bytes| Register::decode(bytes).unwrap());
    let register = register.unwrap_or_default();
    let values: Vec<_> = register
        .pairs()
        .map(|(_, value)| String::from_utf8_lossy(value).into_owned())
        .collect();
    match values.is_empty() {
        true => "none".to_owned(),
        false => values.join("+"),
    }
}

/// The registers of `scope` that have values; `k` to `n` if it names none.
pub(super) fn show_items(view: &dyn View, scope: Option<&Scope>) -> String {
    let keys = match scope {
        Some(Scope::Keys(keys)) => keys.clone(),
        _ => [&b"k"[..], b"l", b"m", b"n"]
            .map(Bytes::from_static)
            .to_vec(),
    };
    let items = keys.iter().map(|key| (key, shown(view, key)));
    let items = items.filter(|(_, value)| value != "none");
    let items = items.map(|(key, value)| format!("{}={value}", String::from_utf8_lossy(key)));
    items.collect::<Vec<_>>().join(" ")
}

/// A name as scripts write it.
pub(super) fn show_name(name: &RequestId) -> String {
    let owner = match name.client.owner {
        0 => String::new(),
        owner => format!("{owner}@"),
    };
    match name.part {
        0 => format!("{owner}{}/{}", name.client.id, name.seq),
        part => format!("{owner}{}/{}/{part}", name.client.id, name.seq),
    }
}

pub(super) fn show_stamp(stamp: Stamp) -> String {
    let Stamp {
        base,
        clock,
        node,
        counter,
    } = stamp;
    format!("{base}+{clock}.{node}.{counter}")
}

pub(super) fn show(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Applied => "applied".to_owned(),
        Outcome::Superseded => "superseded".to_owned(),
        Outcome::Refused(reason) => format!("refused, {}", String::from_utf8_lossy(reason)),
        Outcome::Gone => "gone".to_owned(),
    }
}

/// Element operations that put one value in place of all others, or remove all.
pub(super) fn replace(value: Option<&Bytes>) -> Vec<ElementOp> {
    let group = Bytes::from_static(b"v");
    let mut ops = vec![ElementOp::Clear {
        group: group.clone(),
    }];
    if let Some(value) = value {
        ops.push(ElementOp::Add {
            group,
            value: value.clone(),
        });
    }
    ops
}

pub(super) fn merge(key: &Bytes, ops: Vec<ElementOp>) -> Change {
    Change::Merge {
        key: key.clone(),
        ops,
        marks: TombstonePolicy::Kept,
    }
}

/// The collection of a key that is long enough to name one.
pub(super) fn collection(key: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(*key.first_chunk()?))
}

/// The mode of a key's collection; what is in none is mixed.
fn mode(state: &dyn View, key: &[u8]) -> Mode {
    collection(key).map_or(Mode::Mixed, |collection| {
        ModeState::of(state, collection).unwrap().mode
    })
}

/// A merge as the collection's mode has it.
fn merge_in(state: &dyn View, key: &Bytes, ops: Vec<ElementOp>) -> Change {
    let marks = match mode(state, key).keeps_marks() {
        true => TombstonePolicy::Kept,
        false => TombstonePolicy::Dropped,
    };
    let key = key.clone();
    Change::Merge { key, ops, marks }
}

impl Host for ToyHost {
    fn committed(&self) -> &dyn View {
        &self.store
    }

    fn decide(&self, token: CorrelationId, newest: &dyn View) -> Result<Decided, ViewError> {
        let requests = self.requests.borrow();
        let (changes, result) = match &requests[&token] {
            Command::Cas { key, old, value } => {
                let found = shown(newest, key);
                match found.as_bytes() == old {
                    true => (vec![merge(key, replace(Some(value)))], "yes".into()),
                    false => (Vec::new(), format!("no, it is {found}")),
                }
            }
            Command::Move { from, to } => match (shown(newest, from), shown(newest, to)) {
                (value, absent) if value != "none" && absent == "none" => {
                    let value = Bytes::from(value);
                    let changes =
                        vec![merge(from, replace(None)), merge(to, replace(Some(&value)))];
                    (changes, "moved".into())
                }
                _ => (Vec::new(), "not moved".into()),
            },
            Command::Turn {
                collection,
                mode,
                is_abandoned,
            } => {
                let mode = match (mode, ModeState::of(newest, *collection)?.mode) {
                    (Mode::Strong, Mode::Draining) => Mode::Drained,
                    (mode, _) => *mode,
                };
                let turn = Change::set_mode(*collection, mode, *is_abandoned);
                (vec![turn], "turned".into())
            }
            unconditional => {
                let writes = unconditional.writes().into_iter();
                let changes = writes
                    .map(|(key, ops)| merge_in(newest, &key, ops))
                    .collect();
                (changes, "ok".into())
            }
        };
        Ok(Decided {
            result: Bytes::from(result),
            changes,
            depends_on_state: true,
        })
    }

    fn accept(
        &self,
        token: CorrelationId,
        tentative: &dyn View,
    ) -> Result<Option<Vec<Accepted>>, ViewError> {
        let writes = self.requests.borrow()[&token].writes().into_iter();
        let writes = writes.filter(|(key, _)| mode(tentative, key).takes_eventual());
        let accepted: Vec<_> = writes.map(|(key, ops)| Accepted { key, ops }).collect();
        Ok(Some(accepted).filter(|accepted| !accepted.is_empty()))
    }

    /// A register takes at most two values.
    fn settle(&self, operation: &Operation, newest: &dyn View) -> Result<Settled, ViewError> {
        let register = newest.get(&operation.key)?;
        let mut register = register.map_or(Ok(Register::default()), Register::decode)?;
        let before = register.pairs().count();
        register.merge(&operation.ops, operation.stamp);
        let after = register.pairs().count();
        if 2 < after && before < after {
            return Ok(Settled::Refused(Bytes::from_static(b"limit")));
        }
        Ok(Settled::Apply(vec![merge(
            &operation.key,
            operation.ops.clone(),
        )]))
    }

    fn fix(&mut self) {
        self.fixed = Some(self.store.clone());
    }

    fn fixed(&self) -> Option<(EntryId, &dyn View)> {
        let fixed = self.fixed.as_ref()?;
        self.looks.set(self.looks.get() + 1);
        Some((fixed.applied, fixed))
    }

    fn unfix(&mut self) {
        self.fixed = None;
    }
}
