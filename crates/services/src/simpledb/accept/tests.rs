//! What is refused before anything is stamped; what is accepted, the scripts of `mixing` show.

use fader_chain::{ApplyContext, EntryId, Register};

use super::*;
use crate::simpledb::tests::{Service, create, put};
use crate::{MapView, Mode};

fn mixed(service: &mut Service) {
    let mut request = create("books");
    if let Request::CreateDomain { mode, .. } = &mut request {
        *mode = Some(Mode::Mixed);
    }
    service.run(&request).unwrap();
}

#[track_caller]
fn check_refused(service: &Service, request: &Request, code: Code) {
    let refused = accept(&service.view, &service.context(request), request);
    assert_eq!(refused.unwrap_err().code, code);
}

#[test]
fn a_register_full_of_marks_takes_no_more() {
    let mut service = Service::new();
    mixed(&mut service);
    let request = put("item", &["a=1"]);
    let key = accept(&service.view, &service.context(&request), &request)
        .unwrap()
        .writes
        .remove(0)
        .key;
    let mut register = Register::default();
    let remove = |number: usize| ElementOp::Remove {
        group: "a".into(),
        value: number.to_string().into(),
    };
    let stamp = Stamp::strong(EntryId::new(1, 2));
    for (marks, is_taken) in [(REGISTER_MARKS_MAX, true), (REGISTER_MARKS_MAX + 1, false)] {
        let ops: Vec<_> = (0..marks).map(remove).collect();
        register.merge(&ops, stamp);
        put_register(&mut service.view, key.clone(), &register);
        match is_taken {
            true => drop(accept(&service.view, &service.context(&request), &request).unwrap()),
            false => {
                let refused = accept(&service.view, &service.context(&request), &request);
                assert_eq!(refused.unwrap_err().reason, Some(Reason::TooManyMarks));
            }
        }
    }
}

fn put_register(view: &mut MapView, key: bytes::Bytes, register: &Register) {
    let value = register.encode();
    let put = fader_chain::Change::Put { key, value };
    view.apply(&[put], &ApplyContext::strong(EntryId::new(1, 2)))
        .unwrap();
}

#[test]
fn parameters_come_first_then_the_domain_then_its_mode() {
    let mut service = Service::new();
    check_refused(&service, &put("", &["a=1"]), Code::InvalidParameterValue);
    check_refused(&service, &put("item", &["a=1"]), Code::NoSuchDomain);
    service.run(&create("books")).unwrap();
    let code = Code::InvalidParameterCombination;
    check_refused(&service, &put("item", &["a=1"]), code);
    check_refused(&service, &create("books"), Code::InternalError);
}
