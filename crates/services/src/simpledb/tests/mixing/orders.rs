//! Every order of arrival of a few writes, each strong or eventual. In any order the members end in
//! one state. It is that of the writes carried out one after the other in the order of their
//! stamps.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use fader_chain::{RequestId, Stamp};

use super::super::*;
use super::world::{Operation, World};

pub(super) type Pairs = BTreeSet<(String, String)>;

/// `texts` are a domain, an item, and writes such as `put a=1`. A line for each choice of which are
/// eventual: in how many orders they were carried out, and in which states that ended.
pub(super) fn run(world: &World, key: &Bytes, texts: &[&str]) -> String {
    let writes: Vec<Request> = texts[2..].iter().map(|text| parse(texts, text)).collect();
    let mut output = String::new();
    for choice in 0..1_u32 << writes.len() {
        let is_eventual = |at: usize| choice >> at & 1 == 1;
        let mut ends: BTreeMap<String, usize> = BTreeMap::new();
        for order in permutations(writes.len()) {
            let end = carry_out(world.clone(), key, &writes, &order, is_eventual);
            let shown: Vec<_> = end
                .iter()
                .map(|(name, value)| format!("{name}={value}"))
                .collect();
            *ends.entry(format!("{{{}}}", shown.join(" "))).or_default() += 1;
        }
        let kinds = (0..writes.len()).map(|at| if is_eventual(at) { "E" } else { "S" });
        let ends: Vec<_> = ends
            .iter()
            .map(|(end, count)| format!("{count} {end}"))
            .collect();
        output.push_str(&format!(
            "{}: {}\n",
            kinds.collect::<String>(),
            ends.join(", ")
        ));
    }
    output
}

fn parse(texts: &[&str], text: &str) -> Request {
    let mut words = text.split(' ');
    let verb = words.next().unwrap();
    let mut rest = vec![texts[0].to_owned(), texts[1].to_owned()];
    rest.extend(words.map(str::to_owned));
    super::parse(verb, &mut rest)
}

/// Eventual writes are stamped first, each at the next member, and arrive as `order` says; strong
/// ones are invoked as it says. One member learns of every operation before it is settled, one only
/// afterwards, and one applies nothing before the end.
fn carry_out(
    mut world: World,
    key: &Bytes,
    writes: &[Request],
    order: &[usize],
    is_eventual: impl Fn(usize) -> bool,
) -> Pairs {
    let name = |at: usize| RequestId {
        client: 2_u128.into(),
        seq: at as u64,
        part: 0,
    };
    let mut expected = pairs(&world, key);
    let mut operations: BTreeMap<usize, Operation> = BTreeMap::new();
    let mut stamped: Vec<(Stamp, usize)> = Vec::new();
    for at in (0..writes.len()).filter(|at| is_eventual(*at)) {
        let coordinator = at % 3;
        world.eventual(coordinator, name(at), &writes[at]).unwrap();
        let operation = world.members[coordinator].overlay[&name(at)].clone();
        stamped.push((operation.stamp, at));
        operations.insert(at, operation);
    }
    world.members[2].is_held = true;
    for at in order {
        match operations.get(at) {
            Some(operation) => {
                world.offer(0, name(*at), operation.clone());
                world.promote(name(*at), operation);
                world.offer(1, name(*at), operation.clone());
                world.offer(2, name(*at), operation.clone());
            }
            None => {
                let entry = world.strong(Some(name(*at)), &writes[*at]).entry;
                stamped.push((Stamp::strong(entry.unwrap()), *at));
            }
        }
    }
    world.catch_up(2);
    for member in &world.members {
        assert_eq!(member.view, world.newest, "members differ: {order:?}");
        assert!(member.overlay.is_empty(), "an operation is left: {order:?}");
    }
    let end = pairs(&world, key);
    stamped.sort();
    stamped
        .iter()
        .for_each(|(_, at)| one_after_the_other(&mut expected, &writes[*at]));
    assert_eq!(end, expected, "{order:?} of {stamped:?}");
    end
}

pub(super) fn pairs(world: &World, key: &Bytes) -> Pairs {
    let register = super::world::register(&world.newest, key);
    let pairs = register.pairs();
    pairs
        .map(|(name, value)| (lossy(name), lossy(value)))
        .collect()
}

/// What the write would do alone.
pub(super) fn one_after_the_other(pairs: &mut Pairs, write: &Request) {
    match write {
        Request::PutAttributes { put, .. } => {
            for attribute in put.attributes.iter().filter(|attribute| attribute.replace) {
                let name = attribute.name.as_ref().unwrap();
                pairs.retain(|(known, _)| known != name);
            }
            for attribute in &put.attributes {
                let (name, value) = (attribute.name.clone(), attribute.value.clone());
                pairs.insert((name.unwrap(), value.unwrap()));
            }
        }
        Request::DeleteAttributes { delete, .. } if delete.attributes.is_empty() => pairs.clear(),
        Request::DeleteAttributes { delete, .. } => {
            for attribute in &delete.attributes {
                let (name, value) = (attribute.name.as_ref().unwrap(), &attribute.value);
                pairs.retain(|(known, held)| {
                    known != name || value.as_ref().is_some_and(|value| value != held)
                });
            }
        }
        _ => unreachable!("puts and deletes only"),
    }
}

fn permutations(count: usize) -> Vec<Vec<usize>> {
    if count == 0 {
        return vec![Vec::new()];
    }
    let shorter = permutations(count - 1);
    let longer = shorter.into_iter().flat_map(|order| {
        (0..count).map(move |at| {
            let mut order = order.clone();
            order.insert(at, count - 1);
            order
        })
    });
    longer.collect()
}
