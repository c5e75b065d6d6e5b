"""What the sanitiser knows of characters, frozen (docs/contract/construct.md §7).

`unicodedata` answers by the Unicode version of the interpreter; these tables do not. Ranges are
hexadecimal and inclusive. TABLES_SHA256 covers every one of them: it goes into the evidence.
"""

import re
from types import MappingProxyType

from theatre.engine.canonical_json import canonical_sha256

# Every mandatory line break of Unicode but the line feed; a CRLF is one.
LINE_BREAKS = r"\r\n|[\r\x0b\x0c\x85\u2028\u2029]"

# Characters that are removed everywhere, by class.
REMOVED = MappingProxyType(
    {
        "control": "0-8 e-1f 7f-84 86-9f",
        "bidi": "61c 200e-200f 202a-202e 2066-2069",
        "tag": "e0000-e007f",
        "variation-selector": "fe00-fe0d e0100-e01ef",
        # Default-ignorable code points and the interlinear annotation marks.
        "zero-width": "ad 34f 115f-1160 17b4-17b5 180e 200b 2060-2065 206a-206f 3164 feff ffa0 "
        "fff0-fffb 1bca0-1bca3 1d173-1d17a e0080-e00ff e01f0-e0fff",
    }
)

# Characters without a defined meaning; each becomes U+FFFD.
REPLACED = MappingProxyType(
    {
        "surrogate": "d800-dfff",
        "noncharacter": "fdd0-fdef fffe-ffff 1fffe-1ffff 2fffe-2ffff 3fffe-3ffff 4fffe-4ffff "
        "5fffe-5ffff 6fffe-6ffff 7fffe-7ffff 8fffe-8ffff 9fffe-9ffff afffe-affff bfffe-bffff "
        "cfffe-cffff dfffe-dffff efffe-effff ffffe-fffff 10fffe-10ffff",
        "private-use": "e000-f8ff f0000-ffffd 100000-10fffd",
    }
)

# Blocks of the scripts whose spelling needs joiners: Arabic and its kin, the Indic scripts,
# Tibetan, Myanmar, Khmer, Mongolian and their relatives (Unicode 15.0, Blocks.txt).
JOINING_SCRIPTS = (
    "600-74f 750-7ff 840-8ff 900-dff f00-fff 1000-109f 1780-17ff 1800-18af 1900-194f 1a20-1aaf "
    "1b00-1bff 1c00-1c4f 1cd0-1cff a800-a82f a840-a87f a880-a8df a8e0-a8ff a930-a95f a980-a9df "
    "a9e0-a9ff aa00-aa5f aa60-aa7f aae0-aaff abc0-abff fb50-fdcf fdf0-fdff fe70-fefe "
    "10a00-10a5f 10ac0-10aff 10b80-10baf 10d00-10d3f 10f30-10fdf 11000-1107f 11080-110cf "
    "11100-1114f 11150-1117f 11180-111df 111e0-111ff 11200-1124f 11280-112ff 11300-1137f "
    "11400-1147f 11480-114df 11580-115ff 11600-1165f 11660-1167f 11680-116cf 11700-1174f "
    "11800-1184f 11900-1195f 119a0-119ff 11a00-11aaf 11c00-11cbf 11d00-11daf 11ee0-11eff "
    "1e900-1e95f 1ee00-1eeff"
)
MONGOLIAN_LETTERS = "1820-18aa"
MONGOLIAN_SELECTORS = "180b-180d 180f"

# Extended_Pictographic (Unicode 15.0, emoji-data.txt).
PICTOGRAPHS = (
    "a9 ae 203c 2049 2122 2139 2194-2199 21a9-21aa 231a-231b 2328 2388 23cf 23e9-23f3 23f8-23fa "
    "24c2 25aa-25ab 25b6 25c0 25fb-25fe 2600-2605 2607-2612 2614-2685 2690-2705 2708-2712 2714 "
    "2716 271d 2721 2728 2733-2734 2744 2747 274c 274e 2753-2755 2757 2763-2767 2795-2797 27a1 "
    "27b0 27bf 2934-2935 2b05-2b07 2b1b-2b1c 2b50 2b55 3030 303d 3297 3299 1f000-1f0ff "
    "1f10d-1f10f 1f12f 1f16c-1f171 1f17e-1f17f 1f18e 1f191-1f19a 1f1ad-1f1e5 1f201-1f20f 1f21a "
    "1f22f 1f232-1f23a 1f23c-1f23f 1f249-1f3fa 1f400-1f53d 1f546-1f64f 1f680-1f6ff 1f774-1f77f "
    "1f7d5-1f7ff 1f80c-1f80f 1f848-1f84f 1f85a-1f85f 1f888-1f88f 1f8ae-1f8ff 1f90c-1f93a "
    "1f93c-1f945 1f947-1faff 1fc00-1fffd"
)
EMOJI_MODIFIERS = "1f3fb-1f3ff"

# What takes part in NFC as of Unicode 14.0, the version of the oldest supported Python: a
# combining class, a canonical decomposition, or a place in one. Later versions of Unicode add
# characters and change none of these, so NFC of these alone is the same everywhere.
NFC_ACTIVE = (
    "a8 c0-cf d1-d6 d8-dd e0-ef f1-f6 f8-fd ff-10f 112-125 128-130 134-137 139-13e 143-148 "
    "14c-151 154-165 168-17f 1a0-1a1 1af-1b0 1b7 1cd-1dc 1de-1e3 1e6-1f0 1f4-1f5 1f8-21b "
    "21e-21f 226-233 292 300-34e 350-36f 374 37e 385-38a 38c 38e-391 395 397 399 39f 3a1 3a5 "
    "3a9-3b1 3b5 3b7 3b9 3bf 3c1 3c5 3c9-3ce 3d2-3d4 400-401 403 406-407 40c-40e 410 413 "
    "415-41a 41e 423 427 42b 42d 430 433 435-43a 43e 443 447 44b 44d 450-451 453 456-457 "
    "45c-45e 474-477 483-487 4c1-4c2 4d0-4d3 4d6-4df 4e2-4f5 4f8-4f9 591-5bd 5bf 5c1-5c2 "
    "5c4-5c5 5c7 5d0-5d6 5d8-5dc 5de 5e0-5e1 5e3-5e4 5e6-5ea 5f2 610-61a 622-627 648 64a-65f "
    "670 6c0-6c2 6d2-6d3 6d5-6dc 6df-6e4 6e7-6e8 6ea-6ed 711 730-74a 7eb-7f3 7fd 816-819 "
    "81b-823 825-827 829-82d 859-85b 898-89f 8ca-8e1 8e3-8ff 915-917 91c 921-922 928-929 92b "
    "92f-931 933-934 93c 94d 951-954 958-95f 9a1-9a2 9af 9bc 9be 9c7 9cb-9cd 9d7 9dc-9dd 9df "
    "9fe a16-a17 a1c a2b a32-a33 a36 a38 a3c a4d a59-a5b a5e abc acd b21-b22 b3c b3e b47-b48 "
    "b4b-b4d b56-b57 b5c-b5d b92 b94 bbe bc6-bc7 bca-bcd bd7 c3c c46 c48 c4d c55-c56 cbc "
    "cbf-cc0 cc2 cc6-cc8 cca-ccb ccd cd5-cd6 d3b-d3c d3e d46-d47 d4a-d4d d57 dca dcf dd9-dda "
    "ddc-ddf e38-e3a e48-e4b eb8-eba ec8-ecb f18-f19 f35 f37 f39 f40 f42-f43 f4c-f4d f51-f52 "
    "f56-f57 f5b-f5c f69 f71-f76 f78 f7a-f7d f80-f84 f86-f87 f90 f92-f93 f9c-f9d fa1-fa2 "
    "fa6-fa7 fab-fac fb2-fb3 fb5 fb7 fb9 fc6 1025-1026 102e 1037 1039-103a 108d 1100-1112 "
    "1161-1175 11a8-11c2 135d-135f 1714-1715 1734 17d2 17dd 18a9 1939-193b 1a17-1a18 1a60 "
    "1a75-1a7c 1a7f 1ab0-1abd 1abf-1ace 1b05-1b0e 1b11-1b12 1b34-1b35 1b3a-1b44 1b6b-1b73 "
    "1baa-1bab 1be6 1bf2-1bf3 1c37 1cd0-1cd2 1cd4-1ce0 1ce2-1ce8 1ced 1cf4 1cf8-1cf9 1dc0-1e99 "
    "1e9b 1ea0-1ef9 1f00-1f15 1f18-1f1d 1f20-1f45 1f48-1f4d 1f50-1f57 1f59 1f5b 1f5d 1f5f-1f7d "
    "1f80-1fb4 1fb6-1fbc 1fbe-1fbf 1fc1-1fc4 1fc6-1fd3 1fd6-1fdb 1fdd-1fef 1ff2-1ff4 1ff6-1ffe "
    "2000-2001 20d0-20dc 20e1 20e5-20f0 2126 212a-212b 2190 2192 2194 219a-219b 21ae 21cd-21d0 "
    "21d2 21d4 2203-2204 2208-2209 220b-220c 2223-2226 223c 2241 2243-2245 2247-2249 224d "
    "2260-2262 2264-2265 226d-227d 2280-2289 2291-2292 22a2 22a8-22a9 22ab-22af 22b2-22b5 "
    "22e0-22e3 22ea-22ed 2329-232a 2adc-2add 2cef-2cf1 2d7f 2de0-2dff 302a-302f 3046 304b-3062 "
    "3064-3069 306f-307d 3094 3099-309a 309d-309e 30a6 30ab-30c2 30c4-30c9 30cf-30dd 30ef-30f2 "
    "30f4 30f7-30fa 30fd-30fe a66f a674-a67d a69e-a69f a6f0-a6f1 a806 a82c a8c4 a8e0-a8f1 "
    "a92b-a92d a953 a9b3 a9c0 aab0 aab2-aab4 aab7-aab8 aabe-aabf aac1 aaf6 abed ac00-d7a3 "
    "f900-fa0d fa10 fa12 fa15-fa1e fa20 fa22 fa25-fa26 fa2a-fa6d fa70-fad9 fb1d-fb1f fb2a-fb36 "
    "fb38-fb3c fb3e fb40-fb41 fb43-fb44 fb46-fb4e fe20-fe2f 101fd 102e0 10376-1037a 10a0d 10a0f "
    "10a38-10a3a 10a3f 10ae5-10ae6 10d24-10d27 10eab-10eac 10f46-10f50 10f82-10f85 11046 11070 "
    "1107f 11099-1109c 110a5 110ab 110b9-110ba 11100-11102 11127 1112e-1112f 11131-11134 11173 "
    "111c0 111ca 11235-11236 112e9-112ea 1133b-1133c 1133e 11347 1134b-1134d 11357 11366-1136c "
    "11370-11374 11442 11446 1145e 114b0 114b9-114be 114c2-114c3 115af 115b8-115bb 115bf-115c0 "
    "1163f 116b6-116b7 1172b 11839-1183a 11930 11935 11938 1193d-1193e 11943 119e0 11a34 11a47 "
    "11a99 11c3f 11d42 11d44-11d45 11d97 16af0-16af4 16b30-16b36 16ff0-16ff1 1bc9e 1d157-1d158 "
    "1d15e-1d169 1d16d-1d172 1d17b-1d182 1d185-1d18b 1d1aa-1d1ad 1d1b9-1d1c0 1d242-1d244 "
    "1e000-1e006 1e008-1e018 1e01b-1e021 1e023-1e024 1e026-1e02a 1e130-1e136 1e2ae 1e2ec-1e2ef "
    "1e8d0-1e8d6 1e944-1e94a 2f800-2fa1d"
)

# Special tokens of the common chat formats (ChatML, Llama, Mistral, Gemma, Qwen, DeepSeek, Phi,
# Command R, GLM). The expression finds the place after a token's first character.
SPECIAL_TOKENS = (
    r"(?<=<)(?=[|\uff5c](?! )[^|\uff5c<>\[\n]{1,64}(?<! )[|\uff5c]>)"
    r"|(?<=<)(?=</?SYS>>)"
    r"|(?<=<)(?=/?(?:s|bos|eos|pad|unk|mask|sop|bos_token|eos_token|start_of_turn|end_of_turn"
    r"|start_of_image|end_of_image|tools|tool_call|tool_calls|tool_response|function_calls"
    r"|think)>)"
    r"|(?<=\[)(?=/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS|TOOL_CONTENT"
    r"|THINK|PREFIX|MIDDLE|SUFFIX|gMASK)\])"
)
# Roles that open a line (Claude, Vicuna, Alpaca and plain transcripts), as far as their first
# letter.
ROLE_MARKERS = (
    r"^[ \t>#*_-]*+(?=(?:system|user|human|assistant|developer)[*_]*+[ \t]*+:)[a-z]"
    r"|^[ \t>*_-]*+#[ \t>#*_-]*+(?=(?:instruction|input|response)[*_]*+[ \t]*+:)[a-z]"
)

TABLES_SHA256 = canonical_sha256(
    {
        "line_breaks": LINE_BREAKS,
        "removed": dict(REMOVED),
        "replaced": dict(REPLACED),
        "joining_scripts": JOINING_SCRIPTS,
        "mongolian_letters": MONGOLIAN_LETTERS,
        "mongolian_selectors": MONGOLIAN_SELECTORS,
        "pictographs": PICTOGRAPHS,
        "emoji_modifiers": EMOJI_MODIFIERS,
        "nfc_active": NFC_ACTIVE,
        "special_tokens": SPECIAL_TOKENS,
        "role_markers": ROLE_MARKERS,
    }
)


def character_set(ranges: str) -> str:
    """Return ranges as the inside of a character set of a regular expression."""
    ends = (text.split("-") for text in ranges.split())
    return "".join(
        f"{re.escape(chr(int(pair[0], 16)))}-{re.escape(chr(int(pair[-1], 16)))}" for pair in ends
    )
