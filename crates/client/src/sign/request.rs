//! Signatures of version 4 over any request: in a header, or in a URL that anyone may send.

use sha2::{Digest, Sha256};

use super::{Headers, Moment, Signer, encode};
use hmac::Mac as _;

/// What stands for the hash of a body that is not signed.
const UNSIGNED: &str = "UNSIGNED-PAYLOAD";
const ALGORITHM: &str = "AWS4-HMAC-SHA256";

/// A request to S3, as far as it is signed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Signable<'a> {
    /// The method.
    pub(crate) method: &'a str,
    /// The path, encoded.
    pub(crate) path: &'a str,
    /// Parameters, not encoded.
    pub(crate) query: &'a [(&'a str, &'a str)],
    /// Headers beside the host; names in lower case.
    pub(crate) headers: &'a [(&'a str, &'a str)],
}

/// A path of names that are encoded, with slashes between them.
pub(crate) fn encoded_path(path: &str) -> String {
    let mut out = Vec::with_capacity(path.len());
    for (at, name) in path.split('/').enumerate() {
        if 0 < at {
            out.push(b'/');
        }
        encode(name, &mut out);
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// A query, encoded and sorted by what is encoded.
pub(crate) fn encoded_query(query: &[(&str, &str)]) -> String {
    let mut pairs: Vec<String> = query
        .iter()
        .map(|(name, value)| {
            let mut out = Vec::with_capacity(name.len() + value.len() + 1);
            encode(name, &mut out);
            out.push(b'=');
            encode(value, &mut out);
            String::from_utf8_lossy(&out).into_owned()
        })
        .collect();
    pairs.sort_unstable();
    pairs.join("&")
}

impl Signer {
    /// The headers that sign a request with this body.
    pub(crate) fn sign_request(
        &self,
        moment: &Moment,
        request: Signable<'_>,
        body: &[u8],
    ) -> Headers {
        let hash = const_hex::encode(Sha256::digest(body));
        let mut headers = request.headers.to_vec();
        headers.push(("x-amz-content-sha256", &hash));
        headers.push(("x-amz-date", &moment.basic));
        let query = encoded_query(request.query);
        let (names, signature) = self.signature(moment, request, &query, &headers, &hash);
        let authorization = format!(
            "{ALGORITHM} Credential={}/{}, SignedHeaders={names}, Signature={signature}",
            self.access_key,
            self.scope(moment)
        );
        Headers(vec![
            ("authorization", authorization),
            ("x-amz-content-sha256", hash),
            ("x-amz-date", moment.basic.clone()),
        ])
    }

    /// The query of a URL that may be sent for so many seconds.
    pub(crate) fn presign(&self, moment: &Moment, request: Signable<'_>, expires_s: u64) -> String {
        let credential = format!("{}/{}", self.access_key, self.scope(moment));
        let expires = expires_s.to_string();
        let mut query = request.query.to_vec();
        query.extend([
            ("X-Amz-Algorithm", ALGORITHM),
            ("X-Amz-Credential", &credential),
            ("X-Amz-Date", &moment.basic),
            ("X-Amz-Expires", &expires),
            ("X-Amz-SignedHeaders", "host"),
        ]);
        let query = encoded_query(&query);
        let (_, signature) = self.signature(moment, request, &query, &[], UNSIGNED);
        format!("{query}&X-Amz-Signature={signature}")
    }

    fn scope(&self, moment: &Moment) -> String {
        let day = &moment.basic[..8];
        format!("{day}/{}/{}/aws4_request", self.region, self.service)
    }

    /// The names of the signed headers, and the signature.
    fn signature(
        &self,
        moment: &Moment,
        request: Signable<'_>,
        query: &str,
        headers: &[(&str, &str)],
        hash: &str,
    ) -> (String, String) {
        let mut headers = headers.to_vec();
        headers.push(("host", self.host()));
        headers.sort_unstable();
        let names: Vec<&str> = headers.iter().map(|(name, _)| *name).collect();
        let names = names.join(";");
        let lines: String = headers
            .iter()
            .map(|(name, value)| format!("{name}:{}\n", value.trim()))
            .collect();
        let canonical = format!(
            "{}\n{}\n{query}\n{lines}\n{names}\n{hash}",
            request.method, request.path
        );
        let mut mac = moment.keyed.clone();
        for part in [
            ALGORITHM,
            "\n",
            &moment.basic,
            "\n",
            &self.scope(moment),
            "\n",
            &const_hex::encode(Sha256::digest(canonical.as_bytes())),
        ] {
            mac.update(part.as_bytes());
        }
        (names, const_hex::encode(mac.finalize().into_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::credentials::Credentials;
    use crate::sign::SignatureVersion;

    fn signer() -> Signer {
        let credentials = Credentials::new(
            "AKIAIOSFODNN7EXAMPLE",
            "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
        );
        let host = "examplebucket.s3.amazonaws.com";
        Signer::of_service("s3", &credentials, SignatureVersion::V4, host)
    }

    /// 2013-05-24T00:00:00Z, of the examples of AWS's documentation.
    const SECOND: i64 = 1_369_353_600;

    #[test]
    fn the_published_examples_are_signed_alike() {
        let signer = signer();
        let moment = signer.moment(SECOND);
        let get = Signable {
            method: "GET",
            path: "/test.txt",
            query: &[],
            headers: &[("range", "bytes=0-9")],
        };
        let headers = signer.sign_request(&moment, get, b"");
        let authorization = &headers.0[0].1;
        let signature = "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41";
        assert!(authorization.ends_with(signature), "{authorization}");
        let presigned = signer.presign(
            &moment,
            Signable {
                headers: &[],
                ..get
            },
            86_400,
        );
        let signature = "aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404";
        assert!(presigned.ends_with(signature), "{presigned}");
    }

    #[test]
    fn paths_and_queries_are_encoded_and_sorted() {
        assert_eq!(encoded_path("/b/a b/é+"), "/b/a%20b/%C3%A9%2B");
        let query = [("prefix", "a/b"), ("list-type", "2"), ("delete", "")];
        assert_eq!(encoded_query(&query), "delete=&list-type=2&prefix=a%2Fb");
    }
}
