//! The administrator's socket.

use fader_gateway::Settings;
use fader_services::ErrorCode;
use serde_json::Value;

use crate::server::{KEY_ID, Server, anonymous, exchange};

async fn ask(server: &Server, method: &str, path: &str, body: &str) -> (u16, serde_json::Value) {
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let reply = exchange(server.connect_control().await, request.as_bytes()).await;
    let status = reply.split(' ').nth(1).unwrap().parse().unwrap();
    let (_, body) = reply.split_once("\r\n\r\n").unwrap();
    (status, serde_json::from_str(body).unwrap())
}

#[tokio::test]
async fn keys_live_and_die() {
    let server = Server::start(Settings {
        anonymous: None,
        ..anonymous()
    })
    .await;
    let (status, made) = ask(&server, "POST", "/keys", "{\"note\":\"for a test\"}").await;
    assert_eq!(status, 200);
    assert_eq!(made["account"], "000000000001");
    let id = made["id"].as_str().unwrap();
    assert!(made["secret"].as_str().unwrap().len() >= 40);

    let (_, keys) = ask(&server, "GET", "/keys", "").await;
    let keys = keys["keys"].as_array().unwrap();
    assert_eq!(keys.len(), 2);
    let listed = keys.iter().find(|key| key["id"] == id).unwrap();
    assert_eq!(listed["note"], "for a test");
    assert_eq!(listed["status"], "active");
    assert!(listed["created_ms"].is_u64());
    assert!(listed.get("secret").is_none());

    assert_eq!(listed["consistency"], "");

    for (body, expected) in [
        ("{\"consistency\":\"eventual; w=2\"}", "eventual; r=1; w=2"),
        ("{\"consistency\":\"\"}", ""),
        ("{\"consistency\":\"strong\"}", "strong"),
    ] {
        let (status, reply) = ask(&server, "POST", &format!("/keys/{id}/set"), body).await;
        assert_eq!(
            (status, reply["consistency"].as_str().unwrap()),
            (200, expected)
        );
        let stored = server.node.open_key(id).await.unwrap().unwrap();
        let stored = stored
            .key
            .preference
            .map(|preference| preference.to_string());
        assert_eq!(stored.unwrap_or_default(), expected);
    }

    for (action, expected) in [("disable", "disabled"), ("enable", "active")] {
        let path = format!("/keys/{id}/{action}");
        let (status, reply) = ask(&server, "POST", &path, "").await;
        assert_eq!((status, reply["status"].as_str().unwrap()), (200, expected));
        let stored = server.node.open_key(id).await.unwrap().unwrap();
        assert_eq!(format!("{:?}", stored.key.status).to_lowercase(), expected);
    }

    let (status, rotated) = ask(&server, "POST", &format!("/keys/{id}/rotate"), "").await;
    assert_eq!((status, &rotated["account"]), (200, &made["account"]));
    assert_ne!(rotated["id"], id);
    let (_, keys) = ask(&server, "GET", "/keys", "").await;
    let active: Vec<_> = keys["keys"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|key| key["status"] == "active")
        .map(|key| key["id"].as_str().unwrap())
        .collect();
    let mut expected = [KEY_ID, rotated["id"].as_str().unwrap()];
    expected.sort_unstable();
    assert_eq!(active, expected);
    server.stop().await;
}

/// A refusal says all that the row of its code has, with the row's status.
#[track_caller]
fn check_refusal(status: u16, reply: &Value) {
    assert!(reply["error"].is_string(), "{reply}");
    let code = reply["code"].as_str().and_then(ErrorCode::of_name);
    let row = code.map(ErrorCode::row).unwrap();
    assert_eq!(row.status, Some(status), "{reply}");
    let told = (&reply["kind"], &reply["do"]);
    assert_eq!(told, (&row.kind.name().into(), &row.action.into()));
}

#[tokio::test]
async fn impossible_commands_are_explained() {
    let server = Server::start(anonymous()).await;
    let long = format!("{{\"note\":\"{}\"}}", "x".repeat(5000));
    for (method, path, body, expected) in [
        ("GET", "/", "", "not-found"),
        ("POST", "/cluster/kill", "{\"name\":\"n2\"}", "not-found"),
        ("GET", "/keys/", "", "not-found"),
        ("PUT", "/keys", "", "not-found"),
        ("POST", "/keys/none/disable", "", "not-found"),
        ("POST", "/keys/none/rotate", "", "not-found"),
        ("POST", "/keys//enable", "", "not-found"),
        ("POST", "/keys", "{", "call-invalid"),
        ("POST", "/keys", "[]", "call-invalid"),
        ("POST", "/keys", "{\"account\":7}", "call-invalid"),
        ("POST", "/keys", "{\"acount\":\"\"}", "call-invalid"),
        ("POST", "/keys", "{\"account\":\"me\"}", "call-invalid"),
        ("POST", "/keys", "\u{1}", "call-invalid"),
        (
            "POST",
            "/keys",
            "{\"consistency\":\"weak\"}",
            "call-invalid",
        ),
        (
            "POST",
            "/keys/none/set",
            "{\"consistency\":\"strong\"}",
            "not-found",
        ),
        ("POST", "/keys/none/set", "{\"note\":\"x\"}", "call-invalid"),
        ("POST", "/keys", &long, "body-too-large"),
    ] {
        let (status, reply) = ask(&server, method, path, body).await;
        assert_eq!(reply["code"], expected, "{method} {path} {body} {reply}");
        check_refusal(status, &reply);
    }
    let (_, keys) = ask(&server, "GET", "/keys", "").await;
    assert_eq!(keys["keys"].as_array().unwrap().len(), 1);
    server.stop().await;
}

#[tokio::test]
async fn modes_of_domains_are_told_and_changed() {
    let server = Server::start(anonymous()).await;
    let create = "Action=CreateDomain&DomainName=carts&Version=2009-04-15";
    let made = server.post(create).await;
    assert!(made.contains("CreateDomainResponse"), "{made}");
    let domain = "/domains/000000000001/carts";
    let order = format!("{domain}/mode");
    let (status, told) = ask(&server, "GET", domain, "").await;
    let expected = serde_json::json!({
        "account": "000000000001", "domain": "carts", "mode": "strong", "absent": [], "silent": [],
    });
    assert_eq!((status, told), (200, expected));
    for mode in ["mixed", "eventual", "mixed", "strong"] {
        let (status, told) =
            ask(&server, "POST", &order, &format!("{{\"mode\":\"{mode}\"}}")).await;
        assert_eq!(status, 200, "{told}");
        // On the way to strong it is closing first.
        let is_on_its_way = mode == "strong" && told["mode"] == "draining";
        assert!(told["mode"] == mode || is_on_its_way, "{told}");
        while ask(&server, "GET", domain, "").await.1["mode"] != mode {}
    }
    let given = "{\"mode\":\"mixed\",\"abandon\":false}";
    assert_eq!(ask(&server, "POST", &order, given).await.1["mode"], "mixed");
    for (method, path, body, expected) in [
        ("GET", "/domains", "", 404),
        ("GET", "/domains/000000000001", "", 404),
        ("GET", "/domains/000000000001/socks", "", 404),
        ("GET", "/domains/000000000002/carts", "", 404),
        ("GET", order.as_str(), "", 404),
        ("POST", domain, "{\"mode\":\"mixed\"}", 404),
        (
            "POST",
            "/domains/000000000001/socks/mode",
            "{\"mode\":\"mixed\"}",
            404,
        ),
        ("POST", order.as_str(), "", 400),
        (
            "POST",
            order.as_str(),
            "{\"mode\":\"eventual\",\"abandon\":true}",
            400,
        ),
        ("POST", order.as_str(), "{}", 400),
        ("POST", order.as_str(), "[]", 400),
        ("POST", order.as_str(), "{\"mode\":7}", 400),
        ("POST", order.as_str(), "{\"mode\":\"draining\"}", 400),
        (
            "POST",
            order.as_str(),
            "{\"mode\":\"mixed\",\"abandon\":1}",
            400,
        ),
        (
            "POST",
            order.as_str(),
            "{\"mode\":\"mixed\",\"wait\":true}",
            400,
        ),
    ] {
        let (status, reply) = ask(&server, method, path, body).await;
        assert_eq!(status, expected, "{method} {path} {body} {reply}");
        check_refusal(status, &reply);
    }
    assert_eq!(ask(&server, "GET", domain, "").await.1["mode"], "mixed");
    server.stop().await;
}

#[tokio::test]
async fn an_outage_may_be_asked_again_later() {
    let server = Server::start(anonymous()).await;
    server.node.close().await;
    let mode = r#"{"mode":"eventual"}"#;
    for (path, body) in [
        ("/keys", "{}"),
        ("/keys/AKIA/disable", ""),
        ("/domains/000000000001/cats/mode", mode),
    ] {
        let (status, refused) = ask(&server, "POST", path, body).await;
        let told = (status, &refused["code"], &refused["error"]);
        let expected = (503, &"stopping".into(), &"the node is stopping".into());
        assert_eq!(told, expected, "{path}");
    }
    server.stop().await;
}
