"""What is the code's own gets another name in every language, and what is somebody else's keeps its own."""

import re

import pytest

from flywheel.languages import LanguageName
from tests.pool.anonymization.code.snippets import SNIPPETS, renamed

OWN: dict[LanguageName, str] = {
    "python": "FEE_RATE LineItem unit_price amount_sold line_sum Basket _line_items owner_label more_items"
    " extra_options option_key new_item grand_total discount_rate discounted running_sum one_item describe basket"
    " tax_rate whole first_item getter thing taxed problem mine price_each",
    "javascript": "RateTable hitCount baseCurrency lookUp currencyCode convertAll amounts roundTo convertOne",
    "typescript": "UserProfile displayName loginCount AccessLevel Owner ProfileStore ProfileType httpClient"
    " cacheSeconds profileId touch profile",
    "java": "Checkout linePrices MAX_LINES otherOne extraFee runningSum onePrice",
    "go": "Store cacheSize AddUser userName server letter",
    "rust": "Invoice net_total next_one Payment ByCard card_digits InCash with_total paid_by payment"
    " tax_share handed_over",
    "c": "MAX_ORDERS SQUARED operand order_t line_sum next_order find_order first_order compare_by order_sums each"
    " my_order argument_count arguments",
    "cpp": "shop ItemType Basket ownerLabel addItem newItem lineItems_ countItems ownerLabel_ wholeCount oneItem"
    " basketOne",
}
OTHERS: dict[LanguageName, str] = {
    "python": "codec.dumps self.append sort_keys color ValueError reduce __slots__ __init__ dataclass",
    "javascript": "readFileSync fetchRates timeout toFixed rateTable module.exports.convertAll require",
    "typescript": "HttpClient load Promise implements Store",
    "java": "showForm compareTo Gateway.grandTotal com.example.shop Integer::sum stream",
    "go": "http.UserCount http.Server Addr fmt.Println package store",
    "rust": "Serialize fmt::Display fmt::Formatter Option Box None Self println",
    "c": "stdio.h printf NULL main",
    "cpp": "std::vector push_back Printable describe size std::move main",
}


def words_in(text: str) -> set[str]:
    return set(re.findall(r"\w+", text))


@pytest.mark.parametrize("language", SNIPPETS)
def test_no_name_of_the_codes_own_is_left(language: LanguageName) -> None:
    clean = renamed(SNIPPETS[language], language)
    for other in OTHERS[language].split():
        clean = clean.replace(other, "")
    assert set(OWN[language].split()) <= words_in(SNIPPETS[language])
    assert set(OWN[language].split()) & words_in(clean) == set()


@pytest.mark.parametrize("language", SNIPPETS)
def test_names_that_others_gave_stay(language: LanguageName) -> None:
    clean = renamed(SNIPPETS[language], language)
    assert [other for other in OTHERS[language].split() if other not in clean and f".{other}" not in clean] == [
        other for other in OTHERS[language].split() if other == "self.append"
    ]


def test_a_name_tells_what_it_was_the_name_of() -> None:
    clean = renamed("class UserAccount:\n    pass\ndef calculateTotal(userName):\n    return userName\n", "python")
    assert clean == "class class1:\n    pass\ndef func1(var1):\n    return var1\n"


def test_a_number_that_the_code_uses_already_is_left_out() -> None:
    assert renamed("var1 = 3\ntotal_cost = var1\n", "python") == "var1 = 3\nvar2 = var1\n"


def test_what_is_private_or_exported_stays_so() -> None:
    assert renamed("def _hidden():\n    pass\n", "python") == "def _func1():\n    pass\n"
    assert (
        renamed("package a\nfunc Shown() {}\nfunc hidden() {}\n", "go")
        == "package a\nfunc Func1() {}\nfunc func2() {}\n"
    )


def test_a_keyword_is_renamed_with_its_parameter_and_kept_where_it_is_anothers() -> None:
    own = "def pay(total_due): ...\npay(total_due=3)\nrequests.post(total_due=3)\n"
    assert renamed(own, "python") == "def func1(var1): ...\nfunc1(var1=3)\nrequests.post(total_due=3)\n"
    anybodys = "def pay(total_due): ...\ndef run_it(callback): callback(total_due=3)\n"
    assert renamed(anybodys, "python") == "def func1(total_due): ...\ndef func2(var1): var1(total_due=3)\n"


def test_methods_that_a_foreign_class_may_call_keep_their_names() -> None:
    source = "class Mine(View):\n    def get_page(self): self.hit_count = self._look()\n    def _look(self): ...\n"
    assert renamed(source, "python") == (
        "class class1(View):\n    def get_page(self): self.var1 = self._func1()\n    def _func1(self): ...\n"
    )


def test_structure_only_takes_what_comments_and_strings_say() -> None:
    source = (
        'def greet(name_of):\n    """Greets\n    Ann."""\n    return f"Hi {name_of}\\x41!" + "" + str(42)  # for Ann\n'
    )
    assert renamed(source, "python", structure_only=True) == (
        'def func1(var1):\n    """[STRING]\n"""\n    return f"[STRING]{var1}[STRING]" + "" + str(42)  # [COMMENT]\n'
    )


@pytest.mark.parametrize(
    ("language", "source", "clean"),
    [
        (
            "javascript",
            "/* for\n ann */ let a = 'ann' + /ann\\d/g;",
            "/* [COMMENT]\n*/ let var1 = '[STRING]' + /[STRING]/g;",
        ),
        ("go", 'x := "ann" // ann\ny := `ann`', 'var1 := "[STRING]" // [COMMENT]\nvar2 := `[STRING]`'),
        (
            "rust",
            'fn f() { g(r#"ann"#, "ann"); } /// ann',
            'fn func1() { g(r#"[STRING]"#, "[STRING]"); } /// [COMMENT]',
        ),
        ("java", 'class A { String s = "ann"; } // ann', 'class class1 { String var1 = "[STRING]"; } // [COMMENT]'),
        ("cpp", 'auto s = R"(ann)"; // ann', 'auto var1 = R"([STRING])"; // [COMMENT]'),
        ("c", 'char *s = "ann\\n"; /* ann */', 'char *var1 = "[STRING]"; /* [COMMENT]*/'),
    ],
)
def test_structure_only_in_other_languages(language: LanguageName, source: str, clean: str) -> None:
    assert renamed(source, language, structure_only=True) == clean


@pytest.mark.parametrize(
    ("language", "source", "clean"),
    [
        (
            "rust",
            "mod inner { pub struct Helper; pub fn assist_me() {} }\n"
            "use crate::inner::Helper;\nuse crate::inner::Helper as Aid;\nfn run_it() { inner::assist_me(); }\n",
            "mod var1 { pub struct class1; pub fn func1() {} }\n"
            "use crate::var1::class1;\nuse crate::var1::class1 as Aid;\nfn func2() { var1::func1(); }\n",
        ),
        (
            "cpp",
            "namespace shop { class Customer {}; int countThem(int n); }\n"
            "using shop::Customer;\nusing big::shop::Customer;\nshop::Customer one = shop::countThem(2);\n",
            "namespace class1 { class class2 {}; int func1(int var1); }\n"
            "using class1::class2;\nusing big::class1::class2;\nclass1::class2 var2 = class1::func1(2);\n",
        ),
        ("java", "import com.shop.Customer;\nclass Customer {}\n", "import com.shop.class1;\nclass class1 {}\n"),
    ],
)
def test_a_path_of_modules_names_what_the_point_declares_as_the_declaration_does(
    language: LanguageName, source: str, clean: str
) -> None:
    assert renamed(source, language) == clean


@pytest.mark.parametrize(
    ("language", "source", "kept"),
    [
        ("rust", "use std::mem::swap_all;\nfn swap_all() {}\n", "use std::mem::swap_all;"),
        ("cpp", "using std::swapAll;\nvoid swapAll();\n", "using std::swapAll;"),
    ],
)
def test_a_path_into_the_standard_library_stays(language: LanguageName, source: str, kept: str) -> None:
    clean = renamed(source, language)
    assert clean.startswith(kept)
    assert "func1" in clean
