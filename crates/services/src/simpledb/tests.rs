//! Requests on a view in memory.

use fader_chain::{EntryId, Stamp};

use super::*;
use crate::{MapView, Unhurried, catalog};

/// A SimpleDB of one account, in memory.
struct Service {
    view: MapView,
    limits: Limits,
    account: AccountId,
    entries: u64,
}

impl Service {
    fn new() -> Self {
        Service {
            view: MapView::default(),
            limits: Limits::default(),
            account: AccountId("000000000001".to_owned()),
            entries: 0,
        }
    }

    fn with_domain() -> Self {
        let mut service = Service::new();
        service
            .run(&Request::CreateDomain {
                domain: "books".to_owned(),
            })
            .unwrap();
        service
    }

    fn context(&self, request: &Request) -> Context<'_> {
        let entry = request
            .domain()
            .and_then(|domain| catalog::domain(&self.view, &self.account, domain).unwrap());
        Context {
            account: &self.account,
            collection: entry.map(|entry| entry.collection),
            now_ms: 1_317_975_502_999,
            limits: &self.limits,
            pace: &Unhurried,
        }
    }

    fn apply(&mut self, changes: &[fader_chain::Change]) {
        self.entries += 1;
        let stamp = Stamp::strong(EntryId::new(1, self.entries));
        self.view.apply(changes, stamp, stamp).unwrap();
    }

    fn run(&mut self, request: &Request) -> Result<Answered, Error> {
        if !request.is_write() {
            return answer(&self.view, &self.context(request), request);
        }
        let Decision { outcome, changes } = decide(&self.view, &self.context(request), request);
        assert!(
            outcome.is_ok() || changes.is_empty(),
            "a refusal changes nothing"
        );
        self.apply(&changes);
        outcome
    }
}

#[test]
fn puts_and_gets() {
    let mut service = Service::with_domain();
    let attribute = |name: &str, value: &str| AttributePut {
        name: Some(name.to_owned()),
        value: Some(value.to_owned()),
        replace: false,
    };
    let put = ItemPut {
        item: Some("item".to_owned()),
        attributes: vec![
            attribute("b", "2"),
            attribute("a", "1"),
            attribute("b", "1"),
        ],
    };
    let domain = "books".to_owned();
    let request = Request::PutAttributes {
        domain: domain.clone(),
        put,
        expected: vec![],
    };
    service.run(&request).unwrap();
    let request = Request::GetAttributes {
        domain,
        item: "item".to_owned(),
        names: vec![],
        consistent: true,
    };
    let pair = |name: &'static str, value: &'static str| Attribute {
        name: name.into(),
        value: value.into(),
    };
    assert_eq!(
        service.run(&request).unwrap().reply,
        Reply::Attributes(vec![pair("b", "1"), pair("b", "2"), pair("a", "1")])
    );
}
