//! Codes have the names and the statuses of the service.

use super::*;

#[test]
fn codes_have_the_names_and_statuses_of_the_service() {
    use Code::*;
    for (code, status, name) in [
        (AccessFailure, 403, "AccessFailure"),
        (AttributeDoesNotExist, 404, "AttributeDoesNotExist"),
        (AuthFailure, 403, "AuthFailure"),
        (AuthMissingFailure, 403, "AuthMissingFailure"),
        (ConditionalCheckFailed, 409, "ConditionalCheckFailed"),
        (DuplicateItemName, 400, "DuplicateItemName"),
        (ExistsAndExpectedValue, 400, "ExistsAndExpectedValue"),
        (IncompleteExpectedValues, 400, "IncompleteExpectedValues"),
        (InternalError, 500, "InternalError"),
        (InvalidClientTokenId, 403, "InvalidClientTokenId"),
        (InvalidHttpAuthHeader, 400, "InvalidHTTPAuthHeader"),
        (InvalidHttpRequest, 400, "InvalidHttpRequest"),
        (InvalidNextToken, 400, "InvalidNextToken"),
        (InvalidParameterValue, 400, "InvalidParameterValue"),
        (InvalidUri, 400, "InvalidURI"),
        (MissingParameter, 400, "MissingParameter"),
        (MultiValuedAttribute, 409, "MultiValuedAttribute"),
        (MultipleExpectedNames, 400, "MultipleExpectedNames"),
        (NoSuchDomain, 400, "NoSuchDomain"),
        (NotYetImplemented, 401, "NotYetImplemented"),
        (
            NumberDomainAttributesExceeded,
            409,
            "NumberDomainAttributesExceeded",
        ),
        (NumberDomainBytesExceeded, 409, "NumberDomainBytesExceeded"),
        (NumberDomainsExceeded, 409, "NumberDomainsExceeded"),
        (
            NumberItemAttributesExceeded,
            409,
            "NumberItemAttributesExceeded",
        ),
        (
            NumberSubmittedAttributesExceeded,
            409,
            "NumberSubmittedAttributesExceeded",
        ),
        (
            NumberSubmittedItemsExceeded,
            409,
            "NumberSubmittedItemsExceeded",
        ),
        (QueryTimeout, 408, "QueryTimeout"),
        (RequestExpired, 400, "RequestExpired"),
        (RequestTimeout, 408, "RequestTimeout"),
        (ServiceUnavailable, 503, "ServiceUnavailable"),
        (SignatureDoesNotMatch, 403, "SignatureDoesNotMatch"),
        (
            TooManyRequestedAttributes,
            400,
            "TooManyRequestedAttributes",
        ),
        (UriTooLong, 400, "URITooLong"),
    ] {
        assert_eq!((code.status(), code.name().as_str()), (status, name));
    }
}

#[test]
fn a_failure_of_the_store_is_internal_and_free() {
    let error = Error::from(ViewError::Engine {
        context: "broken".to_owned(),
    });
    assert_eq!(
        error.to_string(),
        "InternalError: The store could not be read: the engine: broken"
    );
    assert_eq!(error.box_usage, BoxUsage(0));
}

#[test]
fn every_code_is_found_by_its_name() {
    assert_eq!(ALL.len(), Code::UriTooLong as usize + 1);
    for (at, code) in ALL.into_iter().enumerate() {
        assert_eq!(code as usize, at);
        assert_eq!(Code::named(&code.name()), Some(code));
    }
    assert_eq!(Code::named("What"), None);
}
