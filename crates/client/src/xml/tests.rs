//! Replies as trees: what real ones hold, and what hostile ones try.

use proptest::prelude::*;

use super::*;

/// It shows CXML-2.
#[test]
fn a_select_reply() {
    let root = Element::parse(
        "<?xml version=\"1.0\"?>\n\
         <SelectResponse xmlns=\"http://sdb.amazonaws.com/doc/2009-04-15/\">\
         <SelectResult><Item><Name>a &amp; b&#x41;</Name><Attribute>\
         <Name encoding=\"base64\">Y29sb3IA</Name><Value/></Attribute></Item></SelectResult>\
         <ResponseMetadata><RequestId>id</RequestId></ResponseMetadata></SelectResponse>",
    )
    .unwrap();
    assert_eq!(root.name, "SelectResponse");
    let item = root.child("SelectResult").unwrap().child("Item").unwrap();
    assert_eq!(item.child_text("Name"), "a & bA");
    let attribute = item.children("Attribute").next().unwrap();
    assert_eq!(attribute.child_text("Name"), "color\0");
    assert_eq!(
        (
            attribute.child("Value").is_some(),
            attribute.child_text("Value")
        ),
        (true, "")
    );
    assert_eq!(root.child_text("Nothing"), "");
}

#[test]
fn white_space_in_text_is_kept() {
    let root = Element::parse("<a> <b>\n x &lt;&gt; y\t</b> </a>").unwrap();
    assert_eq!(root.child_text("b"), "\n x <> y\t");
}

/// It shows CXML-1.
#[test]
fn malformed_documents_are_refused() {
    let deep = format!("{}x{}", "<a>".repeat(17), "</a>".repeat(17));
    for document in [
        "",
        "text",
        "<a>",
        "<a></b>",
        "</a>",
        "<a/><b/>",
        "<!DOCTYPE a [<!ENTITY x 'y'>]><a>&x;</a>",
        "<a>&x;</a>",
        "<a>&#xD800;</a>",
        "<a encoding=\"base64\">!</a>",
        "<a encoding=\"base64\">/w==</a>",
        deep.as_str(),
    ] {
        assert!(Element::parse(document).is_err(), "{document:?}");
    }
}

/// Tags, references and text, each broken now and then.
const DOCUMENT: &str =
    "(<[a-b/?!]{0,3}( encoding=\"base64\")?>?|&[a-z#0-9x]{0,4};?|[ -~]{0,3}){0,12}";

proptest! {
    #[test]
    fn no_document_panics(document in DOCUMENT) {
        let _ = Element::parse(&document);
    }
}
