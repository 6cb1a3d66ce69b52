"""Sets the sample invoice: two addresses, key and value pairs, a table of items with its totals."""

from __future__ import annotations

from source.article import pipe_table
from source.fonts import SANS, SANS_BOLD
from source.pdf import Pdf, Sheet

LEFT, RIGHT = 56.0, 539.0
SELLER = ("Wick and Ledger", "12 Sample Quay, Port Example")
BUYER = ("Harbour Office of Lower Sampling", "3 Invented Street", "Lower Sampling")
FACTS = (
    ("Invoice number", "2024-0117"),
    ("Date", "9 March 2024"),
    ("Due", "8 April 2024"),
    ("Customer", "LS-204"),
)
ITEMS = (
    ("1", "Lamp oil, cold-pressed, can of 5 l", "12", "18.50", "222.00"),
    ("2", "Cotton wick, 8 mm, by the metre", "40", "0.95", "38.00"),
    ("3", "Log book, ruled, 180 pages, bound in sailcloth", "6", "14.90", "89.40"),
    ("4", "Pencil, soft, box of ten", "3", "11.20", "33.60"),
    ("5", "Tide staff, painted, 6 m, with brass numerals", "1", "310.00", "310.00"),
)
HEAD = ("No.", "Item", "Quantity", "Price", "Amount")
TOTALS = (("Net", "693.00"), ("VAT 20 %", "138.60"), ("Total EUR", "831.60"))
TERMS = "Payable within 30 days without deduction. Goods remain ours until they are paid for."
ACCOUNT = "Account 000 111 222, Bank of Examples. Please give the invoice number."
EDGES = (LEFT, LEFT + 32, LEFT + 290, LEFT + 350, LEFT + 412, RIGHT)


def make() -> tuple[bytes, str]:
    """The PDF and its expected markdown."""
    pdf = Pdf("Invoice 2024-0117")
    sheet = pdf.sheet()
    head(sheet)
    bottom = items(sheet, 300)
    sheet.text(LEFT, bottom + 40, TERMS, SANS, 9)
    sheet.text(LEFT, bottom + 56, ACCOUNT, SANS, 9)
    return pdf.save(), markdown()


def head(sheet: Sheet) -> None:
    sheet.area(0, 0, sheet.size[0], 8, (0.15, 0.3, 0.45))
    sheet.text(LEFT, 62, SELLER[0], SANS_BOLD, 15, colour=(0.15, 0.3, 0.45))
    sheet.text(LEFT, 78, SELLER[1], SANS, 9)
    sheet.text(LEFT, 142, "Invoice", SANS_BOLD, 24)
    sheet.text(LEFT, 182, "Bill to", SANS_BOLD, 9)
    for i, line in enumerate(BUYER):
        sheet.text(LEFT, 198 + 14 * i, line, SANS, 10)
    for i, (key, value) in enumerate(FACTS):
        sheet.text(356, 182 + 15 * i, key, SANS_BOLD, 9)
        sheet.text(RIGHT, 182 + 15 * i, value, SANS, 10, align="right")


def items(sheet: Sheet, top: float) -> float:
    """The table; returns its lower edge."""
    high = 22.0
    sheet.area(LEFT, top, RIGHT - LEFT, high, (0.88, 0.91, 0.94))
    rows = [HEAD, *ITEMS, *(("", "", "", key, value) for key, value in TOTALS)]
    for i, row in enumerate(rows):
        face = SANS_BOLD if i == 0 or i == len(rows) - 1 else SANS
        for j, text in enumerate(row):
            if not text:
                continue
            at = EDGES[j + 1] - 6 if j > 1 else EDGES[j] + 6
            sheet.text(at, top + high * i + 14.5, text, face, 9.5, align="right" if j > 1 else "left")
    bottom, body = top + high * len(rows), top + high * (len(ITEMS) + 1)
    for i in range(len(rows) + 1):
        y = top + high * i
        sheet.line(LEFT if y <= body else EDGES[3], y, RIGHT, y, 0.6)
    for j, x in enumerate(EDGES):
        sheet.line(x, top, x, bottom if j >= 3 else body, 0.6)
    return bottom


def markdown() -> str:
    facts = "\n".join(f"{key} {value}" for key, value in FACTS)
    rows = (HEAD, *ITEMS, *(("", "", "", key, value) for key, value in TOTALS))
    parts = ["\n".join(SELLER), "# Invoice", "\n".join(("Bill to", *BUYER)), facts, pipe_table(rows), TERMS, ACCOUNT]
    return "\n\n".join(parts) + "\n"
