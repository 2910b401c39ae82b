//! Cross-origin requests: the first rule of a bucket that is about a request.

use fader_services::s3::settings::CorsRule;

/// What a browser asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'a> {
    /// `Origin`.
    pub(crate) origin: &'a str,
    /// The method, or that of the request that is to come.
    pub(crate) method: &'a str,
    /// `Access-Control-Request-Headers`.
    pub(crate) headers: &'a str,
}

/// Headers of a reply that let a page of another origin see it; `None` when no rule does.
pub(crate) fn headers(
    rules: &[CorsRule],
    asked: Asked<'_>,
    is_preflight: bool,
) -> Option<Vec<(&'static str, String)>> {
    let wanted = || {
        let names = asked
            .headers
            .split(',')
            .map(|it| it.trim().to_ascii_lowercase());
        names.filter(|name| !name.is_empty())
    };
    let is_about = |rule: &&CorsRule| {
        let has_origin = rule.origins.iter().any(|it| matches(it, asked.origin));
        let has_method = rule.methods.iter().any(|it| it == asked.method);
        let has = |name: &str| {
            rule.headers
                .iter()
                .any(|it| matches(&it.to_ascii_lowercase(), name))
        };
        has_origin && has_method && wanted().all(|name| has(&name))
    };
    let rule = rules.iter().find(is_about)?;
    let is_any = rule.origins.iter().any(|it| it == "*");
    let mut out = Vec::new();
    match is_any {
        true => out.push(("access-control-allow-origin", "*".to_owned())),
        false => {
            out.push(("access-control-allow-origin", asked.origin.to_owned()));
            out.push(("access-control-allow-credentials", "true".to_owned()));
        }
    }
    out.push(("access-control-allow-methods", rule.methods.join(", ")));
    if is_preflight {
        let names: Vec<String> = wanted().collect();
        if !names.is_empty() {
            out.push(("access-control-allow-headers", names.join(", ")));
        }
        if let Some(seconds) = rule.max_age_s {
            out.push(("access-control-max-age", seconds.to_string()));
        }
    }
    if !rule.exposed.is_empty() {
        out.push(("access-control-expose-headers", rule.exposed.join(", ")));
    }
    let vary = "Origin, Access-Control-Request-Headers, Access-Control-Request-Method";
    out.push(("vary", vary.to_owned()));
    Some(out)
}

/// Whether a text is of a pattern, which has one `*` at most.
fn matches(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((start, end)) => {
            start.len() + end.len() <= text.len() && text.starts_with(start) && text.ends_with(end)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(origin: &str, methods: &[&str], headers: &[&str]) -> CorsRule {
        CorsRule {
            origins: vec![origin.to_owned()],
            methods: methods.iter().map(|it| (*it).to_owned()).collect(),
            headers: headers.iter().map(|it| (*it).to_owned()).collect(),
            max_age_s: Some(60),
            ..CorsRule::default()
        }
    }

    #[test]
    fn the_first_rule_about_a_request_counts() {
        let rules = [
            rule("https://*.example.com", &["PUT"], &["X-Amz-*"]),
            rule("*", &["GET"], &[]),
        ];
        let ask = |origin, method, wanted| {
            let asked = Asked {
                origin,
                method,
                headers: wanted,
            };
            headers(&rules, asked, true).map(|all| all[0].1.clone())
        };
        let own = Some("https://a.example.com".to_owned());
        assert_eq!(
            ask("https://a.example.com", "PUT", "x-amz-date, X-AMZ-acl"),
            own
        );
        assert_eq!(ask("https://a.example.com", "PUT", "content-type"), None);
        assert_eq!(ask("https://example.com", "PUT", ""), None);
        assert_eq!(ask("http://other", "GET", ""), Some("*".to_owned()));
        assert_eq!(ask("http://other", "GET", "x-odd"), None);
        assert!(!matches("aa*aa", "aaa"));
    }
}
