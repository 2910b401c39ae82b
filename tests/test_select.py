"""Select through boto3: the books of Amazon's own documentation, paging, limits, refusals."""

import pytest

from sdb_calls import pairs, refused, select

BOOKS = {
    "0385333498": {
        "Title": ["The Sirens of Titan"],
        "Author": ["Kurt Vonnegut"],
        "Year": ["1959"],
        "Pages": ["00336"],
        "Keyword": ["Book", "Paperback"],
        "Rating": ["*****", "5 stars", "Excellent"],
    },
    "0802131786": {
        "Title": ["Tropic of Cancer"],
        "Author": ["Henry Miller"],
        "Year": ["1934"],
        "Pages": ["00318"],
        "Keyword": ["Book"],
        "Rating": ["****"],
    },
    "1579124585": {
        "Title": ["The Right Stuff"],
        "Author": ["Tom Wolfe"],
        "Year": ["1979"],
        "Pages": ["00304"],
        "Keyword": ["Book", "Hardcover", "American"],
        "Rating": ["****", "4 stars"],
    },
    "B000T9886K": {
        "Title": ["In Between"],
        "Author": ["Paul Van Dyk"],
        "Year": ["2007"],
        "Keyword": ["CD", "Trance"],
        "Rating": ["4 stars"],
    },
    "B00005JPLW": {
        "Title": ["300"],
        "Author": ["Zack Snyder"],
        "Year": ["2007"],
        "Keyword": ["DVD", "Action", "Frank Miller"],
        "Rating": ["***", "3 stars", "Not bad"],
    },
    "B000SF3NGK": {
        "Title": ["Heaven's Gonna Burn Your Eyes"],
        "Author": ["Thievery Corporation"],
        "Year": ["2002"],
        "Rating": ["*****"],
    },
}

SIRENS, TROPIC, STUFF, BETWEEN, THREE_HUNDRED, HEAVEN = BOOKS

# A condition, and the items it finds. Where the query orders, the order counts.
FINDS = [
    ("Title = 'The Right Stuff'", {STUFF}),
    ("Year > '1985'", {BETWEEN, THREE_HUNDRED, HEAVEN}),
    ("Rating like '****%'", {SIRENS, TROPIC, STUFF, HEAVEN}),
    ("Pages < '00320'", {TROPIC, STUFF}),
    ("Year > '1975' and Year < '2008'", {STUFF, BETWEEN, THREE_HUNDRED, HEAVEN}),
    ("Year between '1975' and '2008'", {STUFF, BETWEEN, THREE_HUNDRED, HEAVEN}),
    ("Rating = '***' or Rating = '*****'", {SIRENS, THREE_HUNDRED, HEAVEN}),
    (
        "(Year > '1950' and Year < '1960') or Year like '193%' or Year = '2007'",
        {SIRENS, TROPIC, BETWEEN, THREE_HUNDRED},
    ),
    ("Rating = '4 stars' or Rating = '****'", {TROPIC, STUFF, BETWEEN}),
    ("Keyword = 'Book' and Keyword = 'Hardcover'", set()),
    ("every(Keyword) in ('Book', 'Paperback')", {SIRENS, TROPIC}),
    ("every(Rating) = '****'", {TROPIC}),
    ("Keyword = 'Book' intersection Keyword = 'Hardcover'", {STUFF}),
    ("Year < '1980' order by Year", [TROPIC, SIRENS, STUFF]),
    ("Year < '1980' order by Year desc", [STUFF, SIRENS, TROPIC]),
    (
        "Year = '2007' intersection Author is not null order by Author desc",
        [THREE_HUNDRED, BETWEEN],
    ),
    ("Keyword is null", {HEAVEN}),
    ("Pages is null and Title is not null order by Title", [THREE_HUNDRED, HEAVEN, BETWEEN]),
    ("itemName() like 'B000%' order by itemName()", [THREE_HUNDRED, HEAVEN, BETWEEN]),
    ("itemName() in ('0385333498', 'B000SF3NGK', 'none')", {SIRENS, HEAVEN}),
    ("not Keyword = 'Book'", {BETWEEN, THREE_HUNDRED, HEAVEN}),
    ("Title = 'Heaven''s Gonna Burn Your Eyes'", {HEAVEN}),
    ('Title = "Heaven\'s Gonna Burn Your Eyes"', {HEAVEN}),
    ("Title not like '%The%'", {TROPIC, BETWEEN, THREE_HUNDRED, HEAVEN}),
    ("`Author` like '%Miller'", {TROPIC}),
    ("Rating != '****'", {SIRENS, STUFF, BETWEEN, THREE_HUNDRED, HEAVEN}),
]


@pytest.fixture(scope="module")
def books(sdb):
    sdb.create_domain(DomainName="books")
    items = [{"Name": name, "Attributes": pairs(**book)} for name, book in BOOKS.items()]
    sdb.batch_put_attributes(DomainName="books", Items=items)
    yield "books"
    sdb.delete_domain(DomainName="books")


@pytest.mark.parametrize("condition, expected", FINDS, ids=[find[0] for find in FINDS])
def test_select_finds_the_books_of_the_documentation(sdb, books, condition, expected):
    found = select(sdb, f"select * from {books} where {condition}")
    assert (list(found) if isinstance(expected, list) else set(found)) == expected
    for name, attributes in found.items():
        assert attributes == {key: sorted(values) for key, values in BOOKS[name].items()}


def test_not_with_every_follows_the_documentation(sdb, books):
    found = select(sdb, "select * from books where every(Keyword) = 'Book'")
    assert set(found) == {TROPIC}


def test_output_lists(sdb, books):
    condition = "from books where itemName() = '0802131786'"
    assert select(sdb, f"select itemName() {condition}") == {TROPIC: {}}
    assert select(sdb, f"select Year, Nothing {condition}") == {TROPIC: {"Year": ["1934"]}}
    only = select(sdb, "select Keyword from books where Rating = '*****'")
    assert only[SIRENS] == {"Keyword": ["Book", "Paperback"]}


def test_counts(sdb, books):
    def count(text):
        [item] = sdb.select(SelectExpression=text, ConsistentRead=True)["Items"]
        assert item["Name"] == "Domain"
        [attribute] = item["Attributes"]
        assert attribute["Name"] == "Count"
        return attribute["Value"]

    assert count("select count(*) from books where Year > '1985'") == "3"
    assert count("select count(*) from books limit 500") == "6"
    assert count("select count(*) from books limit 4") == "4"


@pytest.mark.parametrize(
    "expression, code",
    [
        ("select * from books order by Year", "InvalidSortExpression"),
        ("select * from books where Year = '1' order by Title", "InvalidSortExpression"),
        ("select * from books where Year is null order by Year", "InvalidSortExpression"),
        ("select * from books where", "InvalidQueryExpression"),
        ("select * from books where Year = 1959", "InvalidQueryExpression"),
        ("select from books", "InvalidQueryExpression"),
        ("delete from books", "InvalidQueryExpression"),
        ("select * from books where Title = 'open", "InvalidQueryExpression"),
        ("select * from books limit 0", None),
        ("select * from books limit 2501", None),
    ],
)
def test_bad_expressions_are_refused(sdb, books, expression, code):
    if code is None:
        with pytest.raises(sdb.exceptions.ClientError) as caught:
            sdb.select(SelectExpression=expression)
        assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 400
    else:
        with refused(code, 400):
            sdb.select(SelectExpression=expression)


def test_too_many_comparisons_are_refused(sdb, books):
    twenty = " or ".join(f"Year = '{year}'" for year in range(20))
    assert select(sdb, f"select * from books where {twenty}") == {}
    with refused("InvalidNumberPredicates", 400):
        sdb.select(SelectExpression=f"select * from books where {twenty} or Year = 'x'")


@pytest.fixture(scope="module")
def numbers(sdb):
    """A domain of 1,000 items."""
    sdb.create_domain(DomainName="numbers")
    for start in range(0, 1000, 25):
        items = [
            {"Name": f"item-{n:04}", "Attributes": pairs(n=f"{n:04}", last=str(n % 10))}
            for n in range(start, start + 25)
        ]
        sdb.batch_put_attributes(DomainName="numbers", Items=items)
    yield "numbers"
    sdb.delete_domain(DomainName="numbers")


@pytest.mark.parametrize(
    "tail, count",
    [
        ("", 1000),
        ("limit 7", 1000),
        ("limit 2500", 1000),
        ("where last = '3' limit 9", 100),
        ("where n > '0500' order by n desc limit 100", 499),
        ("where last = '3' and n like '00%' order by n", 10),
        ("where last = '3' or last = '4'", 200),
    ],
)
def test_pages_give_every_item_once(sdb, numbers, tail, count):
    found = select(sdb, f"select * from numbers {tail}")
    assert len(found) == count
    if "order by" in tail:
        assert list(found) == sorted(found, reverse="desc" in tail)


def test_a_page_has_a_hundred_items_where_nothing_is_said(sdb, numbers):
    page = sdb.select(SelectExpression="select * from numbers")
    assert len(page["Items"]) == 100
    assert "NextToken" in page


def test_a_token_belongs_to_its_expression(sdb, numbers):
    token = sdb.select(SelectExpression="select * from numbers")["NextToken"]
    with refused("InvalidNextToken", 400):
        expression = "select * from numbers where n > '0'"
        sdb.select(SelectExpression=expression, NextToken=token)
    with refused("InvalidNextToken", 400):
        sdb.select(SelectExpression="select * from numbers", NextToken=token[:-4] + "AAAA")


def test_a_page_ends_before_a_megabyte(sdb, domain):
    for start in range(0, 1500, 25):
        items = [
            {"Name": f"item-{n}", "Attributes": pairs(a="x" * 1000)}
            for n in range(start, start + 25)
        ]
        sdb.batch_put_attributes(DomainName=domain, Items=items)
    expression = f"select * from `{domain}` limit 2500"
    page = sdb.select(SelectExpression=expression)
    assert "NextToken" in page
    assert 900 < len(page["Items"]) <= 1049
    assert len(select(sdb, expression)) == 1500


def test_tokens_work_as_offsets_of_counts(sdb, numbers):
    reply = sdb.select(SelectExpression="select count(*) from numbers limit 250")
    assert reply["Items"][0]["Attributes"][0]["Value"] == "250"
    page = sdb.select(
        SelectExpression="select * from numbers limit 1", NextToken=reply["NextToken"]
    )
    assert len(page["Items"]) == 1
