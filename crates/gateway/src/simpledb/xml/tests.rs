//! The bytes of replies and refusals.

use bytes::Bytes;
use expect_test::{Expect, expect};
use fader_services::simpledb::{BoxUsage, Code};
use proptest::prelude::*;

use super::*;

const ID: &str = "b1e8f1f7-42e9-494c-ad09-2674e557526d";

/// Compares bytes, shown with a line break between elements, where there is none.
fn check_xml(xml: &[u8], expect: &Expect) {
    let xml = std::str::from_utf8(xml).unwrap();
    assert_eq!(xml.matches(">\n<").count(), 1, "white space: {xml}");
    expect.assert_eq(&xml.replacen(">\n<", "><", 1).replace("><", ">\n<"));
}

fn check(action: Action, reply_value: Reply, expect: &Expect) {
    let answered = CostedReply {
        reply: reply_value,
        box_usage: BoxUsage(219_961),
    };
    check_xml(&reply(Version::V2009, action, &answered, ID), expect);
}

fn attribute(name: &'static str, value: &'static str) -> Attribute {
    Attribute {
        name: Bytes::from(name),
        value: Bytes::from(value),
    }
}

fn token() -> Option<PageToken> {
    Some(PageToken(Bytes::from_static(b"\x00\xFFnext")))
}

#[test]
fn writes() {
    check(
        Action::PutAttributes,
        Reply::Done,
        &expect![[r#"
        <?xml version="1.0"?>
        <PutAttributesResponse xmlns="http://sdb.amazonaws.com/doc/2009-04-15/">
        <ResponseMetadata>
        <RequestId>b1e8f1f7-42e9-494c-ad09-2674e557526d</RequestId>
        <BoxUsage>0.0000219961</BoxUsage>
        </ResponseMetadata>
        </PutAttributesResponse>"#]],
    );
}

#[test]
fn get_attributes() {
    let attributes = vec![
        attribute("colour", "black & <white>"),
        attribute("empty", ""),
    ];
    check(
        Action::GetAttributes,
        Reply::Attributes(attributes),
        &expect![[r#"
            <?xml version="1.0"?>
            <GetAttributesResponse xmlns="http://sdb.amazonaws.com/doc/2009-04-15/">
            <GetAttributesResult>
            <Attribute>
            <Name>colour</Name>
            <Value>black &amp; &lt;white&gt;</Value>
            </Attribute>
            <Attribute>
            <Name>empty</Name>
            <Value>
            </Value>
            </Attribute>
            </GetAttributesResult>
            <ResponseMetadata>
            <RequestId>b1e8f1f7-42e9-494c-ad09-2674e557526d</RequestId>
            <BoxUsage>0.0000219961</BoxUsage>
            </ResponseMetadata>
            </GetAttributesResponse>"#]],
    );
    check(
        Action::GetAttributes,
        Reply::Attributes(vec![]),
        &expect![[r#"
            <?xml version="1.0"?>
            <GetAttributesResponse xmlns="http://sdb.amazonaws.com/doc/2009-04-15/">
            <GetAttributesResult>
            </GetAttributesResult>
            <ResponseMetadata>
            <RequestId>b1e8f1f7-42e9-494c-ad09-2674e557526d</RequestId>
            <BoxUsage>0.0000219961</BoxUsage>
            </ResponseMetadata>
            </GetAttributesResponse>"#]],
    );
}

#[test]
fn list_domains() {
    let names = vec!["cats".to_owned(), "dogs".to_owned()];
    check(
        Action::ListDomains,
        Reply::Domains {
            names,
            next_token: token(),
        },
        &expect![[r#"
            <?xml version="1.0"?>
            <ListDomainsResponse xmlns="http://sdb.amazonaws.com/doc/2009-04-15/">
            <ListDomainsResult>
            <DomainName>cats</DomainName>
            <DomainName>dogs</DomainName>
            <NextToken>AP9uZXh0</NextToken>
            </ListDomainsResult>
            <ResponseMetadata>
            <RequestId>b1e8f1f7-42e9-494c-ad09-2674e557526d</RequestId>
            <BoxUsage>0.0000219961</BoxUsage>
            </ResponseMetadata>
            </ListDomainsResponse>"#]],
    );
}

#[test]
fn domain_metadata() {
    let figures = DomainMetadata {
        item_count: 1,
        item_names_bytes: 2,
        attribute_name_count: 3,
        attribute_names_bytes: 4,
        attribute_value_count: 5,
        attribute_values_bytes: 6,
        timestamp_s: 1_795_209_643,
    };
    check(
        Action::DomainMetadata,
        Reply::Metadata(figures),
        &expect![[r#"
            <?xml version="1.0"?>
            <DomainMetadataResponse xmlns="http://sdb.amazonaws.com/doc/2009-04-15/">
            <DomainMetadataResult>
            <ItemCount>1</ItemCount>
            <ItemNamesSizeBytes>2</ItemNamesSizeBytes>
            <AttributeNameCount>3</AttributeNameCount>
            <AttributeNamesSizeBytes>4</AttributeNamesSizeBytes>
            <AttributeValueCount>5</AttributeValueCount>
            <AttributeValuesSizeBytes>6</AttributeValuesSizeBytes>
            <Timestamp>1795209643</Timestamp>
            </DomainMetadataResult>
            <ResponseMetadata>
            <RequestId>b1e8f1f7-42e9-494c-ad09-2674e557526d</RequestId>
            <BoxUsage>0.0000219961</BoxUsage>
            </ResponseMetadata>
            </DomainMetadataResponse>"#]],
    );
}

#[test]
fn select() {
    let items = vec![
        Item {
            name: Bytes::from("bare"),
            attributes: vec![],
        },
        Item {
            name: Bytes::from("full"),
            attributes: vec![attribute("é", "€")],
        },
    ];
    check(
        Action::Select,
        Reply::Items {
            items,
            next_token: token(),
        },
        &expect![[r#"
            <?xml version="1.0"?>
            <SelectResponse xmlns="http://sdb.amazonaws.com/doc/2009-04-15/">
            <SelectResult>
            <Item>
            <Name>bare</Name>
            </Item>
            <Item>
            <Name>full</Name>
            <Attribute>
            <Name>é</Name>
            <Value>€</Value>
            </Attribute>
            </Item>
            <NextToken>AP9uZXh0</NextToken>
            </SelectResult>
            <ResponseMetadata>
            <RequestId>b1e8f1f7-42e9-494c-ad09-2674e557526d</RequestId>
            <BoxUsage>0.0000219961</BoxUsage>
            </ResponseMetadata>
            </SelectResponse>"#]],
    );
}

#[test]
fn explain_select() {
    let lines = vec!["scan <all>".to_owned(), "2nd".to_owned()];
    check(
        Action::ExplainSelect,
        Reply::Plan(lines),
        &expect![[r#"
        <?xml version="1.0"?>
        <ExplainSelectResponse xmlns="http://sdb.amazonaws.com/doc/2009-04-15/">
        <ExplainSelectResult>
        <Line>scan &lt;all&gt;</Line>
        <Line>2nd</Line>
        </ExplainSelectResult>
        <ResponseMetadata>
        <RequestId>b1e8f1f7-42e9-494c-ad09-2674e557526d</RequestId>
        <BoxUsage>0.0000219961</BoxUsage>
        </ResponseMetadata>
        </ExplainSelectResponse>"#]],
    );
}

#[test]
fn query_of_2007() {
    let names = vec![Bytes::from("a"), Bytes::from_static(b"\x01")];
    let reply_value = Reply::ItemNames {
        names,
        next_token: None,
    };
    let answered = CostedReply {
        reply: reply_value,
        box_usage: BoxUsage(0),
    };
    let xml = reply(Version::V2007, Action::Query, &answered, ID);
    check_xml(
        &xml,
        &expect![[r#"
        <?xml version="1.0"?>
        <QueryResponse xmlns="http://sdb.amazonaws.com/doc/2007-11-07/">
        <QueryResult>
        <ItemName>a</ItemName>
        <ItemName encoding="base64">AQ==</ItemName>
        </QueryResult>
        <ResponseMetadata>
        <RequestId>b1e8f1f7-42e9-494c-ad09-2674e557526d</RequestId>
        <BoxUsage>0.0000000000</BoxUsage>
        </ResponseMetadata>
        </QueryResponse>"#]],
    );
}

#[test]
fn refusals() {
    let mut refusal = Error {
        code: Code::ConditionalCheckFailed,
        message: "Attribute (a1) value is (<7>\u{1}) but was expected (6)".to_owned(),
        box_usage: BoxUsage(219_907),
        reason: None,
    };
    let xml = error(&refusal, ID);
    check_xml(
        &xml,
        &expect![[r#"
            <?xml version="1.0"?>
            <Response>
            <Errors>
            <Error>
            <Code>ConditionalCheckFailed</Code>
            <Message>Attribute (a1) value is (&lt;7&gt;�) but was expected (6)</Message>
            <BoxUsage>0.0000219907</BoxUsage>
            </Error>
            </Errors>
            <RequestID>b1e8f1f7-42e9-494c-ad09-2674e557526d</RequestID>
            </Response>"#]],
    );
    refusal.box_usage = BoxUsage(0);
    refusal.code = Code::InvalidUri;
    let xml = error(&refusal, ID);
    check_xml(
        &xml,
        &expect![[r#"
            <?xml version="1.0"?>
            <Response>
            <Errors>
            <Error>
            <Code>InvalidURI</Code>
            <Message>Attribute (a1) value is (&lt;7&gt;�) but was expected (6)</Message>
            </Error>
            </Errors>
            <RequestID>b1e8f1f7-42e9-494c-ad09-2674e557526d</RequestID>
            </Response>"#]],
    );
}

#[test]
fn characters_outside_xml_are_in_base64() {
    for (text, expected) in [
        ("plain ~", "<V>plain ~</V>"),
        ("a&b<c>d\"e'", "<V>a&amp;b&lt;c&gt;d\"e'</V>"),
        ("]]>", "<V>]]&gt;</V>"),
        ("tab\tline\nreturn\r", "<V>tab\tline\nreturn&#xD;</V>"),
        ("é€\u{1F600}", "<V>é€\u{1F600}</V>"),
        ("\u{85}\u{2028}", "<V>\u{85}\u{2028}</V>"),
        ("color\0", "<V encoding=\"base64\">Y29sb3IA</V>"),
        ("\u{1F}", "<V encoding=\"base64\">Hw==</V>"),
        ("\u{7F}", "<V encoding=\"base64\">fw==</V>"),
        ("\u{84}", "<V encoding=\"base64\">woQ=</V>"),
        ("\u{86}", "<V encoding=\"base64\">woY=</V>"),
        ("\u{FFFE}", "<V encoding=\"base64\">77++</V>"),
        ("\u{FDD0}", "<V encoding=\"base64\">77eQ</V>"),
        ("\u{10FFFF}", "<V encoding=\"base64\">9I+/vw==</V>"),
    ] {
        let mut out = Vec::new();
        element(&mut out, "V", text.as_bytes());
        assert_eq!(std::str::from_utf8(&out), Ok(expected), "{text:?}");
    }
    let mut out = Vec::new();
    element(&mut out, "V", b"\xFF");
    assert_eq!(out, b"<V encoding=\"base64\">/w==</V>");
}

/// What a client reads: the inverse of `element` by hand.
fn read(xml: &str) -> String {
    let (tag, rest) = xml.split_once('>').unwrap();
    let text = rest.strip_suffix("</V>").unwrap();
    if tag.contains("base64") {
        return String::from_utf8(BASE64.decode(text).unwrap()).unwrap();
    }
    let text = text
        .replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&#xD;", "\r");
    text.replace("&amp;", "&")
}

proptest! {
    #[test]
    fn any_text_comes_back(text in any::<String>()) {
        let mut out = Vec::new();
        element(&mut out, "V", text.as_bytes());
        let xml = String::from_utf8(out).unwrap();
        prop_assert_eq!(xml.matches('<').count(), 2);
        prop_assert_eq!(read(&xml), text);
    }

    #[test]
    fn messages_never_break_out(text in any::<String>()) {
        let refusal = Error::new(Code::InvalidParameterValue, text);
        let xml = String::from_utf8(error(&refusal, ID)).unwrap();
        prop_assert!(xml.chars().all(is_carried));
        prop_assert_eq!(xml.matches('<').count(), 15);
    }
}
