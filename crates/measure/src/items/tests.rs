//! Requests for known items, and judging what comes back.

use super::*;
use crate::simpledb::{BatchPut, Get, Put, Select};
use crate::workload::{Act, Intent, Wire, Workload};

use std::sync::Arc;

fn items(count: u64, groups: u64) -> Arc<Items> {
    Arc::new(Items {
        domain: String::from("dom"),
        count,
        attributes: 2,
        value_bytes: DIGITS,
        groups,
    })
}

fn form(workload: &dyn Wire, intent: &Intent) -> String {
    let mut form = Form::default();
    form.push("left", "over");
    form.clear();
    workload.parameters(intent, &mut form);
    let line = |(name, value): (&str, &str)| format!("{name}={value}\n");
    form.pairs().map(line).collect()
}

/// A reply as SimpleDB writes it.
fn reply(pairs: &[(&str, u64)]) -> Vec<u8> {
    let attribute = |(name, value): &(&str, u64)| {
        format!(
            "<Attribute><Name>{name}</Name><Value>{}</Value></Attribute>",
            Hex(*value)
        )
    };
    let attributes: String = pairs.iter().map(attribute).collect();
    format!(
        "<?xml version=\"1.0\"?>\n<GetAttributesResponse><GetAttributesResult>{attributes}\
         </GetAttributesResult><ResponseMetadata><RequestId>r</RequestId></ResponseMetadata>\
         </GetAttributesResponse>"
    )
    .into_bytes()
}

#[test]
fn a_get_is_right_only_with_the_whole_item_of_its_stamp() {
    let get = Get {
        items: items(10, 0),
        stamps: vec![(7, 5)],
        consistent: true,
    };
    let intent = get.plan(123);
    assert_eq!(
        intent,
        Intent {
            act: Act::Read,
            key: 7,
            value: Some(5),
            level: 0,
        }
    );
    expect_test::expect![[r#"
        DomainName=dom
        ItemName=item-0000000007
        ConsistentRead=true
    "#]]
    .assert_eq(&form(&get, &intent));
    let (first, second) = (value(7, 5, 1), value(7, 5, 2));
    let whole = reply(&[("a1", first), ("a2", second)]);
    assert_eq!(get.verify(&intent, &whole), Verdict::Right(Some(5)));
    for wrong in [
        reply(&[]),
        reply(&[("a1", first)]),
        reply(&[("a2", second), ("a1", first)]),
        reply(&[("a1", first), ("a2", second), ("a3", 0)]),
        // Another write's item, another item's content, and a mixture of two writes.
        reply(&[("a1", value(7, 4, 1)), ("a2", value(7, 4, 2))]),
        reply(&[("a1", value(8, 5, 1)), ("a2", value(8, 5, 2))]),
        reply(&[("a1", value(7, 5, 1)), ("a2", value(7, 4, 2))]),
        whole[..whole.len() / 2].to_vec(),
    ] {
        assert_eq!(get.verify(&intent, &wrong), Verdict::Wrong);
    }
}

#[test]
fn puts_go_round_with_rising_stamps() {
    let put = Put {
        items: items(10, 0),
        stamp_first: 100,
    };
    assert_eq!(
        put.plan(0),
        Intent {
            act: Act::Write,
            key: 0,
            value: Some(100),
            level: 0,
        }
    );
    let intent = put.plan(13);
    assert_eq!(
        intent,
        Intent {
            act: Act::Write,
            key: 3,
            value: Some(113),
            level: 0,
        }
    );
    expect_test::expect![[r#"
        DomainName=dom
        ItemName=item-0000000003
        Attribute.1.Name=a1
        Attribute.1.Value=0000000000000071
        Attribute.1.Replace=true
        Attribute.2.Name=a2
        Attribute.2.Value=5ff19696edbf3678
        Attribute.2.Replace=true
    "#]]
    .assert_eq(&form(&put, &intent));
    let reply = reply(&[]);
    assert_eq!(put.verify(&intent, &reply), Verdict::Right(Some(113)));
    assert_eq!(
        put.verify(&intent, b"<RequestId></RequestId>"),
        Verdict::Wrong
    );
    assert_eq!(put.verify(&intent, b""), Verdict::Wrong);
}

#[test]
fn batches_put_every_item_once() {
    let batch = BatchPut {
        items: items(26, 4),
        stamp_first: 0,
    };
    assert_eq!(batch.operations(), 2);
    let [first, last] = [0, 1].map(|sequence| form(&batch, &batch.plan(sequence)));
    assert_eq!(first.matches("ItemName=").count(), 25);
    let next_pass = Intent {
        act: Act::Batch,
        key: 25,
        value: Some(1),
        level: 0,
    };
    assert_eq!((batch.plan(3), batch.keys(25)), (next_pass, 25..26));
    assert!(form(&batch, &next_pass).contains("Item.1.Attribute.1.Replace=true"));
    expect_test::expect![[r#"
        DomainName=dom
        Item.1.ItemName=item-0000000025
        Item.1.Attribute.1.Name=a1
        Item.1.Attribute.1.Value=0000000000000000
        Item.1.Attribute.2.Name=a2
        Item.1.Attribute.2.Value=59f46bbd4d56a938
        Item.1.Attribute.3.Name=group
        Item.1.Attribute.3.Value=0000000000000001
    "#]]
    .assert_eq(&last);
}

#[test]
fn a_select_is_right_only_with_its_whole_group() {
    let select = Select {
        items: items(10, 4),
    };
    let intent = Intent {
        act: Act::Scan,
        key: 1,
        value: None,
        level: 0,
    };
    expect_test::expect![[r#"
        SelectExpression=select itemName() from `dom` where `group` = '0000000000000001'
    "#]]
    .assert_eq(&form(&select, &intent));
    assert!((0..100).all(|sequence| select.plan(sequence).key < 4));
    let page = |keys: &[u64]| {
        let item = |key: &u64| format!("<Item><Name>{}</Name></Item>", Name(*key));
        keys.iter().map(item).collect::<String>().into_bytes()
    };
    assert_eq!(
        select.verify(&intent, &page(&[1, 5, 9])),
        Verdict::Right(None)
    );
    for wrong in [&[1_u64, 5][..], &[1, 5, 8], &[1, 5, 9, 13], &[]] {
        assert_eq!(select.verify(&intent, &page(wrong)), Verdict::Wrong);
    }
}

#[test]
fn a_value_has_its_size() {
    for number in [0, 1, 0xf, 0x10, 0xabc, 1 << 60, u64::MAX] {
        for size in [0, 1, 15, 16, 17, 64, 80, 81, 500] {
            let padded = Padded { number, size };
            assert_eq!(padded.to_string(), format!("{number:0size$x}"));
        }
    }
}
