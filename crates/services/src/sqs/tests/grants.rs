//! Who may do what.

use super::fixture::*;
use crate::policy::Principal;
use crate::sqs::command::*;
use crate::sqs::{Code, Reply};

const OTHER: &str = "000000000002";

fn allow(chain: &mut Chain, principal: &str, action: &str, condition: &str) {
    let policy = format!(
        r#"{{"Version":"2012-10-17","Statement":[{{"Effect":"Allow","Principal":{principal},
        "Action":"{action}","Resource":"*"{condition}}}]}}"#
    );
    chain.set(Q, &[("Policy", &policy)]).unwrap();
}

fn send(chain: &mut Chain, caller: Caller) -> Result<(), Code> {
    let owner = std::mem::replace(&mut chain.caller, caller);
    let sent = chain
        .send_entry(Q, entry("x"))
        .map(drop)
        .map_err(|error| error.code);
    chain.caller = owner;
    sent
}

#[test]
fn other_accounts_and_unsigned_requests_need_a_policy() {
    let mut chain = Chain::with_queue(&[]);
    let anonymous = Caller::of(Principal::Anonymous);
    assert_eq!(send(&mut chain, key_of(OTHER)), Err(Code::AccessDenied));
    assert_eq!(send(&mut chain, anonymous.clone()), Err(Code::AccessDenied));
    allow(
        &mut chain,
        &format!(r#"{{"AWS":"{OTHER}"}}"#),
        "sqs:SendMessage",
        "",
    );
    assert_eq!(send(&mut chain, key_of(OTHER)), Ok(()));
    assert_eq!(send(&mut chain, anonymous.clone()), Err(Code::AccessDenied));
    allow(&mut chain, r#""*""#, "SQS:Send*", "");
    assert_eq!(send(&mut chain, anonymous), Ok(()));
    let owner = std::mem::replace(&mut chain.caller, key_of(OTHER));
    let receive = Command::ReceiveMessage(receive(Q, 1));
    assert_eq!(chain.code(receive), Code::AccessDenied, "another action");
    chain.caller = owner;
}

#[test]
fn no_policy_gives_what_is_the_owners() {
    let mut chain = Chain::with_queue(&[]);
    allow(&mut chain, r#""*""#, "*", "");
    chain.caller = key_of(OTHER);
    assert_eq!(chain.receive(Q, 1).len(), 0);
    for command in [
        Command::DeleteQueue(named(Q)),
        Command::ListQueueTags(named(Q)),
        Command::SetQueueAttributes(SetQueueAttributes {
            queue: Q.to_owned(),
            attributes: Vec::new(),
        }),
    ] {
        assert_eq!(chain.code(command), Code::AccessDenied);
    }
}

#[test]
fn a_denial_counts_for_the_owner_too_and_the_owner_can_mend_it() {
    let mut chain = Chain::with_queue(&[]);
    let deny = r#"{"Statement":{"Effect":"Deny","Principal":"*","Action":"*"}}"#;
    chain.set(Q, &[("Policy", deny)]).unwrap();
    let owner = chain.caller.clone();
    assert_eq!(send(&mut chain, owner.clone()), Err(Code::AccessDenied));
    chain.set(Q, &[("Policy", "")]).unwrap();
    assert_eq!(send(&mut chain, owner), Ok(()));
}

#[test]
fn a_key_with_granted_rights_only_has_those_of_policies() {
    let mut chain = Chain::with_queue(&[]);
    let granted = Caller {
        is_granted_only: true,
        ..key_of(ACCOUNT)
    };
    assert_eq!(send(&mut chain, granted.clone()), Err(Code::AccessDenied));
    let key = format!(r#"{{"AWS":"arn:aws:iam::{ACCOUNT}:user/AK{ACCOUNT}"}}"#);
    allow(&mut chain, &key, "sqs:SendMessage", "");
    assert_eq!(send(&mut chain, granted.clone()), Ok(()));
    chain.caller = granted;
    assert_eq!(
        chain.code(Command::DeleteQueue(named(Q))),
        Code::AccessDenied
    );
    assert_eq!(
        chain.create("more", &[]).unwrap_err().code,
        Code::AccessDenied
    );
}

#[test]
fn conditions_see_the_address_and_tls() {
    let mut chain = Chain::with_queue(&[]);
    let condition = r#","Condition":{"IpAddress":{"aws:SourceIp":"10.0.0.0/8"},
        "Bool":{"aws:SecureTransport":"true"}}"#;
    allow(&mut chain, r#""*""#, "sqs:SendMessage", condition);
    let from = |source_ip: &str, is_secure| Caller {
        source_ip: source_ip.to_owned(),
        is_secure,
        ..key_of(OTHER)
    };
    assert_eq!(send(&mut chain, from("10.1.2.3", true)), Ok(()));
    assert_eq!(
        send(&mut chain, from("10.1.2.3", false)),
        Err(Code::AccessDenied)
    );
    assert_eq!(
        send(&mut chain, from("11.1.2.3", true)),
        Err(Code::AccessDenied)
    );
    assert_eq!(send(&mut chain, from("", true)), Err(Code::AccessDenied));
}

#[test]
fn permissions_are_added_and_removed_by_label() {
    let mut chain = Chain::with_queue(&[]);
    let add = |label: &str, accounts: &[&str], actions: &[&str]| {
        Command::AddPermission(AddPermission {
            queue: Q.to_owned(),
            label: label.to_owned(),
            accounts: texts(accounts),
            actions: texts(actions),
        })
    };
    chain.run(add("alice", &[OTHER], &["SendMessage"])).unwrap();
    assert_eq!(send(&mut chain, key_of(OTHER)), Ok(()));
    let policy = chain.attribute(Q, "Policy").unwrap();
    let policy: serde_json::Value = serde_json::from_str(&policy).unwrap();
    let statement = &policy["Statement"][0];
    assert_eq!(statement["Sid"], "alice");
    assert_eq!(statement["Effect"], "Allow");
    assert_eq!(
        statement["Principal"]["AWS"],
        format!("arn:aws:iam::{OTHER}:root")
    );
    assert_eq!(statement["Action"], "SQS:SendMessage");
    assert_eq!(
        statement["Resource"],
        format!("arn:aws:sqs:us-east-1:{ACCOUNT}:{Q}")
    );
    let again = chain.run(add("alice", &[OTHER], &["*"])).unwrap_err();
    assert_eq!(
        again.message,
        "Value alice for parameter Label is invalid. Reason: Already exists."
    );
    let many = ["SendMessage"; 8];
    for (command, code) in [
        (add("b", &[], &["*"]), Code::MissingParameter),
        (add("b", &[OTHER], &[]), Code::MissingParameter),
        (add("b", &["12"], &["*"]), Code::InvalidParameterValue),
        (
            add("b", &[OTHER], &["DeleteQueue"]),
            Code::InvalidParameterValue,
        ),
        (add("b", &[OTHER], &many), Code::OverLimit),
        (add("b c", &[OTHER], &["*"]), Code::InvalidParameterValue),
    ] {
        assert_eq!(chain.code(command), code);
    }
    let remove = Command::RemovePermission(RemovePermission {
        queue: Q.to_owned(),
        label: "alice".to_owned(),
    });
    assert_eq!(chain.run(remove.clone()), Ok(Reply::Done));
    assert_eq!(send(&mut chain, key_of(OTHER)), Err(Code::AccessDenied));
    assert_eq!(chain.attribute(Q, "Policy"), None);
    assert_eq!(chain.code(remove), Code::InvalidParameterValue);
}
