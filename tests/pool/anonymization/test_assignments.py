"""The name before a value says that it is a secret, and code that only speaks of one stays."""

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flywheel.pool.anonymization.edge import remove_identifiers
from flywheel.pool.anonymization.spans import find_spans
from flywheel.pool.anonymization.text import Anonymizer

SECRET = "swordfish"  # a word: no digit gives it away


@pytest.mark.parametrize(
    "text",
    [
        "mysql --password {} -u root",
        "mysql --password={} -u root",
        "mycli login --token {}",
        "mycli --api-key '{}'",
        "gpg --passphrase {} x",
        "wget --http-password={} x",
        '["mysql", "--password", "{}"]',
        '["mysql", "--password={}"]',
        "PGPASSWORD={} psql -h db",
        "export FOO_SECRET={}",
        "REDIS_PASS={}",
        "DB_PASSWD={}\nDB_NAME=x",
        "AUTH_TOKEN={}",
        "docker run -e MYSQL_ROOT_PASSWORD={} mysql",
        "setx API_TOKEN {}",
        '$env:API_TOKEN = "{}"',
        "ENV DB_PASSWORD {}\n",
        "ARG NPM_TOKEN={}\n",
        "database:\n  user: root\n  password: {}\n",
        "password: |\n  {}\n",
        "- name: DB_PASSWORD\n  value: {}\n",
        '{{"name": "DB_PASSWORD", "value": "{}"}}',
        '<add key="DbPassword" value="{}"/>',
        "<password>{}</password>",
        "[db]\nhost = h\npasswd = {}\n",
        "spring.datasource.password={}\n",
        "host=db user=ann password={} dbname=x",
        "Server=db;User Id=ann;Password={};",
        "jdbc:mysql://h/db?user=ann&password={}",
        "//registry.npmjs.org/:_authToken={}\n",
        "machine api.x.org login ann password {}",
        "machine api.x.org\n  login ann\n  password {}\n",
        "CREATE USER ann IDENTIFIED BY '{}';",
        "ALTER USER ann WITH PASSWORD '{}';",
        "CREATE LOGIN ann WITH PASSWORD = N'{}'",
        "define('DB_PASSWORD', '{}');",
        'os.environ.get("DB_PASSWORD", "{}")',
        'variable "db_password" {{\n  default = "{}"\n}}',
        "my password is {}",
        "Enter password: {}\n",
        "Passwort: {}",
        "mot de passe : {}",
        "contraseña: {}",
        "X-Auth-Token: {}\nAccept: */*",
        'curl -d "username=ann&password={}" x',
    ],
)
def test_a_short_word_is_a_secret_where_only_secrets_stand(text: str) -> None:
    written = text.format(SECRET)
    assert Anonymizer().text(written) == text.format("[SECRET_1]")
    nested = json.loads(Anonymizer().text(json.dumps({"content": written})))
    assert SECRET not in nested["content"]
    record = {"content": written}
    remove_identifiers(record)
    assert SECRET not in record["content"]


@pytest.mark.parametrize(
    "text",
    [
        "password=$VAR",
        '--password=$VAR --token ${TOKEN} --password "$PW"',
        "docker login --password-stdin -u ann",
        "mysql --password -u root",
        "usage: x [--password PASSWORD] [--token TOKEN]",
        "  --password TEXT  the password",
        "--password is required; use --token to pass one",
        "def f(password: str, token: Optional[str] = None): ...",
        "    password: SecretStr\n    token: CancellationToken;\n    api_key: str,\n",
        "token_count=5 max_tokens=512 --token-limit 5 --tokens 500",
        "password = get_password()",
        "password = getpass.getpass()",
        "self.password = password; login(password=password, token=user_token)",
        "user = User(\n    password=hashed,\n)",
        "{ user: name, password: hash }",
        "token = next(tokens)\nfor token in tokens:\n    if token == 'if':\n        token = '<pad>'",
        "pad_token='[PAD]', sep_token: <sep>, eos_token = 'end'",
        "password: ****",
        "password: {type: string}",
        "secretKeyRef:\n  name: db\n  key: password",
        "password field is required, the password is incorrect, forgot password? reset password",
        "click to reset your password: https://example.org/reset",
        "CSRF_TOKEN_NAME = 'csrftoken'\nPASSWORD_RESET_TIMEOUT = 86400\nPASSWORD_MIN_LENGTH=8",
        "    password = forms.CharField(label='Password')\n    widget=forms.PasswordInput",
        "{'password': ['This field is required.']}",
        'token_type: bearer\n"token_type": "Bearer"',
        "PASS: test_foo\nPASS tests/foo.js\nFAIL=1 PASS=5 bypass=true passed=5 pass_rate=0.5",
        "credentials: 'include'",
        "SECRET_NAME=foo\nsecret_name: foo\nkey_password: null",
        "from auth import token\nimport password_validation",
        "SELECT password FROM users WHERE name = 'x'",
    ],
)
def test_code_and_prose_that_speak_of_secrets_stay(text: str) -> None:
    assert find_spans(text) == []


@given(st.text(alphabet="password=token: '\"-{}[]\n\0,1", max_size=60))
def test_placeholders_are_no_secrets(text: str) -> None:
    once = Anonymizer().text(text)
    assert Anonymizer().text(once) == once


@pytest.mark.parametrize(
    "piece",
    [
        "password",
        "password=",
        "--password ",
        "password: |\n",
        "PASSWORD",
        'token="',
        "password (",
        "[a]\npasswd = x",
        "a_pw ",
        "password: ab #",
        "password=abc1 ",
    ],
)
def test_hostile_names_take_linear_time(piece: str) -> None:
    find_spans("Ann Lee, dob 1990-01-02")

    def seconds(size: int) -> float:
        started = time.process_time()
        find_spans((piece * size)[:size])
        return time.process_time() - started

    assert seconds(320_000) < 80 * max(seconds(20_000), 0.02)


def test_a_bracket_far_before_a_name_on_its_line_makes_no_code_of_it() -> None:
    text = "(" + "so it is. " * 100 + "password: swordfishy, she said"
    assert [text[span.start : span.end] for span in find_spans(text)] == ["swordfishy"]
