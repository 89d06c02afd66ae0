import json
import time

import pytest

from herdbeat.redaction import (
    find_secrets,
    find_source_secrets,
    is_secret_name,
    is_secret_value,
    redact,
    redact_arguments,
    redact_data,
    redact_known,
    redact_source,
    redact_store_url,
    register_secrets,
)


@pytest.mark.parametrize(
    "name", ["token", "API_KEY", "apiKey", "key", "X-Auth-Token", "dbPassword", "Authorization", "Set-Cookie", "secret"]
)
def test_names_that_tell_of_a_secret(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name", ["token_env", "key_file", "monkey", "keyboard", "author", "url", "Accept", "tokens_per_day", ""]
)
def test_names_that_do_not(name: str) -> None:
    assert not is_secret_name(name)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("https://me:hunter2@example.com/x", "https://me:***@example.com/x"),
        ("postgresql://herd:s3c/r@t@db/fleet failed", "postgresql://herd:***@db/fleet failed"),
        ("postgresql:///fleet?user=me&password=hush&x=1", "postgresql:///fleet?user=me&password=***&x=1"),
        ("GET https://x.example/a?access_token=hush#b", "GET https://x.example/a?access_token=***#b"),
        ("http://localhost:8080/@me", "http://localhost:8080/@me"),
        ("https://me@example.com/x", "https://me@example.com/x"),
        ("mail a@b: https://example.com", "mail a@b: https://example.com"),
    ],
)
def test_passwords_and_parameters_of_addresses_are_hidden(text: str, shown: str) -> None:
    assert redact(text) == shown


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("https://hooks.slack.com/services/T01/B02/abcDEF123", "https://hooks.slack.com/services/***"),
        (
            "https://discord.com/api/webhooks/12345/abc-DEF_1?wait=true",
            "https://discord.com/api/webhooks/***?wait=true",
        ),
        ("https://acme.webhook.office.com/webhookb2/abc@def/x", "https://acme.webhook.office.com/***"),
        ("https://api.telegram.org/bot123:abc/sendMessage", "https://api.telegram.org/bot***"),
        ("https://hooks.slack.com/services/${SLACK_PATH}", "https://hooks.slack.com/services/${SLACK_PATH}"),
        ("https://slack.com/help/articles/1", "https://slack.com/help/articles/1"),
    ],
)
def test_config_show_printed_the_address_of_an_incoming_webhook(address: str, shown: str) -> None:
    assert redact(address) == shown
    assert redact_data({"notify": {"team": {"type": "slack", "url": address}}}) == {
        "notify": {"team": {"type": "slack", "url": shown}}
    }
    secrets = find_secrets({"url": address})
    assert bool(secrets) == (address != shown)
    assert all(secret not in shown for secret in secrets)


def test_a_registered_value_is_hidden_in_every_form() -> None:
    register_secrets(['pa"ss wörd/1'])

    assert redact('it is pa"ss wörd/1.') == "it is ***."
    assert redact(json.dumps({"x": 'pa"ss wörd/1'})) == '{"x": "***"}'
    assert redact("/x/pa%22ss%20w%C3%B6rd%2F1") == "/x/***"


def test_the_lines_of_a_key_are_hidden_one_by_one() -> None:
    register_secrets(["-----BEGIN KEY-----\nMIIEabcdef\nzz\n"])

    assert redact_known("  MIIEabcdef\nzz") == "  ***\nzz"


def test_data_is_hidden_by_the_names_of_its_keys() -> None:
    data = {"user": "me", "auth": {"apiKey": "abc"}, "items": [{"token": "t"}], "max_tokens": 5, "password": ""}

    shown = {"user": "me", "auth": {"apiKey": "***"}, "items": [{"token": "***"}], "max_tokens": 5, "password": ""}
    assert redact_data(data) == shown


def test_arguments_after_a_telling_option_are_hidden() -> None:
    words = ["deploy", "--token", "abc", "--api-key=def", "--verbose", "--password", "--user", "me"]

    assert redact_arguments(words) == ["deploy", "--token", "***", "--api-key=***", *words[4:]]


def test_secrets_are_found_where_their_position_tells() -> None:
    headers = {"Authorization": "Bearer 0123456789", "X-Api-Key": "k" * 9, "Accept": "application/json", "Token": "abc"}

    assert find_secrets(headers) == {"Bearer 0123456789", "0123456789", "k" * 9}
    assert find_secrets({"url": "https://me:hunter2@x.example/?sig=1&token=wxyz"}) == {
        "hunter2",
        "bWU6aHVudGVyMg==",
        "wxyz",
    }
    assert find_secrets({"command": ["run", "--password", "hunter2", "--key=wxyz"]}) == {"hunter2", "wxyz"}


@pytest.mark.parametrize(
    ("line", "secret"),
    [
        ('store: "postgresql://herd:s3c/ret@host:port/x"', "s3c/ret"),
        ("  headers: { Authorization: Bearer abc, Accept: text }", "Bearer abc"),
        ("secret: hunter2", "hunter2"),
        ("store: postgresql:///x?password=hush", "hush"),
        ('store: "host=db password=hush user=me"', "hush"),
    ],
)
def test_the_secret_in_a_line_of_a_file_is_found(line: str, secret: str) -> None:
    assert [line[start:end] for start, end in find_source_secrets(line)] == [secret]


@pytest.mark.parametrize("store", ["postgres//herd:s3cret@db/fleet", "herd:s3cret@db/fleet", "//herd:s3cret@db"])
def test_a_store_without_its_scheme_is_quoted_without_its_password(store: str) -> None:
    [(start, end)] = find_source_secrets(f'store: "{store}"')

    assert f'store: "{store}"'[start:end] == "s3cret"


def test_an_endpoint_that_returns_the_credentials_of_its_address_does_not_publish_them() -> None:
    register_secrets(find_secrets({"url": "https://me:hunt%20er@example.com/"}))

    assert redact_known("Authorization: Basic bWU6aHVudCBlcg==") == "Authorization: Basic ***"


def test_the_name_of_a_variable_is_not_hidden_in_a_line() -> None:
    assert find_source_secrets("secret: ${HOOK_SECRET}") == []


def test_a_long_text_without_blanks_takes_no_time() -> None:
    text = "a" * 200_000 + "://" + "b" * 200_000

    began = time.process_time()
    redact(text)

    assert time.process_time() - began < 2


@pytest.mark.parametrize("url", ["postgresql://herd@my host/fleet", "postgresql://herd@host:99999/fleet"])
def test_a_store_at_a_host_that_cannot_exist_is_no_store(url: str) -> None:
    assert redact_store_url(url) is None


def test_a_secret_in_a_body_that_is_written_as_json_text_is_found() -> None:
    assert find_secrets('{"user": "me", "login": [{"password": "hush-hush"}]}', "body") == {"hush-hush"}
    assert find_secrets("{not json: password}", "body") == set()


@pytest.mark.parametrize(("name", "value"), [("tokens_per_day", "1e5"), ("max_tokens", "4_000"), ("tokens", "20k")])
def test_a_number_of_tokens_was_printed_as_three_stars(name: str, value: str) -> None:
    assert find_source_secrets(f"budget: {{ {name}: {value} }}") == []
    assert redact_data({name: value}) == {name: value}
    assert not is_secret_value(name, value)


@pytest.mark.parametrize(("name", "value"), [("tokens", "ghp_abc123"), ("token", "12345678"), ("max_token", "1")])
def test_what_is_no_number_of_tokens_stays_hidden(name: str, value: str) -> None:
    assert find_source_secrets(f"{name}: {value}")
    assert redact_data({name: value}) == {name: "***"}


def test_auth_none_does_not_hide_every_none() -> None:
    register_secrets(find_secrets({"auth": "none", "Authorization": "Bearer none", "token": "abcd-none-1234"}))

    assert redact("security: none, abcd-none-1234") == "security: none, ***"


def test_a_command_that_is_one_text_was_quoted_with_its_password() -> None:
    assert redact_source('command: "run --password=hush -v"') == 'command: "run --password=*** -v"'
    assert redact_source("command: run --token hush -v") == "command: run --token *** -v"
    assert redact_source('command: [run, "--api-key", "hush"]') == 'command: [run, "--api-key", "***"]'
    assert redact_source("command: [run, --max-tokens, 100]") == "command: [run, --max-tokens, 100]"


def test_config_show_printed_a_password_with_a_space_in_it() -> None:
    shown = redact_data("postgresql://me:hush hush@127.0.0.1/fleet", "store")

    assert shown == "postgresql://me:***@127.0.0.1/fleet"


@pytest.mark.parametrize(
    ("argument", "shown"),
    [
        ("pg_dump --password hush-77 --token=hush-88; exit 4", "pg_dump --password *** --token=***; exit 4"),
        ("Authorization: Bearer hush-99", "Authorization: ***"),
        ("API_KEY=hush-66 ./report.sh $TOKEN", "API_KEY=*** ./report.sh $TOKEN"),
        ("echo one\nmysql --password hush-55 db", "echo one\nmysql --password *** db"),
        ("backup --password ${DB_PASSWORD} now", "backup --password ${DB_PASSWORD} now"),
        ('curl -H "Authorization: Bearer $TOKEN" -u me', 'curl -H "Authorization: Bearer $TOKEN" -u me'),
        ('curl -H "X-Api-Key: hush-11" -o out', 'curl -H "X-Api-Key: ***" -o out'),
        ("cat notes | sort -u", "cat notes | sort -u"),
    ],
)
def test_the_script_of_a_shell_was_shown_with_the_passwords_in_it(argument: str, shown: str) -> None:
    assert redact_arguments(["sh", "-c", argument]) == ["sh", "-c", shown]


def test_what_a_script_prints_of_its_own_passwords_was_shown() -> None:
    found = find_secrets(
        {"command": ["sh", "-c", "login --password hush-44 --key name", "Authorization: Bearer hush-33"]}
    )

    assert {"hush-44", "hush-33"} <= found
    assert "name" not in found
