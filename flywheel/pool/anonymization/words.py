"""Words that say what stands behind them: English, German, French, Spanish, Italian, Portuguese and Dutch. One table.

Alternatives of patterns in what google-re2 and ``re`` agree on. Where a word has an accent, it is also found without.
"""

PLAIN = zip("áâãàåéèêëęěíîıóôõøúûñçčłğşř", "aaaaaeeeeeeiiioooouuncclgsr", strict=True)
ACCENTED = str.maketrans({
    **dict.fromkeys("ßẞ", "(?:ß|ẞ|ss)"), "ä": "(?:[aä]|ae)", "ö": "(?:[oö]|oe)", "ü": "(?:[uü]|ue)",
    **{mark: f"[{plain}{mark}]" for mark, plain in PLAIN},
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
    rf"|\d{{1,2}}(?:st|nd|rd|th|er|º|\.)? ?(?:{OF})?{MONTH},? (?:{OF})?\d{{4}}"
    rf"|\d{{1,2}}[/-]{MONTH}[/-]\d{{4}}|\d{{2}}{MONTH}\d{{4}}|\d{{4}}年 ?\d{{1,2}}月 ?\d{{1,2}}日)"
)
"""A day, whatever case its letters have."""
BIRTH_WORDS = unaccented(
    r"d\.?o\.?b\.?s?\b|dates? of birth|birth[ -]?(?:dates?|days?)\b|born\b"
    r"|geb\.|geboren\b|geburts(?:datum|tag)\b|né(?:e|\(e\))? (?:le|en|à)\b|date de naissance|nació |nacid[oa]\b"
    r"|fecha de nacimiento|nat[oa] (?:a|il|nel)\b|data di nascita|nascid[oa]\b|nasceu\b|data de nascimento"
    r"|geboortedatum|data urodzenia|urodzon[ya]\b|född\b|födelsedatum|født\b|fødselsdato|syntymäaika|doğum tarihi"
    r"|datum narození"
)
BIRTH_WORDS_IN_OTHER_SCRIPTS = "(?:Д|д)ата рождения|(?:Р|р)одил(?:ся|ась)|生年月日|出生日期|생년월일"
"""Where no letter is ASCII nothing tells a word's beginning, and case is to be written: see ``detectors.bytewise``."""
INTRODUCTIONS = unaccented(
    r"names?(?: is|'s| are|:)|i am|i'm|this is|(?:first|last|full|middle|family) names?"
    r"|ich heiße|mein name (?:ist|lautet)|je m'appelle|mon nom(?: de famille)? est|me llamo|mi nombre(?: completo)? es"
    r"|mi chiamo|mio nome è |me chamo|meu nome é |mijn naam is|ik heet"
    r"|nazywam się |mam na imię |jag heter|jeg heter|mitt namn är|mitt navn er|mit navn er|nimeni on|benim adım"
    r"|jmenuji se"
)
INTRODUCTIONS_IN_OTHER_SCRIPTS = "(?:М|м)еня зовут|我叫|我的名字是|名前は|이름은"
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
PASSWORDS = "hasło|lösenord|adgangskode|passord|salasana|şifre|heslo|jelszó"
PASSWORDS_IN_OTHER_SCRIPTS = "(?:П|п)ароль|密码|密碼|パスワード|비밀번호"
CALLED = "name|customer|client|contact|author|owner|user|kund(?:e|in)|kontakt|nom|nombre|cliente|nome|naam|klant|klient"
"""Keys of what a person is called, and of what else has a name."""
ROLES = (
    "patient|passenger|assignee|reporter|reviewer|card ?holder|account holder|recipient|beneficiary|applicant|employee"
    "|caller|attn|ship to|bill to|sold to|deliver to|signed(?: by)?"
    "|(?:review|acknowledg|sign|test|report|suggest)ed(?:-off)?-by"
)
"""Keys of nobody but persons and, where two words stand behind them, seldom of anything else."""
STATES = (
    "A[KLRZ]|C[AOT]|D[CE]|FL|GA|HI|I[ADLN]|K[SY]|LA|M[ADEINOST]|N[CDEHJMVY]|O[HKR]|P[AR]|RI|S[CD]|T[NX]|UT"
    "|V[AT]|W[AIVY]"
)
CLEAR_STATES = (
    "AK|AZ|CA|CO|CT|DC|FL|GA|IA|IL|KS|KY|MD|MI|MN|MO|MT|NC|ND|NE|NH|NJ|NM|NV|NY|RI|SC|SD|TN|TX|UT|VA|WA|WI|WV|WY"
)
"""Those of the United States that are no word, unit or abbreviation besides."""
STREETS = (
    "Street|St|Avenue|Ave|Road|Rd|Boulevard|Blvd|Lane|Ln|Drive|Dr|Court|Ct|Place|Pl|Square|Sq|Terrace|Ter|Trail|Trl|Way"
    "|Parkway|Pkwy|Highway|Hwy|Circle|Cir|Alley|Crescent|Close|Row|Mews|Gardens|Grove|Plaza|Loop|Walk|Quay|Broadway"
)
STREETS_IN_ONE_WORD = (
    "stra(?:ß|ss)e|str\\.|gasse|allee|chaussee|weg|platz|damm|laan|straat|gracht|plein|singel|gatan|gata|vägen|gade"
    "|vejen|veien|vej|katu|ntie|utca"
)
STREETS_BEHIND_A_NAME = "Stra(?:ß|ss)e|Str\\.|Gasse|Allee|Chaussee|Weg|Platz|Damm"
POSTAL_WORDS = unaccented(
    "zip(?:[ -]?codes?)?|post(?:al)?[ -]?codes?|plz|postleitzahl|code postal|código postal|codice postale"
    r"|cep|pin[ -]?code|eircode|postnummer|kod pocztowy"
)
NATIONAL_WORDS = unaccented(
    r"(?:national|citizen) (?:id|identity)(?: card)?(?: number)?|identity card(?: number)?"
    r"|tax(?:payer)? id(?:entification)?(?: number)?|steuer[ -]?id(?:nr)?|steueridentifikationsnummer"
    r"|steuernummer|(?:personal)?ausweis(?:nummer|nr)?"
    r"|(?:sv|sozialversicherungs|rentenversicherungs|ahv|versicherten)[ -]?(?:nummer|nr)|rut|cuit|cuil|curp|nif|cédula"
    r"|cnp|tckn|kimlik(?: no)?|rodné číslo|personnummer|fødselsnummer|cpr(?:[ -]?(?:nummer|nr|number))?|henkilötunnus"
    r"|nric|pps(?: number| no)?|national insurance(?: number)?|aadhaa?r(?: number)?|sa id(?: number)?"
    r"|medicare(?: number)?|mrn|medical record(?: number)?|health insurance(?: number)?"
)
NATIONAL_WORDS_IN_OTHER_SCRIPTS = "身份证号?码?|주민등록번호|マイナンバー|ИНН|СНИЛС|(?:П|п)аспорт"
KEYS_ABROAD = {
    "PERSON": (
        "(?:vor|nach|familien|kunden|geburts)name|ansprechpartner(?:in)?|prénoms?|nom de famille|nom complet"
        "|(?:primer |segundo )?apellidos?|nombre (?:completo|cliente)|cognome|sobrenome|nome completo|voornaam"
        "|achternaam|imię i nazwisko|nazwisko|förnamn|efternamn|fornavn|etternavn|efternavn|příjmení|soyadı|sukunimi"
        "|(?:Ф|ф)амилия|ФИО|姓名|氏名|성명"
    ),
    "PHONE_NUMBER": (
        "(?:telefon|handy|mobil|ruf|telefoon|mobiele )nummer|handy|mobil(?:telefon)?|telefo(?:n[oe]?|on)|portable"
        "|(?:numéro (?:de )?)?téléphone|(?:número de )?(?:teléfono|móvil|celular|telemóvel)|cellulare|puhelin"
        "|(?:Т|т)елефон|手机号?码?|电话(?:号码)?|電話(?:番号)?|휴대폰|전화(?:번호)?"
    ),
    "DATE_OF_BIRTH": (
        "geburts(?:datum|tag)|date (?:de )?naissance|fecha (?:de )?nacimiento|data (?:di )?nascita"
        "|data (?:de )?nascimento|geboortedatum|data urodzenia|födelsedatum|fødselsdato|doğum tarihi"
        "|(?:Д|д)ата рождения|出生日期|生年月日|생년월일"
    ),
    "STREET_ADDRESS": (
        "(?:wohn|liefer|rechnungs)?(?:adresse|anschrift)|wohnhaft|straße|hausnummer|dirección|domicilio|calle|indirizzo"
        "|endereço|morada|(?:woon)?adres|straatnaam"
    ),
    "ZIP_CODE": (
        "postleitzahl|code postal|código postal|codice postale|cep|postnummer|kod pocztowy|邮编|邮政编码|郵便番号"
    ),
    "BANK_ACCOUNT": "kontonummer|número de cuenta|numéro de compte|rekeningnummer",
    "NATIONAL_ID": (
        "steuer(?: id|nummer)|(?:sozial)?versicherungsnummer|(?:personal)?ausweis(?:nummer)?"
        "|numéro de sécurité sociale|dni|nif|codice fiscale|cpf|bsn|pesel|personnummer|fødselsnummer|henkilötunnus|tckn"
        "|curp|rut|cuit|nric|aadhaar(?: number)?|ИНН|СНИЛС|身份证(?:号码?)?|주민등록번호|マイナンバー"
    ),
    "US_PASSPORT": "(?:reise)?passnummer|reisepass|passeport|pasaporte|passaporto|paspoort",
    "SECRET": (
        rf"[\w-]*(?:passwort|kennwort|contraseña|mot de passe|senha|wachtwoord|{PASSWORDS})"
        rf"|{PASSWORDS_IN_OTHER_SCRIPTS}"
    ),
}
"""Keys of records by the type of what they name; where words are apart, a space, a hyphen or nothing may be between."""
