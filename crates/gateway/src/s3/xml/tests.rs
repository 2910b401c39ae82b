//! Tests of XML, both ways.

use proptest::prelude::*;

use super::*;

#[test]
fn a_document_is_read_as_a_tree() {
    let text = b"<?xml version=\"1.0\"?><!-- c --><Delete xmlns=\"u\"><Quiet> true </Quiet>\
        <Object><Key>a&amp;&#x41;<![CDATA[<b>]]></Key></Object><Object/></Delete>";
    let root = Element::parse(text, "Delete").expect("it is one");
    assert_eq!(root.parsed::<bool>("Quiet"), Ok(Some(true)));
    let keys: Vec<_> = root
        .children("Object")
        .map(|it| it.text_of("Key"))
        .collect();
    assert_eq!(keys, [Some("a&A<b>"), None]);
    assert!(root.need("None").is_err());
}

/// It shows SXML-1 and SXML-2.
#[test]
fn a_malformed_document_is_refused() {
    let deep = format!("{}{}", "<A>".repeat(14), "</A>".repeat(14));
    let wide = format!("<A>{}</A>", "<B/>".repeat(ELEMENTS_MAX + 1));
    for text in [
        "",
        "x",
        "<A>",
        "<A></B>",
        "<A/><A/>",
        "<A/>x",
        "<B/>",
        "<!DOCTYPE A [<!ENTITY e \"x\">]><A>&e;</A>",
        "<A>&unknown;</A>",
        &deep,
        &wide,
    ] {
        let outcome = Element::parse(text.as_bytes(), "A");
        let start: String = text.chars().take(30).collect();
        assert_eq!(
            outcome.map_err(|it| it.code),
            Err("MalformedXML"),
            "{start}"
        );
    }
    assert!(Element::parse(b"<A>\xFF</A>", "A").is_err());
}

proptest! {
    #[test]
    fn written_values_are_read(text in "[^\u{0}-\u{8}\u{b}\u{c}\u{e}-\u{1f}\u{fffe}\u{ffff}]*") {
        let mut writer = Writer::new("A");
        writer.text("B", &text);
        let root = Element::parse(&writer.done(), "A").unwrap();
        prop_assert_eq!(root.text_of("B"), Some(&*text));
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in any::<Vec<u8>>()) {
        let _ = Element::parse(&bytes, "A");
    }
}
