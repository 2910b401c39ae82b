//! MD5s, by which objects are compared with files. An ETag is that of the bytes, or of the MD5s of
//! parts and how many there are.

use std::io::Read as _;
use std::path::Path;

use anyhow::{Context as _, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use md5::{Digest as _, Md5};

/// The MD5 of bytes in base64, as Content-MD5 has it.
pub(super) fn md5_base64(bytes: &[u8]) -> String {
    BASE64.encode(Md5::digest(bytes))
}

/// The MD5 of bytes in hexadecimal digits: the ETag of a part.
pub(super) fn md5_hex(bytes: &[u8]) -> String {
    const_hex::encode(Md5::digest(bytes))
}

/// The ETag of an object of these parts, by their ETags.
pub(super) fn joined<'a>(parts: impl ExactSizeIterator<Item = &'a str>) -> String {
    let count = parts.len();
    let mut sum = Md5::new();
    for part in parts {
        for pair in part.as_bytes().chunks(2) {
            let pair = std::str::from_utf8(pair).unwrap_or_default();
            sum.update([u8::from_str_radix(pair, 16).unwrap_or_default()]);
        }
    }
    format!("{}-{count}", const_hex::encode(sum.finalize()))
}

/// The ETag that a file would have: put whole, or in parts of so many bytes.
pub(super) fn of_file(path: &Path, part_bytes: Option<u64>) -> Result<String> {
    let context = || format!("cannot read {}", path.display());
    let mut file = std::fs::File::open(path).with_context(context)?;
    let mut buffer = vec![0; 1 << 20];
    let mut whole = Md5::new();
    let mut parts: Vec<String> = Vec::new();
    let mut part = (Md5::new(), 0);
    loop {
        let room = match part_bytes {
            Some(bytes) => usize::try_from(bytes - part.1)
                .unwrap_or(usize::MAX)
                .min(buffer.len()),
            None => buffer.len(),
        };
        let count = file.read(&mut buffer[..room]).with_context(context)?;
        if count == 0 {
            break;
        }
        match part_bytes {
            None => whole.update(&buffer[..count]),
            Some(bytes) => {
                part.0.update(&buffer[..count]);
                part.1 += count as u64;
                if part.1 == bytes {
                    let (done, _) = std::mem::replace(&mut part, (Md5::new(), 0));
                    parts.push(const_hex::encode(done.finalize()));
                }
            }
        }
    }
    Ok(match part_bytes {
        None => const_hex::encode(whole.finalize()),
        Some(_) => {
            if 0 < part.1 {
                parts.push(const_hex::encode(part.0.finalize()));
            }
            joined(parts.iter().map(|part| &**part))
        }
    })
}

/// Whether an ETag is made of MD5s: others say nothing of the bytes.
pub(super) fn is_of_bytes(etag: &str) -> bool {
    let (sum, count) = etag.split_once('-').unwrap_or((etag, "1"));
    sum.len() == 32
        && sum.bytes().all(|byte| byte.is_ascii_hexdigit())
        && count.parse::<u32>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// It shows COPY-1.
    #[test]
    fn a_file_has_the_etag_of_its_object() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("f");
        std::fs::write(&path, b"hello").expect("it is written");
        assert_eq!(of_file(&path, None).expect("it is read"), md5_hex(b"hello"));
        let parts = [md5_hex(b"he"), md5_hex(b"ll"), md5_hex(b"o")];
        let joined = joined(parts.iter().map(|part| &**part));
        assert_eq!(of_file(&path, Some(2)).expect("it is read"), joined);
        assert!(joined.ends_with("-3") && is_of_bytes(&joined));
        assert!(
            is_of_bytes(&parts[0])
                && !is_of_bytes("abc")
                && !is_of_bytes(&format!("{}x", parts[0]))
        );
    }
}
