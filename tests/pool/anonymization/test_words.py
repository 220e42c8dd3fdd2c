"""What only German, French, Spanish, Italian, Portuguese or Dutch words introduce is gone, and their prose stays."""

import re

import pytest

from flywheel.pool.anonymization import words
from flywheel.pool.anonymization.edge import remove_identifiers
from flywheel.pool.anonymization.spans import find_spans
from flywheel.pool.anonymization.surroundings import days_of
from flywheel.pool.anonymization.text import Anonymizer
from flywheel.pool.anonymization.words import DATE, MONTHS, unaccented

NAME = "Zorblatt Trewqel"  # no list has it
NAMES = [
    f"Ich heiße {NAME} und brauche Hilfe.",
    f"ich heisse {NAME}.",
    f"Guten Tag, mein Name ist {NAME}.",
    f"Bonjour, je m'appelle {NAME}.",
    f"Bonjour, je m’appelle {NAME}.",
    f"Mon nom de famille est {NAME}.",
    f"Hola, me llamo {NAME}, buenos días",
    f"Mi nombre es {NAME}.",
    f"Mi chiamo {NAME}.",
    f"Il mio nome è {NAME}.",
    f"Me chamo {NAME}.",
    f"O meu nome é {NAME}.",
    f"Mijn naam is {NAME}.",
    f"Ik heet {NAME}.",
    f"Sehr geehrte Frau Dr. {NAME},",
    f"Hallo {NAME}, wie geht es?",
    f"Lieber {NAME}, danke für die Blumen.",
    f"Estimada {NAME}:\nle escribo",
    f"Gentile Signora {NAME},",
    f"Prezado Senhor {NAME},",
    f"Beste meneer {NAME},",
    f"Chère {NAME},\nmerci",
    f"Mit freundlichen Grüßen\n{NAME}",
    f"Viele Grüße,\n\n{NAME}\n",
    f"Cordialement,\n{NAME}",
    f"Un saludo,\r\n{NAME}",
    f"Atenciosamente,\n{NAME}",
    f"Met vriendelijke groet,\n{NAME}",
    f"Best regards,\n{NAME}\n",
    f'{{"nachname": "{NAME}"}}',
    f'{{"Vorname": "{NAME}"}}',
    f'{{"apellidos": "{NAME}"}}',
    f'{{"nombre_completo": "{NAME}"}}',
    f'{{"prénom": "{NAME}"}}',
    f'{{"PRÉNOM": "{NAME}"}}',
    f'{{"nomDeFamille": "{NAME}"}}',
    f'{{"cognome": "{NAME}"}}',
    f'{{"sobrenome": "{NAME}"}}',
    f'{{"achternaam": "{NAME}"}}',
    f"nachname: {NAME}\nort: x",
    f"full_name: {NAME}\ncity: x",
    f"Ansprechpartner: {NAME}",
    f"<nachname>{NAME}</nachname>",
    "nachname=Zorblatt&vorname=Trewqel",
    "full_name=Zorblatt+Trewqel&x=1",
]
DAYS = [
    ("3. März 1980", "geboren am 3. März 1980"),
    ("3. Maerz 1980", "geb. 3. Maerz 1980"),
    ("3. März 1980", "Ich bin am 3. März 1980 in Bonn geboren."),
    ("03.03.1980", "Geburtsdatum: 03.03.1980"),
    ("03.03.1980", '{"geburtsdatum": "03.03.1980"}'),
    ("3. Dezember 1980", "Geburtstag: 3. Dezember 1980"),
    ("3 mars 1980", "né le 3 mars 1980 à Lyon"),
    ("1er août 1980", "née le 1er août 1980"),
    ("03/03/1980", "Date de naissance : 03/03/1980"),
    ("03/03/1980", '{"dateNaissance": "03/03/1980"}'),
    ("3 de marzo de 1980", "nació el 3 de marzo de 1980"),
    ("3 de enero del 1980", "nacida en Madrid el 3 de enero del 1980"),
    ("03/03/1980", '{"fecha_nacimiento": "03/03/1980"}'),
    ("3 gennaio 1980", "nato a Torino il 3 gennaio 1980"),
    ("03/03/1980", "Data di nascita: 03/03/1980"),
    ("3 de março de 1980", "nascido em 3 de março de 1980"),
    ("03/03/1980", '{"dataNascimento": "03/03/1980"}'),
    ("3 maart 1980", "geboren op 3 maart 1980"),
    ("03-03-1980", "Geboortedatum: 03-03-1980"),
]
STREETS = [
    ("Musterstr. 12", "Ich wohne in der Musterstr. 12 in Bonn"),
    ("Berliner Straße 12", "Berliner Straße 12, 10115 Berlin"),
    ("Karl-Marx-Allee 12", "Karl-Marx-Allee 12"),
    ("Karl-Marx-Straße 12a", "wohnt Karl-Marx-Straße 12a"),
    ("Lindenweg 4", "im Lindenweg 4"),
    ("Hauptstraße 5", "wohnt Hauptstraße 5-7 in Bonn"),
    ("Hauptstraße 5", "Anschrift:Hauptstraße 5"),
    ("Hauptstraße 5", "Hauptstraße 5.Stock links"),
    ("Hauptstraße 5", "住所Hauptstraße 5"),
    ("Kurfürstendamm 21", "am Kurfürstendamm 21"),
    ("Am Alten Markt 7", "Adresse: Am Alten Markt 7"),
    ("Am Alten Markt 7", "wohnhaft: Am Alten Markt 7 in Bonn"),
    ("Am Alten Markt 7", '{"anschrift": "Am Alten Markt 7"}'),
    ("4 passage du Caire", "4 passage du Caire"),
    ("12, route de Lyon", "12, route de Lyon"),
    ("C/ Mayor, 5", "vive en C/ Mayor, 5, Madrid"),
    ("Av. Insurgentes Sur 1234", "Av. Insurgentes Sur 1234"),
    ("Largo X 3", '{"direccion": "Largo X 3"}'),
    ("Largo Treves 7", "Largo Treves 7"),
    ("Av. Paulista, 1578", "Av. Paulista, 1578"),
    ("Travessa do Carmo 4", "Travessa do Carmo 4"),
    ("Keizersgracht 123", "Keizersgracht 123"),
    ("Kerkplein 4", "Kerkplein 4"),
    ("ul. Nowy Świat 12/4", "ul. Nowy Świat 12/4"),
    ("Hovedvejen 12", "Hovedvejen 12"),
    ("Mannerheimintie 5", "Mannerheimintie 5"),
    ("Váci utca 5", "Váci utca 5"),
    ("Václavské náměstí 1", "Václavské náměstí 1"),
    ("Atatürk Caddesi No: 5", "Atatürk Caddesi No: 5"),
    ("ул. Ленина, д. 5", "ул. Ленина, д. 5"),
    ("Elmo 12", "address: Elmo 12\ncity: x"),
    ("Elmo+12", "address=Elmo+12&city=x"),
    ("10115", "Berliner Straße 12, 10115 Berlin"),
    ("1012 AB", "Keizersgracht 123, 1012 AB Amsterdam"),
    ("00-950", "ul. Nowy Świat 12/4\n00-950 Warszawa"),
]
PHONES = [
    *("030/1234567", "0171-1234567", "0171/12345678", "0821-123456"),  # Germany
    *("030 12345678", "06 1234 5678", "02 9374 4000"),  # Germany, Italy, Australia
    *("044 668 18 00", "079 123 45 67", "031-312 12 12"),  # Switzerland
    *("06 12345678", "06-12345678", "020-1234567"),  # the Netherlands
    *("0470 12 34 56", "0489/25 37 29"),  # Belgium
    *("070-123 45 67", "08-123 456 78"),  # Sweden
    *("0532 123 45 67", "0212 123 45 67"),  # Turkey
    *("8 (495) 123-45-67", "8(495)123-45-67"),  # Russia
    *("0120-123-456", "011-123-456"),  # Japan
    *("Teléfono: 612 345 678", "Tfno. 91 123 45 67", "Mi móvil es 612345678", '{"teléfono": 612345678}'),
    *("Cellulare: 347 1234567", "Telemóvel 912 345 678", "Telefon: 501 234 567", "Handy: 0171/1234567"),
    *('{"handynummer": 1711234567}', '{"portable": "612345678"}', '{"numero_telephone": "612345678"}'),
    *('{"telefoonnummer": "612345678"}', "Tél. : 01.23.45.67.89", "Celular: 55 1234 5678"),
]


@pytest.mark.parametrize("text", NAMES)
def test_a_name_is_gone_behind_words_of_each_language(text: str) -> None:
    clean = Anonymizer().text(text)
    assert not [word for word in NAME.split() if word in clean]
    assert "[PERSON_1]" in clean
    assert Anonymizer().text(clean) == clean


@pytest.mark.parametrize(("day", "text"), DAYS)
def test_a_date_of_birth_is_gone_however_the_language_writes_it(day: str, text: str) -> None:
    assert text.replace(day, "[DATE_OF_BIRTH_1]") == Anonymizer().text(text)


@pytest.mark.parametrize(("place", "text"), STREETS)
def test_a_street_and_its_postal_code_are_gone(place: str, text: str) -> None:
    assert place not in Anonymizer().text(text)
    assert re.search(r"\[(?:STREET_ADDRESS|ZIP_CODE)_1\]", Anonymizer().text(text))


@pytest.mark.parametrize("text", PHONES)
def test_a_phone_number_is_gone_in_the_form_of_its_country(text: str) -> None:
    clean = Anonymizer().text(text)
    assert "[PHONE_NUMBER_1]" in clean
    assert not re.search(r"\d\d", clean)
    record = {"said": text}
    remove_identifiers(record)
    assert not re.search(r"\d\d", record["said"])


@pytest.mark.parametrize(
    "text",
    [
        "Ich heiße Sie willkommen. Wie heißt die Funktion? Sie heißt Iterator.",
        "Hallo Welt! Hallo zusammen, hallo Team, Hallo Leute!",
        "Liebe Kolleginnen und Kollegen, liebe Kunden, Liebe Freunde!",
        "Sehr geehrte Damen und Herren,",
        "Ich liebe Katzen, Danke. Danke Ihnen, Bitte.",
        "Geben Sie den Befehl ein. Bitte prüfen Sie Ihre Angaben, bevor Sie die Datei speichern.",
        "Die Bestellung 20240112 wurde am 03.03.2024 versandt, Lieferung am 5. März 2024.",
        "Speicherplatz 500 MB, Arbeitsplatz 12, Sitzplatz 3, Listenplatz 4",
        "Im Jahr 2020, Seite 12, Kapitel 3, Abschnitt 4, Zeile 120",
        "Der Server startet auf Port 8080. Die Abfrage dauert 12 Sekunden.",
        "Das Passwort ist nicht erlaubt. Das Kennwort ist falsch.",
        "Viele Grüße\nIhr Team",
        "Bonjour le monde ! Merci beaucoup. Bonjour à tous,",
        "Cher client, chers collègues, Chère Madame, Cher Monsieur,",
        "La fonction s'appelle Parser. Je suis en retard.",
        "La réunion du 3 mars 2024 est reportée. Il ne le sait pas.",
        "Cordialement,\nVotre équipe",
        "2 cours Python, 3 route Handlers, 12 place",
        "¡Hola Mundo! Hola a todos, Gracias a todos.",
        "Estimado cliente: su pedido 123456789 llegará el 3 de marzo de 2024.",
        "La clase se llama Parser. El proceso nació muerto.",
        "Ciao Mondo! Ciao a tutti, Gentile cliente,",
        "Il servizio è nato a fine 2020. La versione 3.2.1 del 3 marzo 2024.",
        "Olá Mundo! Bom dia a todos. Prezado cliente,",
        "Hallo allemaal, Beste klant, Geachte heer,",
        "De vergadering van 3 maart 2024 gaat niet door.",
        "Thanks,\nThe Team\n\nBest regards,\nSupport",
        "sincerely\nEdit: typo",
        "Brigade 5 and Ring 4, Spring 5, Python 3, Auntie 5th",
        "order 05-2024, build 0123-45, 2024-05-06, 12/2024, 1.2.3-4",
        "range 10-20/30, ratio 06/12, 100 200 300, 0.123-456",
        "call on 03/03/2024, call 12/05/2024 for details",
        "address: 0x7ffe0042 port: 8080\naddress: localhost:5432\naddress: 10",
        'address = "Online"\nstreet: str\nstreet: Optional[str] = None',
        '{"adresse": "string", "telefon": null, "nachname": "string", "portable": true, "handy": 1}',
        "def kunden(nachname: str, telefon=None, adresse=adresse): ...",
        "telefon = get_telefon()\nself.nachname = nachname\nnachname = vorname",
        "SELECT nachname, apellidos, prenom FROM kunden WHERE plz = ?",
        "et al. Zimmerer 2020; R. Quimby, 2018; cf. C/C++ 17",
        "NAND gate 5, Hadamard gate 2, Key Largo",
        "Tel Aviv 2024, mobil 12, portable 3.0",
        "this is Sie and Python, I am Groot(3)",
    ],
)
def test_prose_code_and_numbers_stay(text: str) -> None:
    assert find_spans(text) == []


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("030 1234567", "Tel: 030 1234567 / 0171 12345678"),
        ("44719021", "Phone: 44719021/44719022"),
        ("5551234567", "phone 5551234567 05/12/2024 ok"),
        ("5551234567", "call 5551234567/2a now"),
        ("02.11.2233.4455", "Tel. 02.11.2233.4455"),
        ("06-55-1234-5", "fax 06-55-1234-5"),
        ("06-12-1955-78", "fax 06-12-1955-78"),
    ],
)
def test_another_number_or_the_look_of_a_date_hides_no_phone_number(value: str, text: str) -> None:
    assert any(value in text[span.start : span.end] for span in find_spans(text) if span.type == "PHONE_NUMBER")


@pytest.mark.parametrize("text", ["Welcome back Zorblatt, hi", "welcome back, Zorblatt", "Mr Frau-Zorblatt"])
def test_a_greeting_of_two_words_and_a_name_that_begins_like_a_title_are_read_whole(text: str) -> None:
    assert [text[span.start : span.end].removeprefix("Frau-") for span in find_spans(text)] == ["Zorblatt"]


@pytest.mark.parametrize(
    "number", ["555-123-4567", "078-05-1120", "4111 1111 1111 1111", "203.0.113.77", "0171 12345678"]
)
def test_a_longer_number_behind_an_address_is_no_houses(number: str) -> None:
    text = f"address: Elmo {number}\nnext"
    assert number in [text[span.start : span.end] for span in find_spans(text)]


def test_a_key_behind_a_name_is_none_of_it() -> None:
    clean = Anonymizer().text("Vorname: Zorblatt Nachname: Trewqel Ort: Bonn")
    assert clean == "Vorname: [PERSON_1] Nachname: [PERSON_2] Ort: Bonn"


@pytest.mark.parametrize("month", MONTHS)
def test_each_month_is_part_of_a_date_and_means_its_number(month: str) -> None:
    written = f"3 {month} 1980"
    assert re.fullmatch(DATE, written, re.IGNORECASE)
    assert days_of(written) == {(1980, MONTHS[month], 3)}


def test_the_same_day_in_another_language_is_found_in_the_record() -> None:
    record = {"said": "geboren am 3. März 1980", "noted": "date: 1980-03-03", "again": "3 mars 1980 (birth)"}
    clean = Anonymizer().value(record)
    assert clean == {
        "said": "geboren am [DATE_OF_BIRTH_1]",
        "noted": "date: [DATE_OF_BIRTH_2]",
        "again": "[DATE_OF_BIRTH_3] (birth)",
    }


def test_a_word_is_found_without_its_accents() -> None:
    pattern = re.compile(unaccented("prénom|straße|größe|señor"))
    assert all(map(pattern.fullmatch, ("prénom", "prenom", "strasse", "straße", "groesse", "größe", "grosse", "senor")))
    assert not pattern.fullmatch("pronom")


def test_every_letter_with_an_accent_has_one_without() -> None:
    tables = (words.BIRTH_WORDS, words.INTRODUCTIONS, words.CLOSINGS, words.PHONE_WORDS, words.POSTAL_WORDS)
    for letter in {letter for table in tables for letter in table if not letter.isascii()}:
        assert unaccented(letter) != letter
