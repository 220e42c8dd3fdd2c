r"""The closed forms: what is personal or secret by its form, its check digits or the word before it. One table.

Patterns are google-re2's: linear time, no look-around. Earlier rows win where two match at one place. Types are
presidio's names where it has one.
"""

from flywheel.pool.anonymization.checks import (
    alone,
    before_postcode,
    behind_one,
    card,
    card_behind,
    home,
    iban,
    identifier,
    ip_address,
    last_of,
    national,
    path,
    phone,
    postcode,
    postcode_of_town,
    secret_value,
    social_security,
    street,
    ungeneralized,
    with_digit,
    word_of,
)
from flywheel.pool.anonymization.form import (
    ASSIGNED,
    NUMBER_OF_STATE,
    VALUE_WORD,
    Family,
    Form,
    forms_of_key,
    named,
    with_check_digit,
    with_word,
)
from flywheel.pool.anonymization.introductions import account_name, introduced, signed, titled
from flywheel.pool.anonymization.keys import KEYS
from flywheel.pool.anonymization.words import (
    BIRTH_WORDS,
    BIRTH_WORDS_IN_OTHER_SCRIPTS,
    CLEAR_STATES,
    CLOSINGS,
    DATE,
    GREETINGS,
    INTRODUCTIONS,
    INTRODUCTIONS_IN_OTHER_SCRIPTS,
    NATIONAL_WORDS,
    NATIONAL_WORDS_IN_OTHER_SCRIPTS,
    PASSWORDS,
    PASSWORDS_IN_OTHER_SCRIPTS,
    PHONE_WORDS,
    POSTAL_WORDS,
    SALUTATIONS,
    STATES,
    STREETS,
    STREETS_BEHIND_A_NAME,
    STREETS_IN_ONE_WORD,
    TITLES,
    unaccented,
)

CAPITALIZED = r"\p{Lu}[\pL'’-]+"
NAME = rf"{CAPITALIZED}(?: {CAPITALIZED}){{0,3}}"
UNIT = r"(?:Suite|Ste\.?|Apt\.?|Apartment) #?\d+[A-Za-z]?"

SECRETS = (
    Form(
        "SECRET",
        r"-----BEGIN [A-Z ]*PRIVATE KEY(?: BLOCK)?-----"
        r"(?:(?:[\s\\A-Za-z0-9+/=:,.()]|-[A-Za-z0-9])*?-----END [A-Z ]*PRIVATE KEY(?: BLOCK)?-----"
        r"|(?:(?:\s|\\[nr])+[A-Za-z0-9+/=]{16,})*)",
    ),
    Form("SECRET", r"\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]{8,}"),
    Form(
        "SECRET",
        r"\b(?:sk|pk|rk|whsec|lin_api|sntrys|hvs|xapp|dop_v1|shp(?:at|ca|pa|ss)|sq0(?:atp|csp)|npm|pypi)"
        r"[-_.](?:[a-z]+[-_])?[A-Za-z0-9_-]{16,}",
        with_digit,
    ),
    Form("SECRET", r"\b(?:AKIA|ASIA|AROA|AIDA)[0-9A-Z]{16}\b"),
    Form("SECRET", r"\bgh[pousr]_[A-Za-z0-9]{30,}|\bgithub_pat_\w{20,}|\bgl(?:pat|dt|rt)-[\w-]{20,}"),
    Form("SECRET", r"\bhf_[A-Za-z0-9]{20,}|\bxox[abeoprs]-[A-Za-z0-9-]{10,}|\bAIza[\w-]{35}|\bya29\.[\w-]{20,}"),
    Form("SECRET", r"\bSG\.[\w-]{16,}\.[\w-]{16,}|\bAGE-SECRET-KEY-1[0-9A-Z]{50,}|\b\d{8,10}:AA[\w-]{33}\b"),
    Form("SECRET", r"\b[MN][A-Za-z0-9]{23}\.[\w-]{6}\.[\w-]{27}"),
    Form(
        "SECRET",
        r"\b(?:gsk_|xai-|pplx-|r8_|nvapi-|dckr_[op]at_|GOCSPX-|gls?[ac]_|gl(?:ptt|[a-z]{0,3}ft|cbt|imt|agent|oas|soat)-"
        r"|NRAK-|PMAK-|ATATT3x|figd_|sbp_"
        r"|ntn_|tskey-[a-z]+-|xkeysib-|rubygems_|pscale_(?:tkn|pw)_|fo1_|FlyV1 |CFPAT-|pat-(?:na|eu)\d-|do[or]_v1_"
        r"|hv[brs]\.|EZ[AT]K|LTAI|rzp_(?:live|test)_|EAA[A-Z]|AQICAH|1//0)[A-Za-z0-9_.]{8,}[\w-]{6,}",
        with_digit,
    ),
    Form("SECRET", r"\b(?:SK|AC|dapi|key-)[0-9a-f]{32}\b|\bsecret_[A-Za-z0-9]{40,}", with_digit),
    Form("SECRET", r"\bpat[A-Za-z0-9]{14}\.[0-9a-f]{64}\b|\bsl\.[\w-]{100,}"),
    Form(
        "SECRET",
        r"(?:\bPrivate-Lines: \d+|---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----)"
        r"(?:\r?\n[A-Za-z0-9+/=]{16,})+",
        last_of(r"(?:[A-Za-z0-9+/=]{16,}\s*)+"),
    ),
    Form("SECRET", r"(?i:\b(?:bearer|basic)\s+)[\w.~+/-]{16,}=*", last_of(r"[\w.~+/=-]{16,}"), "authorization header"),
)

ONLINE = (
    Form("URL_CREDENTIALS", r"\b[a-zA-Z][a-zA-Z0-9+.-]*://[^\s/@:\[\"'<>`]*:[^\s/@\"'<>`]+@[^\s\"'<>`]+"),
    Form("EMAIL_ADDRESS", r"[\pL\pN._%+-]+@[\pL\pN-]+(?:\.[\pL\pN-]+)*\.(?:\pL{2,24}|xn--[\pL\pN-]+)"),
    Form("IP_ADDRESS", r"\d{1,3}(?:\.\d{1,3}){3}|(?:[0-9a-fA-F]{0,4}:){2,7}[0-9a-fA-F]{1,4}", ip_address),
    Form("MAC_ADDRESS", r"[0-9A-Fa-f]{2}(?::[0-9A-Fa-f]{2}){5}|[0-9A-Fa-f]{2}(?:-[0-9A-Fa-f]{2}){5}", alone),
)

PAYMENT = (
    Form(
        "CREDIT_CARD",
        r"\d{13,19}|\d{4}(?:(?:[ ._/-]| - )\d{4}){3}(?:[ -]?\d{1,3})?|\d{4}[ -]\d{6}[ -]\d{4,5}",
        card,
        "check digit",
    ),
    named("CREDIT_CARD", r"(?:(?:credit|debit|payment|this|my) )?card|cc", r"\d(?:[ -]?\d){11,18}", card_behind),
    Form("IBAN_CODE", r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?\b", iban, "check digits"),
    Form(
        "PAYMENT_ID",
        r"(?i)\b(?:(?:credit|debit|gift)[ _]card|visa|mastercard|amex|paypal|certificate|bank_account|voucher|wallet"
        r"|apple_pay|google_pay)_[A-Za-z]{0,12}_?\d{3,}",
    ),
    Form("PAYMENT_ID", r"\b(?:pm|pi|ch|src|ba|tok|card|seti|cus)_[A-Za-z0-9]{14,}\b"),
)

NEAR_A_WORD = (
    ("IN_PAN", r"\b[A-Z]{3}[ABCFGHJLPT][A-Z]\d{4}[A-Z]\b", "in_.pan", r"\bpan\b|tax|india"),
    ("PL_PESEL", r"\d{11}", "pl.pesel", r"pesel"),
    ("UK_NHS", r"\d{3}[ -]?\d{3}[ -]?\d{4}", "gb.nhs", r"\bnhs\b"),
    ("NL_BSN", r"\d{9}", "nl.bsn", r"\bbsn\b|burgerservice"),
    ("AU_TFN", r"\d{3} ?\d{3} ?\d{3}", "au.tfn", r"\btfn\b|tax file"),
    ("CA_SIN", r"\d{3}[ -]\d{3}[ -]\d{3}", "ca.sin", r"\bsin\b|social insurance"),
    ("IN_AADHAAR", r"[2-9]\d{3}-?\d{4}-?\d{4}", "in_.aadhaar", r"aadhaa?r"),
)
"""Type, pattern, standard and words of numbers of a state whose check digits are few."""
STATE_NUMBERS = (
    Form("US_SSN", r"\d{3}-\d{2}-\d{4}", social_security),
    named("US_SSN", r"ssn|social security(?: number| no\.?)?", r"\d{3}[ -]?\d{2}[ -]?\d{4}"),
    with_check_digit("IT_FISCAL_CODE", r"\b[A-Z]{6}\d{2}[A-EHLMPRST]\d{2}[A-Z]\d{3}[A-Z]\b", "it.codicefiscale"),
    with_check_digit("ES_NIF", r"\b\d{8}-?[A-HJ-NP-TV-Z]\b", "es.dni"),
    with_check_digit("ES_NIE", r"\b[XYZ]-?\d{7}-?[A-HJ-NP-TV-Z]\b", "es.nie"),
    Form("UK_NINO", r"\b[A-CEGHJ-PR-TW-Z][A-CEGHJ-NPR-TW-Z] ?\d{2} ?\d{2} ?\d{2} ?[A-D]\b", alone),
    with_check_digit("FI_PERSONAL_IDENTITY_CODE", r"\b\d{6}[-+A]\d{3}[0-9A-Z]\b", "fi.hetu"),
    with_check_digit("SE_PERSONNUMMER", r"\b(?:19|20)?\d{6}[-+]\d{4}\b", "se.personnummer"),
    with_check_digit("BR_CPF", r"\d{3}\.\d{3}\.\d{3}-\d{2}", "br.cpf"),
    with_check_digit("IN_AADHAAR", r"[2-9]\d{3} \d{4} \d{4}", "in_.aadhaar"),
    with_check_digit("KR_RRN", r"\d{6}-[1-4]\d{6}", "kr.rrn"),
    with_check_digit("CN_RESIDENT_ID", r"[1-9]\d{16}[0-9X]", "cn.ric"),
    with_check_digit("FR_NIR", r"[12] ?\d{2} ?\d{2} ?\d[\dAB] ?\d{3} ?\d{3} ?\d{2}", "fr.nir"),
    *(with_word(*one) for one in NEAR_A_WORD),
    Form(
        "NATIONAL_ID",
        r"756\.\d{4}\.\d{4}\.\d{2}|\d{2}\.\d{2}\.\d{2}-\d{3}\.\d{2}|\d{1,2}\.\d{3}\.\d{3}-[\dKk]|\d{2}-\d{8}-\d"
        r"|\d{6}/\d{4}|\d-\d{4}-\d{5}-\d{2}-\d",
        national("ch.ssn", "be.nn", "cl.rut", "ar.cuit", "cz.rc", "th.pin"),
        "check digit",
    ),
)

WORDED = (
    Form("US_PASSPORT", r"\b[APIV][A-Z<][A-Z]{4,40}(?:<[A-Z]{1,30}){0,4}<<[A-Z<]{8,}(?:\s+[A-Z0-9<]{28,44})?"),
    named("NATIONAL_ID", "(?-i:RFC)", r"[A-Z]{4}\d{6}[A-Z0-9]{3}\b"),
    named(
        "BANK_ACCOUNT",
        r"(?:bank )?account (?:number|no\.?)|routing number|acct\.?|sort code|blz|bankleitzahl|kontonummer",
        r"\d[\d -]{4,18}\d\b",
    ),
    named(
        "SECRET",
        r"cvv2?|cvc2?|card verification (?:code|number|value)|(?:card )?security code|(?:my|your|card|atm|sim|bank) pin"
        r"|pin(?: code| number)",
        r"\d{3,6}\b",
    ),
    named(
        "SECRET",
        r"(?:verification|one[ -]time|security|login|sign-in|authentication|2fa|mfa|two-factor|sms) (?:pass)?code"
        r"|access code|otp|one[ -]time password|your code|(?-i:TAN|PIN)",
        r"\d{3} \d{3}\b|\d{4,8}\b",
    ),
    named(
        "NATIONAL_ID",
        NATIONAL_WORDS,
        NUMBER_OF_STATE,
        last_of(NUMBER_OF_STATE, digits=6),
        others=NATIONAL_WORDS_IN_OTHER_SCRIPTS,
    ),
    named(
        "US_PASSPORT",
        r"passport|reisepass(?:nummer)?|passnummer|passeport|pasaporte|passaporto|paspoort",
        r"[A-Z]{0,2}\d{6,9}\b|[A-Z]\d{2}[A-Z0-9]{5,7}\b|\d{2}[A-Z]{2}\d{5}\b",
    ),
    named(
        "US_DRIVER_LICENSE",
        r"driv(?:er|ing)['’]?s?['’]? licen[cs]e|dl ?#|dl (?:number|no)|führerschein(?:nummer)?|permis de conduire",
        r"\d[\dA-Z-]{4,16}\b|[A-Z]{1,3}\d[\dA-Z-]{4,16}\b|[A-Z]{5}\d{6}[A-Z0-9]{5}\b",
    ),
)
"""Numbers that only the word before them tells from others, and the two lines at the foot of a passport."""

PHONES = (
    named(
        "PHONE_NUMBER",
        rf"{PHONE_WORDS}|reach me|text|my number",
        r"\n?\+?\(?\d[\d()./-]*(?:[ ]?[\d()./-]+){0,6}\d",
        phone,
    ),
    Form("PHONE_NUMBER", r"1[3-9]\d[ -]\d{4}[ -]\d{4}|0\d{1,2} \d{7}|0[1-9]\d{2}\.\d{3}\.\d{3,4}", phone),
    Form("PHONE_NUMBER", r"\+\d(?:[ .()/-]{0,3}\d){6,14}", phone),
    Form("PHONE_NUMBER", r"(?:1[ .-])?(?:\([2-9]\d{2}\) ?\d{3}[ .-]\d{4}|[2-9]\d{2}[ .-]\d{3}[.-]\d{4})", phone),
    Form("PHONE_NUMBER", r"\(0\d{1,4}\) ?\d{3,4}[ -]?\d{3,4}|0\d{2,4} \d{3,4} \d{3,4}|0\d{3,4} \d{6,8}", phone),
    Form("PHONE_NUMBER", r"00[1-9]\d{0,2}(?:[ .-]\d{2,}){2,4}", phone),
    Form("PHONE_NUMBER", r"0[1-9](?:[ .-]\d{2}){4}|[6-9]\d{4}[ -]\d{5}|0\d{1,3}[ /-]\d{3}(?: \d{2}){2}", phone),
    Form("PHONE_NUMBER", r"\(\d{2}\) ?9?\d{4}-\d{4}|0\d{1,3}-\d{2,4}-\d{4}|0\d{2,3}-\d{3}-\d{3}", phone),
    Form(
        "PHONE_NUMBER",
        r"0[1-9]\d{0,3}[/-]\d{6,8}|0\d{1,2} \d{8}|0\d \d{4} \d{4}|0\d{3}[ /]\d{2}(?:[ .]\d{2}){2}",
        phone,
    ),
    Form("PHONE_NUMBER", r"0\d-\d{3} \d{3} \d{2}|8 ?\(\d{3}\) ?\d{3}-\d{2}-\d{2}", phone),
)

PEOPLE = (
    Form(
        "DATE_OF_BIRTH",
        rf"(?:(?i:\b(?:{BIRTH_WORDS}))|{BIRTH_WORDS_IN_OTHER_SCRIPTS})[^\d\n]{{0,60}}?(?i:{DATE})",
        last_of(rf"(?i:{DATE})"),
        "word before it",
    ),
    Form("USER_ID", r"\b[a-z]{2,20}_[a-z]{2,20}_\d{3,}\b", account_name, "made of a name"),
    named(
        "USER_ID",
        r"user[ _-]?(?:id|name)|(?:member|customer)[ _-]?(?:id|number)|employee[ _-]?(?:id|number)|login|handle|my id",
        r"[\w.@-]*[\d_][\w.@-]*",
        identifier,
    ),
    Form("PERSON", rf"\b(?:{TITLES})\b\.? (?:(?:{TITLES})\b\.? ){{0,2}}{NAME}", titled(TITLES), "title before it"),
    Form(
        "PERSON",
        rf"(?i:\b(?:{INTRODUCTIONS})\b)[^\w\n]{{0,6}}"
        rf"(?:{NAME}|\p{{Ll}}{{2,20}}(?: \p{{Ll}}{{2,20}}){{0,2}})",
        introduced(INTRODUCTIONS),
        "introduced as a name",
    ),
    Form(
        "PERSON",
        rf"(?:{INTRODUCTIONS_IN_OTHER_SCRIPTS})\s?(?:{NAME}|\pL{{2,4}})",
        introduced(INTRODUCTIONS_IN_OTHER_SCRIPTS),
        "introduced as a name",
    ),
    Form(
        "PERSON",
        rf"\b(?i:{GREETINGS})\b[,:*]{{0,3}} {CAPITALIZED}(?: {CAPITALIZED}){{0,2}}",
        introduced(GREETINGS),
        "greeted",
    ),
    Form(
        "PERSON",
        rf"\b(?:{SALUTATIONS}) {CAPITALIZED}(?: {CAPITALIZED}){{0,2}} ?[,!:.\n]",
        introduced(SALUTATIONS),
        "greeted",
    ),
    Form(
        "PERSON",
        rf"(?i:\b(?:{CLOSINGS}))[,.!]?(?:\r?\n){{1,2}}{CAPITALIZED}(?: {CAPITALIZED}){{0,2}}",
        signed,
        "below the end of a letter",
    ),
)

ADDRESSES = (
    Form(
        "STREET_ADDRESS",
        r"\b\d{1,6}[A-Za-z]? (?:[NSEW]\.? )?(?:(?:\p{Lu}[\pL'’.-]*|\d{1,3}(?:st|nd|rd|th)) ){1,4}"
        rf"(?:{STREETS})\b(?:,? {UNIT})?",
    ),
    Form("STREET_ADDRESS", rf"\b{UNIT}\b"),
    Form(
        "STREET_ADDRESS",
        rf"\p{{Lu}}[\pL-]*(?:{STREETS_IN_ONE_WORD}|r (?:{STREETS_BEHIND_A_NAME})|-(?:{STREETS_BEHIND_A_NAME})) "
        r"?\d{1,4}(?: ?[a-z])?\b",
        street,
    ),
    Form(
        "STREET_ADDRESS",
        r"\p{Lu}\pL+ (?:utca|út|tér|körút|náměstí|ulice|třída|vei|vej|väg|Caddesi|Cad\.|Sokak|Sokağı|Sok\.|Bulvarı)"
        r",? (?:No: ?)?\d{1,4}[a-z]?\b",
    ),
    Form("STREET_ADDRESS", r"\b(?:ul|Ul)\. (?:\p{Lu}[\pL-]+ ){1,3}\d{1,4}[a-zA-Z]?\b(?:/\d{1,4})?"),
    Form("STREET_ADDRESS", r"(?:ул|просп)\. \p{Lu}\pL+,? (?:д\. ?)?\d{1,4}"),
    Form(
        "STREET_ADDRESS",
        r"\p{Lu}[\pL.'-]*(?: [\pL.'-]+){0,4} \d{1,4} ?[a-z]?(?:, ?|,? ?\r?\n)(?:[A-Z]{1,2}-)?\d{5} \p{Lu}\p{Ll}{2,}",
        before_postcode,
        "before a postal code",
    ),
    Form(
        "STREET_ADDRESS",
        r"[\p{Lo}]{2,20}(?:路|街|大道|巷|弄|胡同)\d{1,5}号|[\p{Lo}]{2,20}(?:市|区|町|村)[\p{Lo}]{1,12}\d{1,4}(?:-\d{1,4}){1,2}",
    ),
    Form("STREET_ADDRESS", r"(?:[\p{Lo}]{1,8}(?:시|도|구) ){1,3}[\p{Lo}]{1,10}(?:로|길) ?\d{1,4}(?:-\d{1,4})?"),
    Form(
        "STREET_ADDRESS",
        r"(?i:\bP\.? ?O\.? ?Box) \d+|\b[Pp]ostfach \d[\d ]{2,8}\d\b"
        r"|\p{Lu}{3,}(?:STRASSE|STRAẞE|GASSE|ALLEE|PLATZ) \d{1,4}\b",
    ),
    Form(
        "STREET_ADDRESS",
        r"\b(?:Rue|Avenue|Boulevard|Place|Chemin|Quai|Impasse) (?:\p{Ll}+ |l'|d'){0,2}\p{Lu}[\pL'-]+,? \d{1,4}\b",
    ),
    Form(
        "STREET_ADDRESS",
        r"\b\d{1,4}(?: bis| ter)?,? (?:(?:rue|avenue|boulevard|place|chemin|allée|impasse|quai) "
        r"(?:(?:de la|de l'|du|des|de|d') ?)?|(?:route|cours|faubourg|passage|square) (?:de la |de l'|du |des |de |d'))"
        r"\p{Lu}[\pL'-]+(?: \p{Lu}[\pL'-]+){0,3}",
    ),
    Form(
        "STREET_ADDRESS",
        r"\b(?:Via|Viale|Vicolo|Piazza|Corso|Largo|Calle|C/|Avenida|Av(?:da)?\.|Plaza|Rua|Travessa|Praça|Paseo|Carrer) "
        r"(?:\p{Ll}+ ){0,2}\p{Lu}[\pL'-]+(?: \p{Lu}[\pL'-]+){0,3},? (?:n[º°.] ?)?\d{1,4}\b",
    ),
    Form(
        "ZIP_CODE",
        rf"\p{{Ll}}(?:, (?:{STATES})| (?:{CLEAR_STATES})),?\s+\d{{5}}(?:-\d{{4}})?\b",
        last_of(r"\d{5}(?:-\d{4})?"),
        "state before it",
    ),
    named(
        "ZIP_CODE",
        POSTAL_WORDS,
        r"\d{4,6}(?:-\d{4})?\b|\d{5}-\d{3}\b|\d{2}-\d{3}\b|\d{3} \d{2}\b|[A-Z]\d[\dW] ?[A-Z0-9]{4}\b",
        others="邮编|邮政编码|郵便番号|우편번호|(?:П|п)очтовый индекс|〒",
    ),
    Form(
        "ZIP_CODE",
        r"\b(?:A|B|CH|CZ|D|DK|E|F|FI|I|L|N|NL|PL|S)-\d{2} ?\d{2,3} \p{Lu}\p{Ll}{2,}"
        r"|\b(?:\d{5}|\d{4} [A-Z]{2}|\d{3} \d{2}) \p{Lu}\p{Ll}{2,}",
        postcode_of_town,
        "before a town",
    ),
    Form(
        "ZIP_CODE", r"\b[A-Z]{1,2}\d[A-Z\d]? \d[A-BD-HJLNP-UW-Z]{2}\b|\b[ABCEGHJ-NPRSTVXY]\d[A-Z] \d[A-Z]\d\b", postcode
    ),
)

BEFORE_PATH = r"(?:^|[\x00-\x20!\"$%&'(*+,;=>?@\[\\^`{|~\x7f]|[^\x00-\x7f\pL\pN])"
"""What a path may stand behind: it is not that of a URL, a fraction or an alternative (``and/or``)."""
BEFORE_HOME = r"(?:^|[^\pL\pN])"
PATHS = (
    Form(
        "FILE_PATH",
        r"\b[A-Za-z]:\\+Users\\+[^\\/:*?\"<>|\n]{1,40}\\+(?:[^\\/:*?\"<>|\s]+\\+)*[^\\/:*?\"<>|\s]*",
    ),
    Form(
        "FILE_PATH",
        rf"{BEFORE_HOME}(?:file://|\b[A-Za-z]:)?/(?:home|Users)/[^\s/:\"'<>|,;()]+(?:/[\pL\pN_.@+\[\]-]*)*",
        behind_one(r"file://|[A-Za-z]:/|/(?:home|Users)/", home),
    ),
    Form("FILE_PATH", rf"{BEFORE_HOME}~[\pL\pN_.-]+(?:/[\pL\pN_.@+\[\]-]+)+/?", behind_one(r"~[^~]", home)),
    Form("FILE_PATH", rf"{BEFORE_PATH}(?:~|/[\pL\pN_.@+-]+)(?:/[\pL\pN_.@+\[\]-]+)+/?", behind_one("[/~]", path)),
    Form("FILE_PATH", r"\b[A-Za-z]:\\+(?:[^\\/:*?\"<>|\s]+\\+)*[^\\/:*?\"<>|\s]+", ungeneralized),
)

IDENTIFYING = frozenset({
    "EMAIL_ADDRESS", "PHONE_NUMBER", "CREDIT_CARD", "BANK_ACCOUNT", "NATIONAL_ID", "US_SSN", "US_PASSPORT",
    "US_DRIVER_LICENSE", "SECRET",
})  # fmt: skip
"""Types whose keys count at the edge: what identifies somebody directly, or opens something."""
NAMED_SECRETS = (
    Form("SECRET", ASSIGNED, secret_value, "name before it"),
    Form(
        "SECRET",
        rf"(?:(?i:\b(?:{unaccented(PASSWORDS)}))|{PASSWORDS_IN_OTHER_SCRIPTS})[\"'*`]{{0,3}} ?(?:[:=]|是|это) ?"
        rf"{VALUE_WORD}",
        word_of(VALUE_WORD),
        "name before it",
    ),
)
CLOSED = (*NAMED_SECRETS, *ONLINE, *PAYMENT, *STATE_NUMBERS, *WORDED, *PHONES)
KEYED = tuple((kind, form) for kind, names in KEYS for form in forms_of_key(kind, names))
FORMS: tuple[Form, ...] = (*SECRETS, *(form for _, form in KEYED), *CLOSED, *PEOPLE, *ADDRESSES, *PATHS)
EDGE_FORMS: tuple[Form, ...] = (*SECRETS, *(form for kind, form in KEYED if kind in IDENTIFYING), *CLOSED)
"""What is looked for before a record is written at all (``flywheel.pool.anonymization.edge``)."""
DIGITS = b"0123456789"
FAMILIES = (
    Family((*SECRETS, *(form for _, form in KEYED)), is_loosened=True),
    Family((*NAMED_SECRETS, *ADDRESSES), is_loosened=True),
    Family((*WORDED, *PEOPLE), is_loosened=True),
    Family((*ONLINE[:2], *PATHS), needs=b"@/\\", is_loosened=True),
    Family((*ONLINE[2:], *PAYMENT, *STATE_NUMBERS, *PHONES), needs=b"_:-" + DIGITS, is_loosened=True),
)
"""What tends to begin with the same characters. Fewer families have more states, more take longer for each text."""
