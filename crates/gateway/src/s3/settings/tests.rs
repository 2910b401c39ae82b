//! Settings are shown as they were read, and what is none is refused.

use expect_test::{Expect, expect};

use super::*;

#[track_caller]
fn shown(name: SettingName, body: &str, expected: &Expect) {
    let setting = read(name, body.as_bytes()).expect("it is one");
    let text = show(&setting, "000000000001");
    let again = read(name, &text).expect("what is shown is read");
    assert_eq!(again, setting);
    let text = String::from_utf8(text).expect("it is text");
    let shown = text.split_once('\n').map_or("", |(_, rest)| rest);
    let xsi = "xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\" ";
    expected.assert_eq(&shown.replace("><", ">\n<").replace(xsi, ""));
}

#[test]
fn settings_are_shown_as_they_were_read() {
    shown(
        SettingName::Versioning,
        "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>",
        &expect![[r#"
            <VersioningConfiguration xmlns="http://s3.amazonaws.com/doc/2006-03-01/">
            <Status>Enabled</Status>
            </VersioningConfiguration>"#]],
    );
    shown(
        SettingName::Tags,
        "<Tagging><TagSet><Tag><Key>a&amp;</Key><Value/></Tag></TagSet></Tagging>",
        &expect![[r#"
            <Tagging xmlns="http://s3.amazonaws.com/doc/2006-03-01/">
            <TagSet>
            <Tag>
            <Key>a&amp;</Key>
            <Value>
            </Value>
            </Tag>
            </TagSet>
            </Tagging>"#]],
    );
    shown(
        SettingName::Ownership,
        "<OwnershipControls><Rule><ObjectOwnership>ObjectWriter</ObjectOwnership></Rule>\
         </OwnershipControls>",
        &expect![[r#"
            <OwnershipControls xmlns="http://s3.amazonaws.com/doc/2006-03-01/">
            <Rule>
            <ObjectOwnership>ObjectWriter</ObjectOwnership>
            </Rule>
            </OwnershipControls>"#]],
    );
    shown(
        SettingName::PublicAccess,
        "<PublicAccessBlockConfiguration><BlockPublicAcls>true</BlockPublicAcls>\
         </PublicAccessBlockConfiguration>",
        &expect![[r#"
            <PublicAccessBlockConfiguration xmlns="http://s3.amazonaws.com/doc/2006-03-01/">
            <BlockPublicAcls>true</BlockPublicAcls>
            <IgnorePublicAcls>false</IgnorePublicAcls>
            <BlockPublicPolicy>false</BlockPublicPolicy>
            <RestrictPublicBuckets>false</RestrictPublicBuckets>
            </PublicAccessBlockConfiguration>"#]],
    );
}

#[test]
fn lists_of_rules_and_grants_are_shown_as_they_were_read() {
    shown(
        SettingName::Cors,
        "<CORSConfiguration><CORSRule><AllowedOrigin>*</AllowedOrigin>\
         <AllowedMethod>GET</AllowedMethod><MaxAgeSeconds>3</MaxAgeSeconds></CORSRule>\
         </CORSConfiguration>",
        &expect![[r#"
            <CORSConfiguration xmlns="http://s3.amazonaws.com/doc/2006-03-01/">
            <CORSRule>
            <AllowedMethod>GET</AllowedMethod>
            <AllowedOrigin>*</AllowedOrigin>
            <MaxAgeSeconds>3</MaxAgeSeconds>
            </CORSRule>
            </CORSConfiguration>"#]],
    );
    shown(
        SettingName::Acl,
        "<AccessControlPolicy><AccessControlList><Grant><Grantee xmlns:xsi=\"x\" \
         xsi:type=\"Group\"><URI>http://acs.amazonaws.com/groups/global/AllUsers</URI></Grantee>\
         <Permission>READ</Permission></Grant></AccessControlList></AccessControlPolicy>",
        &expect![[r#"
            <AccessControlPolicy xmlns="http://s3.amazonaws.com/doc/2006-03-01/">
            <Owner>
            <ID>000000000001</ID>
            <DisplayName>000000000001</DisplayName>
            </Owner>
            <AccessControlList>
            <Grant>
            <Grantee xsi:type="Group">
            <URI>http://acs.amazonaws.com/groups/global/AllUsers</URI>
            </Grantee>
            <Permission>READ</Permission>
            </Grant>
            </AccessControlList>
            </AccessControlPolicy>"#]],
    );
}

#[test]
fn rules_of_lifecycles_are_shown_as_they_were_read() {
    shown(
        SettingName::Lifecycle,
        "<LifecycleConfiguration><Rule><ID>r</ID><Status>Enabled</Status><Filter><And>\
         <Prefix>p</Prefix><Tag><Key>k</Key><Value>v</Value></Tag></And></Filter>\
         <Expiration><Date>2026-11-25T00:00:00Z</Date></Expiration>\
         <NoncurrentVersionExpiration><NoncurrentDays>3</NoncurrentDays>\
         </NoncurrentVersionExpiration></Rule></LifecycleConfiguration>",
        &expect![[r#"
            <LifecycleConfiguration xmlns="http://s3.amazonaws.com/doc/2006-03-01/">
            <Rule>
            <ID>r</ID>
            <Filter>
            <And>
            <Prefix>p</Prefix>
            <Tag>
            <Key>k</Key>
            <Value>v</Value>
            </Tag>
            </And>
            </Filter>
            <Status>Enabled</Status>
            <Expiration>
            <Date>2026-11-25T00:00:00.000Z</Date>
            </Expiration>
            <NoncurrentVersionExpiration>
            <NoncurrentDays>3</NoncurrentDays>
            </NoncurrentVersionExpiration>
            </Rule>
            </LifecycleConfiguration>"#]],
    );
}

#[test]
fn an_unknown_setting_is_refused() {
    let rule = |inner: &str| {
        format!("<LifecycleConfiguration><Rule>{inner}</Rule></LifecycleConfiguration>")
    };
    let moves = rule("<Prefix/><Status>Enabled</Status><Transition/>");
    let both = rule(
        "<Prefix/><Status>Enabled</Status><Expiration><Days>1</Days>\
         <Date>2026-01-01</Date></Expiration>",
    );
    for (name, body, code) in [
        (
            SettingName::Versioning,
            "<VersioningConfiguration/>",
            "MalformedXML",
        ),
        (SettingName::Tags, "<Tagging/>", "MalformedXML"),
        (
            SettingName::Tags,
            "<Tagging><TagSet><Tag/></TagSet></Tagging>",
            "MalformedXML",
        ),
        (
            SettingName::Ownership,
            "<OwnershipControls/>",
            "MalformedXML",
        ),
        (SettingName::Acl, "<AccessControlPolicy/>", "MalformedXML"),
        (SettingName::Cors, "", "MalformedXML"),
        (SettingName::Lifecycle, &moves, "NotImplemented"),
        (SettingName::Lifecycle, &both, "MalformedXML"),
    ] {
        let outcome = read(name, body.as_bytes()).map_err(|fault| fault.code);
        assert_eq!(outcome, Err(code), "{body}");
    }
}

#[test]
fn a_lifecycle_rule_that_is_not_understood_whole_is_refused() {
    let read = |inner: &str| {
        let rule =
            format!("<Status>Enabled</Status><Expiration><Days>1</Days></Expiration>{inner}");
        let body = format!("<LifecycleConfiguration><Rule>{rule}</Rule></LifecycleConfiguration>");
        read(SettingName::Lifecycle, body.as_bytes()).map_err(|fault| fault.code)
    };
    let tag = "<Tag><Key>k</Key><Value>v</Value></Tag>";
    for filter in [
        String::new(),
        "<Prefix>a</Prefix>".to_owned(),
        tag.to_owned(),
        "<ObjectSizeLessThan>5</ObjectSizeLessThan>".to_owned(),
        format!("<Prefix>a</Prefix>{tag}"),
        format!("<And><Prefix>a</Prefix>{tag}<Tag><Key>l</Key><Value/></Tag></And>"),
    ] {
        assert!(
            read(&format!("<Filter>{filter}</Filter>")).is_ok(),
            "{filter}"
        );
    }
    for inner in [
        "<Prefix>a</Prefix><Filter/>".to_owned(),
        "<Filter><Prefx>a</Prefx></Filter>".to_owned(),
        format!("<Filter><Prefix>a</Prefix><And>{tag}</And></Filter>"),
        "<Filter><And><Prefix>a</Prefix><Prefix>b</Prefix></And></Filter>".to_owned(),
        "<Filter><And><And/></And></Filter>".to_owned(),
        "<Filter/><Filter><Prefix>a</Prefix></Filter>".to_owned(),
        "<Filter/><Odd/>".to_owned(),
    ] {
        assert_eq!(read(&inner), Err("MalformedXML"), "{inner}");
    }
}

#[test]
fn canned_acls_and_grants_are_read_from_headers() {
    let of = |name: &'static str, value: &'static str| {
        let mut headers = HeaderMap::new();
        headers.insert(name, hyper::header::HeaderValue::from_static(value));
        acl_of_headers(&headers).map_err(|fault| fault.code)
    };
    let canned = |canned| Ok(Some(GivenAcl::Canned(canned)));
    assert_eq!(of("x-amz-acl", "private"), canned(Canned::Private));
    assert_eq!(of("x-amz-acl", "public-read"), canned(Canned::PublicRead));
    assert_eq!(of("x-amz-acl", "odd"), Err("InvalidArgument"));
    let write = vec![(Grantee::Account("2".to_owned()), Permission::Write)];
    let write = Ok(Some(GivenAcl::Grants(write)));
    assert_eq!(of("x-amz-grant-write", "id=\"2\""), write);
    let code = "UnresolvableGrantByEmailAddress";
    assert_eq!(of("x-amz-grant-read", "emailAddress=\"a@b\""), Err(code));
    assert_eq!(of("x-amz-grant-read", "2"), Err("InvalidArgument"));
    assert_eq!(acl_of_headers(&HeaderMap::new()), Ok(None));
}
