//! All that a stranger sends to S3: heads, chunks, forms and XML are understood or refused.

use std::cell::Cell;

use bytes::Bytes;
use fader_fuzz::{Corpus, run};
use fader_services::s3::settings::SettingName;
use hyper::header::{HeaderMap, HeaderName};

use super::body::Announced;
use super::chunks::Chunks;
use super::head::{self, CopySource, Range};
use super::{Operation, Place, form, post_policy, settings};
use crate::parameters::Parameters;
use crate::signature::{Form, chunk_key};

const WORDS: &[&[u8]] = &[
    b"\r\n",
    b"\n",
    b": ",
    b"--b",
    b"--",
    b";chunk-signature=",
    b"0\r\n\r\n",
    b"ffffffffffffffff",
    b"%2F",
    b"%ff",
    b"..",
    b"bytes=0-",
    b"x-amz-content-sha256: STREAMING-UNSIGNED-PAYLOAD-TRAILER",
    b"x-amz-decoded-content-length: 5",
    b"x-amz-trailer: x-amz-checksum-crc32",
    b"x-amz-copy-source: b/k",
    b"x-amz-tagging: a=1",
    b"uploadId",
    b"<Rule>",
    b"</Rule>",
    b"<![CDATA[",
    b"&#x0;",
    b"&amp;",
    b"<!DOCTYPE",
];

#[test]
fn fuzz_s3_heads() {
    let corpus = Corpus {
        seeds: &[
            b"PUT /b/k?partNumber=1&uploadId=u\nhost: b.localhost\nif-none-match: *\n\
              x-amz-meta-a: 1\ncontent-md5: 1B2M2Y8AsgTpgAmY7PhCfg==\nrange: bytes=0-1",
            b"GET /b?list-type=2&prefix=a\nx-amz-acl: public-read\n\
              x-amz-if-match-size: 3\nif-modified-since: Wed, 25 Nov 2026 10:00:00 GMT",
        ],
        words: WORDS,
    };
    let understood = Cell::new(0);
    run("s3_heads", &corpus, |input| {
        let text = String::from_utf8_lossy(input);
        let mut lines = text.lines();
        let first = lines.next().unwrap_or_default();
        let (method, target) = first.split_once(' ').unwrap_or(("GET", first));
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let mut headers = HeaderMap::new();
        for (name, value) in lines.filter_map(|line| line.split_once(": ")) {
            let name = HeaderName::from_bytes(name.as_bytes());
            if let (Ok(name), Ok(value)) = (name, value.parse()) {
                headers.append(name, value);
            }
        }
        let host = headers.get("host").and_then(|it| it.to_str().ok());
        let domains = ["localhost".to_owned()];
        let Ok(place) = Place::read(path, host.unwrap_or_default(), &domains) else {
            return;
        };
        let Ok(parameters) = Parameters::read(query.as_bytes(), b"", 100) else {
            return;
        };
        let operation = Operation::of(method, &place, &parameters, false);
        understood.set(understood.get() + u64::from(operation.is_ok()));
        let _ = Announced::read(&headers, Some(1));
        let _ = head::metadata(&headers);
        let _ = head::read_conditions(&headers, "");
        let _ = head::write_conditions(&headers);
        let _ = head::delete_conditions(&headers);
        let _ = head::version(&parameters);
        let _ = settings::acl_of_headers(&headers);
        if let Some(source) = headers
            .get("x-amz-copy-source")
            .and_then(|it| it.to_str().ok())
        {
            let _ = CopySource::read(source);
        }
        if let Some(range) = headers.get("range").and_then(|it| it.to_str().ok()) {
            let within = Range::read(range).and_then(|range| range.within(10));
            assert!(within.is_none_or(|(start, end)| start < end && end <= 10));
        }
    });
    assert!(0 < understood.get(), "some heads are understood");
}

#[test]
fn fuzz_s3_chunks() {
    let corpus = Corpus {
        seeds: &[
            b"5\r\nhello\r\n0\r\nx-amz-checksum-crc32:NhCmhg==\r\n\r\n",
            b"5;chunk-signature=00\r\nhello\r\n0;chunk-signature=00\r\n\r\n",
        ],
        words: WORDS,
    };
    run("s3_chunks", &corpus, |input| {
        for is_signed in [false, true] {
            let key = is_signed.then(|| chunk_key("secret", "a/b/s3/c", "d", "0"));
            let mut chunks = Chunks::new(key, true);
            let mut input = Bytes::copy_from_slice(input);
            let mut count = 0;
            while let Ok(Some(bytes)) = chunks.next(&mut input) {
                assert!(!bytes.is_empty());
                count += bytes.len();
            }
            let whole = chunks.finish();
            assert!(count <= 1 << 20);
            assert!(!is_signed || whole.is_err(), "it is not signed");
        }
    });
}

#[test]
fn fuzz_s3_forms() {
    let corpus = Corpus {
        seeds: &[
            b"--b\r\nContent-Disposition: form-data; name=\"key\"\r\n\r\nk\r\n--b\r\n\
              Content-Disposition: form-data; name=\"policy\"\r\n\r\n\
              eyJleHBpcmF0aW9uIjoiMjAzMS0wMS0wMVQwMDowMDowMFoiLCJjb25kaXRpb25zIjpbXX0=\r\n--b\r\n\
              Content-Disposition: form-data; name=\"file\"; filename=\"f\"\r\n\r\nhello\r\n--b--",
        ],
        words: WORDS,
    };
    let whole = Cell::new(0);
    run("s3_forms", &corpus, |input| {
        let mut reader = form::Reader::new("multipart/form-data; boundary=b").expect("a form");
        let mut file = 0;
        for piece in input.chunks(7) {
            reader.push(piece);
            match reader.reach_file() {
                Ok(true) => {
                    while let Some(bytes) = reader.take_file() {
                        file += bytes.len();
                    }
                }
                Ok(false) => {}
                Err(_) => return,
            }
        }
        assert!(file <= input.len());
        whole.set(whole.get() + u64::from(reader.finish().is_ok()));
        let fields = reader.fields();
        if let Some(policy) = fields.get("policy") {
            let _ = post_policy::check(policy, "b", fields, 0, 100);
        }
        let _ = Form::read(|name| fields.get(name));
    });
    assert!(0 < whole.get(), "some forms are whole");
}

#[test]
fn fuzz_s3_xml() {
    let corpus = Corpus {
        seeds: &[
            b"<Tagging><TagSet><Tag><Key>a</Key><Value>1</Value></Tag></TagSet></Tagging>",
            b"<CORSConfiguration><CORSRule><AllowedOrigin>*</AllowedOrigin></CORSRule>\
              </CORSConfiguration>",
            b"<LifecycleConfiguration><Rule><Status>Enabled</Status><Prefix/><Expiration>\
              <Days>1</Days></Expiration></Rule></LifecycleConfiguration>",
            b"<AccessControlPolicy><AccessControlList/></AccessControlPolicy>",
        ],
        words: WORDS,
    };
    let understood = Cell::new(0);
    run("s3_xml", &corpus, |input| {
        for name in [
            SettingName::Versioning,
            SettingName::Tags,
            SettingName::Acl,
            SettingName::Ownership,
            SettingName::PublicAccess,
            SettingName::Cors,
            SettingName::Lifecycle,
        ] {
            let Ok(setting) = settings::read(name, input) else {
                continue;
            };
            understood.set(understood.get() + 1);
            let shown = settings::show(&setting, "1");
            assert!(
                settings::read(name, &shown).is_ok(),
                "what is shown is read"
            );
        }
    });
    assert!(0 < understood.get(), "some documents are understood");
}
