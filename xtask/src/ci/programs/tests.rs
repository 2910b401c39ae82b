//! Messages as cargo prints them.

use serde_json::json;

use super::program;

fn message(kind: &str, target: &str, is_test: bool) -> serde_json::Value {
    json!({
        "reason": "compiler-artifact",
        "manifest_path": "/clone/crates/node/Cargo.toml",
        "target": { "kind": [kind], "name": target },
        "profile": { "test": is_test },
        "executable": "/clone/target/debug/deps/a-0123",
    })
}

#[test]
fn a_program_that_waits_for_real_time_runs_alone() {
    let program = program(&message("test", "sessions", true)).unwrap();
    assert_eq!(program.name, "node sessions");
    assert_eq!(program.folder.to_str(), Some("/clone/crates/node"));
    assert!(program.runs_alone);
}

#[test]
fn unit_tests_of_a_crate_run_beside_others() {
    assert!(!program(&message("lib", "client", true)).unwrap().runs_alone);
}

#[test]
fn a_program_without_tests_is_passed_over() {
    assert_eq!(program(&message("bin", "fader", false)), None);
    let mut library = message("lib", "fader_node", true);
    library["executable"] = serde_json::Value::Null;
    assert_eq!(program(&library), None);
    assert_eq!(program(&json!({ "reason": "build-finished" })), None);
}
