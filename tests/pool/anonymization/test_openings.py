"""Links, headers, options of commands and hashes that open something are gone; their looks alike stay."""

import json
import time

import pytest

from flywheel.pool.anonymization.spans import find_spans
from flywheel.pool.anonymization.text import Anonymizer

LONG = "AbCd1234" * 4


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("https://hooks.slack.com/services/T0000/B0000/abcdefghijkl", "abcdefghijkl"),
        (f"https://discord.com/api/webhooks/123456789012345678/{LONG}", LONG),
        ("https://acme.webhook.office.com/webhookb2/11111111-2222@aaaa-bbbb/IncomingWebhook/0123abc/99-88", "0123abc"),
        ("https://hooks.zapier.com/hooks/catch/123456/abcdef/", "abcdef"),
        (f"https://chat.example.org/hooks/{LONG}", LONG),
        ("https://api.telegram.org/bot123456789:AAabcdefghijklmnopqrst/sendMessage", "AAabcdef"),
        ("https://api.example.org/hook?token=swordfish&x=1", "swordfish"),
        ("https://maps.example.org/api?key=swordfishswordfish", "swordfishswordfish"),
        ("https://b.s3.amazonaws.com/k?X-Amz-Date=2020&X-Amz-Signature=fe5f80f77d5fa3be", "fe5f80f77d5fa3be"),
        ("https://b.s3.amazonaws.com/k?Signature=vjbyPxybdZaNmGa%2ByT272YEAiv4%3D&Expires=1", "vjbyPxybdZaNmGa"),
        ("https://storage.googleapis.com/b/o?X-Goog-Signature=247a2aa45f169edf", "247a2aa45f169edf"),
        ("https://a.blob.core.windows.net/c?sv=2019-12-12&ss=b&sig=Z%2FRHIX5Xcg0Mq2rqI3Ol", "RHIX5Xcg0Mq2rqI3Ol"),
        ("https://example.org/cb#access_token=swordfish&state=1", "swordfish"),
        ("https://0123456789abcdef0123456789abcdef@o1.ingest.sentry.io/2", "0123456789abcdef"),
        ("https://example.org/reset/q7Xk2mPz9LtR4vWb8NcY", "q7Xk2mPz9LtR4vWb8NcY"),
        ("https://example.org/password-reset/q7Xk2mPz9LtR4vWb8NcY/", "q7Xk2mPz9LtR4vWb8NcY"),
        ("https://example.org/reset_password/MQ/set-q7Xk2mPz9LtR4vWb8NcY", "q7Xk2mPz9LtR4vWb8NcY"),
        ("https://example.org/reset/550e8400-e29b-41d4-a716-446655440000", "e29b-41d4-a716-446655440000"),
        ("https://example.org/invite/0123456789abcdef0123456789abcdef", "0123456789abcdef"),
        ("https://example.org/invitations/q7Xk2mPz9LtR4vWb8NcY/accept", "q7Xk2mPz9LtR4vWb8NcY"),
        ("https://example.org/magic-link/q7Xk2mPz9LtR4vWb8NcY", "q7Xk2mPz9LtR4vWb8NcY"),
        ("https://example.org/verify-email/q7Xk2mPz9LtR4vWb8NcY", "q7Xk2mPz9LtR4vWb8NcY"),
        ("https://example.org/users/confirmation/q7Xk2mPz9LtR4vWb8NcY", "q7Xk2mPz9LtR4vWb8NcY"),
        ("https://example.org/unsubscribe/q7Xk2mPz9LtR4vWb8NcY", "q7Xk2mPz9LtR4vWb8NcY"),
        ("https://example.org/activate/NA/q7Xk2mPz9LtR4vWb8NcY", "q7Xk2mPz9LtR4vWb8NcY"),
        ("https://example.org/share/q7Xk2mPz9LtR4vWb8NcY", "q7Xk2mPz9LtR4vWb8NcY"),
        ("https://example.org/x?a=1&invite=q7Xk2mPz9LtR4vWb", "q7Xk2mPz9LtR4vWb"),
        ("https://example.org/x?reset=q7Xk2mPz9LtR4vWb", "q7Xk2mPz9LtR4vWb"),
        ("https://example.org/x?otp=q7Xk2mPz9LtR4vWb", "q7Xk2mPz9LtR4vWb"),
        ("https://example.org/x?ticket=ST-q7Xk2mPz9LtR4vWb", "q7Xk2mPz9LtR4vWb"),
        ("https://example.org/x?confirmation_code=q7Xk2mPz9LtR4vWb", "q7Xk2mPz9LtR4vWb"),
        ("https://example.org/x?session_id=q7Xk2mPz9LtR4vWb", "q7Xk2mPz9LtR4vWb"),
        ("https://chat.whatsapp.com/AbCdEfGhIjKlMnOpQrSt", "AbCdEfGhIjKlMnOpQrSt"),
        ("https://join.slack.com/t/acme/shared_invite/zt-abc123-AbCdEf~gh", "AbCdEf"),
        ("https://t.me/joinchat/AAAAAE-xyz12345", "xyz12345"),
        ("Authorization: Basic YTpi", "YTpi"),
        ("Proxy-Authorization: Basic YTpi", "YTpi"),
        ("Authorization: Bearer swordfish", "swordfish"),
        ('{"Authorization": "Token swordfish"}', "swordfish"),
        ("Authorization: k3y4l5m6n7o8", "k3y4l5m6n7o8"),
        ("Set-Cookie: session=swordfish; Path=/; HttpOnly", "swordfish"),
        ("Cookie: theme=dark; sessionid=abcdef; csrftoken=ghijkl", "ghijkl"),
        ('{"Cookie": "sid=s%3Aabcdef.ghijkl"}', "abcdef"),
        ("requests.get(url, auth=('ann', 'swordfish'))", "swordfish"),
        ('{"auths": {"reg.io": {"auth": "YW5uOnN3b3JkZmlzaA=="}}}', "YW5uOnN3"),
        ("mysql -u root -phunter db", "hunter"),
        ("mysqldump -uroot -p'hunter two' db", "hunter two"),
        ("curl -u admin:swordfish https://example.org", "swordfish"),
        ("curl -s --user 'admin:swordfish' https://example.org", "swordfish"),
        ("curl -uadmin:swordfish https://example.org", "swordfish"),
        ("sshpass -p swordfish ssh root@h", "swordfish"),
        ("docker login -u ann -p swordfish reg.io", "swordfish"),
        ("redis-cli -a swordfish ping", "swordfish"),
        ("openssl rsa -passin pass:swordfish", "swordfish"),
        ("smbclient //srv/share -U ann%swordfish", "swordfish"),
        ("echo swordfish | sudo -S ls", "swordfish"),
        ("ann:$6$saltsalt$1aYmrXx0sUiaIA3cJnzQ8vQKkJxJ:18000:", "1aYmrXx0s"),
        ("$2b$12$EixZaYVK1fsbw1ZfbX3OXePaWxn96p36WQoeG6Lruj3vjPGga31lW", "EixZaYVK1"),
        ("sk_" + "live_abcdefghijklmnopqrst", "abcdefghijklmnopqrst"),
    ],
)
def test_what_opens_something_is_gone(text: str, secret: str) -> None:
    assert secret in text
    clean = Anonymizer().text(text)
    assert secret not in clean
    assert Anonymizer().text(clean) == clean
    assert secret not in json.loads(Anonymizer().text(json.dumps({"content": text})))["content"]


@pytest.mark.parametrize(
    "text",
    [
        "https://example.org/hooks/use-effect and https://example.org/webhooks/docs",
        "https://example.org/list?page=2&sort=key&key=name&code=de&sid=12",
        "https://example.org/list?id=550e8400-e29b-41d4-a716-446655440000",
        "ssh://git@host/org/repo",
        "https://example.org/reset/password and https://example.org/verify/internationalization",
        "https://example.org/share/my-article-about-2024-trends-v2",
        "https://example.org/confirm/2024-01-02-03-04-05",
        "https://example.org/orders/q7Xk2mPz9LtR4vWb8NcY?country_code=DE_2024_01&promo_code=SUMMER2024",
        "git reset/4f2a9c1b and src/share/locale/verify/test_reset_password_view",
        "https://discord.gg/pallets and https://t.me/python",
        "Authorization: Bearer $TOKEN",
        "Authorization: Bearer <token>",
        "headers = {'Authorization': f'Bearer {token}'}",
        "headers = {'Authorization': 'Bearer ' + token}",
        "Authorization: required",
        "the cookie: chocolate; cookie = make_cookie()",
        "curl -u $USER:$PASS https://example.org",
        "mysql -u root -p db",
        "docker run -p 8080:80 nginx; docker login -u ann --password-stdin",
        "psql -p 5432; ssh -p 2222 host; mkdir -p foo/bar; python -m pytest -p no:cacheprovider",
        "requests.get(url, auth=(user, password))",
        "echo done | tee log",
    ],
)
def test_what_only_looks_like_it_stays(text: str) -> None:
    assert find_spans(text) == []


@pytest.mark.parametrize(
    "piece",
    [
        "curl ",
        "mysql -p",
        "cookie: a=b; ",
        "cookie: a=",
        "echo a ",
        "?key=",
        "/reset/",
        "/reset/a/",
        "authorization: ",
        "$1$",
        "smb://a,",
    ],
)
def test_hostile_openings_take_linear_time(piece: str) -> None:
    find_spans("Ann Lee, dob 1990-01-02")

    def seconds(size: int) -> float:
        started = time.process_time()
        find_spans((piece * size)[:size])
        return time.process_time() - started

    assert seconds(320_000) < 80 * max(seconds(20_000), 0.02)


def test_cookies_without_an_end_take_linear_time() -> None:
    find_spans("Ann Lee, dob 1990-01-02")

    def seconds(size: int) -> float:
        started = time.process_time()
        find_spans("cookie=" * (size // 7) + "[")
        return time.process_time() - started

    assert seconds(160_000) < 80 * max(seconds(10_000), 0.02)


def test_what_is_no_cookie_may_open_something_otherwise() -> None:
    text = "Set-Cookie: path=/hook?token=swordfish1"
    assert [text[span.start : span.end] for span in find_spans(text)] == ["swordfish1"]
