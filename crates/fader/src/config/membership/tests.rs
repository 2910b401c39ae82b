//! Where a cluster is kept, in the words of the command line.

use std::os::unix::fs::PermissionsExt;

use super::{ZooKeeperTlsFiles, zookeeper};

#[test]
fn servers_have_a_port() {
    for (hosts, read) in [
        ("zk1", vec!["zk1:2181"]),
        (
            "zk1:5,zk2 , 10.0.0.1:7",
            vec!["zk1:5", "zk2:2181", "10.0.0.1:7"],
        ),
        ("[::1]:5", vec!["[::1]:5"]),
        ("[::1]", vec!["[::1]:2181"]),
    ] {
        assert_eq!(
            zookeeper(hosts, "/fader", &ZooKeeperTlsFiles::default())
                .unwrap()
                .hosts,
            read
        );
    }
    assert!(zookeeper(" ,", "/fader", &ZooKeeperTlsFiles::default()).is_err());
}

#[test]
fn credentials_are_their_owners() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("credentials");
    let read = |text: &str, mode| {
        std::fs::write(&path, text).unwrap();
        let permissions = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(&path, permissions).unwrap();
        let proofs = ZooKeeperTlsFiles {
            credentials: Some(&path),
            ..ZooKeeperTlsFiles::default()
        };
        zookeeper("zk1", "/fader", &proofs)
    };
    let settings = read("fader:a b:c\n", 0o600).unwrap();
    assert_eq!(settings.credentials.unwrap().reveal(), "fader:a b:c");
    for (text, mode, why) in [
        ("fader:secret", 0o644, "chmod 600"),
        ("secret", 0o600, "user:password"),
        (":secret", 0o600, "user:password"),
        (&"a:".repeat(600), 0o600, "too long"),
    ] {
        let error = read(text, mode).unwrap_err().to_string();
        assert!(error.contains(why) && !error.contains("secret"), "{error}");
    }
}

#[test]
fn tls_is_whole_or_none() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    std::fs::write(&path, "nothing of use").unwrap();
    let mode = |mode| std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode));
    let refused = |authorities, certificate, key| {
        let file = |is_there| Some(&*path).filter(|_| is_there);
        let proofs = ZooKeeperTlsFiles {
            credentials: None,
            authorities: file(authorities),
            certificate: file(certificate),
            key: file(key),
        };
        let settings = zookeeper("zk1", "/fader", &proofs);
        settings.map_or_else(|error| format!("{error:#}"), |_| String::new())
    };
    mode(0o600).unwrap();
    assert!(refused(true, false, false).contains("certificate of an authority"));
    assert!(refused(true, true, false).contains("go together"));
    assert!(refused(false, true, true).contains("needs zookeeper-tls"));
    assert_eq!(refused(false, false, false), "");
    mode(0o644).unwrap();
    assert!(refused(true, true, true).contains("chmod 600"));
}
