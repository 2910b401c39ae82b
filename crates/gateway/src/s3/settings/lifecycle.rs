//! Lifecycle configurations as XML, both ways. Rules that move objects to other classes are
//! refused.

use fader_services::s3::settings::{Expiration, Filter, LifecycleRule};
use jiff::Timestamp;

use crate::s3::fault::{Fault, malformed_xml, not_implemented};
use crate::s3::render::time;
use crate::s3::xml::{Element, Writer};

/// Reads one.
///
/// # Errors
/// MalformedXML, and NotImplemented for transitions.
pub(crate) fn read(body: &[u8]) -> Result<Vec<LifecycleRule>, Fault> {
    let root = Element::parse(body, "LifecycleConfiguration")?;
    root.children("Rule").map(read_rule).collect()
}

/// What a rule may have, each once. A rule that is not understood whole would end more objects than
/// it means.
const OF_RULES: [&str; 7] = [
    "ID",
    "Status",
    "Prefix",
    "Filter",
    "Expiration",
    "NoncurrentVersionExpiration",
    "AbortIncompleteMultipartUpload",
];
/// What a filter may have. AWS takes several in `And` alone; without it they mean the same.
const OF_FILTERS: [&str; 4] = [
    "Prefix",
    "Tag",
    "ObjectSizeGreaterThan",
    "ObjectSizeLessThan",
];

/// Refuses elements that are none of these, and those that come again but for tags.
fn check_children(element: &Element, known: &[&str]) -> Result<(), Fault> {
    let children = &element.children;
    let is_fine = |(at, child): (usize, &Element)| {
        let is_again = children[..at].iter().any(|other| other.name == child.name);
        known.contains(&&*child.name) && (!is_again || child.name == "Tag")
    };
    match children.iter().enumerate().all(is_fine) {
        true => Ok(()),
        false => Err(malformed_xml()),
    }
}

fn read_rule(rule: &Element) -> Result<LifecycleRule, Fault> {
    let moves = ["Transition", "NoncurrentVersionTransition"];
    if let Some(name) = moves.iter().find(|name| rule.child(name).is_some()) {
        return Err(not_implemented(name));
    }
    check_children(rule, &OF_RULES)?;
    let noncurrent = match rule.child("NoncurrentVersionExpiration") {
        None => None,
        Some(it) => {
            let days = it.parsed("NoncurrentDays")?.ok_or_else(malformed_xml)?;
            Some((days, it.parsed("NewerNoncurrentVersions")?.unwrap_or(0)))
        }
    };
    let abort = rule.child("AbortIncompleteMultipartUpload");
    let abort_days = abort.map(|it| it.parsed("DaysAfterInitiation"));
    Ok(LifecycleRule {
        id: match rule.text_of("ID") {
            Some(id) if !id.is_empty() => id.to_owned(),
            _ => format!("{:032x}", rand::random::<u128>()),
        },
        is_plain: rule.child("Filter").is_none(),
        is_enabled: match rule.need("Status")?.trim() {
            "Enabled" => true,
            "Disabled" => false,
            _ => return Err(malformed_xml()),
        },
        filter: read_filter(rule)?,
        expiration: rule.child("Expiration").map(read_expiration).transpose()?,
        noncurrent,
        abort_days: abort_days.transpose()?.flatten(),
    })
}

fn read_filter(rule: &Element) -> Result<Filter, Fault> {
    let mut filter = Filter::default();
    let Some(element) = rule.child("Filter") else {
        // The form before filters.
        rule.need("Prefix")?.clone_into(&mut filter.prefix);
        return Ok(filter);
    };
    let is_of_several = element.child("And").is_some();
    if rule.child("Prefix").is_some() || (is_of_several && element.children.len() != 1) {
        return Err(malformed_xml());
    }
    let element = element.child("And").unwrap_or(element);
    check_children(element, &OF_FILTERS)?;
    element
        .text_of("Prefix")
        .unwrap_or_default()
        .clone_into(&mut filter.prefix);
    filter.larger = element.parsed("ObjectSizeGreaterThan")?;
    filter.smaller = element.parsed("ObjectSizeLessThan")?;
    for tag in element.children("Tag") {
        let pair = (tag.need("Key")?.to_owned(), tag.need("Value")?.to_owned());
        filter.tags.push(pair);
    }
    Ok(filter)
}

fn read_expiration(element: &Element) -> Result<Expiration, Fault> {
    let markers = element.parsed::<bool>("ExpiredObjectDeleteMarker")?;
    let date = element.text_of("Date").map(|text| {
        let text = text.trim();
        let timestamp = text.parse::<Timestamp>().ok().or_else(|| {
            let day: jiff::civil::Date = text.parse().ok()?;
            let midnight = jiff::tz::Offset::UTC.to_timestamp(day.at(0, 0, 0, 0));
            midnight.ok()
        });
        let ms = timestamp.map(Timestamp::as_millisecond);
        ms.and_then(|ms| u64::try_from(ms).ok())
            .ok_or_else(malformed_xml)
    });
    match (element.parsed("Days")?, date.transpose()?, markers) {
        (Some(days), None, None) => Ok(Expiration::Days(days)),
        (None, Some(date), None) => Ok(Expiration::Date(date)),
        (None, None, Some(true)) => Ok(Expiration::Markers),
        _ => Err(malformed_xml()),
    }
}

/// Writes one.
pub(crate) fn show(rules: &[LifecycleRule]) -> Vec<u8> {
    let mut writer = Writer::new("LifecycleConfiguration");
    for rule in rules {
        writer.begin("Rule");
        writer.text("ID", &rule.id);
        match rule.is_plain {
            true => writer.text("Prefix", &rule.filter.prefix),
            false => show_filter(&mut writer, &rule.filter),
        }
        writer.text(
            "Status",
            if rule.is_enabled {
                "Enabled"
            } else {
                "Disabled"
            },
        );
        if let Some(expiration) = rule.expiration {
            writer.begin("Expiration");
            match expiration {
                Expiration::Days(days) => writer.show("Days", days),
                Expiration::Date(at_ms) => writer.text("Date", &time(at_ms)),
                Expiration::Markers => writer.text("ExpiredObjectDeleteMarker", "true"),
            }
            writer.end();
        }
        if let Some((days, newer)) = rule.noncurrent {
            writer.begin("NoncurrentVersionExpiration");
            writer.show("NoncurrentDays", days);
            writer.some("NewerNoncurrentVersions", (0 < newer).then_some(newer));
            writer.end();
        }
        if let Some(days) = rule.abort_days {
            writer.begin("AbortIncompleteMultipartUpload");
            writer.show("DaysAfterInitiation", days);
            writer.end();
        }
        writer.end();
    }
    writer.done()
}

fn show_filter(writer: &mut Writer, filter: &Filter) {
    writer.begin("Filter");
    let conditions = usize::from(!filter.prefix.is_empty())
        + filter.tags.len()
        + usize::from(filter.larger.is_some())
        + usize::from(filter.smaller.is_some());
    let is_several = 1 < conditions;
    if is_several {
        writer.begin("And");
    }
    if !filter.prefix.is_empty() || conditions == 0 {
        writer.text("Prefix", &filter.prefix);
    }
    for (key, value) in &filter.tags {
        writer.begin("Tag");
        writer.text("Key", key);
        writer.text("Value", value);
        writer.end();
    }
    writer.some("ObjectSizeGreaterThan", filter.larger);
    writer.some("ObjectSizeLessThan", filter.smaller);
    if is_several {
        writer.end();
    }
    writer.end();
}
