//! Requests about buckets: as a whole, their settings and their lists.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use fader_services::Mode;
use fader_services::policy::Policy;
use fader_services::s3::command::{
    CreateBucket, DeleteObjects, Deletion, HeadBucket, List, ListBuckets, Named, OneSetting,
    PutSetting,
};
use fader_services::s3::reply::{Buckets, Page};
use fader_services::s3::rows::Pairs;
use fader_services::s3::settings::{Setting, SettingName, Settings, check_tags};
use fader_services::s3::{Action, Code, Command, Error, Reply};
use hyper::StatusCode;
use hyper::body::Incoming;
use parking_lot::Mutex;

use super::{Answer, Asked, REGION, odd, plain, set, xml};
use crate::s3::fault::{Fault, invalid_argument, invalid_request, malformed_xml, not_implemented};
use crate::s3::render::{Encoding, Listing};
use crate::s3::xml::Element;
use crate::s3::{Feature, Operation, head, render, settings};
use crate::signature::ChunkKey;

/// Entries of a page, unless fewer are asked for.
const PAGE: usize = 1000;

impl Asked<'_> {
    pub(super) async fn of_bucket(
        &self,
        body: &Mutex<Option<Incoming>>,
        key: Option<ChunkKey>,
    ) -> Answer {
        use Operation as O;
        use SettingName as N;
        match self.operation {
            O::ListBuckets => self.list_buckets().await,
            O::CreateBucket => {
                let body = self.xml(body, key).await?;
                self.create_bucket(&body).await
            }
            O::HeadBucket => {
                let settings = self.settings(Action::ListBucket).await?;
                let mut response = plain(StatusCode::OK);
                set(&mut response, "x-amz-bucket-region", &settings.region);
                Ok(response)
            }
            O::DeleteBucket => {
                let bucket = self.bucket();
                self.call(Command::DeleteBucket(Named { bucket })).await?;
                Ok(plain(StatusCode::NO_CONTENT))
            }
            O::GetBucketLocation => {
                let settings = self.settings(Action::GetBucketLocation).await?;
                Ok(xml(render::location(&settings.region)))
            }
            O::GetBucketPolicyStatus => self.policy_status().await,
            O::ListObjects => self.list_objects().await,
            O::ListObjectsV2 => self.list_objects_v2().await,
            O::ListObjectVersions => self.list_versions().await,
            O::ListMultipartUploads => self.list_uploads().await,
            O::GetBucketAcl => self.get_setting(N::Acl).await,
            O::GetBucketCors => self.get_setting(N::Cors).await,
            O::GetBucketLifecycle => self.get_setting(N::Lifecycle).await,
            O::GetBucketOwnershipControls => self.get_setting(N::Ownership).await,
            O::GetBucketPolicy => self.get_setting(N::Policy).await,
            O::GetBucketTagging => self.get_setting(N::Tags).await,
            O::GetBucketVersioning => self.get_setting(N::Versioning).await,
            O::GetPublicAccessBlock => self.get_setting(N::PublicAccess).await,
            O::DeleteBucketCors => self.delete_setting(N::Cors).await,
            O::DeleteBucketLifecycle => self.delete_setting(N::Lifecycle).await,
            O::DeleteBucketOwnershipControls => self.delete_setting(N::Ownership).await,
            O::DeleteBucketPolicy => self.delete_setting(N::Policy).await,
            O::DeleteBucketTagging => self.delete_setting(N::Tags).await,
            O::DeletePublicAccessBlock => self.delete_setting(N::PublicAccess).await,
            O::Absent(feature) => {
                self.settings(Action::ListBucket).await?;
                self.absent(feature)
            }
            other => {
                let name = match other {
                    O::PutBucketAcl => N::Acl,
                    O::PutBucketCors => N::Cors,
                    O::PutBucketLifecycle => N::Lifecycle,
                    O::PutBucketOwnershipControls => N::Ownership,
                    O::PutBucketPolicy => N::Policy,
                    O::PutBucketTagging => N::Tags,
                    O::PutBucketVersioning => N::Versioning,
                    O::PutPublicAccessBlock => N::PublicAccess,
                    other => return Err(not_implemented(other.name())),
                };
                let body = self.xml(body, key).await?;
                self.put_setting(name, &body).await
            }
        }
    }

    /// What is set on the bucket, for one who may do this with it.
    async fn settings(&self, action: Action) -> Result<Box<Settings>, Fault> {
        let command = HeadBucket {
            bucket: self.bucket(),
            action,
            key: None,
        };
        match self.call(Command::HeadBucket(command)).await? {
            Reply::Bucket(settings) => Ok(settings),
            other => Err(odd(&other)),
        }
    }

    async fn list_buckets(&self) -> Answer {
        let prefix = self.parameters.get("prefix").unwrap_or_default();
        let region = self.parameters.get("bucket-region");
        let region = region.filter(|region| !region.is_empty());
        let count = self.count("max-buckets", "MaxBuckets")?;
        let command = ListBuckets {
            prefix: prefix.to_owned(),
            after: self.parameters.get("continuation-token").map(str::to_owned),
            // A page of a region is chosen from all.
            count: count.filter(|count| region.is_none() || *count == 0),
        };
        match self.call(Command::ListBuckets(command)).await? {
            Reply::Buckets(mut page) => {
                if let Some(region) = region {
                    keep_region(&mut page, region, count);
                }
                Ok(xml(render::buckets(&self.by.account.0, prefix, &page)))
            }
            other => Err(odd(&other)),
        }
    }

    async fn create_bucket(&self, body: &[u8]) -> Answer {
        let (region, tags) = read_configuration(body)?;
        check_tags(&tags, self.limits().bucket_tags)?;
        if region.as_ref().is_some_and(|region| 64 < region.len()) {
            return Err(Fault::new(
                "InvalidLocationConstraint",
                400,
                "The specified location-constraint is not valid",
            ));
        }
        let lock = self.header("x-amz-bucket-object-lock-enabled")?;
        if lock.is_some_and(|it| it.eq_ignore_ascii_case("true")) {
            return Err(not_implemented("x-amz-bucket-object-lock-enabled"));
        }
        let ownership = self.header("x-amz-object-ownership")?.map(|text| {
            let invalid = || invalid_argument("Invalid ownership.", "x-amz-object-ownership", text);
            settings::ownership_named(text).ok_or_else(invalid)
        });
        let ownership = ownership.transpose()?;
        let command = CreateBucket {
            bucket: self.bucket(),
            region: region.unwrap_or_else(|| REGION.to_owned()),
            ownership,
            acl: settings::acl_of_headers(&self.parts.headers)?,
            mode: self.mode.map(Mode::byte),
        };
        self.call(Command::CreateBucket(command)).await?;
        if !tags.is_empty() {
            let setting = Setting::Tags(tags);
            let bucket = self.bucket();
            self.call(Command::PutSetting(PutSetting { bucket, setting }))
                .await?;
        }
        let mut response = plain(StatusCode::OK);
        set(
            &mut response,
            "location",
            &format!("/{}", self.place.bucket),
        );
        Ok(response)
    }

    async fn put_setting(&self, name: SettingName, body: &[u8]) -> Answer {
        let status = match name {
            SettingName::Tags | SettingName::Policy => StatusCode::NO_CONTENT,
            _ => StatusCode::OK,
        };
        let of_headers = match name {
            SettingName::Acl => settings::acl_of_headers(&self.parts.headers)?,
            _ => None,
        };
        let command = PutSetting {
            bucket: self.bucket(),
            setting: match of_headers {
                Some(acl) => Setting::Acl(acl),
                None => settings::read(name, body)?,
            },
        };
        self.call(Command::PutSetting(command)).await?;
        Ok(plain(status))
    }

    async fn get_setting(&self, name: SettingName) -> Answer {
        let bucket = self.bucket();
        match self
            .call(Command::GetSetting(OneSetting { bucket, name }))
            .await?
        {
            Reply::Setting(setting) => {
                let owner = match name {
                    SettingName::Acl => self.settings(Action::GetBucketAcl).await?.owner,
                    _ => String::new(),
                };
                let mut response = xml(settings::show(&setting, &owner));
                if name == SettingName::Policy {
                    set(&mut response, "content-type", "application/json");
                }
                Ok(response)
            }
            other => Err(odd(&other)),
        }
    }

    async fn delete_setting(&self, name: SettingName) -> Answer {
        let bucket = self.bucket();
        self.call(Command::DeleteSetting(OneSetting { bucket, name }))
            .await?;
        Ok(plain(StatusCode::NO_CONTENT))
    }

    async fn policy_status(&self) -> Answer {
        let text = self.settings(Action::GetBucketPolicyStatus).await?.policy;
        let text = text.ok_or_else(|| Error::of(Code::NoSuchBucketPolicy))?;
        let is_public = Policy::parse(&text).is_ok_and(|policy| policy.is_public());
        Ok(xml(render::one("PolicyStatus", "IsPublic", is_public)))
    }

    /// What AWS answers for a bucket without a feature.
    fn absent(&self, feature: Feature) -> Answer {
        let missing = |code, message| Err(Fault::new(code, 404, message));
        let has_id = self.parameters.get("id").is_some();
        match feature {
            Feature::Accelerate => Ok(xml(render::empty("AccelerateConfiguration"))),
            Feature::Logging => Ok(xml(render::empty("BucketLoggingStatus"))),
            Feature::Notification => Ok(xml(render::empty("NotificationConfiguration"))),
            Feature::RequestPayment => Ok(xml(render::one(
                "RequestPaymentConfiguration",
                "Payer",
                "BucketOwner",
            ))),
            Feature::Analytics
            | Feature::IntelligentTiering
            | Feature::Inventory
            | Feature::Metrics
                if !has_id =>
            {
                let root = match feature {
                    Feature::Analytics => "ListBucketAnalyticsConfigurationResult",
                    Feature::Inventory => "ListInventoryConfigurationsResult",
                    Feature::Metrics => "ListMetricsConfigurationsResult",
                    _ => "ListBucketIntelligentTieringConfigurationsOutput",
                };
                Ok(xml(render::one(root, "IsTruncated", "false")))
            }
            Feature::Analytics
            | Feature::IntelligentTiering
            | Feature::Inventory
            | Feature::Metrics => missing(
                "NoSuchConfiguration",
                "The specified configuration does not exist.",
            ),
            Feature::Encryption => missing(
                "ServerSideEncryptionConfigurationNotFoundError",
                "The server side encryption configuration was not found",
            ),
            Feature::ObjectLock => missing(
                "ObjectLockConfigurationNotFoundError",
                "Object Lock configuration does not exist for this bucket",
            ),
            Feature::Replication => missing(
                "ReplicationConfigurationNotFoundError",
                "The replication configuration was not found",
            ),
            Feature::Website => missing(
                "NoSuchWebsiteConfiguration",
                "The specified bucket does not have a website configuration",
            ),
            Feature::LegalHold | Feature::Retention => Err(invalid_request(
                "Bucket is missing Object Lock Configuration",
            )),
        }
    }

    /// A number among the parameters.
    pub(super) fn count(&self, name: &str, shown: &str) -> Result<Option<usize>, Fault> {
        let text = self.parameters.get(name).filter(|text| !text.is_empty());
        let count = text.map(|text| {
            let number = text
                .parse::<u32>()
                .ok()
                .filter(|it| i32::try_from(*it).is_ok());
            number.map(|it| it as usize).ok_or_else(|| {
                let message = match text.parse::<i64>() {
                    Ok(_) => format!("Argument {name} must be an integer between 0 and 2147483647"),
                    Err(_) => format!("Provided {name} not an integer or within integer range"),
                };
                invalid_argument(message, shown, text)
            })
        });
        count.transpose()
    }

    pub(super) fn encoding(&self) -> Result<Encoding, Fault> {
        match self.parameters.get("encoding-type") {
            None => Ok(Encoding { is_url: false }),
            Some("url") => Ok(Encoding { is_url: true }),
            Some(other) => Err(invalid_argument(
                "Invalid Encoding Method specified in Request",
                "encoding-type",
                other,
            )),
        }
    }

    /// What all lists have: prefix, delimiter, where they begin, how many entries they have.
    fn list(
        &self,
        after: &str,
        after_id: Option<&str>,
        most: &str,
    ) -> Result<(List, usize), Fault> {
        let get = |name: &str| self.parameters.get(name).filter(|it| !it.is_empty());
        let count = self.count(most, most)?;
        let list = List {
            bucket: self.bucket(),
            prefix: get("prefix").unwrap_or_default().to_owned(),
            delimiter: get("delimiter").unwrap_or_default().to_owned(),
            after: get(after).map(str::to_owned),
            after_id: after_id.and_then(get).map(str::to_owned),
            count: Some(count.unwrap_or(PAGE).min(PAGE)),
        };
        Ok((list, count.unwrap_or(PAGE)))
    }

    async fn page(&self, command: Command) -> Result<Page, Fault> {
        match self.call(command).await? {
            Reply::Page(page) => Ok(page),
            other => Err(odd(&other)),
        }
    }

    async fn list_objects(&self) -> Answer {
        let (list, max_keys) = self.list("marker", None, "max-keys")?;
        let page = self.page(Command::ListObjects(list.clone())).await?;
        let listing = Listing {
            list: &list,
            max_keys: max_keys.min(PAGE),
            encoding: self.encoding()?,
            has_owner: true,
            token: None,
            start_after: None,
        };
        Ok(xml(render::objects(&listing, &page)))
    }

    async fn list_objects_v2(&self) -> Answer {
        let (mut list, max_keys) = self.list("start-after", None, "max-keys")?;
        let start_after = list.after.clone();
        let token = self.parameters.get("continuation-token");
        if let Some(token) = token {
            list.after = Some(read_token(token)?);
        }
        let page = self.page(Command::ListObjects(list.clone())).await?;
        let is_owner_wanted = self.parameters.get("fetch-owner") == Some("true");
        let listing = Listing {
            list: &list,
            max_keys: max_keys.min(PAGE),
            encoding: self.encoding()?,
            has_owner: is_owner_wanted,
            token,
            start_after: start_after.as_deref(),
        };
        let next = page.next.as_ref().map(|(key, _)| show_token(key));
        Ok(xml(render::objects_v2(&listing, &page, next.as_deref())))
    }

    async fn list_versions(&self) -> Answer {
        let (list, max_keys) = self.list("key-marker", Some("version-id-marker"), "max-keys")?;
        if list.after_id.is_some() && list.after.is_none() {
            return Err(invalid_argument(
                "A version-id marker cannot be specified without a key marker.",
                "version-id-marker",
                list.after_id.unwrap_or_default(),
            ));
        }
        let page = self.page(Command::ListVersions(list.clone())).await?;
        let listing = Listing {
            list: &list,
            max_keys: max_keys.min(PAGE),
            encoding: self.encoding()?,
            has_owner: true,
            token: None,
            start_after: None,
        };
        Ok(xml(render::versions(&listing, &page)))
    }

    async fn list_uploads(&self) -> Answer {
        let (mut list, max) = self.list("key-marker", Some("upload-id-marker"), "max-uploads")?;
        if list.after.is_none() {
            // It counts with a key only.
            list.after_id = None;
        }
        let page = self.page(Command::ListUploads(list.clone())).await?;
        let listing = Listing {
            list: &list,
            max_keys: max.min(PAGE),
            encoding: self.encoding()?,
            has_owner: true,
            token: None,
            start_after: None,
        };
        Ok(xml(render::uploads(&listing, &page)))
    }

    pub(super) async fn delete_objects(&self, body: &[u8]) -> Answer {
        let root = Element::parse(body, "Delete")?;
        let is_quiet = root.parsed::<bool>("Quiet")?.unwrap_or_default();
        let mut asked = Vec::new();
        let mut objects = Vec::new();
        let mut outcomes: Vec<Option<Error>> = Vec::new();
        for object in root.children("Object") {
            let key = object.need("Key")?.to_owned();
            let text = object.text_of("VersionId").filter(|it| !it.is_empty());
            let version = text.map(str::parse).transpose();
            asked.push((key.clone(), text.map(str::to_owned)));
            match version {
                Ok(version) => {
                    outcomes.push(None);
                    objects.push(Deletion {
                        key,
                        version,
                        conditions: head::conditions_of_element(object)?,
                    });
                }
                Err(_) => outcomes.push(Some(Error::of(Code::NoSuchVersion))),
            }
        }
        if asked.is_empty() || self.limits().delete_keys < asked.len() {
            return Err(malformed_xml());
        }
        let several = match objects.is_empty() {
            true => Vec::new(),
            false => {
                let bucket = self.bucket();
                let command = DeleteObjects { bucket, objects };
                match self.call(Command::DeleteObjects(command)).await? {
                    Reply::DeletedSeveral(several) => several,
                    other => return Err(odd(&other)),
                }
            }
        };
        let mut several = several.into_iter();
        let outcomes: Vec<_> = outcomes
            .into_iter()
            .filter_map(|refused| refused.map(Err).or_else(|| several.next()))
            .collect();
        Ok(xml(render::deleted(&asked, &outcomes, is_quiet)))
    }
}

/// Reads the body of CreateBucket: the region and the tags.
fn read_configuration(body: &[u8]) -> Result<(Option<String>, Pairs), Fault> {
    if body.is_empty() {
        return Ok((None, Pairs::new()));
    }
    let root = Element::parse(body, "CreateBucketConfiguration")?;
    let region = root.text_of("LocationConstraint").map(str::trim);
    let region = region.filter(|region| !region.is_empty());
    let tags = root.child("Tags").map(settings::tags_in).transpose()?;
    Ok((region.map(str::to_owned), tags.unwrap_or_default()))
}

/// Keeps the buckets of a region, and of them so many.
fn keep_region(page: &mut Buckets, region: &str, count: Option<usize>) {
    page.buckets.retain(|(_, settings)| {
        let of = settings.as_ref().map(|settings| &*settings.region);
        of == Some(region)
    });
    if let Some(count) = count.filter(|count| *count < page.buckets.len()) {
        page.buckets.truncate(count);
        page.next = page.buckets.last().map(|(name, _)| name.clone());
    }
}

/// The token of the page after a key.
fn show_token(key: &str) -> String {
    BASE64.encode(key)
}

fn read_token(token: &str) -> Result<String, Fault> {
    let bytes = BASE64.decode(token).ok();
    let key = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
    key.ok_or_else(|| {
        let message = "The continuation token provided is incorrect";
        invalid_argument(message, "continuation-token", token)
    })
}
