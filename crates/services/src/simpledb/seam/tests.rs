//! What a node is told of SimpleDB's requests is what their decisions and answers do.

use std::cell::RefCell;

use fader_chain::{ApplyContext, EntryId, RequestId};

use super::*;
use crate::catalog::{self, AccountId};
use crate::request::{self, Refusal, ServiceName};
use crate::simpledb::{BoxUsage, ItemDelete, ItemPut};
use crate::{Direction, MapView, Reason, Scan};

const DOMAIN: &str = "carts";

fn account() -> AccountId {
    AccountId("000000000001".to_owned())
}

/// A view that notes which keys are looked at.
struct Noting<'a> {
    view: &'a MapView,
    seen: RefCell<Vec<Bytes>>,
    scans: RefCell<usize>,
}

impl View for Noting<'_> {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, ViewError> {
        self.seen.borrow_mut().push(Bytes::copy_from_slice(key));
        self.view.get(key)
    }

    fn scan(&self, start: &[u8], end: &[u8], direction: Direction) -> Scan<'_> {
        *self.scans.borrow_mut() += 1;
        self.view.scan(start, end, direction)
    }
}

fn context<'a>(
    account: &'a AccountId,
    collection: Option<CollectionId>,
    limits: &'a Limits,
) -> Context<'a> {
    Context {
        collection,
        now_ms: 1,
        ..Context::new(account, limits)
    }
}

fn with_domain() -> (MapView, CollectionId) {
    let mut view = MapView::default();
    let (account, limits) = (account(), Limits::default());
    let create = Request::CreateDomain {
        domain: DOMAIN.to_owned(),
        mode: None,
        preference: None,
    };
    let decision = SimpleDb::decide(&view, &context(&account, None, &limits), &create).unwrap();
    decision.outcome.unwrap();
    let under = ApplyContext::strong(EntryId::new(1, 1));
    view.apply(&decision.changes, &under).unwrap();
    let entry = catalog::domain(&view, &account, DOMAIN).unwrap().unwrap();
    (view, entry.collection)
}

fn domain() -> String {
    DOMAIN.to_owned()
}

fn writes() -> Vec<Request> {
    let put = || ItemPut {
        item: Some("i".to_owned()),
        attributes: vec![AttributePut {
            name: Some("n".to_owned()),
            value: Some("v".to_owned()),
            replace: false,
        }],
    };
    let delete = || ItemDelete {
        item: Some("i".to_owned()),
        attributes: Vec::new(),
    };
    let expected = vec![Expected {
        name: Some("n".to_owned()),
        value: Some("v".to_owned()),
        exists: None,
    }];
    let put_if = |expected| Request::PutAttributes {
        domain: domain(),
        put: put(),
        expected,
    };
    vec![
        Request::CreateDomain {
            domain: domain(),
            mode: Some(Mode::Mixed),
            preference: None,
        },
        Request::DeleteDomain { domain: domain() },
        put_if(Vec::new()),
        put_if(expected),
        Request::BatchPutAttributes {
            domain: domain(),
            puts: vec![put()],
        },
        Request::DeleteAttributes {
            domain: domain(),
            delete: delete(),
            expected: Vec::new(),
        },
        Request::BatchDeleteAttributes {
            domain: domain(),
            deletes: vec![delete()],
        },
    ]
}

fn reads() -> Vec<Request> {
    vec![
        Request::ListDomains {
            max_count: None,
            next_token: None,
        },
        Request::DomainMetadata { domain: domain() },
        Request::GetAttributes {
            domain: domain(),
            item: "i".to_owned(),
            names: Vec::new(),
            consistent: false,
        },
        Request::Select {
            expression: format!("select * from {DOMAIN}"),
            next_token: None,
            consistent: false,
        },
        Request::ExplainSelect {
            expression: format!("select * from {DOMAIN}"),
        },
        Request::Query {
            domain: domain(),
            expression: None,
            max_count: None,
            next_token: None,
            attributes: None,
        },
    ]
}

fn requests() -> Vec<Request> {
    [writes(), reads()].concat()
}

#[test]
fn a_keyed_read_looks_at_what_it_says_and_nothing_else() {
    let (view, collection) = with_domain();
    let (account, limits) = (account(), Limits::default());
    for request in requests() {
        let class = SimpleDb::class(&request);
        assert_eq!(class.is_write(), request.is_write(), "{request:?}");
        if class != Class::Keyed {
            continue;
        }
        let noting = Noting {
            view: &view,
            seen: RefCell::default(),
            scans: RefCell::default(),
        };
        let context = context(&account, Some(collection), &limits);
        SimpleDb::answer(&noting, &context, &request).unwrap();
        assert_eq!(noting.scans.into_inner(), 0, "{request:?}");
        let mut sight = match SimpleDb::sight(&request, collection) {
            Sight::Register(key) => vec![key],
            Sight::Rows(keys) => keys,
            Sight::Registers(..) => panic!("a range is no key: {request:?}"),
        };
        // Whether the domain is there, every request asks.
        sight.push(counters::metadata_key(collection));
        for key in noting.seen.into_inner() {
            assert!(sight.contains(&key), "{request:?} looks at {key:?}");
        }
    }
}

#[test]
fn a_request_names_its_domain_and_what_it_does_to_it() {
    for request in requests() {
        let target = SimpleDb::target(&request);
        match &request {
            Request::ListDomains { .. } => assert_eq!(target, Target::System),
            Request::CreateDomain { .. } => assert_eq!(
                target,
                Target::Create {
                    kind: Kind::Domain,
                    name: DOMAIN,
                    plain: false
                }
            ),
            Request::DeleteDomain { .. } => {
                assert_eq!(target, Target::Delete(Kind::Domain, DOMAIN));
            }
            _ => assert_eq!(target, Target::Of(Kind::Domain, DOMAIN)),
        }
        let is_conditional = matches!(&request,
            Request::PutAttributes { expected, .. } if !expected.is_empty());
        let class = SimpleDb::class(&request);
        assert_eq!(class == Class::Conditional, is_conditional, "{request:?}");
        if !matches!(request, Request::ListDomains { .. }) {
            assert!(DOMAIN.len() <= SimpleDb::size(&request), "{request:?}");
        }
    }
}

#[test]
fn troubles_mean_the_same_in_the_words_of_every_service() {
    let name = RequestId {
        client: 7_u128.into(),
        seq: 1,
        part: 0,
    };
    let quorum = Trouble::Quorum {
        name: "w",
        members: 4,
        size: 3,
    };
    let unreadable = Trouble::Unreadable(ViewError::Engine {
        context: "a bad sector".to_owned(),
    });
    for service in [ServiceName::SimpleDb, ServiceName::Catalog] {
        let means = |trouble: Trouble| service.word(trouble).meaning();
        for reason in Reason::ALL {
            if reason != Reason::Store {
                assert_eq!(means(reason.into()), Meaning::Later(reason), "{service:?}");
            }
        }
        assert_eq!(means(Trouble::NoCollection), Meaning::NoCollection);
        assert_eq!(means(unreadable.clone()), Meaning::Unreadable);
        let rest = [
            Trouble::NameTaken,
            Trouble::StrangeToken,
            Trouble::Forgotten,
            Trouble::Lost(name),
            quorum.clone(),
        ];
        for trouble in rest {
            assert_eq!(means(trouble), Meaning::Final);
        }
    }
}

#[test]
fn a_kept_outcome_is_read_by_its_service_alone() {
    let outcome = Ok(request::Reply::SimpleDb(CostedReply {
        reply: simpledb::Reply::Done,
        box_usage: BoxUsage(7),
    }));
    let bytes = request::keep(&outcome).unwrap();
    assert_eq!(ServiceName::SimpleDb.kept(bytes.clone()), Ok(outcome));
    assert!(ServiceName::Catalog.kept(bytes).is_err());
    let refusal = Refusal::from(Error::new(Code::ConditionalCheckFailed, "no"));
    assert!(refusal.depends_on_state());
    assert!(!Refusal::from(Error::new(Code::MissingParameter, "no")).depends_on_state());
}
