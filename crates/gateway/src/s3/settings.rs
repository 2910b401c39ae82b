//! Settings of buckets as XML, both ways.
//!
//! Deliberately absent: policies, which are JSON as they come; which values are allowed
//! (`services`).

mod lifecycle;

use fader_services::s3::rows::Pairs;
use fader_services::s3::settings::{
    Acl, Canned, CorsRule, GivenAcl, Grantee, Ownership, Permission, PublicAccessBlock, Setting,
    SettingName, Versioning, private,
};
use hyper::HeaderMap;

use crate::s3::fault::{Fault, invalid_argument, malformed_xml, not_implemented};
use crate::s3::head;
use crate::s3::xml::{Element, Writer};

const ALL_USERS: &str = "http://acs.amazonaws.com/groups/global/AllUsers";
const AUTHENTICATED: &str = "http://acs.amazonaws.com/groups/global/AuthenticatedUsers";
const XSI: &str = "xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\" xsi:type=";
/// Headers that grant, and what.
const GRANTS: [(&str, Permission); 5] = [
    ("x-amz-grant-full-control", Permission::FullControl),
    ("x-amz-grant-read", Permission::Read),
    ("x-amz-grant-write", Permission::Write),
    ("x-amz-grant-read-acp", Permission::ReadAcp),
    ("x-amz-grant-write-acp", Permission::WriteAcp),
];

/// Reads the body of a request that changes a setting.
///
/// # Errors
/// MalformedXML, or what is left out.
pub(crate) fn read(name: SettingName, body: &[u8]) -> Result<Setting, Fault> {
    Ok(match name {
        SettingName::Versioning => Setting::Versioning(versioning(body)?),
        SettingName::Tags => Setting::Tags(tags(body)?),
        SettingName::Policy => {
            let text = std::str::from_utf8(body);
            Setting::Policy(text.map_err(|_| malformed_xml())?.to_owned())
        }
        SettingName::Acl => Setting::Acl(GivenAcl::Grants(read_acl(body)?)),
        SettingName::Ownership => Setting::Ownership(ownership(body)?),
        SettingName::PublicAccess => Setting::PublicAccess(public_access(body)?),
        SettingName::Cors => Setting::Cors(cors(body)?),
        SettingName::Lifecycle => Setting::Lifecycle(lifecycle::read(body)?),
    })
}

/// Writes a setting; `owner` is the bucket's.
pub(crate) fn show(setting: &Setting, owner: &str) -> Vec<u8> {
    match setting {
        Setting::Versioning(it) => show_versioning(*it),
        Setting::Tags(it) => show_tags(it),
        Setting::Policy(text) => text.clone().into_bytes(),
        Setting::Acl(GivenAcl::Grants(it)) => show_acl(it, owner),
        // Kept ones are grants.
        Setting::Acl(GivenAcl::Canned(_)) => show_acl(&private(owner), owner),
        Setting::Ownership(it) => show_ownership(*it),
        Setting::PublicAccess(it) => show_public_access(*it),
        Setting::Cors(it) => show_cors(it),
        Setting::Lifecycle(it) => lifecycle::show(it),
    }
}

fn versioning(body: &[u8]) -> Result<Versioning, Fault> {
    let root = Element::parse(body, "VersioningConfiguration")?;
    if root.text_of("MfaDelete").is_some_and(|it| it != "Disabled") {
        return Err(not_implemented("MfaDelete"));
    }
    match root.text_of("Status").map(str::trim) {
        Some("Enabled") => Ok(Versioning::Enabled),
        Some("Suspended") => Ok(Versioning::Suspended),
        _ => Err(malformed_xml()),
    }
}

fn show_versioning(versioning: Versioning) -> Vec<u8> {
    let mut writer = Writer::new("VersioningConfiguration");
    match versioning {
        Versioning::Off => {}
        Versioning::Enabled => writer.text("Status", "Enabled"),
        Versioning::Suspended => writer.text("Status", "Suspended"),
    }
    writer.done()
}

/// Reads tags, of a bucket or of an object.
///
/// # Errors
/// MalformedXML.
pub(crate) fn tags(body: &[u8]) -> Result<Pairs, Fault> {
    let root = Element::parse(body, "Tagging")?;
    tags_in(root.child("TagSet").ok_or_else(malformed_xml)?)
}

/// Reads the tags in an element.
///
/// # Errors
/// MalformedXML.
pub(crate) fn tags_in(set: &Element) -> Result<Pairs, Fault> {
    let read = |tag: &Element| Ok((tag.need("Key")?.to_owned(), tag.need("Value")?.to_owned()));
    set.children("Tag").map(read).collect()
}

/// Writes tags, of a bucket or of an object.
pub(crate) fn show_tags(tags: &Pairs) -> Vec<u8> {
    let mut writer = Writer::new("Tagging");
    writer.begin("TagSet");
    let mut sorted: Vec<&(String, String)> = tags.iter().collect();
    sorted.sort();
    for (key, value) in sorted {
        writer.begin("Tag");
        writer.text("Key", key);
        writer.text("Value", value);
        writer.end();
    }
    writer.done()
}

/// The name of an ownership.
pub(crate) fn ownership_named(text: &str) -> Option<Ownership> {
    Some(match text {
        "BucketOwnerEnforced" => Ownership::BucketOwnerEnforced,
        "BucketOwnerPreferred" => Ownership::BucketOwnerPreferred,
        "ObjectWriter" => Ownership::ObjectWriter,
        _ => return None,
    })
}

fn ownership(body: &[u8]) -> Result<Ownership, Fault> {
    let root = Element::parse(body, "OwnershipControls")?;
    let [rule] = &root.children[..] else {
        return Err(malformed_xml());
    };
    let name = rule.need("ObjectOwnership")?.trim();
    ownership_named(name).ok_or_else(malformed_xml)
}

fn show_ownership(ownership: Ownership) -> Vec<u8> {
    let mut writer = Writer::new("OwnershipControls");
    writer.begin("Rule");
    writer.text("ObjectOwnership", &format!("{ownership:?}"));
    writer.done()
}

fn public_access(body: &[u8]) -> Result<PublicAccessBlock, Fault> {
    let root = Element::parse(body, "PublicAccessBlockConfiguration")?;
    let get = |name| Ok::<_, Fault>(root.parsed::<bool>(name)?.unwrap_or_default());
    Ok(PublicAccessBlock {
        block_public_acls: get("BlockPublicAcls")?,
        ignore_public_acls: get("IgnorePublicAcls")?,
        block_public_policy: get("BlockPublicPolicy")?,
        restrict_public_buckets: get("RestrictPublicBuckets")?,
    })
}

fn show_public_access(block: PublicAccessBlock) -> Vec<u8> {
    let mut writer = Writer::new("PublicAccessBlockConfiguration");
    writer.show("BlockPublicAcls", block.block_public_acls);
    writer.show("IgnorePublicAcls", block.ignore_public_acls);
    writer.show("BlockPublicPolicy", block.block_public_policy);
    writer.show("RestrictPublicBuckets", block.restrict_public_buckets);
    writer.done()
}

fn cors(body: &[u8]) -> Result<Vec<CorsRule>, Fault> {
    let root = Element::parse(body, "CORSConfiguration")?;
    let rule = |rule: &Element| {
        let all = |name| rule.children(name).map(|it| it.text.clone()).collect();
        Ok(CorsRule {
            id: rule.text_of("ID").map(str::to_owned),
            origins: all("AllowedOrigin"),
            methods: all("AllowedMethod"),
            headers: all("AllowedHeader"),
            exposed: all("ExposeHeader"),
            max_age_s: rule.parsed("MaxAgeSeconds")?,
        })
    };
    root.children("CORSRule").map(rule).collect()
}

fn show_cors(rules: &[CorsRule]) -> Vec<u8> {
    let mut writer = Writer::new("CORSConfiguration");
    for rule in rules {
        writer.begin("CORSRule");
        writer.some("ID", rule.id.as_ref());
        let lists = [
            ("AllowedMethod", &rule.methods),
            ("AllowedOrigin", &rule.origins),
            ("AllowedHeader", &rule.headers),
            ("ExposeHeader", &rule.exposed),
        ];
        for (name, list) in lists {
            for value in list {
                writer.text(name, value);
            }
        }
        writer.some("MaxAgeSeconds", rule.max_age_s);
        writer.end();
    }
    writer.done()
}

/// Reads an ACL, of a bucket or of an object.
///
/// # Errors
/// MalformedXML.
pub(crate) fn read_acl(body: &[u8]) -> Result<Acl, Fault> {
    let root = Element::parse(body, "AccessControlPolicy")?;
    let list = root.child("AccessControlList").ok_or_else(malformed_xml)?;
    let grant = |grant: &Element| {
        let grantee = grant.child("Grantee").ok_or_else(malformed_xml)?;
        let grantee = match grantee.kind.as_deref() {
            Some("Group") => group(grantee.need("URI")?)?,
            Some("CanonicalUser") | None => Grantee::Account(grantee.need("ID")?.to_owned()),
            Some(_) => return Err(no_such_email()),
        };
        let permission = permission_named(grant.need("Permission")?.trim());
        Ok((grantee, permission.ok_or_else(malformed_xml)?))
    };
    list.children("Grant").map(grant).collect()
}

/// No account has an address.
fn no_such_email() -> Fault {
    Fault::new(
        "UnresolvableGrantByEmailAddress",
        400,
        "The email address you provided does not match any account on record",
    )
}

fn group(uri: &str) -> Result<Grantee, Fault> {
    match uri.trim() {
        ALL_USERS => Ok(Grantee::AllUsers),
        AUTHENTICATED => Ok(Grantee::AuthenticatedUsers),
        other => Err(invalid_argument("Invalid group uri", "uri", other)),
    }
}

fn permission_named(text: &str) -> Option<Permission> {
    Some(match text {
        "FULL_CONTROL" => Permission::FullControl,
        "READ" => Permission::Read,
        "WRITE" => Permission::Write,
        "READ_ACP" => Permission::ReadAcp,
        "WRITE_ACP" => Permission::WriteAcp,
        _ => return None,
    })
}

fn permission_name(permission: Permission) -> &'static str {
    match permission {
        Permission::FullControl => "FULL_CONTROL",
        Permission::Read => "READ",
        Permission::Write => "WRITE",
        Permission::ReadAcp => "READ_ACP",
        Permission::WriteAcp => "WRITE_ACP",
    }
}

/// The grants that headers ask for: a canned ACL, or grants by name. `None` when none does.
///
/// # Errors
/// InvalidArgument and InvalidRequest.
pub(crate) fn acl_of_headers(headers: &HeaderMap) -> Result<Option<GivenAcl>, Fault> {
    let canned = head::text(headers, "x-amz-acl")?;
    let mut granted = Acl::new();
    for (name, permission) in GRANTS {
        for grantee in head::text(headers, name)?
            .into_iter()
            .flat_map(|it| it.split(','))
        {
            granted.push((read_grantee(name, grantee.trim())?, permission));
        }
    }
    let Some(canned) = canned else {
        return Ok((!granted.is_empty()).then_some(GivenAcl::Grants(granted)));
    };
    if !granted.is_empty() {
        return Err(crate::s3::fault::invalid_request(
            "Specifying both Canned ACLs and Header Grants is not allowed",
        ));
    }
    let named = Canned::named(canned).map(GivenAcl::Canned);
    let named = named.ok_or_else(|| invalid_argument("", "x-amz-acl", canned));
    named.map(Some)
}

fn read_grantee(header: &str, text: &str) -> Result<Grantee, Fault> {
    let invalid = || invalid_argument("Argument format not recognized", header, text);
    let (kind, value) = text.split_once('=').ok_or_else(invalid)?;
    let value = value.trim().trim_matches('"');
    match kind.trim() {
        "id" => Ok(Grantee::Account(value.to_owned())),
        "uri" => group(value),
        "emailAddress" => Err(no_such_email()),
        _ => Err(invalid()),
    }
}

/// Writes the ACL of what this account owns.
pub(crate) fn show_acl(acl: &Acl, owner: &str) -> Vec<u8> {
    let mut writer = Writer::new("AccessControlPolicy");
    writer.begin("Owner");
    writer.text("ID", owner);
    writer.text("DisplayName", owner);
    writer.end();
    writer.begin("AccessControlList");
    // Groups come first, as clients expect it.
    let is_group = |it: &&(Grantee, Permission)| !matches!(it.0, Grantee::Account(_));
    let accounts = acl.iter().filter(|it| !is_group(it));
    for (grantee, permission) in acl.iter().filter(is_group).chain(accounts) {
        writer.begin("Grant");
        match grantee {
            Grantee::Account(id) => {
                writer.begin_with("Grantee", &format!("{XSI}\"CanonicalUser\""));
                writer.text("ID", id);
                writer.text("DisplayName", id);
            }
            Grantee::AllUsers | Grantee::AuthenticatedUsers => {
                writer.begin_with("Grantee", &format!("{XSI}\"Group\""));
                let is_all = *grantee == Grantee::AllUsers;
                writer.text("URI", if is_all { ALL_USERS } else { AUTHENTICATED });
            }
        }
        writer.end();
        writer.text("Permission", permission_name(*permission));
        writer.end();
    }
    writer.done()
}

#[cfg(test)]
mod tests;
