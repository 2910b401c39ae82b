//! Every figure recorded from the service.

use super::*;

#[test]
fn recorded_figures() {
    let batch = |items: &[usize]| BoxUsage::batch_put(items.iter().copied());
    let batch_delete = |items: &[usize]| BoxUsage::batch_delete(items.iter().copied());
    for (usage, recorded) in [
        (BoxUsage::DOMAIN, "0.0055590278"),
        (BoxUsage::DOMAIN_READ, "0.0000071759"),
        (BoxUsage::REFUSED, "0.0000219907"),
        (BoxUsage::put(1), "0.0000219909"),
        (BoxUsage::put(3), "0.0000219961"),
        (BoxUsage::put(4), "0.0000220035"),
        (BoxUsage::put(9), "0.0000221365"),
        (BoxUsage::delete(0), "0.0000219907"),
        (BoxUsage::delete(1), "0.0000219909"),
        (BoxUsage::delete(2), "0.0000219923"),
        (BoxUsage::get(1), "0.0000093222"),
        (BoxUsage::get(4), "0.0000093522"),
        (batch(&[3; 25]), "0.0003849317"),
        (batch(&[3; 3]), "0.0000461918"),
        (batch(&[3]), "0.0000219961"),
        (batch_delete(&[1]), "0.0000219909"),
        (batch_delete(&[0, 2]), "0.0000307881"),
        (batch_delete(&[0; 3]), "0.0000461805"),
        (batch_delete(&[0; 25]), "0.0003848372"),
        (BoxUsage::select(2), "0.0000140160"),
        (BoxUsage::select(3), "0.0000140240"),
        (BoxUsage::select(100), "0.0000148000"),
        (BoxUsage::select(125), "0.0000150000"),
        (BoxUsage::select(2500), "0.0000340000"),
        (BoxUsage::count(2625), "0.0000434338"),
    ] {
        assert_eq!(usage.to_string(), recorded);
    }
}

#[test]
fn ten_thousand_puts_of_two_attributes() {
    let sum = (0..10_000).map(|_| BoxUsage::put(2).0).sum();
    assert_eq!(BoxUsage(sum).to_string(), "0.2199230000");
}

#[test]
fn no_argument_overflows() {
    let most = BoxUsage(u64::MAX);
    assert_eq!(BoxUsage::put(usize::MAX), most);
    assert_eq!(BoxUsage::get(usize::MAX), most);
    assert_eq!(BoxUsage::select(usize::MAX), most);
    assert_eq!(BoxUsage::count(u64::MAX), most);
    let batch = BoxUsage::batch_put([usize::MAX, usize::MAX].into_iter());
    assert_eq!(batch, BoxUsage(u64::MAX / 10));
    assert_eq!(most.to_string(), "1844674407.3709551615");
}
