//! What a receipt looks like.

use fader_services::level::{Outcome, Outcomes, parse_stamp, parse_version};

use super::*;

#[test]
fn a_receipt_is_one_line_of_json() {
    assert_eq!(
        json(&ReplyMetadata::default()).to_string(),
        r#"{"tentative":false}"#
    );
    let metadata = ReplyMetadata {
        stamp: Some(parse_stamp("2.7+1317975502999.3.0").unwrap()),
        version: Some(parse_version("2.7").unwrap()),
        tentative: true,
        outcome: Some(Outcomes::single(Outcome::Superseded(None))),
        ..ReplyMetadata::default()
    };
    assert_eq!(
        json(&metadata).to_string(),
        r#"{"outcome":"superseded","stamp":"2.7+1317975502999.3.0","tentative":true,"#.to_owned()
            + r#""version":"2.7"}"#
    );
}
