//! Secrets open with their key and their id, and with nothing else.

use std::path::Path;

use super::{Seal, Secret, derive, random_id, random_secret};
use crate::secrets::cluster::ClusterKey;
use crate::status::OpenError;
use crate::storage::disk::Disk;
use crate::support::SimulatedDisk;

fn disk() -> SimulatedDisk {
    let disk = SimulatedDisk::new();
    disk.create_folder(Path::new("/data")).unwrap();
    disk
}

fn load(disk: &SimulatedDisk, creates: bool) -> Result<Seal, OpenError> {
    Seal::load(disk, Path::new("/data"), creates)
}

#[test]
fn a_secret_opens_after_a_restart() {
    let disk = disk();
    let secret = Secret::new("something".to_owned());
    let sealed = load(&disk, true).unwrap().seal("AKIA1", &secret).unwrap();
    let opened = load(&disk, false).unwrap().open("AKIA1", &sealed).unwrap();
    assert_eq!(opened.reveal(), "something");
    let again = load(&disk, false).unwrap().seal("AKIA1", &secret).unwrap();
    assert_ne!(sealed, again, "a nonce is used once");
}

#[test]
fn nothing_opens_what_was_changed() {
    let disk = disk();
    let seal = load(&disk, true).unwrap();
    let sealed = seal
        .seal("AKIA1", &Secret::new("something".to_owned()))
        .unwrap();
    assert!(
        seal.open("AKIA2", &sealed).is_err(),
        "it is bound to its id"
    );
    for at in 0..sealed.len() {
        let mut changed = sealed.to_vec();
        changed[at] ^= 1;
        assert!(seal.open("AKIA1", &changed).is_err(), "byte {at}");
        assert!(seal.open("AKIA1", &sealed[..at]).is_err(), "{at} bytes");
    }
    let other = load(&self::disk(), true).unwrap();
    assert!(
        other.open("AKIA1", &sealed).is_err(),
        "it is bound to its key"
    );
}

#[test]
fn a_key_that_is_lost_or_short_is_no_new_key() {
    let disk = disk();
    assert!(load(&disk, false).is_err_and(|error| error.is_damage()));
    load(&disk, true).unwrap();
    let path = Path::new("/data/seal.key");
    disk.open(path).unwrap().set_size(31).unwrap();
    assert!(load(&disk, true).is_err_and(|error| error.is_damage()));
}

#[test]
fn ids_and_secrets_have_the_shape_of_those_of_aws() {
    let (id, secret) = (random_id().unwrap(), random_secret().unwrap());
    assert!(id.starts_with("AKIA") && id.len() == 20);
    assert!(
        id.bytes()
            .all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit())
    );
    assert_eq!(secret.reveal().len(), 40);
    assert_ne!(random_secret().unwrap().reveal(), secret.reveal());
    assert_eq!(format!("{secret:?}"), "Secret(..)");
}

#[test]
fn a_clusters_seal_is_that_of_all_nodes_with_its_key() {
    let folder = tempfile::tempdir().unwrap();
    let made = ClusterKey::create(&folder.path().join("key")).unwrap();
    let copied = ClusterKey::load(&folder.path().join("key")).unwrap();
    let other = ClusterKey::create(&folder.path().join("other")).unwrap();
    let secret = Secret::new("secret".to_owned());
    let sealed = Seal::of_cluster(&made, 1).seal("id", &secret).unwrap();
    let opened = Seal::of_cluster(&copied, 1).open("id", &sealed).unwrap();
    assert_eq!(opened.reveal(), "secret");
    for seal in [Seal::of_cluster(&made, 2), Seal::of_cluster(&other, 1)] {
        assert!(seal.open("id", &sealed).is_err());
    }
}

#[test]
fn purposes_and_clusters_derive_keys_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let key = ClusterKey::create(&folder.path().join("key")).unwrap();
    let derived = [(b"a", 1), (b"b", 1), (b"a", 2)].map(|(purpose, id)| derive(&key, purpose, id));
    assert_ne!(derived[0], derived[1]);
    assert_ne!(derived[0], derived[2]);
    assert_eq!(derived[0], derive(&key, b"a", 1));
}
