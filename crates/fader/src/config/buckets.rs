//! The options of `fader serve` about buckets.

use anyhow::{Result, bail};
use fader_services::request::Limits;
use fader_services::s3::settings::Ownership;

use super::{Choice, Origin, Setting, Values};

/// A lifecycle's day, in seconds.
const DAY_S: u64 = 86_400;
const OWNERSHIPS: [(&str, Ownership); 3] = [
    ("BucketOwnerEnforced", Ownership::BucketOwnerEnforced),
    ("BucketOwnerPreferred", Ownership::BucketOwnerPreferred),
    ("ObjectWriter", Ownership::ObjectWriter),
];

/// What is chosen.
#[derive(Clone, Debug)]
pub(crate) struct Buckets {
    domain: Setting<String>,
    ownership: Setting<String>,
    public_access: Setting<bool>,
    day_s: Setting<u64>,
}

impl Buckets {
    pub(super) fn choose(choice: &Choice<'_>, given: &Values, filed: &Values) -> Self {
        let text = |id, of: fn(&Values) -> &Option<String>, default: &str| {
            choice.pick(id, of(given).clone(), of(filed).clone(), default.to_owned())
        };
        Buckets {
            domain: text("s3_domain", |it| &it.s3_domain, "localhost"),
            ownership: text("s3_ownership", |it| &it.s3_ownership, OWNERSHIPS[0].0),
            public_access: choice.pick(
                "s3_public_access",
                given.s3_public_access,
                filed.s3_public_access,
                false,
            ),
            day_s: choice.pick("s3_day_s", given.s3_day_s, filed.s3_day_s, DAY_S),
        }
    }

    /// Refuses what makes no sense.
    pub(super) fn check(&self) -> Result<()> {
        if self.owned().is_none() {
            let names = OWNERSHIPS.map(|it| it.0).join(", ");
            bail!("s3-ownership is one of {names}");
        }
        if !(1..=DAY_S).contains(&self.day_s.value) {
            bail!("s3-day-s is 1 to {DAY_S}");
        }
        Ok(())
    }

    fn owned(&self) -> Option<Ownership> {
        let mut all = OWNERSHIPS.into_iter();
        let found = all.find(|(name, _)| *name == self.ownership.value);
        found.map(|(_, ownership)| ownership)
    }

    /// Domains below which a host names a bucket.
    pub(crate) fn domains(&self) -> Vec<String> {
        super::names(&self.domain.value)
    }

    /// The limits with what is chosen.
    pub(super) fn limit(&self, limits: &mut Limits) {
        limits.s3.ownership = self.owned().unwrap_or_default();
        if self.public_access.value {
            limits.s3.public_access = None;
        }
        limits.s3.day_ms = self.day_s.value * 1000;
    }

    /// Each as name, value and origin.
    pub(super) fn rows(&self) -> [(&'static str, String, &Origin); 4] {
        [
            ("s3-domain", self.domain.value.clone(), &self.domain.origin),
            (
                "s3-ownership",
                self.ownership.value.clone(),
                &self.ownership.origin,
            ),
            (
                "s3-public-access",
                self.public_access.value.to_string(),
                &self.public_access.origin,
            ),
            ("s3-day-s", self.day_s.value.to_string(), &self.day_s.origin),
        ]
    }
}
