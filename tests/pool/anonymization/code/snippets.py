"""Code in every language, as agents write it; and what it becomes."""

from flywheel.languages import LanguageName
from flywheel.pool.anonymization.code.points import rename_code
from flywheel.pool.anonymization.places import Place

PYTHON = """\
import json as codec
from dataclasses import dataclass, field
from functools import reduce

FEE_RATE = 0.25


@dataclass
class LineItem:
    unit_price: float
    amount_sold: int = 1

    @property
    def line_sum(self):
        return self.unit_price * self.amount_sold


class Basket:
    __slots__ = ("_line_items", "owner_label")

    def __init__(self, owner_label, *more_items, **extra_options):
        self.owner_label = owner_label
        self._line_items = list(more_items)
        for option_key in extra_options:
            print(option_key)

    def append(self, new_item):
        self._line_items.append(new_item)
        return self

    def grand_total(self, discount_rate=0.0):
        def discounted(running_sum, one_item):
            return running_sum + one_item.line_sum * (1 - discount_rate)

        return reduce(discounted, self._line_items, 0)


def describe(basket, *, tax_rate):
    whole = basket.grand_total(discount_rate=0.1)
    (first_item, *_), getter = basket._line_items, lambda thing: getattr(thing, "owner_label")
    if (taxed := whole * (1 + tax_rate)) > 10:
        text = f"{getter(basket)!r:>8} {taxed:.2f} {first_item.unit_price}"
    try:
        return codec.dumps({"text": text, "fee": FEE_RATE}, sort_keys=True)
    except ValueError as problem:
        return str(problem)


mine = Basket("ann", LineItem(unit_price=3.0), LineItem(2.5, amount_sold=4), color=1).append(LineItem(1.0))
print(describe(mine, tax_rate=FEE_RATE), [price_each for price_each in range(3)])
"""
JAVASCRIPT = """\
const { readFileSync } = require("fs");
import api, { fetchRates } from "./api";

class RateTable extends Map {
  #hitCount = 0;
  constructor(baseCurrency) {
    super();
    this.baseCurrency = baseCurrency;
  }
  lookUp(currencyCode) {
    this.#hitCount++;
    return this.get(currencyCode) ?? fetchRates(currencyCode, { timeout: 3 });
  }
}

function convertAll(amounts, { rateTable, rounding: roundTo = 2 }) {
  const convertOne = (amount) => amount * rateTable.lookUp("EUR");
  return amounts.map(convertOne).map((value) => `${value.toFixed(roundTo)} ${rateTable.baseCurrency}`);
}
module.exports.convertAll = convertAll;
"""
TYPESCRIPT = """\
import { HttpClient } from "@vendor/http";

interface UserProfile {
  displayName: string;
  loginCount?: number;
}
enum AccessLevel { Guest, Owner = 3 }

export class ProfileStore<ProfileType extends UserProfile> implements Store {
  constructor(private readonly httpClient: HttpClient, public cacheSeconds: number) {}
  async load(profileId: string): Promise<ProfileType | undefined> {
    const found = await this.httpClient.get<ProfileType>(`/profiles/${profileId}`);
    return this.touch(found as ProfileType);
  }
  private touch(profile: ProfileType): ProfileType {
    profile.loginCount = (profile.loginCount ?? 0) + AccessLevel.Owner + this.cacheSeconds;
    return profile;
  }
}
"""
JAVA = """\
package com.example.shop;
import java.util.List;
import com.vendor.Gateway;

public class Checkout extends Base implements Comparable<Checkout> {
    private final List<Integer> linePrices;
    private static final int MAX_LINES = 10;

    public Checkout(List<Integer> linePrices) { this.linePrices = linePrices; }
    @Override public String showForm() { return "form"; }
    @Override public int compareTo(Checkout otherOne) { return grandTotal(1) - otherOne.grandTotal(2); }
    public int grandTotal(int extraFee) {
        int runningSum = 0;
        for (Integer onePrice : linePrices) { runningSum += onePrice + Gateway.grandTotal(3); }
        return linePrices.stream().map(it -> it + 1).reduce(runningSum, Integer::sum) + this.grandTotal(extraFee);
    }
}
"""
GO = """\
package store

import (
	"fmt"
	"net/http"
)

type Store struct {
	UserCount int
	cacheSize int
}

func (s *Store) AddUser(userName string) (int, error) {
	s.UserCount += 1
	server := &http.Server{Addr: userName}
	fmt.Println(server.Addr, http.UserCount)
	for index, letter := range userName {
		fmt.Printf("%d %c", index, letter)
	}
	return s.UserCount + Store{UserCount: 3}.cacheSize, nil
}
"""
RUST = """\
use serde::Serialize;
use std::fmt;

#[derive(Serialize)]
struct Invoice { net_total: u32, next_one: Option<Box<Invoice>> }

enum Payment { ByCard { card_digits: u8 }, InCash(u32) }

impl fmt::Display for Invoice {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result { write!(out, "{}", self.net_total) }
}
impl Invoice {
    fn with_total(net_total: u32) -> Self { Invoice { net_total, next_one: None } }
    fn paid_by(&self, payment: &Payment) -> u32 {
        let tax_share = self.net_total / 5;
        println!("{tax_share} of {}", self.net_total);
        match payment {
            Payment::ByCard { card_digits, .. } => *card_digits as u32 + tax_share,
            Payment::InCash(handed_over) => handed_over - self.net_total,
        }
    }
}
"""
C = """\
#include <stdio.h>
#define MAX_ORDERS 10
#define SQUARED(operand) ((operand) * (operand))

typedef struct order { int line_sum; struct order *next_order; } order_t;

static int *find_order(const order_t *first_order, int (*compare_by)(int, int)) {
    static int order_sums[MAX_ORDERS];
    for (int each = 0; each < MAX_ORDERS; each++)
        order_sums[each] = SQUARED(first_order->line_sum) + compare_by(each, 1);
    printf("%d", order_sums[0]);
    return order_sums;
}
int main(int argument_count, char **arguments) {
    order_t my_order = { .line_sum = 3 };
    return *find_order(&my_order, NULL);
}
"""
CPP = """\
#include <string>
#include <vector>
namespace shop {
template <typename ItemType>
class Basket : public Printable {
 public:
  explicit Basket(std::string ownerLabel) : ownerLabel_(std::move(ownerLabel)) {}
  void addItem(const ItemType& newItem) { lineItems_.push_back(newItem); }
  std::string describe() const override;
  int countItems() const;
 private:
  std::vector<ItemType> lineItems_;
  std::string ownerLabel_;
};
template <typename ItemType>
int Basket<ItemType>::countItems() const {
  auto wholeCount = lineItems_.size();
  for (const auto& oneItem : lineItems_) wholeCount += oneItem;
  return [wholeCount](int extra) { return extra + wholeCount; }(2);
}
}
int main() {
  shop::Basket<int> basketOne("x");
  basketOne.addItem(3);
  return basketOne.countItems();
}
"""
SNIPPETS: dict[LanguageName, str] = {
    "python": PYTHON,
    "javascript": JAVASCRIPT,
    "typescript": TYPESCRIPT,
    "java": JAVA,
    "go": GO,
    "rust": RUST,
    "c": C,
    "cpp": CPP,
}


def renamed_texts(*texts: str, structure_only: bool = False) -> list[str]:
    """The texts of one point after renaming."""
    container = list(texts)
    rename_code([Place(container, number, text) for number, text in enumerate(texts)], structure_only=structure_only)
    return container


def renamed(source: str, language: str, *, structure_only: bool = False) -> str:
    """One piece of code after renaming, by way of a fenced block."""
    (text,) = renamed_texts(f"```{language}\n{source}\n```", structure_only=structure_only)
    return text.split("\n", 1)[1].removesuffix("\n```")
