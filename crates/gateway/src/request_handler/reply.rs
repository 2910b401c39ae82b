//! Replies with a whole body, and what they have in common.

use bytes::Bytes;
use fader_services::simpledb::Error;
use http_body_util::Full;
use hyper::header::{CONNECTION, CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode};

use super::REASON;
use crate::simpledb;

pub(super) fn error_response(error: &Error, request_id: &str) -> Response<Full<Bytes>> {
    let status = StatusCode::from_u16(error.code.status())
        .expect("every code's status is a number of three digits");
    let mut response = xml_response(status, simpledb::error(error, request_id));
    if let Some(reason) = error.reason {
        let code = HeaderValue::from_static(reason.code());
        response.headers_mut().insert(REASON, code);
    }
    response
}

pub(super) fn xml_response(status: StatusCode, xml: Vec<u8>) -> Response<Full<Bytes>> {
    response(status, "text/xml", xml.into())
}

/// The last reply of its connection.
pub(super) fn closing<B>(mut response: Response<B>) -> Response<B> {
    let close = HeaderValue::from_static("close");
    response.headers_mut().insert(CONNECTION, close);
    response
}

/// A reply with a body.
pub(crate) fn response(
    status: StatusCode,
    content_type: &'static str,
    body: Bytes,
) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

/// A random UUID, version 4.
pub(super) fn request_id() -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut bytes: [u8; 16] = rand::random();
    bytes[6] = bytes[6] & 0x0F | 0x40;
    bytes[8] = bytes[8] & 0x3F | 0x80;
    let mut id = [b'-'; 36];
    // Dashes stand before the bytes 4, 6, 8 and 10.
    for (index, byte) in bytes.into_iter().enumerate() {
        let at = 2 * index + (index.clamp(2, 10) - 2) / 2;
        id[at] = DIGITS[usize::from(byte >> 4)];
        id[at + 1] = DIGITS[usize::from(byte & 15)];
    }
    String::from_utf8(id.to_vec()).expect("digits and dashes are ASCII")
}
