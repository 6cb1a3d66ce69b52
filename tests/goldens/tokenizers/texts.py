"""The texts that tokenizers are compared on, and those that the tiny ones are trained on."""

from __future__ import annotations

SENTENCES = (
    "The quick brown fox jumps over the lazy dog, 1234567890 times.",
    "It's what we'll do, isn't it? They've said I'm \"right\".",
    "Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich.",
    "Voix ambiguë d'un cœur qui, au zéphyr, préfère les jattes de kiwis.",
    "Съешь же ещё этих мягких французских булок, да выпей чаю.",
    "الخط العربي جميل جدا والكتابة من اليمين إلى اليسار",
    "דג סקרן שט בים מאוכזב ולפתע מצא לו חברה",
    "ऋषियों को सताने वाले दुष्ट राक्षसों के राजा रावण",
    "เป็นมนุษย์สุดประเสริฐเลิศคุณค่า",
    "いろはにほへと ちりぬるを 我が世誰ぞ常ならむ",
    "天地玄黃,宇宙洪荒。日月盈昃,辰宿列張。",
    "키스의 고유조건은 입술끼리 만나야 하고",
    "| a | b |\n|---|---|\n| 1 | 22 |\n",
    "def f(x):\n    return x  ** 2\n\n\nprint(f(3))\n",
)

CORPUS = SENTENCES * 4

TEXTS = (
    *SENTENCES,
    "",
    " ",
    "a",
    " a",
    "  two  spaces   and more    ",
    "\n",
    "\n\n",
    "a\n\nb\n\n\nc\td\t\te\r\nf",
    "don't DON'T we'LL 3.14159 2026-11-30 12:34 1e-6",
    "emoji 👍🏽 👩‍👩‍👧 🇩🇪 ☃️",
    "e\u0301 versus \u00e9, ﬁ ligature, ① and Å",
    "zero\u200bwidth, soft\u00adhyphen, nbsp\u00a0here, \ufeffbom, nul \x00 and \x1b escape",
    "ancient 𐎀𐎁 𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𠀀",
    "▁ is how pieces spell a space, ▁▁",
    "</s> <s> <unk> <0x0A> as text",
    "https://example.org/a/b?c=d&e=%20#f",
)

# With special tokens inside; what stands beside them must not be lost.
MARKED = (
    "<|im_start|>user\nhello<|im_end|>\n",
    "a <|im_start|> b<|im_end|>c",
    "<|im_start|><|im_start|>",
    " <|im_end|> ",
    "<think>inner</think> outer",
)
