//! Signatures of requests to S3: AWS's published examples are verified, and what differs is refused.

use super::*;

const KEY: &str = "AKIAIOSFODNN7EXAMPLE";
/// Of the examples of S3.
const SECRET: &str = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";
/// 2013-05-24T00:00:00Z, of the examples of version 4.
const NOW_4_S: i64 = 1_369_353_600;
/// 2007-03-27T19:36:42Z and later, of those of version 2.
const NOW_2_S: i64 = 1_175_024_202;

struct Example<'a> {
    method: &'a str,
    /// As it is signed, with the query.
    uri: &'a str,
    host: &'a str,
    bucket: Option<&'a str>,
    headers: &'a [(&'a str, &'a str)],
}

impl Example<'_> {
    fn verify(&self, now_s: i64, status: KeyStatus) -> Result<Option<Signer>, String> {
        let (path, query) = self.uri.split_once('?').unwrap_or((self.uri, ""));
        let mut headers = HeaderMap::new();
        headers.append("host", HeaderValue::from_str(self.host).unwrap());
        for (name, value) in self.headers {
            let name = HeaderName::from_bytes(name.to_ascii_lowercase().as_bytes()).unwrap();
            headers.append(name, HeaderValue::from_str(value).unwrap());
        }
        let parameters = Parameters::read(query.as_bytes(), b"", 100).unwrap();
        let hash = headers
            .get("x-amz-content-sha256")
            .and_then(|it| it.to_str().ok());
        let signed = Signed {
            method: self.method,
            path,
            headers: &headers,
            host: self.host,
            port: 80,
            bucket_in_host: self.bucket,
            parameters: &parameters,
            payload: Payload::Announced(hash.unwrap_or("UNSIGNED-PAYLOAD")),
        };
        let mut keys = Keys::one(status, SECRET);
        keys.0[0].key.id = KEY.to_owned();
        let verified = verifier().verify_s3(&signed, now_s, |id| Ok(keys.find(id)));
        verified.map_err(|error| error.code.name().to_string())
    }

    #[track_caller]
    fn passes(&self, now_s: i64) -> Signer {
        self.verify(now_s, KeyStatus::Active)
            .expect("it is signed")
            .expect("by a key")
    }

    #[track_caller]
    fn is_refused(&self, now_s: i64, code: &str) {
        let code_of = self.verify(now_s, KeyStatus::Active).err();
        assert_eq!(code_of.as_deref(), Some(code), "{}", self.uri);
    }
}

const HOST_4: &str = "examplebucket.s3.amazonaws.com";
const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

fn authorization(headers: &str, signature: &str) -> String {
    format!(
        "AWS4-HMAC-SHA256 Credential={KEY}/20130524/us-east-1/s3/aws4_request,\
         SignedHeaders={headers},Signature={signature}"
    )
}

fn example_4<'a>(method: &'a str, uri: &'a str, headers: &'a [(&'a str, &'a str)]) -> Example<'a> {
    Example {
        method,
        uri,
        host: HOST_4,
        bucket: Some("examplebucket"),
        headers,
    }
}

fn example_2<'a>(method: &'a str, uri: &'a str, headers: &'a [(&'a str, &'a str)]) -> Example<'a> {
    Example {
        method,
        uri,
        host: "awsexamplebucket1.us-west-1.s3.amazonaws.com",
        bucket: Some("awsexamplebucket1"),
        headers,
    }
}

/// The examples of "Authenticating Requests: Using the Authorization Header".
#[test]
fn the_published_examples_of_version_4_are_verified() {
    let date = ("x-amz-date", "20130524T000000Z");
    let get = authorization(
        "host;range;x-amz-content-sha256;x-amz-date",
        "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
    );
    let headers = [
        ("Authorization", &*get),
        ("Range", "bytes=0-9"),
        ("x-amz-content-sha256", EMPTY),
        date,
    ];
    let signer = example_4("GET", "/test.txt", &headers).passes(NOW_4_S);
    assert!(signer.chunks.is_some());
    example_4("GET", "/test.tx", &headers).is_refused(NOW_4_S, "SignatureDoesNotMatch");
    example_4("PUT", "/test.txt", &headers).is_refused(NOW_4_S, "SignatureDoesNotMatch");
    example_4("GET", "/test.txt", &headers).is_refused(NOW_4_S + 1000, "RequestExpired");
    let more = [
        headers[0],
        headers[1],
        headers[2],
        date,
        ("x-amz-acl", "public-read"),
    ];
    example_4("GET", "/test.txt", &more).is_refused(NOW_4_S, "AccessFailure");

    let put = authorization(
        "date;host;x-amz-content-sha256;x-amz-date;x-amz-storage-class",
        "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
    );
    let hash = "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072";
    let headers = [
        ("Authorization", &*put),
        ("Date", "Fri, 24 May 2013 00:00:00 GMT"),
        ("x-amz-content-sha256", hash),
        ("x-amz-storage-class", "REDUCED_REDUNDANCY"),
        date,
    ];
    example_4("PUT", "/test%24file.text", &headers).passes(NOW_4_S);

    for (uri, signature) in [
        (
            "/?lifecycle",
            "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543",
        ),
        (
            "/?prefix=J&max-keys=2",
            "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
        ),
    ] {
        let header = authorization("host;x-amz-content-sha256;x-amz-date", signature);
        let headers = [
            ("Authorization", &*header),
            ("x-amz-content-sha256", EMPTY),
            date,
        ];
        example_4("GET", uri, &headers).passes(NOW_4_S);
        let unknown = example_4("GET", uri, &headers).verify(NOW_4_S, KeyStatus::Disabled);
        assert_eq!(unknown.err().as_deref(), Some("InvalidClientTokenId"));
    }
}

/// The example of "Authenticating Requests: Using Query Parameters".
#[test]
fn the_published_presigned_url_is_verified() {
    let uri = "/test.txt?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F\
               20130524%2Fus-east-1%2Fs3%2Faws4_request&X-Amz-Date=20130524T000000Z&\
               X-Amz-Expires=86400&X-Amz-SignedHeaders=host&X-Amz-Signature=\
               aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404";
    let example = |uri| Example {
        method: "GET",
        uri,
        host: HOST_4,
        bucket: Some("examplebucket"),
        headers: &[],
    };
    let signer = example(uri).passes(NOW_4_S);
    assert!(signer.chunks.is_none());
    example(uri).passes(NOW_4_S + 86_400);
    example(uri).is_refused(NOW_4_S + 86_401, "RequestExpired");
    let longer = uri.replace("86400", "86401");
    example(&longer).is_refused(NOW_4_S, "SignatureDoesNotMatch");
    let more = format!("{uri}&versionId=1");
    example(&more).is_refused(NOW_4_S, "SignatureDoesNotMatch");
    let other = uri.replace("%2Fs3%2F", "%2Fsqs%2F");
    example(&other).is_refused(NOW_4_S, "SignatureDoesNotMatch");
}

/// The examples of "Signing and Authenticating REST Requests".
#[test]
fn the_published_examples_of_version_2_are_verified() {
    let signed = |signature: &str| format!("AWS {KEY}:{signature}");
    for (uri, date, at_s, signature) in [
        (
            "/photos/puppy.jpg",
            "19:36:42",
            0,
            "qgk2+6Sv9/oM7G3qLEjTH1a1l1g=",
        ),
        (
            "/?prefix=photos&max-keys=50&marker=puppy",
            "19:42:41",
            359,
            "m0WP8eCtspQl5Ahe6L1SozdX9YA=",
        ),
        ("/?acl", "19:44:46", 484, "82ZHiFIjc+WbcwFKGUVEQspPn+0="),
    ] {
        let (header, date) = (signed(signature), format!("Tue, 27 Mar 2007 {date} +0000"));
        let headers = [("Authorization", &*header), ("Date", &*date)];
        let signer = example_2("GET", uri, &headers).passes(NOW_2_S + at_s);
        assert!(signer.chunks.is_none());
        example_2("GET", uri, &headers).is_refused(NOW_2_S + at_s + 901, "RequestExpired");
        example_2("HEAD", uri, &headers).is_refused(NOW_2_S + at_s, "SignatureDoesNotMatch");
        let more = match uri.contains('?') {
            true => format!("{uri}&versions"),
            false => format!("{uri}?versions"),
        };
        example_2("GET", &more, &headers).is_refused(NOW_2_S + at_s, "SignatureDoesNotMatch");
    }
    let header = signed("dKZcB+bz2EPXgSdXZp9ozGeOM4I=");
    let headers = [
        ("Authorization", &*header),
        ("Date", "Tue, 27 Mar 2007 21:06:08 +0000"),
        ("Content-Type", "application/x-download"),
        ("Content-MD5", "4gJE4saaMU4BqNR0kLY+lw=="),
        ("X-Amz-Acl", "public-read"),
        ("X-Amz-Meta-ReviewedBy", "joe@awsexamplebucket1.net"),
        ("X-Amz-Meta-ReviewedBy", "jane@awsexamplebucket1.net"),
        ("X-Amz-Meta-FileChecksum", "0x02661779"),
        ("X-Amz-Meta-ChecksumAlgorithm", "crc32"),
    ];
    let upload = Example {
        method: "PUT",
        uri: "/db-backup.dat.gz",
        host: "static.awsexamplebucket1.net:8080",
        bucket: Some("static.awsexamplebucket1.net"),
        headers: &headers,
    };
    upload.passes(NOW_2_S + 5366);
}

#[test]
fn presigned_urls_of_version_2_end_when_they_say() {
    let uri = "/photos/puppy.jpg?AWSAccessKeyId=AKIAIOSFODNN7EXAMPLE&\
               Signature=1No4mq5ETf02z8aet9voy6gui6E%3D&Expires=1175139620";
    let example = |uri| Example {
        method: "GET",
        uri,
        host: "awsexamplebucket1.s3.us-west-1.amazonaws.com",
        bucket: Some("awsexamplebucket1"),
        headers: &[],
    };
    assert!(example(uri).passes(1_175_139_620).chunks.is_none());
    example(uri).is_refused(1_175_139_621, "RequestExpired");
    let later = uri.replace("1175139620", "1175139630");
    example(&later).is_refused(1_175_139_620, "SignatureDoesNotMatch");
    let more = format!("{uri}&response-content-type=text/html");
    example(&more).is_refused(1_175_139_620, "SignatureDoesNotMatch");
}

/// The example of "Browser-Based Upload using HTTP POST".
#[test]
fn the_published_form_is_verified() {
    let policy = "eyAiZXhwaXJhdGlvbiI6ICIyMDE1LTEyLTMwVDEyOjAwOjAwLjAwMFoiLA0KICAiY29uZGl0aW9ucyI6I\
                  FsNCiAgICB7ImJ1Y2tldCI6ICJzaWd2NGV4YW1wbGVidWNrZXQifSwNCiAgICBbInN0YXJ0cy13aXRo\
                  IiwgIiRrZXkiLCAidXNlci91c2VyMS8iXSwNCiAgICB7ImFjbCI6ICJwdWJsaWMtcmVhZCJ9LA0KICA\
                  gIHsic3VjY2Vzc19hY3Rpb25fcmVkaXJlY3QiOiAiaHR0cDovL3NpZ3Y0ZXhhbXBsZWJ1Y2tldC5zMy\
                  5hbWF6b25hd3MuY29tL3N1Y2Nlc3NmdWxfdXBsb2FkLmh0bWwifSwNCiAgICBbInN0YXJ0cy13aXRoI\
                  iwgIiRDb250ZW50LVR5cGUiLCAiaW1hZ2UvIl0sDQogICAgeyJ4LWFtei1tZXRhLXV1aWQiOiAiMTQz\
                  NjUxMjM2NTEyNzQifSwNCiAgICB7IngtYW16LXNlcnZlci1zaWRlLWVuY3J5cHRpb24iOiAiQUVTMjU\
                  2In0sDQogICAgWyJzdGFydHMtd2l0aCIsICIkeC1hbXotbWV0YS10YWciLCAiIl0sDQoNCiAgICB7In\
                  gtYW16LWNyZWRlbnRpYWwiOiAiQUtJQUlPU0ZPRE5ON0VYQU1QTEUvMjAxNTEyMjkvdXMtZWFzdC0xL\
                  3MzL2F3czRfcmVxdWVzdCJ9LA0KICAgIHsieC1hbXotYWxnb3JpdGhtIjogIkFXUzQtSE1BQy1TSEEy\
                  NTYifSwNCiAgICB7IngtYW16LWRhdGUiOiAiMjAxNTEyMjlUMDAwMDAwWiIgfQ0KICBdDQp9";
    let fields = |policy: &'static str, scope: &'static str| {
        move |name: &str| {
            Some(match name {
                "policy" => policy,
                "x-amz-credential" => scope,
                "x-amz-date" => "20151229T000000Z",
                "x-amz-signature" => {
                    "8afdbf4008c03f22c2cd3cdb72e4afbb1f6a588f3255ac628749a66d7f09699e"
                }
                _ => return None,
            })
        }
    };
    let verify = |policy, scope| {
        let form = Form::read(fields(policy, scope))?.expect("it is signed");
        let mut keys = Keys::one(KeyStatus::Active, SECRET);
        keys.0[0].key.id = KEY.to_owned();
        verifier().verify_form(&form, 1_451_347_200, |id| Ok(keys.find(id)))
    };
    let scope = "AKIAIOSFODNN7EXAMPLE/20151229/us-east-1/s3/aws4_request";
    assert!(verify(policy, scope).is_ok());
    assert!(verify(&policy[1..], scope).is_err());
    let other = "AKIAIOSFODNN7EXAMPLE/20151229/eu-west-1/s3/aws4_request";
    assert!(verify(policy, other).is_err());
    let sqs = "AKIAIOSFODNN7EXAMPLE/20151229/us-east-1/sqs/aws4_request";
    assert!(verify(policy, sqs).is_err());
    assert!(Form::read(|_| None).is_ok_and(|form| form.is_none()));
    assert!(Form::read(|name| (name == "signature").then_some("x")).is_err());
}
