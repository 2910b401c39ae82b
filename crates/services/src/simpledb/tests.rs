//! SimpleDB on a view in memory: the service that tests send requests to, and how they write them.

mod mixing;
mod model;
mod parameters;
mod script;

use fader_chain::{ApplyContext, Change, EntryId, Register};

use super::*;
use crate::catalog::AccountId;
use crate::{CollectionId, MapView, Mode, catalog};

/// A SimpleDB of one account, in memory.
pub(crate) struct Service {
    /// All its data.
    pub(crate) view: MapView,
    /// The limits in force.
    pub(crate) limits: Limits,
    account: AccountId,
    entries: u64,
}

impl Service {
    /// Without domains.
    pub(crate) fn new() -> Self {
        Service {
            view: MapView::default(),
            limits: Limits::default(),
            account: AccountId("000000000001".to_owned()),
            entries: 0,
        }
    }

    /// With an empty domain called `books`.
    pub(crate) fn with_domain() -> Self {
        let mut service = Service::new();
        service.run(&create("books")).unwrap();
        service
    }

    /// What a request is decided or answered in.
    pub(crate) fn context(&self, request: &Request) -> Context<'_> {
        let entry = request
            .domain()
            .and_then(|domain| catalog::domain(&self.view, &self.account, domain).unwrap());
        Context {
            collection: entry.as_ref().map(|entry| entry.collection),
            mode: entry.map(|entry| entry.mode).unwrap_or_default(),
            now_ms: 1_317_975_502_999,
            ..Context::new(&self.account, &self.limits)
        }
    }

    /// Carries out a request.
    pub(crate) fn run(&mut self, request: &Request) -> Result<CostedReply, Error> {
        self.run_with_changes(request).0
    }

    fn run_with_changes(&mut self, request: &Request) -> (Result<CostedReply, Error>, Vec<Change>) {
        if !request.is_write() {
            return (
                answer(&self.view, &self.context(request), request),
                Vec::new(),
            );
        }
        let decision = decide(&self.view, &self.context(request), request);
        let Decision { outcome, changes } = decision;
        assert!(
            outcome.is_ok() || changes.is_empty(),
            "a refusal changes nothing"
        );
        self.apply(&changes);
        (outcome, changes)
    }

    /// Sweeps once; how many keys went.
    fn sweep(&mut self, batch: usize) -> usize {
        let changes = catalog::purge(&self.view, batch).unwrap();
        assert!(changes.len() <= batch);
        self.apply(&changes);
        changes.len()
    }

    fn apply(&mut self, changes: &[Change]) {
        self.entries += 1;
        let under = ApplyContext::strong(EntryId::new(1, self.entries));
        self.view.apply(changes, &under).unwrap();
    }
}

/// CreateDomain.
pub(crate) fn create(domain: &str) -> Request {
    Request::CreateDomain {
        domain: domain.to_owned(),
        mode: None,
        preference: None,
    }
}

/// PutAttributes into `books`. An attribute is written `name=value`, or `name@=value` to replace.
pub(crate) fn put(item: &str, attributes: &[&str]) -> Request {
    Request::PutAttributes {
        domain: "books".to_owned(),
        put: item_put(item, attributes),
        expected: Vec::new(),
    }
}

/// An item to put, its attributes written as for [`put`].
fn item_put(item: &str, attributes: &[&str]) -> ItemPut {
    let parse = |text: &&str| {
        let (name, value) = text.split_once('=').expect("name=value");
        AttributePut {
            name: Some(name.trim_end_matches('@').to_owned()),
            value: Some(value.to_owned()),
            replace: name.ends_with('@'),
        }
    };
    ItemPut {
        item: Some(item.to_owned()),
        attributes: attributes.iter().map(parse).collect(),
    }
}

/// An item to delete from: attributes are written `name=value` or `name`; none for the whole item.
fn item_delete(item: &str, attributes: &[&str]) -> ItemDelete {
    let parse = |text: &&str| {
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (*text, None),
        };
        AttributeDelete {
            name: Some(name.to_owned()),
            value,
        }
    };
    ItemDelete {
        item: Some(item.to_owned()),
        attributes: attributes.iter().map(parse).collect(),
    }
}

/// A register in words, for what a test shows.
fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Counts everything again, and sees that no mark is at rest: the domains are strong.
#[track_caller]
fn check_integrity(view: &MapView) {
    check_derived(view);
    for (key, value) in view.iter().filter(|(key, _)| key[8] == b'i') {
        let collection = crate::CollectionId(collection_of(key));
        if !counters::is_alive(view, collection).unwrap() {
            continue;
        }
        let register = Register::decode(value.clone()).unwrap();
        assert!(!register.is_empty(), "an item without pairs is kept");
        assert_eq!(register.mark_count(), 0, "a mark is kept");
    }
}

/// Counts everything again from the registers, and compares (KEY-2, DOMAIN-1).
#[track_caller]
fn check_derived(view: &MapView) {
    use std::collections::BTreeMap;
    let mut expected = MapView::default();
    let mut counted: BTreeMap<u64, (counters::Counters, BTreeMap<Vec<u8>, u64>)> = BTreeMap::new();
    let alive = view
        .iter()
        .filter(|(key, _)| key[8] == b'm')
        .map(|(key, _)| collection_of(key));
    counted.extend(alive.map(|collection| (collection, Default::default())));
    let mut changes = Vec::new();
    for (key, value) in view.iter().filter(|(key, _)| key[8] == b'i') {
        let Some((counters, names)) = counted.get_mut(&collection_of(key)) else {
            continue;
        };
        let collection = crate::CollectionId(collection_of(key));
        let (item, register) = (&key[9..], Register::decode(value.clone()).unwrap());
        if register.is_empty() {
            continue;
        }
        counters.item_count += 1;
        counters.item_names_bytes += item.len() as u64;
        for (name, value) in register.pairs() {
            counters.attribute_value_count += 1;
            counters.attribute_values_bytes += value.len() as u64;
            *names.entry(name.to_vec()).or_default() += 1;
            let key = crate::index_key(collection, name, value, item);
            changes.push(Change::Put {
                key,
                value: Default::default(),
            });
        }
    }
    for (collection, (mut counters, names)) in counted.clone() {
        let collection = crate::CollectionId(collection);
        counters.attribute_name_count = names.len() as u64;
        counters.attribute_names_bytes = names.keys().map(|name| name.len() as u64).sum();
        changes.push(counters.put(collection));
        let put = |(name, pairs)| counters::put_attribute_pairs(collection, name, pairs);
        changes.extend(
            names
                .iter()
                .map(|(name, pairs)| (name.as_slice(), *pairs))
                .map(put),
        );
    }
    let under = ApplyContext::strong(EntryId::ZERO);
    expected.apply(&changes, &under).unwrap();
    let is_derived =
        |key: &[u8]| b"xam".contains(&key[8]) && counted.contains_key(&collection_of(key));
    let found: Vec<_> = view.iter().filter(|(key, _)| is_derived(key)).collect();
    assert_eq!(found, expected.iter().collect::<Vec<_>>());
}

fn collection_of(key: &[u8]) -> u64 {
    u64::from_be_bytes(key[..8].try_into().expect("eight bytes"))
}
