//! A key comes back; what is no key, or no secret, is refused.

use std::fs;

use super::*;

#[test]
fn a_key_comes_back_and_is_not_written_over() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cluster.key");
    let key = ClusterKey::create(&path).unwrap();
    assert_eq!(ClusterKey::load(&path).unwrap().reveal(), key.reveal());
    assert!(matches!(ClusterKey::create(&path), Err(KeyError::Io(..))));
    assert_eq!(format!("{key:?}"), "ClusterKey(..)");
    let mode = fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn malformed_secrets_and_keys_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cluster.key");
    for size in [0, KEY_SIZE - 1, KEY_SIZE + 1, 1000] {
        fs::write(&path, vec![7; size]).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        assert!(matches!(ClusterKey::load(&path), Err(KeyError::Size(_))));
    }
    fs::write(&path, [7; KEY_SIZE]).unwrap();
    for mode in [0o640, 0o604] {
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        assert!(matches!(ClusterKey::load(&path), Err(KeyError::Open(_))));
    }
}
