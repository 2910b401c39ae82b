//! The bytes of a queue's settings. The object of a deleted queue stays, marked (rule BQUEUE-12).

use std::time::Duration;

use bytes::Bytes;
use fader_chain::{DecodeError, put_varint};

use super::frame::{Kind, open, seal};
use super::names::Incarnation;
use crate::error::Result;
use crate::queues::QueueSettings;

/// How long settings are used after the sending of the GET that read them, and a deleted name
/// rests.
pub(super) const CACHED: Duration = Duration::from_secs(60);

/// A queue as its settings object describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Settings {
    /// Its life.
    pub(super) incarnation: Incarnation,
    /// Whether it was deleted.
    pub(super) is_gone: bool,
    /// What it was created with.
    pub(super) settings: QueueSettings,
}

impl Settings {
    pub(super) fn encode(&self) -> Bytes {
        let mut out = Vec::new();
        out.extend_from_slice(&self.incarnation.0.to_be_bytes());
        out.push(u8::from(self.is_gone));
        put_varint(&mut out, self.settings.visibility.as_secs());
        put_varint(&mut out, self.settings.retention.as_secs());
        seal(Kind::Settings, &out)
    }

    /// Reads what `encode` wrote.
    ///
    /// # Errors
    /// `Malformed`.
    pub(super) fn decode(key: &str, bytes: &Bytes) -> Result<Self> {
        open(key, Kind::Settings, bytes, |reader| {
            let incarnation = Incarnation(reader.u64()?);
            let is_gone = match reader.byte()? {
                0 => false,
                1 => true,
                _ => return Err(DecodeError::new("an unknown mark")),
            };
            let visibility = Duration::from_secs(reader.varint()?);
            let retention = match reader.varint()? {
                u64::MAX => Duration::MAX,
                seconds => Duration::from_secs(seconds),
            };
            Ok(Settings {
                incarnation,
                is_gone,
                settings: QueueSettings {
                    visibility,
                    retention,
                },
            })
        })
    }
}
