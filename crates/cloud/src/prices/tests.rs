//! Prices of the built-in books, and books of users.

use super::*;
use crate::meter::{Meter, WireRequest};

fn cost(book: &str, requests: &[WireRequest]) -> String {
    let meter = Meter::default();
    requests.iter().for_each(|request| meter.count(request));
    let book = PriceBook::built_in(book).unwrap();
    book.cost(&meter.usage()).to_string()
}

fn of(kind: RequestKind, status: u16) -> WireRequest {
    WireRequest::new(kind, Some(status))
}

#[test]
fn every_built_in_book_is_read_and_says_its_date_and_source() {
    for name in PriceBook::names() {
        let book = PriceBook::built_in(name).unwrap();
        assert_eq!(book.name, name);
        assert_eq!(book.date.len(), "2026-01-01".len(), "{name}");
        assert!(!book.source.is_empty(), "{name}");
    }
    assert_eq!(PriceBook::built_in("aws"), None);
}

#[test]
fn a_refused_condition_is_billed_and_a_fault_of_the_service_is_not() {
    let put = RequestKind::ObjectPut;
    assert_eq!(cost("aws-2026", &[of(put, 200)]), "0.000005000000");
    assert_eq!(cost("aws-2026", &[of(put, 412)]), "0.000005000000");
    assert_eq!(cost("aws-2026", &[of(put, 503)]), "0.000000000000");
    assert_eq!(cost("gcs", &[of(put, 412)]), "0.000000000000");
    let lost = WireRequest::new(put, None);
    assert_eq!(cost("aws-2026", &[lost]), "0.000005000000");
    assert_eq!(
        cost("aws-2026", &[of(RequestKind::ObjectDelete, 204)]),
        "0.000000000000"
    );
}

#[test]
fn a_queue_is_billed_by_chunks_of_64_kib() {
    let send = |bytes| WireRequest {
        sent_bytes: bytes,
        ..of(RequestKind::QueueSend, 200)
    };
    assert_eq!(cost("aws-2026", &[send(1)]), "0.000000400000");
    assert_eq!(cost("aws-2026", &[send(256 << 10)]), "0.000001600000");
}

#[test]
fn machine_time_and_bytes_have_prices() {
    let write = WireRequest {
        box_usage: 219_907,
        ..of(RequestKind::DomainWrite, 200)
    };
    assert_eq!(cost("aws-2026", &[write]), "0.000003078698");
    let get = WireRequest {
        received_bytes: 1_000_000_000,
        ..of(RequestKind::ObjectGet, 200)
    };
    assert_eq!(cost("aws-2007", &[get]), "0.180001000000");
    assert_eq!(cost("none", &[get, write]), "0.000000000000");
}

#[test]
fn a_book_of_a_user_is_read_and_a_wrong_one_is_named() {
    let text = "name = \"mine\"\ndate = \"2026-02-03\"\nsource = \"a contract\"\nunbilled = []\n\
                [million_requests]\nobject-put = 2.5\n";
    let book = PriceBook::parse(text).unwrap();
    assert_eq!(book.request(RequestKind::ObjectPut).pico, 2_500_000);
    assert!(book.bills(Some(500)));
    let refused = |from: &str, to: &str| PriceBook::parse(&text.replace(from, to)).unwrap_err();
    for (from, to, said) in [
        (
            "object-put",
            "object-push",
            "unknown kind of request \"object-push\"",
        ),
        ("2.5", "-1.0", "-1 is no price"),
        ("unbilled", "unpaid", "unknown field `unpaid`"),
    ] {
        let error = refused(from, to).to_string();
        assert!(error.contains(said), "{error}");
    }
}
