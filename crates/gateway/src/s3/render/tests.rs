//! Replies are AWS's, element for element.

use expect_test::{Expect, expect};
use fader_services::s3::Code;
use fader_services::s3::rows::{Algorithm, VersionId};

use super::*;

#[track_caller]
fn shown(xml: Vec<u8>, expected: &Expect) {
    let text = String::from_utf8(xml).expect("it is text");
    let (first, rest) = text.split_once('\n').expect("it has a declaration");
    assert_eq!(first, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>");
    expected.assert_eq(&rest.replace("><", ">\n<"));
}

fn listing<'a>(list: &'a List, encoding: Encoding) -> Listing<'a> {
    Listing {
        list,
        max_keys: 2,
        encoding,
        has_owner: false,
        token: None,
        start_after: None,
    }
}

#[test]
fn times_are_those_of_xml_and_of_http() {
    assert_eq!(time(1_764_064_805_678), "2025-11-25T10:00:05.678Z");
    assert_eq!(
        http_time(1_764_064_805_678),
        "Tue, 25 Nov 2025 10:00:05 GMT"
    );
    assert_eq!(time(u64::MAX), "1970-01-01T00:00:00.000Z");
}

#[test]
fn a_refusal_names_code_message_resource_and_id() {
    let mut error = Error::of(Code::PreconditionFailed);
    error.condition = Some(fader_services::s3::Condition::IfMatch);
    shown(
        fault(&error.into(), "/b/a&b", "id"),
        &expect![[r#"
            <Error>
            <Code>PreconditionFailed</Code>
            <Message>At least one of the pre-conditions you specified did not hold</Message>
            <Condition>If-Match</Condition>
            <Resource>/b/a&amp;b</Resource>
            <RequestId>id</RequestId>
            </Error>"#]],
    );
}

#[test]
fn lists_show_prefixes_and_markers() {
    let list = List {
        bucket: "b".to_owned(),
        prefix: "a/".to_owned(),
        delimiter: "/".to_owned(),
        after: Some("a/ 1".to_owned()),
        ..List::default()
    };
    let page = Page {
        entries: vec![Entry::Prefix("a/é/".to_owned())],
        owner: "000000000001".to_owned(),
        next: Some(("a/é/".to_owned(), None)),
    };
    let url = Encoding { is_url: true };
    shown(
        objects(&listing(&list, url), &page),
        &expect![[r#"
            <ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">
            <Name>b</Name>
            <Prefix>a/</Prefix>
            <Marker>a/%201</Marker>
            <NextMarker>a/%C3%A9/</NextMarker>
            <MaxKeys>2</MaxKeys>
            <Delimiter>/</Delimiter>
            <EncodingType>url</EncodingType>
            <IsTruncated>true</IsTruncated>
            <CommonPrefixes>
            <Prefix>a/%C3%A9/</Prefix>
            </CommonPrefixes>
            </ListBucketResult>"#]],
    );
    let plain = Encoding { is_url: false };
    let mut of_2 = listing(&list, plain);
    of_2.start_after = Some("a/ 1");
    shown(
        objects_v2(&of_2, &page, Some("token")),
        &expect![[r#"
            <ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">
            <Name>b</Name>
            <Prefix>a/</Prefix>
            <NextContinuationToken>token</NextContinuationToken>
            <StartAfter>a/ 1</StartAfter>
            <KeyCount>1</KeyCount>
            <MaxKeys>2</MaxKeys>
            <Delimiter>/</Delimiter>
            <IsTruncated>true</IsTruncated>
            <CommonPrefixes>
            <Prefix>a/é/</Prefix>
            </CommonPrefixes>
            </ListBucketResult>"#]],
    );
}

#[test]
fn deletions_are_told_one_by_one() {
    let marker = VersionId::Named((1, 2));
    let asked = [
        ("a".to_owned(), None),
        ("b".to_owned(), Some("null".to_owned())),
        ("c\u{1}".to_owned(), None),
    ];
    let outcomes = [
        Ok(Deleted {
            version: Some(marker),
            is_marker: true,
        }),
        Ok(Deleted {
            version: None,
            is_marker: false,
        }),
        Err(Error::of(Code::AccessDenied)),
    ];
    shown(
        deleted(&asked, &outcomes, false),
        &expect![[r#"
            <DeleteResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">
            <Deleted>
            <Key>a</Key>
            <DeleteMarker>true</DeleteMarker>
            <DeleteMarkerVersionId>00000000000000010000000000000002</DeleteMarkerVersionId>
            </Deleted>
            <Deleted>
            <Key>b</Key>
            <VersionId>null</VersionId>
            </Deleted>
            <Error>
            <Key>c&#1;</Key>
            <Code>AccessDenied</Code>
            <Message>Access Denied</Message>
            </Error>
            </DeleteResult>"#]],
    );
    shown(
        deleted(&asked, &outcomes, true),
        &expect![[r#"
            <DeleteResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">
            <Error>
            <Key>c&#1;</Key>
            <Code>AccessDenied</Code>
            <Message>Access Denied</Message>
            </Error>
            </DeleteResult>"#]],
    );
}

#[test]
fn the_outcome_of_a_commit_is_shown() {
    let put = Put {
        version: None,
        etag: "e-2".to_owned(),
        checksum: Some(Checksum {
            algorithm: Algorithm::Crc32,
            value: "AAAAAA==-2".to_owned(),
            is_composite: true,
        }),
        expiry: None,
    };
    shown(
        completed("http://h/b/k", "b", "k", &put),
        &expect![[r#"
            <CompleteMultipartUploadResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">
            <Location>http://h/b/k</Location>
            <Bucket>b</Bucket>
            <Key>k</Key>
            <ETag>&quot;e-2&quot;</ETag>
            <ChecksumCRC32>AAAAAA==-2</ChecksumCRC32>
            <ChecksumType>COMPOSITE</ChecksumType>
            </CompleteMultipartUploadResult>"#]],
    );
    shown(
        copied("CopyPartResult", "e", None, 0),
        &expect![[r#"
            <CopyPartResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">
            <LastModified>1970-01-01T00:00:00.000Z</LastModified>
            <ETag>&quot;e&quot;</ETag>
            </CopyPartResult>"#]],
    );
    shown(
        upload("b", "k", 1),
        &expect![[r#"
            <InitiateMultipartUploadResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">
            <Bucket>b</Bucket>
            <Key>k</Key>
            <UploadId>00000000000000000000000000000001</UploadId>
            </InitiateMultipartUploadResult>"#]],
    );
    shown(
        location("us-east-1"),
        &expect![[r#"
            <LocationConstraint xmlns="http://s3.amazonaws.com/doc/2006-03-01/">
            </LocationConstraint>"#]],
    );
    let elsewhere = String::from_utf8(location("eu-west-1")).expect("it is text");
    assert!(
        elsewhere.ends_with(">eu-west-1</LocationConstraint>"),
        "{elsewhere}"
    );
}
