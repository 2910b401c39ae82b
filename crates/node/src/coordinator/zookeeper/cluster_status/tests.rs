//! Each member of which a configuration speaks has a name.

use fader_chain::{Identity, Incarnation, Progress, Version, Wiring, controller};

use super::*;

#[test]
fn a_member_has_a_name_by_the_number_it_had_and_by_the_one_it_has() {
    let identity = Identity {
        node: NodeId(3),
        incarnation: Incarnation(1),
        disk: DiskId(30),
    };
    let newest = controller::first(&[identity], Wiring::Star, Version::NEWEST);
    let record = DiskRecord {
        // By an operator's order (AL-7).
        node: NodeId(9),
        progress: Progress::default(),
        name: "n3".to_owned(),
        chain: Some(ChainId(1)),
    };
    let disks = BTreeMap::from([(DiskId(30), record)]);
    let names = names(std::iter::once(&newest), &disks);
    let n3 = || "n3".to_owned();
    assert_eq!(
        names,
        BTreeMap::from([(NodeId(3), n3()), (NodeId(9), n3())])
    );
}
