//! AWS policy documents: who may do what on which resource, evaluated purely.
//!
//! ```text
//! policy    := { "Version"?, "Id"?, "Statement": statement | [statement, ...] }
//! statement := { "Sid"?, "Effect": "Allow" | "Deny", "Principal" | "NotPrincipal",
//!                "Action" | "NotAction", "Resource"? | "NotResource", "Condition"? }
//! principal := "*" | { "AWS": name | [name, ...] }
//! name      := "*" | account | arn:aws:iam::account:root | arn:aws:iam::account:user/key
//! ```
//!
//! Invariants:
//! - PO-1 a request is denied if any statement denies it; else allowed if one allows it.
//! - PO-2 what cannot be understood is refused when a policy is parsed: none is passed over.
//! - PO-3 a principal that is no account of ours (a service, a federation) names no account.
//!
//! Deliberately absent: variables, `ForAllValues` and `ForAnyValue` (every key has one value), and
//! policies of users.

mod condition;
mod wildcard;

use std::collections::BTreeMap;

use serde_json::{Map, Value as Json};

use condition::Condition;
use wildcard::{matches, matches_ignoring_case};

/// Statements of one policy: a bound on what one request costs.
const STATEMENTS_MAX: usize = 100;
/// Values of one list.
const VALUES_MAX: usize = 200;

/// Who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Principal {
    /// An unsigned request.
    Anonymous,
    /// An account as a whole.
    Account(String),
    /// An access key of an account: account and key.
    Key((String, String)),
}
crate::sqs::wire_choice!(Principal, "a principal", {
    0 => Anonymous, 1 => Account(it), 2 => Key(it),
});

impl Principal {
    /// Its account.
    pub fn account(&self) -> Option<&String> {
        match self {
            Principal::Anonymous => None,
            Principal::Account(account) => Some(account),
            Principal::Key((account, _)) => Some(account),
        }
    }

    /// Its name in policies.
    pub(crate) fn arn(&self) -> Option<String> {
        match self {
            Principal::Anonymous => None,
            Principal::Account(account) => Some(format!("arn:aws:iam::{account}:root")),
            Principal::Key((account, key)) => Some(format!("arn:aws:iam::{account}:user/{key}")),
        }
    }
}

/// What is asked of a policy.
#[derive(Clone, Debug)]
pub struct Ask {
    principal: Principal,
    action: String,
    resource: String,
    /// Values of condition keys; names in lower case.
    keys: BTreeMap<String, String>,
}

impl Ask {
    /// May this principal do this on that resource now, in milliseconds since 1970?
    pub fn new(principal: Principal, action: &str, resource: &str, now_ms: u64) -> Self {
        let mut ask = Ask {
            action: action.to_owned(),
            resource: resource.to_owned(),
            keys: BTreeMap::new(),
            principal,
        };
        ask.set("aws:EpochTime", &(now_ms / 1000).to_string());
        ask.set("aws:CurrentTime", &(now_ms / 1000).to_string());
        if let Some(arn) = ask.principal.arn() {
            ask.set("aws:PrincipalArn", &arn);
        }
        if let Some(account) = ask.principal.account().cloned() {
            ask.set("aws:PrincipalAccount", &account);
        }
        ask
    }

    /// Gives a condition key its value.
    pub fn set(&mut self, key: &str, value: &str) {
        self.keys.insert(key.to_ascii_lowercase(), value.to_owned());
    }

    fn get(&self, key: &str) -> Option<&String> {
        self.keys.get(key)
    }
}

/// What a policy says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// A statement denies it.
    Denied,
    /// A statement allows it, and none denies it.
    Allowed,
    /// Nothing.
    Silent,
}

/// A policy that is understood.
#[derive(Clone, Debug)]
pub struct Policy {
    statements: Vec<Statement>,
}

#[derive(Clone, Debug)]
struct Statement {
    is_allow: bool,
    principals: Choice<Option<Vec<String>>>,
    actions: Choice<Vec<String>>,
    resources: Option<Choice<Vec<String>>>,
    conditions: Vec<Condition>,
}

/// What is meant, or all but that.
#[derive(Clone, Debug)]
enum Choice<T> {
    Of(T),
    AllBut(T),
}

impl<T> Choice<T> {
    fn holds(&self, is_in: impl FnOnce(&T) -> bool) -> bool {
        match self {
            Choice::Of(them) => is_in(them),
            Choice::AllBut(them) => !is_in(them),
        }
    }
}

/// Why a document is no policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Malformed(String);

fn malformed<T>(reason: impl Into<String>) -> Result<T, Malformed> {
    Err(Malformed(reason.into()))
}

impl Policy {
    /// Reads a document.
    ///
    /// # Errors
    /// [`Malformed`] with what cannot be understood.
    pub fn parse(text: &str) -> Result<Policy, Malformed> {
        let Ok(Json::Object(document)) = serde_json::from_str(text) else {
            return malformed("a policy is a JSON object");
        };
        let known = ["Version", "Id", "Statement"];
        if let Some(name) = document.keys().find(|name| !known.contains(&name.as_str())) {
            return malformed(format!("a policy has no {name}"));
        }
        match document.get("Version").map(Json::as_str) {
            None | Some(Some("2008-10-17" | "2012-10-17")) => {}
            Some(_) => return malformed("the Version of a policy is 2008-10-17 or 2012-10-17"),
        }
        let statements = match document.get("Statement") {
            Some(Json::Object(one)) => vec![statement(one)?],
            Some(Json::Array(all)) if all.len() <= STATEMENTS_MAX => {
                let read = all.iter().map(|it| match it {
                    Json::Object(one) => statement(one),
                    _ => malformed("a statement is a JSON object"),
                });
                read.collect::<Result<_, _>>()?
            }
            _ => return malformed(format!("a policy has 1 to {STATEMENTS_MAX} statements")),
        };
        Ok(Policy { statements })
    }

    /// Whether it allows something to all accounts, without a condition on where requests come
    /// from.
    pub fn is_public(&self) -> bool {
        let to_all = |it: &Statement| match &it.principals {
            Choice::Of(principals) => principals.is_none(),
            Choice::AllBut(_) => true,
        };
        let is_narrow = |it: &Statement| it.conditions.iter().any(Condition::is_narrow);
        let mut statements = self.statements.iter();
        statements.any(|it| it.is_allow && to_all(it) && !is_narrow(it))
    }

    /// Refuses a policy that is none of the resource `arn`. Such a policy has no statement, or one
    /// about nothing, or about what is neither that nor below it. Or it allows something to all but
    /// some, tests a key that is not known, or has a variable: a denial would never apply (PO-2).
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn check_of(&self, arn: &str, is_key: impl Fn(&str) -> bool) -> Result<(), Malformed> {
        let is_own = |it: &String| {
            let whole = it.split('/').next().unwrap_or_default();
            it == "*" || matches(whole, arn)
        };
        if self.statements.is_empty() {
            return malformed("Could not parse the policy: Statement is empty!");
        }
        for statement in &self.statements {
            if statement.is_allow && matches!(statement.principals, Choice::AllBut(_)) {
                return malformed("Allow with NotPrincipal is not allowed");
            }
            match &statement.resources {
                None => return malformed("Missing required field Resource"),
                Some(Choice::Of(all) | Choice::AllBut(all)) if !all.iter().all(is_own) => {
                    return malformed("Policy has invalid resource");
                }
                Some(Choice::Of(all) | Choice::AllBut(all)) => check_no_variable(all)?,
            }
            for condition in &statement.conditions {
                if !is_key(condition.key()) {
                    return malformed("Policy has an invalid condition key");
                }
                check_no_variable(condition.values())?;
            }
        }
        Ok(())
    }

    /// What it says.
    pub fn evaluate(&self, ask: &Ask) -> Verdict {
        let mut verdict = Verdict::Silent;
        for statement in self.statements.iter().filter(|it| it.applies(ask)) {
            if !statement.is_allow {
                return Verdict::Denied;
            }
            verdict = Verdict::Allowed;
        }
        verdict
    }
}

impl Statement {
    fn applies(&self, ask: &Ask) -> bool {
        let is_resource = |all: &Vec<String>| all.iter().any(|it| matches(it, &ask.resource));
        self.principals
            .holds(|them| names(them.as_deref(), &ask.principal))
            && self
                .actions
                .holds(|all| all.iter().any(|it| matches_ignoring_case(it, &ask.action)))
            && self
                .resources
                .as_ref()
                .is_none_or(|it| it.holds(is_resource))
            && self.conditions.iter().all(|it| it.holds(ask))
    }
}

fn check_no_variable(texts: &[String]) -> Result<(), Malformed> {
    match texts.iter().any(|text| text.contains("${")) {
        true => malformed("Policy variables are not supported"),
        false => Ok(()),
    }
}

/// Whether a list of principals names this one; `None` names all.
fn names(listed: Option<&[String]>, principal: &Principal) -> bool {
    let Some(listed) = listed else { return true };
    listed.iter().any(|name| {
        let Some(account) = principal.account() else {
            return false;
        };
        let of_account = format!("arn:aws:iam::{account}:root");
        name == account || *name == of_account || Some(name) == principal.arn().as_ref()
    })
}

fn statement(it: &Map<String, Json>) -> Result<Statement, Malformed> {
    const KNOWN: [&str; 9] = [
        "Sid",
        "Effect",
        "Principal",
        "NotPrincipal",
        "Action",
        "NotAction",
        "Resource",
        "NotResource",
        "Condition",
    ];
    if let Some(name) = it.keys().find(|name| !KNOWN.contains(&name.as_str())) {
        return malformed(format!("a statement has no {name}"));
    }
    let is_allow = match it.get("Effect").and_then(Json::as_str) {
        Some("Allow") => true,
        Some("Deny") => false,
        _ => return malformed("the Effect of a statement is Allow or Deny"),
    };
    let principals = match choice(it, "Principal", "NotPrincipal")? {
        Some(Choice::Of(of)) => Choice::Of(principals(of)?),
        Some(Choice::AllBut(of)) => Choice::AllBut(principals(of)?),
        None => return malformed("a statement has a Principal or a NotPrincipal"),
    };
    let actions = choice(it, "Action", "NotAction")?;
    let actions = texts_of(actions.as_ref())?;
    let Some(actions) = actions else {
        return malformed("a statement has an Action or a NotAction");
    };
    let resources = texts_of(choice(it, "Resource", "NotResource")?.as_ref())?;
    let conditions = match it.get("Condition") {
        None => Vec::new(),
        Some(Json::Object(conditions)) => condition::parse(conditions)?,
        Some(_) => return malformed("a Condition is a JSON object"),
    };
    Ok(Statement {
        is_allow,
        principals,
        actions,
        resources,
        conditions,
    })
}

fn choice<'a>(
    it: &'a Map<String, Json>,
    of: &str,
    all_but: &str,
) -> Result<Option<Choice<&'a Json>>, Malformed> {
    match (it.get(of), it.get(all_but)) {
        (Some(_), Some(_)) => malformed(format!("a statement has {of} or {all_but}, not both")),
        (Some(of), None) => Ok(Some(Choice::Of(of))),
        (None, Some(all_but)) => Ok(Some(Choice::AllBut(all_but))),
        (None, None) => Ok(None),
    }
}

fn texts_of(choice: Option<&Choice<&Json>>) -> Result<Option<Choice<Vec<String>>>, Malformed> {
    Ok(match choice {
        None => None,
        Some(Choice::Of(of)) => Some(Choice::Of(texts(of)?)),
        Some(Choice::AllBut(of)) => Some(Choice::AllBut(texts(of)?)),
    })
}

/// One text, or a list of them.
fn texts(json: &Json) -> Result<Vec<String>, Malformed> {
    let one = |json: &Json| match json {
        Json::String(text) => Ok(text.clone()),
        Json::Bool(flag) => Ok(flag.to_string()),
        Json::Number(number) => Ok(number.to_string()),
        _ => malformed("a list has texts, numbers or flags"),
    };
    match json {
        Json::Array(all) if all.len() <= VALUES_MAX => all.iter().map(one).collect(),
        Json::Array(_) => malformed(format!("a list has at most {VALUES_MAX} values")),
        json => Ok(vec![one(json)?]),
    }
}

/// The names of a principal; `None` is all. Of others than accounts there are none (PO-3).
fn principals(json: &Json) -> Result<Option<Vec<String>>, Malformed> {
    let everybody = |names: &[String]| names.iter().any(|name| name == "*");
    match json {
        Json::String(all) if all == "*" => Ok(None),
        Json::Object(kinds) => {
            let mut names = Vec::new();
            for (kind, listed) in kinds {
                let listed = texts(listed)?;
                match kind.as_str() {
                    "AWS" if everybody(&listed) => return Ok(None),
                    // The canonical id of an account is its number.
                    "AWS" | "CanonicalUser" => names.extend(listed),
                    "Service" | "Federated" => {}
                    _ => return malformed(format!("a Principal has no {kind}")),
                }
            }
            Ok(Some(names))
        }
        _ => malformed("a Principal is \"*\" or a JSON object"),
    }
}

#[cfg(test)]
mod tests;
