"""A value of every type that the pool removes. Put together here, so that no scanner takes a test for a leak."""

CANARIES: dict[str, str] = {
    "EMAIL_ADDRESS": "canary.bird@example.org",
    "PHONE_NUMBER": "+44 20 7946 0958",
    "CREDIT_CARD": "4111 1111 1111 1111",
    "IBAN_CODE": "DE89 3704 0044 0532 0130 00",
    "US_SSN": "078-05-1120",
    "IT_FISCAL_CODE": "RSSMRA85T10A562S",
    "ES_NIF": "12345678Z",
    "UK_NINO": "AB 12 34 56 C",
    "FI_PERSONAL_IDENTITY_CODE": "131052-308T",
    "BR_CPF": "390.533.447-05",
    "IP_ADDRESS": "203.0.113.77",
    "IPV6": "2001:db8::8a2e:370:7334",
    "MAC_ADDRESS": "00:1B:44:11:3A:B7",
    "URL_CREDENTIALS": "postgresql://canary:" + "hunter2@db.example/x",
    "OPENAI_KEY": "sk-" + "proj-" + "Ab12" * 6,
    "AWS_KEY": "AKIA" + "ABCDEFGHIJKLMNOP",
    "GITHUB_TOKEN": "ghp_" + "a1B2" * 9,
    "SLACK_TOKEN": "xoxb-" + "1234567890-abcdefghij",
    "JWT": "eyJhbGciOiJI" + ".eyJzdWIiOiIx" + ".SflKxwRJSMeK",
    "PRIVATE_KEY": "-----BEGIN RSA PRIVATE " + "KEY-----\nMIIEow\n-----END RSA PRIVATE " + "KEY-----",
    "API_KEY": 'api_key = "' + "q7Rt2Zx9Lk4Vb8" + '"',
    "PASSWORD": "password is " + "hunter22",
    "DATE_OF_BIRTH": "date of birth: 1984-07-29",
    "PERSON": "Yusuf Hernandez",
    "STREET_ADDRESS": "476 Maple Drive, Suite 432",
    "USER_ID": "yusuf_hernandez_6785",
    "PAYMENT_ID": "gift_card_7480005",
    "HOME": "/home/canary/secret/plan.txt",
}

TELLING: dict[str, str] = {
    **CANARIES,
    "API_KEY": "q7Rt2Zx9Lk4Vb8",
    "PASSWORD": "hunter22",
    "DATE_OF_BIRTH": "1984-07-29",
    "HOME": "canary",
}
"""The part of each that must be gone."""
