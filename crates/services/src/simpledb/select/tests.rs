//! Select on whole domains: outputs, pages, tokens, reads and refusals.

pub(crate) mod fixture;
mod guide;
mod language;
mod model;

use fixture::{Counting, Domain, text};

use super::*;
use crate::UnlimitedBudget;

#[test]
fn counts() {
    let books = Domain::books();
    let check = |expression: &str, expected: &str| {
        let (items, token) = books.select(expression, None, &UnlimitedBudget).unwrap();
        assert_eq!(items.len(), 1, "{expression}");
        assert_eq!(text(&items[0].name), "Domain", "{expression}");
        assert_eq!(text(&items[0].attributes[0].name), "Count", "{expression}");
        assert_eq!(
            text(&items[0].attributes[0].value),
            expected,
            "{expression}"
        );
        token
    };
    assert_eq!(check("select count(*) from mydomain", "6"), None);
    assert_eq!(
        check(
            "select count(*) from mydomain where Title = 'The Right Stuff'",
            "1"
        ),
        None
    );
    assert_eq!(
        check("select COUNT ( * ) from mydomain where Year > '1985'", "3"),
        None
    );
    assert_eq!(check("select count(*) from mydomain limit 500", "6"), None);
    assert_eq!(check("select count(*) from mydomain limit 6", "6"), None);
    assert!(check("select count(*) from mydomain limit 4", "4").is_some());
}

/// Items, ten of which have any one `ten`.
fn many(items: usize) -> Domain {
    let mut domain = Domain::new();
    for item in 0..items {
        let (name, ten) = (format!("item{item:06}"), format!("{:05}", item / 10));
        let even = if item % 2 == 0 { "yes" } else { "no" };
        domain.put(
            &name,
            [
                ("ten", ten.as_str()),
                ("even", even),
                ("name", name.as_str()),
            ],
        );
    }
    domain
}

#[test]
fn reads_what_it_returns_and_not_the_domain() {
    let domain = many(100_000);
    let check = |rest: &str, results: usize, reads_max: usize| {
        let expression = format!("select * from mydomain where {rest}");
        let view = Counting::new(&domain.view);
        let answered = answer(&view, &domain.context(&UnlimitedBudget), &expression, None).unwrap();
        let Reply::Items { items, .. } = answered.reply else {
            panic!("no items")
        };
        assert_eq!(items.len(), results, "{expression}");
        assert!(
            view.reads.get() <= reads_max,
            "{} reads for {expression}",
            view.reads.get()
        );
    };
    check("ten = '00042'", 10, 30);
    check("every(ten) = '00042'", 10, 30);
    check("ten like '0004%'", 100, 220);
    check("ten between '00042' and '00043'", 20, 50);
    check("ten in ('00042', '00999', 'none')", 20, 50);
    check("ten = '00042' and even = 'yes'", 5, 60);
    check("even = 'yes' intersection ten = '00042'", 5, 60);
    check(
        "even = 'yes' and (ten = '00042' or name = 'item000777')",
        5,
        80,
    );
    check("itemName() = 'item000777'", 1, 5);
    check("itemName() in ('item000777', 'item000778')", 2, 8);
    check("not (not ten = '00042' or even = 'no')", 5, 60);
    check("even = 'yes' and itemName() > 'item099900'", 49, 400);
    check(
        "even = 'yes' and itemName() > 'item050000' order by itemName() limit 5",
        5,
        20,
    );
    check("name like '%00777'", 1, 100_010);
    check("ten > '00500' order by ten limit 5", 5, 20);
    check("name is not null order by name desc limit 5", 5, 20);
    check(
        "name is not null and ten = '00042' order by name desc",
        10,
        200,
    );
}

#[test]
fn explains() {
    let domain = many(100);
    let check = |expression: &str, expected: expect_test::Expect| {
        let expression = expression.to_owned();
        let answered =
            explain(&domain.view, &domain.context(&UnlimitedBudget), &expression).unwrap();
        let Reply::Plan(lines) = answered.reply else {
            panic!("no plan")
        };
        expected.assert_eq(&lines.join("\n"));
    };
    check(
        "select * from mydomain",
        expect_test::expect![[r#"
            read items: all
            that is 100 entries
            give them as read
            end a page at 100 items or 1048576 bytes"#]],
    );
    check(
        "select * from mydomain where ten = '00004' and even = 'yes' limit 5",
        expect_test::expect![[r#"
            read the index of ten: = '00004'
            that is 10 entries
            keep those where even = 'yes'
            give them as read
            end a page at 5 items or 1048576 bytes"#]],
    );
    check(
        "select count(*) from mydomain where ten > '00004' and ten <= '00007' or even like 'y%'",
        expect_test::expect![[r#"
            read the index of even: >= 'y' and < 'z'
            read the index of ten: > '00004' and <= '00007'
            that is 80 entries
            keep those where ((ten > '00004' and ten <= '00007') or even like 'y%')
            give them as read
            count them"#]],
    );
    check(
        "select * from mydomain where ten = '00004' and name is not null order by name desc",
        expect_test::expect![[r#"
            read the index of ten: = '00004'
            that is 10 entries
            keep those where name is not null
            sort them by name, greatest first
            end a page at 100 items or 1048576 bytes"#]],
    );
    check(
        "select * from mydomain where even = 'no' and itemName() >= 'item000090' \
         order by itemName()",
        expect_test::expect![[r#"
            read the index of even: = 'no', of items >= 'item000090'
            that is 5 entries
            keep those where itemName() >= 'item000090'
            give them as read: by itemName()
            end a page at 100 items or 1048576 bytes"#]],
    );
    check(
        "select * from mydomain where ten in ('1', '2', '3', '4', '5') and every(even) != 'no'",
        expect_test::expect![[r#"
            read the index of ten: = '1', = '2', = '3', and 2 more
            that is 0 entries
            keep those where every(even) != 'no'
            give them as read
            end a page at 100 items or 1048576 bytes"#]],
    );
}

#[test]
fn gives_what_is_asked_for() {
    let books = Domain::books();
    let check = |output: &str, rest: &str, expected: expect_test::Expect| {
        let expression = format!("select {output} from mydomain {rest}");
        let (items, _) = books.select(&expression, None, &UnlimitedBudget).unwrap();
        let lines = items.iter().map(|item| {
            let pairs = item.attributes.iter();
            let pairs = pairs.map(|pair| format!("  {}={}\n", text(&pair.name), text(&pair.value)));
            format!("{}\n{}", text(&item.name), pairs.collect::<String>())
        });
        expected.assert_eq(&lines.collect::<String>());
    };
    check(
        "*",
        "where Year = '1934'",
        expect_test::expect![[r#"
            0802131786
              Title=Tropic of Cancer
              Author=Henry Miller
              Year=1934
              Pages=00318
              Keyword=Book
              Rating=****
        "#]],
    );
    check(
        "itemName()",
        "where Year = '1979'",
        expect_test::expect![[r#"
            1579124585
        "#]],
    );
    check(
        "Year, Keyword",
        "where Year < '1960'",
        expect_test::expect![[r#"
            0802131786
              Year=1934
              Keyword=Book
            0385333498
              Year=1959
              Keyword=Book
              Keyword=Paperback
        "#]],
    );
    check(
        "Pages, None",
        "where Year > '1950'",
        expect_test::expect![[r#"
            0385333498
              Pages=00336
            1579124585
              Pages=00304
        "#]],
    );
    check(
        "Pages, itemName()",
        "where Year > '1950'",
        expect_test::expect![[r#"
            0385333498
              Pages=00336
            1579124585
              Pages=00304
            B000SF3NGK
            B00005JPLW
            B000T9886K
        "#]],
    );
    check("none", "", expect_test::expect![[""]]);
}

#[test]
fn ends_a_page_before_it_has_too_many_bytes() {
    let mut books = Domain::books();
    let sizes = |books: &Domain| {
        let (mut sizes, mut token) = (Vec::new(), None);
        loop {
            let expression = "select Title from mydomain order by itemName()";
            let expression = expression.replace("order", "where itemName() > '' order");
            let (items, next) = books.select(&expression, token, &UnlimitedBudget).unwrap();
            let bytes = items.iter().map(|item| {
                let pairs = item.attributes.iter();
                item.name.len() + pairs.map(|p| p.name.len() + p.value.len()).sum::<usize>()
            });
            sizes.push((items.len(), bytes.sum::<usize>()));
            token = next;
            if token.is_none() {
                return sizes;
            }
        }
    };
    assert_eq!(sizes(&books), [(6, 182)]);
    books.limits.page_bytes = 182;
    assert_eq!(sizes(&books), [(6, 182)]);
    books.limits.page_bytes = 181;
    assert_eq!(sizes(&books), [(5, 157), (1, 25)]);
    books.limits.page_bytes = 34;
    assert_eq!(
        sizes(&books),
        [(1, 34), (1, 31), (1, 30), (1, 18), (1, 44), (1, 25)]
    );
    books.limits.page_bytes = 0;
    assert_eq!(sizes(&books).len(), 6);
}

#[test]
fn gives_no_token_when_nothing_follows() {
    let books = Domain::books();
    for (rest, limit, has_more) in [
        ("", 6, false),
        ("", 5, true),
        ("where Year = '2007'", 2, false),
        ("where Year = '2007'", 1, true),
        ("where Year > '' order by Year", 6, false),
        ("where Year > '' order by Year desc", 5, true),
    ] {
        for output in ["*", "itemName()", "count(*)", "Title"] {
            let expression = format!("select {output} from mydomain {rest} limit {limit}");
            let (_, token) = books.select(&expression, None, &UnlimitedBudget).unwrap();
            assert_eq!(token.is_some(), has_more, "{expression}");
        }
    }
}

#[test]
fn tokens_go_on_with_any_output_of_the_same_items_in_the_same_order() {
    let books = Domain::books();
    let order = "where Year > '1950' order by Year";
    let counting = format!("select count(*) from mydomain {order} limit 3");
    let (_, token) = books.select(&counting, None, &UnlimitedBudget).unwrap();
    let rest = |expression: &str| {
        let (items, _) = books.select(expression, token.clone(), &UnlimitedBudget)?;
        Ok::<_, Error>(
            items
                .iter()
                .map(|item| text(&item.name))
                .collect::<Vec<_>>(),
        )
    };
    for expression in [
        format!("select * from mydomain {order}"),
        "SELECT Title FROM `mydomain` WHERE (Year > \"1950\") ORDER BY `Year` ASC LIMIT 9".into(),
    ] {
        assert_eq!(
            rest(&expression).unwrap(),
            ["B00005JPLW", "B000T9886K"],
            "{expression}"
        );
    }
    for expression in [
        "select * from mydomain",
        "select * from mydomain where Year > '1950'",
        "select * from mydomain where Year > '1950' order by Year desc",
        "select * from mydomain where Year > '1951' order by Year",
        "select * from mydomain where every(Year) > '1950' order by Year",
    ] {
        assert_eq!(
            rest(expression).unwrap_err().code,
            Code::InvalidNextToken,
            "{expression}"
        );
    }
}

#[test]
fn positions_of_another_plan_are_refused() {
    let books = Domain::books();
    let expression = "select * from mydomain where Year > '1950' or Keyword = 'Book'";
    let statement = Statement::parse(expression, &books.limits).unwrap();
    let answer_at = |position: &[u8]| {
        let text = statement.selection.to_string();
        let token = token::seal(Kind::Select, &books.account, text.as_bytes(), position);
        books
            .select(expression, Some(token), &UnlimitedBudget)
            .map(|(items, _)| items.len())
    };
    let place = |lane| {
        Some(index_scan::ScanPosition {
            lane,
            value: b"1".to_vec(),
            item: b"z".to_vec(),
        })
    };
    let encode = |sorts, sources: &[usize], place| {
        let choice = plan::Choice {
            sorts,
            sources: sources.to_vec(),
        };
        Position { choice, place }.encode()
    };
    assert_eq!(answer_at(&encode(false, &[0, 1], place(1))), Ok(3));
    assert_eq!(answer_at(&encode(false, &[], None)), Ok(6));
    for bytes in [
        encode(false, &[0], None),
        encode(false, &[1, 0], None),
        encode(false, &[0, 0, 1], None),
        encode(false, &[0, 1, 2], None),
        encode(true, &[0, 1], None),
        encode(false, &[0, 1], place(2)),
        encode(false, &[], place(1)),
        [encode(false, &[], None), vec![0]].concat(),
        vec![2, 0, 0],
        vec![0, 0xff, 0xff, 0x7f, 0],
        vec![],
    ] {
        assert_eq!(
            answer_at(&bytes).unwrap_err().code,
            Code::InvalidNextToken,
            "{bytes:?}"
        );
    }
}

#[test]
fn refuses_domains_that_are_not_there() {
    let books = Domain::books();
    let check = |context: &Context<'_>| {
        let expression = "select count(*) from other";
        for error in [
            answer(&books.view, context, expression, None).unwrap_err(),
            answer(&books.view, context, "select * from other", None).unwrap_err(),
            explain(&books.view, context, expression).unwrap_err(),
        ] {
            assert_eq!(
                error.to_string(),
                "NoSuchDomain: The specified domain does not exist."
            );
        }
    };
    check(&Context {
        collection: None,
        ..books.context(&UnlimitedBudget)
    });
    let deleted = Some(crate::CollectionId(77));
    check(&Context {
        collection: deleted,
        ..books.context(&UnlimitedBudget)
    });
}

#[test]
fn sorts_no_more_than_it_may_hold() {
    let domain = many(2 * plan::PROBE_MAX + 100);
    let expression = "select * from mydomain where even = 'yes' and name > '' order by name desc";
    let statement = Statement::parse(expression, &domain.limits).unwrap();
    let choice = plan::Choice {
        sorts: true,
        sources: vec![0],
    };
    let wanted = PageRequest {
        view: &domain.view,
        collection: domain.context(&UnlimitedBudget).collection.unwrap(),
        selection: &statement.selection,
        output: &Output::Names,
        items_max: 2,
        bytes_max: 1 << 20,
        pace: &UnlimitedBudget,
    };
    let page = wanted
        .page(Some(Position {
            choice,
            place: None,
        }))
        .unwrap()
        .unwrap();
    let names: Vec<_> = page.items.iter().map(|item| text(&item.name)).collect();
    assert_eq!(names, ["item008290", "item008288"]);
    assert_eq!(page.next.unwrap().choice, plan::Choice::default());
}

#[test]
fn an_index_without_its_item_is_reported() {
    let mut books = Domain::books();
    let collection = books.context(&UnlimitedBudget).collection.unwrap();
    let removal = fader_chain::Change::Remove {
        key: crate::item_key(collection, b"1579124585"),
    };
    let under = fader_chain::ApplyContext::strong(fader_chain::EntryId::ZERO);
    books.view.apply(&[removal], &under).unwrap();
    let expression = "select * from mydomain where Year = '1979'";
    let error = books
        .select(expression, None, &UnlimitedBudget)
        .unwrap_err();
    assert_eq!(error.code, Code::InternalError);
}
