from herdbeat.store.postgres.statements import translate_statement


def test_a_batch_becomes_an_array_for_each_column() -> None:
    found = translate_statement("SELECT 1 FROM :rows AS given (id bigint, name text)")

    assert found.text == b"SELECT 1 FROM unnest(%(c0)s::bigint[], %(c1)s::text[]) AS given (id, name)"
    assert found.columns == ("bigint", "text")


def test_values_are_named_and_quoted_text_and_casts_are_left_alone() -> None:
    found = translate_statement("SELECT :id::bigint, 'cron:x' WHERE name LIKE 'a%' AND at = :at")

    assert found.text == b"SELECT %(id)s::bigint, 'cron:x' WHERE name LIKE 'a%%' AND at = %(at)s"
    assert found.columns == ()


def test_a_comment_with_an_apostrophe_hides_nothing() -> None:
    found = translate_statement("-- the node's own\nSELECT :id -- and it's this one")

    assert found.text.strip() == b"SELECT %(id)s"
