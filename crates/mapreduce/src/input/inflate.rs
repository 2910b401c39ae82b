//! Reads gzip and Zstandard as they arrive.
//!
//! Invariants:
//! - INFLATE-1 input that is cut off, or damaged, is a failure and never a shorter input.

use std::io::Write as _;

use flate2::write::MultiGzDecoder;
use zstd::stream::raw::{DParameter, Decoder, InBuffer, Operation, OutBuffer};

use crate::failure::{Failure, Outcome};

/// Bytes that are taken from a decoder at once.
const OUT_BYTES: usize = 256 << 10;

/// Logarithms of the bytes that a frame of Zstandard may look back.
const WINDOW_LOG: (u32, u32) = (17, 27);

/// How an object is compressed, by the end of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compression {
    None,
    Gzip,
    Zstd,
}

impl Compression {
    pub(crate) fn of(key: &str) -> Self {
        match key.rsplit_once('.') {
            Some((_, "gz")) => Compression::Gzip,
            Some((_, "zst")) => Compression::Zstd,
            _ => Compression::None,
        }
    }
}

/// Turns compressed bytes into the bytes that they stand for.
pub(crate) enum Inflater {
    None,
    Gzip(Box<MultiGzDecoder<Vec<u8>>>),
    Zstd {
        decoder: Box<Decoder<'static>>,
        is_between: bool,
    },
}

impl Inflater {
    /// One for a task with so much memory: the window of Zstandard has at most half of it.
    pub(crate) fn new(compression: Compression, memory: usize) -> Outcome<Self> {
        let decoder = || -> std::io::Result<_> {
            let mut decoder = Decoder::new()?;
            let (least, most) = WINDOW_LOG;
            let log = (memory / 2).max(1).ilog2().clamp(least, most);
            decoder.set_parameter(DParameter::WindowLogMax(log))?;
            Ok(Box::new(decoder))
        };
        Ok(match compression {
            Compression::None => Inflater::None,
            Compression::Gzip => Inflater::Gzip(Box::new(MultiGzDecoder::new(Vec::new()))),
            Compression::Zstd => Inflater::Zstd {
                decoder: decoder().map_err(|error| damaged(&error))?,
                is_between: true,
            },
        })
    }

    /// Gives what the bytes stand for to `take`, in pieces.
    pub(crate) fn feed(
        &mut self,
        bytes: &[u8],
        mut take: impl FnMut(&[u8]) -> Outcome<()>,
    ) -> Outcome<()> {
        match self {
            Inflater::None => take(bytes),
            Inflater::Gzip(decoder) => {
                // Each byte may stand for a thousand.
                for piece in bytes.chunks(OUT_BYTES / 1024) {
                    decoder.write_all(piece).map_err(|error| damaged(&error))?;
                    let out = decoder.get_mut();
                    if OUT_BYTES <= out.len() {
                        take(out)?;
                        out.clear();
                    }
                }
                take(decoder.get_ref())?;
                decoder.get_mut().clear();
                Ok(())
            }
            Inflater::Zstd {
                decoder,
                is_between,
            } => {
                let mut input = InBuffer::around(bytes);
                let mut buffer = vec![0; OUT_BYTES];
                loop {
                    let mut out = OutBuffer::around(&mut buffer[..]);
                    let left = decoder.run(&mut input, &mut out);
                    let left = left.map_err(|error| damaged(&error))?;
                    let (is_full, count) = (out.pos() == OUT_BYTES, out.pos());
                    take(&buffer[..count])?;
                    *is_between = left == 0;
                    if input.pos == bytes.len() && !is_full {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// The end of the object.
    pub(crate) fn finish(&mut self, mut take: impl FnMut(&[u8]) -> Outcome<()>) -> Outcome<()> {
        match self {
            Inflater::None => Ok(()),
            Inflater::Gzip(decoder) => {
                decoder.try_finish().map_err(|error| damaged(&error))?;
                let out = std::mem::take(decoder.get_mut());
                take(&out)
            }
            Inflater::Zstd { is_between, .. } => match is_between {
                true => Ok(()),
                false => Err(Failure::task("its compressed bytes are cut off")),
            },
        }
    }
}

fn damaged(error: &std::io::Error) -> Failure {
    Failure::task(format!(
        "its compressed bytes are damaged or cut off: {error}"
    ))
}
