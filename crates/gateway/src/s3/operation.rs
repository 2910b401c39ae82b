//! Which operation a request asks for: by its method, its place and one parameter of its query.
//!
//! Left-out features are known by name: reads answer as AWS does for a bucket without them, writes
//! are refused with NotImplemented.

use crate::parameters::Parameters;
use crate::s3::fault::{self, Fault};
use crate::s3::place::Place;

/// Declares the operations, with their names in the metrics.
macro_rules! operations {
    ($($name:ident),* $(,)?) => {
        /// An operation.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[allow(missing_docs, reason = "the names are AWS's own")]
        pub(crate) enum Operation {
            $($name,)*
            /// A read of a feature that is left out.
            Absent(Feature),
        }

        impl Operation {
            /// Its name in the metrics.
            pub(crate) fn name(self) -> &'static str {
                match self {
                    $(Operation::$name => stringify!($name),)*
                    Operation::Absent(_) => "GetAbsentFeature",
                }
            }
        }
    };
}

operations! {
    AbortMultipartUpload,
    CompleteMultipartUpload,
    CopyObject,
    CreateBucket,
    CreateMultipartUpload,
    DeleteBucket,
    DeleteBucketCors,
    DeleteBucketLifecycle,
    DeleteBucketOwnershipControls,
    DeleteBucketPolicy,
    DeleteBucketTagging,
    DeleteObject,
    DeleteObjects,
    DeleteObjectTagging,
    DeletePublicAccessBlock,
    GetBucketAcl,
    GetBucketCors,
    GetBucketLifecycle,
    GetBucketLocation,
    GetBucketOwnershipControls,
    GetBucketPolicy,
    GetBucketPolicyStatus,
    GetBucketTagging,
    GetBucketVersioning,
    GetObject,
    GetObjectAcl,
    GetObjectAttributes,
    GetObjectTagging,
    GetPublicAccessBlock,
    HeadBucket,
    HeadObject,
    ListBuckets,
    ListMultipartUploads,
    ListObjects,
    ListObjectsV2,
    ListObjectVersions,
    ListParts,
    PostObject,
    Preflight,
    PutBucketAcl,
    PutBucketCors,
    PutBucketLifecycle,
    PutBucketOwnershipControls,
    PutBucketPolicy,
    PutBucketTagging,
    PutBucketVersioning,
    PutObject,
    PutObjectAcl,
    PutObjectTagging,
    PutPublicAccessBlock,
    UploadPart,
    UploadPartCopy,
}

/// A feature that is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are AWS's own")]
pub(crate) enum Feature {
    Accelerate,
    Analytics,
    Encryption,
    IntelligentTiering,
    Inventory,
    LegalHold,
    Logging,
    Metrics,
    Notification,
    ObjectLock,
    Replication,
    RequestPayment,
    Retention,
    Website,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Service,
    Bucket,
    Object,
}

use Level::{Bucket, Object, Service};
use Operation as O;

/// Method, level, parameter of the query that chooses; the last rows have none.
const TABLE: [(&str, Level, &str, Operation); 52] = [
    ("PUT", Bucket, "acl", O::PutBucketAcl),
    ("GET", Bucket, "acl", O::GetBucketAcl),
    ("PUT", Object, "acl", O::PutObjectAcl),
    ("GET", Object, "acl", O::GetObjectAcl),
    ("GET", Object, "attributes", O::GetObjectAttributes),
    ("PUT", Bucket, "cors", O::PutBucketCors),
    ("GET", Bucket, "cors", O::GetBucketCors),
    ("DELETE", Bucket, "cors", O::DeleteBucketCors),
    ("POST", Bucket, "delete", O::DeleteObjects),
    ("PUT", Bucket, "lifecycle", O::PutBucketLifecycle),
    ("GET", Bucket, "lifecycle", O::GetBucketLifecycle),
    ("DELETE", Bucket, "lifecycle", O::DeleteBucketLifecycle),
    ("GET", Bucket, "location", O::GetBucketLocation),
    (
        "PUT",
        Bucket,
        "ownershipControls",
        O::PutBucketOwnershipControls,
    ),
    (
        "GET",
        Bucket,
        "ownershipControls",
        O::GetBucketOwnershipControls,
    ),
    (
        "DELETE",
        Bucket,
        "ownershipControls",
        O::DeleteBucketOwnershipControls,
    ),
    ("PUT", Bucket, "policy", O::PutBucketPolicy),
    ("GET", Bucket, "policy", O::GetBucketPolicy),
    ("DELETE", Bucket, "policy", O::DeleteBucketPolicy),
    ("GET", Bucket, "policyStatus", O::GetBucketPolicyStatus),
    ("PUT", Bucket, "publicAccessBlock", O::PutPublicAccessBlock),
    ("GET", Bucket, "publicAccessBlock", O::GetPublicAccessBlock),
    (
        "DELETE",
        Bucket,
        "publicAccessBlock",
        O::DeletePublicAccessBlock,
    ),
    ("PUT", Bucket, "tagging", O::PutBucketTagging),
    ("GET", Bucket, "tagging", O::GetBucketTagging),
    ("DELETE", Bucket, "tagging", O::DeleteBucketTagging),
    ("PUT", Object, "tagging", O::PutObjectTagging),
    ("GET", Object, "tagging", O::GetObjectTagging),
    ("DELETE", Object, "tagging", O::DeleteObjectTagging),
    ("PUT", Object, "uploadId", O::UploadPart),
    ("GET", Object, "uploadId", O::ListParts),
    ("POST", Object, "uploadId", O::CompleteMultipartUpload),
    ("DELETE", Object, "uploadId", O::AbortMultipartUpload),
    ("POST", Object, "uploads", O::CreateMultipartUpload),
    ("GET", Bucket, "uploads", O::ListMultipartUploads),
    ("PUT", Bucket, "versioning", O::PutBucketVersioning),
    ("GET", Bucket, "versioning", O::GetBucketVersioning),
    ("GET", Bucket, "versions", O::ListObjectVersions),
    ("GET", Bucket, "list-type", O::ListObjectsV2),
    ("GET", Service, "", O::ListBuckets),
    ("PUT", Bucket, "", O::CreateBucket),
    ("HEAD", Bucket, "", O::HeadBucket),
    ("DELETE", Bucket, "", O::DeleteBucket),
    ("GET", Bucket, "", O::ListObjects),
    ("POST", Bucket, "", O::PostObject),
    ("PUT", Object, "", O::PutObject),
    ("GET", Object, "", O::GetObject),
    ("HEAD", Object, "", O::HeadObject),
    ("DELETE", Object, "", O::DeleteObject),
    ("OPTIONS", Service, "", O::Preflight),
    ("OPTIONS", Bucket, "", O::Preflight),
    ("OPTIONS", Object, "", O::Preflight),
];

/// Features that are left out, by the parameter that chooses them; without one: no read is answered.
const LEFT_OUT: [(&str, Option<Feature>); 25] = [
    ("abac", None),
    ("accelerate", Some(Feature::Accelerate)),
    ("analytics", Some(Feature::Analytics)),
    ("annotation", None),
    ("encryption", Some(Feature::Encryption)),
    ("intelligent-tiering", Some(Feature::IntelligentTiering)),
    ("inventory", Some(Feature::Inventory)),
    ("legal-hold", Some(Feature::LegalHold)),
    ("logging", Some(Feature::Logging)),
    ("metadataConfiguration", None),
    ("metadataInventoryTable", None),
    ("metadataJournalTable", None),
    ("metadataTable", None),
    ("metrics", Some(Feature::Metrics)),
    ("notification", Some(Feature::Notification)),
    ("object-lock", Some(Feature::ObjectLock)),
    ("renameObject", None),
    ("replication", Some(Feature::Replication)),
    ("requestPayment", Some(Feature::RequestPayment)),
    ("restore", None),
    ("retention", Some(Feature::Retention)),
    ("select", None),
    ("session", None),
    ("torrent", None),
    ("website", Some(Feature::Website)),
];

impl Operation {
    /// The operation that is asked for; `is_copy` tells whether the request names a source.
    ///
    /// # Errors
    /// MethodNotAllowed and NotImplemented.
    pub(crate) fn of(
        method: &str,
        place: &Place,
        parameters: &Parameters<'_>,
        is_copy: bool,
    ) -> Result<Operation, Fault> {
        let level = match (place.bucket.is_empty(), place.key.is_empty()) {
            (true, _) => Service,
            (false, true) => Bucket,
            (false, false) => Object,
        };
        let has = |name: &str| parameters.get(name).is_some();
        if let Some((name, feature)) = LEFT_OUT.iter().find(|(name, _)| has(name)) {
            return match (feature, method) {
                (Some(feature), "GET") if level != Service => Ok(O::Absent(*feature)),
                _ => Err(fault::not_implemented(name)),
            };
        }
        let of_level = |name: &str| TABLE.iter().any(|row| row.1 == level && row.2 == name);
        let mut names = TABLE.iter().map(|row| row.2);
        let chosen = names.find(|name| !name.is_empty() && has(name) && of_level(name));
        let is_row = |row: &&(&str, Level, &str, Operation)| {
            row.0 == method && row.1 == level && Some(row.2) == chosen.or(Some(""))
        };
        let found = TABLE.iter().find(is_row).map(|row| row.3);
        match found {
            // The place of parts and of copies is the one of objects.
            Some(O::PutObject) if is_copy => Ok(O::CopyObject),
            Some(O::UploadPart) if is_copy => Ok(O::UploadPartCopy),
            Some(O::ListObjectsV2) if parameters.get("list-type") != Some("2") => {
                Ok(O::ListObjects)
            }
            Some(operation) => Ok(operation),
            None => Err(fault::method_not_allowed(method)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(method: &str, path: &str, query: &str, is_copy: bool) -> Result<Operation, Fault> {
        let place = Place::read(path, "localhost", &[])?;
        let parameters = Parameters::read(query.as_bytes(), b"", 100).expect("they are some");
        Operation::of(method, &place, &parameters, is_copy)
    }

    #[test]
    fn an_operation_is_chosen_by_method_place_and_parameter() {
        for (method, path, query, operation) in [
            ("GET", "/", "x-id=ListBuckets", O::ListBuckets),
            ("GET", "/b", "", O::ListObjects),
            ("GET", "/b", "list-type=2&prefix=a", O::ListObjectsV2),
            ("GET", "/b", "list-type=1", O::ListObjects),
            ("GET", "/b", "versions&prefix=a", O::ListObjectVersions),
            ("PUT", "/b/k", "partNumber=1&uploadId=u", O::UploadPart),
            ("POST", "/b/k", "uploadId=u", O::CompleteMultipartUpload),
            ("POST", "/b/k", "uploads", O::CreateMultipartUpload),
            ("POST", "/b", "delete", O::DeleteObjects),
            ("POST", "/b", "", O::PostObject),
            ("HEAD", "/b/k", "versionId=null", O::HeadObject),
            ("GET", "/b/k", "versions", O::GetObject),
            ("OPTIONS", "/b/k", "", O::Preflight),
            ("GET", "/b", "website", O::Absent(Feature::Website)),
        ] {
            assert_eq!(
                of(method, path, query, false),
                Ok(operation),
                "{method} {path}?{query}"
            );
        }
        assert_eq!(of("PUT", "/b/k", "", true), Ok(O::CopyObject));
        let part = of("PUT", "/b/k", "partNumber=1&uploadId=u", true);
        assert_eq!(part, Ok(O::UploadPartCopy));
    }

    #[test]
    fn other_methods_and_left_out_writes_are_refused() {
        for (method, path, query, code) in [
            ("PATCH", "/b/k", "", "MethodNotAllowed"),
            ("POST", "/b/k", "", "MethodNotAllowed"),
            ("DELETE", "/b", "acl", "MethodNotAllowed"),
            ("DELETE", "/", "", "MethodNotAllowed"),
            ("PUT", "/b", "website", "NotImplemented"),
            ("POST", "/b/k", "select&select-type=2", "NotImplemented"),
            ("GET", "/b/k", "torrent", "NotImplemented"),
        ] {
            let fault = of(method, path, query, false).expect_err("it is refused");
            assert_eq!(fault.code, code, "{method} {path}?{query}");
        }
    }
}
