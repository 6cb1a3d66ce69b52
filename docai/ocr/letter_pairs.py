"""How unusual pairs of letters are in languages written in Latin script: what tells text from a broken encoding.

The table holds, for each pair of letters a to z (accents off, rows by first letter), minus the binary logarithm of the
pair's frequency, less 4, kept to 0..9: the mean over the 20,000 commonest words of 25 languages in wordfreq 3.1.1.
Text in any of these languages scores 3.6 to 4.5 on average; letters at random 7.0, ciphers of English 6.2 to 7.5.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_TABLE = (
    "55446655454332658233447955 47994999499699599699599969 49894993497798499786599997 39982999399796499678489976 "
    "55545646454332769223558775 59996899599899599697799989 49994977589797599677599969 39994999598798499796579989 "
    "46443746654342469433659886 49984999699998599979599999 39984997486698499665589979 28963979377477499965579969 "
    "36993999499868469978599979 39533735376795499943589958 65547647565443659344556986 39994997599699479487699999 "
    "99999999999999999999499999 37752868386666489654579977 39593998384677459953579976 29992994387797399464478969 "
    "57654868575553569444779976 39993999499897499779799979 59996998699999799999999989 99999999899999999999999999 "
    "58786999798777699767889999 59974999599887699998799979"
)
UNUSUALNESS: NDArray[np.int64] = np.array(list(map(int, _TABLE.replace(" ", ""))), np.int64).reshape(26, 26)
IMPLAUSIBLE = 5.6  # mean over a text from which on it is no language
ENOUGH = 30  # different pairs that it takes to tell


def letter_numbers(codes: NDArray[np.uint32]) -> NDArray[np.int64]:
    """0..25 for a to z in either case, -1 for all else."""
    lower = codes.astype(np.int64) | 0x20
    return np.where((lower >= 97) & (lower <= 122) & (codes < 128), lower - 97, -1)


def unusualness(text: str) -> tuple[float, int]:
    """(mean over the pairs of neighbouring letters, number of pairs)."""
    letters = letter_numbers(np.array(list(map(ord, text)) or [0], np.uint32))
    pairs = np.flatnonzero((letters[1:] >= 0) & (letters[:-1] >= 0))
    if not len(pairs):
        return 0.0, 0
    return float(UNUSUALNESS[letters[pairs], letters[pairs + 1]].mean()), len(pairs)
