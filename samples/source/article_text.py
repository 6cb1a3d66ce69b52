"""What the sample article says. All of it is invented: people, places, figures and references."""

from __future__ import annotations

from dataclasses import dataclass

TITLE = "Tide Logs Kept by Hand: What Paper Tells That Gauges Do Not"
AUTHORS = "Ilsabet Fernhollow, Tarn Quillby and Odo Marrowick"
PLACE = "Institute of Imaginary Harbours, Port Example"
RUNNING = "Annals of Imaginary Harbours, volume 3"
FOOTER = "Made for testing; every word and number is invented"
FIRST_PAGE = 41

ABSTRACT = (
    "For ninety years the harbour masters of Port Example wrote the height of the tide into bound books, twice a day "
    "and in every weather. We read 212 of these books again and compare them with the automatic gauge that replaced "
    "them. The paper is less exact than the gauge by a factor of four, yet it records what no gauge does: doubt, "
    "corrections and the reasons for both. We describe how the books were read, how far two readers agree, and what "
    "the margins say about storms."
)


@dataclass(frozen=True)
class Heading:
    level: int
    text: str


@dataclass(frozen=True)
class Para:
    text: str
    indent: bool = True


@dataclass(frozen=True)
class Numbered:
    items: tuple[str, ...]


@dataclass(frozen=True)
class Formula:
    latex: str
    number: str


@dataclass(frozen=True)
class Grid:
    """A table: rows of texts. `ruled`: every cell framed, with the first two rows as its head; else three rules."""

    caption: str
    rows: tuple[tuple[str, ...], ...]
    ruled: bool = False


@dataclass(frozen=True)
class Chart:
    caption: str


@dataclass(frozen=True)
class Photo:
    caption: str


@dataclass(frozen=True)
class References:
    items: tuple[str, ...]


@dataclass(frozen=True)
class Note:
    """A footnote: drawn at the foot of the column where its mark stands."""

    mark: str
    text: str


Part = Heading | Para | Numbered | Formula | Grid | Chart | Photo | References

NOTE = Note("1", "A fathom of the old harbour law is 1.76 metres, not 1.83; all heights here are in metres.")

HYPHENS = """
    har-bour in-stru-ment in-stru-ments mea-sure-ment mea-sure-ments au-to-mat-ic com-pare dif-fer-ence dif-fer-ences
    agree-ment read-ing read-ings read-ers cor-rec-tion cor-rec-tions hand-writ-ing let-ters num-ber num-bers
    re-cord-ed re-cords de-scribe par-tic-u-lar im-pos-si-ble ob-serv-er ob-serv-ers weath-er vol-umes tran-scribed
    tran-scrip-tion sep-a-rate sep-a-rate-ly sur-vey pen-cil win-ter sum-mer morn-ing evening en-try en-tries
    un-cer-tain un-cer-tain-ty ev-i-dence re-mark re-marks mar-gin mar-gins har-bours con-di-tion con-di-tions
    re-mem-ber be-cause with-out be-fore af-ter nev-er-the-less nor-mal-ly sys-tem-at-ic med-i-an dis-a-gree-ment
    sev-er-al ques-tion ques-tions an-swer mas-ter mas-ters op-er-a-tor au-thor-i-ties con-tin-ued fig-ures lan-tern
"""

PARTS: tuple[Part, ...] = (
    Heading(1, "1 Introduction"),
    Para(
        "A tide gauge answers one question, and it answers it well: how high was the water at this moment? A person "
        "who keeps a log answers more than that. The harbour masters of Port Example wrote down what they saw, and "
        "where they had not seen it clearly they wrote down that as well. Some entries were struck out in another "
        "ink, and some carry a remark such as “lantern out, height by feel”.",
        indent=False,
    ),
    Para(
        "Such remarks were left out when the books were first transcribed, because the forms of that survey had a "
        "field for a number and none for a doubt. The instruments that followed recorded only the number. We went "
        "back to the paper in order to find out what had been lost, and whether it would have changed any of the "
        "published averages.^1^"
    ),
    Para(
        "Our answer is short. The averages stand, but their uncertainty does not: it is larger in winter than anyone "
        "had assumed, and smaller in summer. All transcriptions are kept in the [open harbour archive]"
        "(https://archive.example.org/tides)."
    ),
    Heading(1, "2 Material and method"),
    Heading(2, "2.1 The books"),
    Para(
        "There are 212 volumes of about 180 pages each. They were kept in a dry loft and are in good condition, "
        "although the first nine have lost their covers. A page holds one week, a line holds one reading, and the "
        "margins hold everything else. Every book was handled in the same way:",
        indent=False,
    ),
    Numbered(
        (
            "Each page was photographed twice, in raking light and in plain light.",
            "Two readers transcribed all numbers separately, without seeing the work of the other.",
            "A third reader settled the entries on which the two differed, and noted why.",
            "Remarks in the margins were transcribed letter by letter, with their errors kept.",
        )
    ),
    Heading(2, "2.2 Agreement of readers"),
    Para(
        "For every page we measure how far two readers agree. Let *a* and *b* be the strings of digits that they "
        "wrote, and *d* the number of single changes that turn one into the other. Their agreement is",
        indent=False,
    ),
    Formula(r"s(a, b) = 1 - \frac{d(a, b)}{\max(|a|, |b|)}", "(1)"),
    Para(
        "which is 1 for two equal strings and 0 for two that share nothing. We call a page *settled* if its agreement "
        "is at least 0.98. Pages below that went to the third reader, and so did every tenth page above it, as a test "
        "of the first two.",
        indent=False,
    ),
    Heading(1, "3 Results"),
    Para(
        "Table 1 lists the agreement by decade. It is lowest for the oldest books, where the ink has faded, and again "
        "in the years when a single observer kept the log in pencil. Nowhere does it fall below nine in ten.",
        indent=False,
    ),
    Grid(
        "Table 1. Agreement of two readers by decade.",
        (
            ("Decade", "Volumes", "Pages", "Agreement"),
            ("First", "18", "3 204", "0.931"),
            ("Second", "21", "3 790", "0.958"),
            ("Third", "24", "4 296", "0.974"),
            ("Fourth", "26", "4 655", "0.912"),
            ("Fifth", "27", "4 871", "0.983"),
        ),
    ),
    Para(
        "Figure 1 sets a week of readings beside the gauge. The hand follows the instrument closely at high water and "
        "less closely at low water, when the staff stands in mud. The median difference is 4 centimetres; the gauge "
        "itself is good to 1 centimetre."
    ),
    Chart("Figure 1. One week of tides: gauge (line) and log (dots), in metres."),
    Para(
        "The remarks tell more than the numbers. Of 38 160 readings, 2 417 carry one, and three in four of these were "
        "written between November and March. The most frequent words are ice, dark and guess. A reading with a remark "
        "differs from the gauge by 11 centimetres, nearly three times as much as one without. The observers knew when "
        "they were wrong, and they said so."
    ),
    Heading(2, "3.1 Springs and neaps"),
    Para(
        "Table 2 gives the mean heights of high and low water for three harbours. The paper and the gauge agree at "
        "Port Example. At Lower Sampling the low waters of the log are systematically too high, because the staff "
        "was read from the quay and not from the steps.",
        indent=False,
    ),
    Grid(
        "Table 2. Mean heights in metres at spring and neap tides.",
        (
            ("Harbour", "Spring tide", "", "Neap tide", ""),
            ("", "High", "Low", "High", "Low"),
            ("Port Example", "5.82", "0.64", "4.47", "1.93"),
            ("Lower Sampling", "6.10", "1.02", "4.71", "2.38"),
            ("Isle of Drafts", "4.95", "0.41", "3.88", "1.57"),
        ),
        ruled=True,
    ),
    Para(
        "The difference of 38 centimetres at low water is larger than any change of sea level that the series has "
        "been used to show. It appears in one book, continues for eleven years and ends with the arrival of a new "
        "harbour master, who writes on his first page: “Read from the steps. All before me is too high.”"
    ),
    Photo("Figure 2. The harbour basin at low water, seen from the steps."),
    Heading(1, "4 Discussion"),
    Para(
        "It is tempting to treat a log as a poor gauge. It is better to treat it as a witness. A witness is less "
        "exact than an instrument, but can be asked how sure he was, and the answer is often on the page. Whoever "
        "transcribes only the numbers throws that answer away.",
        indent=False,
    ),
    Para(
        "Our method has limits. Two readers who share a school will share its errors, and equation (1) cannot see an "
        "error that both of them make. The third reader found 41 such cases among 1 950 test pages. Nor do we know "
        "how many doubts were never written down."
    ),
    Heading(1, "5 Conclusion"),
    Para(
        "Logs that were kept by hand deserve to be read in full, margins included. What they lose in precision they "
        "give back in honesty, and for the study of storms, when gauges fail first, they may be all that is left.",
        indent=False,
    ),
    Heading(1, "References"),
    References(
        (
            "Quillby, T. The ink of harbour masters. Annals of Imaginary Harbours 1, 7–19.",
            "Marrowick, O. and Fernhollow, I. Reading in raking light. Proceedings of the Sample Society 12, 101–118.",
            "Port Example Harbour Office. Tide books, volumes 1 to 212. Loft of the old custom house.",
        )
    ),
)
