//! Checksums of objects and parts: computed, compared, and joined when an upload is completed.
//!
//! ```text
//! of one body     CRC32, CRC32C, CRC64NVME, SHA1, SHA256, in base64
//! composite       the checksum of the parts' checksums, with "-N"
//! full object     a CRC of all bytes, joined from those of the parts and their sizes
//! ```

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use crc_fast::{CrcAlgorithm, Digest as Crc, checksum_combine};
use fader_services::s3::rows::{Algorithm, Checksum};
use hyper::HeaderMap;
use sha1::Sha1;
use sha2::{Digest as _, Sha256};

use crate::s3::fault::{Fault, invalid_request};

/// All algorithms.
pub(crate) const ALL: [Algorithm; 5] = [
    Algorithm::Crc32,
    Algorithm::Crc32c,
    Algorithm::Crc64Nvme,
    Algorithm::Sha1,
    Algorithm::Sha256,
];

/// An algorithm's name as headers and XML have it.
pub(crate) fn name(algorithm: Algorithm) -> &'static str {
    match algorithm {
        Algorithm::Crc32 => "CRC32",
        Algorithm::Crc32c => "CRC32C",
        Algorithm::Crc64Nvme => "CRC64NVME",
        Algorithm::Sha1 => "SHA1",
        Algorithm::Sha256 => "SHA256",
    }
}

/// The header, or the field of a trailer, of a checksum.
pub(crate) fn header(algorithm: Algorithm) -> &'static str {
    match algorithm {
        Algorithm::Crc32 => "x-amz-checksum-crc32",
        Algorithm::Crc32c => "x-amz-checksum-crc32c",
        Algorithm::Crc64Nvme => "x-amz-checksum-crc64nvme",
        Algorithm::Sha1 => "x-amz-checksum-sha1",
        Algorithm::Sha256 => "x-amz-checksum-sha256",
    }
}

/// The element of a checksum in XML.
pub(crate) fn element(algorithm: Algorithm) -> &'static str {
    match algorithm {
        Algorithm::Crc32 => "ChecksumCRC32",
        Algorithm::Crc32c => "ChecksumCRC32C",
        Algorithm::Crc64Nvme => "ChecksumCRC64NVME",
        Algorithm::Sha1 => "ChecksumSHA1",
        Algorithm::Sha256 => "ChecksumSHA256",
    }
}

/// Whether a checksum is of all bytes or of the parts' checksums, as headers and XML have it.
pub(crate) fn kind(checksum: &Checksum) -> &'static str {
    kind_name(!checksum.is_composite)
}

/// The same of a checksum that is of all bytes, or not.
pub(crate) fn kind_name(is_whole: bool) -> &'static str {
    match is_whole {
        true => "FULL_OBJECT",
        false => "COMPOSITE",
    }
}

/// More than one checksum is told of.
pub(crate) fn multiple() -> Fault {
    invalid_request(
        "Expecting a single x-amz-checksum- header. Multiple checksum Types are not allowed.",
    )
}

/// The algorithm of the checksum that headers tell, if they tell one.
///
/// # Errors
/// InvalidRequest when it is none of those that there are, or when there are several.
pub(crate) fn sent(headers: &HeaderMap) -> Result<Option<Algorithm>, Fault> {
    let names = headers.keys().map(|name| name.as_str());
    let mut found = None;
    for rest in names.filter_map(|name| name.strip_prefix("x-amz-checksum-")) {
        if matches!(rest, "mode" | "type" | "algorithm") {
            continue;
        }
        if found.replace(named(rest)?).is_some() {
            return Err(multiple());
        }
    }
    Ok(found)
}

/// The algorithm of this name.
///
/// # Errors
/// InvalidRequest for one that there is not here.
pub(crate) fn named(text: &str) -> Result<Algorithm, Fault> {
    let found = ALL
        .into_iter()
        .find(|it| name(*it).eq_ignore_ascii_case(text));
    found.ok_or_else(|| {
        invalid_request(
            "Checksum algorithm provided is unsupported. Please try again with any of the valid \
             types: [CRC32, CRC32C, CRC64NVME, SHA1, SHA256]",
        )
    })
}

/// The algorithm of a header or of a trailer's field, if it is one of a checksum.
pub(crate) fn of_header(text: &str) -> Option<Algorithm> {
    ALL.into_iter()
        .find(|it| header(*it).eq_ignore_ascii_case(text))
}

fn bytes_of(algorithm: Algorithm) -> usize {
    match algorithm {
        Algorithm::Crc32 | Algorithm::Crc32c => 4,
        Algorithm::Crc64Nvme => 8,
        Algorithm::Sha1 => 20,
        Algorithm::Sha256 => 32,
    }
}

/// The bytes of a checksum in base64.
///
/// # Errors
/// InvalidRequest when it is none of the algorithm.
pub(crate) fn decode(algorithm: Algorithm, value: &str) -> Result<Vec<u8>, Fault> {
    let bytes = BASE64.decode(value).ok();
    let bytes = bytes.filter(|bytes| bytes.len() == bytes_of(algorithm));
    bytes.ok_or_else(|| {
        let header = header(algorithm);
        invalid_request(format!("Value for {header} header is invalid."))
    })
}

fn crc(algorithm: Algorithm) -> Option<CrcAlgorithm> {
    match algorithm {
        Algorithm::Crc32 => Some(CrcAlgorithm::Crc32IsoHdlc),
        Algorithm::Crc32c => Some(CrcAlgorithm::Crc32Iscsi),
        Algorithm::Crc64Nvme => Some(CrcAlgorithm::Crc64Nvme),
        Algorithm::Sha1 | Algorithm::Sha256 => None,
    }
}

/// Computes one.
pub(crate) struct Sum {
    algorithm: Algorithm,
    state: State,
}

enum State {
    Crc(Crc),
    Sha1(Sha1),
    Sha256(Sha256),
}

impl Sum {
    /// That of no bytes.
    pub(crate) fn new(algorithm: Algorithm) -> Sum {
        let state = match crc(algorithm) {
            Some(crc) => State::Crc(Crc::new(crc)),
            None if algorithm == Algorithm::Sha1 => State::Sha1(Sha1::new()),
            None => State::Sha256(Sha256::new()),
        };
        Sum { algorithm, state }
    }

    /// Which it is.
    pub(crate) fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// Takes the bytes that follow.
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        match &mut self.state {
            State::Crc(crc) => crc.update(bytes),
            State::Sha1(sha1) => sha1.update(bytes),
            State::Sha256(sha256) => sha256.update(bytes),
        }
    }

    /// Its bytes.
    pub(crate) fn finish(self) -> Vec<u8> {
        match self.state {
            State::Crc(crc) => crc_bytes(self.algorithm, crc.finalize()),
            State::Sha1(sha1) => sha1.finalize().to_vec(),
            State::Sha256(sha256) => sha256.finalize().to_vec(),
        }
    }
}

fn crc_bytes(algorithm: Algorithm, value: u64) -> Vec<u8> {
    let bytes = value.to_be_bytes();
    bytes[bytes.len() - bytes_of(algorithm)..].to_vec()
}

/// A checksum of all bytes.
pub(crate) fn whole(algorithm: Algorithm, bytes: &[u8]) -> Checksum {
    Checksum {
        algorithm,
        value: BASE64.encode(bytes),
        is_composite: false,
    }
}

/// Joins the checksums of parts, each with its part's size, in order. `None` when one of them is
/// none of the algorithm, or where such sums cannot be joined.
pub(crate) fn join<'a>(
    algorithm: Algorithm,
    is_whole: bool,
    parts: impl Iterator<Item = (&'a str, u64)>,
) -> Option<Checksum> {
    let mut composite = Sum::new(algorithm);
    let mut joined: Option<u64> = None;
    let mut count = 0;
    for (value, size) in parts {
        let bytes = decode(algorithm, value).ok()?;
        count += 1;
        if !is_whole {
            composite.update(&bytes);
            continue;
        }
        let crc = crc(algorithm)?;
        let value = bytes
            .iter()
            .fold(0, |sum, byte| sum << 8 | u64::from(*byte));
        joined = Some(match joined {
            None => value,
            Some(before) => checksum_combine(crc, before, value, size),
        });
    }
    Some(match is_whole {
        true => whole(algorithm, &crc_bytes(algorithm, joined?)),
        false => Checksum {
            algorithm,
            value: format!("{}-{count}", BASE64.encode(composite.finish())),
            is_composite: true,
        },
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(algorithm: Algorithm, bytes: &[u8]) -> String {
        let mut sum = Sum::new(algorithm);
        for part in bytes.chunks(3) {
            sum.update(part);
        }
        whole(algorithm, &sum.finish()).value
    }

    #[test]
    fn checksums_are_those_of_the_published_examples() {
        // The check values of the catalogue of CRCs, and those of FIPS 180-2.
        for (algorithm, bytes, hex) in [
            (Algorithm::Crc32, "123456789", "cbf43926"),
            (Algorithm::Crc32c, "123456789", "e3069283"),
            (Algorithm::Crc64Nvme, "123456789", "ae8b14860a799888"),
            (
                Algorithm::Sha1,
                "abc",
                "a9993e364706816aba3e25717850c26c9cd0d89d",
            ),
            (
                Algorithm::Sha256,
                "abc",
                "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
            ),
        ] {
            let bytes = of(algorithm, bytes.as_bytes());
            let bytes = decode(algorithm, &bytes).expect("it is one");
            let shown: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(shown, hex, "{algorithm:?}");
        }
        // The example of AWS's documentation of trailers: 66,560 times "a".
        assert_eq!(of(Algorithm::Crc32c, &[b'a'; 66_560]), "sOO8/Q==");
    }

    #[test]
    fn values_of_another_length_are_refused() {
        for value in ["", "AAAA", "AAAAAAA=", "!!!!!!==", "AAAAAA"] {
            assert!(decode(Algorithm::Crc32, value).is_err(), "{value}");
        }
        assert!(decode(Algorithm::Crc32, "AAAAAA==").is_ok());
        assert!(named("MD5").is_err());
        assert_eq!(named("crc64nvme"), Ok(Algorithm::Crc64Nvme));
    }

    proptest! {
        #[test]
        fn a_crc_of_parts_is_that_of_the_whole(
            parts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..50), 1..6),
        ) {
            for algorithm in [Algorithm::Crc32, Algorithm::Crc32c, Algorithm::Crc64Nvme] {
                let sums: Vec<_> = parts
                    .iter()
                    .map(|part| (of(algorithm, part), part.len() as u64))
                    .collect();
                let sums = sums.iter().map(|(sum, size)| (&**sum, *size));
                let joined = join(algorithm, true, sums).unwrap();
                prop_assert_eq!(joined.value, of(algorithm, &parts.concat()));
            }
        }

        #[test]
        fn a_composite_is_the_checksum_of_checksums(
            parts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..50), 1..6),
        ) {
            for algorithm in ALL {
                let sums: Vec<_> = parts.iter().map(|part| of(algorithm, part)).collect();
                let bytes: Vec<u8> = sums
                    .iter()
                    .flat_map(|sum| decode(algorithm, sum).unwrap())
                    .collect();
                let joined = join(algorithm, false, sums.iter().map(|sum| (&**sum, 0))).unwrap();
                let expected = format!("{}-{}", of(algorithm, &bytes), parts.len());
                prop_assert_eq!(joined.value, expected);
            }
            let sums = [("AAAA", 1)];
            prop_assert_eq!(join(Algorithm::Sha1, true, sums.into_iter()), None);
        }
    }
}
