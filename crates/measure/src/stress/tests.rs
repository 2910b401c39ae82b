//! What is asked, what of replies is right, and when a run ends.

use fader_history::Moment;

use super::*;

fn stress(is_put: bool, variant: Variant) -> Stress {
    Stress {
        domain: "d".to_owned(),
        is_put,
        variant,
        items: 1000,
        in_order: false,
        value_first: 10_000,
        remaining: Remaining::new(3),
        is_background: false,
    }
}

fn asked(stress: &Stress, sequence: u64) -> String {
    let mut form = Form::default();
    stress.parameters(&stress.plan(sequence), &mut form);
    let pairs = form.pairs().map(|(name, value)| format!("{name}={value}"));
    pairs.collect::<Vec<_>>().join(" ")
}

#[test]
fn variants_are_those_of_the_paper() {
    let put = |variant| {
        let mut put = stress(true, variant);
        put.items = 1;
        put
    };
    let plain = "DomainName=d ItemName=item-0000000000 Attribute.1.Name=v \
                 Attribute.1.Value=10001 Attribute.1.Replace=true";
    assert_eq!(asked(&put(Variant::Plain), 1), plain);
    let conditional = format!("{plain} Expected.1.Name=absent Expected.1.Exists=false");
    assert_eq!(asked(&put(Variant::Strong), 1), conditional);
    assert_eq!(asked(&put(Variant::InTurn), 1), conditional);
    let mut get = stress(false, Variant::InTurn);
    get.items = 1;
    let eventual = "DomainName=d ItemName=item-0000000000";
    assert_eq!(asked(&get, 0), eventual);
    assert_eq!(asked(&get, 1), format!("{eventual} ConsistentRead=true"));
}

#[test]
fn items_are_chosen_at_random_and_filled_in_order() {
    let put = stress(true, Variant::Plain);
    let mut counts = vec![0_u32; 1000];
    for sequence in 0..100_000 {
        counts[put.plan(sequence).key as usize] += 1;
    }
    // Of 100 expected: five standard deviations each way.
    assert!(counts.iter().all(|count| (50..=150).contains(count)));
    let fill = Stress {
        in_order: true,
        ..stress(true, Variant::Plain)
    };
    assert!((0..1000).all(|sequence| fill.plan(sequence).key == sequence));
}

#[test]
fn replies_are_judged() {
    let get = stress(false, Variant::Plain);
    let intent = get.plan(0);
    let verdict = |body: &str| get.verify(&intent, body.as_bytes());
    let shown = "<Attribute><Name>v</Name><Value>77</Value></Attribute>";
    let metadata = "<RequestId>1</RequestId>";
    assert_eq!(
        verdict(&format!("{shown}{metadata}")),
        Verdict::Right(Some(77))
    );
    assert_eq!(verdict(metadata), Verdict::Right(None));
    assert_eq!(verdict(&format!("{shown}{shown}")), Verdict::Wrong);
    assert_eq!(verdict("<Value>x</Value>"), Verdict::Wrong);
    assert_eq!(verdict(""), Verdict::Wrong);
}

#[test]
fn a_background_ends_with_the_run() {
    let run = stress(true, Variant::Plain);
    let background = Stress {
        is_background: true,
        remaining: run.remaining.clone(),
        ..stress(true, Variant::Plain)
    };
    let operation = Operation {
        process: 0,
        session: None,
        endpoint: Text::default(),
        name: None,
        attempt: 1,
        level: Text::default(),
        intended: Moment::at(0),
        called: Moment::at(0),
        action: run.plan(0).request(),
        end: None,
        price: None,
    };
    let went = [(); 4].map(|()| (run.goes_on(&operation), background.goes_on(&operation)));
    let (yes, no) = ((true, true), (false, false));
    assert_eq!(went, [yes, yes, no, no]);
}
