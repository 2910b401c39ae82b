//! Random requests against a model of SimpleDB that shares nothing with the service: sets.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

/// Names with their values, in order of first insertion.
type ModelItem = Vec<(String, BTreeSet<String>)>;

#[derive(Clone, Default)]
struct Model {
    domains: BTreeMap<String, BTreeMap<String, ModelItem>>,
}

fn pairs_of(items: &BTreeMap<String, ModelItem>) -> usize {
    items.values().map(item_pairs).sum()
}

fn item_pairs(item: &ModelItem) -> usize {
    item.iter().map(|(_, values)| values.len()).sum()
}

fn bytes_of(items: &BTreeMap<String, ModelItem>) -> usize {
    let attributes = || items.values().flatten();
    let names: BTreeSet<&String> = attributes().map(|(name, _)| name).collect();
    items.keys().map(String::len).sum::<usize>()
        + names.iter().map(|name| name.len()).sum::<usize>()
        + attributes()
            .flat_map(|(_, values)| values)
            .map(String::len)
            .sum::<usize>()
}

impl Model {
    fn run(&mut self, request: &Request, limits: &Limits) -> Result<(), Code> {
        match request {
            Request::CreateDomain { domain, .. } => {
                if !self.domains.contains_key(domain) {
                    if limits.domains_per_account <= self.domains.len() as u64 {
                        return Err(Code::NumberDomainsExceeded);
                    }
                    self.domains.insert(domain.clone(), BTreeMap::new());
                }
                Ok(())
            }
            Request::DeleteDomain { domain } => {
                self.domains.remove(domain);
                Ok(())
            }
            Request::PutAttributes {
                domain,
                put,
                expected,
            } => {
                let puts = std::slice::from_ref(put);
                let item = put.item.as_deref().unwrap();
                self.change(domain, limits, item, expected, |items| {
                    put_all(items, puts, limits)
                })
            }
            Request::BatchPutAttributes { domain, puts } => {
                let names: BTreeSet<_> = puts.iter().map(|put| &put.item).collect();
                if names.len() < puts.len() {
                    return Err(Code::DuplicateItemName);
                }
                self.change(domain, limits, "", &[], |items| {
                    put_all(items, puts, limits)
                })
            }
            Request::DeleteAttributes {
                domain,
                delete,
                expected,
            } => {
                let deletes = std::slice::from_ref(delete);
                let item = delete.item.as_deref().unwrap();
                self.change(domain, limits, item, expected, |items| {
                    delete_all(items, deletes)
                })
            }
            Request::BatchDeleteAttributes { domain, deletes } => {
                self.change(domain, limits, "", &[], |items| delete_all(items, deletes))
            }
            _ => unreachable!("the model is asked for writes only"),
        }
    }

    fn change(
        &mut self,
        domain: &str,
        limits: &Limits,
        item: &str,
        expected: &[Expected],
        change: impl FnOnce(&mut BTreeMap<String, ModelItem>) -> Result<(), Code>,
    ) -> Result<(), Code> {
        let before = self.domains.get_mut(domain).ok_or(Code::NoSuchDomain)?;
        for expected in expected {
            condition(before.get(item), expected)?;
        }
        let mut after = before.clone();
        change(&mut after)?;
        after
            .values_mut()
            .for_each(|item| item.retain(|(_, values)| !values.is_empty()));
        after.retain(|_, item| !item.is_empty());
        let exceeds = |before, after, limit: u64| limit < after as u64 && before < after;
        if exceeds(pairs_of(before), pairs_of(&after), limits.domain_pairs) {
            return Err(Code::NumberDomainAttributesExceeded);
        }
        if exceeds(bytes_of(before), bytes_of(&after), limits.domain_bytes) {
            return Err(Code::NumberDomainBytesExceeded);
        }
        *before = after;
        Ok(())
    }
}

fn condition(item: Option<&ModelItem>, expected: &Expected) -> Result<(), Code> {
    let name = expected.name.as_ref().unwrap();
    let values = item.and_then(|item| item.iter().find(|(known, _)| known == name));
    match (values, &expected.value) {
        (None, None) => Ok(()),
        (Some(_), None) => Err(Code::ConditionalCheckFailed),
        (None, Some(_)) => Err(Code::AttributeDoesNotExist),
        (Some((_, values)), Some(_)) if 1 < values.len() => Err(Code::MultiValuedAttribute),
        (Some((_, values)), Some(value)) if values.contains(value) => Ok(()),
        (Some(_), Some(_)) => Err(Code::ConditionalCheckFailed),
    }
}

fn put_all(
    items: &mut BTreeMap<String, ModelItem>,
    puts: &[ItemPut],
    limits: &Limits,
) -> Result<(), Code> {
    for put in puts {
        let item = items.entry(put.item.clone().unwrap()).or_default();
        let before = item_pairs(item);
        for attribute in put.attributes.iter().filter(|attribute| attribute.replace) {
            let name = attribute.name.as_ref().unwrap();
            item.iter_mut()
                .filter(|(known, _)| known == name)
                .for_each(|(_, old)| old.clear());
        }
        for attribute in &put.attributes {
            let (name, value) = (
                attribute.name.clone().unwrap(),
                attribute.value.clone().unwrap(),
            );
            match item.iter_mut().find(|(known, _)| *known == name) {
                Some((_, values)) => values.insert(value),
                None => {
                    item.push((name, BTreeSet::from([value])));
                    true
                }
            };
        }
        let after = item_pairs(item);
        if limits.item_pairs < after && before < after {
            return Err(Code::NumberItemAttributesExceeded);
        }
    }
    Ok(())
}

fn delete_all(items: &mut BTreeMap<String, ModelItem>, deletes: &[ItemDelete]) -> Result<(), Code> {
    for delete in deletes {
        let Some(item) = items.get_mut(delete.item.as_ref().unwrap()) else {
            continue;
        };
        if delete.attributes.is_empty() {
            item.clear();
        }
        for attribute in &delete.attributes {
            let name = attribute.name.as_ref().unwrap();
            for (_, values) in item.iter_mut().filter(|(known, _)| known == name) {
                values.retain(|value| attribute.value.as_ref().is_some_and(|gone| gone != value));
            }
        }
    }
    Ok(())
}

#[derive(Clone, Debug)]
enum Step {
    Run(Request),
    Sweep(usize),
}

fn one_of(texts: &'static [&'static str]) -> impl Strategy<Value = String> {
    prop::sample::select(texts).prop_map(str::to_owned)
}

fn domain() -> impl Strategy<Value = String> {
    one_of(&["books", "books", "books", "books", "films", "games"])
}

fn item() -> impl Strategy<Value = Option<String>> {
    one_of(&["i", "item", "\u{0}", "ü"]).prop_map(Some)
}

fn name() -> impl Strategy<Value = String> {
    one_of(&["a", "b", "a\u{0}", "colour"])
}

fn value() -> impl Strategy<Value = String> {
    one_of(&["", "1", "2", "\u{0}\u{1}", "blue"])
}

fn item_puts() -> impl Strategy<Value = ItemPut> {
    let attribute =
        (name(), value(), prop::bool::weighted(0.3)).prop_map(|(name, value, replace)| {
            AttributePut {
                name: Some(name),
                value: Some(value),
                replace,
            }
        });
    (item(), prop::collection::vec(attribute, 1..5))
        .prop_map(|(item, attributes)| ItemPut { item, attributes })
}

fn item_deletes() -> impl Strategy<Value = ItemDelete> {
    let attribute = (name(), prop::option::of(value())).prop_map(|(name, value)| AttributeDelete {
        name: Some(name),
        value,
    });
    (item(), prop::collection::vec(attribute, 0..4))
        .prop_map(|(item, attributes)| ItemDelete { item, attributes })
}

fn expectations() -> impl Strategy<Value = Vec<Expected>> {
    let expected = (name(), prop::option::of(value())).prop_map(|(name, value)| Expected {
        name: Some(name),
        exists: value.is_none().then_some(false),
        value,
    });
    prop::option::weighted(0.3, expected).prop_map(|expected| expected.into_iter().collect())
}

fn step() -> impl Strategy<Value = Step> {
    let request = prop_oneof![
        2 => domain().prop_map(|domain| create(&domain)),
        1 => domain().prop_map(|domain| Request::DeleteDomain { domain }),
        8 => (domain(), item_puts(), expectations()).prop_map(|(domain, put, expected)| {
            Request::PutAttributes { domain, put, expected }
        }),
        4 => (domain(), item_deletes(), expectations()).prop_map(|(domain, delete, expected)| {
            Request::DeleteAttributes { domain, delete, expected }
        }),
        4 => (domain(), prop::collection::vec(item_puts(), 1..4)).prop_map(|(domain, puts)| {
            Request::BatchPutAttributes { domain, puts }
        }),
        2 => (domain(), prop::collection::vec(item_deletes(), 1..4))
            .prop_map(|(domain, deletes)| Request::BatchDeleteAttributes { domain, deletes }),
    ];
    prop_oneof![20 => request.prop_map(Step::Run), 1 => (1..9_usize).prop_map(Step::Sweep)]
}

#[track_caller]
fn check_equal(service: &mut Service, model: &Model) {
    check_integrity(&service.view);
    let list = Request::ListDomains {
        max_count: None,
        next_token: None,
    };
    let Reply::Domains { names, .. } = service.run(&list).unwrap().reply else {
        panic!()
    };
    assert!(names.iter().eq(model.domains.keys()));
    for (domain, items) in &model.domains {
        let request = Request::DomainMetadata {
            domain: domain.clone(),
        };
        let Reply::Metadata(found) = service.run(&request).unwrap().reply else {
            panic!()
        };
        assert_eq!(found.item_count, items.len() as u64);
        assert_eq!(found.attribute_value_count, pairs_of(items) as u64);
        let bytes = [
            found.item_names_bytes,
            found.attribute_names_bytes,
            found.attribute_values_bytes,
        ];
        assert_eq!(bytes.iter().sum::<u64>(), bytes_of(items) as u64);
        for item in ["i", "item", "\u{0}", "ü"] {
            let request = Request::GetAttributes {
                domain: domain.clone(),
                item: item.to_owned(),
                names: Vec::new(),
                consistent: true,
            };
            let Reply::Attributes(found) = service.run(&request).unwrap().reply else {
                panic!()
            };
            let expected = items.get(item).into_iter().flatten();
            let expected = expected.flat_map(|(name, values)| {
                values
                    .iter()
                    .map(move |value| (name.as_bytes(), value.as_bytes()))
            });
            let found = found.iter().map(|pair| (&pair.name[..], &pair.value[..]));
            assert!(found.eq(expected), "{item} of {domain}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// It shows SDBWRITE-2.
    #[test]
    fn random_requests_do_what_the_model_does(
        steps in prop::collection::vec(step(), 1..60),
        batch in 1..20_usize,
    ) {
        let mut service = Service::new();
        service.limits.domains_per_account = 2;
        service.limits.item_pairs = 6;
        service.limits.domain_pairs = 14;
        service.limits.domain_bytes = 50;
        let mut model = Model::default();
        model.run(&create("books"), &service.limits).unwrap();
        service.run(&create("books")).unwrap();
        for step in &steps {
            match step {
                Step::Run(request) => {
                    let found = service.run(request).map(|answered| answered.reply);
                    let expected = model.run(request, &service.limits);
                    let found = found.map_err(|error| error.code);
                    prop_assert_eq!(found, expected.map(|()| Reply::Done), "{:?}", request);
                }
                Step::Sweep(batch) => {
                    service.sweep(*batch);
                }
            }
            check_equal(&mut service, &model);
        }
        for domain in model.domains.into_keys() {
            service.run(&Request::DeleteDomain { domain }).unwrap();
        }
        while 0 < service.sweep(batch) {}
        let is_left = |key: &[u8]| collection_of(key) != 0 || key[8] == b'g' || key[8] == b'd';
        prop_assert!(!service.view.iter().any(|(key, _)| is_left(key)));
    }
}
