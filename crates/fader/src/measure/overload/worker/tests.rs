//! Bodies are the paper's or not.

use super::*;

const PAPER: &str = "<Response><Errors><Error><Code>ServiceUnavailable</Code><Message>Service \
                     AmazonSimpleDB is currently unavailable. Please try again later</Message>\
                     </Error></Errors><RequestID>613df115-aee4-f86f-7a22-9a94f9b1633c</RequestID>\
                     </Response>";

#[test]
fn a_body_is_the_papers_but_for_the_id() {
    let other_id = PAPER.replace("613df115", "00000000");
    let declared = format!("<?xml version=\"1.0\"?>\n{PAPER}");
    for same in [PAPER, &other_id, &declared] {
        assert!(is_the_papers(same.as_bytes()), "{same}");
    }
}

#[test]
fn any_other_octet_is_a_difference() {
    let mut changed: Vec<Vec<u8>> = (0..PAPER.len())
        .map(|at| {
            let mut body = PAPER.as_bytes().to_vec();
            body[at] = b'!';
            body
        })
        .collect();
    changed.push(format!("{PAPER} ").into_bytes());
    changed.push(PAPER.replace("later", "later (limit)").into_bytes());
    changed.push(PAPER.replace("-9a94f9b1633c", "").into_bytes());
    changed.push(Vec::new());
    let mut bodies = Bodies::default();
    changed.iter().for_each(|body| bodies.add(body));
    assert_eq!((bodies.same, bodies.other), (0, changed.len() as u64));
    assert!(bodies.example.unwrap().starts_with("!Response>"));
}
