"""Words that say what stands behind them: English, German, French, Spanish, Italian, Portuguese and Dutch. One table.

Alternatives of patterns in what google-re2 and ``re`` agree on. Where a word has an accent, it is also found without.
"""

ACCENTED = str.maketrans({
    "ß": "(?:ß|ss)", "ä": "(?:[aä]|ae)", "ö": "(?:[oö]|oe)", "ü": "(?:[uü]|ue)",
    **{mark: f"[{plain}{mark}]" for mark, plain in zip("áâãàéèêëíîóôõúûñç", "aaaaeeeeiiooouunc", strict=True)},
})  # fmt: skip


def unaccented(pattern: str) -> str:
    """The pattern of words with each accent left to who writes; letters outside ASCII stand in no class of it."""
    return pattern.translate(ACCENTED)


MONTHS = {
    **dict.fromkeys(("jan", "jän", "gen", "ene"), 1),
    **dict.fromkeys(("feb", "fév", "fev"), 2),
    **dict.fromkeys(("mar", "mär", "maa", "mrt"), 3),
    **dict.fromkeys(("apr", "avr", "abr"), 4),
    **dict.fromkeys(("may", "mai", "mag", "mei"), 5),
    **dict.fromkeys(("jun", "juin", "giu"), 6),
    **dict.fromkeys(("jul", "juil", "lug"), 7),
    **dict.fromkeys(("aug", "aoû", "aou", "ago"), 8),
    **dict.fromkeys(("sep", "set"), 9),
    **dict.fromkeys(("oct", "okt", "ott", "out"), 10),
    "nov": 11,
    **dict.fromkeys(("dec", "déc", "dez", "dic"), 12),
}
"""What the names of months begin with, and their numbers."""
MONTH = rf"(?:{'|'.join(map(unaccented, MONTHS))})[a-zç]*\.?"
OF = "(?:de|del|of) "
DATE = (
    r"(?:\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.](?:\d{4}|\d{2})"
    rf"|{MONTH} \d{{1,2}}(?:st|nd|rd|th)?,? \d{{4}}"
    rf"|\d{{1,2}}(?:st|nd|rd|th|er|º|\.)? ?(?:{OF})?{MONTH},? (?:{OF})?\d{{4}})"
)
"""A day, whatever case its letters have."""
BIRTH_WORDS = unaccented(
    r"d\.?o\.?b\.?s?\b|dates? of birth|birth[ -]?(?:dates?|days?)\b|born\b"
    r"|geb\.|geboren\b|geburts(?:datum|tag)\b|née? (?:le|en|à)\b|date de naissance|nació |nacid[oa]\b"
    r"|fecha de nacimiento|nat[oa] (?:a|il|nel)\b|data di nascita|nascid[oa]\b|nasceu\b|data de nascimento"
    r"|geboortedatum"
)
INTRODUCTIONS = unaccented(
    r"names?(?: is|'s| are|:)|i am|i'm|this is|(?:first|last|full|middle|family) names?"
    r"|ich heiße|mein name (?:ist|lautet)|je m'appelle|mon nom(?: de famille)? est|me llamo|mi nombre(?: completo)? es"
    r"|mi chiamo|mio nome è |me chamo|meu nome é |mijn naam is|ik heet"
)
GREETINGS = "hi|hello|hey|dear|thanks|thank you|regards|sincerely|welcome(?: back)?|cheers|passengers?"
SALUTATIONS = (
    "Hallo|Guten (?:Tag|Morgen|Abend)|Liebe[rs]?|Sehr geehrte[rs]?|Danke|Bonjour|Bonsoir|Salut|Ch(?:er|ère)|Merci"
    "|Hola|Estimad[oa]|Querid[oa]|Gracias|Ciao|Buongiorno|Gentile|Grazie|Olá|Bom dia|Prezad[oa]|Car[oa]"
    "|Obrigad[oa]|Dag|Geachte|Bedankt"
)
"""Other languages' greetings: they begin a line or a sentence, and a comma or the like is behind the name."""
CLOSINGS = unaccented(
    "regards|sincerely|thanks|cheers|grüße|grüßen|gruß|mfg|cordialement|à vous|salutations|amicalement|saludos?"
    "|atentamente|saluti|atenciosamente|cumprimentos|abraços|groeten|groet"
)
"""Words that the name of who writes stands below."""
TITLES = (
    "Mr|Mrs|Ms|Miss|Mx|Dr|Prof|Professor|Sir|Madam|Herrn?|Frau|Monsieur|Madame|Mademoiselle|Mme|Mlle|Señor(?:a|ita)?"
    "|Sra?|Srta|Signor[ae]?|Dott|Senhora?|Meneer|meneer|Mevrouw|mevrouw|Dhr|dhr"
)
PHONE_WORDS = unaccented(
    "phone|telephone|tel|mobile|cell(?:phone)?|fax|whatsapp|call(?: me| us)?|text me|dial"
    "|telefon(?:nummer)?|rufnummer|handy(?:nummer)?|mobil(?:nummer|telefon)?|téléphone|tél|portable|teléfono|tfno|tlf"
    "|móvil|celular|telefon[oe]|cellulare|telemóvel|telefoon(?:nummer)?"
)
POSTAL_WORDS = unaccented(
    "zip(?:[ -]?codes?)?|post(?:al)?[ -]?codes?|plz|postleitzahl|code postal|código postal|codice postale"
)
KEYS_ABROAD = {
    "PERSON": (
        "(?:vor|nach|familien|kunden|geburts)name|ansprechpartner(?:in)?|prénoms?|nom de famille|nom complet"
        "|(?:primer |segundo )?apellidos?|nombre (?:completo|cliente)|cognome|sobrenome|nome completo|voornaam"
        "|achternaam"
    ),
    "PHONE_NUMBER": (
        "(?:telefon|handy|mobil|ruf|telefoon|mobiele )nummer|handy|mobil(?:telefon)?|telefo(?:n[oe]?|on)|portable"
        "|(?:numéro (?:de )?)?téléphone|(?:número de )?(?:teléfono|móvil|celular|telemóvel)|cellulare"
    ),
    "DATE_OF_BIRTH": (
        "geburts(?:datum|tag)|date (?:de )?naissance|fecha (?:de )?nacimiento|data (?:di )?nascita"
        "|data (?:de )?nascimento|geboortedatum"
    ),
    "STREET_ADDRESS": (
        "(?:wohn|liefer|rechnungs)?(?:adresse|anschrift)|wohnhaft|straße|hausnummer|dirección|domicilio|calle|indirizzo"
        "|endereço|morada|(?:woon)?adres|straatnaam"
    ),
    "ZIP_CODE": "postleitzahl|code postal|código postal|codice postale|cep",
    "BANK_ACCOUNT": "kontonummer|número de cuenta|numéro de compte|rekeningnummer",
    "NATIONAL_ID": (
        "steuer(?: id|nummer)|(?:sozial)?versicherungsnummer|(?:personal)?ausweis(?:nummer)?"
        "|numéro de sécurité sociale|dni|nif|codice fiscale|cpf|bsn"
    ),
    "US_PASSPORT": "(?:reise)?passnummer|reisepass|passeport|pasaporte|passaporto|paspoort",
    "SECRET": r"[\w-]*(?:passwort|kennwort|contraseña|mot de passe|senha|wachtwoord)",
}
"""Keys of records by the type of what they name; where words are apart, a space, a hyphen or nothing may be between."""
