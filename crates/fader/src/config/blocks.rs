//! The options of `fader serve` about the bytes of objects.

use std::time::Duration;

use anyhow::{Result, bail};
use fader_node::BlockOptions;
use fader_services::request::Limits;

use super::{Choice, Origin, Setting, Values};

const MIB: u64 = 1 << 20;
/// Of memory a block, its copy and a quarter more; of other sizes a tebibyte is a mistake.
const MEMORY_MB: std::ops::RangeInclusive<u64> = 16..=1 << 20;
const MB_MAX: u64 = 1 << 20;
/// A month, in seconds.
const SECONDS_MAX: u64 = 31 * 86_400;

/// What is chosen.
#[derive(Clone, Debug)]
pub(crate) struct Blocks {
    memory_mb: Setting<u64>,
    scrub_mb: Setting<u64>,
    reserve_mb: Setting<u64>,
    garbage_wait_s: Setting<u64>,
    upload_lease_s: Setting<u64>,
}

impl Blocks {
    pub(super) fn choose(choice: &Choice<'_>, given: &Values, filed: &Values) -> Self {
        let pick = |id, of: fn(&Values) -> Option<u64>, default| {
            choice.pick(id, of(given), of(filed), default)
        };
        let default = BlockOptions::default();
        let lease_ms = fader_services::blocks::Limits::default().lease_ms;
        Blocks {
            memory_mb: pick(
                "block_memory_mb",
                |it| it.block_memory_mb,
                default.memory_bytes / MIB,
            ),
            scrub_mb: pick(
                "scrub_mb",
                |it| it.scrub_mb,
                default.scrub_bytes_per_second / MIB,
            ),
            reserve_mb: pick("block_reserve_mb", |it| it.block_reserve_mb, {
                default.reserve_bytes / MIB
            }),
            garbage_wait_s: pick("garbage_wait_s", |it| it.garbage_wait_s, {
                default.garbage_wait.as_secs()
            }),
            upload_lease_s: pick("upload_lease_s", |it| it.upload_lease_s, lease_ms / 1000),
        }
    }

    /// Refuses what makes no sense.
    pub(super) fn check(&self) -> Result<()> {
        if !MEMORY_MB.contains(&self.memory_mb.value) {
            let (least, most) = (MEMORY_MB.start(), MEMORY_MB.end());
            bail!("block-memory-mb is {least} to {most}");
        }
        for (name, setting) in [
            ("scrub-mb", &self.scrub_mb),
            ("block-reserve-mb", &self.reserve_mb),
        ] {
            if MB_MAX < setting.value {
                bail!("{name} is at most {MB_MAX}");
            }
        }
        if SECONDS_MAX < self.garbage_wait_s.value {
            bail!("garbage-wait-s is at most {SECONDS_MAX}");
        }
        if !(1..=SECONDS_MAX).contains(&self.upload_lease_s.value) {
            bail!("upload-lease-s is 1 to {SECONDS_MAX}");
        }
        Ok(())
    }

    /// The numbers of a node.
    pub(crate) fn options(&self) -> BlockOptions {
        BlockOptions {
            memory_bytes: self.memory_mb.value * MIB,
            scrub_bytes_per_second: self.scrub_mb.value * MIB,
            reserve_bytes: self.reserve_mb.value * MIB,
            garbage_wait: Duration::from_secs(self.garbage_wait_s.value),
            ..BlockOptions::default()
        }
    }

    /// The limits with what is chosen.
    pub(crate) fn limit(&self, limits: &mut Limits) {
        limits.blocks.lease_ms = self.upload_lease_s.value * 1000;
    }

    /// Each as name, value and origin.
    pub(super) fn rows(&self) -> [(&'static str, String, &Origin); 5] {
        [
            ("block-memory-mb", &self.memory_mb),
            ("scrub-mb", &self.scrub_mb),
            ("block-reserve-mb", &self.reserve_mb),
            ("garbage-wait-s", &self.garbage_wait_s),
            ("upload-lease-s", &self.upload_lease_s),
        ]
        .map(|(name, it)| (name, it.value.to_string(), &it.origin))
    }
}
